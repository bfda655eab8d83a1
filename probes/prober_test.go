// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const day = 24 * time.Hour

// bench is a machine with 8 GPUs and 8 rails that does what it is told, in no time but that which it is told to take.
type bench struct {
	enter func(Key) *Skipped                   // nil: it may
	run   func(ctx context.Context, r *Result) // changes the result of a good run
	gone  func(Key) bool                       // which probes are not there
	costs map[Kind]time.Duration               // of each GPU
	gpus  map[string]time.Duration             // what they had contexts for
	conds []string                             // conditions
	began map[Key][]time.Time                  // runs
	tried map[Key][]time.Time                  // enters
	mu    sync.Mutex
	busy  bool
	t     *testing.T
}

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, gpus: map[string]time.Duration{}, began: map[Key][]time.Time{}, tried: map[Key][]time.Time{},
		costs: map[Kind]time.Duration{Transport: 2 * time.Second, Node: 5 * time.Second, Rail: 6 * time.Second, Socket: 6 * time.Second, Calibrate: 40 * time.Second},
	}
}

func gpu(i int) string { return fmt.Sprint("GPU-", i) }

func railKey(i int) Key { return Key{Rail, fmt.Sprint("mlx5_", i), 1} }

func (b *bench) Targets(context.Context) []Target {
	all := make([]string, 8)
	for i := range all {
		all[i] = gpu(i)
	}
	targets := []Target{{Key: Key{Kind: Transport}, GPUs: all[:1]}, {Key: Key{Kind: Node}, GPUs: all}, {Key: Key{Kind: Socket}, GPUs: all[:2]}, {Key: Key{Kind: Calibrate}, GPUs: all}}
	for i := range 8 {
		targets = append(targets, Target{Key: railKey(i), GPUs: all[i : i+1]})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var there []Target
	for _, t := range targets {
		if b.gone == nil || !b.gone(t.Key) {
			t.Conditions = b.conds
			there = append(there, t)
		}
	}
	return there
}

type visit struct {
	b *bench
	t Target
}

func (b *bench) Enter(_ context.Context, t Target) (Visit, *Skipped) {
	b.mu.Lock()
	b.tried[t.Key] = append(b.tried[t.Key], time.Now())
	enter := b.enter
	b.mu.Unlock()
	if enter != nil {
		if s := enter(t.Key); s != nil {
			return nil, s
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		b.t.Error("two probes at a time")
	}
	b.busy = true
	return visit{b, t}, nil
}

func (v visit) Run(ctx context.Context) Result {
	b, took := v.b, v.b.costs[v.t.Key.Kind]
	b.mu.Lock()
	r := Result{
		Key: v.t.Key, At: time.Now(), Wall: took, GPUTime: took * time.Duration(len(v.t.GPUs)), GPUs: v.t.GPUs, Outcome: OK,
		NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0",
		Measurements: []Measurement{{Op: AllReduce, Type: Float32, Bytes: 64 << 20, Ranks: 8, BusBW: 100e9}},
	}
	if r.Key.Kind == Transport {
		r.Measurements = nil
	}
	b.began[r.Key] = append(b.began[r.Key], r.At)
	run := b.run
	b.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		r.Outcome, r.Failure = Aborted, FailureStopped
	}
	if run != nil {
		run(ctx, &r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range v.t.GPUs {
		b.gpus[g] += r.GPUTime / time.Duration(len(v.t.GPUs))
	}
	return r
}

// change changes what the machine does while it is used.
func (b *bench) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// runs are the times at which a probe began.
func (b *bench) runs(key Key) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.began[key])
}

func (v visit) Leave() {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	v.b.busy = false
}

// prober returns one with the defaults, but for what change changes, that keeps its state in d.
func (b *bench) prober(d *disk, change func(*Config)) *Prober {
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	p, err := New(Options{Config: c, Machine: b, Host: "node17", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	p.keeper = nil
	if d != nil {
		p.keeper = &keeper{store: d}
	}
	return p
}

// long is a time that is shorter in short tests.
func long(d time.Duration) time.Duration {
	if testing.Short() {
		return d / 4
	}
	return d
}

// during lets a prober run for some time.
func during(p *Prober, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	p.Run(ctx)
}

func (b *bench) status(p *Prober, key Key) ProbeStatus {
	b.t.Helper()
	for _, s := range p.Status().Probes {
		if s.Key == key {
			return s
		}
	}
	b.t.Fatalf("no status of %v", key)
	return ProbeStatus{}
}

// within checks that GPUs had no more contexts than they may.
func (b *bench) within(duty float64, passed time.Duration) {
	b.t.Helper()
	limit := time.Duration(duty * float64(passed))
	for g, used := range b.gpus {
		if used > limit {
			b.t.Errorf("%s: %s of contexts in %s, expected %s at most", g, used, passed, limit)
		}
	}
}

func TestWeeks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began, weeks := newBench(t), time.Now(), long(28*day)
		p := b.prober(&disk{}, nil)
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
				t.Errorf("%v: %d runs and %d told, expected %d", ps.Key, got, ps.Runs, want)
			}
			if late := ps.Skips[SkipDuty]; late > 6 {
				t.Errorf("%v: had to wait for its GPUs to pay %d times", ps.Key, late)
			}
			if !ps.LastRun.Equal(b.began[ps.Key][len(b.began[ps.Key])-1]) || !ps.NextRun.After(time.Now()) {
				t.Errorf("%v: ran last at %s, next at %s", ps.Key, ps.LastRun, ps.NextRun)
			}
			if c := ps.Last.Comparison; ps.Key.Kind != Transport && (c.Ratio.Value != 1 || c.Samples < enough || ps.Baselines != 1) {
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
		p := b.prober(nil, func(c *Config) { c.Every = map[Kind]time.Duration{Rail: 8 * time.Hour}; c.Duty = 0.01 })
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

// Whoever asks for more than GPUs can pay gets what they can pay, in turns.
func TestDutyLimitsWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := b.prober(nil, func(c *Config) {
			c.Every = map[Kind]time.Duration{Transport: 10 * time.Minute, Node: 10 * time.Minute, Rail: 10 * time.Minute, Socket: 10 * time.Minute}
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
			if s.Skips[SkipDuty] == 0 || s.LastSkip == nil || !strings.Contains(s.LastSkip.Detail, "GPU-") {
				t.Errorf("%v: nobody is told that the budget is spent: %+v", s.Key, s.Skips)
			}
		}
	})
}

// However often the exporter is started, and whether it finds its state or not.
func TestRestartsAreNoBursts(t *testing.T) {
	for name, keep := range map[string]bool{"state kept": true, "state lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, d := newBench(t), &disk{}
				rnd := rand.New(rand.NewPCG(7, 8))
				var passed time.Duration
				for passed < long(14*day) {
					if !keep {
						d.data = nil
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
				if n := len(b.began[Key{Kind: Node}]); keep && n < int(passed/day)*7/2 {
					t.Errorf("%d runs of node, expected most of %d", n, passed/(4*time.Hour))
				}
			})
		})
	}
}

