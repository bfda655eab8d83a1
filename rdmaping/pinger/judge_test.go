// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/peers"
)

// TestSoon is how soon a node knows of what is dead: a rail of its own, and a peer whose exporter lives or does not.
func TestSoon(t *testing.T) {
	own := func(w *world, a rdmaping.Ask) bool { return a.Device == "mlx5_0" && a.To.GID != w.end("self", "").GID }
	for _, c := range []struct {
		name   string
		lose   func(w *world, a rdmaping.Ask) bool
		dead   bool
		within time.Duration
		want   rdmaping.Fault
	}{
		{"own rail", own, false, 7 * time.Second, rdmaping.OfRail},
		{"peer", func(w *world, a rdmaping.Ask) bool { return w.to("n1:1")(a) }, false, 7 * time.Second, rdmaping.Elsewhere},
		{"node of a peer", func(w *world, a rdmaping.Ask) bool { return w.to("n1:1")(a) }, true, 10 * time.Second, rdmaping.Elsewhere},
	} {
		w := newWorld(t, 9)
		happened := false
		w.lose = func(a rdmaping.Ask) bool { return happened && a.To.GID[15] != 1 && c.lose(w, a) }
		nothing := func(*Pinger) {}
		r := w.run(c.within, nothing, nothing, nothing, nothing, func(*Pinger) { happened = true; w.dead["n1:1"] = c.dead }).Rails[0]
		if r.Fault != c.want || len(r.Bad) == 0 || r.Bad[0].Ratio < 0.3 {
			t.Errorf("%s: %q, %v after %s", c.name, r.Fault, r.Bad, c.within)
		}
	}
}

// TestDeadDelaysNone is a peer that is restarted while the exporters of others do not answer.
func TestDeadDelaysNone(t *testing.T) {
	for lasts := 5 * time.Second; lasts < 8*time.Second; lasts += 250 * time.Millisecond {
		w := newWorld(t, 9)
		old := 0 // messages to where the peer no longer is
		w.lose = func(a rdmaping.Ask) bool {
			if w.to("n2:1")(a) && uint64(uint32(a.To.Key)) != w.keys["n2:1"] {
				old++
				return true
			}
			return len(w.dead) > 0 && (w.to("n1:1")(a) || w.to("n3:1")(a))
		}
		w.run(lasts, func(*Pinger) { w.dead["n1:1"] = true }, func(*Pinger) { w.dead["n3:1"] = true },
			func(*Pinger) { w.keys["n2:1"] = 5 })
		if old < 2 || old > 2*4 { // of two rails, four seconds at most
			t.Errorf("after %s: %d messages", lasts, old)
		}
	}
}

// TestHostBeforeRail is a busy host of whose few messages by loopback none was lost in the last seconds.
func TestHostBeforeRail(t *testing.T) {
	now := time.Now()
	r := &rail{}
	for i, fault := range []rdmaping.Fault{rdmaping.OfRail, rdmaping.OfHost, rdmaping.Elsewhere} {
		r.judged[i].fault, r.judged[i].until, r.judged[i].known = fault, now.Add(time.Second), now.Add(time.Second)
	}
	if fault, _, _ := r.judgement(now); fault != rdmaping.OfHost {
		t.Errorf("%q", fault)
	}
	r.judged[1].fault, r.judged[2].fault = rdmaping.Elsewhere, rdmaping.OfHost // an hour ago
	if fault, _, _ := r.judgement(now); fault != rdmaping.OfRail {
		t.Errorf("%q", fault)
	}
}

