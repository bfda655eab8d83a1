// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
)

// What a probe was like before it changed is kept for as long as it stays changed.
func TestBeforeTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), probes.Key{Kind: probes.Node}
		busBW, over := 100e9, probes.PathP2P
		b.run = func(_ context.Context, r *probes.Result) {
			if b.mu.Lock(); r.Kind == probes.Node {
				r.Measurements[0].BusBW, r.Path = busBW, probes.Known(over, "", r.At)
			}
			b.mu.Unlock()
		}
		p := b.prober(nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Run(ctx)
		time.Sleep(3 * day)
		if s := b.status(p, node); s.LastGood == nil || s.Before != nil {
			t.Fatalf("before anything changed: %+v", s.Before)
		}
		if s := p.Status(); s.GPUs != 8 || s.Since.IsZero() || time.Since(s.Since) != 3*day {
			t.Errorf("%d GPUs since %v", s.GPUs, s.Since)
		}
		b.change(func() { busBW = 50e9 })
		time.Sleep(day)
		want := []probes.Change{{What: "bus bandwidth", Old: "100 GB/s", New: "50 GB/s (-50 %)"}}
		if s := b.status(p, node); s.Before == nil || !reflect.DeepEqual(probes.Changes(*s.Before, *s.LastGood), want) {
			t.Errorf("slower: %+v", s.Before)
		}
		b.change(func() { busBW, over = 5e9, probes.PathSocket })
		time.Sleep(2 * day)
		want = []probes.Change{{What: "path", Old: "p2p", New: "socket"}, {What: "bus bandwidth", Old: "50 GB/s", New: "5 GB/s (-90 %)"}}
		if s := b.status(p, node); s.Before == nil || !reflect.DeepEqual(probes.Changes(*s.Before, *s.LastGood), want) {
			t.Errorf("over TCP: %+v", s.Before)
		}
	})
}
