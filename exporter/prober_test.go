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
	"gpufabric_exporter/probes"
)

// Without its lock file no probe runs: the log says so at the start, with the file and what to do.
func TestUnwritableLockIsLogged(t *testing.T) {
	for lock, want := range map[string]int{"lock": 0, "none/none/lock": 1} {
		synctest.Test(t, func(t *testing.T) {
			var log output
			p := &prober{
				ctx: t.Context(), log: slog.New(slog.NewTextHandler(&log, nil)), stop: func() {},
				host: probes.Host{
					Platform: &probes.Platform{Gate: func(h *probes.Host) (*probes.Gate, func() error, error) {
						return probes.NewGate(probes.GateOptions{Lock: h.Config.LockFile}), func() error { return nil }, nil
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
