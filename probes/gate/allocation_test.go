// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/gate/gatetest"
)

// In its own allocation a probe need not fear the job that it is, but each other one, and whoever is on the GPUs.
func TestAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		job    string
		change func(*gatetest.Machine)
		want   probes.Skip // empty: it opens
		who    string      // of the intruder; empty: none
	}{
		"own job": {"7", func(m *gatetest.Machine) { m.Groups.SlurmJobs = []string{"7"} }, "", ""},
		"a step": {"7", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 9, Command: "slurmstepd"})
		}, "", ""},
		"a pod":      {"", func(m *gatetest.Machine) { m.Pods = []string{"a/b/c"}; m.Groups.SlurmJobs = []string{"8"} }, "", ""},
		"pbs_mom":    {"", func(m *gatetest.Machine) { m.Running = append(m.Running, fabric.Process{PID: 9, Command: "pbs_mom"}) }, "", ""},
		"other job":  {"7", func(m *gatetest.Machine) { m.Groups.SlurmJobs = []string{"7", "8"} }, probes.SkipSlurm, "Slurm job 8"},
		"a process":  {"7", gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(77) }), probes.SkipProcess, "process 77"},
		"elsewhere":  {"7", gatetest.OnC(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(77) }), probes.SkipProcess, "process 77"},
		"not read":   {"7", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Processes) }), probes.SkipCannotProveIdle, ""},
		"no cgroups": {"7", func(m *gatetest.Machine) { m.GroupErr = errors.New("not read") }, probes.SkipCannotProveIdle, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := gatetest.NewMachine(t)
				m.Options.Allocation, m.Options.Quiet = &gate.Allocation{SlurmJob: c.job}, 2*time.Second
				began := time.Now()
				pass, skipped := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
				if pass == nil {
					t.Fatalf("%+v", skipped)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("it took %s", took)
				}
				c.change(m)
				who, err := pass.Intruder(t.Context(), nil)
				if c.who == "" && (who != "" || (err != nil) != (c.want == probes.SkipCannotProveIdle)) || !strings.Contains(who, c.who) {
					t.Errorf("intruder %q, %v, expected %q", who, err, c.who)
				}
				pass.Leave()
				pass, skipped = gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
				switch {
				case pass != nil:
					pass.Leave()
					if c.want != "" {
						t.Errorf("it opens, expected %s", c.want)
					}
				case skipped.Why != c.want:
					t.Errorf("%+v, expected %q", skipped, c.want)
				}
			})
		})
	}
}
