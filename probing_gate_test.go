// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/prober"
)

// The process that reads for a probe whether GPUs are idle releases them like the other one: within 5 s of
// the beginning of maintenance, though its library hangs.
func TestGateReleasesDuringAHang(t *testing.T) {
	dir := t.TempDir()
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 1", "hang nvmlDeviceGetCount_v2")
	var maintenance atomic.Bool
	gate, closeGate, err := openGate(&prober.Host{
		Sysfs: "/sys", Procfs: "/proc", Rootfs: dir, Config: probes.Config{LockFile: filepath.Join(dir, "lock")}, Library: library, Log: slog.New(slog.DiscardHandler),
		Maintenance: func() (string, error) {
			if maintenance.Load() {
				return "SIGUSR1", nil
			}
			return "", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan *probes.Skipped)
	go func() {
		_, s := gate.Enter(t.Context(), []string{"GPU-00000000-1111-2222-3333-444444444444"})
		refused <- s
	}()
	holds := func(pid int) bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps") // it may have ended
		return strings.Contains(string(b), library)
	}
	for end := time.Now().Add(eventually); !slices.ContainsFunc(offspring(os.Getpid()), holds); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no process has loaded the library after %s", eventually)
		}
	}
	maintenance.Store(true)
	began := time.Now()
	if s := <-refused; s == nil || s.Why != probes.SkipMaintenance {
		t.Errorf("%+v, expected %s", s, probes.SkipMaintenance)
	}
	took := time.Since(began)
	t.Logf("let go after %s", took.Round(time.Millisecond))
	if children := offspring(os.Getpid()); took > noWait || slices.ContainsFunc(children, holds) {
		t.Errorf("let go after %s, children %v", took, children)
	}
	if err := closeGate(); err != nil {
		t.Error(err)
	}
}
