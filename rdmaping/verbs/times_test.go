// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

const clocks = "clock all 1000000"

// TestTimes tells network, the other host and this one apart.
func TestTimes(t *testing.T) {
	f := open(t, 2, clocks)
	if !f.ends[0].Timed || !f.ends[1].Timed {
		t.Fatalf("%+v: no times", f.ends)
	}
	const planted = 40 * time.Millisecond
	for _, c := range []struct {
		line string
		of   func(p *rdmaping.Pong) time.Duration
	}{
		{"late 127.0.0.3 0.04", func(p *rdmaping.Pong) time.Duration { return p.Remote }},
		{"late 127.0.0.2 0.04", (*rdmaping.Pong).Initiator},
		{"delay 127.0.0.3 0.04", func(p *rdmaping.Pong) time.Duration { return p.Network }},
		{"delay 127.0.0.2 0.04", func(p *rdmaping.Pong) time.Duration { return p.Network }}, // the way back
	} {
		f.plant(c.line)
		p := f.ask(0, f.ends[1], 64, patient)
		if !p.Timed || p.Doubtful || p.Reordered || c.of(&p) < planted || p.Remote+p.Network+p.Initiator() > p.RTT+planted/2 {
			t.Errorf("%s: %+v", c.line, p)
		}
		t.Logf("%s: network %s, responder %s, initiator %s", c.line, p.Network, p.Remote, p.Initiator())
		time.Sleep(2 * planted) // what is under way has come
	}
	f.plant()
	if p := f.ask(0, f.ends[0], 4096, patient); !p.Timed || p.Network < 0 {
		t.Errorf("loopback, large: %+v", p)
	}
	host := f.ends[1]
	host.Timed = false // that peer has none
	if p := f.ask(0, host, 64, patient); p.Timed || p.Network <= 0 || p.Network+p.Remote != p.RTT {
		t.Errorf("by the clock of the host: %+v", p)
	}
	f.plant("fast 127.0.0.3 1000", "late 127.0.0.3 0.001") // the clock of the peer runs away
	if p := f.ask(0, f.ends[1], 64, patient); p.Timed || !p.Doubtful || p.Network != 0 || p.RTT <= 0 {
		t.Errorf("a clock that runs away: %+v", p)
	}
}

// TestNoTimes is devices whose completions have no times, or none that can be used: they do without.
func TestNoTimes(t *testing.T) {
	for _, lines := range [][]string{
		{"clock all 0"},
		{clocks, "old all"},
		{clocks, "error query_device_ex 95"},
		{clocks, "error create_cq_ex 95"},
		{clocks, "error timed_qp 95"},
		{"clock all 200000000"},
	} {
		f := open(t, 2, lines...)
		if f.ends[0].Timed {
			t.Errorf("%v: %+v", lines, f.ends[0])
		}
		if p := f.ask(0, f.ends[1], 64, patient); p.Timed || p.Lost || p.Failure != nil || p.Network <= 0 {
			t.Errorf("%v: %+v", lines, p)
		}
	}
}

