// SPDX-License-Identifier: Apache-2.0

package probestest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Node is a node with GPUs below two switches each, and an HCA for every switch: GPU 0 and 1 with mlx5_0, and so on.
func Node(gpus int) *fabric.Node {
	at := time.Now()
	n := &fabric.Node{At: at, Policy: &fabric.Policy{}}
	n.GPUDriver.Loaded = fabric.Known(true, "test", at)
	n.GPUDriver.Version = fabric.Known("580.65.06", "test", at)
	n.Host.Hypervisor = fabric.Known(false, "test", at)
	function := func(kind fabric.PCIKind, bus int, hcas ...string) {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: fmt.Sprintf("0000:%02x:00.0", bus), Kind: kind, HCAs: hcas, Root: "pci0000:00",
			Bridges:  []string{fmt.Sprintf("0000:%02x:01.0", bus/16*16), fmt.Sprintf("0000:%02x:02.%d", bus/16*16, bus%16)},
			NUMANode: fabric.Known(0, "test", at),
		})
	}
	for i := range gpus {
		bus := 16*(1+i/2) + i%2
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, fabric.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Address: fmt.Sprintf("0000:%02x:00.0", bus),
			Lost: fabric.Known(false, "test", at),
		})
		function(fabric.PCIGPU, bus)
		if i%2 == 0 {
			name := fmt.Sprintf("mlx5_%d", i/2)
			function(fabric.PCINIC, bus+8, name)
			n.HCAs = append(n.HCAs, fabric.HCA{Name: name, Restricted: fabric.Known(false, "test", at), Ports: []fabric.Port{{
				Number: 1, State: fabric.Known(fabric.PortActive, "test", at),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "test", at),
				Role:      fabric.Known(fabric.RoleCompute, "test", at),
				Rate:      fabric.Known(fabric.Rate{BytesPerSecond: 50e9}, "test", at),
			}}})
		}
	}
	slices.SortFunc(n.PCI.Functions, func(a, b fabric.PCIFunction) int { return strings.Compare(a.Address, b.Address) })
	return n
}
