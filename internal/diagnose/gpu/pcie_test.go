// SPDX-License-Identifier: Apache-2.0

package gpu_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// Where functions are passed to guests, ACS keeps these apart: nothing is said of how to take it away.
func TestACSStaysForGuests(t *testing.T) {
	for _, driver := range []string{"vfio-pci", "mlx5_vfio_pci", "nvidia-vgpu-vfio", "mlx5_core", ""} {
		n := fabrictest.WithBus()
		n.PCI.Function("0000:17:00.0").Config.ACS.Value = 0x1d
		guest := driver != "mlx5_core" && driver != ""
		if driver != "" {
			n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{Address: "0000:c1:00.2", Kind: fabric.PCINIC, Driver: fabric.Known(driver, "driver", n.At)})
		}
		remedy := diagnosetest.RemedyOf(t, n, "pcie_acs", "mlx5_0")
		if strings.Contains(remedy, "setpci") == guest || strings.Contains(remedy, "Leave ACS on: 0000:c1:00.2 belong") != guest {
			t.Errorf("%q: %s", driver, remedy)
		}
	}
}

// Guests may have a thousand virtual functions. The remedy names some.
func TestACSStaysForManyGuests(t *testing.T) {
	n := fabrictest.WithBus()
	n.PCI.Function("0000:17:00.0").Config.ACS.Value = 0x1d
	for i := range 1000 {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: fmt.Sprintf("0000:c1:%02x.%d", i/8, i%8), Kind: fabric.PCINIC, Driver: fabric.Known("vfio-pci", "driver", n.At),
		})
	}
	if remedy := diagnosetest.RemedyOf(t, n, "pcie_acs", "mlx5_0"); len(remedy) > 500 || !strings.Contains(remedy, "0000:c1:00.7 and 992 more belong") {
		t.Error(remedy)
	}
}

func TestPCIeTroubles(t *testing.T) {
	acs := func(n *fabric.Node) { n.PCI.Function("0000:17:00.0").Config.ACS.Value = 0x1d }
	sameSwitch := func(n *fabric.Node) { // the second GPU moves to the first switch
		g := n.PCI.Function("0000:9b:00.0")
		g.Root, g.Bridges, g.NUMANode = "pci0000:15", []string{"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"}, n.PCI.Function("0000:19:00.0").NUMANode
	}
	for _, test := range []struct {
		name string
		edit func(n *fabric.Node)
		want []string // none: nothing
	}{
		{"healthy", func(*fabric.Node) {}, nil},
		{"NIC at x8", func(n *fabric.Node) { n.PCI.NIC("mlx5_1").Link.Width.Value = 8 }, []string{"mlx5_1: A PCIe link runs at x8 instead of x16.", "below 0000:99:00.0"}},
		{"NIC slow and narrow", func(n *fabric.Node) {
			n.PCI.NIC("mlx5_1").Link.Width.Value, n.PCI.NIC("mlx5_1").Link.Speed.Value = 4, 16e9
		}, []string{"x4 instead of x16 and 16 GT/s instead of 32 GT/s"}},
		{"GPU at x8", func(n *fabric.Node) { n.PCI.Function("0000:19:00.0").Link.Width.Value = 8 }, []string{"GPU0: A PCIe link runs at x8"}},
		{"GPU idle", func(n *fabric.Node) { n.PCI.Function("0000:19:00.0").Link.Speed.Value = 2.5e9 }, nil},
		{"ACS", acs, []string{"mlx5_0: ACS sends GPUDirect traffic through the root complex."}},
		{"ACS in a guest", func(n *fabric.Node) { acs(n); n.Host.Hypervisor.Value = true }, nil},
		{"ACS, unknown whether virtual", func(n *fabric.Node) { acs(n); n.Host.Hypervisor = fabric.Fact[bool]{} }, nil},
		{"ACS unreadable", func(n *fabric.Node) {
			n.PCI.Function("0000:17:00.0").Config = fabric.UnknownPCIConfig(fabric.ReasonPrivilege, "config", n.At)
		}, nil},
		{"NUMA", func(n *fabric.Node) { n.PCI.NIC("mlx5_1").NUMANode.Value = 0 }, []string{"mlx5_1: NIC and GPU below one switch report different NUMA nodes"}},
		{"NUMA unknown", func(n *fabric.Node) {
			n.PCI.NIC("mlx5_1").NUMANode = fabric.UnknownFact[int](fabric.ReasonMissing, "numa_node", n.At)
		}, nil},
		{"shared", sameSwitch, []string{"mlx5_0: GPUs share a NIC while another NIC", "No GPU is near mlx5_1."}},
		{"shared by design", func(n *fabric.Node) {
			sameSwitch(n)
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_1$"), Role: fabric.RoleStorage}}
		}, nil},
		{"nothing was read", func(n *fabric.Node) { n.PCI = fabric.PCI{} }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.WithBus()
			test.edit(n)
			n.Derive()
			got := diagnosetest.Describe(diagnose.Run(n, nil))
			diagnosetest.Contains(t, got, test.want...)
			if (got == "") != (test.want == nil) || strings.Count(got, "\n") > 1 {
				t.Errorf("got %q", got)
			}
			status := verdict.OK
			switch test.name {
			case "ACS":
				status = verdict.Failed
			case "ACS unreadable", "ACS, unknown whether virtual":
				status = verdict.Unknown
			}
			for _, v := range diagnosetest.Ask(n, "pcie_acs") {
				if v.Subject.Device == "mlx5_0" && v.Status != status {
					t.Errorf("pcie_acs of mlx5_0 is %s, want %s", v.Status, status)
				}
			}
		})
	}
}
