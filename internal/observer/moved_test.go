// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/sysfs"
)

// move takes a device to another network namespace, where it has that name.
func (k *kernel) move(device, name, address string) {
	k.remove(device)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.moved = append(k.moved, sysfs.Moved{Device: name, Address: address, Link: "class/infiniband_verbs/uverbs-" + address})
}

// startMoving starts an observer of three devices at 0000:00:00.0, 0000:01:00.0 and 0000:02:00.0.
func startMoving(t *testing.T, change func(o *Options)) (*Observer, *bus, *kernel) {
	t.Helper()
	ob, b, k := startBus(t, change)
	for name, address := range map[string]string{"mlx5_0": "0000:00:00.0", "mlx5_1": "0000:01:00.0", "mlx5_2": "0000:02:00.0"} {
		k.devices[name].address = address
	}
	return ob, b, k
}

// A pod takes a device, renames it and ends: the device keeps its name and what it is, and nothing else is known of it.
func TestPodTakesDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, k := startMoving(t, nil)
		observe(t, ob, all)
		for _, name := range []string{"mlx5_1", "net1_rdma"} {
			k.move("mlx5_1", name, "0000:01:00.0")
			time.Sleep(time.Minute)
			n := observe(t, ob, all)
			h := n.HCA("mlx5_1")
			if len(n.HCAs) != 3 || h == nil || !h.Moved || n.HCAs[0].Moved {
				t.Fatalf("%+v", n.HCAs)
			}
			p := &h.Ports[0]
			if p.State.Meta().Reason != fabric.ReasonMoved || p.LinkLayer.Or("") != fabric.LinkEthernet || h.Type.Or("") != "MT4129" || p.Role.Or("") != fabric.RoleCompute {
				t.Errorf("%+v", h)
			}
			for _, s := range n.Sources {
				if !s.Up || s.Device == "mlx5_1" {
					t.Errorf("%+v", s)
				}
			}
			want := []pci.NIC{{Device: "mlx5_0", Link: "class/infiniband/mlx5_0"}, {Device: "mlx5_2", Link: "class/infiniband/mlx5_2"}, {Device: "mlx5_1", Link: "class/infiniband_verbs/uverbs-0000:01:00.0"}}
			if !slices.Equal(b.nics, want) {
				t.Errorf("the PCI bus is looked at for %+v", b.nics)
			}
			k.mu.Lock()
			k.moved = nil
			k.mu.Unlock()
			k.add("mlx5_1").address = "0000:01:00.0"
			time.Sleep(time.Minute)
			if h := observe(t, ob, all).HCA("mlx5_1"); h.Moved || h.Ports[0].State.Or("") != fabric.PortActive {
				t.Errorf("after the pod ended: %+v", h)
			}
		}
	})
}

// A device that leaves its driver, on the host or in a pod, is gone.
func TestDeviceThatLeavesIsNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, k := startMoving(t, nil)
		observe(t, ob, all)
		k.move("mlx5_1", "mlx5_1", "0000:01:00.0")
		k.remove("mlx5_2")
		time.Sleep(time.Minute)
		if n := observe(t, ob, all); len(n.HCAs) != 2 || n.HCA("mlx5_2") != nil {
			t.Errorf("%+v", n.HCAs)
		}
		k.mu.Lock()
		k.moved = nil
		k.mu.Unlock()
		time.Sleep(5 * time.Second)
		if n := observe(t, ob, all); len(n.HCAs) != 1 || len(ob.left) != 0 {
			t.Errorf("%+v, kept %+v", n.HCAs, ob.left)
		}
	})
}

// An exporter that starts after the pods has the names of now, or addresses where those are taken.
func TestDevicesThatWereNeverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, k := startMoving(t, func(o *Options) { o.Policy = &fabric.Policy{Restricted: regexp.MustCompile("^mlx5_9$")} })
		k.move("", "mlx5_0", "0000:07:00.0")
		k.move("", "mlx5_8", "0000:08:00.0")
		k.move("", "mlx5_9", "0000:09:00.0")
		n := observe(t, ob, all)
		for name, address := range map[string]string{"0000:07:00.0": "0000:07:00.0", "mlx5_8": "0000:08:00.0", "mlx5_9": "0000:09:00.0"} {
			h := n.HCA(name)
			if h == nil || !h.Moved || h.PCI.Or("") != address || len(h.Ports) != 0 || h.Restricted.Or(false) != (name == "mlx5_9") {
				t.Errorf("%s: %+v", name, h)
			}
		}
		if h := n.HCA("mlx5_0"); h.Moved || len(n.HCAs) != 6 {
			t.Errorf("the one that is here: %+v", h)
		}
		if likely, _ := n.MovedCompute(); likely != 2 {
			t.Errorf("%d may be for training, want 2", likely)
		}
	})
}

// Devices that the configuration excludes are not shown elsewhere either.
func TestExcludedDevicesAreNotShownElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, b, k := startMoving(t, func(o *Options) { o.Devices.Exclude = regexp.MustCompile("^mlx5_1$") })
		k.move("mlx5_1", "mlx5_1", "0000:01:00.0")
		if n := observe(t, ob, all); n.HCA("mlx5_1") != nil || len(b.nics) != 2 {
			t.Errorf("%+v, %+v", n.HCAs, b.nics)
		}
	})
}

// A device that hangs while it moves stays what it was last known to be: stuck.
func TestDeviceHangsWhileItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, k := startMoving(t, nil)
		observe(t, ob, all)
		hang := make(chan struct{})
		k.devices["mlx5_1"].set(func(d *fakeDevice) { d.hang = hang })
		time.Sleep(10 * time.Second)
		observe(t, ob, all)
		k.move("mlx5_1", "mlx5_1", "0000:01:00.0")
		time.Sleep(10 * time.Second)
		if n := observe(t, ob, all); len(n.HCAs) != 3 || n.HCA("mlx5_1").Moved || !source(n, fabric.SourceHCA, "mlx5_1").Stuck() {
			t.Errorf("%+v", n.HCAs)
		}
		close(hang)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		observe(t, ob, all)
		if n := observe(t, ob, all); len(n.HCAs) != 3 || !n.HCA("mlx5_1").Moved {
			t.Errorf("%+v", n.HCAs)
		}
	})
}

// The interface alone may go: the device stays, and no interface is asked for by the name that a pod gives it.
func TestPodTakesInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ob, _, k := startMoving(t, nil)
		k.devices["mlx5_1"].set(func(d *fakeDevice) { d.netDevMoved, d.gids[0].NetDev = true, "net1" })
		n := observe(t, ob, wired)
		p := &n.HCA("mlx5_1").Ports[0]
		if n.HCA("mlx5_1").Moved || !p.NetDevMoved() || p.State.Or("") != fabric.PortActive || p.Role.Or("") != fabric.RoleCompute {
			t.Errorf("%+v", p)
		}
		for what, reason := range map[string]fabric.Reason{"chain": p.RoCE.Meta().Reason, "rate": p.RateMismatch.Meta().Reason} {
			if reason != fabric.ReasonMoved {
				t.Errorf("%s: %q", what, reason)
			}
		}
		if n.NetDev("net1") != nil || len(n.NetDevs) != 2 {
			t.Errorf("%+v", n.NetDevs)
		}
		for _, s := range n.Sources {
			if !s.Up || s.Device == "net1" {
				t.Errorf("%+v", s)
			}
		}
	})
}
