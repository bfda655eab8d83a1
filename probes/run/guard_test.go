// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// In TestIntruder another process comes to the GPUs in every step of a run.
func TestIntruder(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 250 * time.Millisecond, 700 * time.Millisecond, 1250 * time.Millisecond, 1350 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
			// The sample takes 30 ms, and the kernel 40 ms to release what was killed.
			c := &probestest.Crew{Plan: p.Ranks, Reap: 40 * time.Millisecond, Fault: func(ctx context.Context, _ int, q *probes.Request) (any, error, bool) {
				if q.Close != nil { // which holds the GPU still
					probestest.Nap(ctx, 300*time.Millisecond)
				}
				return nil, nil, false
			}}
			began := time.Now()
			var seen time.Time
			r := Run(t.Context(), p, c.Start, guardFunc(func(ctx context.Context, _ []int) (string, error) {
				asked := time.Now()
				probestest.Nap(ctx, 30*time.Millisecond)
				if asked.Sub(began) < after {
					return "", nil
				}
				seen = asked
				return "process 4711 (python3)", nil
			}))
			if r.Outcome != probes.Aborted || r.Failure != probes.FailureIntruder || !strings.Contains(r.Error, "process 4711 (python3)") {
				t.Fatalf("after %s: %s %s: %s", after, r.Outcome, r.Failure, r.Error)
			}
			if killed := c.All(t); killed != 8 {
				t.Errorf("after %s: %d processes were killed, expected 8", after, killed)
			}
			for _, rank := range c.Started {
				if d := rank.Killed.Sub(seen); d > 200*time.Millisecond || d < 0 {
					t.Errorf("after %s: rank %d was killed %s after the sample, expected at most 200ms", after, rank.Rank, d)
				}
			}
			if i := r.Intrusion; i == nil || i.Who != "process 4711 (python3)" || i.Killed != 0.03 || i.Gone != 0.07 {
				t.Errorf("after %s: %+v, expected to have killed within 30ms, and all to be gone after 70ms", after, i)
			}
			if seen.Sub(began) > after+guardInterval {
				t.Errorf("seen after %s, expected at most %s", seen.Sub(began), after+guardInterval)
			}
		})
	}
}

// slowDriver is a guard: an intruder is there after some time, and what the ranks had is free some time after
// they were reaped.
type slowDriver struct {
	comes, frees time.Time // never, if zero
	maintenance  bool      // it is what comes
	own          []int     // PIDs that Freed was asked for
}

func (d *slowDriver) Intruder(context.Context, []int) (string, error) {
	switch {
	case d.comes.IsZero() || time.Now().Before(d.comes):
		return "", nil
	case d.maintenance:
		return "", fmt.Errorf("%w: SIGUSR1", probes.ErrMaintenance)
	}
	return "python3", nil
}

func (d *slowDriver) Freed(ctx context.Context, own []int) error {
	d.own = own
	if d.maintenance {
		return fmt.Errorf("%w: SIGUSR1", probes.ErrMaintenance)
	}
	if !d.frees.IsZero() {
		probestest.Nap(ctx, time.Until(d.frees))
	} else {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("500 MiB are used on GPU-0: %w", ctx.Err())
	}
	return nil
}

