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

// schedulerCases are daemons of schedulers on a node with nothing else on its GPUs. Names are what procfs shows: 15 bytes.
func schedulerCases() []gateCase {
	var cases []gateCase
	for i, command := range []string{
		"pbs_mom", "sbatchd", "res", "condor_startd", "condor_starter", "sge_execd", "sge_shepherd", "flux-broker-0", "flux-broker-123", "nomad", "raylet",
	} {
		cases = append(cases, gateCase{"scheduler", "busy", command, func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 900 + i, Command: command})
		}, SkipScheduler})
	}
	return append(cases,
		gateCase{"scheduler", "busy", "pbs_mom in a namespace", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 900, NSPIDs: []int{900, 7}, Command: "pbs_mom"})
		}, SkipScheduler},
		gateCase{"scheduler", "lying", "a user's pbs_mom", func(m *machine) {
			m.running = append(m.running, fabric.Process{PID: 900, User: 1000, Command: "pbs_mom"})
		}, SkipScheduler},
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
			m := newMachine(t)
			m.running = append(m.running, c.process)
			began := time.Now()
			_, s := NewGate(m.options).Enter(t.Context(), []string{gpuA})
			if s == nil || s.Why != SkipScheduler || time.Since(began) > 0 {
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
		if name := schedulerOf(command); name != "" {
			t.Errorf("%q is taken for a daemon of %s", command, name)
		}
	}
}

// A site that says so opens the gate where a scheduler runs that cannot be asked. It is asked before the minute and after
// it, and the GPUs are looked at meanwhile.
func TestSiteSaysThatTheNodeIsFree(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"PBS":                        func(m *machine) { m.running = append(m.running, fabric.Process{PID: 900, Command: "pbs_mom"}) },
		"Slurm without cgroups":      func(m *machine) { m.groups.Slurm = false },
		"Slurm, asked on top":        func(*machine) {},
		"a node without a scheduler": func(m *machine) { m.running, m.groups, m.noPods = nil, fabric.Cgroups{}, true },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			change(m)
			var asked []time.Duration
			began := time.Now()
			m.options.Site = func(context.Context) (string, error) {
				asked = append(asked, time.Since(began))
				time.Sleep(4900 * time.Millisecond)
				return "", nil
			}
			g := NewGate(m.options)
			pass, s := g.Enter(t.Context(), []string{gpuA, gpuB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, s)
			}
			defer pass.Leave()
			if len(asked) != 2 || asked[0] != 0 || asked[1] < time.Minute || time.Since(began) > 70*time.Second || m.reads < 30 {
				t.Errorf("%s: asked after %v, open after %s and %d readings", name, asked, time.Since(began), m.reads)
			}
		})
	}
}

func TestSiteKeepsTheGateShut(t *testing.T) {
	busy := errBoom
	for _, c := range []struct {
		name   string
		answer func(ctx context.Context) (string, error)
		want   Skip
		detail string
	}{
		{"not free", func(context.Context) (string, error) { return "job 17", nil }, SkipSite, "job 17"},
		{"no answer", func(context.Context) (string, error) { return "", busy }, SkipCannotProveIdle, "probes.idle_command: boom"},
		{"a hang", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, SkipCannotProveIdle, "probes.idle_command"},
		{"a hang for ever", func(context.Context) (string, error) { time.Sleep(time.Hour); return "", nil }, SkipCannotProveIdle, "probes.idle_command"},
		{"a long answer", func(context.Context) (string, error) { return strings.Repeat("x\n", 1000), nil }, SkipSite, "x x x"},
	} {
		for _, late := range []time.Duration{0, 59 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				began := time.Now()
				m.options.Site = func(ctx context.Context) (string, error) {
					if time.Since(began) < late {
						return "", nil
					}
					return c.answer(ctx)
				}
				g := NewGate(m.options)
				pass, s := g.Enter(t.Context(), []string{gpuA, gpuB})
				took := time.Since(began)
				if pass != nil || s.Why != c.want || !strings.Contains(s.Detail, c.detail) || len(s.Detail) > maxDetail {
					t.Errorf("%s after %s: %+v, expected %s with %q", c.name, late, s, c.want, c.detail)
				}
				if took > late+10*time.Second || m.held {
					t.Errorf("%s after %s: refused after %s, held %v", c.name, late, took, m.held)
				}
				if s := g.Check(t.Context(), []string{gpuA}); s == nil || s.Why != c.want && s.Why != SkipCannotProveIdle {
					t.Errorf("%s after %s: one look says %+v", c.name, late, s)
				}
				if lock, err := TakeLock(m.options.Lock); err != nil {
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
		change func(m *machine, begun func() bool) // from when on it is so
		want   Skip
	}{
		{"in use", func(m *machine, begun func() bool) {
			on(func(g *fabric.GPU) {
				if begun() {
					g.Processes.Value = compute(4711)
				}
			})(m)
		}, SkipProcess},
		{"maintenance", func(m *machine, begun func() bool) {
			m.options.Maintenance = func() (string, error) {
				if begun() {
					return "SIGUSR1", nil
				}
				return "", nil
			}
		}, SkipMaintenance},
	} {
		for _, late := range []time.Duration{0, 2500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine(t)
				m.options.Site = site
				began := time.Now()
				c.change(m, func() bool { return time.Since(began) >= late })
				asked = 0
				pass, s := NewGate(m.options).Enter(t.Context(), []string{gpuA})
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
