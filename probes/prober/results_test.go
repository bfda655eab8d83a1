// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
	"gpufabric_exporter/probes/state"
)

func TestRegressionIsConfirmedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d, node := newBench(t), &probestest.Disk{}, probes.Key{Kind: probes.Node}
		busBW, only := 100e9, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour} }
		b.run = func(_ context.Context, r *probes.Result) {
			if r.Kind == probes.Node {
				r.Measurements[0].BusBW = busBW
				r.Expected = probes.Known(0.5, "line rate", time.Now())
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
		if c := s.Last.Comparison; !c.Regressed || s.Last.Expected.Value != 0.5 || c.Median.Value != 100e9 {
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

// Every result with a baseline counts, its confirmation too; what failed or was aborted counts as neither
// good nor slow. Each result below the baseline is a reason to look for its cause, and no other.
func TestSlowIsLookedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d, node := newBench(t), &probestest.Disk{}, probes.Key{Kind: probes.Node}
		busBW, looked := 100e9, 0
		b.run = func(_ context.Context, r *probes.Result) {
			if r.Kind == probes.Node {
				r.Measurements[0].BusBW = busBW
			}
		}
		p := b.prober(d, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour} })
		p.slow = func(ctx context.Context) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("it may take for ever")
			}
			looked++
		}
		during(p, 7*day)
		if looked != 0 {
			t.Fatalf("looked %d times without a slow result", looked)
		}
		busBW = 80e9
		slow := b.prober(d, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour} })
		slow.slow = p.slow
		before := len(b.runs(node))
		during(slow, 9*time.Hour)
		if runs := len(b.runs(node)) - before; runs < 2 || looked != runs {
			t.Errorf("%d slow results, looked into %d times", runs, looked)
		}
	})
}

func TestResultsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d, node := newBench(t), &probestest.Disk{}, probes.Key{Kind: probes.Node}
		busBW, latency, outcome := 100e9, probes.Seconds(20e-6), probes.OK
		b.run = func(_ context.Context, r *probes.Result) {
			r.Measurements[0].BusBW = busBW
			r.Measurements = append([]probes.Measurement{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1 << 10, Ranks: 8, Time: latency, BusBW: 1e6}}, r.Measurements...)
			if outcome != probes.OK {
				r.Outcome, r.Failure = outcome, probes.FailureStopped
			}
		}
		p := b.prober(d, func(c *probes.Config) {
			c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour}
			c.Duty = 1
		})
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		expect := func(judged, slow, late uint64) probes.ProbeStatus {
			t.Helper()
			s := b.status(p, node)
			if s.Judged != judged || s.Slow != slow || s.Late != late {
				t.Errorf("%d runs: %d judged, %d slow, %d late; expected %d, %d, %d", s.Runs, s.Judged, s.Slow, s.Late, judged, slow, late)
			}
			return s
		}
		next := func(runs int) {
			t.Helper()
			for until := len(b.runs(node)) + runs; len(b.runs(node)) < until; {
				time.Sleep(10 * time.Second)
			}
			time.Sleep(10 * time.Second) // it ends
		}
		for len(b.runs(node)) < 5 {
			time.Sleep(time.Hour)
		}
		time.Sleep(2 * time.Hour)
		expect(0, 0, 0)
		next(1)
		s := expect(1, 0, 0)
		if c := s.Last.Comparison.Latency; c.Ratio.Value != 1 || c.Median.Value != latency || c.Samples != 5 {
			t.Errorf("latency: %+v", c)
		}
		latency = 41e-6
		next(1)
		expect(2, 0, 1)
		busBW, latency = 70e9, 20e-6
		next(1)
		expect(3, 1, 1)
		time.Sleep(2 * time.Minute) // the confirmation
		if s := expect(4, 2, 1); !s.Last.Comparison.Regressed || s.Last.Comparison.Collapsed != 2 {
			t.Errorf("%+v", s.Last.Comparison)
		}
		for _, outcome = range []probes.Outcome{probes.Failed, probes.Aborted} {
			next(3)
			expect(4, 2, 1)
		}
		cancel()
		synctest.Wait()
		// A restart counts from 0, and knows the baselines and how many collapsed in a row.
		outcome = probes.OK
		p = b.prober(d, func(c *probes.Config) {
			c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour}
			c.Duty = 1
		})
		ctx, cancel = context.WithCancel(t.Context())
		go p.Run(ctx)
		time.Sleep(time.Minute)
		expect(0, 0, 0)
		next(1)
		if s := expect(1, 1, 0); s.Last.Comparison.Collapsed != 3 || s.Last.Comparison.Latency.Ratio.Value != 1 {
			t.Errorf("%+v", s.Last.Comparison)
		}
		cancel()
		synctest.Wait()
	})
}

