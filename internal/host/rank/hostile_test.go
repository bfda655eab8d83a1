// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// What a tenant puts in the place of devices is not counted, followed out of its root, or waited for.
func TestHostileDevices(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		env  []string
		want fabric.ProcessDevices
		ok   bool
	}{
		"FIFOs":               {[]string{"FIFO=/dev/nvidia7 /dev/nvidia8", "NODES=/dev/nvidia0 /dev/nvidia00000 /dev/nvidiax"}, fabric.ProcessDevices{GPUs: 1}, true},
		"a link out":          {[]string{"LINK=/dev/infiniband /proc/1/root/dev", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link to a file":    {[]string{"LINK=/dev/infiniband /dev/null", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link around":       {[]string{"LINK=/dev/infiniband /dev/infiniband", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link to another":   {[]string{"LINK=/dev/infiniband other", "NODES=/dev/nvidia0 /dev/other/uverbs3"}, fabric.ProcessDevices{GPUs: 1, Uverbs: 1}, true},
		"a link without goal": {[]string{"LINK=/dev/infiniband nowhere", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{GPUs: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := spawn(t, inDev(), nil, append(c.env, "OWN_DEV=1", "OPEN=/dev/nvidia0")...)
			r := reader(t, Sources{})
			d := of(t, look(t, r, noNVML(), time.Unix(1e9, 0)), s.Process.Pid).Devices
			if v, ok := d.Get(); ok != c.ok || v != c.want {
				t.Errorf("%+v, %s", d, d.Reason)
			}
		})
	}
}

// nccl.conf is read as NCCL of the process reads it, and only that: nothing is opened that is no regular file, nothing outside
// of its root, and nothing of another file system behind a link.
func TestConf(t *testing.T) {
	needRoot(t)
	outside := t.TempDir() + "/outside.conf"
	if err := os.WriteFile(outside, []byte("NCCL_IB_TIMEOUT=21\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string // in /etc of its own
		want   string // of Conf
	}{
		"none":             {"", "ok"},
		"a file":           {"printf 'NCCL_IB_TIMEOUT=22\\nNCCL_IB_HCA=" + secret + "\\nPASSWORD=" + secret + "\\nNCCL_" + secret + "=1\\nNCCL_IB_TIMEOUT=23' >/etc/nccl.conf", "ok NCCL_IB_HCA=set NCCL_IB_TIMEOUT=22"},
		"a link":           {"echo NCCL_IB_TIMEOUT=22 >/etc/real; ln -s real /etc/nccl.conf", "unknown unsupported"}, // /etc is a mount, which a link may not leave or enter
		"a mounted file":   {": >/etc/nccl.conf; echo NCCL_DEBUG=INFO >/etc/x; mount --bind /etc/x /etc/nccl.conf", "ok NCCL_DEBUG=INFO"},
		"a FIFO":           {"mkfifo /etc/nccl.conf", "unknown malformed"},
		"a device":         {"mknod /etc/nccl.conf c 10 130", "unknown malformed"}, // to open a watchdog starts it
		"a folder":         {"mkdir /etc/nccl.conf", "unknown malformed"},
		"a link to itself": {"ln -s nccl.conf /etc/nccl.conf", "unknown unsupported"},
		"a link out":       {"ln -s /proc/1/root" + outside + " /etc/nccl.conf", "unknown unsupported"},
		"too large":        {"head -c 70000 /dev/zero >/etc/nccl.conf", "unknown malformed"},
		"of the kernel":    {": >/etc/nccl.conf; mount -t proc proc /tmp && mount --bind /tmp/version /etc/nccl.conf", "unknown unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			script := "set -e; mount -t tmpfs tmpfs /etc; mknod -m 666 /dev/zero c 1 5;" + c.script + "\necho ready; read x"
			s := spawn(t, inDev(), nil, "PATH="+os.Getenv("PATH"), "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT="+script)
			f := of(t, look(t, reader(t, sources()), noNVML(), time.Unix(1e9, 0)), s.Process.Pid).Conf
			words := []string{f.State.String()}
			if f.Reason != "" {
				words = append(words, string(f.Reason))
			}
			for _, v := range f.Value {
				words = append(words, v.Name+"="+v.Value)
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// What never returns costs one fact, and some goroutines at most however often it is tried.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		end := make(chan bool)
		var started atomic.Int32
		hang := func() (int, error) { started.Add(1); <-end; return 1, nil }
		for i := range 3 * maxStuck {
			job := []string{"a", "b", "c"}[i*2/maxStuck%3]
			if f := attempt(t.Context(), g, job, "maps", time.Now(), hang); f.State != fabric.Unknown || f.Reason != fabric.ReasonStuck {
				t.Errorf("%+v", f)
			}
		}
		if started.Load() != maxStuck || !g.busy() {
			t.Errorf("%d reads were left behind, want %d", started.Load(), maxStuck)
		}
		close(end)
		synctest.Wait()
		if f := attempt(t.Context(), g, "a", "maps", time.Now(), func() (int, error) { return 7, nil }); f.Value != 7 || f.State != fabric.OK || g.busy() {
			t.Errorf("afterwards: %+v", f)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := attempt(ctx, g, "a", "maps", time.Now(), func() (int, error) { time.Sleep(time.Second); return 0, nil })
		if f.State != fabric.Unknown {
			t.Errorf("given up: %+v", f)
		}
		time.Sleep(2 * time.Second) // what was given up ends
		for err, want := range map[error]fabric.Reason{unix.ESRCH: fabric.ReasonGone, unix.EACCES: fabric.ReasonPrivilege, errors.New("x"): fabric.ReasonIO} {
			if f := attempt(t.Context(), g, "a", "maps", time.Now(), func() (int, error) { return 0, err }); f.Reason != want {
				t.Errorf("%v is %s, want %s", err, f.Reason, want)
			}
		}
	})
}

// Environments may be megabytes of anything.
func TestHugeEnvironment(t *testing.T) {
	needRoot(t)
	env := []string{"OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "NCCL_IB_TIMEOUT=22"}
	for i := range 10 {
		env = append(env, "BULK"+string(rune('A'+i))+"="+strings.Repeat("\xff\x01\n\"", 25<<10)+secret)
	}
	s := spawn(t, inDev(), nil, env...)
	c := of(t, look(t, reader(t, sources()), noNVML(), time.Unix(1e9, 0)), s.Process.Pid)
	if v, ok := c.Settings.Get(); !ok || len(v) != 1 || v[0].Name != "NCCL_IB_TIMEOUT" || v[0].Value != "22" {
		t.Errorf("%+v", c.Settings)
	}
}

// Files that have the names of GPUs do not use up what a look reads: processes that the driver lists come first.
func TestDecoys(t *testing.T) {
	needRoot(t)
	const script = `exec 9<&0; i=0; while [ $i -lt 40 ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`
	spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT="+script)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	now, r := time.Unix(1e9, 0), reader(t, Sources{})
	var reading fabric.RankReading
	for len(reading.Candidates) <= 40 { // a look examines so many new processes
		reading = look(t, r, fabric.Known(map[int][]string{s.Process.Pid: {"GPU-a"}}, "NVML", now), now)
	}
	if c := of(t, reading, s.Process.Pid); reading.Candidates[0].PID != s.Process.Pid || c.Maps.State != fabric.OK {
		t.Errorf("the first of %d candidates is PID %d: %+v", len(reading.Candidates), reading.Candidates[0].PID, c.Maps)
	}
}

// A process that renames itself with each scrape stays one job.
func TestRenamed(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "MAP=/dev/shm/nccl-abc",
		"SCRIPT=printf one >/proc/$$/comm; echo ready; read x; printf two >/proc/$$/comm; echo renamed; read x")
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	first := of(t, look(t, r, noNVML(), now), s.Process.Pid)
	if _, err := s.input.Write([]byte("\n")); err != nil || s.line(t) != "renamed" {
		t.Fatal(err)
	}
	c := of(t, look(t, r, noNVML(), now.Add(15*time.Second)), s.Process.Pid)
	if first.Workload.Value.Scheduler != "none" {
		t.Skip("the test runs in a container, whose ID is the name of the job")
	}
	if first.Workload.Value.Job != "one" || c.Workload.Value.Job != "one" || c.Command != "two" {
		t.Errorf("%+v, %+v, %s", first.Workload, c.Workload, c.Command)
	}
}
