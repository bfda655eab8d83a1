// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// A job that comes between the last look of the gate and the start of the ranks is seen before a rank opens a GPU, also
// where the first list of processes lacks it, or cannot be read.
func TestNoRankOpensAGPUThatIsTaken(t *testing.T) {
	const who = "compute process 4711 (python3)"
	for _, c := range []struct {
		name    string
		looks   []string // what each sees: "" nothing, "?" it cannot be seen; then the last one again
		failure probes.Failure
		within  time.Duration // from the start of the ranks to the kill
	}{
		{"it is there", []string{who}, probes.FailureIntruder, 80 * time.Millisecond},
		{"the first list lacks it", []string{"", who}, probes.FailureIntruder, 180 * time.Millisecond},
		{"the first look fails", []string{"?", who}, probes.FailureIntruder, 180 * time.Millisecond},
		{"the first look fails, and the next list lacks it", []string{"?", "", who}, probes.FailureIntruder, 280 * time.Millisecond},
		{"nothing can be seen", []string{"?"}, probes.FailureStopped, 180 * time.Millisecond},
		{"a failure between two lists that lack it", []string{"", "?", "", who}, probes.FailureIntruder, 380 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
			var opened atomic.Int32
			crew := &probestest.Crew{Plan: p.Ranks, Fault: func(_ context.Context, _ int, q *probes.Request) (any, error, bool) {
				opened.Add(1)
				return nil, nil, false
			}}
			began, looks := time.Now(), 0
			r := Run(t.Context(), p, crew.Start, guardFunc(func(ctx context.Context, _ []int) (string, error) {
				saw := c.looks[min(looks, len(c.looks)-1)]
				looks++
				probestest.Nap(ctx, 80*time.Millisecond)
				if saw == "?" {
					return "", errors.New("no answer")
				}
				return saw, nil
			}))
			if r.Outcome != probes.Aborted || r.Failure != c.failure || c.failure == probes.FailureIntruder && !strings.Contains(r.Error, who) {
				t.Errorf("%s: %s %s: %s", c.name, r.Outcome, r.Failure, r.Error)
			}
			if n := opened.Load(); n != 0 || r.GPUTime != 0 {
				t.Errorf("%s: ranks were asked %d times, and had a context for %s", c.name, n, r.GPUTime)
			}
			crew.All(t)
			for _, rank := range crew.Started {
				if took := rank.Killed.Sub(began); took > c.within {
					t.Errorf("%s: rank %d was killed after %s, expected %s at most", c.name, rank.Number, took, c.within)
				}
			}
		})
	}
}

// Ranks do not wait longer than for two looks, and not at all without a guard.
func TestRanksOpenAfterTwoClearLooks(t *testing.T) {
	for name, c := range map[string]struct {
		guard Guard
		want  time.Duration
	}{
		"two looks": {guardFunc(func(ctx context.Context, _ []int) (string, error) {
			probestest.Nap(ctx, 20*time.Millisecond)
			return "", nil
		}), 120 * time.Millisecond},
		"no guard": {nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, began := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{}), time.Now()
			var first atomic.Int64
			first.Store(-1)
			crew := &probestest.Crew{Plan: p.Ranks, Fault: func(context.Context, int, *probes.Request) (any, error, bool) {
				first.CompareAndSwap(-1, int64(time.Since(began)))
				return nil, nil, false
			}}
			if r := Run(t.Context(), p, crew.Start, c.guard); r.Outcome != probes.OK || time.Duration(first.Load()) != c.want {
				t.Errorf("%s: %s %s, opened after %s, expected %s", name, r.Outcome, r.Error, time.Duration(first.Load()), c.want)
			}
		})
	}
}
