// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"net/netip"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// remedyOf is what a check advises for a device, with the names of the node.
func remedyOf(t *testing.T, n *fabric.Node, check, device string) string {
	t.Helper()
	n.Derive()
	for _, v := range verdict.Failures(diagnose.Run(n, []*verdict.Check{diagnose.Find(check)})) {
		if v.Subject.Device == device {
			return verdict.FilledRemedy(n, &v)
		}
	}
	t.Fatalf("%s does not fail for %s", check, device)
	return ""
}

// Where functions are passed to guests, ACS keeps these apart: nothing is said of how to take it away.
func TestACSStaysForGuests(t *testing.T) {
	for _, driver := range []string{"vfio-pci", "mlx5_vfio_pci", "nvidia-vgpu-vfio", "mlx5_core", ""} {
		n := fabrictest.WithBus()
		n.PCI.Function("0000:17:00.0").Config.ACS.Value = 0x1d
		guest := driver != "mlx5_core" && driver != ""
		if driver != "" {
			n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{Address: "0000:c1:00.2", Kind: fabric.PCINIC, Driver: fabric.Known(driver, "driver", n.At)})
		}
		remedy := remedyOf(t, n, "pcie_acs", "mlx5_0")
		if strings.Contains(remedy, "setpci") == guest || strings.Contains(remedy, "Leave ACS on: 0000:c1:00.2 belong") != guest {
			t.Errorf("%q: %s", driver, remedy)
		}
	}
}

// What is advised is an address of the family that NCCL looks for, on the interface whose address it would use.
func TestAddressAsNCCLLooksForIt(t *testing.T) {
	v4 := fabric.GID{Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}
	local := fabric.GID{Addr: netip.MustParseAddr("fe80::1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyIPv6}
	vlan := local
	vlan.NetDev = "eth1.100"
	for name, c := range map[string]struct {
		family string
		gids   []fabric.GID
		want   string
	}{
		"IPv4":                    {"", []fabric.GID{local}, "ip addr add <IPv4 address>/<length> dev eth1,"},
		"IPv6":                    {"AF_INET6", []fabric.GID{local}, "ip addr add <IPv6 address>/<length> dev eth1,"},
		"IPv6, and IPv4 is there": {"AF_INET6", []fabric.GID{local, v4}, "remove NCCL_IB_ADDR_FAMILY=AF_INET6"},
		"IPv4 in a VLAN":          {"", []fabric.GID{local, vlan}, "ip addr add <IPv4 address>/<length> dev eth1.100,"},
		"IPv6 in a VLAN":          {"AF_INET6", []fabric.GID{local, vlan}, "ip addr add <IPv6 address>/<length> dev eth1.100,"},
	} {
		n := fabrictest.Lossless()
		if c.family != "" {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_ADDR_FAMILY", Value: c.family, Source: "/etc/nccl.conf:1"}}
		}
		n.NetDevs = append(n.NetDevs, fabric.NetDev{Name: "eth1.100", Lower: fabric.Known([]string{"eth1"}, "lower_*", n.At), Bond: fabric.Known(false, "bonding", n.At)})
		p := &n.HCAs[1].Ports[0]
		p.GIDs.Entries.Value = nil
		for i, g := range c.gids {
			g.Index = i
			if g.NetDev == "" {
				g.NetDev = "eth1"
			}
			p.GIDs.Entries.Value = append(p.GIDs.Entries.Value, g)
		}
		if got := remedyOf(t, n, verdict.CheckGID, "mlx5_1"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// No remedy for cards of another vendor names a tool of NVIDIA.
func TestFirmwareOfOtherVendors(t *testing.T) {
	for _, driver := range []string{"bnxt_en", "ionic", "ice", "efa", "mlx5_core"} {
		n := fabrictest.Lossless()
		for len(n.HCAs) < 4 {
			h := n.HCAs[0]
			h.Name = "mlx5_" + string(rune('0'+len(n.HCAs)))
			n.HCAs = append(n.HCAs, h)
		}
		for i := range n.HCAs {
			n.HCAs[i].Driver = fabric.Known(driver, "driver", n.At)
		}
		n.HCAs[1].Firmware.Value = "1.2.3"
		if remedy := remedyOf(t, n, "firmware_uniform", "mlx5_1"); strings.Contains(remedy, "mlxfwmanager") != (driver == "mlx5_core") {
			t.Errorf("%s: %s", driver, remedy)
		}
	}
}
