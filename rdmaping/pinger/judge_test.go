// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
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
