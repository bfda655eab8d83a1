// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"
	"testing/synctest"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/gate/gatetest"
)

// hiddenCases are jobs that show in a part of what is read, or for a part of the time.
func hiddenCases() []gateCase {
	held := func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }
	return []gateCase{
		{"hidden", "lying", "memory without a process", gatetest.On(held), probes.SkipMemory},
		{"hidden", "lying", "memory of another GPU", gatetest.OnC(held), probes.SkipMemory},
		{"hidden", "missing", "memory of another unreadable", gatetest.OnC(func(g *fabric.GPU) { gatetest.Unread(&g.Memory) }), probes.SkipCannotProveIdle},
		{"hidden", "lying", "more of another than there is", gatetest.OnC(func(g *fabric.GPU) { g.Memory.Value.Used = g.Memory.Value.Total + 1 }), probes.SkipCannotProveIdle},
		{"hidden", "lying", "process 0 on another GPU", gatetest.OnC(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(0) }), probes.SkipProcess},
		{"hidden", "busy", "a PID that procfs lacks", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(1 << 21) }), probes.SkipProcess},
		// Stopped by SIGSTOP, or between two steps: a context, memory, and no work.
		{"hidden", "busy", "a stopped job", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(4711); held(g) }), probes.SkipProcess},
		{"hidden", "busy", "a pod that starts", func(m *gatetest.Machine) { m.Pods = []string{"ml/train-0/main"}; m.Groups.Pods = true }, probes.SkipKubernetes},
		// slurmd runs slurmstepd for the prolog of SPANK plugins, before there is a group.
		{"hidden", "busy", "a Slurm job in its prolog", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 62, Command: "slurmstepd", Args: []string{"/usr/sbin/slurmstepd", "spank", "prolog"}})
		}, probes.SkipSlurm},
		{"hidden", "busy", "the server of MPS", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 63, User: 1000, NSPIDs: []int{63, 8}, Command: "nvidia-cuda-mps"})
		}, probes.SkipMPS},
	}
}

// A process that is not a job leaves the gate open.
func TestGateOpensBesideWhatIsNoJob(t *testing.T) {
	for name, change := range map[string]func(*gatetest.Machine){
		"daemons of the driver and DCGM": func(m *gatetest.Machine) {
			for i, command := range []string{"nvidia-persiste", "nvidia-fabricma", "nv-hostengine", "dcgm-exporter", "Xorg", "dockerd", "containerd"} {
				m.Running = append(m.Running, fabric.Process{PID: 70 + i, Command: command})
			}
		},
		// A GPU that is bound to vfio-pci for a virtual machine does not belong to the driver.
		"a GPU that the driver does not have": func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { d.GPUs = d.GPUs[:2] })
		},
		"a display with windows elsewhere": gatetest.OnC(func(g *fabric.GPU) {
			g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}}
			g.Memory.Value.Used = 2 << 30
		}),
		// Seven instances of MIG, about 13 MiB each.
		"a divided GPU elsewhere": gatetest.OnC(func(g *fabric.GPU) { g.MIG.Value = true; g.Memory.Value.Used = 91 << 20 }),
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			change(m)
			pass, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, s)
			}
			pass.Leave()
		})
	}
}

// A list of processes that lies, or cannot be read, in one reading of the minute, whichever it is, does not
// open the gate. Where nothing else is seen, that is a job that is there in one reading only.
func TestGateStaysShutWhenOneListLies(t *testing.T) {
	job := func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(4711); g.Memory.Value.Used = 30e9 }
	for name, c := range map[string]struct{ always, once func(*fabric.GPU) }{
		"a job that is missing once":           {job, func(g *fabric.GPU) { g.Processes.Value, g.Memory.Value.Used = nil, 4<<20 }},
		"a job without a process once":         {job, func(g *fabric.GPU) { g.Processes.Value = nil }},
		"a job that cannot be read once":       {job, func(g *fabric.GPU) { gatetest.Unread(&g.Processes); gatetest.Unread(&g.Memory) }},
		"a job that is there once":             {func(*fabric.GPU) {}, job},
		"a list that cannot be read once":      {func(*fabric.GPU) {}, func(g *fabric.GPU) { gatetest.Unread(&g.Processes) }},
		"memory that is in use once":           {func(*fabric.GPU) {}, func(g *fabric.GPU) { g.Memory.Value.Used = 30e9 }},
		"a process without a PID that is once": {func(*fabric.GPU) {}, func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(0) }},
	} {
		for _, lies := range []int{1, 2, 3, 17, 30, 31, 32} {
			synctest.Test(t, func(t *testing.T) {
				m := gatetest.NewMachine(t)
				gatetest.On(func(g *fabric.GPU) {
					c.always(g)
					if m.Reads == lies {
						c.once(g)
					}
				})(m)
				if pass, _ := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB}); pass != nil {
					t.Errorf("%s, in reading %d of %d: the gate opens", name, lies, m.Reads)
				}
			})
		}
	}
}
