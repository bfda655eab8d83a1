// SPDX-License-Identifier: Apache-2.0

package job

import "time"

// Document is a reading as JSON, which the command jobs prints and /jobs.json serves (docs/COMMANDS.md).
// Field names do not change; new fields may be added.
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
	Verdict
	Findings []Finding      `json:"findings"`
	Remedies []string       `json:"remedies"`
	Ranks    []rankDocument `json:"ranks"`
}

type rankDocument struct {
	PID      int      `json:"pid"`
	Rank     *int     `json:"rank"` // null: not stated
	Command  string   `json:"command"`
	GPUs     []string `json:"gpus"`
	Children int      `json:"forked_children"`
	Verdict
}

// Document returns the reading as JSON has it. No list in it is null, and none with texts is shared: who gets
// it may cut them.
func (now Jobs) Document() Document {
	d := Document{Time: now.At, Known: now.Known, Reason: string(now.Reason), Dropped: now.Dropped, Jobs: []jobDocument{}}
	for i := range now.List {
		j := &now.List[i]
		one := jobDocument{
			Name: j.Name, Scheduler: j.Scheduler, User: j.User, GPUs: list(j.GPUs), Devices: list(j.Devices), Since: j.Since,
			Unseen:  j.Unseen,
			Verdict: j.Verdict, Findings: list(j.Findings), Remedies: list(j.Remedies()), Ranks: []rankDocument{},
		}
		if j.Size > 0 {
			one.Size = &j.Size
		}
		if !j.Seen.IsZero() {
			one.LastSeen = &j.Seen
		}
		one.Evidence = list(one.Evidence)
		for k := range one.Findings {
			one.Findings[k].Variables = nil // JSON has none
		}
		for _, k := range j.Ranks {
			p := rankDocument{PID: k.PID, Command: k.Command, GPUs: list(k.GPUs), Children: k.Children, Verdict: k.Verdict}
			p.Evidence = list(p.Evidence)
			if k.Rank >= 0 {
				p.Rank = &k.Rank
			}
			one.Ranks = append(one.Ranks, p)
		}
		d.Jobs = append(d.Jobs, one)
	}
	return d
}

// list is a copy that is never null in JSON.
func list[T any](s []T) []T { return append([]T{}, s...) }
