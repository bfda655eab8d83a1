// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

// Suspicion is why a job may hang, as far as the node shows it. The words are stable: they are label values.
type Suspicion string

// Suspicions.
const (
	TrafficStopped Suspicion = "traffic_stopped" // its GPUs are busy, and it no longer moves data to other nodes
	// the GPUs of some ranks are busy and those of others idle, and all were busy before
	RanksApart    Suspicion = "ranks_apart"
	VerdictTurned Suspicion = "verdict_turned" // its transport was RDMA, or local, and is TCP now
)

// Suspicions returns every suspicion.
func Suspicions() []Suspicion { return []Suspicion{TrafficStopped, RanksApart, VerdictTurned} }

// Times of suspicion.
const (
	Quiet = leastAge // without a new communicator, as far as the node shows it, before a job is asked

	lasting      = time.Minute      // for which a sign must be there, and be gone
	turnedFor    = 30 * time.Minute // for which a verdict that turned is suspicious
	leastReading = 3                // readings with the sign

	// Kept is for how long what was seen of a job, or said by its RAS, stands while nothing is known that
	// contradicts it: as long as the verdict on its transport.
	Kept = time.Hour
)

// Suspects follows the jobs of a node and says which to ask. The zero Suspects is ready; one goroutine uses it.
type Suspects struct{ jobs map[string]*suspect }

// suspect is what is remembered of a job.
type suspect struct {
	signs     map[Suspicion]*sign
	flowed    bool // it moved data to other nodes
	together  bool // the GPUs of all of its ranks were busy at once
	transport job.Transport
	turned    time.Time
	shape     map[process]shape
	made      time.Time // when a communicator was last seen to be made
}

// sign is how long something was seen.
type sign struct {
	since, gone time.Time // gone: zero while it is there
	looked      time.Time // when it was last known whether it is there
	readings    int
	held        bool // for long enough
}

type process struct {
	pid   int
	start uint64
}

// shape is what a new communicator changes of a process: it has queue pairs and a listener of its own.
type shape struct{ queuePairs, listeners int }

// Update takes a reading. A job that is no longer there is forgotten.
func (s *Suspects) Update(n *fabric.Node, jobs *job.Jobs) {
	next := make(map[string]*suspect, len(jobs.List))
	for i := range jobs.List {
		j := &jobs.List[i]
		of := s.jobs[j.Name]
		if of == nil || of.shape != nil && !of.same(j) {
			of = &suspect{made: jobs.At, signs: map[Suspicion]*sign{}}
		}
		of.update(n, j, jobs.At)
		next[j.Name] = of
	}
	s.jobs = next
}

// Of returns why a job is suspected, and since when no communicator was made, as far as that was seen. No
// suspicion: it is not.
func (s *Suspects) Of(name string) (why []Suspicion, quiet time.Time) {
	of := s.jobs[name]
	if of == nil {
		return nil, time.Time{}
	}
	for _, w := range Suspicions() {
		if g := of.signs[w]; g != nil && g.held {
			why = append(why, w)
		}
	}
	return why, of.made
}

// same reports whether a process of the job is left of those that were seen.
func (of *suspect) same(j *job.Job) bool {
	return slices.ContainsFunc(j.Ranks, func(r job.Rank) bool {
		_, known := of.shape[process{r.PID, r.Start}]
		return known
	})
}

func (of *suspect) update(n *fabric.Node, j *job.Job, at time.Time) {
	now := map[process]shape{}
	for _, r := range j.Ranks { // also those that this look does not have
		if was, known := of.shape[process{r.PID, r.Start}]; known {
			now[process{r.PID, r.Start}] = was
		}
	}
	for _, c := range processesOf(n, j) {
		is := shape{queuePairs: c.Verbs.Or(fabric.VerbsUse{}).QueuePairs}
		for _, s := range c.Sockets.Or(nil) {
			if s.Listening {
				is.listeners++
			}
		}
		id := process{c.PID, c.Start}
		now[id] = is
		if was, known := of.shape[id]; !known || was != is {
			of.made = at
		}
	}
	of.shape = now

	of.flowed = of.flowed || j.Pulse.Flow == job.Flowing
	of.together = of.together || j.Pulse.Load == job.LoadTogether
	if j.Pulse.Flow != job.FlowUnknown {
		of.take(TrafficStopped, of.flowed && j.Pulse.Flow == job.FlowStopped, at)
	}
	if j.Pulse.Load != job.LoadUnknown {
		of.take(RanksApart, of.together && j.Pulse.Load == job.LoadApart, at)
	}
	if v := &j.Verdict; v.Transport != job.Unknown {
		if v.Fallback() && (of.transport == job.RDMA || of.transport == job.Local) {
			of.turned = at
		}
		of.transport = v.Transport
		of.take(VerdictTurned, v.Fallback() && !of.turned.IsZero() && at.Sub(of.turned) < turnedFor, at)
	}
	for why, g := range of.signs {
		if at.Sub(g.looked) >= Kept {
			delete(of.signs, why)
		}
	}
}

// take notes whether a sign is there.
func (of *suspect) take(why Suspicion, there bool, at time.Time) {
	g := of.signs[why]
	if g != nil {
		g.looked = at
	}
	switch {
	case there && g == nil:
		of.signs[why] = &sign{since: at, looked: at, readings: 1}
	case there:
		g.gone = time.Time{}
		g.readings++
		g.held = g.held || g.readings >= leastReading && at.Sub(g.since) >= lasting
	case g == nil:
	case !g.held:
		delete(of.signs, why)
	case g.gone.IsZero():
		g.gone = at
	case at.Sub(g.gone) >= lasting:
		delete(of.signs, why)
	}
}

// processesOf returns the processes of a job.
func processesOf(n *fabric.Node, j *job.Job) []*fabric.RankCandidate {
	var list []*fabric.RankCandidate
	candidates := n.Ranks.Or(nil)
	for i := range candidates {
		if !candidates[i].Left && slices.ContainsFunc(j.Ranks, func(r job.Rank) bool { return r.PID == candidates[i].PID }) {
			list = append(list, &candidates[i])
		}
	}
	return list
}

// Text says it for people.
func (s Suspicion) Text() string {
	switch s {
	case TrafficStopped:
		return "its GPUs are busy and it no longer moves data to other nodes"
	case RanksApart:
		return "the GPUs of some ranks are busy and those of others idle"
	case VerdictTurned:
		return "it used RDMA and uses TCP now"
	}
	return string(s)
}
