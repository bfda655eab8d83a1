// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// Distance is how far two PCI functions are from each other, in the classes of NCCL (PATH_* of
// include/graph.h, 2.27 and later) and NODE, which is NVML's (NVML_TOPOLOGY_NODE). The order is that of
// growing distance. Of NCCL's other classes C2C is between a GPU and its own processor, NVB and PXN are ways
// through another GPU. What "nvidia-smi topo -m" prints may differ: how it counts bridges and distinguishes
// NODE from SYS is not published.
type Distance uint8

// Distances.
const (
	DistanceLOC  Distance = iota // the same function
	DistanceNVL                  // two GPUs: by NVLink, directly or through NVSwitches
	DistancePIX                  // below one switch or bridge
	DistancePXB                  // through several switches, but not through the host bridge
	DistanceP2C                  // NVLink-C2C from the GPU to its processor, and PCIe from there
	DistancePHB                  // through one host bridge
	DistanceNODE                 // through host bridges of one NUMA node
	DistanceSYS                  // through the interconnect of NUMA nodes
)

// distances has the name of each class, and its number in gpu_nic_distance.
var distances = [...]struct {
	name   string
	number float64
}{
	DistanceLOC: {"LOC", 0}, DistanceNVL: {"NVL", 0}, DistancePIX: {"PIX", 1}, DistancePXB: {"PXB", 2},
	DistanceP2C: {"P2C", 2},
	DistancePHB: {"PHB", 3}, DistanceNODE: {"NODE", 4}, DistanceSYS: {"SYS", 5},
}

// Distances returns all of them, nearest first.
func Distances() []Distance {
	list := make([]Distance, len(distances))
	for i := range list {
		list[i] = Distance(i)
	}
	return list
}

// String returns the class as NCCL writes it, and NODE.
func (d Distance) String() string { return distances[min(d, DistanceSYS)].name }

// Number is the class as a number that alert rules compare: 1 PIX, 2 PXB and P2C, up to which NCCL uses GPUDirect RDMA
// by default, 3 PHB, 4 NODE, 5 SYS; 0 for what is nearer still.
func (d Distance) Number() float64 { return distances[min(d, DistanceSYS)].number }

// DistanceOf returns how far two functions are from each other on the PCI bus; Node.Distance knows of NVLink
// too. What the firmware does not say (NUMA node -1) is not known; nor is what a hypervisor shows of
// functions that it put on a host bridge, be it directly or each on a root port of its own: where they really
// are only the host knows.
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
	case (restA == 0 || restB == 0 || a.Root == b.Root && restA == 1 && restB == 1) && hypervisor.Or(true):
		return UnknownFact[Distance](ReasonVirtual, source, at)
	case a.Root == b.Root:
		return Known(DistancePHB, source, at)
	}
	for _, f := range []*PCIFunction{a, b} {
		if _, ok := f.NUMANode.Get(); !ok {
			return UnknownFact[Distance](f.NUMANode.Meta().Reason, f.NUMANode.Source, at)
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
		return UnknownFact[[]string](hidden.Meta().Reason, hidden.Source, at)
	}
	return Known(redirect, source, at)
}