// Who is restarted before a GPU can pay for a first probe must get there all the same.
func TestRestartsDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newBench(t), &disk{}
		for range 48 {
			ctx, crash := context.WithCancel(t.Context())
			time.AfterFunc(time.Hour-time.Second, func() { d.frozen.Store(true) })
			time.AfterFunc(time.Hour, crash)
			b.prober(d, nil).Run(ctx)
			d.frozen.Store(false)
		}
		b.within(0.001, 2*day)
		if n := len(b.began[Key{Kind: Node}]); n < 8 {
			t.Errorf("%d runs in 48 lives of an hour each, expected most of 12", n)
		}
	})
}

func p(t *testing.T, key Key) time.Duration {
	every := DefaultConfig().Every[key.Kind]
	if every == 0 {
		t.Errorf("%v ran by itself", key)
	}
	return every
}

// A run that takes the exporter with it has been paid for.
func TestCrashDuringRunIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newBench(t), &disk{}
		var passed time.Duration
		b.run = func(ctx context.Context, _ *Result) { <-ctx.Done() } // the crash: see below
		for range 60 {
			pr, ctx := b.prober(d, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 10 * time.Minute} }), context.Background()
			ctx, crash := context.WithCancel(ctx)
			go func() {
				for b.isIdle() && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				d.frozen.Store(true) // nothing is saved any more
				crash()
			}()
			time.AfterFunc(12*time.Hour, crash)
			start := time.Now()
			pr.Run(ctx)
			crash()
			synctest.Wait()
			time.Sleep(time.Minute)
			d.frozen.Store(false)
			b.busy = false
			passed += time.Since(start)
		}
		runs := len(b.began[Key{Kind: Node}])
		if price := 10 * time.Second; time.Duration(runs)*price > time.Duration(0.001*float64(passed))+price {
			t.Errorf("%d runs in %s that crashed, at %s each", runs, passed, price)
		}
		if runs == 0 {
			t.Error("there was no crash")
		}
	})
}