func TestBetween(t *testing.T) {
	const all = math.MaxUint64
	for _, c := range []struct {
		from, to, mask, khz uint64
		want                time.Duration
	}{
		{100, 350, all >> 1, 1e6, 250},
		{100, 350, all, 250000, 1000},
		{1<<48 - 50, 50, 1<<48 - 1, 1e6, 100}, // it began again
		{all - 49, 50, all, 1e6, 100},
		{350, 100, 1<<48 - 1, 1e6, -250},
		{7, 7, all, 1, 0},
	} {
		if got := between(c.from, c.to, c.mask, c.khz); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// liar is a peer that answers what a test wants.
type liar struct {
	*net.UDPConn
	end rdmaping.Endpoint
}

func lie(t *testing.T) *liar {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 99)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	port := c.LocalAddr().(*net.UDPAddr).Port
	return &liar{c, rdmaping.Endpoint{
		Device: "x", Link: rdmaping.Ethernet, GID: rdmaping.GID{10: 0xff, 11: 0xff, 12: 127, 15: 99}, QPN: uint32(port),
		QKey: 6, MTU: 4096, Key: 5, Timed: true,
	}}
}

// next waits for so many messages, and returns who sent them.
func (l *liar) next(t *testing.T, n int) (*net.UDPAddr, []message) {
	var asks []message
	for {
		b := make([]byte, 5000)
		_ = l.SetReadDeadline(time.Now().Add(patient))
		k, from, err := l.ReadFromUDP(b)
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		m, err := parseMessage(b[16:k])
		if err != nil {
			t.Error(err)
		}
		if asks = append(asks, m); len(asks) == n {
			return from, asks
		}
	}
}

func (l *liar) send(to *net.UDPAddr, m message) {
	b := make([]byte, 16+rdmaping.Least)
	binary.NativeEndian.PutUint32(b, m.qkey)
	binary.NativeEndian.PutUint32(b[4:], l.end.QPN)
	m.put(b[16:])
	_, _ = l.WriteToUDP(b, to)
}

// TestLiars is peers that lie about times, or tell none: what is of them is dropped, and nothing else.
func TestLiars(t *testing.T) {
	const never = -1 << 62
	for _, c := range []struct {
		name           string
		answer, times  time.Duration
		timed, suspect bool
	}{
		{"honest", 0, 1000, true, false},
		{"negative", 0, -5, false, true},
		{"the largest", 0, math.MaxInt64, false, true},
		{"the smallest", 0, math.MinInt64, false, true},
		{"longer than the way", 0, time.Hour, false, true},
		{"of the host, negative", -5, never, false, true},
		{"of the host, too long", time.Hour, never, false, true},
		{"of the host, but times are right", time.Hour, 1000, true, false},
		{"never told", 0, never, false, false},
	} {
		f, l := open(t, 1, clocks), lie(t)
		go func() {
			to, asks := l.next(t, 1)
			m := asks[0]
			m.kind, m.remote = kindAnswer, c.answer
			l.send(to, m)
			m.kind, m.remote = kindTimes, c.times
			for range 3 {
				if c.times != never {
					l.send(to, m)
				}
				l.send(to, message{kind: 3, number: m.number + 7, key: m.key, qkey: m.qkey})
				l.send(to, message{kind: 3, number: m.number, key: 77, qkey: m.qkey})
			}
		}()
		p := f.ask(0, l.end, 64, time.Second)
		if p.Lost || p.Failure != nil || p.Timed != c.timed || p.Doubtful != c.suspect || p.Remote < 0 || p.Network < 0 || p.Network > p.RTT {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestReordered is answers that overtake others of the same flow.
func TestReordered(t *testing.T) {
	f, l := open(t, 1, clocks), lie(t)
	for name, c := range map[string]struct {
		flows      [2]uint32
		times      bool // come before the answer
		back       bool // the later one comes first
		want, also bool
	}{
		"in order":         {[2]uint32{4, 4}, false, false, false, false},
		"overtaken":        {[2]uint32{4, 4}, false, true, true, false},
		"another flow":     {[2]uint32{4, 5}, false, true, false, false},
		"times come first": {[2]uint32{4, 4}, true, false, true, true},
	} {
		go func() {
			to, asks := l.next(t, 2)
			if len(asks) == 2 && c.back {
				asks[0], asks[1] = asks[1], asks[0]
			}
			for _, m := range asks {
				kinds := []byte{kindAnswer, kindTimes}
				if c.times {
					kinds = []byte{kindTimes, kindAnswer}
				}
				for _, m.kind = range kinds {
					l.send(to, m)
				}
			}
		}()
		var asks []rdmaping.Ask
		for _, flow := range c.flows {
			asks = append(asks, rdmaping.Ask{Device: "rdma0", To: l.end, Size: 64, Flow: flow})
		}
		p := f.round(f.servers[0], patient, asks...)
		if p[0].Reordered != c.want || p[1].Reordered != c.also || p[0].Lost || p[1].Lost {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestFlows loses one of eight flows, and nothing else.
func TestFlows(t *testing.T) {
	f := open(t, 2, "flow 127.0.0.3 11")
	var asks []rdmaping.Ask
	for flow := range uint32(16) {
		asks = append(asks, rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: flow})
	}
	for flow, p := range f.round(f.servers[0], time.Second, asks...) {
		if p.Failure != nil || p.Lost != (flow%8 == 3) {
			t.Errorf("flow %d: %+v", flow, p)
		}
	}
}

// TestInfiniBand is ports of InfiniBand: who reaches whom with which settings.
func TestInfiniBand(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   []string
		open    rdmaping.Open
		reaches bool
	}{
		{"by LID", nil, rdmaping.Open{}, true},
		{"service level", []string{"sl all 3"}, rdmaping.Open{ServiceLevel: 3}, true},
		{"another service level", []string{"sl all 3"}, rdmaping.Open{ServiceLevel: 2}, false},
		{"GRH required", []string{"grh all"}, rdmaping.Open{TrafficClass: 7}, true},
		{"another subnet", []string{"subnet 127.0.0.3 5"}, rdmaping.Open{}, true},
		{"another subnet, by FLID", []string{"subnet 127.0.0.3 5", "flid 127.0.0.3 700", "flid 127.0.0.2 600"}, rdmaping.Open{}, true},
		{"FLID, same subnet", []string{"flid 127.0.0.3 700", "flid 127.0.0.2 600", "grh all 2"}, rdmaping.Open{}, true},
		{"partition", []string{"pkey 127.0.0.2 32770", "pkey 127.0.0.3 32769"}, rdmaping.Open{}, false},
		{"index of the P_Key", []string{"pkey 127.0.0.2 32770", "pkey 127.0.0.3 32769", "pkey2 all 32775"}, rdmaping.Open{PKeyIndex: 2}, true},
		{"limited members", []string{"pkey all 5"}, rdmaping.Open{}, false},
		{"with times", []string{clocks}, rdmaping.Open{}, true},
		{"with times, GRH required", []string{clocks, "grh all"}, rdmaping.Open{}, true},
	} {
		f := devices(t, 0, append(c.lines, "device rdma0 127.0.0.2 4 5 1", "device rdma1 127.0.0.3 4 4 1")...)
		for i := range 2 {
			s, o := NewServer(), c.open
			t.Cleanup(s.Close)
			o.Library, o.Device, o.Port = f.library, fmt.Sprintf("rdma%d", i), 1
			r := f.do(s, rdmaping.Request{Open: &o})
			if r.Endpoint == nil {
				t.Fatalf("%s: %v", c.name, r.Failure)
			}
			f.servers, f.ends = append(f.servers, s), append(f.ends, *r.Endpoint)
		}
		if e := f.ends[1]; e.Link != rdmaping.InfiniBand || e.LID != 4 || e.MTU != 2048 || e.Check() != nil {
			t.Errorf("%s: %+v", c.name, e)
		}
		f.expect(c.name, 0, 1, 64, c.reaches)
		f.expect(c.name+", large", 0, 1, 2048, c.reaches)
	}
	f := devices(t, 0, "device rdma0 127.0.0.2 4 5 1")
	r := f.do(NewServer(), rdmaping.Request{Open: &rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1, PKeyIndex: 16}})
	if r.Failure == nil || r.Failure.Step != "ibv_query_pkey" {
		t.Errorf("no such P_Key: %+v", r)
	}
}
