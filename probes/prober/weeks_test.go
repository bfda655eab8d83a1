// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

func TestWeeks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began, weeks := newBench(t), time.Now(), long(28*day)
		p := b.prober(&probestest.Disk{}, nil)
		during(p, weeks)
		b.within(0.001, weeks)
		s := p.Status()
		if len(s.Probes) != 11 || !s.Enabled || s.State != "" {
			t.Errorf("status: %+v", s)
		}
		runs := 0
		for _, ps := range s.Probes {
			want := int(weeks / p.config.Every[ps.Key.Kind])
			if got := len(b.began[ps.Key]); got != int(ps.Runs) || got > want+1 || got < want-max(want/10, 3) {
				t.Errorf("%v: %d runs and %d reported, expected %d", ps.Key, got, ps.Runs, want)
			}
			if late := ps.Skips[probes.SkipDuty]; late > 6 {
				t.Errorf("%v: had to wait for its GPUs to pay %d times", ps.Key, late)
			}
			if !ps.LastRun.Equal(b.began[ps.Key][len(b.began[ps.Key])-1]) || !ps.NextRun.After(time.Now()) {
				t.Errorf("%v: ran last at %s, next at %s", ps.Key, ps.LastRun, ps.NextRun)
			}
			if c := ps.Last.Comparison; ps.Key.Kind != probes.Transport && (c.Ratio.Value != 1 || c.Samples < 5 || ps.Baselines != 1) {
				t.Errorf("%v: compared %+v", ps.Key, c)
			}
			runs += len(b.began[ps.Key])
		}
		first := day
		for _, at := range b.began {
			first = min(first, at[0].Sub(began))
		}
		t.Logf("%d runs in %s, the first after %s; GPU 0 had contexts for %s (limit %s)", runs, weeks, first, b.gpus[gpu(0)], time.Duration(0.001*float64(weeks)))
	})
}

func TestRailsRunEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := b.prober(nil, func(c *probes.Config) {
			c.Every = map[probes.Kind]time.Duration{probes.Rail: 8 * time.Hour}
			c.Duty = 0.01
		})
		during(p, 7*day)
		hours := map[int64]int{}
		for i := range 8 {
			at := b.began[railKey(i)]
			if len(at) < 19 {
				t.Fatalf("rail %d ran %d times in 7 days, expected 20 or 21", i, len(at))
			}
			for j, a := range at {
				hours[a.Unix()/3600]++
				if j > 0 && (a.Sub(at[j-1]) < 6*time.Hour || a.Sub(at[j-1]) > 10*time.Hour) {
					t.Errorf("rail %d: %s between two runs, expected 8 h or so", i, a.Sub(at[j-1]))
				}
			}
		}
		for h, n := range hours {
			if n > 4 {
				t.Errorf("%d rails ran in hour %d", n, h)
			}
		}
	})
}

// Probes that need more than the budget of the GPUs get what it allows, in turns.
func TestDutyLimitsWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := b.prober(nil, func(c *probes.Config) {
			c.Every = map[probes.Kind]time.Duration{probes.Transport: 10 * time.Minute, probes.Node: 10 * time.Minute, probes.Rail: 10 * time.Minute, probes.Socket: 10 * time.Minute}
		})
		passed := long(14 * day)
		during(p, passed)
		b.within(0.001, passed)
		var tries []time.Time
		for _, at := range b.tried {
			tries = append(tries, at...)
		}
		slices.SortFunc(tries, time.Time.Compare)
		for i := range tries[1:] {
			if gap := tries[i+1].Sub(tries[i]); gap < time.Minute {
				t.Errorf("two probes within %s", gap)
			}
		}
		limit := time.Duration(0.001 * float64(passed))
		if used := b.gpus[gpu(0)]; used < limit*8/10 {
			t.Errorf("GPU 0 had contexts for %s, and could have had them for %s", used, limit)
		}
		for _, s := range p.Status().Probes {
			if s.Runs < uint64(passed/day) {
				t.Errorf("%v ran %d times in %s: it is starved", s.Key, s.Runs, passed)
			}
			if s.Skips[probes.SkipDuty] == 0 || s.LastSkip == nil || !strings.HasPrefix(s.LastSkip.Detail, "the time budget for probes of GPU-") {
				t.Errorf("%v: no skip shows that the budget is spent: %+v", s.Key, s.Skips)
			}
		}
	})
}

// However often the exporter is started, and whether it finds its state or not.
func TestRestartsAreNoBursts(t *testing.T) {
	for name, keep := range map[string]bool{"state kept": true, "state lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, d := newBench(t), &probestest.Disk{}
				rnd := rand.New(rand.NewPCG(7, 8))
				var passed time.Duration
				for passed < long(14*day) {
					if !keep {
						d.Data = nil
					}
					up := time.Duration(rnd.ExpFloat64() * float64(3*time.Hour))
					if rnd.IntN(2) == 0 {
						up = time.Duration(rnd.ExpFloat64() * float64(time.Minute))
					}
					during(b.prober(d, nil), up)
					passed += up
				}
				b.within(0.001, passed)
				for key, at := range b.began {
					for i := range at[1:] {
						if gap := at[i+1].Sub(at[i]); gap < p(t, key)/4 {
							t.Errorf("%v: ran again after %s", key, gap)
						}
					}
				}
				if n := len(b.began[probes.Key{Kind: probes.Node}]); keep && n < int(passed/day)*7/2 {
					t.Errorf("%d runs of node, expected most of %d", n, passed/(4*time.Hour))
				}
			})
		})
	}
}

// An exporter that is restarted before the budget allows a first probe must still run it eventually.
func TestRestartsDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newBench(t), &probestest.Disk{}
		for range 48 {
			ctx, crash := context.WithCancel(t.Context())
			time.AfterFunc(time.Hour-time.Second, func() { d.Frozen.Store(true) })
			time.AfterFunc(time.Hour, crash)
			b.prober(d, nil).Run(ctx)
			d.Frozen.Store(false)
		}
		b.within(0.001, 2*day)
		if n := len(b.began[probes.Key{Kind: probes.Node}]); n < 8 {
			t.Errorf("%d runs in 48 lives of an hour each, expected most of 12", n)
		}
	})
}

func p(t *testing.T, key probes.Key) time.Duration {
	every := probes.DefaultConfig().Every[key.Kind]
	if every == 0 {
		t.Errorf("%v ran by itself", key)
	}
	return every
}

// A run that takes the exporter with it has been paid for.
func TestCrashDuringRunIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newBench(t), &probestest.Disk{}
		var passed time.Duration
		b.run = func(ctx context.Context, _ *probes.Result) { <-ctx.Done() } // the crash: see below
		for range 60 {
			pr, ctx := b.prober(d, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 10 * time.Minute} }), context.Background()
			ctx, crash := context.WithCancel(ctx)
			go func() {
				for b.isIdle() && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				d.Frozen.Store(true) // nothing is saved any more
				crash()
			}()
			time.AfterFunc(12*time.Hour, crash)
			start := time.Now()
			pr.Run(ctx)
			crash()
			synctest.Wait()
			time.Sleep(time.Minute)
			d.Frozen.Store(false)
			b.busy = false
			passed += time.Since(start)
		}
		runs := len(b.began[probes.Key{Kind: probes.Node}])
		if price := 10 * time.Second; time.Duration(runs)*price > time.Duration(0.001*float64(passed))+price {
			t.Errorf("%d runs in %s that crashed, at %s each", runs, passed, price)
		}
		if runs == 0 {
			t.Error("there was no crash")
		}
	})
}
