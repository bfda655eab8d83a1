// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"fmt"
	"math"
	"testing"
	"time"
)

var origin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMomentsAreSpread(t *testing.T) {
	const every = time.Hour
	s := schedule{"node17"}
	at := s.next(Key{Kind: Node}, 0, 1, every, origin)
	shortest, longest := every, every
	for range 2000 {
		after := s.next(Key{Kind: Node}, 0, 1, every, at)
		if gap := after.Sub(at); gap < every*8/10 || gap > every*12/10 {
			t.Fatalf("%s after %s: expected 80 to 120 %% of %s", gap, at, every)
		}
		if again := s.next(Key{Kind: Node}, 0, 1, every, after.Add(-time.Nanosecond)); !again.Equal(after) {
			t.Fatalf("the moment %s became %s when asked for later", after, again)
		}
		shortest, longest = min(shortest, after.Sub(at)), max(longest, after.Sub(at))
		at = after
	}
	if shortest > every*85/100 || longest < every*115/100 {
		t.Errorf("moments are %s to %s apart: they keep in step with the hour", shortest, longest)
	}
	if n := at.Sub(origin).Hours(); math.Abs(n-2001) > 2 {
		t.Errorf("2001 cycles took %.1f hours", n)
	}
}

func TestNodesProbeAtDifferentTimes(t *testing.T) {
	var quarter [4]int
	for i := range 2000 {
		at := schedule{fmt.Sprint("node", i)}.next(Key{Kind: Node}, 0, 1, time.Hour, origin)
		if at.Before(origin) || at.Sub(origin) > 72*time.Minute {
			t.Fatalf("node %d: first moment %s after the start", i, at.Sub(origin))
		}
		quarter[min(int(at.Sub(origin)/(15*time.Minute)), 3)]++
	}
	for i, n := range quarter {
		if n < 400 || n > 600 {
			t.Errorf("%d of 2000 nodes are due in quarter %d of the first hour, expected 500 or so", n, i)
		}
	}
}

func TestRailsTakeTurns(t *testing.T) {
	const every, rails = 8 * time.Hour, 8
	s := schedule{"node17"}
	var hours [every / time.Hour]int
	for i := range rails {
		at := s.next(Key{Kind: Rail, Device: fmt.Sprint("mlx5_", i), Port: 1}, i, rails, every, origin)
		hours[int(at.Sub(origin)/time.Hour)%len(hours)]++
	}
	for i, n := range hours {
		if n > 3 {
			t.Errorf("%d of 8 rails are due in hour %d of 8", n, i)
		}
	}
}

func TestDutyIsKept(t *testing.T) {
	d := newDuty(0.001, 10*time.Second)
	d.open([]string{"a"}, origin)
	if w := d.wait("a", 10*time.Second, origin); w < 10000*time.Second || w > 10001*time.Second {
		t.Errorf("10 s are earned in %s, expected 10000 s", w)
	}
	at := origin.Add(10000 * time.Second)
	d.charge("a", 25*time.Second, at)
	if b := d.balance("a", at); b != -15*time.Second {
		t.Errorf("balance is %s, expected -15s", b)
	}
	if b := d.balance("a", at.Add(365*24*time.Hour)); b != d.ceiling || b != 30*time.Second {
		t.Errorf("balance after a year is %s, expected 30s", b)
	}
	if w := d.wait("a", time.Hour, at.Add(365*24*time.Hour)); w != 0 {
		t.Errorf("what costs more than an account holds would wait for ever (%s)", w)
	}
	if b := d.balance("a", at.Add(-time.Hour)); b != -15*time.Second {
		t.Errorf("time that goes backwards changed the balance to %s", b)
	}
	for i := range 1000 {
		d.open([]string{fmt.Sprint("gpu", i)}, at)
	}
	if len(d.gpus) > gpusMost {
		t.Errorf("%d accounts, expected %d at most", len(d.gpus), gpusMost)
	}
}
