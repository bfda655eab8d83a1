// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/version"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

//go:embed probes.html
var probesHTML string

// ProbesOptions says what the pages of probes show.
type ProbesOptions struct {
	Title  string                // of the node; may be empty
	Status func() probes.Status  // what became of probes
	Config func() *probes.Config // what is in force; nil: probing is off
	// Observe observes the node. It returns when ctx ends.
	Observe func(context.Context) *fabric.Node
	Log     *slog.Logger
}

// Probes shows people, and programs, what became of probes.
type Probes struct{ ProbesOptions }

var probesPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("probes").Funcs(template.FuncMap{
		"bandwidth": probes.Bandwidth, "labelled": func(label string, c cell) labelled { return labelled{label, c} },
	}).Parse(probesHTML))
})

// labelled is a value with the title of its column, which a narrow screen shows beside it.
type labelled struct {
	Label string
	cell
}

// NewProbes returns the pages.
func NewProbes(o ProbesOptions) *Probes {
	return &Probes{o}
}

// ServePage answers with the page for people.
func (p *Probes) ServePage(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	n := p.Observe(r.Context())
	if err := probesPage().Execute(&page, p.view(n, diagnose.Run(n, nil), time.Now())); err != nil {
		p.Log.Error("page of probes", "err", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "text/html; charset=utf-8", page.Bytes())
}

// ServeJSON answers with the same as JSON.
func (p *Probes) ServeJSON(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(statusJSON(p.Status(), p.Config(), time.Now()), "", "  ")
	if err != nil {
		p.Log.Error("page of probes", "err", err)
		http.Error(w, "the results cannot be shown", http.StatusInternalServerError)
		return
	}
	answer(w, "application/json", append(body, '\n'))
}

// probesView is what the template shows. Everything in it but CSS is untrusted and escaped. What a Prober keeps is
// bounded, and so is the page: some probes with 8 results each, of which a log has 16 KiB at most.
type probesView struct {
	CSS     template.CSS
	Title   string
	Facts   []string
	Links   []Link
	Version string
	Verdict status.Verdict
	Note    string // on the verdict
	// Troubles are what is wrong with the last results.
	Troubles []status.Finding
	Probes   []probeView
	Config   []namedValue

	probed []status.Probed
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
	*probes.Result
	Title, Stamp string
	Ended        cell
	Advice       string
	Facts        []namedValue
}

// view is the page at a time. Verdicts are those on the node.
func (p *Probes) view(n *fabric.Node, verdicts []verdict.Verdict, now time.Time) probesView {
	s, c := p.Status(), p.Config()
	v := probesView{
		CSS: template.CSS(landingCSS), Title: p.Title, Version: version.Version, Facts: dutyFacts(s, c, now),
		Config: probeConfig(c),
		Links:  []Link{{"./", "Node", "overview of the node"}, {"probes.json", "JSON", "the same as JSON"}},
	}
	v.probed = status.ProbesOf(s.Probes, n, verdicts)
	for i := range v.probed {
		v.Probes = append(v.Probes, probeViewOf(&v.probed[i], now))
	}
	v.Troubles = status.Troubles(v.probed)
	v.Verdict, v.Note = probesVerdict(s, c, v.probed)
	return v
}

// Class is that of the verdict.
func (v probesView) Class() string { return classOf(v.Verdict.Status, "") }

func probesVerdict(s probes.Status, c *probes.Config, list []status.Probed) (v status.Verdict, note string) {
	bad, ran := 0, false
	for i := range list {
		ran = ran || list[i].Last != nil
		if list[i].Complaint != "" {
			bad++
		}
	}
	v.Status = status.StatusUnknown
	switch {
	case c == nil:
		v.Text, note = "Probes are disabled",
			"The configuration does not enable probes (probes: {enabled: true}): NCCL runs on this node only by hand (gpufabric_exporter probe)."
	case bad > 0:
		v.Status, v.Text = status.StatusFailed, fmt.Sprintf("%d of %s a problem", bad,
			spelling.Plural(len(list), "probe has", "probes have"))
	case s.State != "":
		v.Status, v.Text, note = status.StatusFailed, "The probe history is not saved",
			fmt.Sprintf("State file %s: %s.", c.StateFile, s.State)
	case !s.Enabled && !ran:
		v.Text = "Probes run on demand only"
	case !ran:
		v.Text, note = "No probe has run yet", whyNone(s.Probes)
	default:
		v.Status, v.Text = status.StatusOK, "All results are good"
	}
	return v, note
}

// whyNone is the reason why no probe has run.
func whyNone(list []probes.ProbeStatus) string {
	for i := range list {
		if skip := list[i].LastSkip; skip != nil && skip.Why.Lasting() {
			return verdict.Sentence(cmp.Or(skip.Detail, verdict.Spaced(string(skip.Why)))) + " " +
				verdict.Sentence(skip.Why.Advice())
		}
	}
	return "They wait for idle GPUs and for their share of GPU time."
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
		facts = append(facts, fmt.Sprintf("%.3f %% of the time of %s, %.3g %% allowed", 100*used,
			probes.Counted(s.GPUs, "GPU"), 100*c.Duty))
	}
	return facts
}

// dutyUsed is the share that probes used of the time of all GPUs since the start.
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
		every = []string{"only on demand"}
	}
	channels := strconv.Itoa(c.MaxCTAs)
	if c.MaxCTAs == 0 {
		channels = "as NCCL chooses"
	}
	list := []namedValue{
		{"Every", strings.Join(every, ", ")},
		{"Share of GPU time", fmt.Sprintf("%.3g %%", 100*c.Duty)},
		{"Message", fmt.Sprintf("%s of %s, %s", c.Op, c.Type, probes.SizeText(c.Bytes))},
		{"Channels", channels},
		{"Maximum time", fmt.Sprintf("%s in collectives, %s in all", shortly(c.Collective), shortly(c.Wall))},
		{"Regressed below", fmt.Sprintf("%.3g %% of the baseline", 100*c.Warn)},
	}
	var idle string
	if len(c.IdleCommand) > 0 {
		idle = c.IdleCommand[0] // arguments may be secret
	}
	for _, f := range []namedValue{
		{"Command that reports an idle node", idle},
		{"NCCL", c.NCCL},
		{"CUDA", c.CUDA},
		{"Variables", c.EnvFile},
		{"State", c.StateFile},
		{"Lock", c.LockFile},
	} {
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

// shortly formats a duration without the zeros that time.Duration appends: 2h, 1h30m, 250ms.
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
