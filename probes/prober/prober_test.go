// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
	"gpufabric_exporter/probes/state"
)

const day = 24 * time.Hour

// bench is a machine with 8 GPUs and 8 rails that does what the test sets, in the time that the test sets.
type bench struct {
	enter func(probes.Key) *probes.Skipped            // nil: it may
	run   func(ctx context.Context, r *probes.Result) // changes the result of a good run
	gone  func(probes.Key) bool                       // which probes are not there
	costs map[probes.Kind]time.Duration               // of each GPU
	gpus  map[string]time.Duration                    // what they had contexts for
	conds []string                                    // conditions
	began map[probes.Key][]time.Time                  // runs
	tried map[probes.Key][]time.Time                  // enters
	mu    sync.Mutex
	busy  bool
	t     *testing.T
}

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, gpus: map[string]time.Duration{}, began: map[probes.Key][]time.Time{}, tried: map[probes.Key][]time.Time{},
		costs: map[probes.Kind]time.Duration{probes.Transport: 2 * time.Second, probes.Node: 5 * time.Second, probes.Rail: 6 * time.Second, probes.Socket: 6 * time.Second, probes.Calibrate: 40 * time.Second},
	}
}

func gpu(i int) string { return fmt.Sprint("GPU-", i) }

func railKey(i int) probes.Key {
	return probes.Key{Kind: probes.Rail, Device: fmt.Sprint("mlx5_", i), Port: 1}
}

func (b *bench) Targets(context.Context) []probes.Target {
	all := make([]string, 8)
	for i := range all {
		all[i] = gpu(i)
	}
	targets := []probes.Target{{Key: probes.Key{Kind: probes.Transport}, GPUs: all[:1]}, {Key: probes.Key{Kind: probes.Node}, GPUs: all}, {Key: probes.Key{Kind: probes.Socket}, GPUs: all[:2]}, {Key: probes.Key{Kind: probes.Calibrate}, GPUs: all}}
	for i := range 8 {
		targets = append(targets, probes.Target{Key: railKey(i), GPUs: all[i : i+1]})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var there []probes.Target
	for _, t := range targets {
		if b.gone == nil || !b.gone(t.Key) {
			t.Conditions = b.conds
			there = append(there, t)
		}
	}
	return there
}

func (b *bench) Probe(ctx context.Context, t probes.Target, begin func()) (probes.Result, *probes.Skipped) {
	b.mu.Lock()
	b.tried[t.Key] = append(b.tried[t.Key], time.Now())
	enter := b.enter
	b.mu.Unlock()
	if enter != nil {
		if s := enter(t.Key); s != nil {
			return probes.Result{}, s
		}
	}
	b.mu.Lock()
	if b.busy {
		b.t.Error("two probes at a time")
	}
	b.busy = true
	b.mu.Unlock()
	defer b.leave()
	begin()
	took := b.costs[t.Key.Kind]
	b.mu.Lock()
	r := probes.Result{
		Key: t.Key, At: time.Now(), Wall: probes.SecondsOf(took), GPUTime: probes.SecondsOf(took * time.Duration(len(t.GPUs))), GPUs: t.GPUs, Outcome: probes.OK,
		NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0",
		Measurements: []probes.Measurement{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Ranks: 8, BusBW: 100e9}},
	}
	if r.Kind == probes.Transport {
		r.Measurements = nil
	}
	b.began[r.Key] = append(b.began[r.Key], r.At)
	run := b.run
	b.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		r.Outcome, r.Failure = probes.Aborted, probes.FailureStopped
	}
	if run != nil {
		run(ctx, &r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range t.GPUs {
		b.gpus[g] += r.GPUTime.Duration() / time.Duration(len(t.GPUs))
	}
	return r, nil
}

// change changes what the machine does while it is used.
func (b *bench) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// runs are the times at which a probe began.
func (b *bench) runs(key probes.Key) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.began[key])
}

func (b *bench) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
}

