// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/probes"
)

//go:embed probes.html
var probesHTML string

// ProbesOptions says what the pages of probes show.
type ProbesOptions struct {
	Title  string                // of the node; may be empty
	Status func() probes.Status  // what became of probes
	Config func() *probes.Config // what is in force; nil: probing is off
	Log    *slog.Logger
}

// Probes shows people, and programs, what became of probes.
type Probes struct {
	ProbesOptions
	page *template.Template
}

// NewProbes returns the pages.
func NewProbes(o ProbesOptions) *Probes {
	return &Probes{o, template.Must(template.New("probes").Parse(probesHTML))}
}

// ServePage answers with the page for people.
func (p *Probes) ServePage(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	if err := p.page.Execute(&page, p.view(time.Now())); err != nil {
		p.Log.Error("page of probes", "err", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "text/html; charset=utf-8", page.Bytes())
}

// ServeJSON answers with the same for programs.
func (p *Probes) ServeJSON(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(statusJSON(p.Status(), p.Config(), time.Now()), "", "  ")
	if err != nil {
		p.Log.Error("page of probes", "err", err)
		http.Error(w, "the results cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "application/json", append(body, '\n'))
}

// probesView is what the template shows. Everything in it but CSS comes from outside and is escaped. What a Prober keeps is
// bounded, and so is the page: some probes with 8 results each, of which a log has 16 KiB at most.
type probesView struct {
	CSS     template.CSS
	Title   string
	Facts   []string
	Links   []Link
	Version string
	Verdict cell
	Probes  []probeView
	Config  []namedValue
}

// probeView is one probe.
type probeView struct {
	Name                                                            string
	Ran, Result, Path, GPUDirect, Latency, BusBW, Ratio, Next, Skip cell
	Counts                                                          string
	Changes                                                         *changesView
	Skips                                                           []namedValue
	Last                                                            *runView
	Kept                                                            []runView // newest first
}

type changesView struct {
	Title string
	Rows  []probes.Change
}

// runView is one result in full.
type runView struct {
	Title, At string
	Result    cell
	Advice    string
	Facts     []namedValue
	Rows      []measuredView
	Settings  []string
	Log       string
}

type measuredView struct {
	Op, Type           string
	Bytes, Wrong       uint64
	Iterations         int
	Time, AlgBW, BusBW string
}

func (p *Probes) view(now time.Time) probesView {
	s, c := p.Status(), p.Config()
	v := probesView{
		CSS: template.CSS(landingCSS), Title: p.Title, Version: version.Version, Facts: dutyFacts(s, c, now), Config: probeConfig(c),
		Links: []Link{{"./", "Node", "the node at a glance"}, {"probes.json", "JSON", "the same for programs"}},
	}
	rails := slices.ContainsFunc(s.Probes, func(p probes.ProbeStatus) bool { return p.Key.Device != "" })
	var bad []string
	for i := range s.Probes {
		row := probeViewOf(&s.Probes[i], rails, now)
		if text := row.complaint(); text != "" {
			bad = append(bad, text)
		}
		v.Probes = append(v.Probes, row)
	}
	v.Verdict = probesVerdict(s, c, bad)
	return v
}

// complaint says in one sentence what is wrong with the last result; empty: nothing.
func (v *probeView) complaint() string {
	var parts []string
	for _, c := range []struct {
		cell   cell
		format string
	}{{v.Path, "goes over %s"}, {v.Result, "%s"}, {v.Ratio, "%s of its baseline"}} {
		if c.cell.Class == "bad" {
			parts = append(parts, fmt.Sprintf(c.format, c.cell.Text))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return v.Name + ": " + strings.Join(parts, ", ") + "."
}

func probesVerdict(s probes.Status, c *probes.Config, bad []string) cell {
	ran := false
	for i := range s.Probes {
		ran = ran || s.Probes[i].Last != nil
	}
	switch {
	case c == nil:
		return cell{Text: "Nothing is probed", Note: "The configuration does not switch probes on (probes: {enabled: true}): NCCL is run on this node by hand only (gpufabric_exporter probe).", Class: "unsure"}
	case len(bad) == 1:
		return cell{Text: "One probe tells of trouble", Note: bad[0], Class: "bad"}
	case len(bad) > 1:
		return cell{Text: fmt.Sprintf("%d probes tell of trouble", len(bad)), Note: strings.Join(bad, " "), Class: "bad"}
	case s.State != "":
		return cell{Text: "The history of probes is not kept", Note: fmt.Sprintf("State file %s: %s.", c.StateFile, s.State), Class: "bad"}
	case !s.Enabled && !ran:
		return cell{Text: "Probes run on demand only", Class: "unsure"}
	case !ran:
		return cell{Text: "No probe has run yet", Note: "They wait for idle GPUs, and for the time that GPUs may spend on probes.", Class: "unsure"}
	}
	return cell{Text: "All results are good", Class: "good"}
}

// dutyFacts say what probes have cost, and what they may.
func dutyFacts(s probes.Status, c *probes.Config, now time.Time) []string {
	if c == nil || s.Since.IsZero() {
		return nil
	}
	facts := []string{
		"since " + stamp(s.Since),
		probes.SecondsOf(s.GPUTime).Text() + " of GPU time",
	}
	if used, ok := dutyUsed(s, now); ok {
		facts = append(facts, fmt.Sprintf("%.3f %% of the time of %s, %.3g %% allowed", 100*used, spelling.Plural(s.GPUs, "GPU", "GPUs"), 100*c.Duty))
	}
	return facts
}

// dutyUsed is the share of the time of all GPUs since the start that probes had.
func dutyUsed(s probes.Status, now time.Time) (float64, bool) {
	passed := now.Sub(s.Since)
	if s.GPUs == 0 || s.Since.IsZero() || passed <= 0 {
		return 0, false
	}
	return s.GPUTime.Seconds() / passed.Seconds() / float64(s.GPUs), true
}

// probeConfig is what the site chose.
func probeConfig(c *probes.Config) []namedValue {
	if c == nil {
		return nil
	}
	var every []string
	for _, k := range probes.Kinds() {
		if d := c.Every[k]; d > 0 {
			every = append(every, fmt.Sprintf("%s %s", k, shortly(d)))
		}
	}
	if len(every) == 0 {
		every = []string{"never by themselves"}
	}
	channels := strconv.Itoa(c.MaxCTAs)
	if c.MaxCTAs == 0 {
		channels = "as many as NCCL wants"
	}
	list := []namedValue{
		{"Every", strings.Join(every, ", ")},
		{"Share of GPU time", fmt.Sprintf("%.3g %%", 100*c.Duty)},
		{"Message", fmt.Sprintf("%s of %s, %s", c.Op, c.Type, probes.SizeText(c.Bytes))},
		{"Channels", channels},
		{"Time at most", fmt.Sprintf("%s in collectives, %s in all", shortly(c.Collective), shortly(c.Wall))},
		{"Regressed below", fmt.Sprintf("%.3g %% of the baseline", 100*c.Warn)},
	}
	var idle string
	if len(c.IdleCommand) > 0 {
		idle = c.IdleCommand[0] // arguments may be secret
	}
	for _, f := range []namedValue{{"Says that the node is free", idle}, {"NCCL", c.NCCL}, {"CUDA", c.CUDA}, {"Variables", c.EnvFile}, {"State", c.StateFile}, {"Lock", c.LockFile}} {
		if f.Value != "" {
			list = append(list, f)
		}
	}
	return list
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// shortly is a duration without the zeros that time.Duration appends: 2h, 1h30m, 250ms.
func shortly(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
