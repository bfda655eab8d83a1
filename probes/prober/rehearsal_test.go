// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
)

// A rehearsal judges its results as a Prober would: a regression after a second slow result, and the end of it.
func TestRehearsal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 2 * time.Minute
		c := probes.DefaultConfig()
		c.Every = map[probes.Kind]time.Duration{probes.Rail: every}
		began := time.Now()
		r, err := NewRehearsal(c, "node17", began.Add(-40*every))
		if err != nil {
			t.Fatal(err)
		}
		key := probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}
		ran := func(at time.Time, busBW float64) *probes.ProbeStatus {
			r.Ran(probes.Result{
				Key: key, At: at, GPUTime: 1, GPUs: []string{"GPU-a"}, Outcome: probes.OK, Path: probes.Known(probes.PathIB, "", at),
				Measurements: []probes.Measurement{{Op: probes.Broadcast, Type: probes.Float32, Bytes: 64 << 20, Ranks: 2, Time: 0.001, BusBW: busBW}},
			})
			if s := r.Status(); len(s.Probes) == 1 {
				return &s.Probes[0]
			}
			t.Fatal("not one probe")
			return nil
		}
		r.Ran(probes.Result{Key: key, At: began})
		if s := r.Status(); len(s.Probes) != 0 || !s.Enabled || !s.Since.Equal(began.Add(-40*every)) {
			t.Fatalf("of a probe that has not run: %+v", s)
		}
		r.See([]probes.Target{{Key: key, GPUs: []string{"GPU-a"}}})
		for i := range 40 {
			ran(began.Add(time.Duration(i-40)*every), 40e9+float64(i%3)*1e8)
		}
		due := func(within time.Duration) {
			t.Helper()
			for began := time.Now(); !slices.Equal(r.Due(time.Now()), []probes.Key{key}); time.Sleep(time.Second) {
				if time.Since(began) > within {
					t.Fatalf("not due within %s", within)
				}
			}
		}
		due(every + every/5)
		if s := ran(time.Now(), 28e9); s.Last.Comparison.Regressed || s.Last.Comparison.Below != 1 || s.Runs != 41 || !s.LastRun.Equal(time.Now()) {
			t.Errorf("one slow result: %+v", s.Last.Comparison)
		}
		due(confirmIn)
		if s := ran(time.Now(), 28e9); !s.Last.Comparison.Regressed || len(s.Kept) != 1 || s.Before == nil {
			t.Errorf("confirmed: %+v", s.Last.Comparison)
		}
		due(every + every/5)
		r.Skipped(key, &probes.Skipped{Why: probes.SkipProcess, At: time.Now()}, time.Now().Add(time.Minute))
		if len(r.Due(time.Now())) != 0 || r.Status().Probes[0].Skips[probes.SkipProcess] != 1 {
			t.Error("due, though it was skipped just now")
		}
		due(time.Minute)
		if s := ran(time.Now(), 40e9); s.Last.Comparison.Regressed || s.Failures[probes.FailureHang] != 0 {
			t.Errorf("mended: %+v", s.Last.Comparison)
		}
		if got := r.Status().GPUTime; got != 43*time.Second {
			t.Errorf("%s of GPU time", got)
		}
		r.See([]probes.Target{{Key: probes.Key{Kind: probes.Transport}}})
		if time.Sleep(time.Hour); len(r.Due(time.Now())) != 0 {
			t.Error("a probe that is no longer there is due")
		}
		if _, err := NewRehearsal(probes.Config{}, "", began); err == nil {
			t.Error("takes a configuration that is none")
		}
	})
}
