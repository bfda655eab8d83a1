// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Ranks reads the processes that hold GPUs. It is called by one goroutine at a time.
type Ranks interface {
	// Read reads the processes. The driver says which processes the GPUs have; it is only read. What cannot be read of one
	// process is an unknown fact; an error means that no process could be looked for, but for a
	// fabric.PartialError: the list is good for all but those that it names. netns is the network namespace of
	// the node: a rank in another one has interfaces and sockets of its own.
	Read(gpus *fabric.GPUDriver, now time.Time) (list []fabric.RankCandidate, netns fabric.Fact[uint64], err error)
	Close() error
}

// rankFacts is one reading of the processes. It is replaced, never changed.
type rankFacts struct {
	list  []fabric.RankCandidate
	netns fabric.Fact[uint64]
	began time.Time
	err   error // why there are more processes than list has, or more to know of them
}

// ranksPatience bounds how long a scrape waits for the processes, which are looked for last: what hangs there
// are files of jobs.
const ranksPatience = time.Second

// ranksLate is the age up to which a reading stands in for one that is not there in time: on a busy node a
// look takes longer than a scrape waits, and verdicts come one scrape later instead of never.
const ranksLate = time.Minute

// observeRanks reads the processes in a lane of its own, after the GPUs that they hold.
func (l *look) observeRanks() {
	if l.o.Ranks == nil {
		return
	}
	const source = "/proc"
	n := l.n
	if loaded, known := n.GPUDriver.Loaded.Get(); known && !loaded { // there is nothing to hold
		n.Ranks = fabric.AbsentFact[[]fabric.RankCandidate](n.GPUDriver.Loaded.Source, n.At)
		return
	}
	gpus := n.GPUDriver // a copy: the node goes on to change while a read that is late still runs
	fresh := since[rankFacts](l.now, l.o.FastInterval)
	done := l.ranks.startIfStale(fresh, func(_ rankFacts, now time.Time) (rankFacts, error) {
		list, netns, err := l.o.Ranks.Read(&gpus, now)
		err = withUnread(list, err)
		return rankFacts{list, netns, now, err}, err
	})
	ctx, cancel := context.WithTimeout(l.ctx, l.o.RanksPatience)
	defer cancel()
	l.ranks.lane.wait(ctx, done)
	v, src := l.ranks.get(fabric.SourceRanks, "", since[rankFacts](n.At, ranksLate))
	_, partial := errors.AsType[*fabric.PartialError](src.Err)
	if src.Reason == fabric.ReasonPrivilege && !partial { // the site gave none: that is known, and no failure
		n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](src.Reason, source, n.At)
		return
	}
	// a look that did not get to all, and not one that was not asked for
	if src.Reason == fabric.ReasonNotRead && v.err != nil {
		src.Reason = fabric.ReasonTimeout
	}
	n.Sources = append(n.Sources, src)
	n.Ranks, n.Host.NetNS = fabric.Known(v.list, source, v.began), v.netns
	if !src.Up && !partial {
		n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](src.Reason, source, n.At)
	}
}

// maxUnread bounds the owners that are named because facts of their processes could not be read.
const maxUnread = 8

// withUnread adds to the error of a list the owners of which what decides about jobs could not be read. That
// the site grants too little, or the kernel does not offer it, is no failure.
func withUnread(list []fabric.RankCandidate, err error) error {
	partial, is := errors.AsType[*fabric.PartialError](err)
	if err != nil && !is {
		return err
	}
	var by []fabric.Excess
	if is {
		by = partial.By
	}
	named, most := map[fabric.Owner]bool{}, len(by)+maxUnread
	for _, x := range by {
		named[x.Owner] = true
	}
	for i := range list {
		c := &list[i]
		for _, fact := range []struct {
			what string
			fabric.Meta
		}{
			{"descriptors", c.Files.Meta()},
			{"sockets", c.Sockets.Meta()},
			{"RDMA resources", c.Verbs.Meta()},
			{"memory map", c.Maps.Meta()},
			{"environment", c.Settings.Meta()},
			{"control groups", c.Workload.Meta()},
			{"limits", c.Limits.Meta()},
		} {
			if failed(fact.Meta) && !named[c.Owner] && len(by) < most {
				named[c.Owner] = true
				by = append(slices.Clip(by), fabric.Excess{Owner: c.Owner, PID: c.PID, What: fact.what, Reason: fact.Reason})
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	return &fabric.PartialError{By: by}
}

func failed(m fabric.Meta) bool {
	switch m.Reason {
	case fabric.ReasonIO, fabric.ReasonMalformed, fabric.ReasonStuck, fabric.ReasonTimeout, fabric.ReasonPanic:
		return m.State == fabric.Unknown
	}
	return false
}
