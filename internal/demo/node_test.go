// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/simulator"
)

// Counters of a node that is started again are not ahead of what they could have counted since: Prometheus
// would take what they start with for a burst of traffic. Nor are those that only the fault has.
func TestNodeStartedAgainHasNoBurst(t *testing.T) {
	s, err := simulator.Find("pcie-errors")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	n, err := NewNode(t.Context(), Options{Scenario: s, Folder: t.TempDir(), Break: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	device := n.Sysfs() + "/class/infiniband/mlx5_1/"
	count := func(file, before string) int {
		text, err := os.ReadFile(device + file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), before)
		v, err := strconv.Atoi(strings.TrimSpace(after))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	received := func() int { return count("ports/1/counters/port_rcv_data", "") }
	errors := func() int { return count("device/aer_dev_correctable", "TOTAL_ERR_COR ") }
	if r, e := received(), errors(); r != 0 || e != 0 {
		t.Errorf("at the start %d words were received, and %d errors counted", r, e)
	}
	step := func(to int) (words, errs int) {
		words, errs = received(), errors()
		if err := n.Step(to); err != nil {
			t.Fatal(err)
		}
		return received() - words, errors() - errs
	}
	if words, errs := step(1); words == 0 || errs != 0 {
		t.Errorf("a healthy second: %d words, %d errors", words, errs)
	}
	if err := n.Become(s.Build().Reload()); err != nil {
		t.Fatal(err)
	}
	if e := errors(); e != 0 {
		t.Errorf("the fault begins with %d errors", e)
	}
	if words, errs := step(1); words == 0 || errs == 0 || errs > 100 {
		t.Errorf("a second of the fault: %d words, %d errors", words, errs)
	}
}

// A node is healthy until the scenario happens to it, and again later. Its probes run soon after each change.
func TestNodeBreaksAndIsMended(t *testing.T) {
	s, err := simulator.Find("port-down")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var life sync.WaitGroup
		defer life.Wait()
		defer cancel()
		var said strings.Builder
		n, err := NewNode(t.Context(), Options{Scenario: s, Folder: folder, Break: 5 * time.Second, Mend: 10 * time.Second, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		life.Go(func() { n.Run(ctx) })
		is := func(want string) {
			t.Helper()
			state, err := os.ReadFile(n.Sysfs() + "/class/infiniband/mlx5_3/ports/1/state")
			if err != nil || !strings.Contains(string(state), want) {
				t.Errorf("the port is %q, %v; expected %s", state, err, want)
			}
		}
		is("ACTIVE")
		time.Sleep(4 * time.Second)
		is("ACTIVE")
		time.Sleep(2 * time.Second)
		is("DOWN")
		time.Sleep(8 * time.Second)
		is("DOWN")
		time.Sleep(2 * time.Second)
		is("ACTIVE")
		if c, err := n.Config(); err != nil || c.Probes == nil || c.Policy.ComputePorts == nil {
			t.Errorf("its site expects %+v, %v", c, err)
		}
		for _, part := range []string{s.Summary, s.Truth, "every 1m30s"} {
			if !strings.Contains(n.Note(), part) {
				t.Errorf("the note lacks %q: %s", part, n.Note())
			}
		}
		cancel()
		life.Wait()
		for _, part := range []string{"the simulated node breaks", "the simulated node is mended"} {
			if !strings.Contains(said.String(), part) {
				t.Errorf("lacks %q: %s", part, said.String())
			}
		}
	})
}
