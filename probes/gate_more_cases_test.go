// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// onC changes the GPU that is not to be probed.
func onC(change func(*fabric.GPU)) func(*machine) {
	return func(m *machine) { m.change = append(m.change, func(d *fabric.GPUDriver) { change(&d.GPUs[2]) }) }
}

// hiddenCases are jobs that show in a part of what is read, or for a part of the time.
func hiddenCases() []gateCase {
	held := func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }
	return []gateCase{
		{"hidden", "lying", "memory without a process", on(held), SkipMemory},
		{"hidden", "lying", "memory of another GPU", onC(held), SkipMemory},
		{"hidden", "missing", "memory of another unreadable", onC(func(g *fabric.GPU) { unread(&g.Memory) }), SkipCannotProveIdle},
		{"hidden", "lying", "more of another than there is", onC(func(g *fabric.GPU) { g.Memory.Value.Used = g.Memory.Value.Total + 1 }), SkipCannotProveIdle},
		{"hidden", "lying", "process 0 on another GPU", onC(func(g *fabric.GPU) { g.Processes.Value = compute(0) }), SkipProcess},
		{"hidden", "busy", "a PID that procfs lacks", on(func(g *fabric.GPU) { g.Processes.Value = compute(1 << 21) }), SkipProcess},
		// Stopped by SIGSTOP, or between two steps: a context, memory, and no work.
		{"hidden", "busy", "a stopped job", on(func(g *fabric.GPU) { g.Processes.Value = compute(4711); held(g) }), SkipProcess},
		{"hidden", "busy", "a pod that starts", func(m *machine) { m.pods = []string{"ml/train-0/main"}; m.groups.Pods = true }, SkipKubernetes},
		// slurmd runs slurmstepd for the prolog of SPANK plugins, before there is a group.
		{"hidden", "busy", "a Slurm job in its prolog", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 62, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "spank", "prolog"}})
		}, SkipSlurm},
		{"hidden", "busy", "the server of MPS", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 63, User: 1000, NSPIDs: []int{63, 8}, Command: "nvidia-cuda-mps"})
		}, SkipMPS},
	}
}

// A process that is not a job leaves the gate open.
func TestGateOpensBesideWhatIsNoJob(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"daemons of the driver and DCGM": func(m *machine) {
			for i, command := range []string{"nvidia-persiste", "nvidia-fabricma", "nv-hostengine", "dcgm-exporter", "Xorg", "dockerd", "containerd"} {
				m.running = append(m.running, fabric.Process{PID: 70 + i, Command: command})
			}
		},
		// A GPU that is bound to vfio-pci for a virtual machine does not belong to the driver.
		"a GPU that the driver does not have": func(m *machine) {
			m.change = append(m.change, func(d *fabric.GPUDriver) { d.GPUs = d.GPUs[:2] })
		},
		"a display with windows elsewhere": onC(func(g *fabric.GPU) {
			g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}}
			g.Memory.Value.Used = 2 << 30
		}),
		// Seven instances of MIG, about 13 MiB each.
		"a divided GPU elsewhere": onC(func(g *fabric.GPU) { g.MIG.Value = true; g.Memory.Value.Used = 91 << 20 }),
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			change(m)
			pass, s := NewGate(m.options).Enter(t.Context(), []string{gpuA, gpuB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, s)
			}
			pass.Leave()
		})
	}
}

// A list of processes that lies, or cannot be read, in one reading of the minute, whichever it is, does not open the gate.
// Where nothing else is seen, that is a job that is there in one reading only.
func TestGateStaysShutWhenOneListLies(t *testing.T) {
	job := func(g *fabric.GPU) { g.Processes.Value = compute(4711); g.Memory.Value.Used = 30e9 }
	for name, c := range map[string]struct{ always, once func(*fabric.GPU) }{
		"a job that is missing once":           {job, func(g *fabric.GPU) { g.Processes.Value, g.Memory.Value.Used = nil, 4<<20 }},
		"a job without a process once":         {job, func(g *fabric.GPU) { g.Processes.Value = nil }},
		"a job that cannot be read once":       {job, func(g *fabric.GPU) { unread(&g.Processes); unread(&g.Memory) }},
		"a job that is there once":             {func(*fabric.GPU) {}, job},
		"a list that cannot be read once":      {func(*fabric.GPU) {}, func(g *fabric.GPU) { unread(&g.Processes) }},
		"memory that is in use once":           {func(*fabric.GPU) {}, func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }},
		"a process without a PID that is once": {func(*fabric.GPU) {}, func(g *fabric.GPU) { g.Processes.Value = compute(0) }},
	} {
		for _, lies := range []int{1, 2, 3, 17, 30, 31, 32} {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				on(func(g *fabric.GPU) {
					c.always(g)
					if m.reads == lies {
						c.once(g)
					}
				})(m)
				if pass, _ := NewGate(m.options).Enter(t.Context(), []string{gpuA, gpuB}); pass != nil {
					t.Errorf("%s, in reading %d of %d: the gate opens", name, lies, m.reads)
				}
			})
		}
	}
}

// A job that comes after the gate has opened, at any time up to the first look of the run, and one that shows nowhere but in
// its control group, is seen by that look or the next.
func TestJobBetweenTheGateAndTheRun(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"a process":        on(func(g *fabric.GPU) { g.Processes.Value = compute(800) }),
		"without a PID":    on(func(g *fabric.GPU) { g.Processes.Value = compute(0) }),
		"on another GPU":   onC(func(g *fabric.GPU) { g.Processes.Value = compute(800) }),
		"a group of Slurm": func(m *machine) { m.groups.SlurmJobs = []string{"17"} },
		"once not listed": func(m *machine) {
			n := m.reads
			on(func(g *fabric.GPU) {
				if m.reads > n+1 {
					g.Processes.Value = compute(800)
				}
			})(m)
		},
		"once not readable": func(m *machine) {
			n := m.reads
			on(func(g *fabric.GPU) {
				g.Processes.Value = compute(800)
				if m.reads == n+1 {
					unread(&g.Processes)
				}
			})(m)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			pass := enter(t, m)
			defer pass.Leave()
			change(m)
			p := planFor(t, Key{Kind: Node}, Settings{})
			crew := &crew{plan: p, fault: func(_ context.Context, _ int, q *Request) (any, error, bool) {
				t.Errorf("%s: a rank was asked to %s", name, q.name())
				return nil, nil, false
			}}
			began := time.Now()
			r := Run(t.Context(), p, crew.Start, pass)
			if r.Failure != FailureIntruder || !strings.Contains(r.Error, "came to the GPUs") || r.Intrusion == nil {
				t.Fatalf("%s: %s %s: %s", name, r.Outcome, r.Failure, r.Error)
			}
			crew.all(t)
			for _, rank := range crew.ranks {
				if took := rank.killed.Sub(began); took > guardInterval {
					t.Errorf("%s: rank %d was killed after %s, expected %s at most", name, rank.number, took, guardInterval)
				}
			}
		})
	}
}
