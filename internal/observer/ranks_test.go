// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// processes is a reader of processes that can hang and fail.
type processes struct {
	reads, closed atomic.Int32
	hang          chan struct{} // reads block until it is closed
	takes         time.Duration
	err           error
	some          bool // there are processes beside err
	edit          func(c *fabric.RankCandidate)
	gpus          int // of the driver that the last read was given
}

func (p *processes) Read(gpus *fabric.GPUDriver, now time.Time) ([]fabric.RankCandidate, fabric.Fact[uint64], error) {
	p.reads.Add(1)
	p.gpus = len(gpus.GPUs)
	if p.hang != nil {
		<-p.hang
	}
	time.Sleep(p.takes)
	if p.err != nil && !p.some {
		return nil, fabric.Known[uint64](9, "1/ns/net", now), p.err
	}
	c := fabric.RankCandidate{PID: 7, At: now}
	if p.edit != nil {
		p.edit(&c)
	}
	return []fabric.RankCandidate{c}, fabric.Known[uint64](9, "1/ns/net", now), p.err
}

func (p *processes) Close() error {
	p.closed.Add(1)
	return nil
}

func startRanks(t *testing.T, p *processes) (*Observer, *gpuDriver) {
	t.Helper()
	d := &gpuDriver{}
	ob := start(t, newKernel(1), func(o *Options) { o.GPUs, o.Ranks = d, p })
	ob.bus = &bus{}
	return ob, d
}

// Processes are read for those who want them, once for all callers, with the GPUs that the driver has at that moment.
func TestRanksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processes{}
		ob, _ := startRanks(t, p)
		if n := observe(t, ob, wantGPU); p.reads.Load() != 0 || n.Ranks.Meta().Reason != fabric.ReasonNotRead {
			t.Errorf("not asked for: %d reads, %+v", p.reads.Load(), n.Ranks)
		}
		first := observe(t, ob, fabric.WantRanks)
		again := observe(t, ob, fabric.WantRanks|fabric.WantNCCL)
		if len(first.Ranks.Value) != 1 || p.gpus != 2 || first.Host.NetNS.Or(0) != 9 || !source(first, fabric.SourceRanks, "").Up {
			t.Errorf("%+v, %d GPUs, %+v", first.Ranks, p.gpus, first.Sources)
		}
		if p.reads.Load() != 1 || !again.Ranks.At.Equal(first.Ranks.At) {
			t.Errorf("%d reads", p.reads.Load())
		}
		time.Sleep(DefaultFastInterval)
		if observe(t, ob, fabric.WantRanks); p.reads.Load() != 2 {
			t.Errorf("%d reads after %s", p.reads.Load(), DefaultFastInterval)
		}
		ob.Close()
		if p.closed.Load() != 1 {
			t.Errorf("closed %d times", p.closed.Load())
		}
	})
}

// A process whose files hang costs a scrape a second at most, nothing once it is known, and no other facts.
func TestRanksHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processes{hang: make(chan struct{})}
		ob, _ := startRanks(t, p)
		for i, patience := range []time.Duration{ranksPatience, ranksPatience, 0} {
			begin := time.Now()
			n := observe(t, ob, fabric.WantRanks)
			if took := time.Since(begin); took > patience || n.Ranks.State != fabric.Unknown || load(n).Or(0) != 0.5 || len(n.HCAs) == 0 {
				t.Errorf("scrape %d took %s: %+v", i, took, n.Ranks)
			}
			time.Sleep(DefaultFastInterval)
		}
		if s := source(observe(t, ob, fabric.WantRanks), fabric.SourceRanks, ""); s.Reason != fabric.ReasonStuck || p.reads.Load() != 1 {
			t.Errorf("%+v after %d reads", s, p.reads.Load())
		}
		close(p.hang)
		synctest.Wait()
		if n := observe(t, ob, fabric.WantRanks); len(n.Ranks.Value) != 1 {
			t.Errorf("it returned: %+v", n.Ranks)
		}
	})
}

// On a node where a look takes longer than a scrape waits, each scrape has the reading of the one before, for
// a minute at most; a command waits.
func TestRanksLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processes{takes: ranksPatience + time.Second/2}
		ob, _ := startRanks(t, p)
		for i := range 4 {
			n := observe(t, ob, fabric.WantRanks)
			list, known := n.Ranks.Get()
			if known != (i > 0) || known && n.At.Sub(list[0].At).Round(time.Second) != 16*time.Second {
				t.Errorf("scrape %d: %+v at %s", i, n.Ranks, n.At)
			}
			time.Sleep(15 * time.Second)
		}
		time.Sleep(ranksLate)
		if n := observe(t, ob, fabric.WantRanks); n.Ranks.State == fabric.OK {
			t.Errorf("after a minute: %+v", n.Ranks)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := &processes{takes: ranksPatience + time.Second/2}
		ob, _ := startRanks(t, p)
		ob.o.RanksPatience = 5 * time.Second
		if n := observe(t, ob, fabric.WantRanks); len(n.Ranks.Value) != 1 {
			t.Errorf("%+v", n.Ranks)
		}
	})
}

