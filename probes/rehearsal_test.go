// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A rehearsal judges its results as a Prober would: a regression after a second slow result, and the end of it.
func TestRehearsal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 2 * time.Minute
		c := DefaultConfig()
		c.Every = map[Kind]time.Duration{Rail: every}
		began := time.Now()
		r, err := NewRehearsal(c, "node17", began.Add(-40*every))
		if err != nil {
			t.Fatal(err)
		}
		key := Key{Kind: Rail, Device: "mlx5_0", Port: 1}
		ran := func(at time.Time, busBW float64) *ProbeStatus {
			r.Ran(Result{
				Key: key, At: at, GPUTime: 1, GPUs: []string{"GPU-a"}, Outcome: OK, Path: Known(PathIB, "", at),
				Measurements: []Measurement{{Op: Broadcast, Type: Float32, Bytes: 64 << 20, Ranks: 2, Time: 0.001, BusBW: busBW}},
			})
			if s := r.Status(); len(s.Probes) == 1 {
				return &s.Probes[0]
			}
			t.Fatal("not one probe")
			return nil
		}
		r.Ran(Result{Key: key, At: began})
		if s := r.Status(); len(s.Probes) != 0 || !s.Enabled || !s.Since.Equal(began.Add(-40*every)) {
			t.Fatalf("of a probe that has not run: %+v", s)
		}
		r.See([]Target{{Key: key, GPUs: []string{"GPU-a"}}})
		for i := range 40 {
			ran(began.Add(time.Duration(i-40)*every), 40e9+float64(i%3)*1e8)
		}
		due := func(within time.Duration) {
			t.Helper()
			for began := time.Now(); !slices.Equal(r.Due(time.Now()), []Key{key}); time.Sleep(time.Second) {
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
		r.Skipped(key, &Skipped{Why: SkipProcess, At: time.Now()}, time.Now().Add(time.Minute))
		if len(r.Due(time.Now())) != 0 || r.Status().Probes[0].Skips[SkipProcess] != 1 {
			t.Error("due, though it was skipped just now")
		}
		due(time.Minute)
		if s := ran(time.Now(), 40e9); s.Last.Comparison.Regressed || s.Failures[FailureHang] != 0 {
			t.Errorf("mended: %+v", s.Last.Comparison)
		}
		if got := r.Status().GPUTime; got != 43*time.Second {
			t.Errorf("%s of GPU time", got)
		}
		r.See([]Target{{Key: Key{Kind: Transport}}})
		if time.Sleep(time.Hour); len(r.Due(time.Now())) != 0 {
			t.Error("a probe that is no longer there is due")
		}
		if _, err := NewRehearsal(Config{}, "", began); err == nil {
			t.Error("takes a configuration that is none")
		}
	})
}
