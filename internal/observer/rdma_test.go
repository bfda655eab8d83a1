// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/simulator"
)

// wire is a fake NETLINK_RDMA that counts what it is asked.
type wire struct {
	devices  []rdmanl.Device
	port     rdmanl.Port
	portErr  error
	counters []rdmanl.Counter
	statErr  error
	asked    []string
	open     int
}

func (w *wire) dial() (rdmaClient, error)      { w.open++; return w, nil }
func (w *wire) Close() error                   { w.open--; return nil }
func (w *wire) System() (rdmanl.System, error) { return rdmanl.System{}, nil }
func (w *wire) Devices() ([]rdmanl.Device, error) {
	w.asked = append(w.asked, "get")
	return w.devices, nil
}

func (w *wire) Port(uint32, uint32) (rdmanl.Port, error) {
	w.asked = append(w.asked, "port_get")
	return w.port, w.portErr
}

func (w *wire) Counters(uint32, uint32) ([]rdmanl.Counter, error) {
	w.asked = append(w.asked, "stat_get")
	return w.counters, w.statErr
}

// overWire opens mlx5_0 of a simulated node beside a fake netlink that shows it.
func overWire(t *testing.T) (*rdmaDevice, *wire) {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fs, err := sysfs.Open(tree.Sysfs())
	if err != nil {
		t.Fatal(err)
	}
	dev, err := fs.Device("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close(); fs.Close() })
	var h fabric.HCA
	if err := dev.Identify(&h, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	w := &wire{
		devices:  []rdmanl.Device{{Index: 7, Name: "mlx5_0", NodeGUID: h.NodeGUID.Value}},
		port:     rdmanl.Port{State: fabric.PortDown, PhysState: fabric.PhysPolling},
		counters: []rdmanl.Counter{{Name: "out_of_sequence", Value: 42}},
	}
	return &rdmaDevice{Device: dev, name: "mlx5_0", dial: w.dial, asked: fabric.Commands{}, netdevs: map[int]string{}}, w
}

// round is what the observer reads of a device.
func round(t *testing.T, d *rdmaDevice) fabric.HCA {
	t.Helper()
	now := time.Now()
	var h fabric.HCA
	err := d.Identify(&h, false, now)
	d.Begin(&h, now)
	if err := errors.Join(err, d.ReadPorts(&h, now), d.ReadPortDetails(&h, now), d.ReadHWCounters(&h, now)); err != nil {
		t.Fatal(err)
	}
	d.End()
	return h
}

// ConnectX-8 has a device for subnet management beside each that carries data ("rdma dev add smi0 type SMI
// parent mlx5_0").
func TestDeviceForSubnetManagement(t *testing.T) {
	d, w := overWire(t)
	if h := round(t, d); h.Function.Value == fabric.FunctionSMI {
		t.Errorf("%+v", h.Function)
	}
	w.devices[0].SMI = true
	if h := round(t, d); h.Function.Value != fabric.FunctionSMI || !h.Part() {
		t.Errorf("%+v", h.Function)
	}
}

// A device that is registered again has another number (ib_register_device, drivers/infiniband/core/device.c). Its
// predecessor is gone, also where no file of it was read meanwhile.
func TestDeviceThatIsRegisteredAgain(t *testing.T) {
	d, w := overWire(t)
	h := round(t, d)
	now := time.Now()
	d.Begin(&h, now)
	if err := d.ReadPorts(&h, now); err != nil {
		t.Fatalf("the same device: %v", err)
	}
	d.End()
	w.devices[0].Index = 8
	d.Begin(&h, now)
	if err := d.ReadPorts(&h, now); !gone(err) {
		t.Errorf("another device of that name: %v", err)
	}
}

func TestNetlinkIsAskedOncePerPort(t *testing.T) {
	d, w := overWire(t)
	h := round(t, d)
	p := h.Ports[0]
	if p.State.Value != fabric.PortDown || p.PhysState.Value != fabric.PhysPolling || p.State.Source != sourcePort || !h.Netlink.Value {
		t.Errorf("the port is not what netlink says: %+v", p.State)
	}
	if p.Rate.State != fabric.Absent {
		t.Errorf("a port that polls has a rate: %+v", p.Rate)
	}
	if c := p.Counters.HW.Value; len(c) != 1 || c[0].Value.Value != 42 {
		t.Errorf("counters: %+v", c)
	}
	if want := []string{"get", "port_get", "stat_get"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked %v, want %v", w.asked, want)
	}
	if c := d.Commands(); c[fabric.CommandQueryPort] != 1 || c[fabric.CommandHWStats] != 1 {
		t.Errorf("commands: %v", c)
	}
	if w.open != 0 {
		t.Error("a socket stays open after the round: it would keep ib_core loaded")
	}
}

func TestSysfsFillsInForNetlink(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(w *wire, d *rdmaDevice)
		netlink bool // for the state of the port
	}{
		{"another device of that name", func(w *wire, _ *rdmaDevice) { w.devices[0].NodeGUID = "0000:0000:0000:0001" }, false},
		{"not in this namespace", func(w *wire, _ *rdmaDevice) { w.devices = nil }, false},
		{"no socket", func(_ *wire, d *rdmaDevice) {
			d.dial = func() (rdmaClient, error) { return nil, unix.EPROTONOSUPPORT }
		}, false},
		{"not the kernel's sysfs", func(_ *wire, d *rdmaDevice) { d.dial = nil }, false},
		{"the driver refuses", func(w *wire, _ *rdmaDevice) { w.portErr, w.statErr = unix.EINVAL, unix.EINVAL }, false},
		{"a state of the future", func(w *wire, _ *rdmaDevice) { w.port.State, w.statErr = "", unix.EINVAL }, false},
		{"more counters than fit", func(w *wire, _ *rdmaDevice) { w.statErr = unix.EMSGSIZE }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, w := overWire(t)
			c.change(w, d)
			p := round(t, d).Ports[0]
			if c.netlink != (p.State.Source == sourcePort) {
				t.Errorf("the state comes from %s", p.State.Source)
			}
			if p.State.State != fabric.OK || p.Counters.HW.Source == sourceStat {
				t.Errorf("state %+v, counters from %s", p.State, p.Counters.HW.Source)
			}
			if w.open != 0 {
				t.Errorf("%d sockets stay open", w.open)
			}
		})
	}
}

// Of siw sysfs names no interface: what netlink says must survive the slow read of sysfs.
func TestNetlinkNamesTheInterface(t *testing.T) {
	d, w := overWire(t)
	w.port = rdmanl.Port{State: fabric.PortActive, PhysState: fabric.PhysLinkUp, NetDev: "iw0"}
	now := time.Now()
	var h fabric.HCA
	if err := d.Identify(&h, false, now); err != nil {
		t.Fatal(err)
	}
	d.Begin(&h, now)
	defer d.End()
	if err := d.ReadPorts(&h, now); err != nil {
		t.Fatal(err)
	}
	p := &h.Ports[0]
	p.NetDev = fabric.UnknownFact[string](fabric.ReasonMissing, "", now)
	if d.nameNetDev(p, now); p.NetDev.Value != "iw0" {
		t.Errorf("interface %+v, want iw0", p.NetDev)
	}
	p.NetDev = fabric.Known("enp24s0np0", "", now)
	if d.nameNetDev(p, now); p.NetDev.Value != "enp24s0np0" {
		t.Errorf("netlink overrides what sysfs knows: %+v", p.NetDev)
	}
}