func (b *bench) isIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy
}

func TestSkippedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), Key{Kind: Node}
		b.enter = func(Key) *Skipped {
			return &Skipped{Why: SkipProcess, Detail: strings.Repeat("x", 5000), At: time.Now()}
		}
		p := b.prober(nil, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour}; c.Duty = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(3 * day) // a job
		s := b.status(p, node)
		tries := b.tried[node]
		if s.Runs != 0 || s.Skips[SkipProcess] != uint64(len(tries)) || len(tries) < 300 || len(s.LastSkip.Detail) > errorMost {
			t.Errorf("%d tries in 3 days: %+v", len(tries), s)
		}
		for i := range tries[1:] {
			if gap := tries[i+1].Sub(tries[i]); gap < time.Minute || gap > 12*time.Minute {
				t.Errorf("tried again after %s, expected 1 to 12 minutes", gap)
			}
		}
		b.change(func() { b.enter = nil })
		time.Sleep(15 * time.Minute)
		if n := len(b.runs(node)); n != 1 {
			t.Errorf("%d runs after the job, expected 1 for all that were skipped", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestRegressionIsConfirmedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d, node := newBench(t), &disk{}, Key{Kind: Node}
		busBW, only := 100e9, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour} }
		b.run = func(_ context.Context, r *Result) {
			if r.Key.Kind == Node {
				r.Measurements[0].BusBW = busBW
				r.Comparison.Expected = fabric.Known(0.5, "line rate", time.Now())
				r.Log = strings.Repeat("NCCL INFO ", 5000)
				r.Settings = make([]string, 1000)
			}
		}
		p := b.prober(d, only)
		during(p, 7*day)
		if s := b.status(p, node); s.Last.Comparison.Regressed || len(s.Kept) != 0 {
			t.Fatalf("regressed without cause: %+v", s.Last.Comparison)
		}

		busBW = 80e9
		p = b.prober(d, only)
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		before := len(b.runs(node))
		for len(b.runs(node)) == before {
			time.Sleep(5 * time.Second)
		}
		time.Sleep(30 * time.Second)
		if s := b.status(p, node); s.Last == nil || s.Last.Comparison.Regressed || s.Last.Comparison.Ratio.Value != 0.8 {
			t.Fatalf("after the first result of 80 %%: %+v", s.Last)
		}
		time.Sleep(60 * time.Second)
		s := b.status(p, node)
		at := b.runs(node)
		if c := s.Last.Comparison; !c.Regressed || c.Expected.Value != 0.5 || c.Median != 100e9 {
			t.Errorf("after the second: %+v", c)
		}
		if gap := at[len(at)-1].Sub(at[len(at)-2]); gap < 60*time.Second || gap > 70*time.Second {
			t.Errorf("confirmed after %s, expected 60 s and the time of a run", gap)
		}
		if len(s.Kept) != 1 || len(s.Kept[0].Log) != logMost || len(s.Kept[0].Settings) != settingsMost {
			t.Errorf("%d results are kept, expected the one that is regressed, bounded", len(s.Kept))
		}
		time.Sleep(8 * day)
		s = b.status(p, node)
		if n := len(b.runs(node)) - before; n > 51 || !s.Last.Comparison.Regressed || len(s.Kept) != 1 {
			t.Errorf("8 days later: %d runs, %d kept, %+v", n, len(s.Kept), s.Last.Comparison)
		}
		cancel()
		synctest.Wait()

		// A restart forgets neither the last result nor that it is regressed.
		p = b.prober(d, only)
		during(p, time.Minute)
		if s := b.status(p, node); s.Runs != 0 || s.Last == nil || !s.Last.Comparison.Regressed || s.LastGood != s.Last || s.Last.Log != "" {
			t.Errorf("after a restart: %+v", s)
		}

		// Another driver: nothing to compare with.
		b.conds = []string{"firmware 28.44"}
		p = b.prober(d, only)
		during(p, 10*time.Hour)
		if s := b.status(p, node); s.Last.Comparison.Ratio.State == fabric.OK || s.Last.Comparison.Regressed || s.Baselines != 2 {
			t.Errorf("with another firmware: %+v, %d baselines", s.Last.Comparison, s.Baselines)
		}
		// And back: still regressed, at the first result.
		b.conds = nil
		p = b.prober(d, only)
		during(p, 10*time.Hour)
		if s := b.status(p, node); !s.Last.Comparison.Regressed {
			t.Errorf("with the old firmware: %+v", s.Last.Comparison)
		}
	})
}

