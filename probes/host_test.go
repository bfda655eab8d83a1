// SPDX-License-Identifier: Apache-2.0

package probes

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
)

// hosted is a Host with two idle GPUs, whose ranks are those of a crew.
func hosted(t *testing.T, m *machine) (*Host, *crew) {
	n := gpuNode(2)
	n.GPUDriver.GPUs[0].UUID, n.GPUDriver.GPUs[1].UUID = gpuA, gpuB
	c := &crew{}
	return &Host{
		Platform: &Platform{
			Ranks: func(p *Plan, _ *slog.Logger) (StartRank, *Skipped) {
				c.plan = p
				return c.Start, nil
			},
			FindNCCL: func(string, string) (string, error) { return "libnccl.so.2", nil },
		},
		Config: DefaultConfig(), Gate: NewGate(m.options), Log: slog.New(slog.DiscardHandler),
		Observe: func(context.Context) (*fabric.Node, error) { return n, nil },
	}, c
}

// A probe begins behind the gate only, or where it fails before anything is started; and leaves the gate in any case.
func TestHostProbes(t *testing.T) {
	missing := func(string, string) (string, error) { return "", fs.ErrNotExist }
	for _, test := range []struct {
		name    string
		change  func(*Host, *machine)
		failure Failure
		skip    Skip
	}{
		{"idle", func(*Host, *machine) {}, "", ""},
		{"no NCCL", func(h *Host, _ *machine) { h.Platform.FindNCCL = missing }, FailureLibrary, ""},
		{"no file of variables", func(h *Host, _ *machine) { h.Config.EnvFile = "/nosuch/probes.env" }, FailureSettings, ""},
		{"no NCCL on a node in use", func(h *Host, m *machine) {
			h.Platform.FindNCCL = missing
			on(func(g *fabric.GPU) { g.Processes.Value = compute(800) })(m)
		}, FailureLibrary, ""},
		{"in use", func(_ *Host, m *machine) { on(func(g *fabric.GPU) { g.Processes.Value = compute(800) })(m) }, "", SkipProcess},
		{"others could write NCCL", func(h *Host, _ *machine) {
			h.Platform.Ranks = func(*Plan, *slog.Logger) (StartRank, *Skipped) {
				return nil, &Skipped{Why: SkipUntrusted, Detail: "/home/u/libnccl.so.2"}
			}
		}, "", SkipUntrusted},
		{"the files of NCCL hang", func(h *Host, _ *machine) {
			h.Platform.Ranks = func(*Plan, *slog.Logger) (StartRank, *Skipped) {
				time.Sleep(time.Hour)
				return nil, nil
			}
		}, "", SkipUntrusted},
		{"not observed", func(h *Host, _ *machine) {
			h.Observe = func(context.Context) (*fabric.Node, error) { return nil, errors.New("no") }
		}, "", SkipCannotProveIdle},
		{"no GPU", func(h *Host, _ *machine) {
			h.Observe = func(context.Context) (*fabric.Node, error) { return gpuNode(0), nil }
		}, "", SkipNoGPU},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			h, c := hosted(t, m)
			test.change(h, m)
			began := 0
			r, skipped := h.Probe(t.Context(), Target{Key: Key{Kind: Node}}, func() {
				if began++; len(c.ranks) > 0 {
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
			if ran := test.skip == "" && test.failure == ""; ran != (len(c.ranks) > 0) {
				t.Errorf("%s: %d ranks were started", test.name, len(c.ranks))
			}
			lock, err := TakeLock(m.options.Lock)
			if err != nil {
				t.Fatalf("%s: the lock is not given back: %v", test.name, err)
			}
			lock.Release()
			time.Sleep(2 * time.Hour) // until what hung has ended
		})
	}
}

// While the site's files do not answer, each probe fails for its settings, and nothing is begun again: neither by the next
// probe nor by a reload.
func TestFilesThatHangAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
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
			if r, skipped := reloaded.Probe(t.Context(), Target{Key: Key{Kind: Node}}, func() {}); skipped != nil || r.Failure != FailureSettings {
				t.Errorf("%+v, failure %q: %s", skipped, r.Failure, r.Error)
			}
			if targets := reloaded.Targets(t.Context()); len(targets) == 0 {
				t.Error("there is nothing to probe")
			}
			if s, err := reloaded.Settings(t.Context()); !errors.Is(err, ErrSettings) || s.Bytes != h.Config.Bytes {
				t.Errorf("%+v, %v", s, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times, expected once", n)
		}
		close(answers)
		synctest.Wait()
		if r, skipped := h.Probe(t.Context(), Target{Key: Key{Kind: Node}}, func() {}); skipped != nil || r.Outcome != OK {
			t.Errorf("%+v, %s: %s", skipped, r.Failure, r.Error)
		}
	})
}

func TestEnvironmentFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := ReadEnvironment(path); !errors.Is(err, ErrSettings) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
