// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/nccl/explain"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// maxRankRows bounds the ranks that are shown of a job; /jobs.json has all.
const maxRankRows = 64

// jobSection is what the page shows of running jobs.
type jobSection struct {
	Shown   bool   // jobs are looked for, or should be
	Class   string // of the section: that of the worst job, empty if none is bad or unsure
	Problem bool   // a job uses TCP or is misconfigured, or may be
	Note    string // why there are no jobs, or which are missing
	Logged  string // what logs of jobs show, as explain has it; empty: nothing
	Rows    []jobRow
	Wait    int // seconds until a second reading of a new job; 0: there is none
}

// jobRow is a job; its notes are what was seen and what is wrong.
type jobRow struct {
	Name      string
	Transport cell
	Facts     []string // ranks, GPUs, devices, way, since
	Notes     []jobNote
	Remedies  []string
	Ranks     []rankRow
	More      int  // ranks that are not in Ranks
	Runbook   Link // about what is wrong

	Event    status.Event     // what is wrong
	severity verdict.Severity // empty: nothing is wrong
}

// Troubled reports whether the page begins with the job.
func (row jobRow) Troubled() bool { return row.severity != "" }

// Class is that of the severity.
func (row jobRow) Class() string { return severityClass(string(row.severity)) }

// jobNote is a line about a job: what it is about, and the text.
type jobNote struct{ Label, Text, Class string }

type rankRow struct {
	Process   string
	GPUs      string
	Transport cell
	Way       string
	Children  int
}

// jobSectionOf shows the worst jobs first.
func jobSectionOf(d *status.Document, n *fabric.Node, set *collector.Set) jobSection {
	jobs, why := set.Jobs(n)
	s := jobSection{Shown: why == ""}
	switch {
	case why != "":
		s.Note = whyNoJobs(d, set.Health(n))
		s.Shown = s.Note != ""
		return s
	case !jobs.Known:
		s.Class, s.Note = "unsure", "Jobs are unknown: "+jobs.Reason.Text()+"."
	case len(jobs.List) == 0 && slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return g.Processes.Or(0) > 0 }):
		s.Note = "GPUs are in use, by processes that this exporter does not see: of another PID namespace, or no longer running."
	case len(jobs.List) == 0:
		s.Note = "No process is known to hold a GPU of this node."
	case jobs.Dropped > 0:
		s.Note = fmt.Sprintf("%d more processes are not shown: there are too many.", jobs.Dropped)
	}
	names, said := gpuNames(d), set.RAS()
	for i := range jobs.List {
		j := &jobs.List[i]
		row := jobRowOf(j, names, status.AccountOf(&said, j.Name))
		if j.Verdict.Reason == job.FirstReading {
			s.Wait = int(observer.DefaultFastInterval.Seconds()) + 1
		}
		s.Problem = s.Problem || row.Troubled()
		s.Rows = append(s.Rows, row)
	}
	s.Logged = loggedOf(n)
	slices.SortStableFunc(s.Rows, func(a, b jobRow) int { return a.severity.Rank() - b.severity.Rank() })
	if s.Problem {
		s.Class = s.Rows[0].Class()
	}
	return s
}

// loggedOf explains what the logs of jobs on this node showed in the last hour. Users write them, and of whose job they
// are is not known.
func loggedOf(n *fabric.Node) string {
	var ids []string
	for _, l := range n.Logs.Or(fabric.LogReading{}).Failures {
		if l.Count > 0 && n.At.Sub(l.Last) < time.Hour {
			ids = append(ids, l.ID)
		}
	}
	f := explain.Counted(ids)
	if f == nil {
		return ""
	}
	top := f.Reasons[0]
	return fmt.Sprintf("Logs of jobs on this node show %s, %s: %s Next: %s. What came first is not known: gpufabric_exporter explain FILE.",
		f.Signature.ID, top.Certainty, top.Cause, strings.TrimSuffix(f.Steps()[0], "."))
}

// whyNoJobs says why the collector job cannot look for jobs; empty: it is disabled, or the node should have none.
func whyNoJobs(d *status.Document, health []collector.Health) string {
	i := slices.IndexFunc(health, func(h collector.Health) bool { return h.Name == "job" })
	if i < 0 || health[i].Supported || !slices.ContainsFunc(d.GPUs, func(g status.GPU) bool { return !g.Foreign }) {
		return ""
	}
	return "Jobs are unknown: " + health[i].Why + "."
}

func jobRowOf(j *job.Job, names map[string]string, said *progress.Account) jobRow {
	v := &j.Verdict
	row := jobRow{
		Name: j.Name, Transport: transportCell(v), Remedies: append(j.Remedies(), rasRemedies(said)...),
		severity: status.JobSeverity(j, said),
	}
	if row.Troubled() {
		row.Event = status.JobEvent(j, said)
	}
	if !j.Seen.IsZero() { // what is kept is not good now
		row.Transport.Text = j.State()
		row.Transport.Class = strings.TrimPrefix(row.Transport.Class, "good")
	}
	ranks := probes.Counted(len(j.Ranks), "rank")
	if j.Size > 0 {
		ranks = fmt.Sprintf("%d of %s", len(j.Ranks), probes.Counted(j.Size, "rank"))
	}
	row.Facts = []string{ranks, gpuList(j.GPUs, names)}
	if v.Way != "" {
		row.Facts = append(row.Facts, "way: "+string(v.Way))
	}
	if len(j.Devices) > 0 {
		row.Facts = append(row.Facts, "rails used: "+strings.Join(j.Devices, ", "))
	}
	if j.User != "" {
		row.Facts = append(row.Facts, "user ID "+j.User)
	}
	if v.Transport != job.Unknown && !j.Since.IsZero() {
		row.Facts = append(row.Facts, "since "+stamp(j.Since))
	}
	row.Notes = append(jobNotes(j), rasNotes(said)...)
	for i := range j.Ranks {
		if i == maxRankRows {
			row.More = len(j.Ranks) - i
			break
		}
		row.Ranks = append(row.Ranks, rankRowOf(&j.Ranks[i], v.Cause, names))
	}
	return row
}

