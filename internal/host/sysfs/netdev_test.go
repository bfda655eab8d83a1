// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func netdev(name, speed string, links tree) tree {
	return tree{"class/net/" + name: "-> ../../devices/virtual/net/" + name}.with(tree{
		"speed": speed, "mtu": "9000\n", "operstate": "up\n",
	}.with(links).under("devices/virtual/net/" + name))
}

// netDevs reads interfaces and returns them by name.
func netDevs(t *testing.T, f *FS, routes map[string]bool, names ...string) map[string]fabric.NetDev {
	t.Helper()
	all := map[string]fabric.NetDev{}
	before := ""
	for _, n := range f.NetDevs(names, routes, nil, true, now) {
		if n.Name <= before {
			t.Errorf("%q follows %q", n.Name, before)
		}
		before, all[n.Name] = n.Name, n
	}
	return all
}

func TestNetDevs(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", tree{"master": "-> ../bond0", "upper_bond0": "-> ../bond0"}).with(
		netdev("eth1", "!EINVAL", nil), netdev("eth2", "-1\n", nil), netdev("eth3", "4294967295\n", nil), netdev("eth4", "!EIO", nil),
		netdev("eth5", "fast\n", tree{"mtu": "-1\n", "operstate": "sideways\n"}), netdev("eth6", "100000001\n", nil),
		netdev("bond0", "800000\n", tree{"lower_eth0": "-> ../eth0", "bonding/mode": "802.3ad 4\n"})).open(t)
	got := netDevs(t, f, map[string]bool{}, "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "bond0", "none")
	if len(got) != 9 {
		t.Fatalf("%d interfaces", len(got))
	}
	eth0, bond0, none := got["eth0"], got["bond0"], got["none"]
	known(t, "speed", eth0.Speed, 50e9)
	known(t, "MTU", eth0.MTU, 9000)
	known(t, "upper", eth0.Upper, "bond0")
	known(t, "bond", bond0.Bond, true)
	known(t, "no bond", eth0.Bond, false)
	absent(t, "upper", bond0.Upper)
	known(t, "default route", eth0.DefaultRoute, false)
	for name, want := range map[string]fabric.Reason{
		"eth1": fabric.ReasonUnsupported, "eth2": fabric.ReasonUnsupported, "eth3": fabric.ReasonUnsupported, "eth4": fabric.ReasonIO,
		"eth5": fabric.ReasonMalformed, "eth6": fabric.ReasonMalformed, "none": fabric.ReasonMissing,
	} {
		unknown(t, "speed of "+name, got[name].Speed, want)
	}
	unknown(t, "MTU", got["eth5"].MTU, fabric.ReasonMalformed)
	unknown(t, "MTU", none.MTU, fabric.ReasonMissing)
	unknown(t, "upper", none.Upper, fabric.ReasonMissing)
	unknown(t, "bond", none.Bond, fabric.ReasonMissing)
	unknown(t, "lower", none.Lower, fabric.ReasonMissing)
	unknown(t, "driver", none.Driver, fabric.ReasonMissing)
	unknown(t, "function", none.PCI, fabric.ReasonMissing)
}

