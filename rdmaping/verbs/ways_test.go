// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

// stranger sends to an endpoint from any address.
func stranger(t *testing.T, from string, to rdmaping.Endpoint) *net.UDPConn {
	t.Helper()
	at := &net.UDPAddr{IP: net.IP(to.GID[12:]), Port: int(to.QPN)}
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from)}, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// askAs asks an endpoint whose keys the stranger knows.
func askAs(c *net.UDPConn, to rdmaping.Endpoint, flow uint32) {
	b := make([]byte, 16+rdmaping.Least)
	binary.NativeEndian.PutUint32(b, to.QKey)
	binary.NativeEndian.PutUint32(b[4:], uint32(c.LocalAddr().(*net.UDPAddr).Port))
	message{kind: kindAsk, flow: flow, key: to.Key, number: 7, qkey: 8}.put(b[16:])
	_, _ = c.Write(b)
}

// TestStrangersWithoutNeighbour is askers for whom no neighbour answers: nobody else waits for it.
func TestStrangersWithoutNeighbour(t *testing.T) {
	f := open(t, 2, "nobody 127.0.9.1 1", "nobody 127.0.9.2 1", "nobody 127.0.9.3 1", "nobody 127.0.9.4 1")
	f.expect("before", 0, 1, 64, true)
	for i := range 4 {
		askAs(stranger(t, fmt.Sprintf("127.0.9.%d", i+1), f.ends[1]), f.ends[1], 5)
	}
	time.Sleep(20 * time.Millisecond)
	for flow := range uint32(4) {
		begun := time.Now()
		ask := rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: 5 + flow}
		if p := f.round(f.servers[0], patient, ask)[0]; p.Lost || p.Failure != nil || time.Since(begun) > 700*time.Millisecond {
			t.Errorf("flow %d: %+v after %s", flow, p, time.Since(begun))
		}
	}
}

// TestNoNeighbours is a round in which most peers have no neighbour: nobody waits for another one, and a peer that
// does not answer for one flow is not looked for again for each.
func TestNoNeighbours(t *testing.T) {
	var lines []string
	for i := range 8 {
		lines = append(lines, fmt.Sprintf("nobody 127.0.9.%d 0.1", i))
	}
	f := open(t, 2, lines...)
	round := func(flow uint32) []rdmaping.Pong {
		var asks []rdmaping.Ask
		for i := range 8 {
			dead := f.ends[1]
			dead.GID[14], dead.GID[15] = 9, byte(i)
			asks = append(asks, rdmaping.Ask{Device: "rdma0", To: dead, Size: 64, Flow: flow})
		}
		begun := time.Now()
		pongs := f.round(f.servers[0], 300*time.Millisecond, append(asks, rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: flow})...)
		if took := time.Since(begun); took > 700*time.Millisecond {
			t.Errorf("flow %d: a round took %s", flow, took)
		}
		return pongs
	}
	first := round(1)
	if f := first[7].Failure; f == nil || f.Step != rdmaping.Unmade || f.Text != "" || f.Errno != 0 {
		t.Errorf("%+v: nothing is known yet", first[7])
	}
	time.Sleep(700 * time.Millisecond)
	for flow := range uint32(4) {
		pongs := round(2 + flow)
		for i, p := range pongs[:8] {
			if p.Failure == nil || p.Failure.Step != "ibv_create_ah" || p.Failure.Errno != int(syscall.ETIMEDOUT) {
				t.Errorf("flow %d, peer %d: %+v", flow, i, p)
			}
		}
		if p := pongs[8]; p.Lost || p.Failure != nil {
			t.Errorf("flow %d: %+v", flow, p)
		}
	}
}

// TestGreedy is a peer that asks as fast as it can: it gets its share, and leaves theirs to others and to loopback.
func TestGreedy(t *testing.T) {
	f := open(t, 2)
	greedy := stranger(t, "127.0.9.9", f.ends[1])
	for i := range 400 {
		askAs(greedy, f.ends[1], uint32(i))
		time.Sleep(time.Millisecond)
	}
	f.expect("a peer", 0, 1, 64, true)
	for range 20 {
		if p := f.ask(1, f.ends[1], 64, time.Second); p.Lost || p.Failure != nil {
			t.Errorf("loopback: %+v", p)
		}
	}
	_ = greedy.SetReadDeadline(time.Now().Add(impatient))
	n := 0
	for b := make([]byte, 200); ; n++ {
		if _, err := greedy.Read(b); err != nil {
			break
		}
	}
	if n < 10 || n > 3*inPeer.exporters.perSecond {
		t.Errorf("%d answers", n)
	}
}

// TestPeople is people that ask by hand, from the rail of the exporter that asks and from another one, as fast as they
// can: they take the answers of no exporter.
func TestPeople(t *testing.T) {
	f := open(t, 2)
	f.servers[0].rails["rdma0"].mayAsk.perSecond = 1000
	answers := func(byHand bool, n int, timeout time.Duration) (answered int) {
		asks := make([]rdmaping.Ask, n)
		for i := range asks {
			asks[i] = rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: 5, ByHand: byHand}
		}
		for _, p := range f.round(f.servers[0], timeout, asks...) {
			if !p.Lost && p.Failure == nil {
				answered++
			}
		}
		return answered
	}
	f.servers[1].rails["rdma1"].mayAnswer.people.perSecond = 20 // as if others had had theirs
	if n := answers(true, 60, impatient); n < 10 || n > 45 {
		t.Errorf("%d of 60 by hand", n)
	}
	for range 5 {
		if n := answers(false, 2, patient); n != 2 {
			t.Errorf("an exporter has %d of 2 answers", n)
		}
	}
}