// The log has no value that does not exist: a probe of the transport has no bandwidth.
func TestLogOfResults(t *testing.T) {
	for _, c := range []struct {
		kind        probes.Kind
		want, lacks []string
	}{
		{probes.Transport, []string{"probe ended", "release=120ms"}, []string{"busbw_bytes", "to be free"}},
		{probes.Node, []string{"probe ended", "busbw_bytes=1e+11", "release=120ms"}, []string{"to be free"}},
		{probes.Socket, []string{"busbw_bytes=1e+11", "GPUs were not confirmed idle after a probe", `left="500 MiB are used"`}, []string{"release="}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			b := newBench(t)
			p := b.prober(nil, func(config *probes.Config) {
				config.Every = map[probes.Kind]time.Duration{c.kind: time.Hour}
				config.Duty = 1
			})
			p.log = slog.New(slog.NewTextHandler(&out, nil))
			b.run = func(_ context.Context, r *probes.Result) {
				r.Release = probes.Known(probes.Seconds(0.12), "NVML", time.Now())
				if r.Kind == probes.Socket {
					r.Release, r.Left = probes.UnknownFact[probes.Seconds](fabric.ReasonTimeout, "NVML", time.Now()), "500 MiB are used"
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			go p.Run(ctx)
			time.Sleep(3 * time.Hour)
			cancel()
			synctest.Wait()
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
		})
	}
}

func TestFailuresAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), probes.Key{Kind: probes.Node}
		n := 0
		b.run = func(_ context.Context, r *probes.Result) {
			n++
			r.Outcome, r.Failure, r.Error = probes.Failed, probes.FailureHang, fmt.Sprint("run ", n)
			switch n % 3 {
			case 1:
				r.Outcome, r.Failure = probes.Aborted, probes.FailureIntruder
			case 2:
				r.Failure, r.Measurements[0].Wrong = probes.FailureWrong, 7
			}
		}
		p := b.prober(nil, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: time.Hour}; c.Duty = 1 })
		during(p, 30*time.Hour)
		s := b.status(p, node)
		if s.LastGood != nil || s.Last == nil || len(s.Kept) != keptFailures || s.Runs != uint64(n) {
			t.Fatalf("status %+v", s)
		}
		for i, r := range s.Kept {
			if r.Outcome != probes.Failed || r.Comparison.Fingerprint != "" || i > 0 && !r.At.After(s.Kept[i-1].At) {
				t.Errorf("kept: %+v", r)
			}
		}
		if sum := s.Failures[probes.FailureHang] + s.Failures[probes.FailureWrong] + s.Failures[probes.FailureIntruder]; sum != s.Runs {
			t.Errorf("%d of %d runs count as failures: %v", sum, s.Runs, s.Failures)
		}
		if s.Wrong != 7*s.Failures[probes.FailureWrong] || s.Wrong == 0 {
			t.Errorf("%d wrong elements", s.Wrong)
		}
		// A probe that was aborted for an intruder tries again in the same cycle, and not soon.
		at := b.began[node]
		if gap := at[1].Sub(at[0]); gap < 10*time.Minute || gap > 13*time.Minute {
			t.Errorf("tried again %s after an intruder, expected 10 to 12 minutes", gap)
		}
	})
}

