// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	gpuA = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
	gpuB = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
	gpuC = "GPU-cccccccc-1111-2222-3333-444444444444" // is there, and not to be probed
)

// machine is all that a gate asks. It is idle until something is changed.
type machine struct {
	change []func(*fabric.GPUDriver) // of each reading
	reads  int
	held   bool
	gpuErr error
	slow   time.Duration // that each reading of GPUs takes

	initial error
	running []fabric.Process
	findErr error
	byPID   map[int]fabric.Process

	groups   fabric.Cgroups
	groupErr error

	pods   []string
	noPods bool // no socket
	podErr error

	why    string
	whyErr error

	options GateOptions
	other   *Lock // of another prober; kept, because a file that nobody refers to is closed
}

func newMachine(t *testing.T) *machine {
	m := &machine{byPID: map[int]fabric.Process{}, groups: fabric.Cgroups{Slurm: true, Pods: true}}
	m.running = []fabric.Process{
		{PID: 50, Command: "slurmd"}, {PID: 51, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "infinity"}}, {PID: 52, Command: "kubelet"},
	}
	m.options = GateOptions{
		GPUs: m, Processes: m, Cgroups: m, Pods: pods{m}, Lock: filepath.Join(t.TempDir(), "lock"),
		Maintenance: func() (string, error) { return m.why, m.whyErr },
	}
	return m
}

func idleDriver(now time.Time) fabric.GPUDriver {
	d := fabric.GPUDriver{Loaded: fabric.Known(true, "", now)}
	for i, uuid := range []string{gpuA, gpuB, gpuC} {
		count := func(n uint64) fabric.Fact[uint64] { return fabric.Known(n, "", now) }
		link := func(n int) fabric.NVLink {
			return fabric.NVLink{Number: n, Active: fabric.Known(true, "", now), Errors: []fabric.NVLinkErrors{
				{Kind: fabric.NVLinkReplay, Count: count(0)}, {Kind: fabric.NVLinkCRC, Count: count(0)},
			}}
		}
		d.GPUs = append(d.GPUs, fabric.GPU{
			Index: i, UUID: uuid, Lost: fabric.Known(false, "", now), Processes: fabric.Known([]fabric.GPUProcess(nil), "", now),
			Utilization: fabric.Known(0.0, "", now), Memory: fabric.Known(fabric.GPUMemory{Total: 80 << 30, Used: 4 << 20}, "", now),
			ComputeMode: fabric.Known(fabric.ComputeDefault, "", now), MIG: fabric.Known(false, "", now), Persistence: fabric.Known(true, "", now),
			ClockReasons: fabric.Known(fabric.ClockReasons(1), "", now), PCIeReplays: count(0),
			NVLinks: fabric.Known([]fabric.NVLink{link(0), link(1)}, "", now),
		})
	}
	return d
}

func (m *machine) Read(ctx context.Context, _ bool) (fabric.GPUDriver, error) {
	m.reads++
	m.held = true
	now := time.Now()
	select {
	case <-time.After(m.slow):
	case <-ctx.Done():
		return fabric.GPUDriver{}, ctx.Err()
	}
	d := idleDriver(now)
	for _, change := range m.change {
		change(&d)
	}
	return d, m.gpuErr
}

func (m *machine) Processes(ctx context.Context) ([]fabric.GPU, error) {
	d, err := m.Read(ctx, false)
	return d.GPUs, err
}

func (m *machine) Release()       { m.held = false }
func (m *machine) Initial() error { return m.initial }

func (m *machine) Find(_ context.Context, commands ...string) ([]fabric.Process, error) {
	var found []fabric.Process
	for _, p := range m.running {
		for _, c := range commands {
			if p.Command == c {
				found = append(found, p)
			}
		}
	}
	return found, m.findErr
}

func (m *machine) Process(pid int) (fabric.Process, error) {
	if p, ok := m.byPID[pid]; ok {
		return p, nil
	}
	return fabric.Process{}, fs.ErrNotExist
}

func (m *machine) Cgroups() (fabric.Cgroups, error) { return m.groups, m.groupErr }

