// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/peers"
)

// TestAllAsked is 64 peers of which none answers, over HTTP either: each is asked again and again.
func TestAllAsked(t *testing.T) {
	p := New(Options{Config: rdmaping.DefaultConfig(), Log: slog.New(slog.DiscardHandler)})
	for i := range 64 {
		p.plan.rails = append(p.plan.rails, planned{peers: []peers.Target{{Address: fmt.Sprintf("n%d:1", i)}}})
	}
	asked, now := map[string]int{}, time.Now()
	for range 20 {
		list := p.due(now)
		if len(list) > askAtOnce {
			t.Errorf("%d at once", len(list))
		}
		for _, address := range list {
			asked[address]++
			p.answered(address, nil, context.DeadlineExceeded)
			p.told[address].silent = true
		}
		now = now.Add(askFor)
	}
	for address, n := range asked {
		if n != 5 {
			t.Errorf("%s is asked %d times", address, n)
		}
	}
	if len(asked) != 64 {
		t.Errorf("%d peers are asked", len(asked))
	}
}

// TestSizes sends nothing that is longer than the peer takes: InfiniBand drops it.
func TestSizes(t *testing.T) {
	w := newWorld(t, 4)
	w.size, w.mtu = 4096, 1024
	w.run(time.Minute)
	if w.sizes[1024] < 250 || len(w.sizes) != 2 || w.sizes[4096] > 130 { // which are those of loopback
		t.Errorf("%v", w.sizes)
	}
}

// TestRefused is exporters that tell nothing to who has no password: nothing is pinged, and so no rail is well.
func TestRefused(t *testing.T) {
	w := newWorld(t, 4)
	for i := range 4 {
		w.refuses[fmt.Sprintf("n%d:1", i)] = true
	}
	for _, r := range w.run(time.Minute).Rails {
		if sent, _ := lost(r); r.Uncovered != rdmaping.UncoveredAlone || sent > 0 {
			t.Errorf("%q, %d sent", r.Uncovered, sent)
		}
	}
}