// Whatever is wrong with the state file, probes go on, and it is reported.
func TestStateFileTroubleIsReported(t *testing.T) {
	good, err := state.NewMemory(1, 0).Encode(probestest.Origin, probestest.Origin)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.Replace(good, []byte(`"version":2`), []byte(`"version":1`), 1)
	newer := bytes.Replace(good, []byte(`"version":2`), []byte(`"version":3`), 1)
	for _, c := range []struct {
		name string
		disk *probestest.Disk
		want fabric.Reason
		mend bool // it is over after a day
	}{
		{"none yet", &probestest.Disk{}, "", true},
		{"good", &probestest.Disk{Data: good}, "", true},
		{"cut", &probestest.Disk{Data: good[:len(good)/2]}, fabric.ReasonMalformed, true},
		{"empty", &probestest.Disk{Data: []byte{}}, fabric.ReasonMalformed, true},
		{"older", &probestest.Disk{Data: older}, fabric.ReasonMalformed, true},
		{"newer", &probestest.Disk{Data: newer}, fabric.ReasonMalformed, false},
		{"read-only", &probestest.Disk{Err: syscall.EROFS}, fabric.ReasonPrivilege, false},
		{"forbidden", &probestest.Disk{Err: fs.ErrPermission}, fabric.ReasonPrivilege, false},
		{"full", &probestest.Disk{Err: syscall.ENOSPC}, fabric.ReasonIO, false},
		{"no directory", &probestest.Disk{Err: fs.ErrNotExist}, fabric.ReasonMissing, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			p := b.prober(c.disk, func(c *probes.Config) { c.Every = map[probes.Kind]time.Duration{probes.Node: 4 * time.Hour} })
			ctx, cancel := context.WithCancel(t.Context())
			go p.Run(ctx)
			time.Sleep(time.Hour)
			if got := p.Status().State; got != c.want {
				t.Errorf("%s: reported %q, expected %q", c.name, got, c.want)
			}
			time.Sleep(day)
			if got := p.Status().State; c.mend != (got == "") {
				t.Errorf("%s: reported %q after a day", c.name, got)
			}
			if s := b.status(p, probes.Key{Kind: probes.Node}); s.Runs < 4 || s.Last.Comparison.Samples < 3 {
				t.Errorf("%s: probes suffer from it: %d runs, %+v", c.name, s.Runs, s.Last.Comparison)
			}
			if c.mend && state.NewMemory(1, 0).Decode(c.disk.Data, time.Now(), time.Now()) != nil {
				t.Errorf("%s: there is no good state file after a day", c.name)
			}
			if c.name == "newer" && !bytes.Equal(c.disk.Data, newer) {
				t.Errorf("%s: the file is overwritten: %.100s", c.name, c.disk.Data)
			}
			cancel()
			synctest.Wait()
		})
	}
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
			before.Probes[i].Skips[probes.SkipMIG]++
			before.Probes[i].Failures[probes.FailureCUDA]++
		}
		after := p.Status()
		if !reflect.DeepEqual(after, again) {
			t.Error("who changes a status changes the prober")
		}
		// What goes away is not scheduled, and stays in the history.
		b.change(func() { b.gone = func(k probes.Key) bool { return k == railKey(2) } })
		time.Sleep(time.Hour)
		b.change(func() { b.gone = func(probes.Key) bool { return true } })
		time.Sleep(time.Hour)
		if s := b.status(p, probes.Key{Kind: probes.Node}); s.NextRun.IsZero() {
			t.Error("a machine that does not know what there is made a probe go away")
		}
		if s := b.status(p, railKey(2)); !s.NextRun.IsZero() || s.Runs == 0 {
			t.Errorf("a rail that went: %+v", s)
		}
		cancel()
		synctest.Wait()
	})
}

// A state file of a newer version is left alone: the log says so once, with what to do, however often results
// are saved.
func TestNewerStateIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, err := state.NewMemory(1, 0).Encode(probestest.Origin, probestest.Origin)
		if err != nil {
			t.Fatal(err)
		}
		var log logged
		b, d := newBench(t), &probestest.Disk{Data: bytes.Replace(good, []byte(`"version":2`), []byte(`"version":3`), 1)}
		p := b.prober(d, nil)
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		during(p, 3*day)
		if n := strings.Count(log.String(), "neither read nor saved"); n != 1 || strings.Contains(log.String(), "is lost") {
			t.Errorf("%d lines, expected 1: %s", n, log.String())
		}
		if !strings.Contains(log.String(), "version 3, expected 2") || !strings.Contains(log.String(), "move the file away") {
			t.Errorf("it does not say why, or what to do: %s", log.String())
		}
		if s := p.Status(); s.State == "" {
			t.Error("the status does not show it")
		}
	})
}
