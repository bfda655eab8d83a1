// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// TestDMI reads what a machine is, and none of its serial numbers.
func TestDMI(t *testing.T) {
	machine := tree{
		"class/net/": "", "class/dmi/id": "-> ../../devices/virtual/dmi/id",
		"devices/virtual/dmi/id/sys_vendor": "NVIDIA\n", "devices/virtual/dmi/id/product_name": "DGXH100 \n",
		"devices/virtual/dmi/id/board_name": "\n", "devices/virtual/dmi/id/chassis_asset_tag": "a\x01b\n",
		"devices/virtual/dmi/id/board_vendor": strings.Repeat("x", 200), "devices/virtual/dmi/id/product_serial": "secret\n",
	}
	f, _ := machine.open(t)
	d := f.DMI(fabric.DMI{}, now)
	if d.Vendor.Or("") != "NVIDIA" || d.Product.Or("") != "DGXH100" {
		t.Errorf("%+v", d)
	}
	for name, is := range map[string]fabric.Fact[string]{"empty": d.Board, "missing": d.Version} {
		if is.State != fabric.Absent {
			t.Errorf("%s: %+v", name, is)
		}
	}
	for name, is := range map[string]fabric.Fact[string]{"not printable": d.AssetTag, "long": d.BoardVendor} {
		if is.Meta().Reason != fabric.ReasonMalformed {
			t.Errorf("%s: %+v", name, is)
		}
	}
	if again := f.DMI(d, now.Add(1)); again.Vendor != d.Vendor || again.Version != d.Version {
		t.Errorf("read again: %+v", again)
	}
}

// TestNoDMI: a kernel without DMI has none, a folder that is no sysfs says nothing, and what may not be read
// is unknown.
func TestNoDMI(t *testing.T) {
	for name, c := range map[string]struct {
		tree   tree
		state  fabric.State
		reason fabric.Reason
	}{
		"without DMI": {tree{"class/net/": ""}, fabric.Absent, ""},
		"no sysfs":    {tree{"else/": ""}, fabric.Unknown, fabric.ReasonMissing},
		"broken":      {tree{"class/net/": "", "class/dmi/id/sys_vendor": "!EIO"}, fabric.Unknown, fabric.ReasonIO},
	} {
		f, _ := c.tree.open(t)
		if v := f.DMI(fabric.DMI{}, now).Vendor; v.State != c.state || c.reason != "" && v.Reason != c.reason {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
