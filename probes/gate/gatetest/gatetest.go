// SPDX-License-Identifier: Apache-2.0

// Package gatetest has a machine for tests of what asks a gate.
package gatetest

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/state"
)

// The GPUs of a machine.
const (
	GPUA = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
	GPUB = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
	GPUC = "GPU-cccccccc-1111-2222-3333-444444444444" // is there, and not to be probed
)

// Machine is all that a gate asks. It is idle until something is changed.
type Machine struct {
	Change []func(*fabric.GPUDriver) // of each reading
	Reads  int
	Held   bool
	GpuErr error
	Slow   time.Duration // that each reading of GPUs takes

	NotInitial error
	Running    []fabric.Process
	FindErr    error
	ByPID      map[int]fabric.Process

	Groups   fabric.Cgroups
	GroupErr error

	Pods   []string
	NoPods bool // no socket
	PodErr error

	maintenance sync.Mutex // which is asked for by two goroutines
	Why         string
	WhyErr      error

	Options gate.Options
	Late    func(*Machine) // changes something at lateAt
	LateAt  time.Time
	Other   *state.Lock // of another prober; kept, because a file without references is closed
}

// NewMachine returns an idle one.
func NewMachine(t *testing.T) *Machine {
	m := &Machine{ByPID: map[int]fabric.Process{}, Groups: fabric.Cgroups{Slurm: true, Pods: true}}
	m.Running = []fabric.Process{
		{PID: 50, Command: "slurmd"}, {PID: 51, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "infinity"}}, {PID: 52, Command: "kubelet"},
	}
	m.Options = gate.Options{
		GPUs: m, Processes: m, Cgroups: m, Pods: pods{m}, Lock: filepath.Join(t.TempDir(), "lock"),
		Maintenance: func() (string, error) { // which is asked first
			m.maintenance.Lock()
			defer m.maintenance.Unlock()
			if m.Late != nil && !time.Now().Before(m.LateAt) {
				m.Late(m)
				m.Late = nil
			}
			return m.Why, m.WhyErr
		},
	}
	return m
}

func idleDriver(now time.Time) fabric.GPUDriver {
	d := fabric.GPUDriver{Loaded: fabric.Known(true, "", now)}
	for i, uuid := range []string{GPUA, GPUB, GPUC} {
		count := func(n uint64) fabric.Fact[uint64] { return fabric.Known(n, "", now) }
		link := func(n int) fabric.NVLink {
			return fabric.NVLink{Number: n, Active: fabric.Known(true, "", now), Errors: []fabric.NVLinkErrors{
				{Kind: fabric.NVLinkReplay, Count: count(0)}, {Kind: fabric.NVLinkCRC, Count: count(0)},
			}}
		}
		d.GPUs = append(d.GPUs, fabric.GPU{
			Index: i, UUID: uuid, Lost: fabric.Known(false, "", now), Processes: fabric.Known([]fabric.GPUProcess(nil), "", now),
			Utilization: fabric.Known(0.0, "", now), Memory: fabric.Known(fabric.GPUMemory{Total: 80 << 30, Used: 4 << 20}, "",
				now),
			ComputeMode: fabric.Known(fabric.ComputeDefault, "", now), MIG: fabric.Known(false, "", now),
			Persistence:  fabric.Known(true, "", now),
			ClockReasons: fabric.Known(fabric.ClockReasons(1), "", now), PCIeReplays: count(0),
			NVLinks: fabric.Known([]fabric.NVLink{link(0), link(1)}, "", now),
		})
	}
	return d
}

func (m *Machine) Read(ctx context.Context, _ bool) (fabric.GPUDriver, error) {
	m.Reads++
	m.Held = true
	now := time.Now()
	select {
	case <-time.After(m.Slow):
	case <-ctx.Done():
		return fabric.GPUDriver{}, ctx.Err()
	}
	d := idleDriver(now)
	for _, change := range m.Change {
		change(&d)
	}
	return d, m.GpuErr
}

// Processes implements gate.GPUReader.
func (m *Machine) Processes(ctx context.Context) ([]fabric.GPU, error) {
	d, err := m.Read(ctx, false)
	return d.GPUs, err
}

// Release implements gate.GPUReader.
func (m *Machine) Release() { m.Held = false }

// Initial implements gate.ProcessReader.
func (m *Machine) Initial() error { return m.NotInitial }

// Cgroups implements gate.CgroupReader.
func (m *Machine) Cgroups() (fabric.Cgroups, error) { return m.Groups, m.GroupErr }

func (p pods) GPUs(context.Context) ([]string, bool, error) { return p.m.Pods, !p.m.NoPods, p.m.PodErr }

type pods struct{ m *Machine }

// Find implements gate.ProcessReader.
func (m *Machine) Find(_ context.Context, wanted func(string) bool) ([]fabric.Process, error) {
	found := slices.DeleteFunc(slices.Clone(m.Running), func(p fabric.Process) bool { return !wanted(p.Command) })
	return found, m.FindErr
}

// Process implements gate.ProcessReader.
func (m *Machine) Process(pid int) (fabric.Process, error) {
	if p, ok := m.ByPID[pid]; ok {
		return p, nil
	}
	return fabric.Process{}, fs.ErrNotExist
}

// On changes the first GPU of each reading.
func On(change func(*fabric.GPU)) func(*Machine) {
	return func(m *Machine) { m.Change = append(m.Change, func(d *fabric.GPUDriver) { change(&d.GPUs[0]) }) }
}

// Unread makes a fact unknown.
func Unread[T any](f *fabric.Fact[T]) { *f = fabric.UnknownFact[T](fabric.ReasonIO, "", f.At) }

// Compute is a process that computes.
func Compute(pid int) []fabric.GPUProcess {
	return []fabric.GPUProcess{{PID: pid, Kind: fabric.GPUCompute}}
}

// OnC changes the GPU that is not to be probed.
func OnC(change func(*fabric.GPU)) func(*Machine) {
	return func(m *Machine) { m.Change = append(m.Change, func(d *fabric.GPUDriver) { change(&d.GPUs[2]) }) }
}