// TestBelow: who asks for the interface of a port also gets those that its frames leave through.
func TestBelow(t *testing.T) {
	lower := func(names ...string) tree {
		t := tree{}
		for _, name := range names {
			t["lower_"+name] = "-> ../" + name
		}
		return t
	}
	f, _ := netdev("eth0", "1000\n", nil).with(netdev("eth1", "1000\n", nil), netdev("other", "1000\n", nil),
		netdev("bond0", "2000\n", lower("eth1", "eth0")), netdev("bond0.5", "2000\n", lower("bond0"))).open(t)

	got := netDevs(t, f, map[string]bool{"bond0.5": true}, "bond0.5", "eth1")
	if len(got) != 4 {
		t.Errorf("%d interfaces", len(got))
	}
	known(t, "lower of VLAN", got["bond0.5"].Lower, []string{"bond0"})
	known(t, "lower of bond", got["bond0"].Lower, []string{"eth0", "eth1"})
	known(t, "lower of member", got["eth0"].Lower, []string{})
	known(t, "default route through member", got["eth0"].DefaultRoute, true)

	// An interface that is in a bond shows who else is; one that is below a bridge or a VRF does not.
	f, _ = netdev("eth0", "1000\n", tree{"bonding_slave/state": "active\n", "master": "-> ../bond0"}).with(netdev("eth1", "1000\n", nil),
		netdev("bond0", "2000\n", lower("eth1", "eth0").with(tree{"class/net/bond0/bonding/mode": "802.3ad 4\n"})),
		netdev("eth2", "1000\n", tree{"master": "-> ../red"}), netdev("red", "1000\n", lower("eth2"))).open(t)
	if got := netDevs(t, f, nil, "eth0", "eth2"); len(got) != 4 {
		t.Errorf("of a member of a bond: %+v", got)
	}

	f, _ = netdev("loop1", "1000\n", lower("loop2")).with(netdev("loop2", "1000\n", lower("loop1")),
		netdev("bad", "1000\n", tree{"lower_a b": "-> ../eth0", "lower_eth0": "-> ../eth0"})).open(t)
	if got := netDevs(t, f, nil, "loop1"); len(got) != 2 {
		t.Errorf("a circle gives %d interfaces", len(got))
	}
	got = netDevs(t, f, nil, "bad")
	unknown(t, "lower", got["bad"].Lower, fabric.ReasonMalformed)
	if len(got) != 1 {
		t.Errorf("%d interfaces", len(got))
	}

	// Neither a bridge of a thousand ports nor a tower of interfaces is read as a whole.
	var ports []string
	deep := tree{}
	for i := range 1000 {
		ports = append(ports, "veth"+itoa(i))
	}
	for i := range 20 {
		deep = deep.with(netdev("v"+itoa(i), "1000\n", lower("v"+itoa(i+1))))
	}
	f, _ = netdev("br0", "1000\n", lower(ports...)).with(deep).open(t)
	if got := netDevs(t, f, nil, "br0"); len(got) != 1+maxBelow || len(got["br0"].Lower.Value) != 1000 {
		t.Errorf("%d interfaces, %d below the bridge", len(got), len(got["br0"].Lower.Value))
	}
	if got := netDevs(t, f, nil, "v0"); len(got) != 1+maxNesting {
		t.Errorf("%d interfaces of a tower", len(got))
	}

	// Many that share one below do not use up the limit.
	shared := netdev("bond0", "1000\n", lower("eth0")).with(netdev("eth0", "1000\n", nil))
	var vlans []string
	for i := range 2 * maxBelow {
		name := "bond0." + itoa(i)
		vlans, shared = append(vlans, name), shared.with(netdev(name, "1000\n", lower("bond0")))
	}
	f, _ = shared.open(t)
	if got := netDevs(t, f, nil, vlans...); len(got) != len(vlans)+2 {
		t.Errorf("%d interfaces of %d VLANs", len(got), len(vlans))
	}
}

func TestNetDevDriver(t *testing.T) {
	// under is an interface below a device of that path; driver is a link of the device.
	under := func(device, name, driver string) tree {
		at := "devices/" + device
		t := tree{"class/net/" + name: "-> ../../" + at + "/net/" + name, at + "/net/" + name + "/device": "-> ../../../" + filepath.Base(device)}
		if driver != "" {
			t[at+"/driver"] = "-> " + driver
		}
		return t
	}
	outside := under("platform/odd", "eth3", "")
	outside["devices/platform/odd/net/eth3/device"] = "-> /proc/self"
	f, _ := under("pci0000:00/0000:00:01.0", "eth0", "../../../bus/pci/drivers/mlx5_core").with(
		under("pci0000:00/0000:00:02.0/virtio0", "eth1", "../../../../bus/virtio/drivers/virtio_net"),
		under("platform/nic", "eth2", ""), outside, netdev("bond0", "1000\n", nil)).open(t)
	got := netDevs(t, f, nil, "eth0", "eth1", "eth2", "eth3", "bond0")
	known(t, "driver of PCI function", got["eth0"].Driver, "mlx5_core")
	known(t, "driver of virtio device", got["eth1"].Driver, "virtio_net")
	absent(t, "driver of unbound device", got["eth2"].Driver)
	absent(t, "driver of bond", got["bond0"].Driver)
	known(t, "PCI function", got["eth0"].PCI, "0000:00:01.0")
	for _, name := range []string{"eth1", "eth2", "bond0"} {
		absent(t, "PCI function of "+name, got[name].PCI)
	}
	if d := got["eth3"].Driver; d.State == fabric.OK {
		t.Errorf("a driver from outside: %+v", d)
	}
}

func TestDefaultRoute(t *testing.T) {
	lower := func(name string) tree { return tree{"lower_" + name: "-> ../" + name} }
	f, _ := netdev("eth0", "1000\n", tree{"master": "-> ../bond0"}).with(
		netdev("eth1", "1000\n", nil), netdev("eth2", "1000\n", tree{"master": "-> ../br0"}),
		netdev("bond0", "1000\n", lower("eth0")), netdev("bond0.5", "1000\n", lower("bond0")),
		netdev("eth1.7", "1000\n", lower("eth1")), netdev("br0", "1000\n", nil),
		netdev("loop1", "1000\n", lower("loop2")), netdev("loop2", "1000\n", lower("loop1"))).open(t)
	names := []string{"eth0", "eth1", "eth2"}
	for route, want := range map[string][]bool{
		"eth0": {true, false, false}, "bond0": {true, false, false}, "bond0.5": {true, false, false},
		"eth1": {false, true, false}, "eth1.7": {false, true, false}, "br0": {false, false, true},
		"loop1": {false, false, false},
	} {
		for _, lowest := range []bool{true, false} {
			for i, n := range f.NetDevs(names, map[string]bool{route: lowest}, nil, true, now) {
				known(t, "default route through "+route+" for "+n.Name, n.DefaultRoute, want[i])
				known(t, "preferred route through "+route+" for "+n.Name, n.PreferredRoute, want[i] && lowest)
			}
		}
	}
	// The route leaves through an interface that this sysfs does not show: that of another network namespace?
	for i, n := range f.NetDevs(names, map[string]bool{"eth1": true, "other0": true}, nil, true, now) {
		if i == 1 {
			known(t, "default route", n.DefaultRoute, true)
		} else {
			unknown(t, "default route", n.DefaultRoute, fabric.ReasonMissing)
		}
	}
	for _, n := range f.NetDevs(names, nil, nil, true, now) {
		unknown(t, "default route", n.DefaultRoute, fabric.ReasonNotRead)
	}
}