// Every result with a baseline counts, its confirmation too; what failed or was aborted counts as neither good nor slow.
func TestResultsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d, node := newBench(t), &disk{}, Key{Kind: Node}
		busBW, latency, outcome := 100e9, 20*time.Microsecond, OK
		b.run = func(_ context.Context, r *Result) {
			r.Measurements[0].BusBW = busBW
			r.Measurements = append([]Measurement{{Op: AllReduce, Type: Float32, Bytes: 1 << 10, Ranks: 8, Time: latency, BusBW: 1e6}}, r.Measurements...)
			if outcome != OK {
				r.Outcome, r.Failure = outcome, FailureStopped
			}
		}
		p := b.prober(d, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour}; c.Duty = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		expect := func(judged, slow, late uint64) ProbeStatus {
			t.Helper()
			s := b.status(p, node)
			if s.Judged != judged || s.Slow != slow || s.Late != late {
				t.Errorf("%d runs: %d judged, %d slow, %d late; expected %d, %d, %d", s.Runs, s.Judged, s.Slow, s.Late, judged, slow, late)
			}
			return s
		}
		ask := func(times int) {
			t.Helper()
			for range times {
				if _, skipped, err := p.Trigger(ctx, node); skipped != nil || err != nil {
					t.Fatal(skipped, err)
				}
			}
		}
		for len(b.runs(node)) < enough {
			time.Sleep(time.Hour)
		}
		time.Sleep(2 * time.Hour)
		expect(0, 0, 0)
		ask(1)
		s := expect(1, 0, 0)
		if c := s.Last.Comparison.Latency; c.Ratio.Value != 1 || c.Median != latency || c.Samples != enough {
			t.Errorf("latency: %+v", c)
		}
		latency = 41 * time.Microsecond
		ask(1)
		expect(2, 0, 1)
		busBW, latency = 70e9, 20*time.Microsecond
		ask(1)
		expect(3, 1, 1)
		time.Sleep(2 * time.Minute) // the confirmation
		if s := expect(4, 2, 1); !s.Last.Comparison.Regressed || s.Last.Comparison.Collapsed != 2 {
			t.Errorf("%+v", s.Last.Comparison)
		}
		for _, outcome = range []Outcome{Failed, Aborted} {
			ask(3)
			expect(4, 2, 1)
		}
		cancel()
		synctest.Wait()
		// A restart counts from 0, and knows the baselines and how many collapsed in a row.
		outcome = OK
		p = b.prober(d, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour}; c.Duty = 1 })
		ctx, cancel = context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(time.Minute)
		expect(0, 0, 0)
		ask(1)
		if s := expect(1, 1, 0); s.Last.Comparison.Collapsed != 3 || s.Last.Comparison.Latency.Ratio.Value != 1 {
			t.Errorf("%+v", s.Last.Comparison)
		}
		cancel()
		synctest.Wait()
	})
}

