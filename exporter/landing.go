// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	_ "embed" // the page and its style
	"fmt"
	"html/template"
	"net/http"
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
		Facts: nodeFacts(n), Troubles: troubles(list), Unchecked: uncheckedOf(list), Elsewhere: diagnose.Elsewhere(n), Excluded: n.Excluded,
		NCCL: n.NCCL, Collectors: h.collectorRows(n), Config: h.configView(),
		Links: h.links(), Version: version.Version,
	}
	h.explain(n, v.Troubles)
	v.Verdict = h.verdict(n, v.Troubles, len(v.Unchecked))
	v.conclude(h.probes.view(n.At).Verdict)
	for i := range n.HCAs {
		v.Devices = append(v.Devices, deviceRows(&n.HCAs[i], bad)...)
	}
	for _, f := range n.NCCL.Files {
		v.NCCLFiles = append(v.NCCLFiles, fileRow{f.Path, show(f.Exists, func(bool) string { return "read" })})
	}
	return v
}

// verdict is the first thing a reader sees. It is as bad as the worst finding.
func (h *handler) verdict(n *fabric.Node, found []trouble, unchecked int) cell {
	class := "unsure"
	if slices.ContainsFunc(found, func(t trouble) bool { return t.Class == "bad" }) {
		class = "bad"
	}
	none, isNone := noDevice(n, h.site)
	switch {
	case len(found) == 1:
		return cell{Text: "One thing looks wrong", Class: class}
	case len(found) > 1:
		return cell{Text: fmt.Sprintf("%d things look wrong", len(found)), Class: class}
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
