// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

	maintenance sync.Mutex // which is asked for by two goroutines
	why         string
	whyErr      error

	options GateOptions
	late    func(*machine) // changes something at lateAt
	lateAt  time.Time
	other   *Lock // of another prober; kept, because a file without references is closed
}

func newMachine(t *testing.T) *machine {
	m := &machine{byPID: map[int]fabric.Process{}, groups: fabric.Cgroups{Slurm: true, Pods: true}}
	m.running = []fabric.Process{
		{PID: 50, Command: "slurmd"}, {PID: 51, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "infinity"}}, {PID: 52, Command: "kubelet"},
	}
	m.options = GateOptions{
		GPUs: m, Processes: m, Cgroups: m, Pods: pods{m}, Lock: filepath.Join(t.TempDir(), "lock"),
		Maintenance: func() (string, error) { // which is asked first
			m.maintenance.Lock()
			defer m.maintenance.Unlock()
			if m.late != nil && !time.Now().Before(m.lateAt) {
				m.late(m)
				m.late = nil
			}
			return m.why, m.whyErr
		},
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

func (m *machine) Find(_ context.Context, wanted func(string) bool) ([]fabric.Process, error) {
	found := slices.DeleteFunc(slices.Clone(m.running), func(p fabric.Process) bool { return !wanted(p.Command) })
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

func unread[T any](f *fabric.Fact[T]) { *f = fabric.UnknownFact[T](fabric.ReasonIO, "", f.At) }

func compute(pid int) []fabric.GPUProcess {
	return []fabric.GPUProcess{{PID: pid, Kind: fabric.GPUCompute}}
}

// Whatever is missing, lies or is busy keeps the gate shut, from the start or from just before it would have opened.
func TestGateFailsClosed(t *testing.T) {
	t.Logf("%-13s %-8s %-28s %s", "source", "", "", "verdict")
	for _, c := range allGateCases() {
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
		if strings.HasPrefix(c.what, "no source") || c.source == "lock" && c.how != "busy" {
			continue // options do not change later
		}
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			g := NewGate(m.options)
			m.late, m.lateAt = c.change, time.Now().Add(59*time.Second)
			if pass, skipped := g.Enter(t.Context(), []string{gpuA, gpuB}); pass != nil {
				t.Errorf("%s, %s, after 59 s: the gate opens", c.source, c.what)
			} else if skipped.Why != c.want && skipped.Why != SkipCannotProveIdle && !c.first() {
				t.Errorf("%s, %s, after 59 s: %+v, expected %s", c.source, c.what, skipped, c.want)
			}
		})
	}
}

func TestGateOpens(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"idle":        func(*machine) {},
		"a bare node": func(m *machine) { m.running, m.groups, m.noPods = nil, fabric.Cgroups{}, true },
		"no MIG, no links": on(func(g *fabric.GPU) {
			g.MIG, g.NVLinks = fabric.AbsentFact[bool]("", g.MIG.At), fabric.AbsentFact[[]fabric.NVLink]("", g.MIG.At)
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
			m.change = append(m.change, func(d *fabric.GPUDriver) {
				unread(&d.GPUs[0].BAR1)
				unread(&d.GPUs[0].Name)
				unread(&d.GPUs[2].Utilization)
			})
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
	cases := allGateCases()
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
	// Output: compute process 17 ( [31m ) on GPU 0
}
