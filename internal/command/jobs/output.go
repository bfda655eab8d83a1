// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/job"
)

func write(w io.Writer, asJSON, watch bool, jobs job.Jobs) error {
	if asJSON {
		e := json.NewEncoder(w)
		if !watch {
			e.SetIndent("", "  ")
		}
		return e.Encode(reportOf(jobs))
	}
	if watch {
		fmt.Fprintln(w, jobs.At.Format(time.TimeOnly))
	}
	return writeTable(w, jobs)
}

// writeTable writes a row for each job, below it the evidence and what is wrong.
func writeTable(w io.Writer, jobs job.Jobs) error {
	switch {
	case !jobs.Known:
		_, err := fmt.Fprintf(w, "The processes of this node could not be read: %s.\n", jobs.Reason.Text())
		return err
	case len(jobs.List) == 0:
		_, err := fmt.Fprintln(w, "No process is known to hold a GPU of this node.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tRANKS\tGPUS\tTRANSPORT\tWAY\tRAILS")
	for i := range jobs.List {
		j := &jobs.List[i]
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", j.Name, ranksText(j), len(j.GPUs), j.Verdict.State(), cmp.Or(string(j.Verdict.Way), "-"), cmp.Or(strings.Join(j.Devices, ","), "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for i := range jobs.List {
		writeDetails(&b, &jobs.List[i])
	}
	if jobs.Dropped > 0 {
		fmt.Fprintf(&b, "\n%d more processes are not shown: there are too many.\n", jobs.Dropped)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ranksText is the ranks on the node, of those on all nodes if that is stated.
func ranksText(j *job.Job) string {
	if j.Size == 0 {
		return strconv.Itoa(len(j.Ranks))
	}
	return fmt.Sprintf("%d of %d", len(j.Ranks), j.Size)
}

func writeDetails(b *strings.Builder, j *job.Job) {
	fmt.Fprintf(b, "\n%s\n", j.Name)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "  %s%s\n", label, command.OneLine(text))
		}
	}
	line("unknown: ", j.Verdict.Reason.Text())
	for _, e := range j.Verdict.Evidence {
		line("seen: ", e)
	}
	line("cause: ", j.Verdict.Cause.Text())
	for _, f := range j.Findings {
		line(fmt.Sprintf("%s %s: ", f.Severity, f.Rule), fmt.Sprintf("%s (%s)", f.Text, pidsText(f.PIDs)))
	}
}

func pidsText(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("PID %d", pids[0])
	}
	return fmt.Sprintf("%d ranks, first PID %d", len(pids), pids[0])
}

// report is what the JSON of jobs promises (docs/JOBS.md).
type report struct {
	Time    time.Time `json:"time"`
	Known   bool      `json:"known"`
	Reason  string    `json:"unknown_reason,omitempty"`
	Dropped int       `json:"processes_left_out"`
	Jobs    []oneJob  `json:"jobs"`
}

type oneJob struct {
	Name      string    `json:"name"`
	Scheduler string    `json:"scheduler"`
	User      string    `json:"user,omitempty"`
	Size      *int      `json:"ranks_of_all_nodes"` // null: not stated
	GPUs      []string  `json:"gpus"`
	Devices   []string  `json:"devices"`
	Since     time.Time `json:"since"`
	verdict
	Findings []finding `json:"findings"`
	Ranks    []rank    `json:"ranks"`
}

type verdict struct {
	Transport string   `json:"transport"`
	Confirmed bool     `json:"confirmed"`
	Way       string   `json:"way,omitempty"`
	Reason    string   `json:"unknown_reason,omitempty"`
	Cause     string   `json:"cause,omitempty"`
	Evidence  []string `json:"evidence"`
}

type finding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	PIDs     []int  `json:"pids"`
}

type rank struct {
	PID      int      `json:"pid"`
	Rank     *int     `json:"rank"` // null: not stated
	Command  string   `json:"command"`
	GPUs     []string `json:"gpus"`
	Children int      `json:"forked_children"`
	verdict
}

func reportOf(jobs job.Jobs) report {
	r := report{Time: jobs.At, Known: jobs.Known, Reason: string(jobs.Reason), Dropped: jobs.Dropped, Jobs: []oneJob{}}
	for i := range jobs.List {
		j := &jobs.List[i]
		one := oneJob{
			Name: j.Name, Scheduler: j.Scheduler, User: j.User, GPUs: list(j.GPUs), Devices: list(j.Devices), Since: j.Since,
			verdict: verdictOf(&j.Verdict), Findings: []finding{}, Ranks: []rank{},
		}
		if j.Size > 0 {
			one.Size = &j.Size
		}
		for _, f := range j.Findings {
			one.Findings = append(one.Findings, finding{string(f.Rule), string(f.Severity), f.Text, f.PIDs})
		}
		for _, k := range j.Ranks {
			p := rank{PID: k.PID, Command: k.Command, GPUs: list(k.GPUs), Children: k.Children, verdict: verdictOf(&k.Verdict)}
			if k.Rank >= 0 {
				p.Rank = &k.Rank
			}
			one.Ranks = append(one.Ranks, p)
		}
		r.Jobs = append(r.Jobs, one)
	}
	return r
}

func verdictOf(v *job.Verdict) verdict {
	return verdict{string(v.Transport), v.Confirmed, string(v.Way), string(v.Reason), string(v.Cause), list(v.Evidence)}
}

// list is never null in JSON.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
