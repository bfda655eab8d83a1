// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
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

func TestNetDevs(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", tree{"master": "-> ../bond0", "upper_bond0": "-> ../bond0"}).with(
		netdev("eth1", "!EINVAL", nil), netdev("eth2", "-1\n", nil), netdev("eth3", "4294967295\n", nil), netdev("eth4", "!EIO", nil),
		netdev("eth5", "fast\n", tree{"mtu": "-1\n", "operstate": "sideways\n"}), netdev("eth6", "100000001\n", nil),
		netdev("bond0", "800000\n", tree{"lower_eth0": "-> ../eth0", "bonding/mode": "802.3ad 4\n"})).open(t)
	got := f.NetDevs([]string{"eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "bond0", "none"}, map[string]bool{}, now)
	if len(got) != 9 || got[0].Name != "eth0" || got[8].Name != "none" {
		t.Fatalf("NetDevs() = %+v", got)
	}
	known(t, "speed", got[0].Speed, 50e9)
	known(t, "MTU", got[0].MTU, 9000)
	known(t, "operstate", got[0].OperState, "up")
	known(t, "upper", got[0].Upper, "bond0")
	known(t, "bond", got[7].Bond, true)
	known(t, "no bond", got[0].Bond, false)
	absent(t, "upper", got[7].Upper)
	known(t, "default route", got[0].DefaultRoute, false)
	for i, want := range map[int]fabric.Reason{
		1: fabric.ReasonUnsupported, 2: fabric.ReasonUnsupported, 3: fabric.ReasonUnsupported, 4: fabric.ReasonIO,
		5: fabric.ReasonMalformed, 6: fabric.ReasonMalformed, 8: fabric.ReasonMissing,
	} {
		unknown(t, "speed of "+got[i].Name, got[i].Speed, want)
	}
	unknown(t, "MTU", got[5].MTU, fabric.ReasonMalformed)
	unknown(t, "operstate", got[5].OperState, fabric.ReasonMalformed)
	unknown(t, "MTU", got[8].MTU, fabric.ReasonMissing)
	unknown(t, "upper", got[8].Upper, fabric.ReasonMissing)
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
		for i, n := range f.NetDevs(names, map[string]bool{route: true, "eth9": false}, now) {
			known(t, "default route through "+route+" for "+n.Name, n.DefaultRoute, want[i])
		}
	}
	// The route leaves through an interface that this sysfs does not show: that of another network namespace?
	for i, n := range f.NetDevs(names, map[string]bool{"eth1": true, "other0": true}, now) {
		if i == 1 {
			known(t, "default route", n.DefaultRoute, true)
		} else {
			unknown(t, "default route", n.DefaultRoute, fabric.ReasonMissing)
		}
	}
	for _, n := range f.NetDevs(names, nil, now) {
		unknown(t, "default route", n.DefaultRoute, fabric.ReasonNotRead)
	}
}

func TestNetDevStaysInside(t *testing.T) {
	f, root := tree{"class/net/evil": "-> /proc/self", "class/net/": ""}.open(t)
	for _, n := range f.NetDevs([]string{"evil", "", "..", "../../..", "a/b"}, map[string]bool{"../evil": true}, now) {
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
	lo := f.NetDevs([]string{"lo"}, map[string]bool{}, now)[0]
	unknown(t, "speed", lo.Speed, fabric.ReasonUnsupported) // EINVAL from the kernel
	if m, ok := lo.MTU.Get(); !ok || m == 0 {
		t.Errorf("MTU %+v", lo.MTU)
	}
	absent(t, "upper", lo.Upper)
	known(t, "default route", lo.DefaultRoute, false)
	t.Logf("GPUs: %+v", f.GPUs(time.Now()))
}
