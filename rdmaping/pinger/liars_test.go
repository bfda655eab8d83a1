// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"net/netip"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

// TestMirror is a peer that tells the rails of who asks it as its own: what a rail asks itself says nothing of a peer,
// and a rail that reaches nobody else is bad.
func TestMirror(t *testing.T) {
	w := newWorld(t, 9)
	w.mirrors = map[string]bool{"n2:1": true}
	own := rdmaping.GID(netip.MustParseAddr("10.0.0.1").As16())
	w.lose = func(a rdmaping.Ask) bool { return a.Device == "mlx5_0" && a.To.GID != own }
	for i, r := range w.run(2 * time.Minute).Rails {
		sent, lost := lost(r)
		if want := []rdmaping.Fault{rdmaping.OfRail, ""}[i]; r.Fault != want || (lost == sent) != (i == 0) {
			t.Errorf("rail %d: %q, %d of %d lost", i, r.Fault, lost, sent)
		}
	}
}

// TestUnreleased is a worker that the kernel does not release, because it hangs in a driver: no other one is started
// beside it, which would hang there, too.
func TestUnreleased(t *testing.T) {
	w := newWorld(t, 4)
	w.run(5*time.Minute,
		func(*Pinger) { w.crash, w.held = true, true },
		func(p *Pinger) {
			if s := p.Status(); w.started != 1 || s.Rails[0].Uncovered != rdmaping.UncoveredLoader {
				t.Errorf("%d started, %q", w.started, s.Rails[0].Uncovered)
			}
			w.paused = "repair"
		},
		func(*Pinger) { w.paused = "" },
		func(*Pinger) {
			if w.started != 1 {
				t.Errorf("%d started after maintenance", w.started)
			}
			w.held = false
		},
		func(p *Pinger) {
			if s := p.Status(); w.started != 2 || s.Rails[0].Uncovered != "" {
				t.Errorf("%d started, %q", w.started, s.Rails[0].Uncovered)
			}
		},
	)
}
