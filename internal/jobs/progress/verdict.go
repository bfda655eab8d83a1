// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// State is how the ranks of a job, or of one of its communicators, progress.
type State string

// States, the worst first. The words are stable: programs read them.
const (
	Failed    State = "failed"    // a rank has an error of initialisation or an asynchronous one
	Dead      State = "dead"      // RAS has given up a process
	Missing   State = "missing"   // a rank did not answer, or had no such communicator, in each answer
	Hang      State = "hang"      // no rank moves in any communicator
	Stalled   State = "stalled"   // ranks are behind and do not move, and others do
	Straggler State = "straggler" // ranks are behind and move
	Unknown   State = "unknown"   // too few answers, or they do not say
	Starting  State = "starting"  // a communicator is being made
	Ending    State = "ending"    // a communicator is being destroyed
	Idle      State = "idle"      // no rank moves, and the GPUs are idle
	Moving    State = "moving"    // the ranks move together
)

// States returns the full state set, the worst first.
func States() []State {
	return []State{Failed, Dead, Missing, Hang, Stalled, Straggler, Unknown, Starting, Ending, Idle, Moving}
}

// Bad reports whether an operator should look at the job.
func (s State) Bad() bool { return slices.Index(States(), s) <= slices.Index(States(), Straggler) }

// Activity is what is known of the GPUs of the job on this node.
type Activity int

// Activities.
const (
	ActivityUnknown Activity = iota
	GPUsIdle
	GPUsBusy
)

// leastGap is how many collectives below the median a rank is behind. Launches run ahead of the GPUs, and not
// alike on all ranks.
const leastGap = 2

// maxNamed is how many ranks are named.
const maxNamed = 16

// Communicator is the verdict on one of them.
type Communicator struct {
	ID    string
	Size  int
	State State
	Ranks []fabric.RASPlace // that it is about, the first 16
	Count int               // of all of them
	Gap   uint64            // collectives by which the last rank is behind the first
}

// Report is the verdict on a job.
type Report struct {
	State         State
	Confirmed     bool           // of a hang: ranks are apart; else it is suspected, from GPUs that are busy
	Communicators int            // of the last answer
	Bad           []Communicator // those with a bad state, the worst first
}

// Judge judges a job by answers in the order of time, of which the last three count.
func Judge(answers []fabric.RASAnswer, gpus Activity) Report {
	if len(answers) == 0 {
		return Report{State: Unknown}
	}
	answers = answers[max(0, len(answers)-Polls):]
	last := &answers[len(answers)-1]
	history := byID(answers)
	r := Report{State: Moving, Communicators: len(last.Communicators)}
	if len(last.Communicators) == 0 {
		r.State = Unknown
	}
	var all []Communicator
	moved, still := false, 0
	for i := range last.Communicators {
		c, motion := judgeOne(history[i])
		moved = moved || motion == inMotion
		if motion == atRest {
			still++
		}
		all = append(all, c)
	}
	for i := range all {
		c := &all[i]
		if c.State == Hang && moved {
			c.State = Stalled // others of the job move
		}
		if c.State == Idle && moved {
			c.State = Moving // it is not used now
		}
		r.State = worse(r.State, c.State)
	}
	if last.DeadProcesses > 0 {
		r.State = worse(r.State, Dead)
	}
	if r.State == Idle && still > 0 {
		r.State = map[Activity]State{GPUsBusy: Hang, GPUsIdle: Idle, ActivityUnknown: Unknown}[gpus]
	}
	for _, c := range all {
		if c.State.Bad() {
			r.Bad = append(r.Bad, c)
		}
	}
	slices.SortStableFunc(r.Bad, func(a, b Communicator) int {
		return slices.Index(States(),
			a.State) - slices.Index(States(), b.State)
	})
	r.Confirmed = r.State != Hang || len(r.Bad) > 0
	return r
}

func worse(a, b State) State {
	return States()[min(slices.Index(States(), a), slices.Index(States(), b))]
}

// byID returns, of each communicator of the last answer, what the answers report about it in the order of time.
func byID(answers []fabric.RASAnswer) [][]*fabric.RASCommunicator {
	var found []map[string]*fabric.RASCommunicator
	for i := range answers {
		of := map[string]*fabric.RASCommunicator{}
		for k := range answers[i].Communicators {
			c := &answers[i].Communicators[k]
			of[c.ID] = c
		}
		found = append(found, of)
	}
	last := answers[len(answers)-1].Communicators
	history := make([][]*fabric.RASCommunicator, len(last))
	for i := range last {
		for k := range len(answers) - 1 {
			if c := found[k][last[i].ID]; c != nil && last[i].ID != "" {
				history[i] = append(history[i], c)
			}
		}
		history[i] = append(history[i], &last[i])
	}
	return history
}

// motion is whether the ranks of a communicator move.
type motion int

const (
	notCompared motion = iota
	atRest
	inMotion
)

