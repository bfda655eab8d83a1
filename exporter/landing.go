// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	_ "embed" // the page and its style
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

//go:embed landing.html
var landingHTML string

//go:embed landing.css
var landingCSS string

// landingTimeout bounds how long a human waits for a device that hangs.
const landingTimeout = 3 * time.Second

// landing shows the node to a human: what is wrong first, then what there is.
func (h *handler) landing(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(landingTimeout)
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	writeBy(w, deadline)
	n := h.observer.Observe(ctx, h.set.Want())
	var page bytes.Buffer
	if err := h.page.Execute(&page, h.view(n)); err != nil {
		h.log.Error("landing page", "err", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page.Bytes())
}

// view is what the template shows. Everything in it but CSS comes from outside and is escaped.
type view struct {
	CSS        template.CSS
	Title      string
	Note       string
	Facts      []string // of the node: kernel, GPUs, age
	Verdict    cell
	Troubles   []trouble
	Unchecked  []trouble
	Elsewhere  string // devices that pods have, which cannot be judged here; empty: there are none
	Probed     cell   // what probes complain of; empty: nothing
	Wait       int    // seconds until the page looks again by itself; 0: never
	GPUs       gpuSection
	Devices    []deviceRow
	Excluded   []string
	RoCE       []roceRow
	NCCL       fabric.NCCLConfig
	NCCLFiles  []fileRow
	Collectors []collectorRow
	Config     configView
	Links      []link
	Version    string
}

// cell is one value of a table: how it is shown, what it means, and where it was read.
type cell struct {
	Text  string
	Note  string
	Class string // good, bad, unsure, quiet or nothing
	Title string
}

type deviceRow struct {
	Name              string
	Board, PCI        cell
	Port              string
	Role, NetDev      cell
	State, Rate, GIDs cell
	Choice            cell
}

type fileRow struct {
	Path  string
	State cell
}

type collectorRow struct {
	Name, Help string
	State      cell
}

type link struct{ Href, Text, Note string }

func (h *handler) view(n *fabric.Node) view {
	list := diagnose.Run(n, nil)
	h.seen.see(list, true, n.At)
	bad := failingOf(list)
	v := view{
		CSS: template.CSS(landingCSS), Title: h.site.title, Note: h.site.note,
		Wait: secondReading(n), GPUs: gpuSectionOf(n, bad), RoCE: roceRows(n),
		Facts: nodeFacts(n), Troubles: troubles(list), Unchecked: unchecked(list), Elsewhere: diagnose.Elsewhere(n), Excluded: n.Excluded,
		NCCL: n.NCCL, Collectors: h.collectorRows(n), Config: h.configView(),
		Links: h.links(), Version: version.Version,
	}
	h.explain(n, v.Troubles)
	v.Verdict = h.verdict(n, len(v.Troubles), len(v.Unchecked))
	v.conclude(h.probes.view(n.At).Verdict)
	for i := range n.HCAs {
		v.Devices = append(v.Devices, deviceRows(&n.HCAs[i], bad)...)
	}
	for _, f := range n.NCCL.Files {
		v.NCCLFiles = append(v.NCCLFiles, fileRow{f.Path, show(f.Exists, func(bool) string { return "read" })})
	}
	return v
}

// verdict is the first thing a reader sees.
func (h *handler) verdict(n *fabric.Node, troubles, unchecked int) cell {
	none, isNone := noDevice(n, h.site)
	switch {
	case troubles == 1:
		return cell{Text: "One thing looks wrong", Class: "bad"}
	case troubles > 1:
		return cell{Text: fmt.Sprintf("%d things look wrong", troubles), Class: "bad"}
	case isNone:
		return cell{Text: diagnose.Sentence(none), Class: "unsure"}
	case h.set.Want()&fabric.WantHCA == 0:
		return cell{Text: "RDMA devices are not looked at: their collectors are disabled", Class: "unsure"}
	case unchecked > 0:
		return cell{Text: "Nothing looks wrong in what could be read", Class: "unsure"}
	default:
		return cell{Text: "Nothing looks wrong", Class: "good"}
	}
}

func nodeFacts(n *fabric.Node) []string {
	facts := []string{gpuCount(n.GPUs), portCount(n)}
	if k, ok := n.Host.Kernel.Get(); ok {
		facts = append(facts, "Linux "+k)
	}
	return append(facts, "observed "+n.At.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func gpuCount(f fabric.Fact[int]) string {
	switch n, ok := f.Get(); {
	case !ok:
		return "number of GPUs unknown"
	case n == 1:
		return "1 GPU"
	default:
		return strconv.Itoa(n) + " GPUs"
	}
}

func portCount(n *fabric.Node) string {
	if n.ClassPresent.State == fabric.Unknown {
		return "number of RDMA ports unknown"
	}
	ports, active := 0, 0
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			ports++
			if n.HCAs[i].Ports[k].State.Or("") == fabric.PortActive {
				active++
			}
		}
	}
	return fmt.Sprintf("%d RDMA ports, %d active", ports, active)
}

// deviceRows returns one row per port, or one for a device whose ports are not known.
func deviceRows(h *fabric.HCA, bad failing) []deviceRow {
	row := deviceRow{Name: h.Name, Board: show(h.BoardID, text), PCI: show(h.PCI, text)}
	if fw, ok := h.Firmware.Get(); ok {
		row.Board.Note = "firmware " + fw
	}
	if numa, ok := h.NUMANode.Get(); ok {
		row.PCI.Note = "NUMA " + strconv.Itoa(numa)
	}
	if h.Moved && len(h.Ports) == 0 {
		row.State = show(fabric.NotKnown[string](fabric.ReasonMoved, "", h.PCI.At), text)
		return []deviceRow{row}
	}
	if len(h.Ports) == 0 {
		row.State = cell{Text: "unknown", Note: "its ports could not be read", Class: "unsure"}
		if h.Restricted.Or(false) {
			row.State = cell{Text: "not touched", Note: "the device is restricted", Class: "quiet"}
		}
		return []deviceRow{row}
	}
	var rows []deviceRow
	for i := range h.Ports {
		p := &h.Ports[i]
		r := row
		r.Port = strconv.Itoa(p.Number)
		r.Role = show(p.Role, func(r fabric.Role) string { return string(r) })
		r.NetDev = netDevCell(p)
		r.State = stateCell(p, bad.of(portSubject(h, p), "port_active"))
		r.Rate = rateCell(p, bad.of(portSubject(h, p), "port_rate", "port_rate_agrees"))
		r.GIDs = show(p.GIDs.Entries, func(g []fabric.GID) string { return strconv.Itoa(len(g)) })
		r.Choice = choiceCell(p, bad.of(portSubject(h, p), "gid_usable"))
		rows = append(rows, r)
	}
	return rows
}

func matters(p *fabric.Port) bool {
	r := p.Role.Or("")
	return r == fabric.RoleCompute || r == fabric.RoleStorage
}

// netDevCell is the network interface with the link layer below it.
func netDevCell(p *fabric.Port) cell {
	c := show(p.NetDev, text)
	if layer, ok := p.LinkLayer.Get(); ok && c.Note == "" {
		c.Note = layerName(layer)
	}
	return c
}

func stateCell(p *fabric.Port, bad bool) cell {
	c := show(p.State, func(s fabric.PortState) string { return diagnose.Spaced(string(s)) })
	s, ok := p.State.Get()
	if !ok {
		return c
	}
	switch {
	case s == fabric.PortActive:
		c.Class = "good"
	case bad:
		c.Class = "bad"
	default:
		c.Class = "quiet"
	}
	if phys, ok := p.PhysState.Get(); ok && s != fabric.PortActive {
		c.Note = "link: " + diagnose.Spaced(string(phys))
	}
	return c
}

func rateCell(p *fabric.Port, bad bool) cell {
	c := show(p.Rate, func(r fabric.Rate) string { return diagnose.Gigabits(r.BytesPerSecond) })
	expected, ok := p.ExpectedRate.Get()
	if ok {
		c.Note = "expected " + diagnose.Gigabits(expected)
	}
	if bad {
		c.Class = "bad"
	}
	return c
}

func choiceCell(p *fabric.Port, bad bool) cell {
	c := show(p.GIDChoice, func(c fabric.GIDChoice) string {
		if c.GID == nil {
			return "entry " + strconv.Itoa(c.Index) + ", empty"
		}
		return c.GID.Addr.Unmap().String()
	})
	if choice, ok := p.GIDChoice.Get(); ok {
		c.Note = choice.Why
		if choice.GID != nil && choice.Rule != fabric.GIDByMatch && p.LinkLayer.Or("") == fabric.LinkEthernet {
			c.Note = diagnose.GIDTypeName(choice.GID.Type) + ": " + c.Note
		}
	}
	if bad {
		c.Class = "bad"
	}
	return c
}

func layerName(l fabric.LinkLayer) string {
	switch l {
	case fabric.LinkInfiniBand:
		return "InfiniBand"
	case fabric.LinkEthernet:
		return "Ethernet"
	default:
		return string(l)
	}
}

// show makes a cell of a fact; what is absent or unknown says so.
func show[T any](f fabric.Fact[T], text func(T) string) cell {
	switch m := f.Meta(); m.State {
	case fabric.OK:
		return cell{Text: text(f.Value), Title: m.Source}
	case fabric.Absent:
		return cell{Text: "none", Class: "quiet", Title: m.Source}
	default:
		if m.Reason == fabric.ReasonMoved { // a pod has it, which is as it should be
			return cell{Text: "elsewhere", Note: diagnose.ReasonText(m.Reason), Class: "quiet", Title: m.Source}
		}
		return cell{Text: "unknown", Note: diagnose.ReasonText(m.Reason), Class: "unsure", Title: m.Source}
	}
}

func text(s string) string { return s }

func (h *handler) collectorRows(n *fabric.Node) []collectorRow {
	health := h.set.Health(n)
	var rows []collectorRow
	for _, a := range collector.Collectors() {
		row := collectorRow{Name: a.Name, Help: a.Help, State: cell{Text: "disabled", Class: "quiet"}}
		if i := slices.IndexFunc(health, func(c collector.Health) bool { return c.Name == a.Name }); i >= 0 {
			row.State = collectorState(health[i])
		}
		rows = append(rows, row)
	}
	return rows
}

func collectorState(c collector.Health) cell {
	switch {
	case c.Timeout:
		return cell{Text: "no answer in time", Note: c.Why, Class: "bad"}
	case !c.Success:
		return cell{Text: "failing", Note: c.Why, Class: "bad"}
	case !c.Supported:
		return cell{Text: "nothing to do", Note: c.Why, Class: "quiet"}
	default:
		return cell{Text: "running", Class: "good"}
	}
}

// configView is the configuration in force.
type configView struct {
	Name              string
	Loaded            string
	Err               string
	Roles             []string
	Restricted        string
	Ports             string
	GPUs              string
	Rates             []string
	RoCE              string
	Environment       string
	Home              string
	Devices           string
	Runbooks, Grafana string
}

func (h *handler) configView() configView {
	s := h.config.current()
	p := s.config.policy
	v := configView{
		Name: s.config.file, Loaded: s.loaded.UTC().Format("2006-01-02 15:04:05 UTC"),
		Restricted: pattern(p.Restricted), Environment: s.config.nccl.Environment, Home: s.config.nccl.Home,
		Grafana: s.config.links.grafana,
	}
	if l := s.config.links.runbooks; l != defaultLinks().runbooks {
		v.Runbooks = l
	}
	if s.err != nil {
		v.Err = s.err.Error()
	}
	for _, r := range p.Roles {
		v.Roles = append(v.Roles, pattern(r.Device)+": "+string(r.Role))
	}
	if p.ComputePorts != nil {
		v.Ports = strconv.Itoa(*p.ComputePorts)
	}
	if p.GPUs != nil {
		v.GPUs = strconv.Itoa(*p.GPUs)
	}
	for _, r := range fabric.Roles() {
		if rate, ok := p.PortRates[r]; ok {
			v.Rates = append(v.Rates, string(r)+" "+diagnose.Gigabits(rate))
		}
	}
	v.RoCE = roceWishText(p.RoCE)
	switch d := h.flags.devices; {
	case d.Include != nil:
		v.Devices = "only " + pattern(d.Include)
	case d.Exclude != nil:
		v.Devices = "all but " + pattern(d.Exclude)
	}
	return v
}

// pattern shows a pattern for whole names as the user wrote it.
func pattern(re *regexp.Regexp) string {
	if re == nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(re.String(), "^(?:"), ")$")
}

// links are relative to the page, so that they hold behind any reverse proxy.
func (h *handler) links() []link {
	ls := []link{
		{strings.TrimPrefix(h.flags.telemetryPath, "/"), "Metrics", "what Prometheus reads"},
		{strings.TrimPrefix(probesPath, "/"), "Probes", "NCCL collectives on idle GPUs"},
		{"-/healthy", "Health", "the process is alive"},
		{"-/ready", "Readiness", "the node was observed once"},
	}
	if h.flags.enablePprof {
		ls = append(ls, link{"debug/pprof/", "Profiles", "of this exporter"})
	}
	return ls
}