type pods struct{ m *machine }

func (p pods) GPUs(context.Context) ([]string, bool, error) { return p.m.pods, !p.m.noPods, p.m.podErr }

// on changes the first GPU of each reading.
func on(change func(*fabric.GPU)) func(*machine) {
	return func(m *machine) { m.change = append(m.change, func(d *fabric.GPUDriver) { change(&d.GPUs[0]) }) }
}

// link changes an NVLink of the first GPU, if there is one that counts errors.
func link(change func(*fabric.NVLink)) func(*machine) {
	return on(func(g *fabric.GPU) {
		if links := g.NVLinks.Value; len(links) > 1 && len(links[1].Errors) > 0 {
			change(&links[1])
		}
	})
}

func unread[T any](f *fabric.Fact[T]) { *f = fabric.NotKnown[T](fabric.ReasonIO, "", f.At) }

func compute(pid int) []fabric.GPUProcess {
	return []fabric.GPUProcess{{PID: pid, Kind: fabric.GPUCompute}}
}

// gateCase is something that keeps the gate shut.
type gateCase struct {
	source, how string // how: missing, lying or busy
	what        string
	change      func(*machine)
	want        Skip
}

var errBoom = errors.New("boom")

func gateCases() []gateCase {
	later := func(f *fabric.GPU, by time.Duration) { f.Processes.At = f.Processes.At.Add(by) }
	return []gateCase{
		{"driver", "missing", "the worker fails", func(m *machine) { m.gpuErr = errBoom }, SkipCannotProveIdle},
		{"driver", "missing", "nobody reads it", func(m *machine) { m.options.GPUs = nil }, SkipCannotProveIdle},
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
		{"namespace", "missing", "nobody reads procfs", func(m *machine) { m.options.Processes = nil }, SkipCannotProveIdle},
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
		{"persistence", "lying", "absent", on(func(g *fabric.GPU) { g.Persistence = fabric.None[bool]("", g.Persistence.At) }), SkipCannotProveIdle},
		{"persistence", "busy", "off", on(func(g *fabric.GPU) { g.Persistence.Value = false }), SkipPersistence},

		{"Slurm", "missing", "no control groups", func(m *machine) { m.groups, m.groupErr = fabric.Cgroups{}, errBoom }, SkipCannotProveIdle},
		{"Slurm", "missing", "nobody reads them", func(m *machine) { m.options.Cgroups = nil }, SkipCannotProveIdle},
		{"Slurm", "lying", "slurmd without groups", func(m *machine) { m.groups.Slurm = false }, SkipCannotProveIdle},
		{"Slurm", "busy", "a job", func(m *machine) { m.groups.SlurmJobs = []string{"17", "18"} }, SkipSlurm},
		{"Slurm", "busy", "a step without a group", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 61, Command: "slurmstepd", Args: []string{"slurmstepd:", "[17.0]"}})
		}, SkipSlurm},
		{"Slurm", "busy", "a step that says nothing", func(m *machine) { m.running[1].Args = nil }, SkipSlurm},

		{"kubelet", "missing", "it does not answer", func(m *machine) { m.podErr = errBoom }, SkipCannotProveIdle},
		{"kubelet", "missing", "nobody asks it", func(m *machine) { m.options.Pods = nil }, SkipCannotProveIdle},
		{"kubelet", "lying", "it runs and has no socket", func(m *machine) { m.noPods, m.groups.Pods = true, false }, SkipCannotProveIdle},
		{"kubelet", "lying", "pods and no socket", func(m *machine) { m.noPods, m.running = true, nil }, SkipCannotProveIdle},
		{"kubelet", "busy", "a container has a GPU", func(m *machine) { m.pods = []string{"ml/train-0/main"} }, SkipKubernetes},

		{"maintenance", "missing", "unreadable", func(m *machine) { m.whyErr = errBoom }, SkipCannotProveIdle},
		{"maintenance", "missing", "nobody tells", func(m *machine) { m.options.Maintenance = nil }, SkipCannotProveIdle},
		{"maintenance", "busy", "a file", func(m *machine) { m.why = "maintenance file /run/maintenance" }, SkipMaintenance},
		{"maintenance", "busy", "the exporter has let go", func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.Released = "SIGUSR1" })
		}, SkipMaintenance},

		{"throttling", "missing", "unreadable", on(func(g *fabric.GPU) { unread(&g.ClockReasons) }), SkipCannotProveIdle},
		{"throttling", "lying", "all reasons at once", on(func(g *fabric.GPU) { g.ClockReasons.Value = math.MaxUint64 }), SkipThrottled},
		{"throttling", "lying", "a reason that nobody knows", on(func(g *fabric.GPU) { g.ClockReasons.Value = 1 << 40 }), SkipCannotProveIdle},
		{"throttling", "busy", "too hot", on(func(g *fabric.GPU) { g.ClockReasons.Value = 0x41 }), SkipThrottled},

		{"links", "missing", "replays unreadable", on(func(g *fabric.GPU) { unread(&g.PCIeReplays) }), SkipCannotProveIdle},
		{"links", "missing", "NVLinks unreadable", on(func(g *fabric.GPU) { unread(&g.NVLinks) }), SkipCannotProveIdle},
		{"links", "missing", "a state unreadable", link(func(l *fabric.NVLink) { unread(&l.Active) }), SkipCannotProveIdle},
		{"links", "missing", "a counter unreadable", link(func(l *fabric.NVLink) { unread(&l.Errors[len(l.Errors)-1].Count) }), SkipCannotProveIdle},
		{"links", "missing", "no counters", link(func(l *fabric.NVLink) { l.Errors = nil }), SkipCannotProveIdle},
		{"links", "lying", "counters of an hour ago", on(func(g *fabric.GPU) { g.PCIeReplays.At = g.PCIeReplays.At.Add(-time.Hour) }), SkipCannotProveIdle},
		{"links", "lying", "errors, nobody knows when", on(func(g *fabric.GPU) { g.PCIeReplays.Value = 7 }), SkipCannotProveIdle},
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

