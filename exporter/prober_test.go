// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/prober"
)

// wanting is an observer that notes what is wanted.
type wanting struct {
	site.Observer
	want fabric.Want
}

func (w *wanting) Observe(_ context.Context, want fabric.Want) *fabric.Node {
	w.want = want
	return &fabric.Node{}
}

// A slow result has the settings of the PCI bus read again: the last reading may be of an hour ago.
func TestSlowProbeHasSettingsRead(t *testing.T) {
	var ob wanting
	e := Exporter{Probing: &prober.Platform{}, Site: &site.Site{}}
	p := e.prober(t.Context(), Node{Maintenance: func() (string, error) { return "", nil }}, &ob, slog.New(slog.DiscardHandler))
	if p.slow(t.Context()); ob.want&fabric.WantFreshPCI == 0 {
		t.Errorf("wants %b, expected what is fresh of the PCI bus", ob.want)
	}
}

// Without its lock file no probe runs: the log says so at the start, with the file and what to do.
func TestUnwritableLockIsLogged(t *testing.T) {
	for lock, want := range map[string]int{"lock": 0, "none/none/lock": 1} {
		synctest.Test(t, func(t *testing.T) {
			var log output
			p := &hostProber{
				ctx: t.Context(), log: slog.New(slog.NewTextHandler(&log, nil)), stop: func() {},
				host: prober.Host{
					Platform: &prober.Platform{Gate: func(h *prober.Host) (*gate.Gate, func() error, error) {
						return gate.New(gate.Options{Lock: h.Config.LockFile}), func() error { return nil }, nil
					}},
					Observe: func(context.Context) (*fabric.Node, error) { return nil, errors.New("nothing is observed") },
				},
			}
			c := probes.DefaultConfig()
			c.StateFile, c.LockFile = "", filepath.Join(t.TempDir(), lock)
			if err := p.Apply(&c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			p.Close()
			n := 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, c.LockFile) && strings.Contains(line, "probes.lock_file") {
					n++
				}
			}
			if n != want {
				t.Errorf("%s: %d lines, expected %d: %s", lock, n, want, log.String())
			}
		})
	}
}