// judgeOne judges a communicator by what was said of it. A communicator in which nothing moves is Hang if its
// ranks are apart, else Idle: the others decide.
func judgeOne(history []*fabric.RASCommunicator) (Communicator, motion) {
	last := history[len(history)-1]
	v := Communicator{ID: last.ID, Size: last.Size, Gap: last.Spread.Most - last.Spread.Least}
	ending := slices.ContainsFunc(last.Ranks, func(r fabric.RASRank) bool { return r.Ending })
	dead := missing(last, func(m *fabric.RASMissing) bool { return m.Dead })
	lost := lost(history)
	switch {
	case last.FailedCount > 0:
		return v.about(Failed, places(last.Ranks, (*fabric.RASRank).Failed), last.FailedCount), notCompared
	case len(dead) > 0:
		return v.about(Dead, dead, len(dead)), notCompared
	case ending:
		return v.about(Ending, nil, 0), notCompared
	case len(history) == Polls && (len(lost) > 0 || leastMissing(history) > 0 && len(last.Missing) == 0):
		return v.about(Missing, lost, max(len(lost), leastMissing(history))), notCompared
	case slices.ContainsFunc(last.Ranks, func(r fabric.RASRank) bool { return !r.Initialised() }):
		return v.about(Starting, nil, 0), notCompared
	case len(history) < Polls, last.MissingCount > 0,
		slices.ContainsFunc(history, func(c *fabric.RASCommunicator) bool { return !c.Complete }):
		return v.about(Unknown, nil, 0), notCompared
	}
	return v.compare(history)
}

// compare compares the numbers of collectives of the answers.
func (v Communicator) compare(history []*fabric.RASCommunicator) (Communicator, motion) {
	last := history[len(history)-1]
	before := operations(history[0])
	behind := map[int]bool{}
	for _, r := range last.Ranks {
		behind[r.Rank] = true
	}
	for _, c := range history {
		middle := median(c)
		now := operations(c)
		for rank := range behind {
			n, counted := now[rank]
			behind[rank] = behind[rank] && counted && n+leastGap <= middle
		}
	}
	moved, slow, stuck := 0, 0, 0
	for _, r := range last.Ranks {
		was, counted := before[r.Rank]
		switch {
		case !counted || r.Operations < was: // another communicator of the same hash
			return v.about(Unknown, nil, 0), notCompared
		case r.Operations > was:
			moved++
			if behind[r.Rank] {
				slow++
			}
		case behind[r.Rank]:
			stuck++
		}
	}
	of := func(keep func(r *fabric.RASRank) bool) []fabric.RASPlace { return places(last.Ranks, keep) }
	isBehind := func(r *fabric.RASRank) bool { return behind[r.Rank] }
	isStuck := func(r *fabric.RASRank) bool { return behind[r.Rank] && r.Operations == before[r.Rank] }
	isLeast := func(r *fabric.RASRank) bool { return r.Operations == last.Spread.Least }
	switch {
	case moved == 0 && v.Gap > 0:
		least := of(isLeast)
		return v.about(Hang, least, len(least)), atRest
	case moved == 0:
		return v.about(Idle, nil, 0), atRest
	case stuck > 0:
		return v.about(Stalled, of(isStuck), stuck), inMotion
	case slow > 0:
		return v.about(Straggler, of(isBehind), slow), inMotion
	}
	return v.about(Moving, nil, 0), inMotion
}

func (v Communicator) about(s State, ranks []fabric.RASPlace, count int) Communicator {
	v.State, v.Ranks, v.Count = s, ranks[:min(len(ranks), maxNamed)], count
	return v
}

func operations(c *fabric.RASCommunicator) map[int]uint64 {
	of := make(map[int]uint64, len(c.Ranks))
	for _, r := range c.Ranks {
		of[r.Rank] = r.Operations
	}
	return of
}

// median is the upper one where the number of ranks is even, so that one of two ranks may be behind.
func median(c *fabric.RASCommunicator) uint64 {
	var all []uint64
	for _, r := range c.Ranks {
		all = append(all, r.Operations)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)/2]
}

// lost are the ranks that are missing in each answer.
func lost(history []*fabric.RASCommunicator) []fabric.RASPlace {
	answers := map[int]int{} // by rank: in how many it is missing, one after the other
	for n, c := range history {
		for i := range c.Missing {
			if rank := c.Missing[i].Rank; answers[rank] == n {
				answers[rank]++
			}
		}
	}
	return missing(history[len(history)-1], func(m *fabric.RASMissing) bool { return answers[m.Rank] == len(history) })
}

// leastMissing is how many ranks are missing in each answer, where a text report does not say which.
func leastMissing(history []*fabric.RASCommunicator) int {
	least := history[0].MissingCount
	for _, c := range history {
		least = min(least, c.MissingCount)
	}
	return least
}

func missing(c *fabric.RASCommunicator, keep func(m *fabric.RASMissing) bool) []fabric.RASPlace {
	var list []fabric.RASPlace
	for i := range c.Missing {
		if keep(&c.Missing[i]) {
			list = append(list, c.Missing[i].RASPlace)
		}
	}
	return list
}

func places(ranks []fabric.RASRank, keep func(r *fabric.RASRank) bool) []fabric.RASPlace {
	var list []fabric.RASPlace
	for i := range ranks {
		if keep(&ranks[i]) {
			list = append(list, ranks[i].RASPlace)
		}
	}
	return list
}
