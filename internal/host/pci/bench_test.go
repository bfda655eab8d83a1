// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

// BenchmarkRead is what a minute costs on a node with eight GPUs and eleven RDMA devices, and what an hour does.
func BenchmarkRead(b *testing.B) {
	s, err := simulator.Find("healthy")
	if err != nil {
		b.Fatal(err)
	}
	tree, err := s.Build().Materialise(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for name, what := range map[string]fabric.PCIFacts{"places": fabric.PCIPlaces, "minute": fabric.PCILinks, "hour": fabric.PCIEverything} {
		b.Run(name, func(b *testing.B) {
			bus, err := Open(tree.Sysfs())
			if err != nil {
				b.Fatal(err)
			}
			defer bus.Close()
			var last fabric.PCI
			for b.Loop() {
				if last, err = bus.Read(last, what, nics(b, tree.Sysfs()), now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
