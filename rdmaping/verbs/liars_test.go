// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"net/netip"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

// TestAnswersOne answers who asks from an address of one node. Many would receive what goes to another one.
func TestAnswersOne(t *testing.T) {
	f := open(t, 1)
	for from, answered := range map[string]bool{
		"127.0.9.9": true, "224.0.0.1": false, "255.255.255.255": false, "0.0.0.0": false,
	} {
		r := newRail(f.servers[0].rails["rdma0"].port, f.ends[0]) // that nobody serves
		route, text := make([]byte, 40), make([]byte, rdmaping.Least)
		route[20], route[29] = 0x45, 17
		source := netip.MustParseAddr(from).As4()
		copy(route[32:], source[:])
		message{kind: kindAsk, key: r.self.Key, number: 7, qkey: 8}.put(text)
		r.heard(arrival{received: true, size: len(text), qpn: 77, routed: true}, route, text, time.Now())
		if is := len(r.ways.peers) == 1 && r.suppressed == 0; is != answered {
			t.Errorf("%s: %d peers, %d suppressed", from, len(r.ways.peers), r.suppressed)
		}
		r.ways.end()
	}
}

// TestWanderer is a peer that tells another address each time it is asked for it: the rail goes on to answer those
// that ask it.
func TestWanderer(t *testing.T) {
	f := open(t, 1)
	w := newWays(f.servers[0].rails["rdma0"].port, f.ends[0].GID)
	defer w.end()
	at := func(i int) address { return address{rdmaping.GID{14: byte(i >> 8), 15: byte(i)}, 1} }
	const asked, askers = 8, 40
	var steady [asked + askers]*peer
	for now, second := time.Now(), 0; second < 600; second++ {
		now = now.Add(time.Second)
		for i := range steady {
			p := w.peer(at(i), i < asked, now)
			if second > 0 && p != steady[i] {
				t.Fatalf("second %d: peer %d was pushed out", second, i)
			}
			steady[i] = p
			now = now.Add(time.Second / 100)
		}
		if second%3 == 2 && w.peer(at(1000+second), true, now) == nil {
			t.Fatalf("second %d: there is no room for a peer that is asked", second)
		}
	}
}

// TestFullSpeed is a peer that sends as fast as it can: what it costs is bounded. Each message that comes counts here.
func TestFullSpeed(t *testing.T) {
	f := open(t, 1)
	r := f.servers[0].rails["rdma0"]
	begun := time.Now()
	f.plant("storm 127.0.0.2")
	c := stranger(t, "127.0.9.9", f.ends[0])
	for range receives { // each buffer is full again from here on
		askAs(c, f.ends[0], 1)
	}
	time.Sleep(2 * time.Second)
	f.servers[0].Close()
	handled, took := r.strange+r.suppressed+r.answered, time.Since(begun).Seconds()
	t.Logf("%d messages in %.1f s", handled, took)
	if float64(handled) > (2*arrivalsPerSecond+perTurn/rest.Seconds())*took || handled < receives {
		t.Errorf("%d messages in %.1f s", handled, took)
	}
}
