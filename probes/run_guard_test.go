// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestIntruder has somebody come to the GPUs in every step of a run.
func TestIntruder(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 250 * time.Millisecond, 700 * time.Millisecond, 1250 * time.Millisecond, 1350 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := planFor(t, Key{Kind: Node}, Settings{})
			// The sample takes 30 ms, and the kernel 40 ms to let go of what was killed.
			c := &crew{plan: p, reap: 40 * time.Millisecond, fault: func(ctx context.Context, _ int, q *Request) (any, error, bool) {
				if q.Close != nil { // which holds the GPU still
					nap(ctx, 300*time.Millisecond)
				}
				return nil, nil, false
			}}
			began := time.Now()
			var seen time.Time
			r := Run(t.Context(), p, c, guardFunc(func(ctx context.Context, _ []int) (string, error) {
				asked := time.Now()
				nap(ctx, 30*time.Millisecond)
				if asked.Sub(began) < after {
					return "", nil
				}
				seen = asked
				return "process 4711 (python3)", nil
			}))
			if r.Outcome != Aborted || r.Failure != FailureIntruder || !strings.Contains(r.Error, "process 4711 (python3)") {
				t.Fatalf("after %s: %s %s: %s", after, r.Outcome, r.Failure, r.Error)
			}
			if killed := c.all(t); killed != 8 {
				t.Errorf("after %s: %d processes were killed, expected 8", after, killed)
			}
			for _, rank := range c.ranks {
				if d := rank.killed.Sub(seen); d > 200*time.Millisecond || d < 0 {
					t.Errorf("after %s: rank %d was killed %s after the sample, expected at most 200ms", after, rank.rank, d)
				}
			}
			if i := r.Intrusion; i == nil || i.Who != "process 4711 (python3)" || i.Killed != 30*time.Millisecond || i.Gone != 70*time.Millisecond {
				t.Errorf("after %s: %+v, expected to have killed within 30ms, and all to be gone after 70ms", after, i)
			}
			if seen.Sub(began) > after+guardInterval {
				t.Errorf("seen after %s, expected at most %s", seen.Sub(began), after+guardInterval)
			}
		})
	}
}

// TestIntruderAfterwards has somebody come to the GPUs as soon as they are free.
func TestIntruderAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, Key{Kind: Node}, Settings{})
		c := &crew{plan: p, reap: time.Second}
		began := time.Now()
		r := Run(t.Context(), p, c, guardFunc(func(context.Context, []int) (string, error) {
			if time.Since(began) > 1400*time.Millisecond { // processes without contexts are being reaped
				return "the next job", nil
			}
			return "", nil
		}))
		if r.Outcome != OK || r.Intrusion != nil {
			t.Errorf("%s %s: %s", r.Outcome, r.Failure, r.Error)
		}
		if killed := c.all(t); killed > 0 {
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
		{"now and then", func(n int) (string, error, bool) { return "", map[int]error{0: broken, 1: nil}[n%2], false }, true, 2 * time.Second},
		{"for good", func(n int) (string, error, bool) { return "", map[bool]error{true: broken}[n > 3], false }, false, 500 * time.Millisecond},
		{"from the beginning", func(int) (string, error, bool) { return "", broken, false }, false, 110 * time.Millisecond},
		{"hangs", func(n int) (string, error, bool) { return "", nil, n > 1 }, false, 2300 * time.Millisecond},
		{"hangs, then sees one", func(n int) (string, error, bool) { return map[bool]string{true: "python3"}[n > 2], nil, n == 2 }, false, 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planFor(t, Key{Kind: Node}, Settings{})
				// Steps are slow, so that there is time.
				c := &crew{plan: p, fault: func(ctx context.Context, _ int, q *Request) (any, error, bool) {
					if q.Connect != nil && !tt.ok {
						nap(ctx, 5*time.Second)
					}
					return nil, nil, false
				}}
				var samples atomic.Int32
				hung := make(chan struct{})
				r := Run(t.Context(), p, c, guardFunc(func(context.Context, []int) (string, error) {
					who, err, hang := tt.guard(int(samples.Add(1)))
					if hang {
						<-hung // whatever happens to its context
					}
					return who, err
				}))
				close(hung)
				killed := c.all(t)
				if tt.ok && (r.Outcome != OK || killed != 0) || !tt.ok && (r.Outcome != Aborted || killed != 8) || r.Wall > tt.most {
					t.Errorf("%s %s after %s with %d killed: %s", r.Outcome, r.Failure, r.Wall, killed, r.Error)
				}
			})
		})
	}
}

// TestWithoutGuard is a run by hand on GPUs that may be busy.
func TestWithoutGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, Key{Kind: Node}, Settings{})
		if r := Run(t.Context(), p, &crew{plan: p}, nil); r.Outcome != OK {
			t.Errorf("%s %s: %s", r.Outcome, r.Failure, r.Error)
		}
	})
}

// stubborn is a process whose Kill takes long, as that of no process should.
type stubborn struct{ RankProcess }

func (s stubborn) Kill() {
	time.Sleep(150 * time.Millisecond)
	s.RankProcess.Kill()
}

type stubbornCrew struct{ *crew }

func (s stubbornCrew) Start(ctx context.Context, env []string) (RankProcess, error) {
	p, err := s.crew.Start(ctx, env)
	return stubborn{p}, err
}

func TestIntruderKillsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, Key{Kind: Node}, Settings{})
		c := &crew{plan: p}
		r := Run(t.Context(), p, stubbornCrew{c}, guardFunc(func(context.Context, []int) (string, error) { return "python3", nil }))
		if r.Intrusion == nil || r.Intrusion.Killed > 160*time.Millisecond {
			t.Errorf("%+v, expected all to be killed at once", r.Intrusion)
		}
	})
}
