// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// Distance is how far two PCI functions are from each other, in the classes of NCCL (PATH_* of graph/topo.h) and
// "nvidia-smi topo -m". The order is that of growing distance.
type Distance uint8

// Distances.
const (
	DistanceLOC  Distance = iota // the same function
	DistancePIX                  // below one switch or bridge
	DistancePXB                  // through several switches, but not through the host bridge
	DistancePHB                  // through one host bridge
	DistanceNODE                 // through host bridges of one NUMA node
	DistanceSYS                  // through the interconnect of NUMA nodes
)

// Distances returns all of them.
func Distances() []Distance {
	return []Distance{DistanceLOC, DistancePIX, DistancePXB, DistancePHB, DistanceNODE, DistanceSYS}
}

// String returns the class as NCCL writes it.
func (d Distance) String() string {
	return [...]string{"LOC", "PIX", "PXB", "PHB", "NODE", "SYS"}[min(d, DistanceSYS)]
}

// DistanceOf tells how far two functions are from each other. What the firmware does not say (NUMA node -1) is not
// known; nor is what a hypervisor shows of functions that it put on a host bridge without any port between: where
// they really are only the host knows.
func DistanceOf(a, b *PCIFunction, hypervisor Fact[bool], at time.Time) Fact[Distance] {
	const source = "bus/pci/devices"
	if a.Address == b.Address {
		return Known(DistanceLOC, source, at)
	}
	shared := sharedBridges(a, b)
	switch restA, restB := len(a.Bridges)-shared, len(b.Bridges)-shared; {
	case shared > 0 && restA <= 1 && restB <= 1:
		return Known(DistancePIX, source, at)
	case shared > 0:
		return Known(DistancePXB, source, at)
	case (len(a.Bridges) == 0 || len(b.Bridges) == 0) && hypervisor.Or(true):
		return NotKnown[Distance](ReasonVirtual, source, at)
	case a.Root == b.Root:
		return Known(DistancePHB, source, at)
	}
	for _, f := range []*PCIFunction{a, b} {
		if _, ok := f.NUMANode.Get(); !ok {
			return NotKnown[Distance](f.NUMANode.Meta().Reason, f.NUMANode.Source, at)
		}
	}
	if a.NUMANode.Value == b.NUMANode.Value {
		return Known(DistanceNODE, a.NUMANode.Source, at)
	}
	return Known(DistanceSYS, a.NUMANode.Source, at)
}

// sharedBridges counts the bridges that lead to both functions.
func sharedBridges(a, b *PCIFunction) int {
	if a.Root != b.Root {
		return 0
	}
	n := 0
	for n < len(a.Bridges) && n < len(b.Bridges) && a.Bridges[n] == b.Bridges[n] {
		n++
	}
	return n
}

// ACSRedirects returns the bridges between two functions that send what one writes to the other up to the root
// complex, where the IOMMU may look at it, instead of across. Without any the list is empty.
func (p *PCI) ACSRedirects(a, b *PCIFunction, at time.Time) Fact[[]string] {
	const source = "bus/pci/devices/*/config"
	shared := sharedBridges(a, b)
	var redirect []string
	var hidden *Fact[ACS]
	for _, addresses := range [][]string{a.Bridges[shared:], b.Bridges[shared:]} {
		for _, address := range addresses {
			f := p.Function(address)
			if f == nil {
				hidden = &Fact[ACS]{}
				continue
			}
			acs := &f.Config.ACS
			switch {
			case acs.State == Unknown:
				hidden = acs
			case acs.Or(0).Redirects():
				redirect = append(redirect, address)
			}
		}
	}
	if len(redirect) == 0 && hidden != nil {
		return NotKnown[[]string](hidden.Meta().Reason, hidden.Source, at)
	}
	return Known(redirect, source, at)
}
