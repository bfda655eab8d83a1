// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Account is what RAS said of a job, or why it was not asked.
type Account struct {
	Job        string
	Suspicions []Suspicion // that there are now; by hand: none
	Refused    error       // why it is not asked, a *Refusal; nil: it was asked
	Failure    error       // why it was not asked again
	Answers    int         // of the last inquiry
	Answered   time.Time   // when the last of them came; zero: none
	Version    string      // of the NCCL that answered
	Report     Report
	Ranks      Ranks // of the last answer
}

// Ranks counts the ranks of a job with something wrong. A rank that is in several communicators counts once
// where RAS says which process it is, and else for each of them.
type Ranks struct {
	Missing      int              // without data of a communicator, for whatever reason
	Unresponsive int              // of these: the process did not answer
	Dead         int              // of these: RAS has given up the process
	Failed       int              // with an error of initialisation or an asynchronous one
	Spread       fabric.RASSpread // of the communicator whose ranks are the farthest apart
}

// Status is what the running exporter knows from asking.
type Status struct {
	Enabled bool
	Jobs    []Account // suspected ones only, by name
	Asked   map[Outcome]uint64
	Stopped bool // no job is asked until the exporter restarts
}

// Outcome is what came of a question. The words are stable: they are label values.
type Outcome string

// Outcomes.
const (
	Answered Outcome = "answered"
	Failing  Outcome = "failed" // no complete answer, or one that makes no sense
	Ended    Outcome = "ended"  // the process ended the connection: it may have crashed of being asked
)

// Outcomes returns every outcome.
func Outcomes() []Outcome { return []Outcome{Answered, Failing, Ended} }

// Take notes an inquiry into a job: its answers in the order of time, and when the last one came.
func (a *Account) Take(answers []fabric.RASAnswer, at time.Time, gpus Activity) {
	a.Report = Judge(answers, gpus)
	if a.Answers = len(answers); a.Answers == 0 {
		return
	}
	last := &answers[len(answers)-1]
	a.Answered, a.Version, a.Ranks = at, last.Version, count(last)
}

// Known reports whether there is a verdict to show.
func (a *Account) Known() bool { return a.Answers > 0 }

// Stands reports whether what RAS said before still holds, after an inquiry that says nothing.
func (a *Account) Stands(after *Account) bool {
	if !a.Known() || after.Known() && after.Report.State != Unknown {
		return false
	}
	return !after.Known() || a.Report.State != Unknown && after.Answered.Sub(a.Answered) < Kept
}

// Reason is why the job is not asked; empty: it is, or was.
func (a *Account) Reason() Reason {
	if r, ok := errors.AsType[*Refusal](a.Refused); ok {
		return r.Why
	}
	return ""
}

// count counts the ranks of an answer.
func count(a *fabric.RASAnswer) Ranks {
	var r Ranks
	missing, silent, dead, failed := tally{}, tally{}, tally{}, tally{}
	for i := range a.Communicators {
		c := &a.Communicators[i]
		for k := range c.Missing {
			m := &c.Missing[k]
			missing.add(i, &m.RASPlace)
			if m.Unresponsive {
				silent.add(i, &m.RASPlace)
			}
			if m.Dead {
				dead.add(i, &m.RASPlace)
			}
		}
		for k := range c.Ranks {
			if c.Ranks[k].Failed() {
				failed.add(i, &c.Ranks[k].RASPlace)
			}
		}
		if s := c.Spread; s.Known && (!r.Spread.Known || s.Most-s.Least > r.Spread.Most-r.Spread.Least) {
			r.Spread = s
		}
		r.Missing, r.Failed = max(r.Missing, c.MissingCount), max(r.Failed, c.FailedCount) // a text report may not say which
	}
	r.Missing, r.Failed = max(r.Missing, len(missing)), max(r.Failed, len(failed))
	r.Unresponsive, r.Dead = max(len(silent), a.SilentProcesses), max(len(dead), a.DeadProcesses)
	return r
}

// tally is a set of ranks: by place where that is known, else by communicator.
type tally map[fabric.RASPlace]struct{}

func (t tally) add(communicator int, p *fabric.RASPlace) {
	key := fabric.RASPlace{Host: p.Host, PID: p.PID, GPU: p.GPU}
	if !p.Host.IsValid() || p.PID == 0 {
		key = fabric.RASPlace{Rank: p.Rank, PID: -1 - communicator}
	}
	t[key] = struct{}{}
}
