// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/gate/gatetest"
)

// What was seen a while ago is remembered for a minute, and for no longer.
func TestAMinuteOfQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		var busy func(*fabric.GPU)
		gatetest.On(func(g *fabric.GPU) {
			if busy != nil {
				busy(g)
			}
		})(m)
		g := gate.New(m.Options)
		expect := func(want probes.Skip, detail string) {
			t.Helper()
			s := g.Check(t.Context(), []string{gatetest.GPUA})
			if want == "" && s != nil || want != "" && (s == nil || s.Why != want || !strings.Contains(s.Detail, detail)) {
				t.Fatalf("after %d readings: %+v, expected %q with %q", m.Reads, s, want, detail)
			}
		}
		quiet := func(for_ time.Duration) {
			for end := time.Now().Add(for_); time.Now().Before(end); {
				time.Sleep(2 * time.Second)
				g.Check(t.Context(), []string{gatetest.GPUA})
			}
		}
		expect(probes.SkipCannotProveIdle, "watched for 0s, expected 1m0s")
		quiet(58 * time.Second)
		expect(probes.SkipCannotProveIdle, "watched for 58s")
		quiet(2 * time.Second)
		expect("", "")
		// A process that came and went.
		busy = func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(4711) }
		expect(probes.SkipProcess, "4711")
		busy = nil
		quiet(30 * time.Second)
		expect(probes.SkipProcess, "30s ago")
		quiet(30 * time.Second)
		expect(probes.SkipCannotProveIdle, "watched for 58s") // from the first reading without it
		quiet(2 * time.Second)
		expect("", "")
		// A kernel.
		busy = func(g *fabric.GPU) { g.Utilization.Value = 1 }
		expect(probes.SkipUtilization, "100 %")
		busy = nil
		quiet(50 * time.Second)
		expect(probes.SkipUtilization, "50s ago")
		quiet(12 * time.Second)
		expect("", "")
		// A reading that says nothing is no proof of what was meanwhile.
		busy = func(g *fabric.GPU) { gatetest.Unread(&g.Utilization) }
		expect(probes.SkipCannotProveIdle, "utilisation")
		busy = nil
		expect(probes.SkipCannotProveIdle, "watched for 0s")
		quiet(time.Minute)
		expect("", "")
		// Nor is a time without samples.
		time.Sleep(6 * time.Second)
		expect(probes.SkipCannotProveIdle, "watched for 0s")
		// Another GPU has a minute of its own.
		quiet(time.Minute)
		expect("", "")
		if s := g.Check(t.Context(), []string{gatetest.GPUA, gatetest.GPUB}); s == nil || !strings.Contains(s.Detail, gatetest.GPUB) {
			t.Errorf("a GPU that was not watched: %+v", s)
		}
	})
}

// A counter that stands for ten minutes is proof, and so is one that is 0 since the driver was loaded.
func TestTenMinutesWithoutLinkErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		crc := uint64(7)
		link(func(l *fabric.NVLink) { l.Errors[1].Count.Value = crc })(m)
		g := gate.New(m.Options)
		enter := func(after time.Duration, want probes.Skip, detail string) {
			t.Helper()
			time.Sleep(after)
			pass, s := g.Enter(t.Context(), []string{gatetest.GPUA})
			if pass != nil {
				pass.Leave()
			}
			if want == "" && s != nil || want != "" && (s == nil || s.Why != want || !strings.Contains(s.Detail, detail)) {
				t.Fatalf("%+v, expected %q with %q", s, want, detail)
			}
		}
		enter(0, probes.SkipCannotProveIdle, "nvlink 1/crc of "+gatetest.GPUA+" is 7 and has been watched for 0s")
		enter(5*time.Minute, probes.SkipCannotProveIdle, "for 5m0s")
		enter(5*time.Minute, "", "")
		crc = 8
		enter(0, probes.SkipLinkErrors, "has grown to 8")
		enter(9*time.Minute, probes.SkipLinkErrors, "9m0s ago at most")
		enter(time.Minute, "", "")
		crc = 0 // the driver was loaded again; what was before is unknown
		enter(0, probes.SkipCannotProveIdle, "watched for 0s")
		enter(10*time.Minute, "", "")
	})
}

// enter opens the gate of a machine.
func enter(t *testing.T, m *gatetest.Machine) *gate.Pass {
	t.Helper()
	pass, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA, gatetest.GPUB})
	if pass == nil {
		t.Fatalf("%+v", s)
	}
	return pass
}