// Without a driver there is nothing to hold, and without the privilege the site gave none: neither is a failure.
func TestRanksThatAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processes{err: fabric.Because(fabric.ReasonPrivilege, "hidden")}
		ob, d := startRanks(t, p)
		n := observe(t, ob, fabric.WantRanks)
		if n.Ranks.Meta().Reason != fabric.ReasonPrivilege || source(n, fabric.SourceRanks, "").Name != "" {
			t.Errorf("hidden: %+v, %+v", n.Ranks, n.Sources)
		}
		d.set(func() { d.absent = true })
		time.Sleep(DefaultFastInterval)
		if n := observe(t, ob, fabric.WantRanks); n.Ranks.State != fabric.Absent || p.reads.Load() != 1 {
			t.Errorf("without a driver: %+v, %d reads", n.Ranks, p.reads.Load())
		}
	})
}

// A look that does not have all processes, or not all of them, lowers its source and says why, and what it has is kept.
func TestRanksInPart(t *testing.T) {
	malformed := func(f func(c *fabric.RankCandidate, why fabric.Reason)) func(*fabric.RankCandidate) {
		return func(c *fabric.RankCandidate) {
			c.Owner = fabric.Owner{Kind: fabric.OwnerUser, ID: "1001"}
			f(c, fabric.ReasonMalformed)
		}
	}
	excess := func(what string, why fabric.Reason) error {
		return &fabric.PartialError{By: []fabric.Excess{{What: what, Reason: why}}}
	}
	const partly = "not everything could be read: "
	for name, c := range map[string]struct {
		p      *processes
		known  bool
		reason fabric.Reason
		text   string
	}{
		"all":       {&processes{}, true, "", ""},
		"none":      {&processes{err: fabric.Because(fabric.ReasonIO, "no")}, false, fabric.ReasonIO, "no"},
		"some":      {&processes{err: excess("descriptors", fabric.ReasonMalformed), some: true}, true, fabric.ReasonMalformed, partly + "descriptors"},
		"not yet":   {&processes{err: fabric.Because(fabric.ReasonNotRead, "later")}, false, fabric.ReasonTimeout, "later"},
		"some, now": {&processes{err: excess("new processes", fabric.ReasonNotRead), some: true}, true, fabric.ReasonTimeout, partly + "new processes"},
		"sockets": {&processes{edit: malformed(func(c *fabric.RankCandidate, why fabric.Reason) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](why, "", c.At)
		})}, true, fabric.ReasonMalformed, partly + "sockets of user 1001 (PID 7)"},
		"some, and sockets of another": {&processes{err: excess("descriptors", fabric.ReasonMalformed), some: true, edit: malformed(func(c *fabric.RankCandidate, why fabric.Reason) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](why, "", c.At)
		})}, true, fabric.ReasonMalformed, partly + "descriptors; sockets of user 1001 (PID 7)"},
		"some that are not permitted": {&processes{err: excess("processes that cannot be read", fabric.ReasonPrivilege), some: true}, true, fabric.ReasonPrivilege, partly + "processes that cannot be read"},
		"RDMA resources": {&processes{edit: malformed(func(c *fabric.RankCandidate, why fabric.Reason) {
			c.Verbs = fabric.UnknownFact[fabric.VerbsUse](why, "", c.At)
		})}, true, fabric.ReasonMalformed, partly + "RDMA resources of user 1001 (PID 7)"},
		"not permitted": {&processes{edit: malformed(func(c *fabric.RankCandidate, _ fabric.Reason) {
			c.Sockets = fabric.UnknownFact[[]fabric.Socket](fabric.ReasonPrivilege, "", c.At)
		})}, true, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ob, _ := startRanks(t, c.p)
			for range 2 {
				n := observe(t, ob, fabric.WantRanks)
				s := source(n, fabric.SourceRanks, "")
				if _, known := n.Ranks.Get(); known != c.known || s.Up != (c.reason == "") || s.Reason != c.reason || !s.Up && s.Err.Error() != c.text {
					t.Errorf("%s: %+v, %+v", name, n.Ranks, s)
				}
				time.Sleep(DefaultFastInterval)
			}
		})
	}
}

// A reading that is good for all but one owner is shown, and its source is not up: nobody takes what is
// missing for an end.
func TestRanksOfAllButOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := fabric.Excess{Owner: fabric.Owner{Kind: fabric.OwnerUser, ID: "1001"}, PID: 77, What: "descriptors", Reason: fabric.ReasonMalformed}
		p := &processes{some: true, err: &fabric.PartialError{By: []fabric.Excess{by}}}
		ob, _ := startRanks(t, p)
		n := observe(t, ob, fabric.WantRanks)
		s := source(n, fabric.SourceRanks, "")
		if len(n.Ranks.Value) != 1 || n.Ranks.State != fabric.OK || n.Host.NetNS.Or(0) != 9 {
			t.Errorf("%+v", n.Ranks)
		}
		if s.Up || s.Reason != fabric.ReasonMalformed || !strings.Contains(s.Err.Error(), "descriptors of user 1001 (PID 77)") {
			t.Errorf("%+v", s)
		}
	})
}