// Whatever is missing, lies or is busy keeps the gate shut, from the start or from just before it would have opened.
func TestGateFailsClosed(t *testing.T) {
	t.Logf("%-13s %-8s %-28s %s", "source", "", "", "verdict")
	for _, c := range gateCases() {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			c.change(m)
			pass, skipped := NewGate(m.options).Enter(t.Context(), []string{gpuA, gpuB})
			if pass != nil || skipped == nil || skipped.Why != c.want || skipped.Detail == "" || len(skipped.Detail) > maxDetail {
				t.Fatalf("%s, %s: %+v, expected %s", c.source, c.what, skipped, c.want)
			}
			if m.held {
				t.Errorf("%s, %s: the GPUs are still held", c.source, c.what)
			}
			t.Logf("%-13s %-8s %-28s %s: %s", c.source, c.how, c.what, skipped.Why, skipped.Detail)
		})
		if strings.Contains(c.what, "nobody") || c.source == "lock" && c.how != "busy" {
			continue // options do not change later
		}
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			g := NewGate(m.options)
			time.AfterFunc(59*time.Second, func() { c.change(m) })
			if pass, skipped := g.Enter(t.Context(), []string{gpuA, gpuB}); pass != nil {
				t.Errorf("%s, %s, after 59 s: the gate opens", c.source, c.what)
			} else if skipped.Why != c.want && skipped.Why != SkipCannotProveIdle && !c.first() {
				t.Errorf("%s, %s, after 59 s: %+v, expected %s", c.source, c.what, skipped, c.want)
			}
		})
	}
}

// first tells that what was seen before makes another verdict of it: errors that came while somebody watched.
func (c gateCase) first() bool {
	return c.what == "errors, nobody knows when" || c.what == "counters go back"
}

