// SPDX-License-Identifier: Apache-2.0

package fabric

import "strings"

// Distance returns how far two functions are from each other, by the nearest way there is: NVLink between GPUs,
// NVLink-C2C between a GPU and a NIC, the PCI bus for all others. The bus alone decides what NVML was not asked for.
func (n *Node) Distance(a, b *PCIFunction) Fact[Distance] {
	switch {
	case a.Kind == PCIGPU && b.Kind == PCIGPU:
		return n.GPUDistance(a, b)
	case a.Kind == PCIGPU && b.Kind == PCINIC:
		return n.gpuNICDistance(a, b)
	case a.Kind == PCINIC && b.Kind == PCIGPU:
		return n.gpuNICDistance(b, a)
	}
	return DistanceOf(a, b, n.Host.Hypervisor, n.At)
}

// GPUDistance returns how far two GPUs are from each other: NVL with NVLinks between them, else what the PCI bus says.
// It is unknown while NVML was asked for links and did not say.
func (n *Node) GPUDistance(a, b *PCIFunction) Fact[Distance] {
	pci := DistanceOf(a, b, n.Host.Hypervisor, n.At)
	if loaded := n.GPUDriver.Loaded.Meta(); a.Address == b.Address || loaded.State == Unknown &&
		loaded.Reason == ReasonNotRead {
		return pci
	}
	linked := n.GPUDriver.Linked(a.Address, b.Address)
	is, known := linked.Get()
	switch {
	case known && is:
		return Known(DistanceNVL, linked.Source, n.At)
	case known:
		return pci
	}
	return unknownLike[Distance](linked.Meta())
}

// gpuNICDistance is P2C where PCI says that the NIC is on the processor of the GPU, and the GPU has NVLink-C2C to it.
func (n *Node) gpuNICDistance(gpu, nic *PCIFunction) Fact[Distance] {
	pci := DistanceOf(gpu, nic, n.Host.Hypervisor, n.At)
	d, known := pci.Get()
	if g := n.GPUDriver.At(gpu.Address); known && g != nil && (d == DistancePHB || d == DistanceNODE) {
		if c := g.Coherent(); c.Or(false) {
			return Known(DistanceP2C, c.Source, n.At)
		}
	}
	return pci
}

// Coherent reports whether the GPU shares its memory with the processor over NVLink-C2C, as on Grace. Its
// memory is a NUMA node then, unless the driver keeps it to itself (CoherentGPUMemoryMode=driver): then the
// name of the product decides.
func (g *GPU) Coherent() Fact[bool] {
	if _, ok := g.NUMANode.Get(); ok {
		return Known(true, g.NUMANode.Source, g.NUMANode.At)
	}
	product, known := g.Name.Get()
	switch {
	case known && isSuperchip(product):
		return Known(true, g.Name.Source, g.Name.At)
	case !known:
		return unknownLike[bool](g.Name.Meta())
	case g.NUMANode.State == Absent:
		return Known(false, g.NUMANode.Source, g.NUMANode.At)
	}
	return unknownLike[bool](g.NUMANode.Meta())
}

// isSuperchip reports whether the product has GPU and processor in one package: "NVIDIA GH200 480GB", "NVIDIA
// GB200", "NVIDIA GB10".
func isSuperchip(product string) bool {
	model, _, _ := strings.Cut(strings.TrimPrefix(product, "NVIDIA "), " ")
	for _, family := range []string{"GH", "GB"} {
		if number, ok := strings.CutPrefix(model, family); ok && number != "" && strings.Trim(number, "0123456789") == "" {
			return true
		}
	}
	return false
}

