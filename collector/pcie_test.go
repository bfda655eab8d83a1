// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// pcieNode is a GPU and a compute NIC below one switch.
func pcieNode() *fabric.Node {
	h := device("mlx5_0")
	h.Ports[0].Role = known(fabric.RoleCompute)
	n := nodeOf(h)
	function := func(address string, kind fabric.PCIKind, bridges ...string) fabric.PCIFunction {
		f := fabric.PCIFunction{Address: address, Kind: kind, Root: "pci0000:15", Bridges: bridges}
		f = f.WithoutFacts(fabric.ReasonNotRead, now)
		f.Link = fabric.PCILink{Speed: known(32e9), MaxSpeed: known(32e9), Width: known(16), MaxWidth: known(16)}
		f.AER = fabric.PCIErrors{Correctable: known[uint64](2), NonFatal: known[uint64](0), Fatal: known[uint64](0)}
		f.Config = fabric.PCIConfig{
			MaxPayload: known(256), MaxReadRequest: known(4096), RelaxedOrdering: known(true), NoSnoop: known(true), ACS: known(fabric.ACS(0)),
		}
		return f
	}
	nic := function("0000:18:00.0", fabric.PCINIC, "0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
	nic.HCAs = []string{"mlx5_0"}
	n.PCI.Functions = []fabric.PCIFunction{
		function("0000:15:01.0", fabric.PCIBridge), function("0000:16:00.0", fabric.PCIBridge, "0000:15:01.0"),
		function("0000:17:00.0", fabric.PCIBridge, "0000:15:01.0", "0000:16:00.0"),
		function("0000:17:03.0", fabric.PCIBridge, "0000:15:01.0", "0000:16:00.0"),
		nic,
		function("0000:1b:00.0", fabric.PCIGPU, "0000:15:01.0", "0000:16:00.0", "0000:17:03.0"),
	}
	n.Derive()
	n.HCAs[0].Ports[0].Role = known(fabric.RoleCompute) // nothing says so but this test
	return n
}

// A node with Ethernet alone has nothing that training traffic crosses.
func TestPCIeOfIdleNIC(t *testing.T) {
	n := pcieNode()
	if ok, why := hasPCIe(n); !ok {
		t.Error(why)
	}
	n.PCI.Functions = []fabric.PCIFunction{{Address: "0000:01:00.0", Kind: fabric.PCINIC}}
	if ok, why := hasPCIe(n); ok || why == "" {
		t.Error("it is supported")
	}
}

func TestPCIe(t *testing.T) {
	n := pcieNode()
	n.Policy.Roles = nil
	n.PCI.Rails = []fabric.Rail{{GPU: "0000:1b:00.0", Distance: known(fabric.DistancePIX), Nearest: []string{"mlx5_0"}, NIC: "mlx5_0"}}
	n.PCI.Function("0000:17:03.0").Config.ACS = known(fabric.ACS(0x1d))
	n.PCI.Function("0000:18:00.0").Link.Width = known(8)
	n.PCI.Function("0000:1b:00.0").Link.Speed = known(2.5e9) // idle
	out := scrape(t, n)
	for _, line := range []string{
		`gpufabric_pcie_link_degraded{device="mlx5_0",pci_address="0000:18:00.0"} 1`, `gpufabric_pcie_link_degraded{device="",pci_address="0000:1b:00.0"} 0`,
		`gpufabric_pcie_link_transfers_per_second{device="mlx5_0"} 3.2e+10`, `gpufabric_pcie_link_width{device="mlx5_0",pci_address="0000:18:00.0"} 8`,
		`gpufabric_pcie_link_max_width{device="mlx5_0"} 16`,
		`gpufabric_pcie_aer_errors_total{device="mlx5_0",severity="correctable"} 8`, `gpufabric_pcie_acs_redirect{device="mlx5_0",pci_address="0000:1b:00.0"} 1`,
		`gpufabric_gpu_nic_distance{class="PIX",device="mlx5_0",pci_address="0000:1b:00.0",rail="0"} 1`, `gpufabric_pcie_max_read_request_bytes{device="mlx5_0"} 4096`,
	} {
		if !strings.Contains(out, line) {
			t.Errorf("missing %s in:\n%s", line, out)
		}
	}
}

// The maximum of a link that reaches it says nothing more.
func TestPCIeMaximum(t *testing.T) {
	n := pcieNode()
	link := &n.PCI.Function("0000:18:00.0").Link
	has := func(name string) bool { return strings.Contains(scrape(t, n), "\n"+Prefix+name+"{device=\"mlx5_0\"}") }
	if has("pcie_link_max_width") || has("pcie_link_max_transfers_per_second") {
		t.Error("the link does all it can")
	}
	link.Speed.Value, link.Width = 16e9, fabric.UnknownFact[int](fabric.ReasonIO, "current_link_width", now)
	if !has("pcie_link_max_width") || !has("pcie_link_max_transfers_per_second") {
		t.Error("the link is degraded, and its width is missing")
	}
	link.Speed, link.MaxSpeed = fabric.AbsentFact[float64]("test", now), fabric.AbsentFact[float64]("test", now)
	if has("pcie_link_max_transfers_per_second") {
		t.Error("there is no link")
	}
}

// What may not be read is counted and has no series.
func TestPCIeUnknown(t *testing.T) {
	n := pcieNode()
	for i := range n.PCI.Functions {
		f := &n.PCI.Functions[i]
		f.Config = fabric.UnknownPCIConfig(fabric.ReasonPrivilege, "config", now)
		f.Link.Width = fabric.UnknownFact[int](fabric.ReasonSuspended, "current_link_width", now)
	}
	n.PCI.Rails = []fabric.Rail{{GPU: "0000:1b:00.0", Distance: fabric.UnknownFact[fabric.Distance](fabric.ReasonVirtual, "", now)}}
	out := scrape(t, n)
	for _, name := range []string{"pcie_acs_redirect", "pcie_max_", "pcie_relaxed_ordering", "pcie_link_width", "pcie_link_degraded", "gpu_nic_distance"} {
		if strings.Contains(out, "\n"+Prefix+name) {
			t.Errorf("a series of %s though nothing is known:\n%s", name, out)
		}
	}
	for _, line := range []string{`gpufabric_exporter_facts_unknown{device="mlx5_0",reason="privilege",uuid=""} 5`, `gpufabric_exporter_facts_unknown{device="mlx5_0",reason="suspended",uuid=""} 1`} {
		if !strings.Contains(out, line) {
			t.Errorf("missing %s in:\n%s", line, out)
		}
	}
}
