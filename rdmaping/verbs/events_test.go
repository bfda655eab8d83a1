// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/verbs/verbstest"
)

// Types of events that are used in tests only.
const (
	deviceFatal = 8
	portActive  = 9
	portErr     = 10
	lidChange   = 11
	pkeyChange  = 12
	smChange    = 13
	reregister  = 17
	gidChange   = 18
)

func (f *fabric) event(i, port, event int) {
	f.Helper()
	verbstest.Event(f, f.library, host(i), port, event)
}

// handles waits until a device has so many address handles.
func (f *fabric) handles(i, want int) {
	f.Helper()
	end := time.Now().Add(patient)
	for {
		n := verbstest.Handles(f, f.library, host(i))
		if n == want {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("%s has %d address handles, expected %d", host(i), n, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestGIDChange destroys all address handles, because each keeps the place of the GID in the table of the port. Those
// of another port stay, and the next message makes its way anew.
func TestGIDChange(t *testing.T) {
	f := open(t, 2)
	for flow := range uint32(3) {
		ask := rdmaping.Ask{Device: "rdma0", To: f.ends[1], Size: 64, Flow: flow}
		if p := f.round(f.servers[0], patient, ask)[0]; p.Failure != nil || p.Lost {
			t.Fatalf("%+v", p)
		}
	}
	f.event(0, 2, gidChange)
	f.event(0, 1, smChange)
	f.event(0, 1, reregister)
	f.expect("after events that do not matter", 0, 1, 64, true)
	f.handles(0, 4)
	f.event(0, 1, gidChange)
	f.handles(0, 0)
	f.handles(1, 4)
	f.expect("afterwards", 0, 1, 64, true)
	f.handles(0, 1)
}

// TestGIDGone is a rail whose own GID is not there any more: it ends at once, and counts nothing as lost.
func TestGIDGone(t *testing.T) {
	f := open(t, 1)
	f.expect("before", 0, 0, 64, true)
	f.plant("nogid 127.0.0.2 1")
	f.event(0, 1, gidChange)
	if p := f.ask(0, f.ends[0], 64, patient); p.Failure == nil || p.Failure.Error() != "the driver reports: the GID changed" {
		t.Fatalf("%+v", p)
	}
	f.handles(0, 0)
}

// TestGIDChangeInFlight keeps an address handle that a message is sent by, and uses it no more.
func TestGIDChangeInFlight(t *testing.T) {
	f := open(t, 2)
	f.expect("before", 0, 1, 64, true)
	f.plant("stuck 127.0.0.2")
	if p := f.ask(0, f.ends[1], 64, impatient); !p.Lost { // long enough that it is sent
		t.Fatalf("%+v", p)
	}
	f.event(0, 1, gidChange)
	// until a message has a way anew: one that comes before the event takes the old one
	for end := time.Now().Add(patient); verbstest.Handles(t, f.library, host(0)) < 2 && time.Now().Before(end); {
		if p := f.ask(0, f.ends[1], 64, impatient); !p.Lost {
			t.Fatalf("%+v", p)
		}
	}
	f.handles(0, 2)
}

// TestOwnWayAgain makes the way of the rail to itself soon again, because its loopback tells what is the host.
func TestOwnWayAgain(t *testing.T) {
	f := open(t, 2)
	w := newWays(f.servers[0].rails["rdma0"].port, f.ends[0].GID)
	defer w.end()
	now, failed := time.Now(), &rdmaping.Failure{Step: "ibv_create_ah"}
	for i, own := range []bool{true, false} {
		p := w.peer(address{f.ends[i].GID, 0}, true, now)
		p.making = true
		w.take(making{peer: p, flow: 5, failure: failed, took: time.Second}, now)
		w.to(p, 5, now.Add(time.Second), func(handle, *rdmaping.Failure) {})
		if p.making != own {
			t.Errorf("own %v: made again after as long as it took: %v", own, p.making)
		}
	}
	w.take(<-w.made, now)
}

// TestGIDChangeWhileMade uses no address handle that was begun before the GIDs changed.
func TestGIDChangeWhileMade(t *testing.T) {
	f := open(t, 1)
	w := newWays(f.servers[0].rails["rdma0"].port, f.ends[0].GID)
	defer w.end()
	now := time.Now()
	p := w.peer(address{f.ends[0].GID, 0}, true, now)
	var got []handle
	w.to(p, 5, now, func(h handle, f *rdmaping.Failure) { got = append(got, h) })
	first := <-w.made
	w.renew()
	w.take(first, now)
	if len(got) > 0 {
		t.Fatalf("%d messages left by it", len(got))
	}
	second := <-w.made
	w.take(second, now)
	if len(got) != 1 || got[0] != second.handle {
		t.Errorf("%v, expected %v", got, second.handle)
	}
}

// TestPortEvents fails a rail whose port is not what it was opened with, so that it is opened anew, and destroys its
// queue pair and its address handles at once.
func TestPortEvents(t *testing.T) {
	for _, c := range []struct {
		port, event int
		want        string
	}{
		{1, portErr, "the driver reports: the port went down"},
		{1, portActive, "the driver reports: the port came up"},
		{1, lidChange, "the driver reports: the LID changed"},
		{1, pkeyChange, "the driver reports: the table of P_Keys changed"},
		{0, deviceFatal, "the driver reports: the device failed"},
		{2, portErr, ""},
		{2, lidChange, ""},
	} {
		t.Run(fmt.Sprintf("event %d of port %d", c.event, c.port), func(t *testing.T) {
			f := open(t, 1)
			f.expect("before", 0, 0, 64, true)
			f.event(0, c.port, c.event)
			p := f.ask(0, f.ends[0], 64, patient)
			if c.want == "" {
				if p.Failure != nil || p.Lost {
					t.Errorf("%+v", p)
				}
				return
			}
			if p.Failure == nil || p.Failure.Error() != c.want {
				t.Fatalf("%+v", p)
			}
			f.handles(0, 0)
			r := f.do(f.servers[0], rdmaping.Request{Open: &rdmaping.Open{Library: f.library, Device: "rdma0", Port: 1, GIDIndex: 3}})
			if r.Failure != nil {
				t.Fatal(r.Failure)
			}
			f.ends[0] = *r.Endpoint
			f.expect("opened anew", 0, 0, 64, true)
		})
	}
}
