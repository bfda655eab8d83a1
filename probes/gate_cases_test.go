// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// gateCase is something that keeps the gate shut.
type gateCase struct {
	source, how string // how: missing, lying or busy
	what        string
	change      func(*machine)
	want        Skip
}

var errBoom = errors.New("boom")

func allGateCases() []gateCase {
	return slices.Concat(gateCases(), hiddenCases(), schedulerCases())
}

func gateCases() []gateCase {
	later := func(f *fabric.GPU, by time.Duration) { f.Processes.At = f.Processes.At.Add(by) }
	return []gateCase{
		{"driver", "missing", "the worker fails", func(m *machine) { m.gpuErr = errBoom }, SkipCannotProveIdle},
		{"driver", "missing", "no source", func(m *machine) { m.options.GPUs = nil }, SkipCannotProveIdle},
		{"driver", "missing", "it takes 3 s", func(m *machine) { m.slow = 3 * time.Second }, SkipCannotProveIdle},
		{"driver", "missing", "it hangs", func(m *machine) { m.slow = time.Hour }, SkipCannotProveIdle},
		{"driver", "missing", "unknown whether loaded", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { unread(&d.Loaded) })
		}, SkipCannotProveIdle},
		{"driver", "busy", "not loaded", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.Loaded.Value = false })
		}, SkipNoGPU},
		{"driver", "missing", "a GPU is lost", on(func(g *fabric.GPU) { g.Lost.Value = true }), SkipCannotProveIdle},
		{"driver", "missing", "unknown whether lost", on(func(g *fabric.GPU) { unread(&g.Lost) }), SkipCannotProveIdle},
		{"driver", "missing", "the GPU is not there", on(func(g *fabric.GPU) { g.UUID = "" }), SkipCannotProveIdle},
		{"driver", "lying", "two GPUs of one name", on(func(g *fabric.GPU) { g.UUID = gpuB }), SkipCannotProveIdle},
		{"driver", "lying", "twice the same GPU", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.GPUs = append(d.GPUs, d.GPUs[0]) })
		}, SkipCannotProveIdle},

		{"processes", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.Processes) }), SkipCannotProveIdle},
		{"processes", "missing", "of another GPU", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { unread(&d.GPUs[2].Processes) })
		}, SkipCannotProveIdle},
		{"processes", "lying", "a list of 3 s ago", on(func(g *fabric.GPU) { later(g, -3*time.Second) }), SkipCannotProveIdle},
		{"processes", "lying", "a list of tomorrow", on(func(g *fabric.GPU) { later(g, 24*time.Hour) }), SkipCannotProveIdle},
		{"processes", "lying", "a process 0", on(func(g *fabric.GPU) { g.Processes.Value = compute(0) }), SkipProcess},
		{"processes", "busy", "a job between two steps", on(func(g *fabric.GPU) { g.Processes.Value = compute(4711) }), SkipProcess},
		{"processes", "busy", "this process itself", on(func(g *fabric.GPU) { g.Processes.Value = compute(os.Getpid()) }), SkipProcess},
		{"processes", "busy", "graphics", on(func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}} }), SkipProcess},
		{"processes", "busy", "on another GPU", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.GPUs[2].Processes.Value = compute(4711) })
		}, SkipProcess},

		{"namespace", "missing", "not that of the node", func(m *machine) { m.initial = errBoom }, SkipCannotProveIdle},
		{"namespace", "missing", "no source: procfs", func(m *machine) { m.options.Processes = nil }, SkipCannotProveIdle},
		{"namespace", "missing", "processes unreadable", func(m *machine) { m.findErr = errBoom }, SkipCannotProveIdle},

		{"memory", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.Memory) }), SkipCannotProveIdle},
		{"memory", "lying", "more used than there is", on(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{Total: 1, Used: 2} }), SkipCannotProveIdle},
		{"memory", "lying", "no memory", on(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{} }), SkipCannotProveIdle},
		{"memory", "busy", "30 GB of a hidden process", on(func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }), SkipMemory},
		{"memory", "busy", "65 MiB", on(func(g *fabric.GPU) { g.Memory.Value.Used = 65 << 20 }), SkipMemory},
		{"memory", "busy", "2^64-1 and little idle", func(m *machine) {
			m.options.IdleMemory = 5
			on(func(g *fabric.GPU) { g.Memory.Value = fabric.GPUMemory{Total: math.MaxUint64, Used: math.MaxUint64} })(m)
		}, SkipMemory},

		{"utilisation", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.Utilization) }), SkipCannotProveIdle},
		{"utilisation", "lying", "NaN", on(func(g *fabric.GPU) { g.Utilization.Value = math.NaN() }), SkipCannotProveIdle},
		{"utilisation", "lying", "below 0", on(func(g *fabric.GPU) { g.Utilization.Value = -1 }), SkipCannotProveIdle},
		{"utilisation", "lying", "of a minute ago", on(func(g *fabric.GPU) { g.Utilization.At = g.Utilization.At.Add(-time.Minute) }), SkipCannotProveIdle},
		{"utilisation", "busy", "1 %", on(func(g *fabric.GPU) { g.Utilization.Value = 0.01 }), SkipUtilization},

		{"compute mode", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.ComputeMode) }), SkipCannotProveIdle},
		{"compute mode", "lying", "of an hour ago", on(func(g *fabric.GPU) { g.ComputeMode.At = g.ComputeMode.At.Add(-time.Hour) }), SkipCannotProveIdle},
		{"compute mode", "lying", "none that exists", on(func(g *fabric.GPU) { g.ComputeMode.Value = "what" }), SkipComputeMode},
		{"compute mode", "busy", "exclusive", on(func(g *fabric.GPU) { g.ComputeMode.Value = fabric.ComputeExclusiveProcess }), SkipComputeMode},
		{"compute mode", "busy", "prohibited", on(func(g *fabric.GPU) { g.ComputeMode.Value = fabric.ComputeProhibited }), SkipComputeMode},

		{"MIG", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.MIG) }), SkipCannotProveIdle},
		{"MIG", "lying", "of an hour ago", on(func(g *fabric.GPU) { g.MIG.At = g.MIG.At.Add(-time.Hour) }), SkipCannotProveIdle},
		{"MIG", "busy", "divided", on(func(g *fabric.GPU) { g.MIG.Value = true; unread(&g.Utilization) }), SkipMIG},

		{"MPS", "busy", "a client", on(func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUMPS}} }), SkipMPS},
		{"MPS", "busy", "a daemon without clients", func(m *machine) { m.running = append(m.running, fabric.Process{PID: 60, Command: "nvidia-cuda-mps"}) }, SkipMPS},

		{"persistence", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.Persistence) }), SkipCannotProveIdle},
		{"persistence", "lying", "absent", on(func(g *fabric.GPU) { g.Persistence = fabric.AbsentFact[bool]("", g.Persistence.At) }), SkipCannotProveIdle},
		{"persistence", "busy", "off", on(func(g *fabric.GPU) { g.Persistence.Value = false }), SkipPersistence},

		{"Slurm", "missing", "no control groups", func(m *machine) { m.groups, m.groupErr = fabric.Cgroups{}, errBoom }, SkipCannotProveIdle},
		{"Slurm", "missing", "no source", func(m *machine) { m.options.Cgroups = nil }, SkipCannotProveIdle},
		{"Slurm", "lying", "slurmd without groups", func(m *machine) { m.groups.Slurm = false }, SkipCannotProveIdle},
		{"Slurm", "busy", "a job", func(m *machine) { m.groups.SlurmJobs = []string{"17", "18"} }, SkipSlurm},
		{"Slurm", "busy", "a step without a group", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 61, Command: "slurmstepd", Args: []string{"slurmstepd:", "[17.0]"}})
		}, SkipSlurm},
		{"Slurm", "busy", "a step that says nothing", func(m *machine) { m.running[1].Args = nil }, SkipSlurm},

		{"kubelet", "missing", "it does not answer", func(m *machine) { m.podErr = errBoom }, SkipCannotProveIdle},
		{"kubelet", "missing", "no source", func(m *machine) { m.options.Pods = nil }, SkipCannotProveIdle},
		{"kubelet", "lying", "it runs and has no socket", func(m *machine) { m.noPods, m.groups.Pods = true, false }, SkipCannotProveIdle},
		{"kubelet", "lying", "pods and no socket", func(m *machine) { m.noPods, m.running = true, nil }, SkipCannotProveIdle},
		{"kubelet", "busy", "a container has a GPU", func(m *machine) { m.pods = []string{"ml/train-0/main"} }, SkipKubernetes},

		{"maintenance", "missing", "unreadable", func(m *machine) { m.whyErr = errBoom }, SkipCannotProveIdle},
		{"maintenance", "missing", "no source", func(m *machine) { m.options.Maintenance = nil }, SkipCannotProveIdle},
		{"maintenance", "busy", "a file", func(m *machine) { m.why = "maintenance file /run/maintenance" }, SkipMaintenance},
		{"maintenance", "busy", "the exporter has let go", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.Released = "SIGUSR1" })
		}, SkipMaintenance},

		{"throttling", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.ClockReasons) }), SkipCannotProveIdle},
		{"throttling", "lying", "all reasons at once", on(func(g *fabric.GPU) { g.ClockReasons.Value = math.MaxUint64 }), SkipThrottled},
		{"throttling", "lying", "a reason that is not known", on(func(g *fabric.GPU) { g.ClockReasons.Value = 1 << 40 }), SkipCannotProveIdle},
		{"throttling", "busy", "too hot", on(func(g *fabric.GPU) { g.ClockReasons.Value = 0x41 }), SkipThrottled},

		{"links", "missing", "replays unreadable", on(func(g *fabric.GPU) { unread(&g.PCIeReplays) }), SkipCannotProveIdle},
		{"links", "missing", "NVLinks unreadable", on(func(g *fabric.GPU) { unread(&g.NVLinks) }), SkipCannotProveIdle},
		{"links", "missing", "a state unreadable", link(func(l *fabric.NVLink) { unread(&l.Active) }), SkipCannotProveIdle},
		{"links", "missing", "a counter unreadable", link(func(l *fabric.NVLink) { unread(&l.Errors[len(l.Errors)-1].Count) }), SkipCannotProveIdle},
		{"links", "missing", "no counters", link(func(l *fabric.NVLink) { l.Errors = nil }), SkipCannotProveIdle},
		{"links", "lying", "counters of an hour ago", on(func(g *fabric.GPU) { g.PCIeReplays.At = g.PCIeReplays.At.Add(-time.Hour) }), SkipCannotProveIdle},
		{"links", "lying", "errors at an unknown time", on(func(g *fabric.GPU) { g.PCIeReplays.Value = 7 }), SkipCannotProveIdle},
		{"links", "lying", "counters go back", func(m *machine) { m.counts(func(n uint64) uint64 { return 1000 - n }) }, SkipCannotProveIdle},
		{"links", "busy", "PCIe replays", func(m *machine) { m.counts(func(n uint64) uint64 { return n }) }, SkipLinkErrors},

		{"lock", "missing", "no folder", func(m *machine) { m.options.Lock += "/no/lock" }, SkipCannotProveIdle},
		{"lock", "missing", "no path", func(m *machine) { m.options.Lock = "" }, SkipCannotProveIdle},
		{"lock", "lying", "a folder", func(m *machine) { m.options.Lock = filepath.Dir(m.options.Lock) }, SkipCannotProveIdle},
		{"lock", "lying", "a symbolic link", func(m *machine) {
			if path := m.options.Lock; os.Symlink(path, path+".link") == nil {
				m.options.Lock = path + ".link"
			}
		}, SkipCannotProveIdle},
		{"lock", "busy", "another prober", func(m *machine) {
			m.other, _ = TakeLock(m.options.Lock)
		}, SkipLocked},
	}
}

// counts has the first GPU's PCIe replays follow the number of readings.
func (m *machine) counts(f func(n uint64) uint64) {
	on(func(g *fabric.GPU) { g.PCIeReplays.Value = f(uint64(m.reads) - 1) })(m)
}

// first reports whether an earlier sample changes the verdict: errors that came while the gate watched.
func (c gateCase) first() bool {
	return c.what == "errors at an unknown time" || c.what == "counters go back"
}