// The time until the memory of the GPUs is free is measured from the kill, or from when ranks were asked to close.
func TestRelease(t *testing.T) {
	const healthy = 1400 * time.Millisecond // until a run closes its ranks, or a little less
	for _, c := range []struct {
		name        string
		comes       time.Duration // after the beginning; 0: never
		frees       time.Duration // after the beginning; 0: never
		maintenance bool
		stop        time.Duration // after which the exporter ends; 0: it does not
		outcome     probes.Outcome
		failure     probes.Failure
		want        time.Duration // 0: not known
		left        string
	}{
		{name: "undisturbed", frees: 2 * time.Second, outcome: probes.OK, want: 2*time.Second - healthy},
		{name: "intruder", comes: 500 * time.Millisecond, frees: 740 * time.Millisecond, outcome: probes.Aborted, failure: probes.FailureIntruder, want: 240 * time.Millisecond},
		{name: "free before it is looked at", comes: 500 * time.Millisecond, frees: time.Nanosecond, outcome: probes.Aborted, failure: probes.FailureIntruder, want: 40 * time.Millisecond},
		{name: "never free after an intruder", comes: 500 * time.Millisecond, outcome: probes.Aborted, failure: probes.FailureIntruder, left: "500 MiB are used on GPU-0"},
		{name: "never free", outcome: probes.OK, left: "500 MiB are used on GPU-0"},
		{name: "maintenance", comes: 500 * time.Millisecond, maintenance: true, outcome: probes.Aborted, failure: probes.FailureStopped},
		{name: "the exporter ends", stop: 500 * time.Millisecond, outcome: probes.Aborted, failure: probes.FailureStopped},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{}), time.Now()
				crew := &probestest.Crew{Plan: p.Ranks, Reap: 40 * time.Millisecond}
				d := &slowDriver{maintenance: c.maintenance}
				if c.comes > 0 {
					d.comes = began.Add(c.comes)
				}
				if c.frees > 0 {
					d.frees = began.Add(c.frees)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.stop > 0 {
					time.AfterFunc(c.stop, cancel)
				}
				r := Run(ctx, p, crew.Start, d)
				if r.Outcome != c.outcome || r.Failure != c.failure {
					t.Fatalf("%s %s: %s", r.Outcome, r.Failure, r.Error)
				}
				if (r.Intrusion != nil) != (c.failure == probes.FailureIntruder) {
					t.Errorf("intrusion %+v", r.Intrusion)
				}
				if c.maintenance && !strings.Contains(r.Error, "maintenance: SIGUSR1") {
					t.Errorf("%q", r.Error)
				}
				got, known := r.Release.Get()
				if known != (c.want > 0) || (got.Duration()-c.want).Abs() > 100*time.Millisecond || c.outcome == probes.Aborted && got.Duration() != c.want {
					t.Errorf("released after %v, %v; expected %s", got, known, c.want)
				}
				if (r.Left == "") != (c.left == "") || !strings.Contains(r.Left, c.left) {
					t.Errorf("left %q, expected %q", r.Left, c.left)
				}
				if took := time.Since(began); took > releaseLimit+2*time.Second || c.stop > 0 && took > c.stop+time.Second {
					t.Errorf("it took %s", took)
				}
				if len(d.own) != 8 && c.stop == 0 || len(d.own) > 0 && slices.Min(d.own) != probestest.CrewPID+1 {
					t.Errorf("asked for %v", d.own)
				}
				if killed := crew.All(t); (killed == 8) != (c.outcome == probes.Aborted) || killed != 0 && killed != 8 {
					t.Errorf("%d were killed", killed)
				}
			})
		})
	}
}

// A guard that hangs does not keep a run.
func TestReleaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hang := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{}), make(chan struct{})
		r := Run(t.Context(), p, (&probestest.Crew{Plan: p.Ranks}).Start, hangingGuard{noIntruder, hang})
		if _, known := r.Release.Get(); r.Outcome != probes.OK || known || r.Left == "" || r.Wall > 3 {
			t.Errorf("%s %s: released %+v, left %q, took %s", r.Outcome, r.Error, r.Release, r.Left, r.Wall)
		}
		close(hang)
	})
}

// hangingGuard never says that GPUs are free, whatever happens to its context.
type hangingGuard struct {
	Guard
	hang chan struct{}
}

func (g hangingGuard) Freed(context.Context, []int) error {
	<-g.hang
	return nil
}

