// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate/gatetest"
	"gpufabric_exporter/probes/state"
)

// gateCase is something that keeps the gate shut.
type gateCase struct {
	source, how string // how: missing, lying or busy
	what        string
	change      func(*gatetest.Machine)
	want        probes.Skip
}

var errBoom = errors.New("boom")

func allGateCases() []gateCase {
	return slices.Concat(gateCases(), hiddenCases(), schedulerCases())
}

func gateCases() []gateCase {
	later := func(f *fabric.GPU, by time.Duration) { f.Processes.At = f.Processes.At.Add(by) }
	return []gateCase{
		{"driver", "missing", "the worker fails", func(m *gatetest.Machine) { m.GpuErr = errBoom }, probes.SkipCannotProveIdle},
		{"driver", "missing", "no source", func(m *gatetest.Machine) { m.Options.GPUs = nil }, probes.SkipCannotProveIdle},
		{"driver", "missing", "it takes 3 s", func(m *gatetest.Machine) { m.Slow = 3 * time.Second }, probes.SkipCannotProveIdle},
		{"driver", "missing", "it hangs", func(m *gatetest.Machine) { m.Slow = time.Hour }, probes.SkipCannotProveIdle},
		{"driver", "missing", "unknown whether loaded", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { gatetest.Unread(&d.Loaded) })
		}, probes.SkipCannotProveIdle},
		{"driver", "busy", "not loaded", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { d.Loaded.Value = false })
		}, probes.SkipNoGPU},
		{"driver", "missing", "a GPU is lost", gatetest.On(func(g *fabric.GPU) { g.Lost.Value = true }), probes.SkipCannotProveIdle},
		{"driver", "missing", "unknown whether lost", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Lost) }), probes.SkipCannotProveIdle},
		{"driver", "missing", "the GPU is not there", gatetest.On(func(g *fabric.GPU) { g.UUID = "" }), probes.SkipCannotProveIdle},
		{"driver", "lying", "two GPUs of one name", gatetest.On(func(g *fabric.GPU) { g.UUID = gatetest.GPUB }), probes.SkipCannotProveIdle},
		{"driver", "lying", "twice the same GPU", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { d.GPUs = append(d.GPUs, d.GPUs[0]) })
		}, probes.SkipCannotProveIdle},

		{"processes", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Processes) }), probes.SkipCannotProveIdle},
		{"processes", "missing", "of another GPU", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { gatetest.Unread(&d.GPUs[2].Processes) })
		}, probes.SkipCannotProveIdle},
		{"processes", "lying", "a list of 3 s ago", gatetest.On(func(g *fabric.GPU) { later(g, -3*time.Second) }), probes.SkipCannotProveIdle},
		{"processes", "lying", "a list of tomorrow", gatetest.On(func(g *fabric.GPU) { later(g, 24*time.Hour) }), probes.SkipCannotProveIdle},
		{"processes", "lying", "a process 0", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(0) }), probes.SkipProcess},
		{"processes", "busy", "a job between two steps", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(4711) }), probes.SkipProcess},
		{"processes", "busy", "this process itself", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(os.Getpid()) }), probes.SkipProcess},
		{"processes", "busy", "graphics", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}} }), probes.SkipProcess},
		{"processes", "busy", "on another GPU", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { d.GPUs[2].Processes.Value = gatetest.Compute(4711) })
		}, probes.SkipProcess},

		{"namespace", "missing", "not that of the node", func(m *gatetest.Machine) { m.NotInitial = errBoom }, probes.SkipCannotProveIdle},
		{"namespace", "missing", "no source: procfs", func(m *gatetest.Machine) { m.Options.Processes = nil }, probes.SkipCannotProveIdle},
		{"namespace", "missing", "processes unreadable", func(m *gatetest.Machine) { m.FindErr = errBoom }, probes.SkipCannotProveIdle},

		{"memory", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Memory) }), probes.SkipCannotProveIdle},
		{"memory", "lying", "more used than there is", gatetest.On(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{Total: 1, Used: 2} }), probes.SkipCannotProveIdle},
		{"memory", "lying", "no memory", gatetest.On(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{} }), probes.SkipCannotProveIdle},
		{"memory", "busy", "30 GB of a hidden process", gatetest.On(func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }), probes.SkipMemory},
		{"memory", "busy", "65 MiB", gatetest.On(func(g *fabric.GPU) { g.Memory.Value.Used = 65 << 20 }), probes.SkipMemory},
		{"memory", "busy", "2^64-1 and little idle", func(m *gatetest.Machine) {
			m.Options.IdleMemory = 5
			gatetest.On(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{Total: math.MaxUint64, Used: math.MaxUint64} })(m)
		}, probes.SkipMemory},

		{"utilisation", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Utilization) }), probes.SkipCannotProveIdle},
		{"utilisation", "lying", "NaN", gatetest.On(func(g *fabric.GPU) { g.Utilization.Value = math.NaN() }), probes.SkipCannotProveIdle},
		{"utilisation", "lying", "below 0", gatetest.On(func(g *fabric.GPU) { g.Utilization.Value = -1 }), probes.SkipCannotProveIdle},
		{"utilisation", "lying", "of a minute ago", gatetest.On(func(g *fabric.GPU) { g.Utilization.At = g.Utilization.At.Add(-time.Minute) }), probes.SkipCannotProveIdle},
		{"utilisation", "busy", "1 %", gatetest.On(func(g *fabric.GPU) { g.Utilization.Value = 0.01 }), probes.SkipUtilization},

		{"compute mode", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.ComputeMode) }), probes.SkipCannotProveIdle},
		{"compute mode", "lying", "of an hour ago", gatetest.On(func(g *fabric.GPU) { g.ComputeMode.At = g.ComputeMode.At.Add(-time.Hour) }), probes.SkipCannotProveIdle},
		{"compute mode", "lying", "none that exists", gatetest.On(func(g *fabric.GPU) { g.ComputeMode.Value = "what" }), probes.SkipComputeMode},
		{"compute mode", "busy", "exclusive", gatetest.On(func(g *fabric.GPU) { g.ComputeMode.Value = fabric.ComputeExclusiveProcess }), probes.SkipComputeMode},
		{"compute mode", "busy", "prohibited", gatetest.On(func(g *fabric.GPU) { g.ComputeMode.Value = fabric.ComputeProhibited }), probes.SkipComputeMode},

		{"MIG", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.MIG) }), probes.SkipCannotProveIdle},
		{"MIG", "lying", "of an hour ago", gatetest.On(func(g *fabric.GPU) { g.MIG.At = g.MIG.At.Add(-time.Hour) }), probes.SkipCannotProveIdle},
		{"MIG", "busy", "divided", gatetest.On(func(g *fabric.GPU) { g.MIG.Value = true; gatetest.Unread(&g.Utilization) }), probes.SkipMIG},

		{"MPS", "busy", "a client", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUMPS}} }), probes.SkipMPS},
		{"MPS", "busy", "a daemon without clients", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 60, Command: "nvidia-cuda-mps"})
		}, probes.SkipMPS},

		{"persistence", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Persistence) }), probes.SkipCannotProveIdle},
		{"persistence", "lying", "absent", gatetest.On(func(g *fabric.GPU) { g.Persistence = fabric.AbsentFact[bool]("", g.Persistence.At) }), probes.SkipCannotProveIdle},
		{"persistence", "busy", "off", gatetest.On(func(g *fabric.GPU) { g.Persistence.Value = false }), probes.SkipPersistence},

		{"Slurm", "missing", "no control groups", func(m *gatetest.Machine) { m.Groups, m.GroupErr = fabric.Cgroups{}, errBoom }, probes.SkipCannotProveIdle},
		{"Slurm", "missing", "no source", func(m *gatetest.Machine) { m.Options.Cgroups = nil }, probes.SkipCannotProveIdle},
		{"Slurm", "lying", "slurmd without groups", func(m *gatetest.Machine) { m.Groups.Slurm = false }, probes.SkipCannotProveIdle},
		{"Slurm", "busy", "a job", func(m *gatetest.Machine) { m.Groups.SlurmJobs = []string{"17", "18"} }, probes.SkipSlurm},
		{"Slurm", "busy", "a step without a group", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 61, Command: "slurmstepd", Args: []string{"slurmstepd:", "[17.0]"}})
		}, probes.SkipSlurm},
		{"Slurm", "busy", "a step that says nothing", func(m *gatetest.Machine) { m.Running[1].Args = nil }, probes.SkipSlurm},

		{"kubelet", "missing", "it does not answer", func(m *gatetest.Machine) { m.PodErr = errBoom }, probes.SkipCannotProveIdle},
		{"kubelet", "missing", "no source", func(m *gatetest.Machine) { m.Options.Pods = nil }, probes.SkipCannotProveIdle},
		{"kubelet", "lying", "it runs and has no socket", func(m *gatetest.Machine) { m.NoPods, m.Groups.Pods = true, false }, probes.SkipCannotProveIdle},
		{"kubelet", "lying", "pods and no socket", func(m *gatetest.Machine) { m.NoPods, m.Running = true, nil }, probes.SkipCannotProveIdle},
		{"kubelet", "busy", "a container has a GPU", func(m *gatetest.Machine) { m.Pods = []string{"ml/train-0/main"} }, probes.SkipKubernetes},

		{"maintenance", "missing", "unreadable", func(m *gatetest.Machine) { m.WhyErr = errBoom }, probes.SkipCannotProveIdle},
		{"maintenance", "missing", "no source", func(m *gatetest.Machine) { m.Options.Maintenance = nil }, probes.SkipCannotProveIdle},
		{"maintenance", "busy", "a file", func(m *gatetest.Machine) { m.Why = "maintenance file /run/maintenance" }, probes.SkipMaintenance},
		{"maintenance", "busy", "the exporter has let go", func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { d.Released = "SIGUSR1" })
		}, probes.SkipMaintenance},

		{"throttling", "missing", "unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.ClockReasons) }), probes.SkipCannotProveIdle},
		{"throttling", "lying", "all reasons at once", gatetest.On(func(g *fabric.GPU) { g.ClockReasons.Value = math.MaxUint64 }), probes.SkipThrottled},
		{"throttling", "lying", "a reason that is not known", gatetest.On(func(g *fabric.GPU) { g.ClockReasons.Value = 1 << 40 }), probes.SkipCannotProveIdle},
		{"throttling", "busy", "too hot", gatetest.On(func(g *fabric.GPU) { g.ClockReasons.Value = 0x41 }), probes.SkipThrottled},

		{"links", "missing", "replays unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.PCIeReplays) }), probes.SkipCannotProveIdle},
		{"links", "missing", "NVLinks unreadable", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.NVLinks) }), probes.SkipCannotProveIdle},
		{"links", "missing", "a state unreadable", link(func(l *fabric.NVLink) { gatetest.Unread(&l.Active) }), probes.SkipCannotProveIdle},
		{"links", "missing", "a counter unreadable", link(func(l *fabric.NVLink) { gatetest.Unread(&l.Errors[len(l.Errors)-1].Count) }), probes.SkipCannotProveIdle},
		{"links", "missing", "no counters", link(func(l *fabric.NVLink) { l.Errors = nil }), probes.SkipCannotProveIdle},
		{"links", "lying", "counters of an hour ago", gatetest.On(func(g *fabric.GPU) { g.PCIeReplays.At = g.PCIeReplays.At.Add(-time.Hour) }), probes.SkipCannotProveIdle},
		{"links", "lying", "errors at an unknown time", gatetest.On(func(g *fabric.GPU) { g.PCIeReplays.Value = 7 }), probes.SkipCannotProveIdle},
		{"links", "lying", "counters go back", func(m *gatetest.Machine) { counts(m, func(n uint64) uint64 { return 1000 - n }) }, probes.SkipCannotProveIdle},
		{"links", "busy", "PCIe replays", func(m *gatetest.Machine) { counts(m, func(n uint64) uint64 { return n }) }, probes.SkipLinkErrors},

		{"lock", "missing", "no folder", func(m *gatetest.Machine) { m.Options.Lock += "/no/lock" }, probes.SkipCannotProveIdle},
		{"lock", "missing", "no path", func(m *gatetest.Machine) { m.Options.Lock = "" }, probes.SkipCannotProveIdle},
		{"lock", "lying", "a folder", func(m *gatetest.Machine) { m.Options.Lock = filepath.Dir(m.Options.Lock) }, probes.SkipCannotProveIdle},
		{"lock", "lying", "a symbolic link", func(m *gatetest.Machine) {
			if path := m.Options.Lock; os.Symlink(path, path+".link") == nil {
				m.Options.Lock = path + ".link"
			}
		}, probes.SkipCannotProveIdle},
		{"lock", "busy", "another prober", func(m *gatetest.Machine) {
			m.Other, _ = state.TakeLock(m.Options.Lock)
		}, probes.SkipLocked},
	}
}

// counts has the first GPU's PCIe replays follow the number of readings.
func counts(m *gatetest.Machine, f func(n uint64) uint64) {
	gatetest.On(func(g *fabric.GPU) { g.PCIeReplays.Value = f(uint64(m.Reads) - 1) })(m)
}

// first reports whether an earlier sample changes the verdict: errors that came while the gate watched.
func (c gateCase) first() bool {
	return c.what == "errors at an unknown time" || c.what == "counters go back"
}