// The log tells what there is to tell: a probe of the transport has no bandwidth.
func TestLogOfResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		b := newBench(t)
		p := b.prober(nil, nil)
		p.log = slog.New(slog.NewTextHandler(&out, nil))
		b.run = func(_ context.Context, r *Result) {
			r.Release = fabric.Known(120*time.Millisecond, "NVML", time.Now())
			if r.Key.Kind == Socket {
				r.Release, r.Left = fabric.NotKnown[time.Duration](fabric.ReasonTimeout, "NVML", time.Now()), "500 MiB are used"
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		for _, c := range []struct {
			kind        Kind
			want, lacks []string
		}{
			{Transport, []string{"probe ended", "release=120ms"}, []string{"busbw_bytes", "to be free"}},
			{Node, []string{"probe ended", "busbw_bytes=1e+11", "release=120ms"}, []string{"to be free"}},
			{Socket, []string{"busbw_bytes=1e+11", "GPUs are not seen to be free after a probe", `left="500 MiB are used"`}, []string{"release="}},
		} {
			out.Reset()
			if _, _, err := p.Trigger(ctx, Key{Kind: c.kind}); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s: lacks %q:\n%s", c.kind, want, out.String())
				}
			}
			for _, not := range c.lacks {
				if strings.Contains(out.String(), not) {
					t.Errorf("%s: has %q:\n%s", c.kind, not, out.String())
				}
			}
		}
		cancel()
		synctest.Wait()
	})
}

func TestFailuresAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), Key{Kind: Node}
		n := 0
		b.run = func(_ context.Context, r *Result) {
			n++
			r.Outcome, r.Failure, r.Error = Failed, FailureHang, fmt.Sprint("run ", n)
			switch n % 3 {
			case 1:
				r.Outcome, r.Failure = Aborted, FailureIntruder
			case 2:
				r.Failure, r.Measurements[0].Wrong = FailureWrong, 7
			}
		}
		p := b.prober(nil, func(c *Config) { c.Every = map[Kind]time.Duration{Node: time.Hour}; c.Duty = 1 })
		during(p, 30*time.Hour)
		s := b.status(p, node)
		if s.LastGood != nil || s.Last == nil || len(s.Kept) != keptFailures || s.Runs != uint64(n) {
			t.Fatalf("status %+v", s)
		}
		for i, r := range s.Kept {
			if r.Outcome != Failed || r.Comparison.Fingerprint != "" || i > 0 && !r.At.After(s.Kept[i-1].At) {
				t.Errorf("kept: %+v", r)
			}
		}
		if sum := s.Failures[FailureHang] + s.Failures[FailureWrong] + s.Failures[FailureIntruder]; sum != s.Runs {
			t.Errorf("%d of %d runs count as failures: %v", sum, s.Runs, s.Failures)
		}
		if s.Wrong != 7*s.Failures[FailureWrong] || s.Wrong == 0 {
			t.Errorf("%d wrong elements", s.Wrong)
		}
		// Whoever was thrown out tries again in the same cycle, and not soon.
		at := b.began[node]
		if gap := at[1].Sub(at[0]); gap < 10*time.Minute || gap > 13*time.Minute {
			t.Errorf("tried again %s after an intruder, expected 10 to 12 minutes", gap)
		}
	})
}

func TestTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newBench(t), &disk{}
		p := b.prober(d, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(time.Minute) // nobody can pay yet
		for _, key := range []Key{{Kind: Calibrate}, {Kind: Node}, railKey(3)} {
			r, skipped, err := p.Trigger(ctx, key)
			if err != nil || skipped != nil || r.Outcome != OK || r.Key != key {
				t.Errorf("%v: got %+v, %v, %v", key, r, skipped, err)
			}
			if s := b.status(p, key); s.Runs != 1 || s.Last == nil {
				t.Errorf("%v: status %+v", key, s)
			}
		}
		for _, base := range p.memory.records[railKey(3)].baselines {
			if len(base.samples) > 0 {
				t.Errorf("what somebody asked for is part of the baseline: %+v", base)
			}
		}
		if balance := p.memory.duty.balance(gpu(0), p.now()); balance > -44*time.Second {
			t.Errorf("45 s of contexts left a balance of %s", balance)
		}
		if _, _, err := p.Trigger(ctx, railKey(30)); !errors.Is(err, ErrUnknown) {
			t.Errorf("a rail that is not there: %v", err)
		}
		b.change(func() { b.enter = func(Key) *Skipped { return &Skipped{Why: SkipSlurm} } })
		if _, skipped, err := p.Trigger(ctx, Key{Kind: Node}); skipped == nil || skipped.Why != SkipSlurm || err != nil {
			t.Errorf("a node that is busy: %v, %v", skipped, err)
		}
		if s := b.status(p, Key{Kind: Node}); s.Skips[SkipSlurm] != 0 {
			t.Errorf("who asks is told, and it does not count as due: %+v", s.Skips)
		}

		b.change(func() { b.enter = func(Key) *Skipped { time.Sleep(time.Minute); return nil } })
		go func() { _, _, _ = p.Trigger(ctx, Key{Kind: Node}) }()
		synctest.Wait()
		if _, _, err := p.Trigger(ctx, Key{Kind: Node}); !errors.Is(err, ErrBusy) {
			t.Errorf("a second one at a time: %v", err)
		}
		time.Sleep(2 * time.Minute)

		// What is never run but on demand has a baseline all the same.
		b.change(func() { b.enter = nil })
		for range enough {
			time.Sleep(day)
			if _, _, err := p.Trigger(ctx, Key{Kind: Calibrate}); err != nil {
				t.Error(err)
			}
		}
		if c := b.status(p, Key{Kind: Calibrate}).Last.Comparison; c.Samples != enough {
			t.Errorf("calibrations: %+v", c)
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if _, _, err := p.Trigger(short, Key{Kind: Calibrate}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		cancel()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		if _, _, err := p.Trigger(t.Context(), Key{Kind: Node}); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestStopsInTime(t *testing.T) {
	hang := make(chan struct{})
	for name, prepare := range map[string]func(*bench, *disk){
		"idle": func(*bench, *disk) {},
		"run that is killed": func(b *bench, _ *disk) {
			b.run = func(ctx context.Context, r *Result) {
				<-ctx.Done()
				r.Outcome, r.Failure = Aborted, FailureStopped
			}
		},
		"run that hangs":   func(b *bench, _ *disk) { b.run = func(context.Context, *Result) { <-hang } },
		"gate that hangs":  func(b *bench, _ *disk) { b.enter = func(Key) *Skipped { <-hang; return nil } },
		"disk that hangs":  func(_ *bench, d *disk) { d.hang = hang },
		"all of them hang": func(b *bench, d *disk) { b.run, d.hang = func(context.Context, *Result) { <-hang }, hang },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				b, d := newBench(t), &disk{}
				prepare(b, d)
				p := b.prober(d, func(c *Config) { c.Every = map[Kind]time.Duration{Node: time.Minute}; c.Duty = 1 })
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { p.Run(ctx); close(ended) }()
				time.Sleep(10*time.Minute + 2*time.Second)
				b.change(func() {
					if name != "idle" && name != "disk that hangs" && len(b.tried) == 0 {
						t.Error("nothing was running")
					}
				})
				if s := p.Status(); strings.Contains(name, "disk") && s.State != fabric.ReasonStuck {
					t.Errorf("state file: %q, expected %q", s.State, fabric.ReasonStuck)
				}
				at := time.Now()
				cancel()
				<-ended
				if took := time.Since(at); took > 2*time.Second {
					t.Errorf("ended after %s, expected 2 s at most", took)
				}
				close(hang)
				synctest.Wait()
			})
		})
	}
}