// In TestIntruderAfterwards another process comes to the GPUs as soon as they are free.
func TestIntruderAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks, Reap: time.Second}
		began := time.Now()
		r := Run(t.Context(), p, c.Start, guardFunc(func(context.Context, []int) (string, error) {
			if time.Since(began) > 1400*time.Millisecond { // processes without contexts are being reaped
				return "the next job", nil
			}
			return "", nil
		}))
		if r.Outcome != probes.OK || r.Intrusion != nil {
			t.Errorf("%s %s: %s", r.Outcome, r.Failure, r.Error)
		}
		if killed := c.All(t); killed > 0 {
			t.Errorf("%d processes were killed, expected none", killed)
		}
	})
}

func TestGuardFails(t *testing.T) {
	broken := errors.New("NVML: GPU is lost")
	for _, tt := range []struct {
		name  string
		guard func(sample int) (string, error, bool) // true: it hangs
		ok    bool
		most  time.Duration
	}{
		{"once", func(n int) (string, error, bool) { return "", map[int]error{3: broken}[n], false }, true, 2 * time.Second},
		{"now and then", func(n int) (string, error, bool) { return "", map[int]error{0: broken}[n%3], false }, true, 2 * time.Second},
		{"every other time", func(n int) (string, error, bool) { return "", map[int]error{0: broken}[n%2], false }, false, clearLimit + 10*time.Millisecond},
		{"for good", func(n int) (string, error, bool) { return "", map[bool]error{true: broken}[n > 3], false }, false, 500 * time.Millisecond},
		{"from the beginning", func(int) (string, error, bool) { return "", broken, false }, false, 110 * time.Millisecond},
		{"hangs", func(n int) (string, error, bool) { return "", nil, n > 1 }, false, 2300 * time.Millisecond},
		{"hangs, then sees one", func(n int) (string, error, bool) { return map[bool]string{true: "python3"}[n > 2], nil, n == 2 }, false, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
				// Steps are slow, so that there is time.
				c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, _ int, q *probes.Request) (any, error, bool) {
					if q.Connect != nil && !tt.ok {
						probestest.Nap(ctx, 5*time.Second)
					}
					return nil, nil, false
				}}
				var samples atomic.Int32
				hung := make(chan struct{})
				r := Run(t.Context(), p, c.Start, guardFunc(func(context.Context, []int) (string, error) {
					who, err, hang := tt.guard(int(samples.Add(1)))
					if hang {
						<-hung // whatever happens to its context
					}
					return who, err
				}))
				close(hung)
				killed := c.All(t)
				if tt.ok && (r.Outcome != probes.OK || killed != 0) || !tt.ok && (r.Outcome != probes.Aborted || killed != 8) || r.Wall.Duration() > tt.most {
					t.Errorf("%s %s after %s with %d killed: %s", r.Outcome, r.Failure, r.Wall, killed, r.Error)
				}
			})
		})
	}
}

// TestWithoutGuard is a run by hand on GPUs that may be busy.
func TestWithoutGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		if r := Run(t.Context(), p, (&probestest.Crew{Plan: p.Ranks}).Start, nil); r.Outcome != probes.OK {
			t.Errorf("%s %s: %s", r.Outcome, r.Failure, r.Error)
		}
	})
}

// stubborn is a process whose Kill takes long, as that of no process should.
type stubborn struct{ probes.RankProcess }

func (s stubborn) Kill() {
	time.Sleep(150 * time.Millisecond)
	s.RankProcess.Kill()
}

func TestIntruderKillsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks}
		stubbornly := func(ctx context.Context, rank probes.Rank) (probes.RankProcess, error) {
			r, err := c.Start(ctx, rank)
			return stubborn{r}, err
		}
		r := Run(t.Context(), p, stubbornly, guardFunc(func(context.Context, []int) (string, error) { return "python3", nil }))
		if r.Intrusion == nil || r.Intrusion.Killed > 0.16 {
			t.Errorf("%+v, expected all to be killed at once", r.Intrusion)
		}
	})
}