// TestManyStrangers keeps peers that were there before, however many others come, and forgets who is away.
func TestManyStrangers(t *testing.T) {
	f := open(t, 1)
	w := newWays(f.servers[0].rails["rdma0"].port, f.ends[0].GID)
	defer w.end()
	now := time.Now()
	at := func(i int) address { return address{rdmaping.GID{14: byte(i >> 8), 15: byte(i)}, 1} }
	steady := make([]*peer, 30)
	for i := range steady {
		if steady[i] = w.peer(at(i), i < 8, now); steady[i] == nil {
			t.Fatalf("peer %d has no room", i)
		}
	}
	came := 0
	for second := range 600 {
		now = now.Add(time.Second)
		for i := range 100 {
			if w.peer(at(1000+(100*second+i)%9000), false, now) != nil {
				came++
			}
		}
		for i, p := range steady {
			if second%60 == 59 && w.peer(at(i), false, now) != p {
				t.Fatalf("second %d: peer %d was pushed out", second, i)
			}
		}
	}
	if len(w.peers) > maxPeers || came > 20000 {
		t.Errorf("%d peers, %d came", len(w.peers), came)
	}
	now = now.Add(2 * away)
	for i := range maxPeers {
		if now = now.Add(time.Second); w.peer(at(100+i), true, now) == nil {
			t.Fatalf("peer %d has no room", i)
		}
	}
	if w.peer(at(999), true, now) == nil || w.peer(at(1), false, now) == nil || len(w.peers) > maxPeers {
		t.Errorf("%d peers, and no room for one more", len(w.peers))
	}
}

// TestGoneFirst gives the room of who is away to others, before that of who was met last.
func TestGoneFirst(t *testing.T) {
	f := open(t, 1)
	w := newWays(f.servers[0].rails["rdma0"].port, f.ends[0].GID)
	defer w.end()
	begun := time.Now()
	at := func(i int) address { return address{rdmaping.GID{15: byte(i)}, 1} }
	for i := range maxPeers {
		w.peer(at(i), false, begun.Add(time.Duration(i)*time.Second))
	}
	now := begun.Add(2 * away)
	for i := range maxPeers {
		if i != 7 {
			w.peer(at(i), false, now)
		}
	}
	if w.peer(at(100), false, now) == nil || w.peers[at(7)] != nil || len(w.peers) != maxPeers {
		t.Errorf("one of %d peers is away, and another one gave room", len(w.peers))
	}
}

// TestUnread is answers that lie in the queue when their time is over: they are not lost.
func TestUnread(t *testing.T) {
	f := open(t, 2)
	f.expect("before", 0, 1, 64, true)
	f.plant("empty 127.0.0.2 0.3")
	for range 4 {
		if p := f.ask(0, f.ends[1], 64, impatient); p.Lost || p.Failure != nil {
			t.Errorf("%+v", p)
		}
	}
}

// TestStorm is messages that come faster than they are handled: asks and timeouts have their turn.
func TestStorm(t *testing.T) {
	f := open(t, 2)
	f.plant("storm 127.0.0.2")
	f.expect("in a storm", 0, 1, 64, true)
	f.expect("loopback", 0, 0, 64, true)
	f.plant("storm 127.0.0.2", "lose 127.0.0.3 1")
	f.expect("lost", 0, 1, 64, false)
	f.servers[0].Close()
}

// TestHang fails the rail where a way does not return, so that it is opened again: that is no message without a way.
func TestHang(t *testing.T) {
	f := open(t, 2)
	long := time.Now().Add(-time.Hour)
	f.servers[0].rails["rdma0"].ways.first.since.Store(&long)
	if p := f.ask(0, f.ends[1], 64, time.Second); p.Failure == nil || p.Failure.Error() != "making a way: ibv_create_ah does not return" {
		t.Errorf("%+v", p)
	}
}

// TestBroken is a device that its driver took away: the failure has a text, so it is none of a message that waits.
func TestBroken(t *testing.T) {
	f := open(t, 2)
	f.expect("before", 0, 1, 64, true)
	f.plant("error ibv_poll_cq 5")
	for range 2 {
		if p := f.ask(0, f.ends[1], 64, time.Second); p.Failure == nil || p.Failure.Error() != "ibv_poll_cq: it answers -5" || p.Failure.Text == "" {
			t.Errorf("%+v", p)
		}
	}
}

// TestStuck is a NIC that sends nothing any more: for a moment that says nothing, and then its messages are lost.
func TestStuck(t *testing.T) {
	f := open(t, 2)
	f.expect("before", 0, 1, 64, true)
	f.plant("stuck 127.0.0.2")
	for range sends {
		if p := f.ask(0, f.ends[1], 64, time.Millisecond); !p.Lost {
			t.Errorf("%+v", p)
		}
	}
	if p := f.ask(0, f.ends[1], 64, time.Millisecond); p.Failure == nil || p.Failure.Text != "" {
		t.Errorf("at once: %+v", p)
	}
	time.Sleep(stuck)
	if p := f.ask(0, f.ends[1], 64, time.Millisecond); p.Failure == nil || p.Failure.Error() != "ibv_post_send: the NIC sends nothing" {
		t.Errorf("later: %+v", p)
	}
}

// TestEndsSoon ends a rail after the way that is being made, and not after those that wait.
func TestEndsSoon(t *testing.T) {
	for range 4 {
		f := open(t, 1, "nobody 127.0.9.1 0.2")
		to := f.ends[0]
		copy(to.GID[12:], []byte{127, 0, 9, 1})
		w := f.servers[0].rails["rdma0"].ways
		for range 16 {
			w.first.jobs <- making{peer: &peer{address: address{gid: to.GID}}}
		}
		begun := time.Now()
		if f.servers[0].Close(); time.Since(begun) > 380*time.Millisecond {
			t.Errorf("it took %s", time.Since(begun))
		}
	}
}
