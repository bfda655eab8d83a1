// SPDX-License-Identifier: Apache-2.0

package gate_test

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
	"gpufabric_exporter/probes/state"
)

// schedulerCases are daemons of schedulers on a node with nothing else on its GPUs. Names are what procfs
// shows: 15 bytes.
func schedulerCases() []gateCase {
	var cases []gateCase
	for i, command := range []string{
		"pbs_mom", "sbatchd", "res", "condor_startd", "condor_starter", "sge_execd", "sge_shepherd", "flux-broker-0", "flux-broker-123", "nomad", "raylet",
	} {
		cases = append(cases, gateCase{"scheduler", "busy", command, func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 900 + i, Command: command})
		}, probes.SkipScheduler})
	}
	return append(cases,
		gateCase{"scheduler", "busy", "pbs_mom in a namespace", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 900, NSPIDs: []int{900, 7}, Command: "pbs_mom"})
		}, probes.SkipScheduler},
		gateCase{"scheduler", "lying", "a user's pbs_mom", func(m *gatetest.Machine) {
			m.Running = append(m.Running, fabric.Process{PID: 900, User: 1000, Command: "pbs_mom"})
		}, probes.SkipScheduler},
	)
}

// The refusal for a scheduler that cannot be asked names the daemon, its user, and what to configure.
func TestSchedulerIsNamed(t *testing.T) {
	for _, c := range []struct {
		process fabric.Process
		want    []string
		not     string
	}{
		{fabric.Process{PID: 900, Command: "pbs_mom"}, []string{"process 900 (pbs_mom) is", "daemon of PBS", "probes.idle_command"}, "user"},
		{fabric.Process{PID: 901, Command: "flux-broker-17", User: 64}, []string{"901 (flux-broker-17) of user 64, who may have chosen its name", "Flux"}, "PBS"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			m.Running = append(m.Running, c.process)
			began := time.Now()
			_, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA})
			if s == nil || s.Why != probes.SkipScheduler || time.Since(began) > 0 {
				t.Fatalf("%+v after %s", s, time.Since(began))
			}
			for _, want := range c.want {
				if !strings.Contains(s.Detail, want) {
					t.Errorf("%q, expected %q in it", s.Detail, want)
				}
			}
			if strings.Contains(s.Detail, c.not) {
				t.Errorf("%q, expected no %q in it", s.Detail, c.not)
			}
		})
	}
}

// A program that only resembles a scheduler does not close the gate.
func TestOtherDaemonsAreNoSchedulers(t *testing.T) {
	for _, command := range []string{
		"", "pbs_mo", "pbs_mom2", "pbs_server", "mbatchd", "resolved", "condor_schedd", "condor_master", "sge_qmaster", "flux", "nomad-autoscale", "ray::IDLE",
		"dockerd", "containerd", "nvidia-persiste", "nv-hostengine", "nvidia-fabricma", "Xorg", "slurmctld",
	} {
		if name := gate.SchedulerOf(command); name != "" {
			t.Errorf("%q is taken for a daemon of %s", command, name)
		}
	}
}

// A site that says so opens the gate where a scheduler runs that cannot be asked. It is asked before the
// minute and after it, and the GPUs are looked at meanwhile.
func TestSiteSaysThatTheNodeIsFree(t *testing.T) {
	for name, change := range map[string]func(*gatetest.Machine){
		"PBS":                        func(m *gatetest.Machine) { m.Running = append(m.Running, fabric.Process{PID: 900, Command: "pbs_mom"}) },
		"Slurm without cgroups":      func(m *gatetest.Machine) { m.Groups.Slurm = false },
		"Slurm, asked on top":        func(*gatetest.Machine) {},
		"a node without a scheduler": func(m *gatetest.Machine) { m.Running, m.Groups, m.NoPods = nil, fabric.Cgroups{}, true },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			change(m)
			var asked []time.Duration
			began := time.Now()
			m.Options.Site = func(context.Context) (string, error) {
				asked = append(asked, time.Since(began))
				time.Sleep(4900 * time.Millisecond)
				return "", nil
			}
			g := gate.New(m.Options)
			pass, s := g.Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, s)
			}
			defer pass.Leave()
			if len(asked) != 2 || asked[0] != 0 || asked[1] < time.Minute || time.Since(began) > 70*time.Second || m.Reads < 30 {
				t.Errorf("%s: asked after %v, open after %s and %d readings", name, asked, time.Since(began), m.Reads)
			}
		})
	}
}

