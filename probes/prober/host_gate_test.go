// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/gate/gatetest"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
	"gpufabric_exporter/probes/run"
)

// A job that comes after the gate has opened, at any time up to the first look of the run, and one that shows
// nowhere but in its control group, is seen by that look or the next.
func TestJobBetweenTheGateAndTheRun(t *testing.T) {
	for name, change := range map[string]func(*gatetest.Machine){
		"a process":        gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) }),
		"without a PID":    gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(0) }),
		"on another GPU":   gatetest.OnC(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) }),
		"a group of Slurm": func(m *gatetest.Machine) { m.Groups.SlurmJobs = []string{"17"} },
		"once not listed": func(m *gatetest.Machine) {
			n := m.Reads
			gatetest.On(func(g *fabric.GPU) {
				if m.Reads > n+1 {
					g.Processes.Value = gatetest.Compute(800)
				}
			})(m)
		},
		"once not readable": func(m *gatetest.Machine) {
			n := m.Reads
			gatetest.On(func(g *fabric.GPU) {
				g.Processes.Value = gatetest.Compute(800)
				if m.Reads == n+1 {
					gatetest.Unread(&g.Processes)
				}
			})(m)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			pass, skipped := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
			if pass == nil {
				t.Fatalf("%+v", skipped)
			}
			defer pass.Leave()
			change(m)
			p, skipped := plan.New(probes.Key{Kind: probes.Node}, probestest.Node(8), plan.Settings{})
			if p == nil {
				t.Fatalf("%+v", skipped)
			}
			crew := &probestest.Crew{Plan: p.Ranks, Fault: func(_ context.Context, _ int, q *probes.Request) (any, error, bool) {
				t.Errorf("%s: a rank was asked to %s", name, q.Name())
				return nil, nil, false
			}}
			began := time.Now()
			r := run.Run(t.Context(), p, crew.Start, pass)
			if r.Failure != probes.FailureIntruder || !strings.Contains(r.Error, "came to the GPUs") || r.Intrusion == nil {
				t.Fatalf("%s: %s %s: %s", name, r.Outcome, r.Failure, r.Error)
			}
			crew.All(t)
			for _, rank := range crew.Started {
				if took := rank.Killed.Sub(began); took > 100*time.Millisecond {
					t.Errorf("%s: rank %d was killed after %s, expected %s at most", name, rank.Number, took, 100*time.Millisecond)
				}
			}
		})
	}
}
