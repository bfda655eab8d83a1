// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"errors"
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

// What never returns costs one fact, and some goroutines at most however often it is tried.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		end := make(chan bool)
		var started atomic.Int32
		hang := func() (int, error) { started.Add(1); <-end; return 1, nil }
		for range 3 * maxStuck {
			if f := attempt(t.Context(), g, "maps", time.Now(), hang); f.State != fabric.Unknown || f.Reason != fabric.ReasonStuck {
				t.Errorf("%+v", f)
			}
		}
		if started.Load() != maxStuck || !g.busy() {
			t.Errorf("%d reads were left behind, want %d", started.Load(), maxStuck)
		}
		close(end)
		synctest.Wait()
		if f := attempt(t.Context(), g, "maps", time.Now(), func() (int, error) { return 7, nil }); f.Value != 7 || f.State != fabric.OK || g.busy() {
			t.Errorf("afterwards: %+v", f)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := attempt(ctx, g, "maps", time.Now(), func() (int, error) { time.Sleep(time.Second); return 0, nil })
		if f.State != fabric.Unknown {
			t.Errorf("given up: %+v", f)
		}
		time.Sleep(2 * time.Second) // what was given up ends
		for err, want := range map[error]fabric.Reason{unix.ESRCH: fabric.ReasonGone, unix.EACCES: fabric.ReasonPrivilege, errors.New("x"): fabric.ReasonIO} {
			if f := attempt(t.Context(), g, "maps", time.Now(), func() (int, error) { return 0, err }); f.Reason != want {
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