func TestSiteKeepsTheGateShut(t *testing.T) {
	busy := errBoom
	for _, c := range []struct {
		name   string
		answer func(ctx context.Context) (string, error)
		want   probes.Skip
		detail string
	}{
		{"not free", func(context.Context) (string, error) { return "job 17", nil }, probes.SkipSite, "job 17"},
		{"no answer", func(context.Context) (string, error) { return "", busy }, probes.SkipCannotProveIdle, "probes.idle_command: boom"},
		{"a hang", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, probes.SkipCannotProveIdle, "probes.idle_command"},
		{"a hang for ever", func(context.Context) (string, error) { time.Sleep(time.Hour); return "", nil }, probes.SkipCannotProveIdle, "probes.idle_command"},
		{"a long answer", func(context.Context) (string, error) { return strings.Repeat("x\n", 1000), nil }, probes.SkipSite, "x x x"},
	} {
		for _, late := range []time.Duration{0, 59 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				m := gatetest.NewMachine(t)
				began := time.Now()
				m.Options.Site = func(ctx context.Context) (string, error) {
					if time.Since(began) < late {
						return "", nil
					}
					return c.answer(ctx)
				}
				g := gate.New(m.Options)
				pass, s := g.Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
				took := time.Since(began)
				if pass != nil || s.Why != c.want || !strings.Contains(s.Detail, c.detail) || len(s.Detail) > gate.MaxDetail {
					t.Errorf("%s after %s: %+v, expected %s with %q", c.name, late, s, c.want, c.detail)
				}
				if took > late+10*time.Second || m.Held {
					t.Errorf("%s after %s: refused after %s, held %v", c.name, late, took, m.Held)
				}
				if s := g.Check(t.Context(), []string{gatetest.GPUA}); s == nil || s.Why != c.want && s.Why != probes.SkipCannotProveIdle {
					t.Errorf("%s after %s: one look says %+v", c.name, late, s)
				}
				if lock, err := state.TakeLock(m.Options.Lock); err != nil {
					t.Errorf("%s after %s: the lock is kept: %v", c.name, late, err)
				} else {
					lock.Release()
				}
				time.Sleep(time.Hour) // for what sleeps
			})
		}
	}
}

// The site is not asked about a node whose GPUs are in use, nor in maintenance, and not waited for when either begins.
func TestSiteIsNotAskedInVain(t *testing.T) {
	asked := 0
	site := func(ctx context.Context) (string, error) { asked++; <-ctx.Done(); return "", ctx.Err() }
	for _, c := range []struct {
		name   string
		change func(m *gatetest.Machine, begun func() bool) // from when on it is so
		want   probes.Skip
	}{
		{"in use", func(m *gatetest.Machine, begun func() bool) {
			gatetest.On(func(g *fabric.GPU) {
				if begun() {
					g.Processes.Value = gatetest.Compute(4711)
				}
			})(m)
		}, probes.SkipProcess},
		{"maintenance", func(m *gatetest.Machine, begun func() bool) {
			m.Options.Maintenance = func() (string, error) {
				if begun() {
					return "SIGUSR1", nil
				}
				return "", nil
			}
		}, probes.SkipMaintenance},
	} {
		for _, late := range []time.Duration{0, 2500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				m := gatetest.NewMachine(t)
				m.Options.Site = site
				began := time.Now()
				c.change(m, func() bool { return time.Since(began) >= late })
				asked = 0
				pass, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA})
				if pass != nil || s.Why != c.want || time.Since(began) > late+2*time.Second {
					t.Errorf("%s after %s: %+v after %s", c.name, late, s, time.Since(began))
				}
				synctest.Wait()
				if want := min(1, int(late)); asked != want {
					t.Errorf("%s after %s: asked %d times, expected %d", c.name, late, asked, want)
				}
			})
		}
	}
}