// prober returns one with the defaults, except what change changes, that keeps its state in d.
func (b *bench) prober(d *probestest.Disk, change func(*probes.Config)) *Prober {
	c := probes.DefaultConfig()
	if change != nil {
		change(&c)
	}
	p, err := New(Options{Config: c, Machine: b, Host: "node17", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	p.keeper = nil
	if d != nil {
		p.keeper = state.NewKeeper(d, p.tellState)
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

func (b *bench) status(p *Prober, key probes.Key) probes.ProbeStatus {
	b.t.Helper()
	for _, s := range p.Status().Probes {
		if s.Key == key {
			return s
		}
	}
	b.t.Fatalf("no status of %v", key)
	return probes.ProbeStatus{}
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

func (b *bench) isIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy
}

func TestSkippedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), probes.Key{Kind: probes.Node}
		b.enter = func(probes.Key) *probes.Skipped {
			return &probes.Skipped{Why: probes.SkipProcess, Detail: strings.Repeat("x", 5000), At: time.Now()}
		}
		p := b.prober(nil, func(c *probes.Config) {
			c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour}
			c.Duty = 1
		})
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(3 * day) // a job
		s := b.status(p, node)
		tries := b.tried[node]
		if s.Runs != 0 || s.Skips[probes.SkipProcess] != uint64(len(tries)) || len(tries) < 300 || len(s.LastSkip.Detail) > errorMost {
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

func TestStopsInTime(t *testing.T) {
	hang := make(chan struct{})
	for name, prepare := range map[string]func(*bench, *probestest.Disk){
		"idle": func(*bench, *probestest.Disk) {},
		"run that is killed": func(b *bench, _ *probestest.Disk) {
			b.run = func(ctx context.Context, r *probes.Result) {
				<-ctx.Done()
				r.Outcome, r.Failure = probes.Aborted, probes.FailureStopped
			}
		},
		"run that hangs":  func(b *bench, _ *probestest.Disk) { b.run = func(context.Context, *probes.Result) { <-hang } },
		"gate that hangs": func(b *bench, _ *probestest.Disk) { b.enter = func(probes.Key) *probes.Skipped { <-hang; return nil } },
		"disk that hangs": func(_ *bench, d *probestest.Disk) { d.Hang = hang },
		"all of them hang": func(b *bench, d *probestest.Disk) {
			b.run, d.Hang = func(context.Context, *probes.Result) { <-hang }, hang
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				b, d := newBench(t), &probestest.Disk{}
				prepare(b, d)
				p := b.prober(d, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: time.Minute}; c.Duty = 1 })
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

// logged is a log that can be read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A folder that cannot be written is in the log from the start, once, and in the status; so is its end.
func TestUnwritableStateIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		c := probes.DefaultConfig()
		c.Every, c.Duty = map[probes.Kind]time.Duration{probes.Node: time.Minute}, 1
		dir := filepath.Join(t.TempDir(), "gpufabric")
		c.StateFile = filepath.Join(dir, "probes.json")
		p, err := New(Options{Config: c, Machine: newBench(t), Host: "node17", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		lines := func(words ...string) int {
			n := 0
			for line := range strings.Lines(log.String()) {
				if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Second)
		synctest.Wait()
		said := []string{"level=WARN", "the probe history cannot be saved and is lost with the next restart", c.StateFile, "no such file", "probes.state_file"}
		if n := lines(said...); n != 1 {
			t.Errorf("a second after the start %d lines, expected 1: %s", n, log.String())
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if n, runs := lines(said...), len(p.Status().Probes); n != 1 || runs == 0 {
			t.Errorf("later %d lines, expected 1, of %d probes: %s", n, runs, log.String())
		}
		if s := p.Status(); s.State == "" {
			t.Error("the status does not show it")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := lines("level=INFO", "saved again", c.StateFile); n != 1 || p.Status().State != "" {
			t.Errorf("%d lines say that it is written, expected 1; status %q: %s", n, p.Status().State, log.String())
		}
		cancel()
		<-ended
	})
}

func TestBugsCostTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), probes.Key{Kind: probes.Node}
		b.run = func(context.Context, *probes.Result) { panic("of a test") }
		p := b.prober(nil, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour} })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(2 * day)
		s := b.status(p, node)
		if s.Failures[probes.FailureCrash] != s.Runs || s.Runs == 0 || !strings.Contains(s.Last.Error, "of a test") || !b.isIdle() {
			t.Errorf("a run that panics: %+v", s)
		}
		if most := uint64(2 * day * 1 / 1000 / (10 * time.Second)); s.Runs > most {
			t.Errorf("%d runs of unknown cost in two days, expected %d at most", s.Runs, most)
		}
		b.change(func() { b.enter = func(probes.Key) *probes.Skipped { panic("of a gate") } })
		time.Sleep(2 * day)
		if after := b.status(p, node); after.Skips[probes.SkipCannotProveIdle] == 0 || after.Runs != s.Runs {
			t.Errorf("a gate that panics: %+v", after)
		}
		cancel()
		synctest.Wait()
	})
}
