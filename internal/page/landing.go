// SPDX-License-Identifier: Apache-2.0

// Package page has the pages that people open in a browser: overview of the node, and what became of probes.
//
// A page may be asked by any number of goroutines at once, and is made anew each time. It loads nothing from elsewhere, runs no
// script, and escapes whatever comes from the node. Where a page cannot be made, it says so with status 500 and logs why.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

//go:embed landing.html
var landingHTML string

//go:embed landing.css
var landingCSS string

// SecurityPolicy is the Content-Security-Policy that all pages can be shown with: it allows their style and nothing else.
func SecurityPolicy() string {
	sum := sha256.Sum256([]byte(landingCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// LandingOptions says what the landing page shows.
type LandingOptions struct {
	Title    string // how the node is called; may be empty
	Note     string // a sentence about it; may be empty
	Instance string // the node by the name that Prometheus has for it; empty: it has none

	// Observe observes the node, with what the collectors want. It returns when ctx ends.
	Observe    func(context.Context) *fabric.Node
	Collectors *collector.Set
	// NoDevice says in words that the node has no RDMA device, where that is known.
	NoDevice func(*fabric.Node) (text string, none bool)

	Config  func() ConfigStatus // what is in force
	Devices fabric.Filter       // the devices that flags leave
	Seen    *Sightings          // since when checks fail
	Probes  *Probes             // what they complain of
	Links   []Link              // to other pages
	Log     *slog.Logger
}

// ConfigStatus is the configuration in force and how the last attempt to replace it went.
type ConfigStatus struct {
	Config config.Config
	Loaded time.Time
	Err    error // of the last reload
}

// Landing shows a node to people: what is wrong first, then what there is.
type Landing struct {
	LandingOptions
	page *template.Template
}

// NewLanding returns the page.
func NewLanding(o LandingOptions) *Landing {
	return &Landing{o, template.Must(template.New("landing").Parse(landingHTML))}
}

// ServeHTTP answers with the page. The request bounds how long a device that hangs is waited for.
func (l *Landing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	if err := l.page.Execute(&page, l.view(l.Observe(r.Context()))); err != nil {
		l.Log.Error("landing page", "err", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "text/html; charset=utf-8", page.Bytes())
}

func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
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
	Jobs       jobSection
	Wait       int // seconds until traffic can be judged; 0: it was, or never is
	Reload     int // seconds until the page looks again by itself; 0: never
	GPUs       gpuSection
	Devices    []deviceRow
	Excluded   []string
	RoCE       []roceRow
	NCCL       fabric.NCCLConfig
	NCCLFiles  []fileRow
	Collectors []collectorRow
	Config     configView
	Links      []Link
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

// Link leads to another page. Without Href it is text.
type Link struct{ Href, Text, Note string }

func (l *Landing) view(n *fabric.Node) view {
	list := diagnose.Run(n, nil)
	l.Seen.See(list, true, n.At)
	bad := failingOf(list)
	v := view{
		CSS: template.CSS(landingCSS), Title: l.Title, Note: l.Note,
		Wait: secondReading(n), GPUs: gpuSectionOf(n, bad), RoCE: roceRows(n),
		Facts: nodeFacts(n), Troubles: troubles(list), Unchecked: uncheckedOf(list), Elsewhere: diagnose.Elsewhere(n), Excluded: n.Excluded,
		NCCL: n.NCCL, Collectors: l.collectorRows(n), Config: configViewOf(l.Config(), l.Devices),
		Links: l.Links, Version: version.Version,
	}
	l.explain(n, v.Troubles)
	v.Verdict = l.verdict(n, v.Troubles, len(v.Unchecked))
	v.Jobs = jobSectionOf(n, l.Collectors)
	v.Reload = max(v.Wait, v.Jobs.Wait)
	v.conclude(l.Probes.view(n.At).Verdict)
	for i := range n.HCAs {
		v.Devices = append(v.Devices, deviceRows(&n.HCAs[i], bad)...)
	}
	for _, f := range n.NCCL.Files {
		v.NCCLFiles = append(v.NCCLFiles, fileRow{f.Path, show(f.Exists, func(bool) string { return "read" })})
	}
	return v
}

// verdict is the first thing a reader sees. It is as bad as the worst finding.
func (l *Landing) verdict(n *fabric.Node, found []trouble, unchecked int) cell {
	class := "unsure"
	if slices.ContainsFunc(found, func(t trouble) bool { return t.Class == "bad" }) {
		class = "bad"
	}
	none, isNone := l.NoDevice(n)
	switch {
	case len(found) == 1:
		return cell{Text: "1 problem found", Class: class}
	case len(found) > 1:
		return cell{Text: fmt.Sprintf("%d problems found", len(found)), Class: class}
	case isNone:
		return cell{Text: diagnose.Sentence(none), Class: "unsure"}
	case l.Collectors.Want()&fabric.WantHCA == 0:
		return cell{Text: "RDMA devices are not checked: their collectors are disabled", Class: "unsure"}
	case unchecked > 0:
		return cell{Text: "No problems found in the facts that could be read", Class: "unsure"}
	default:
		return cell{Text: "No problems found", Class: "good"}
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

func (l *Landing) collectorRows(n *fabric.Node) []collectorRow {
	health := l.Collectors.Health(n)
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
		return cell{Text: "timed out", Note: c.Why, Class: "bad"}
	case !c.Success:
		return cell{Text: "failing", Note: c.Why, Class: "bad"}
	case !c.Supported:
		return cell{Text: "not applicable", Note: c.Why, Class: "quiet"}
	default:
		return cell{Text: "running", Class: "good"}
	}
}
