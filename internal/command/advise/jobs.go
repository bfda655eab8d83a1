// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/nccl/advice"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// differing is a running job and where its settings differ from the advice for it.
type differing struct {
	Name  string `json:"name"` // as the command jobs shows it
	Ranks int    `json:"ranks"`
	// Unread is how many ranks have an environment that could not be read, ConfUnread how many others an nccl.conf.
	Unread      int          `json:"ranks_unread"`
	ConfUnread  int          `json:"ranks_conf_unread"`
	Differences []difference `json:"differences"`
	Wrong       []string     `json:"wrong"` // verdicts of lint on settings that do not do what they say

	impaired []string // rules of its findings of severity warning or critical
}

// difference is a departure, and how many ranks of the job have it.
type difference struct {
	advice.Departure
	Ranks int `json:"ranks"`
}

// running compares the settings of the jobs of a node with the advice, and says why it does not know jobs, or
// some of them. The advice is for the release of NCCL that the job has loaded, and for one node where all of
// its ranks are on this one.
func running(n *fabric.Node, w advice.Workload) (list []differing, unknown string) {
	var tracker job.Tracker
	jobs := tracker.Update(n)
	switch {
	case !jobs.Known:
		unknown = cmp.Or(jobs.Reason.Text(), "they could not be read")
	case jobs.Dropped > 0:
		unknown = spelling.Plural(jobs.Dropped, "process was", "processes were") + " left out: there are too many"
	}
	ranks := map[int]*fabric.RankCandidate{}
	candidates := n.Ranks.Or(nil)
	for i := range candidates {
		ranks[candidates[i].PID] = &candidates[i]
	}
	for i := range jobs.List {
		j := &jobs.List[i]
		if d, uses := differingOf(n, w, j, ranks); uses {
			list = append(list, d)
		}
	}
	return list, unknown
}

// differingOf compares one job; uses is false for one that shows nothing of NCCL.
func differingOf(n *fabric.Node, w advice.Workload, j *job.Job, ranks map[int]*fabric.RankCandidate) (d differing,
	uses bool,
) {
	d = differing{Name: j.Name, Ranks: len(j.Ranks), Differences: []difference{}, Wrong: []string{}}
	if j.Size > 0 && j.Size == len(j.Ranks) {
		w.Nodes = 1
	}
	advices := map[string]advice.Advice{}
	for i := range j.Ranks {
		c := ranks[j.Ranks[i].PID]
		if c == nil || c.Settings.State == fabric.Unknown {
			d.Unread++
			continue
		}
		if c.Conf.State == fabric.Unknown {
			d.ConfUnread++
		}
		maps := c.Maps.Or(fabric.MappedFiles{})
		uses = uses || j.Size > 1 || maps.NCCL != "" || len(c.Variables()) > 0
		a, known := advices[maps.Version]
		if !known {
			of := w
			if v, err := fabric.ParseNCCLVersion(maps.Version); err == nil {
				of.NCCL = v
			}
			a = advice.For(n, of)
			advices[maps.Version] = a
		}
		for _, one := range a.Departures(c.Variables()) {
			d.add(one)
		}
	}
	for _, f := range j.Findings {
		if f.Rule.OfSetting() {
			d.Wrong = append(d.Wrong, f.Text)
		}
		if f.Severity.AtLeast(verdict.Warning) {
			d.impaired = append(d.impaired, string(f.Rule))
		}
	}
	return d, uses || d.Unread > 0
}

// impaired names the jobs with findings of severity warning or critical, and their rules.
func impaired(jobs []differing) (list []string) {
	for _, j := range jobs {
		if len(j.impaired) > 0 {
			list = append(list, j.Name+": "+strings.Join(j.impaired, ", "))
		}
	}
	return list
}

// add counts a departure of one more rank.
func (d *differing) add(one advice.Departure) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return "=" + *s
	}
	at := slices.IndexFunc(d.Differences, func(o difference) bool {
		return o.Name == one.Name && o.Hidden == one.Hidden && text(o.Present) == text(one.Present) &&
			text(o.Advised) == text(one.Advised)
	})
	if at < 0 {
		d.Differences, at = append(d.Differences, difference{Departure: one}), len(d.Differences)
	}
	d.Differences[at].Ranks++
}

// writeJobs prints the differences for people.
func (a *answer) writeJobs(b *bytes.Buffer) {
	heading(b, "Running jobs, compared with this advice", len(a.jobs))
	for i := range a.jobs {
		j := &a.jobs[i]
		var lines []string
		for k := range j.Differences {
			lines = append(lines, j.Differences[k].text(j))
		}
		for _, w := range j.Wrong {
			lines = append(lines, "Wrong: "+w)
		}
		if j.Unread > 0 {
			lines = append(lines, fmt.Sprintf("The settings of %s could not be read: run the command as root on the host.",
				spelling.Plural(j.Unread, "rank", "ranks")))
		}
		if j.ConfUnread > 0 {
			lines = append(lines,
				fmt.Sprintf("The nccl.conf of %s could not be read: it may set what is not in the environment.",
					spelling.Plural(j.ConfUnread, "rank", "ranks")))
		}
		if len(lines) == 0 {
			lines = []string{"No difference."}
		}
		item(b, j.Name+", "+spelling.Plural(j.Ranks, "rank", "ranks"), lines...)
	}
	switch {
	case a.jobsUnknown != "":
		fmt.Fprintf(b,
			"\nSettings of running jobs are unknown: %s. To see them, run gpufabric_exporter advise as root on the host, or gpufabric_exporter lint on the script of a job.\n", a.jobsUnknown)
	case len(a.jobs) == 0:
		fmt.Fprint(b, "\nNo running job uses NCCL.\n")
	}
}

// text is a difference in a line.
func (d *difference) text(of *differing) string {
	text := d.Name
	switch {
	case d.Hidden:
		text += " is set to a value that is not shown"
	case d.Present != nil:
		text += "=" + *d.Present
	case of.ConfUnread > 0:
		text += " is not in the environment"
	default:
		text += " is not set"
	}
	if d.Ranks < of.Ranks {
		text += fmt.Sprintf(" (%d of %d ranks)", d.Ranks, of.Ranks)
	}
	if d.Advised != nil {
		return text + ", advised: " + d.Name + "=" + *d.Advised
	}
	return text + ", advised: leave it unset. " + d.Reason
}