// Wrong reports whether the page begins with the note, where it begins with the job.
func (n jobNote) Wrong() bool { return n.Class == "bad" || n.Class == "unsure" || n.Label == "cause" }

// Rest are the notes that the page does not begin with.
func (row jobRow) Rest() []jobNote {
	return slices.DeleteFunc(slices.Clone(row.Notes), func(n jobNote) bool { return row.Troubled() && n.Wrong() })
}

// jobNotes are the reason, the evidence, the cause and what is wrong with settings.
func jobNotes(j *job.Job) []jobNote {
	var list []jobNote
	note := func(label, text, class string) {
		if text != "" {
			list = append(list, jobNote{label, text, class})
		}
	}
	note("unknown", j.Verdict.Reason.Text(), "")
	note("not seen now", j.NotSeen(), "")
	// which says where it is set, too
	if !slices.ContainsFunc(j.Findings, func(f job.Finding) bool { return j.Verdict.Names(&f) }) {
		note("cause", verdict.Sentence(j.Verdict.Cause.Text()), "")
	}
	for _, e := range j.Verdict.Evidence {
		note("seen", e, "")
	}
	for _, f := range j.Findings {
		class := "unsure"
		switch f.Severity {
		case verdict.Critical:
			class = "bad"
		case verdict.Info:
			class = "quiet"
		}
		note(string(f.Severity)+" "+string(f.Rule), verdict.Sentence(f.Text)+" ("+f.Ranks()+")", class)
	}
	return list
}

// rankRowOf shows a rank, with its cause of TCP where that is not the job's.
func rankRowOf(r *job.Rank, of job.Cause, names map[string]string) rankRow {
	name := fmt.Sprintf("PID %d, %s", r.PID, r.Command)
	if r.Rank >= 0 {
		name = fmt.Sprintf("rank %d, %s", r.Rank, name)
	}
	c := transportCell(&r.Verdict)
	if r.Unseen != "" {
		c.Class = strings.TrimPrefix(c.Class, "good")
	}
	if c.Note = r.Verdict.Reason.Text(); c.Note == "" && r.Verdict.Cause != of {
		c.Note = r.Verdict.Cause.Text()
	}
	if c.Note == "" {
		c.Note = r.Unseen.Text()
	}
	return rankRow{
		Process: name, GPUs: gpuList(r.GPUs, names), Transport: c, Way: cmp.Or(string(r.Verdict.Way), "-"),
		Children: r.Children,
	}
}

// transportCell is the verdict. TCP that the plugin uses by design is neither good nor bad.
func transportCell(v *job.Verdict) cell {
	c := cell{Text: v.State()}
	switch {
	case v.Fallback() && v.Confirmed:
		c.Class = "bad"
	case v.Fallback():
		c.Class = "unsure"
	case v.Transport != job.Unknown && v.Transport != job.TCP:
		c.Class = "good"
	}
	return c
}

// gpuNames are the names of GPUs on this page by UUID.
func gpuNames(d *status.Document) map[string]string {
	names := map[string]string{}
	for i := range d.GPUs {
		names[d.GPUs[i].UUID] = d.GPUs[i].Name
	}
	return names
}

// gpuList names GPUs, or counts them where there are many.
func gpuList(uuids []string, names map[string]string) string {
	const most = 4
	switch {
	case len(uuids) == 0:
		return "GPUs unknown"
	case len(uuids) > most:
		return probes.Counted(len(uuids), "GPU")
	}
	var list []string
	for _, uuid := range uuids {
		list = append(list, cmp.Or(names[uuid], uuid))
	}
	slices.SortFunc(list, fabric.NaturalOrder)
	return strings.Join(list, ", ")
}

// JobsJSON answers with the jobs as JSON, which the command jobs prints, too. observe returns when its
// context ends. Where jobs are not looked for, the answer is status 404 with the reason.
func JobsJSON(observe func(context.Context) *fabric.Node, set *collector.Set, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jobs, why := set.Jobs(observe(r.Context()))
		if why != "" {
			http.Error(w, "jobs are not looked for: "+why, http.StatusNotFound)
			return
		}
		body, err := json.MarshalIndent(progress.DocumentOf(&jobs, set.RAS().Jobs), "", "  ")
		if err != nil {
			log.Error("jobs as JSON", "err", err)
			http.Error(w, "the jobs cannot be shown", http.StatusInternalServerError)
			return
		}
		answer(w, "application/json", append(body, '\n'))
	})
}
