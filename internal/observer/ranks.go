// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Ranks reads the processes that hold GPUs. It is called by one goroutine at a time.
type Ranks interface {
	// Read reads the processes. The driver says which processes the GPUs have; it is only read. What cannot be read of one
	// process is an unknown fact; an error without processes means that none could be looked for, and an error beside some says which
	// others there may be. netns is the network namespace of the node: a rank in another one has interfaces and sockets of its own.
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

// ranksPatience bounds how long a scrape waits for the processes, which are looked for last: what hangs there are files of jobs.
const ranksPatience = time.Second

// ranksLate is the age up to which a reading stands in for one that is not there in time: on a busy node a look takes longer
// than a scrape waits, and verdicts come one scrape later instead of never.
const ranksLate = time.Minute

// observeRanks reads the processes in a lane of its own, after the GPUs that they hold.
func (ob *Observer) observeRanks(ctx context.Context, n *fabric.Node, want fabric.Want) {
	if want&fabric.WantRanks == 0 || ob.o.Ranks == nil {
		return
	}
	const source = "/proc"
	if loaded, known := n.GPUDriver.Loaded.Get(); known && !loaded { // there is nothing to hold
		n.Ranks = fabric.AbsentFact[[]fabric.RankCandidate](n.GPUDriver.Loaded.Source, n.At)
		return
	}
	gpus := n.GPUDriver // a copy: the node goes on to change while a read that is late still runs
	fresh := since[rankFacts](n.At, ob.o.FastInterval)
	done := ob.ranks.startIfStale(fresh, func(_ rankFacts, now time.Time) (rankFacts, error) {
		list, netns, err := ob.o.Ranks.Read(&gpus, now)
		if err == nil {
			err = gaps(list)
		}
		return rankFacts{list, netns, now, err}, err
	})
	if done != nil {
		ctx, cancel := context.WithTimeout(ctx, ob.o.RanksPatience)
		defer cancel()
		ob.ranks.lane.wait(ctx, done)
	}
	v, src := ob.ranks.get(fabric.SourceRanks, "", since[rankFacts](n.At, ranksLate))
	if src.Reason == fabric.ReasonPrivilege { // the site gave none: that is known, and no failure
		n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](src.Reason, source, n.At)
		return
	}
	if src.Reason == fabric.ReasonNotRead && v.err != nil { // a look that did not get to all, and not one that was not asked for
		src.Reason = fabric.ReasonTimeout
	}
	n.Sources = append(n.Sources, src)
	n.Ranks, n.Host.NetNS = fabric.Known(v.list, source, v.began), v.netns
	partly := len(v.list) > 0 && v.err != nil && errors.Is(src.Err, v.err)
	if !src.Up && !partly {
		n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](src.Reason, source, n.At)
	}
}

// gaps returns an error if what decides about jobs could not be read of some processes. That the site grants too little, or the kernel
// does not offer it, is no failure.
func gaps(list []fabric.RankCandidate) error {
	var first error
	processes := 0
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
			if !failed(fact.Meta) {
				continue
			}
			if processes++; first == nil {
				first = fabric.Because(fact.Reason, fmt.Sprintf("%s of PID %d of %s: %s", fact.what, c.PID, ownerWords(c), fact.Reason))
			}
			break
		}
	}
	if processes > 1 {
		return fmt.Errorf("processes of which not all could be read: %d: %w", processes, first)
	}
	return first
}

func failed(m fabric.Meta) bool {
	switch m.Reason {
	case fabric.ReasonIO, fabric.ReasonMalformed, fabric.ReasonStuck, fabric.ReasonTimeout, fabric.ReasonPanic:
		return m.State == fabric.Unknown
	}
	return false
}

// ownerWords is whose a process is.
func ownerWords(c *fabric.RankCandidate) string {
	switch w := c.Workload.Value; {
	case w.Pod != "":
		return "pod " + w.Pod
	case w.ContainerID != "":
		return "container " + w.ContainerID
	case c.Limits.State == fabric.OK:
		return fmt.Sprintf("user %d", c.User)
	}
	return "an unknown user"
}