func TestNetDevStaysInside(t *testing.T) {
	f, root := tree{"class/net/evil": "-> /proc/self", "class/net/": ""}.open(t)
	for _, n := range f.NetDevs([]string{"evil", "", "..", "../../..", "a/b"}, map[string]bool{"../evil": true}, nil, true, now) {
		if n.Speed.State == fabric.OK || n.Upper.State == fabric.OK || n.DefaultRoute.State == fabric.OK {
			t.Errorf("%q: %+v", n.Name, n)
		}
	}
	_, err := f.list("class/net/evil")
	if err == nil || !strings.Contains(err.Error(), "class/net/evil") || !strings.Contains(err.Error(), root) {
		t.Errorf("error %v does not name link and root", err)
	}
}

func pci(address, vendor, class string) tree {
	return tree{"bus/pci/devices/" + address: "-> ../../../devices/pci0000:00/" + address}.
		with(tree{"vendor": vendor, "class": class}.under("devices/pci0000:00/" + address))
}

func TestGPUs(t *testing.T) {
	base := pci("0000:01:00.0", "0x10de\n", "0x030200\n").with( // H100
		pci("0000:02:00.0", "0x10de\n", "0x030000\n"), // display
		pci("0000:02:00.1", "0x10de\n", "0x040300\n"), // its audio function
		pci("0000:03:00.0", "0x10de\n", "0x068000\n"), // NVSwitch
		pci("0000:04:00.0", "0x15b3\n", "0x020700\n"),
		pci("0000:05:00.0", "0x102b\n", "0x030000\n"), // the BMC's display
	)
	f, root := base.open(t)
	known(t, "GPUs", f.GPUs(now), 2)

	// What is there stays what it is, until another function takes its place.
	class := filepath.Join(root, "devices/pci0000:00/0000:01:00.0/class")
	must(t, os.Remove(class))
	known(t, "GPUs", f.GPUs(now), 2)
	link := filepath.Join(root, "bus/pci/devices/0000:02:00.0")
	must(t, errors.Join(os.Symlink("../../../devices/pci0000:00/0000:04:00.0", link+"_"), os.Rename(link+"_", link)))
	known(t, "GPUs", f.GPUs(now), 1)

	f, root = base.open(t)
	must(t, os.Remove(filepath.Join(root, "devices/pci0000:00/0000:01:00.0/class")))
	unknown(t, "GPUs", f.GPUs(now), fabric.ReasonMissing)
	must(t, os.RemoveAll(filepath.Join(root, "devices/pci0000:00/0000:01:00.0"))) // unplugged, its link not yet removed
	known(t, "GPUs", f.GPUs(now), 1)

	f, _ = base.with(pci("0000:06:00.0", "!EIO", "0x030200\n")).open(t)
	unknown(t, "GPUs", f.GPUs(now), fabric.ReasonIO)
	f, _ = tree{"class/": ""}.open(t)
	unknown(t, "GPUs", f.GPUs(now), fabric.ReasonMissing)
	f, _ = tree{"bus/pci/devices/": ""}.open(t)
	known(t, "GPUs", f.GPUs(now), 0)
}

// TestKernel reads the running kernel's own sysfs.
func TestKernel(t *testing.T) {
	f, err := Open("/sys")
	if err != nil {
		t.Skip("no sysfs here")
	}
	defer f.Close()
	if _, err := os.Stat("/sys/class/net/lo/speed"); err != nil {
		t.Skip("no loopback interface in sysfs")
	}
	lo := f.NetDevs([]string{"lo"}, map[string]bool{}, nil, true, now)[0]
	unknown(t, "speed", lo.Speed, fabric.ReasonUnsupported) // EINVAL from the kernel
	if m, ok := lo.MTU.Get(); !ok || m == 0 {
		t.Errorf("MTU %+v", lo.MTU)
	}
	absent(t, "upper", lo.Upper)
	known(t, "default route", lo.DefaultRoute, false)
	t.Logf("GPUs: %+v", f.GPUs(time.Now()))
}
