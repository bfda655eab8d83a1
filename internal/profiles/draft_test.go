// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// TestDraft: what is written from a node is a right profile, which fits it, also when it lost a GPU, and
// states what it has.
func TestDraft(t *testing.T) {
	n := identity{"Supermicro", "SYS-821GE-TNHR *", "", fabric.PCIID{Vendor: 0x10de, Device: 0x2330}, 8}.node(nil)
	add := func(name, address string, device int, role fabric.Role) {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: address, Kind: fabric.PCINIC, HCAs: []string{name}, Vendor: fabric.Known(0x15b3, "", at), Device: fabric.Known(device, "", at),
		})
		n.HCAs = append(n.HCAs, fabric.HCA{Name: name, Ports: []fabric.Port{{Number: 1, Role: fabric.Known(role, "", at)}}})
	}
	add("mlx5_0", "0000:18:00.0", 0x1021, fabric.RoleCompute)
	add("mlx5_1", "0000:40:00.0", 0x1021, fabric.RoleCompute)
	add("mlx5_2", "0000:29:00.0", 0x1021, fabric.RoleStorage)
	add("mlx5_3", "0000:29:00.1", 0x1021, fabric.RoleStorage)
	add("mlx5_4", "0000:50:00.0", 0x101d, fabric.RoleStorage)
	add("mlx5_5", "0000:51:00.0", 0x101d, fabric.RoleManagement)
	text, err := Draft(n)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if p.GPUs.Number != 8 || len(p.Rails) != 1 || p.Rails[0].Number != 2 || p.Rails[0].PortsPerCard != 1 ||
		len(p.Others) != 1 || p.Others[0].Number != 2 || p.Others[0].Role != fabric.RoleStorage || p.Cabling.By != fabric.CabledBySite {
		t.Errorf("%+v", p)
	}
	for _, part := range []string{"name: site-supermicro-sys-821ge-tnhr\n", "# Not stated: mlx5_5 of role management.", "compare every line"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	n.PCI.Functions = n.PCI.Functions[1:]
	n.Policy.Profiles = []fabric.Profile{p}
	if n.DeriveProfile(); n.Profile == nil {
		t.Errorf("%+v", n.Recognition)
	}
	rail, storage := &n.HCAs[0], &n.HCAs[3]
	if e := p.NICOf(n, rail, &rail.Ports[0]); e == nil || e.Role != fabric.RoleCompute {
		t.Errorf("the rail: %+v", e)
	}
	if e := p.NICOf(n, storage, &storage.Ports[0]); e == nil || e.Role != fabric.RoleStorage {
		t.Errorf("the storage NIC: %+v", e)
	}
	if e := p.NICOf(n, &n.HCAs[5], &n.HCAs[5].Ports[0]); e != nil {
		t.Errorf("another NIC: %+v", e)
	}
	bare := identity{}.node(nil)
	if _, err := Draft(bare); err == nil || !strings.Contains(err.Error(), "nothing to recognize this node by") {
		t.Errorf("a node without anything: %v", err)
	}
}
