// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/gate/gatetest"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
	"gpufabric_exporter/probes/state"
)

// hosted is a Host with two idle GPUs, whose ranks are those of a crew.
func hosted(t *testing.T, m *gatetest.Machine) (*Host, *probestest.Crew) {
	n := probestest.Node(2)
	n.GPUDriver.GPUs[0].UUID, n.GPUDriver.GPUs[1].UUID = gatetest.GPUA, gatetest.GPUB
	c := &probestest.Crew{}
	return &Host{
		Platform: &Platform{
			Ranks: func(p *plan.Plan, _ *slog.Logger) (probes.StartRank, *probes.Skipped) {
				c.Plan = p.Ranks
				return c.Start, nil
			},
			FindNCCL: func(string, string) (string, error) { return "libnccl.so.2", nil },
		},
		Config: probes.DefaultConfig(), Gate: gate.New(m.Options), Log: slog.New(slog.DiscardHandler),
		Observe: func(context.Context) (*fabric.Node, error) { return n, nil },
	}, c
}

// A probe begins behind the gate only, or where it fails before anything is started; and leaves the gate in any case.
func TestHostProbes(t *testing.T) {
	missing := func(string, string) (string, error) { return "", fs.ErrNotExist }
	for _, test := range []struct {
		name    string
		change  func(*Host, *gatetest.Machine)
		failure probes.Failure
		skip    probes.Skip
	}{
		{"idle", func(*Host, *gatetest.Machine) {}, "", ""},
		{"no NCCL", func(h *Host, _ *gatetest.Machine) { h.Platform.FindNCCL = missing }, probes.FailureLibrary, ""},
		{"no file of variables", func(h *Host, _ *gatetest.Machine) { h.Config.EnvFile = "/nosuch/probes.env" }, probes.FailureSettings, ""},
		{"no NCCL on a node in use", func(h *Host, m *gatetest.Machine) {
			h.Platform.FindNCCL = missing
			gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) })(m)
		}, probes.FailureLibrary, ""},
		{"in use", func(_ *Host, m *gatetest.Machine) {
			gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) })(m)
		}, "", probes.SkipProcess},
		{"others could write NCCL", func(h *Host, _ *gatetest.Machine) {
			h.Platform.Ranks = func(*plan.Plan, *slog.Logger) (probes.StartRank, *probes.Skipped) {
				return nil, &probes.Skipped{Why: probes.SkipUntrusted, Detail: "/home/u/libnccl.so.2"}
			}
		}, "", probes.SkipUntrusted},
		{"the files of NCCL hang", func(h *Host, _ *gatetest.Machine) {
			h.Platform.Ranks = func(*plan.Plan, *slog.Logger) (probes.StartRank, *probes.Skipped) {
				time.Sleep(time.Hour)
				return nil, nil
			}
		}, "", probes.SkipUntrusted},
		{"not observed", func(h *Host, _ *gatetest.Machine) {
			h.Observe = func(context.Context) (*fabric.Node, error) { return nil, errors.New("no") }
		}, "", probes.SkipCannotProveIdle},
		{"no GPU", func(h *Host, _ *gatetest.Machine) {
			h.Observe = func(context.Context) (*fabric.Node, error) { return probestest.Node(0), nil }
		}, "", probes.SkipNoGPU},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			h, c := hosted(t, m)
			test.change(h, m)
			began := 0
			r, skipped := h.Probe(t.Context(), probes.Target{Key: probes.Key{Kind: probes.Node}}, func() {
				if began++; len(c.Started) > 0 {
					t.Errorf("%s: it began after its ranks", test.name)
				}
			})
			switch {
			case test.skip != "":
				if skipped == nil || skipped.Why != test.skip || began != 0 {
					t.Errorf("%s: %+v, began %d times; expected %s", test.name, skipped, began, test.skip)
				}
			case skipped != nil || r.Failure != test.failure || began != 1:
				t.Errorf("%s: %+v, failure %q (%s), began %d times; expected failure %q", test.name, skipped, r.Failure, r.Error, began, test.failure)
			}
			if ran := test.skip == "" && test.failure == ""; ran != (len(c.Started) > 0) {
				t.Errorf("%s: %d ranks were started", test.name, len(c.Started))
			}
			lock, err := state.TakeLock(m.Options.Lock)
			if err != nil {
				t.Fatalf("%s: the lock is not given back: %v", test.name, err)
			}
			lock.Release()
			time.Sleep(2 * time.Hour) // until what hung has ended
		})
	}
}

// While the site's files do not answer, each probe fails for its settings, and nothing is begun again:
// neither by the next probe nor by a reload.
func TestFilesThatHangAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		h, _ := hosted(t, m)
		var asked atomic.Int32
		answers := make(chan struct{})
		h.Platform.FindNCCL = func(string, string) (string, error) {
			asked.Add(1)
			<-answers
			return "libnccl.so.2", nil
		}
		for range 5 {
			reloaded := &Host{Platform: h.Platform, Config: h.Config, Gate: h.Gate, Observe: h.Observe, Log: h.Log}
			if r, skipped := reloaded.Probe(t.Context(), probes.Target{Key: probes.Key{Kind: probes.Node}}, func() {}); skipped != nil || r.Failure != probes.FailureSettings {
				t.Errorf("%+v, failure %q: %s", skipped, r.Failure, r.Error)
			}
			if targets := reloaded.Targets(t.Context()); len(targets) == 0 {
				t.Error("there is nothing to probe")
			}
			if s, err := reloaded.Settings(t.Context()); !errors.Is(err, plan.ErrSettings) || s.Bytes != h.Config.Bytes {
				t.Errorf("%+v, %v", s, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times, expected once", n)
		}
		close(answers)
		synctest.Wait()
		if r, skipped := h.Probe(t.Context(), probes.Target{Key: probes.Key{Kind: probes.Node}}, func() {}); skipped != nil || r.Outcome != probes.OK {
			t.Errorf("%+v, %s: %s", skipped, r.Failure, r.Error)
		}
	})
}

func TestEnvironmentFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := plan.ReadEnvironment(path); !errors.Is(err, plan.ErrSettings) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
