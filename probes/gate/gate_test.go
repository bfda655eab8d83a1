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
)

// link changes an NVLink of the first GPU, if there is one that counts errors.
func link(change func(*fabric.NVLink)) func(*gatetest.Machine) {
	return gatetest.On(func(g *fabric.GPU) {
		if links := g.NVLinks.Value; len(links) > 1 && len(links[1].Errors) > 0 {
			change(&links[1])
		}
	})
}

// Whatever is missing, lies or is busy keeps the gate shut, from the start or from just before it would have opened.
func TestGateFailsClosed(t *testing.T) {
	t.Logf("%-13s %-8s %-28s %s", "source", "", "", "verdict")
	for _, c := range allGateCases() {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			c.change(m)
			pass, skipped := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
			if pass != nil || skipped == nil || skipped.Why != c.want || skipped.Detail == "" || len(skipped.Detail) > gate.MaxDetail {
				t.Fatalf("%s, %s: %+v, expected %s", c.source, c.what, skipped, c.want)
			}
			if m.Held {
				t.Errorf("%s, %s: the GPUs are still held", c.source, c.what)
			}
			t.Logf("%-13s %-8s %-28s %s: %s", c.source, c.how, c.what, skipped.Why, skipped.Detail)
		})
		if strings.HasPrefix(c.what, "no source") || c.source == "lock" && c.how != "busy" {
			continue // options do not change later
		}
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			g := gate.New(m.Options)
			m.Late, m.LateAt = c.change, time.Now().Add(59*time.Second)
			if pass, skipped := g.Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB}); pass != nil {
				t.Errorf("%s, %s, after 59 s: the gate opens", c.source, c.what)
			} else if skipped.Why != c.want && skipped.Why != probes.SkipCannotProveIdle && !c.first() {
				t.Errorf("%s, %s, after 59 s: %+v, expected %s", c.source, c.what, skipped, c.want)
			}
		})
	}
}

func TestGateOpens(t *testing.T) {
	for name, change := range map[string]func(*gatetest.Machine){
		"idle":        func(*gatetest.Machine) {},
		"a bare node": func(m *gatetest.Machine) { m.Running, m.Groups, m.NoPods = nil, fabric.Cgroups{}, true },
		"no MIG, no links": gatetest.On(func(g *fabric.GPU) {
			g.MIG, g.NVLinks = fabric.AbsentFact[bool]("", g.MIG.At), fabric.AbsentFact[[]fabric.NVLink]("", g.MIG.At)
		}),
		"64 MiB": gatetest.On(func(g *fabric.GPU) { g.Memory.Value.Used = 64 << 20 }),
		"Grace": func(m *gatetest.Machine) {
			m.Options.IdleMemory = 1 << 30
			gatetest.On(func(g *fabric.GPU) { g.Memory.Value.Used = 1<<30 + 64<<20 })(m)
		},
		"an administrator's clocks": gatetest.On(func(g *fabric.GPU) { g.ClockReasons.Value = 0x103 }),
		"a link that is down":       link(func(l *fabric.NVLink) { l.Active.Value, l.Errors = false, nil }),
		"a display": func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) {
				d.GPUs[2].Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}}
			})
		},
		"what does not matter": func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) {
				gatetest.Unread(&d.GPUs[0].BAR1)
				gatetest.Unread(&d.GPUs[0].Name)
				gatetest.Unread(&d.GPUs[2].Utilization)
			})
		},
		"a slow start": func(m *gatetest.Machine) {
			m.Slow = 3 * time.Second
			m.Change = append(m.Change, func(*fabric.GPUDriver) { m.Slow = 100 * time.Millisecond })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			change(m)
			g := gate.New(m.Options)
			began := time.Now()
			pass, skipped := g.Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
			if pass == nil {
				t.Fatalf("%s: %+v", name, skipped)
			}
			took := time.Since(began)
			if took < time.Minute || took > 70*time.Second || m.Reads > 40 {
				t.Errorf("%s: it opened after %s and %d readings", name, took, m.Reads)
			}
			for _, again := range []func() *probes.Skipped{
				func() *probes.Skipped { return g.Check(t.Context(), []string{gatetest.GPUA}) },
				func() *probes.Skipped { _, s := g.Enter(t.Context(), []string{gatetest.GPUA}); return s },
				func() *probes.Skipped {
					_, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA})
					return s
				},
			} {
				if s := again(); s == nil || s.Why != probes.SkipLocked {
					t.Errorf("%s: during a probe: %+v", name, s)
				}
			}
			pass.Leave()
			pass.Leave()
			if who, err := pass.Intruder(t.Context(), nil); err == nil || m.Held {
				t.Errorf("%s: after it was left: %q, %v, held %v", name, who, err, m.Held)
			}
			// Right after it, the minute before still counts.
			if s := g.Check(t.Context(), []string{gatetest.GPUA, gatetest.GPUB}); s != nil {
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
				m := gatetest.NewMachine(t)
				a.change(m)
				b.change(m)
				if pass, _ := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB}); pass != nil {
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
			s := gate.New(gatetest.NewMachine(t).Options).Check(t.Context(), gpus)
			if s == nil || s.Why != probes.SkipNoGPU && s.Why != probes.SkipCannotProveIdle {
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
		pass, s := gate.New(gatetest.NewMachine(t).Options).Enter(ctx, []string{gatetest.GPUA})
		if pass != nil || s.Why != probes.SkipCannotProveIdle || time.Since(began) != 10*time.Second {
			t.Errorf("%+v after %s", s, time.Since(began))
		}
	})
}