// Whatever is wrong with the state file, probes go on, and it is told.
func TestStateFileTroubleIsTold(t *testing.T) {
	good, err := lived().encode(origin, origin)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		disk *disk
		want fabric.Reason
		mend bool // it is over after a day
	}{
		{"none yet", &disk{}, "", true},
		{"good", &disk{data: good}, "", true},
		{"cut", &disk{data: good[:len(good)/2]}, fabric.ReasonMalformed, true},
		{"empty", &disk{data: []byte{}}, fabric.ReasonMalformed, true},
		{"read-only", &disk{err: syscall.EROFS}, fabric.ReasonPrivilege, false},
		{"forbidden", &disk{err: fs.ErrPermission}, fabric.ReasonPrivilege, false},
		{"full", &disk{err: syscall.ENOSPC}, fabric.ReasonIO, false},
		{"no directory", &disk{err: fs.ErrNotExist}, fabric.ReasonMissing, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.prober(c.disk, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour} })
			ctx, cancel := context.WithCancel(t.Context())
			go p.Run(ctx)
			time.Sleep(time.Hour)
			if got := p.Status().State; got != c.want {
				t.Errorf("%s: told %q, expected %q", c.name, got, c.want)
			}
			time.Sleep(day)
			if got := p.Status().State; c.mend != (got == "") {
				t.Errorf("%s: told %q after a day", c.name, got)
			}
			if s := b.status(p, Key{Kind: Node}); s.Runs < 4 || s.Last.Comparison.Samples < 3 {
				t.Errorf("%s: probes suffer from it: %d runs, %+v", c.name, s.Runs, s.Last.Comparison)
			}
			if c.mend && newMemory().decode(c.disk.data, time.Now(), time.Now()) != nil {
				t.Errorf("%s: there is no good state file after a day", c.name)
			}
			cancel()
			synctest.Wait()
		})
	}
}

func TestBugsCostTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), Key{Kind: Node}
		b.run = func(context.Context, *Result) { panic("of a test") }
		p := b.prober(nil, func(c *Config) { c.Every = map[Kind]time.Duration{Node: 4 * time.Hour} })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(2 * day)
		s := b.status(p, node)
		if s.Failures[FailureCrash] != s.Runs || s.Runs == 0 || !strings.Contains(s.Last.Error, "of a test") || !b.isIdle() {
			t.Errorf("a run that panics: %+v", s)
		}
		if most := uint64(2 * day * 1 / 1000 / (10 * time.Second)); s.Runs > most {
			t.Errorf("%d runs of unknown cost in two days, expected %d at most", s.Runs, most)
		}
		b.change(func() { b.enter = func(Key) *Skipped { panic("of a gate") } })
		if _, skipped, err := p.Trigger(ctx, node); err != nil || skipped == nil || skipped.Why != SkipCannotProveIdle {
			t.Errorf("a gate that panics: %v, %v", skipped, err)
		}
		cancel()
		synctest.Wait()
	})
}

func TestStatusIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := b.prober(nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(day)
		before, again := p.Status(), p.Status()
		for i := range before.Probes {
			before.Probes[i].Skips[SkipMIG]++
			before.Probes[i].Failures[FailureCUDA]++
		}
		after := p.Status()
		if !reflect.DeepEqual(after, again) {
			t.Error("who changes a status changes the prober")
		}
		// What goes away is not scheduled, and stays in the history.
		b.change(func() { b.gone = func(k Key) bool { return k == railKey(2) } })
		time.Sleep(time.Hour)
		b.change(func() { b.gone = func(Key) bool { return true } })
		time.Sleep(time.Hour)
		if s := b.status(p, Key{Kind: Node}); s.NextRun.IsZero() {
			t.Error("a machine that does not know what there is made a probe go away")
		}
		if s := b.status(p, railKey(2)); !s.NextRun.IsZero() || s.Runs == 0 {
			t.Errorf("a rail that went: %+v", s)
		}
		cancel()
		synctest.Wait()
	})
}