func TestIntruders(t *testing.T) {
	const rank = 700
	ours := fabric.Process{PID: rank, Parent: os.Getpid(), NSPIDs: []int{rank}, Command: "gpufabric"}
	listed := func(list ...fabric.GPUProcess) func(*gatetest.Machine) {
		return gatetest.On(func(g *fabric.GPU) { g.Processes.Value = list })
	}
	other := func(change func(*fabric.GPU)) func(*gatetest.Machine) {
		return func(m *gatetest.Machine) {
			m.Change = append(m.Change, func(d *fabric.GPUDriver) { change(&d.GPUs[2]) })
		}
	}
	for _, c := range []struct {
		name   string
		change func(*gatetest.Machine)
		want   string // empty: no intruder
		err    string
	}{
		{"no process", func(*gatetest.Machine) {}, "", ""},
		{"our rank", listed(gatetest.Compute(rank)[0]), "", ""},
		{"a stranger", listed(fabric.GPUProcess{PID: 800, Kind: fabric.GPUCompute}), "compute process 800 (python) on " + gatetest.GPUA, ""},
		{"a stranger beside our rank", listed(gatetest.Compute(rank)[0], fabric.GPUProcess{PID: 801, Kind: fabric.GPUGraphics}), "graphics process 801 on", ""},
		{"a stranger with the pid of a rank that ended", func(m *gatetest.Machine) {
			listed(gatetest.Compute(rank)[0])(m)
			m.ByPID[rank] = fabric.Process{PID: rank, Parent: 1, NSPIDs: []int{rank}, Command: "thief"}
		}, "compute process 700 (thief)", ""},
		{"a rank that ended", func(m *gatetest.Machine) { listed(gatetest.Compute(rank)[0])(m); delete(m.ByPID, rank) }, "compute process 700 on", ""},
		{"a child of ours that is no rank", listed(gatetest.Compute(701)[0]), "compute process 701", ""},
		{"our rank in a namespace", func(m *gatetest.Machine) {
			listed(gatetest.Compute(rank)[0])(m)
			m.ByPID[rank] = fabric.Process{PID: rank, Parent: os.Getpid(), NSPIDs: []int{rank, 1}}
		}, "compute process 700", ""},
		{"a client of MPS with our pid", listed(fabric.GPUProcess{PID: rank, Kind: fabric.GPUMPS}), "mps process 700", ""},
		{"our rank on a GPU that is not ours", other(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(rank) }), "", ""},
		{"a stranger on another GPU", other(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) }), "compute process 800 (python) on " + gatetest.GPUC, ""},
		{"a display elsewhere", other(func(g *fabric.GPU) { g.Processes.Value = []fabric.GPUProcess{{PID: 9, Kind: fabric.GPUGraphics}} }), "", ""},
		{"a job of Slurm", func(m *gatetest.Machine) { m.Groups.SlurmJobs = []string{"17"} }, "Slurm job 17", ""},
		{"maintenance", func(m *gatetest.Machine) { m.Why = "SIGUSR1" }, "", "maintenance: SIGUSR1"},
		{"maintenance, and no answer", func(m *gatetest.Machine) { m.Why, m.GpuErr = "SIGUSR1", errBoom }, "", "maintenance: SIGUSR1"},
		{"no list", gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Processes) }), "", "processes of " + gatetest.GPUA},
		{"an old list", gatetest.On(func(g *fabric.GPU) { g.Processes.At = g.Processes.At.Add(-3 * time.Second) }), "", "3s ago"},
		{"no list, and a stranger elsewhere", func(m *gatetest.Machine) {
			gatetest.On(func(g *fabric.GPU) { gatetest.Unread(&g.Processes) })(m)
			other(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(800) })(m)
		}, "compute process 800", ""},
		{"a GPU is gone", gatetest.On(func(g *fabric.GPU) { g.UUID = "" }), "", "the driver no longer lists " + gatetest.GPUA},
		{"no answer", func(m *gatetest.Machine) { m.GpuErr = errBoom }, "", "boom"},
		{"unknown maintenance", func(m *gatetest.Machine) { m.WhyErr = errBoom }, "", "boom"},
		{"no control groups", func(m *gatetest.Machine) { m.GroupErr = errBoom }, "", "boom"},
		{"a hang", func(m *gatetest.Machine) { m.Slow = time.Hour }, "", "deadline"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			pass := enter(t, m)
			defer pass.Leave()
			m.ByPID[rank] = ours
			m.ByPID[701] = fabric.Process{PID: 701, Parent: os.Getpid(), NSPIDs: []int{701}, Command: "nvml"}
			m.ByPID[800] = fabric.Process{PID: 800, Parent: 1, NSPIDs: []int{800, 1}, Command: "python"}
			c.change(m)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			who, err := pass.Intruder(ctx, []int{rank})
			if (who == "") != (c.want == "") || !strings.Contains(who, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %q, %v, expected %q, %q", c.name, who, err, c.want, c.err)
			}
		})
	}
}

