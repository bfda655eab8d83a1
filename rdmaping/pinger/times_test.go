// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/rdmaping"
)

// TestClocks keeps times of NICs apart from others.
func TestClocks(t *testing.T) {
	const network = 3 * time.Microsecond
	nic := rdmaping.Pong{RTT: 20 * time.Microsecond, Remote: 5 * time.Microsecond, Network: network, Timed: true}
	doubtful := rdmaping.Pong{RTT: 20 * time.Microsecond, Doubtful: true}
	for _, c := range []struct {
		name          string
		timed         bool // own NICs
		pong          rdmaping.Pong
		clock         rdmaping.Clock
		seen, suspect bool
		host          time.Duration // of a message
	}{
		{"NICs", true, nic, rdmaping.OfNIC, true, false, 12 * time.Microsecond},
		{"peers without", true, rdmaping.Pong{RTT: network, Network: network}, rdmaping.OfNIC, false, false, 0},
		{"own without", false, rdmaping.Pong{RTT: network, Network: network}, rdmaping.OfCPUs, true, false, 0},
		{"liars", true, doubtful, rdmaping.OfNIC, false, true, 0},
		{"liars, by the host", false, doubtful, rdmaping.OfCPUs, false, true, 0},
	} {
		w := newWorld(t, 9)
		w.timed, w.pong = c.timed, c.pong
		for _, r := range w.run(time.Minute).Rails {
			var n uint64
			for group, h := range r.RTT {
				n += h.GetSampleCount()
				if mean := h.GetSampleSum() / float64(h.GetSampleCount()); c.seen && (mean < 2.9e-6 || mean > 3.1e-6) {
					t.Errorf("%s: %s: %g", c.name, group, mean)
				}
			}
			if r.Clock != c.clock || (n > 400) != c.seen || (n == 0) == c.seen || (r.Doubtful > 400) != c.suspect || r.Host != time.Duration(n)*c.host {
				t.Errorf("%s: %d times, %+v", c.name, n, r)
			}
			if sent, lost := lost(r); sent < 400 || lost > 0 {
				t.Errorf("%s: %d of %d lost", c.name, lost, sent)
			}
		}
	}
}

// TestOtherClock begins anew when the driver is another one.
func TestOtherClock(t *testing.T) {
	w := newWorld(t, 9)
	s := w.run(time.Minute, func(*Pinger) {
		w.timed, w.pong.Timed, w.crash = true, true, true
	})
	for _, r := range s.Rails {
		if n := r.RTT[rdmaping.Loopback].GetSampleCount(); r.Clock != rdmaping.OfNIC || n < 30 || n > 60 {
			t.Errorf("%d times since then, %+v", n, r)
		}
	}
}

func TestReordered(t *testing.T) {
	w := newWorld(t, 9)
	w.pong.Reordered = true
	for _, r := range w.run(time.Minute).Rails {
		if sent, lost := lost(r); r.Reordered < sent || lost > 0 || r.Fault != "" {
			t.Errorf("%+v", r)
		}
	}
}

// TestFlows tells a path of equal cost that is dead from one that loses some, and from peers that were away.
func TestFlows(t *testing.T) {
	for _, c := range []struct {
		name        string
		lose        func(w *world, a rdmaping.Ask) bool
		least, most float64 // share of the flows
	}{
		{"healthy", func(*world, rdmaping.Ask) bool { return false }, 0, 0},
		{"one of eight", func(_ *world, a rdmaping.Ask) bool { return a.Flow%8 == 3 }, 0.125, 0.125},
		{"four of eight", func(_ *world, a rdmaping.Ask) bool { return a.Flow*5%8 < 4 }, 0.5, 0.5},
		{"one of eight, to one of four peers", func(w *world, a rdmaping.Ask) bool { return a.Flow%8 == 3 && w.to("n2:1")(a) }, 0.03, 0.033},
		{"a tenth", func(w *world, _ rdmaping.Ask) bool { return w.random.Float64() < 0.1 }, 0, 0},
		{"all", func(*world, rdmaping.Ask) bool { return true }, 0, 0},
		{"away for 55 of 60 s", func(*world, rdmaping.Ask) bool {
			now := time.Now()
			return now.Minute() == 3 && now.Second() > 2 && now.Second() < 58
		}, 0, 0},
	} {
		w := newWorld(t, 5)
		other := func(a rdmaping.Ask) bool { return a.To.GID != w.end("self", "").GID && a.To.GID[15] != 1 } // not loopback
		w.lose = func(a rdmaping.Ask) bool { return other(a) && c.lose(w, a) }
		for _, r := range w.run(6 * time.Minute).Rails {
			if c.name == "all" {
				if r.Flows.Sent > 0 {
					t.Errorf("%s: %+v", c.name, r.Flows)
				}
				continue
			}
			share := float64(r.Flows.Lost) / float64(max(1, r.Flows.Sent))
			if r.Flows.Sent < 100 || share < c.least || share > c.most {
				t.Errorf("%s: %+v", c.name, r.Flows)
			}
		}
	}
}

// TestLimited is a limited member of a partition, which never gets what it sends to itself: the host is not at fault.
func TestLimited(t *testing.T) {
	w := newWorld(t, 9)
	w.limited = true
	w.lose = func(a rdmaping.Ask) bool { return a.To.Limited() }
	for _, r := range w.run(2 * time.Minute).Rails {
		if sent, lost := lost(r); r.Fault != "" || !r.Judged || sent < 900 || lost > 0 || r.Loop.Sent > 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestSlowInterval says nothing of flows that have too few messages in a minute.
func TestSlowInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRail(nil)
		r.peers["n1:1"] = &peer{}
		for round := range uint32(600) {
			r.closeFlows(time.Now())
			r.peers["n1:1"].tries.add(round+1, round%flows == 3)
			time.Sleep(5 * time.Second)
		}
		if r.flows.Sent > 0 {
			t.Errorf("%+v", r.flows)
		}
	})
}