// Linked reports whether active NVLinks join the GPUs at two addresses: from one to the other, or from both
// to NVSwitches that lead from one to the other. Without a driver nothing is linked.
func (d *GPUDriver) Linked(a, b string) Fact[bool] {
	if loaded, ok := d.Loaded.Get(); !ok {
		return unknownLike[bool](d.Loaded.Meta())
	} else if !loaded {
		return Known(false, d.Loaded.Source, d.Loaded.At)
	}
	first, second := d.At(a), d.At(b)
	if first == nil || second == nil { // lost, or another driver has it
		return UnknownFact[bool](ReasonMissing, d.Loaded.Source, d.Loaded.At)
	}
	direct := first.linkedTo(NVLinkToGPU, second.Address)
	back := second.linkedTo(NVLinkToGPU, first.Address)
	if direct.Or(false) || back.Or(false) {
		return Known(true, first.NVLinks.Source, first.NVLinks.At)
	}
	switched := both(first.linkedTo(NVLinkToSwitch, ""), second.linkedTo(NVLinkToSwitch, ""))
	if switched.Or(false) {
		switched = d.joined(first, second)
	}
	for _, f := range []Fact[bool]{switched, direct, back} {
		if f.State != OK || f.Value {
			return f
		}
	}
	return Known(false, first.NVLinks.Source, first.NVLinks.At)
}

// linkedTo reports whether an active NVLink leads to such an end, and with an address to that one.
func (g *GPU) linkedTo(end NVLinkEnd, address string) Fact[bool] {
	links, ok := g.NVLinks.Get()
	if !ok {
		if g.NVLinks.State == Absent {
			return Known(false, g.NVLinks.Source, g.NVLinks.At)
		}
		return unknownLike[bool](g.NVLinks.Meta())
	}
	verdict := Known(false, g.NVLinks.Source, g.NVLinks.At)
	for i := range links {
		l := &links[i]
		active, known := l.Active.Get()
		kind, knownKind := l.RemoteKind.Get()
		remote, knownRemote := l.Remote.Get()
		switch {
		case known && !active, knownKind && kind != end, address != "" && knownRemote && !strings.EqualFold(remote, address):
		case !known:
			verdict = unknownLike[bool](l.Active.Meta())
		case !knownKind:
			verdict = unknownLike[bool](l.RemoteKind.Meta())
		case address != "" && !knownRemote:
			verdict = unknownLike[bool](l.Remote.Meta())
		default:
			return Known(true, g.NVLinks.Source, g.NVLinks.At)
		}
	}
	return verdict
}

// joined reports whether NVSwitches lead from one GPU to another, when both have links to some: not before both are
// registered, not between partitions, and not where the driver says that peer-to-peer does not work.
func (d *GPUDriver) joined(a, b *GPU) Fact[bool] {
	p2p := d.pair(a.Index, b.Index).Write
	if s, ok := p2p.Get(); ok && s != P2POK {
		return Known(false, p2p.Source, p2p.At)
	}
	for _, f := range []Fact[GPUFabric]{a.Fabric, b.Fabric} {
		if v, ok := f.Get(); ok && v.State != GPUFabricCompleted {
			return Known(false, f.Source, f.At)
		}
	}
	one, known := a.Fabric.Get()
	other, knownOther := b.Fabric.Get()
	switch {
	case known && knownOther:
		return Known(one.Clique == other.Clique && one.Cluster == other.Cluster, a.Fabric.Source, a.Fabric.At)
	case a.Fabric.State == Unknown:
		return unknownLike[bool](a.Fabric.Meta())
	case b.Fabric.State == Unknown:
		return unknownLike[bool](b.Fabric.Meta())
	case p2p.State == OK: // before Hopper only that shows it
		return Known(true, p2p.Source, p2p.At)
	}
	return unknownLike[bool](p2p.Meta())
}

// pair returns what NVML reports of two GPUs by their indices.
func (d *GPUDriver) pair(a, b int) GPUPair {
	a, b = min(a, b), max(a, b)
	for _, p := range d.P2P {
		if p.A == a && p.B == b {
			return p
		}
	}
	return GPUPair{A: a, B: b}
}
