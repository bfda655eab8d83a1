// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"time"

	"gpufabric_exporter/internal/jobs/job"
)

// JobsDocument is what is known of the jobs of a node as JSON: their transport, and what RAS said of those that were
// asked about.
type JobsDocument struct {
	job.Document
	RAS []Document `json:"ras,omitzero"`
}

// DocumentOf returns the jobs and the accounts of them as JSON has them. Nil accounts leave ras out.
func DocumentOf(jobs *job.Jobs, all []Account) JobsDocument {
	d := JobsDocument{Document: jobs.Document()}
	if all != nil {
		d.RAS = make([]Document, 0, len(all))
	}
	for i := range all {
		d.RAS = append(d.RAS, all[i].Document())
	}
	return d
}

// Document is an Account as JSON (docs/COMMANDS.md). Field names do not change; new fields may be added.
type Document struct {
	Job           string                 `json:"job"`
	Suspicions    []Suspicion            `json:"suspicions,omitempty"`
	Refused       string                 `json:"refused,omitempty"`
	Reason        Reason                 `json:"refused_reason,omitempty"`
	Failure       string                 `json:"failure,omitempty"`
	Version       string                 `json:"nccl_version,omitempty"`
	Answers       int                    `json:"answers"`
	Answered      *time.Time             `json:"answered,omitempty"`
	State         State                  `json:"state"`
	Confirmed     bool                   `json:"confirmed"`
	Communicators int                    `json:"communicators"`
	Ranks         *ranksDocument         `json:"ranks,omitempty"`
	Bad           []CommunicatorDocument `json:"bad"`
}

type ranksDocument struct {
	Missing      int     `json:"missing"`
	Unresponsive int     `json:"unresponsive"`
	Dead         int     `json:"dead"`
	Failed       int     `json:"failed"`
	Apart        *uint64 `json:"collectives_apart"` // null: not known
}

// CommunicatorDocument is a communicator in a bad state.
type CommunicatorDocument struct {
	ID    string          `json:"communicator"`
	Size  int             `json:"size"`
	State State           `json:"state"`
	Gap   uint64          `json:"collectives_apart"`
	Count int             `json:"ranks_count"`
	Ranks []PlaceDocument `json:"ranks"`
}

// PlaceDocument is where a rank runs.
type PlaceDocument struct {
	Rank int    `json:"rank"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	GPU  *int   `json:"gpu"` // index of CUDA, null: not known
}

// Document returns the account as JSON has it.
func (a *Account) Document() Document {
	d := Document{Job: a.Job, Suspicions: a.Suspicions, Answers: a.Answers, State: Unknown, Bad: []CommunicatorDocument{}}
	if a.Refused != nil {
		d.Refused = a.Refused.Error()
		d.Reason = a.Reason()
	}
	if a.Failure != nil {
		d.Failure = a.Failure.Error()
	}
	if !a.Known() {
		return d
	}
	d.Version, d.State, d.Confirmed, d.Communicators = a.Version, a.Report.State, a.Report.Confirmed,
		a.Report.Communicators
	d.Answered = &a.Answered
	d.Ranks = &ranksDocument{
		Missing: a.Ranks.Missing, Unresponsive: a.Ranks.Unresponsive, Dead: a.Ranks.Dead,
		Failed: a.Ranks.Failed,
	}
	if s := a.Ranks.Spread; s.Known {
		d.Ranks.Apart = new(s.Most - s.Least)
	}
	for _, c := range a.Report.Bad {
		b := CommunicatorDocument{c.ID, c.Size, c.State, c.Gap, c.Count, []PlaceDocument{}}
		for _, r := range c.Ranks {
			p := PlaceDocument{Rank: r.Rank, PID: r.PID}
			if r.Host.IsValid() {
				p.Host = r.Host.String()
			}
			if r.GPU >= 0 {
				p.GPU = &r.GPU
			}
			b.Ranks = append(b.Ranks, p)
		}
		d.Bad = append(d.Bad, b)
	}
	return d
}

// Verdict is the state in words, with how certain a hang is.
func (r *Report) Verdict() string {
	switch {
	case r.State != Hang:
		return string(r.State)
	case r.Confirmed:
		return "hang, confirmed: its ranks are apart"
	}
	return "hang, suspected: its GPUs are busy"
}
