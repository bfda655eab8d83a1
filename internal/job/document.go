// SPDX-License-Identifier: Apache-2.0

package job

import "time"

// Document is a reading as JSON, which the command jobs prints and /jobs.json serves (docs/COMMANDS.md). Field names do not change; new
// fields may be added.
type Document struct {
	Time    time.Time     `json:"time"`
	Known   bool          `json:"known"`
	Reason  string        `json:"unknown_reason,omitempty"`
	Dropped int           `json:"processes_left_out"`
	Jobs    []jobDocument `json:"jobs"`
}

type jobDocument struct {
	Name      string     `json:"name"`
	Scheduler string     `json:"scheduler"`
	User      string     `json:"user,omitempty"`
	Size      *int       `json:"ranks_of_all_nodes"` // null: not stated
	GPUs      []string   `json:"gpus"`
	Devices   []string   `json:"devices"`
	Since     time.Time  `json:"since"`
	LastSeen  *time.Time `json:"last_seen,omitempty"` // missing while it is seen, and if it never was
	Unseen    Reason     `json:"unseen_reason,omitempty"`
	verdictDocument
	Findings []findingDocument `json:"findings"`
	Remedies []string          `json:"remedies"`
	Ranks    []rankDocument    `json:"ranks"`
}

type verdictDocument struct {
	Transport string   `json:"transport"`
	Confirmed bool     `json:"confirmed"`
	Way       string   `json:"way,omitempty"`
	Reason    string   `json:"unknown_reason,omitempty"`
	Cause     string   `json:"cause,omitempty"`
	Evidence  []string `json:"evidence"`
}

type findingDocument struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	PIDs     []int  `json:"pids"`
}

type rankDocument struct {
	PID      int      `json:"pid"`
	Rank     *int     `json:"rank"` // null: not stated
	Command  string   `json:"command"`
	GPUs     []string `json:"gpus"`
	Children int      `json:"forked_children"`
	verdictDocument
}

// Document returns the reading as JSON has it. No list in it is null.
func (now Jobs) Document() Document {
	d := Document{Time: now.At, Known: now.Known, Reason: string(now.Reason), Dropped: now.Dropped, Jobs: []jobDocument{}}
	for i := range now.List {
		j := &now.List[i]
		one := jobDocument{
			Name: j.Name, Scheduler: j.Scheduler, User: j.User, GPUs: list(j.GPUs), Devices: list(j.Devices), Since: j.Since, Unseen: j.Unseen,
			verdictDocument: documentOf(&j.Verdict), Findings: []findingDocument{}, Remedies: list(j.Remedies()), Ranks: []rankDocument{},
		}
		if j.Size > 0 {
			one.Size = &j.Size
		}
		if !j.Seen.IsZero() {
			one.LastSeen = &j.Seen
		}
		for _, f := range j.Findings {
			one.Findings = append(one.Findings, findingDocument{string(f.Rule), string(f.Severity), f.Text, f.PIDs})
		}
		for _, k := range j.Ranks {
			p := rankDocument{PID: k.PID, Command: k.Command, GPUs: list(k.GPUs), Children: k.Children, verdictDocument: documentOf(&k.Verdict)}
			if k.Rank >= 0 {
				p.Rank = &k.Rank
			}
			one.Ranks = append(one.Ranks, p)
		}
		d.Jobs = append(d.Jobs, one)
	}
	return d
}

func documentOf(v *Verdict) verdictDocument {
	return verdictDocument{string(v.Transport), v.Confirmed, string(v.Way), string(v.Reason), string(v.Cause), list(v.Evidence)}
}

// list is never null in JSON.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
