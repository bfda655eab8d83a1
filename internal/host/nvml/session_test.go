// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// newSession returns a session with processes that load the stand-in.
func newSession(t *testing.T, machine ...string) (*child, *Session) {
	t.Helper()
	c, _ := newChild(t, machine)
	s := NewSession(func() Caller { return c })
	t.Cleanup(s.Release)
	return c, s
}

func pids(g fabric.GPU) string {
	if g.Processes.State != fabric.OK {
		return string(g.Processes.Reason)
	}
	var p []int
	for _, x := range g.Processes.Value {
		p = append(p, x.PID)
	}
	return fmt.Sprint(p)
}

func TestProcessesAlone(t *testing.T) {
	c, s := newSession(t, "gpus 2", "graphics 1")
	c.counting()
	ask := func() []fabric.GPU {
		t.Helper()
		before := time.Now()
		gpus, err := s.Processes(t.Context())
		if err != nil || len(gpus) != 2 {
			t.Fatal(gpus, err)
		}
		for i, g := range gpus {
			if g.Index != i || g.UUID != fmt.Sprintf("GPU-0000000%d-1111-2222-3333-444444444444", i) || g.Processes.At.Before(before) {
				t.Errorf("%+v", g)
			}
		}
		return gpus
	}
	if g := ask(); pids(g[0]) != "[1000 2000]" || pids(g[1]) != "[1100 2100]" {
		t.Errorf("processes %s and %s", pids(g[0]), pids(g[1]))
	}
	before := maps.Clone(c.counted())
	c.describe("gpus 2", "processes 0", "mps 1", "error nvmlDeviceGetComputeRunningProcesses_v3 4 1")
	if g := ask(); pids(g[0]) != "[3000]" || pids(g[1]) != string(fabric.ReasonPrivilege) {
		t.Errorf("processes %s and %s", pids(g[0]), pids(g[1]))
	}
	var called []string
	for f, n := range c.counted() {
		if n > before[f] {
			called = append(called, fmt.Sprint(f, " ", n-before[f]))
		}
	}
	slices.Sort(called)
	want := []string{
		"nvmlDeviceGetComputeRunningProcesses_v3 2", "nvmlDeviceGetGraphicsRunningProcesses_v3 1", "nvmlDeviceGetMPSComputeRunningProcesses_v3 1",
	}
	if !slices.Equal(called, want) {
		t.Errorf("calls %q, expected %q", called, want)
	}
	// A GPU that is lost has no list, not an empty one; readings see the loss and the return.
	c.describe("gpus 2", "processes 0", "lost 1")
	if g := ask(); pids(g[0]) != "[]" || pids(g[1]) != string(fabric.ReasonGone) || !g[1].Lost.Value {
		t.Errorf("processes %s and %s", pids(g[0]), pids(g[1]))
	}
	if d, err := s.Read(t.Context(), false); err != nil || !d.GPUs[1].Lost.Value || d.GPUs[1].Memory.Reason != fabric.ReasonGone {
		t.Errorf("%+v, %v", d.GPUs[1], err)
	}
	c.describe("gpus 2", "processes 1")
	if g := ask(); pids(g[1]) != "[1100]" || g[1].Lost.Value {
		t.Errorf("processes %s", pids(g[1]))
	}
}

func TestSessionReadsWhatIsAskedFor(t *testing.T) {
	c, s := newSession(t, "gpus 1")
	first, err := s.Read(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if age := time.Since(first.GPUs[0].ComputeMode.At); age < 0 || age > time.Minute {
		t.Errorf("the first reading has modes that are %s old", age)
	}
	c.describe("gpus 1", "mode 3", "util 9", "replays 4")
	quick, err := s.Read(t.Context(), false)
	if g := quick.GPUs[0]; err != nil || g.Utilization.Value != 0.09 || g.ComputeMode.Value != fabric.ComputeDefault || g.ComputeMode.At != first.GPUs[0].ComputeMode.At {
		t.Errorf("%+v, %v", g, err)
	}
	full, err := s.Read(t.Context(), true)
	if g := full.GPUs[0]; err != nil || g.ComputeMode.Value != fabric.ComputeExclusiveProcess || g.PCIeReplays.Value != 4 || !g.ComputeMode.At.After(quick.GPUs[0].Utilization.At) {
		t.Errorf("%+v, %v", g, err)
	}
	if c.starts != 1 {
		t.Errorf("%d processes, expected 1", c.starts)
	}
	s.Release()
	if c.cmd != nil {
		t.Error("the process is still there")
	}
	if _, err := s.Read(t.Context(), false); err != nil || c.starts != 2 {
		t.Errorf("%d processes, %v", c.starts, err)
	}
}

func TestSessionEndsWithItsContext(t *testing.T) {
	c, s := newSession(t, "gpus 1")
	if _, err := s.Read(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	c.describe("gpus 1", "hang nvmlDeviceGetComputeRunningProcesses_v3")
	for name, ask := range map[string]func(context.Context) error{
		"processes": func(ctx context.Context) error { _, err := s.Processes(ctx); return err },
		"reading":   func(ctx context.Context) error { _, err := s.Read(ctx, true); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := ask(ctx); err == nil {
			t.Errorf("%s: no error of a call that hangs", name)
		}
		cancel()
	}
	c.describe("gpus 1")
	if d, err := s.Read(t.Context(), false); err != nil || len(d.GPUs) != 1 {
		t.Errorf("after it: %+v, %v", d, err)
	}
}

func TestProcessesWithoutADriver(t *testing.T) {
	for machine, want := range map[string]fabric.Reason{
		"driver 9": fabric.ReasonGone, "driver 18": fabric.ReasonUnsupported, "error nvmlDeviceGetCount_v2 999": fabric.ReasonIO,
	} {
		_, s := newSession(t, machine)
		if gpus, err := s.Processes(t.Context()); gpus != nil || fabric.ReasonOf(err) != want {
			t.Errorf("%s: %v, %v, expected %s", machine, gpus, err, want)
		}
	}
}

func TestDamagedListsOfProcesses(t *testing.T) {
	good := encodeSample(running)
	p, err := decodeReply(good, fabric.GPUDriver{})
	if err != nil || len(p.driver.GPUs) != 2 || pids(p.driver.GPUs[1]) != "[7]" {
		t.Fatalf("%+v, %v", p.driver, err)
	}
	for n := range good {
		if gpus, err := NewClient(answering{raw: good[:n]}).Processes(t.Context(), testTime); err == nil {
			t.Errorf("cut after %d bytes: %v", n, gpus)
		}
	}
	for _, other := range []tier{fast, all} {
		if gpus, err := NewClient(answering{raw: encodeSample(other)}).Processes(t.Context(), testTime); err == nil {
			t.Errorf("tier %d: %v", other, gpus)
		}
	}
	if d, err := NewClient(answering{raw: good}).Read(fabric.GPUDriver{}, false, testTime); err == nil {
		t.Errorf("a list of processes is taken for a reading: %+v", d)
	}
}