// Memory goes some time after the process.
func TestFreed(t *testing.T) {
	const rank, stranger = 700, 800
	used := func(g *fabric.GPU) { g.Memory.Value.Used = 500 << 20 }
	listed := func(pids ...int) func(*fabric.GPU) {
		return func(g *fabric.GPU) {
			for _, pid := range pids {
				g.Processes.Value = append(g.Processes.Value, gatetest.Compute(pid)...)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(since time.Duration) []func(*fabric.GPU) // of GPU A, some time after the ranks have ended
		want   time.Duration
		err    string // empty: it is free after want
	}{
		{"at once", func(time.Duration) []func(*fabric.GPU) { return nil }, 0, ""},
		{"in steps", func(since time.Duration) []func(*fabric.GPU) {
			switch {
			case since < 300*time.Millisecond:
				return []func(*fabric.GPU){listed(rank), used}
			case since < 700*time.Millisecond:
				return []func(*fabric.GPU){used}
			case since < 900*time.Millisecond:
				return []func(*fabric.GPU){func(g *fabric.GPU) { gatetest.Unread(&g.Memory) }}
			}
			return nil
		}, 900 * time.Millisecond, ""},
		{"another process is there", func(since time.Duration) []func(*fabric.GPU) {
			if since < 400*time.Millisecond {
				return []func(*fabric.GPU){listed(stranger, rank), used}
			}
			return []func(*fabric.GPU){listed(stranger), used} // which is theirs
		}, 400 * time.Millisecond, ""},
		{"a rank stays", func(time.Duration) []func(*fabric.GPU) { return []func(*fabric.GPU){listed(stranger, rank)} }, 0, "compute process 700 on " + gatetest.GPUA},
		{"memory stays", func(time.Duration) []func(*fabric.GPU) { return []func(*fabric.GPU){used} }, 0, "500 MiB are used on " + gatetest.GPUA},
		{"no list", func(time.Duration) []func(*fabric.GPU) {
			return []func(*fabric.GPU){func(g *fabric.GPU) { gatetest.Unread(&g.Processes) }}
		}, 0, "processes of " + gatetest.GPUA},
		{"a GPU is gone", func(time.Duration) []func(*fabric.GPU) {
			return []func(*fabric.GPU){func(g *fabric.GPU) { g.UUID = "" }}
		}, 0, "shows 1 of 2 GPUs"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := gatetest.NewMachine(t)
			pass := enter(t, m)
			defer pass.Leave()
			ended := time.Now()
			gatetest.On(func(g *fabric.GPU) {
				g.Utilization.Value = 1 // of what was before
				for _, change := range c.change(time.Since(ended)) {
					change(g)
				}
			})(m)
			ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
			defer cancel()
			err := pass.Freed(ctx, []int{rank, 701})
			if c.err == "" && (err != nil || time.Since(ended) != c.want) {
				t.Errorf("%s: free after %s, %v; expected %s", c.name, time.Since(ended), err, c.want)
			}
			if c.err != "" && (!errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: %v, expected %q", c.name, err, c.err)
			}
		})
	}
}

// Who wants the GPUs released must not have them looked at.
func TestMaintenanceTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		pass := enter(t, m)
		defer pass.Leave()
		reads := m.Reads
		m.Why = "SIGUSR1"
		if who, err := pass.Intruder(t.Context(), []int{700}); who != "" || !errors.Is(err, probes.ErrMaintenance) {
			t.Errorf("intruder: %q, %v", who, err)
		}
		if err := pass.Freed(t.Context(), []int{700}); !errors.Is(err, probes.ErrMaintenance) {
			t.Errorf("freed: %v", err)
		}
		if m.Reads != reads {
			t.Errorf("GPUs were read %d times", m.Reads-reads)
		}
	})
}

// Maintenance does not wait for a driver that hangs: the caller that waits for it returns within a second.
func TestMaintenanceEndsAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		m.Slow = time.Hour
		began := time.Now().Add(2500 * time.Millisecond)
		m.LateAt, m.Late = began, func(m *gatetest.Machine) { m.Why = "SIGUSR1" }
		pass, s := gate.New(m.Options).Enter(t.Context(), []string{gatetest.GPUA})
		if took := time.Since(began); pass != nil || s.Why != probes.SkipMaintenance || s.Detail != "SIGUSR1" || took > time.Second || m.Held {
			t.Errorf("%+v after %s, held %v", s, took, m.Held)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := gatetest.NewMachine(t)
		pass := enter(t, m)
		defer pass.Leave()
		m.Slow = time.Hour
		began := time.Now().Add(2500 * time.Millisecond)
		m.LateAt, m.Late = began, func(m *gatetest.Machine) { m.Why = "SIGUSR1" }
		if err := pass.Freed(t.Context(), nil); !errors.Is(err, probes.ErrMaintenance) || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// With the real procfs, a real child is ours while it runs, and a stranger once it was reaped.
func TestARealChildIsOurs(t *testing.T) {
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	m := gatetest.NewMachine(t)
	m.Options.Processes = fs
	pass := gate.PassOf(gate.New(m.Options), gatetest.GPUA)
	gatetest.On(func(g *fabric.GPU) { g.Processes.Value = gatetest.Compute(pid) })(m)
	if who, err := pass.Intruder(t.Context(), []int{pid}); who != "" || err != nil {
		t.Errorf("our child: %q, %v", who, err)
	}
	if who, err := pass.Intruder(t.Context(), nil); !strings.Contains(who, "(sleep)") || err != nil {
		t.Errorf("a child that is no rank: %q, %v", who, err)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if who, err := pass.Intruder(t.Context(), []int{pid}); who == "" || err != nil {
		t.Errorf("after it ended: %q, %v", who, err)
	}
}
