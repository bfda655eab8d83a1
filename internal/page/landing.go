// SPDX-License-Identifier: Apache-2.0

// Package page has the pages for browsers: the node with its findings, and the results of probes. Each page
// is also available as JSON.
//
// Any number of goroutines may request a page at once, and it is made anew each time. It loads nothing from
// elsewhere, runs no script, and escapes whatever comes from the node. Where a page cannot be made, it says
// so with status 500 and logs why.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

//go:embed landing.html
var landingHTML string

//go:embed landing.css
var landingCSS string

// SecurityPolicy is the Content-Security-Policy that all pages can be shown with: it allows their style and
// nothing else.
func SecurityPolicy() string {
	sum := sha256.Sum256([]byte(landingCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// LandingOptions says what the landing page shows.
type LandingOptions struct {
	Title    string // the name of the node; may be empty
	Note     string // a sentence about it; may be empty
	Instance string // the label instance of the node in Prometheus; empty: none

	// Observe observes the node, with what the collectors read. It returns when ctx ends.
	Observe    func(context.Context) *fabric.Node
	Collectors *collector.Set
	// NoDevice returns the message that the node has no RDMA device, if that is known.
	NoDevice func(*fabric.Node) (text string, none bool)

	Config  func() ConfigStatus // what is in force
	Devices fabric.Filter       // the devices that flags leave
	Seen    *Sightings          // since when checks fail
	Probes  *Probes             // what is wrong with their results
	Links   []Link              // to other pages
	Log     *slog.Logger
}

// ConfigStatus is the configuration in force and the result of the last attempt to replace it.
type ConfigStatus struct {
	Config config.Config
	Loaded time.Time
	Err    error // of the last reload
}

// Landing is the page of a node: what is wrong first, then its parts.
type Landing struct{ LandingOptions }

// landingPage is parsed for the first request: it has no use on a node that is only scraped.
var landingPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("landing").Funcs(words).Parse(landingHTML))
})

// NewLanding returns the page.
func NewLanding(o LandingOptions) *Landing {
	return &Landing{o}
}

// ServeHTTP answers with the page. The context of the request limits how long a page waits for a device that hangs.
func (l *Landing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	if err := landingPage().Execute(&page, l.view(l.Observe(r.Context()))); err != nil {
		l.Log.Error("landing page", "err", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "text/html; charset=utf-8", page.Bytes())
}

// ServeJSON answers with the status document (docs/STATUS.md).
func (l *Landing) ServeJSON(w http.ResponseWriter, r *http.Request) {
	doc, _ := l.read(l.Observe(r.Context()))
	body, err := json.Marshal(doc)
	if err != nil {
		l.Log.Error("status as JSON", "err", err)
		http.Error(w, "the status cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "application/json", append(body, '\n'))
}

// answer sends a page or a document. Names and logs are what others chose: no character of them hides, or
// changes how others are shown.
func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return status.Visible(r)
	}, body))
}

// read makes the document of one observation of the node, and the page of its probes.
func (l *Landing) read(n *fabric.Node) (*status.Document, *probesView) {
	list := diagnose.Run(n, nil)
	l.Seen.See(list, true, n.At)
	probed := l.Probes.view(n, list, n.At)
	in := &status.Inputs{
		Node: n, Verdicts: list, Exporter: version.Version, Name: l.Title, Note: l.Note, Instance: l.Instance,
		Links: l.Config().Config.Links,
		Since: l.Seen.first, RAS: l.Collectors.RAS(), Probes: probed.probed, Probing: probed.Verdict,
		NoRDMA: l.Collectors.Want()&fabric.WantHCA == 0, Between: observer.DefaultMediumInterval,
	}
	if jobs, why := l.Collectors.Jobs(n); why == "" {
		in.Jobs = &jobs
	}
	if text, none := l.NoDevice(n); none {
		in.NoDevice = text
	}
	return status.Of(in), &probed
}

func (l *Landing) collectorRows(n *fabric.Node) (rows []collectorRow) {
	states := map[string]cell{}
	for _, h := range l.Collectors.Health(n) {
		states[h.Name] = collectorState(h)
	}
	for _, a := range collector.Collectors() {
		state, enabled := states[a.Name]
		if !enabled {
			state = quiet("disabled")
		}
		rows = append(rows, collectorRow{a.Name, a.Help, state})
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

func nodeFacts(n *fabric.Node) []string {
	gpus := "number of GPUs unknown"
	if count, known := n.GPUs.Get(); known {
		gpus = probes.Counted(count, "GPU")
	}
	facts := []string{gpus, portCount(n)}
	if k, ok := n.Host.Kernel.Get(); ok {
		facts = append(facts, "Linux "+k)
	}
	return append(facts, "observed "+stamp(n.At))
}

func portCount(n *fabric.Node) string {
	if n.ClassPresent.State == fabric.Unknown {
		return "number of RDMA ports unknown"
	}
	ports, active, unknown := 0, 0, 0
	for _, p := range n.Ports {
		ports++
		switch {
		case p.State.State != fabric.OK:
			unknown++
		case !p.Down():
			active++
		}
	}
	words := fmt.Sprintf("%d RDMA ports", ports)
	if ports == 0 || unknown < ports {
		words += fmt.Sprintf(", %d active", active)
	}
	if unknown > 0 {
		words += fmt.Sprintf(", %d of unknown state", unknown)
	}
	return words
}