// TestBusyHidesNoRail is a rail that dies, or loses half of its messages, two minutes after its host was busy.
func TestBusyHidesNoRail(t *testing.T) {
	const busy, begins = 10 * time.Minute, 12 * time.Minute
	for _, c := range []struct {
		share        float64
		within, ends time.Duration
	}{{1, 10 * time.Second, 62 * time.Minute}, {0.5, 40 * time.Second, 22 * time.Minute}} {
		w := newWorld(t, 9)
		start := time.Time{}
		w.lose = func(a rdmaping.Ask) bool {
			if start.IsZero() {
				start = time.Now()
			}
			passed := time.Since(start)
			if a.To.GID == rdmaping.GID(netip.MustParseAddr("10.0.0.1").As16()) {
				return passed < busy && time.Now().Second()%10 == 0
			}
			return passed > begins && a.Device == "mlx5_0" && w.random.Float64() < c.share
		}
		said := false
		steps := slices.Repeat([]func(*Pinger){func(p *Pinger) {
			passed := time.Since(start)
			if start.IsZero() || passed < time.Minute {
				return
			}
			fault := p.Status().Rails[0].Fault
			wrong := passed < busy && fault != rdmaping.OfHost || passed > begins+c.within && fault != rdmaping.OfRail
			if wrong && !said {
				t.Errorf("%g: %q after %s", c.share, fault, passed)
			}
			said = wrong
		}}, int(c.ends/time.Second))
		w.run(time.Second, steps...)
	}
}

// TestWellAgain is a peer that comes back after it lost all messages, and one that loses few all the time.
func TestWellAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		lasts  time.Duration
		told   [2]time.Duration // since it began: from then on, and at least until
		silent time.Duration    // and none from then on
	}{
		{"for 5 minutes", 5 * time.Minute, [2]time.Duration{10 * time.Second, 5 * time.Minute}, 7 * time.Minute},
		{"for 55 minutes", 55 * time.Minute, [2]time.Duration{10 * time.Second, 55 * time.Minute}, 57 * time.Minute},
		{"1 of 100", 2 * time.Hour, [2]time.Duration{18 * time.Minute, 2 * time.Hour}, 2 * time.Hour},
	} {
		w := newWorld(t, 9)
		const begins = 3 * time.Minute
		start, sent := time.Time{}, 0
		w.lose = func(a rdmaping.Ask) bool {
			if start.IsZero() {
				start = time.Now().Add(begins)
			}
			if passed := time.Since(start); passed < 0 || passed > c.lasts || !w.to("n2:1")(a) || a.Device != "mlx5_0" {
				return false
			}
			sent++
			return c.lasts < time.Hour || sent%100 == 0
		}
		said := false
		steps := slices.Repeat([]func(*Pinger){func(p *Pinger) {
			if start.IsZero() || time.Since(start) < 0 {
				return
			}
			passed, told := time.Since(start), len(p.Status().Rails[0].Bad)
			wrong := told == 0 && passed > c.told[0] && passed < c.told[1] || told > 0 && passed > c.silent
			if wrong && !said {
				t.Errorf("%s: %d peers are told after %s", c.name, told, passed)
			}
			said = wrong
		}}, 70*60/5)
		w.run(5*time.Second, steps...)
	}
}

// TestSmallLeaf is a node with one other on its leaf: what only messages to other leaves lose may be lost by the uplinks.
func TestSmallLeaf(t *testing.T) {
	for _, c := range []struct {
		near int // of its messages that are lost
		want rdmaping.Fault
	}{{0, rdmaping.Elsewhere}, {2, rdmaping.OfRail}} {
		r := &rail{planned: planned{self: peers.Target{Address: "n0:1", Leaf: "l0"}}}
		from := locate.Rail{Node: "n0:1", Leaf: "l0"}
		pairs := []locate.Pair{{From: from, To: from, Sent: 30}, {From: from, To: locate.Rail{Node: "n1:1", Leaf: "l0"}, Sent: 30, Bad: c.near}}
		for i, leaf := range []string{"l1", "l1", "l1", "l2", "l2", "l2", "l3"} {
			pairs = append(pairs, locate.Pair{From: from, To: locate.Rail{Node: fmt.Sprintf("m%d:1", i), Leaf: leaf}, Sent: 30, Bad: 2})
		}
		var j judgement
		for range 2 {
			r.judge(&j, pairs, locate.Judge(pairs, spans[1].least), spans[1], time.Now().Add(time.Minute))
		}
		if j.fault != c.want {
			t.Errorf("%d lost on the leaf: %q, expected %q", c.near, j.fault, c.want)
		}
	}
}
