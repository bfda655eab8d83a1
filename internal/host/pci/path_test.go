// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseLink(t *testing.T) {
	for _, c := range []struct {
		link, target string
		want         path
	}{
		{
			"bus/pci/devices/0000:23:00.0", "../../../devices/pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0",
			path{"devices/pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0", "pci0000:20", []string{"0000:20:00.0", "0000:21:00.0", "0000:22:00.0"}, "0000:23:00.0"},
		},
		{
			"class/infiniband/mlx5_0", "../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/infiniband/mlx5_0",
			path{"devices/pci0000:15/0000:15:01.0/0000:16:00.0", "pci0000:15", []string{"0000:15:01.0"}, "0000:16:00.0"},
		},
		{ // a virtual machine of Hyper-V
			"bus/pci/devices/7870:00:00.0", "../../../devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/f8615163-0001-1000-2000-00155d5e0001/pci7870:00/7870:00:00.0",
			path{"devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/f8615163-0001-1000-2000-00155d5e0001/pci7870:00/7870:00:00.0", "pci7870:00", []string{}, "7870:00:00.0"},
		},
		{ // below a VMD
			"bus/pci/devices/10000:01:00.0", "../../../devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0",
			path{"devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0", "pci10000:00", []string{"10000:00:02.0"}, "10000:01:00.0"},
		},
	} {
		if got, err := parseLink(c.link, c.target); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", c.target, got, err)
		}
	}
	for target, want := range map[string]string{
		"../../../../etc/passwd":                     "expected a place below devices/",
		"/sys/devices/pci0000:00/0000:00:01.0":       "expected a place below devices/",
		"../../../devices/../../etc":                 "expected a place below devices/",
		"../../../devices/virtual/infiniband/rxe0":   "no PCI function",
		"../../../devices/0000:00:01.0":              "below a host bridge",
		"../../../devices/pci0000:00/x/0000:00:01.0": "below a host bridge",
		"": "expected a place below devices/",
		"../../../devices/pci0000:00" + strings.Repeat("/0000:00:01.0", maxBridges+1): "below a host bridge",
	} {
		if _, err := parseLink("bus/pci/devices/0000:00:01.0", target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("bus/pci/devices/0000:23:00.0", "../../../devices/pci0000:20/0000:20:00.0/0000:23:00.0")
	f.Add("class/infiniband/a", "../../devices/pci0000:15/0000:15:01.0/infiniband/a")
	f.Add("a", "../devices/pci0000:00/..")
	f.Fuzz(func(t *testing.T, link, target string) {
		p, err := parseLink(link, target)
		if err != nil {
			return
		}
		if !strings.HasPrefix(p.dir, "devices/") || strings.Contains("/"+p.dir+"/", "/../") || !isAddress(p.address) || len(p.bridges) >= maxBridges {
			t.Errorf("%q %q: %+v", link, target, p)
		}
		for i, above := range p.above() {
			if above.address != p.bridges[i] || !strings.HasPrefix(p.dir, above.dir+"/") || !strings.HasSuffix(above.dir, "/"+above.address) {
				t.Errorf("%q %q: %+v is above %+v", link, target, above, p)
			}
		}
	})
}

func FuzzAttributes(f *testing.F) {
	for _, s := range []string{"0x10de\n", "32.0 GT/s PCIe\n", "Unknown\n", "255\n", "RxErr 2\nTOTAL_ERR_COR 2\n", "suspended\n", "-1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseSpeed(b); ok && (v < 0 || v > 1e15) {
			t.Errorf("speed %q: %v", b, v)
		}
		if v, ok := parseWidth(b); ok && (v < 0 || v > 32) {
			t.Errorf("width %q: %v", b, v)
		}
		if v, ok := parseID(b); ok && (v < 0 || v > 0xffffff) {
			t.Errorf("id %q: %v", b, v)
		}
		if v, ok := parseNode(b); ok && v < -1 {
			t.Errorf("node %q: %v", b, v)
		}
		parseErrors("TOTAL_ERR_COR")(b)
		parseAsleep(b)
		parseName(b)
	})
}