func TestGateOpens(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"idle":        func(*machine) {},
		"a bare node": func(m *machine) { m.running, m.groups, m.noPods = nil, fabric.Cgroups{}, true },
		"no MIG, no links": on(func(g *fabric.GPU) {
			g.MIG, g.NVLinks = fabric.None[bool]("", g.MIG.At), fabric.None[[]fabric.NVLink]("", g.MIG.At)
		}),
		"64 MiB": on(func(g *fabric.GPU) { g.Memory.Value.Used = 64 << 20 }),
		"Grace": func(m *machine) {
			m.options.IdleMemory = 1 << 30
			on(func(g *fabric.GPU) { g.Memory.Value.Used = 1<<30 + 64<<20 })(m)
		},
		"an administrator's clocks": on(func(g *fabric.GPU) { g.ClockReasons.Value = 0x103 }),
		"a link that is down":       link(func(l *fabric.NVLink) { l.Active.Value, l.Errors = false, nil }),
		"a display": func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) {
				d.GPUs[2].Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}}
			})
		},
		"what does not matter": func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { unread(&d.GPUs[0].BAR1); unread(&d.GPUs[0].Name); unread(&d.GPUs[2].Memory) })
		},
		"a slow start": func(m *machine) {
			m.slow = 3 * time.Second
			m.change = append(m.change, func(*fabric.GPUDriver) { m.slow = 100 * time.Millisecond })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			change(m)
			g := NewGate(m.options)
			began := time.Now()
			pass, skipped := g.Enter(t.Context(), []string{gpuA, gpuB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, skipped)
			}
			took := time.Since(began)
			if took < time.Minute || took > 70*time.Second || m.reads > 40 {
				t.Errorf("%s: it opened after %s and %d readings", name, took, m.reads)
			}
			for _, again := range []func() *Skipped{
				func() *Skipped { return g.Check(t.Context(), []string{gpuA}) },
				func() *Skipped { _, s := g.Enter(t.Context(), []string{gpuA}); return s },
				func() *Skipped { _, s := NewGate(m.options).Enter(t.Context(), []string{gpuA}); return s },
			} {
				if s := again(); s == nil || s.Why != SkipLocked {
					t.Errorf("%s: during a probe: %+v", name, s)
				}
			}
			pass.Leave()
			pass.Leave()
			if who, err := pass.Intruder(t.Context(), nil); err == nil || m.held {
				t.Errorf("%s: after it was left: %q, %v, held %v", name, who, err, m.held)
			}
			// Right after it, the minute before still counts.
			if s := g.Check(t.Context(), []string{gpuA, gpuB}); s != nil {
				t.Errorf("%s: after a probe: %+v", name, s)
			}
		})
	}
}

// What cannot be read never makes a good verdict of a bad one, nor do two faults that could hide each other.
func TestTwoFaultsDoNotOpenTheGate(t *testing.T) {
	cases := gateCases()
	tried := 0
	for i, a := range cases {
		for j := i + 1 + i%3; j < len(cases); j += 7 { // a seventh of all pairs
			b := cases[j]
			tried++
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				a.change(m)
				b.change(m)
				if pass, _ := NewGate(m.options).Enter(t.Context(), []string{gpuA, gpuB}); pass != nil {
					t.Errorf("%s, %s and %s, %s: the gate opens", a.source, a.what, b.source, b.what)
				}
			})
		}
	}
	t.Logf("%d pairs", tried)
}

func TestNoGPUs(t *testing.T) {
	for _, gpus := range [][]string{nil, {""}, {"GPU-dddddddd"}} {
		synctest.Test(t, func(t *testing.T) {
			s := NewGate(newMachine(t).options).Check(t.Context(), gpus)
			if s == nil || s.Why != SkipNoGPU && s.Why != SkipCannotProveIdle {
				t.Errorf("%q: %+v", gpus, s)
			}
		})
	}
}

func TestEnterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		pass, s := NewGate(newMachine(t).options).Enter(ctx, []string{gpuA})
		if pass != nil || s.Why != SkipCannotProveIdle || time.Since(began) != 10*time.Second {
			t.Errorf("%+v after %s", s, time.Since(began))
		}
	})
}

func ExampleSkipped() {
	fmt.Println((&refusal{why: SkipProcess, detail: "compute process 17 (\x1b[31m\n) on GPU 0"}).skipped().Detail)
	// Output: compute process 17 (?[31m?) on GPU 0
}
