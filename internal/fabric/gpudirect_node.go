// SPDX-License-Identifier: Apache-2.0

package fabric

// nvidia is NVIDIA's vendor id on the PCI bus.
const nvidia = 0x10de

// connectX8 is ConnectX-8.
var connectX8 = PCIID{Vendor: 0x15b3, Device: 0x1023}

// DeriveGDR judges GPUDirect RDMA for each GPU and the NIC it is dealt, after DeriveRails.
func (n *Node) DeriveGDR() {
	n.GDR = make([]GDR, 0, len(n.PCI.Rails))
	for i := range n.PCI.Rails {
		r := &n.PCI.Rails[i]
		if r.Distance.State == Absent {
			none := AbsentFact[bool](r.Distance.Source, n.At)
			n.GDR = append(n.GDR, GDR{
				GPU: r.GPU, Usable: none, Chosen: none, Send: none,
				Evidence: "there is no compute NIC on the PCI bus",
			})
			continue
		}
		n.GDR = append(n.GDR, evaluateGDR(n.gdrInputs(r)))
	}
}

func (n *Node) gdrInputs(r *Rail) GDRInputs {
	d := &n.GPUDriver
	nic := n.PCI.NIC(r.NIC) // nil while distances are not known
	in := GDRInputs{
		NIC: r.NIC, Way: n.gdrRoute(r.GPU, nic, r.Distance), At: n.At,
		Loaded: d.Loaded, CUDA: d.CUDA, Kernel: n.Host.Kernel, Direct: n.GPUDirect, NCCL: n.NCCL.whole(),
		Hypervisor: n.Host.Hypervisor,
	}
	if v, known := n.PCI.Function(r.GPU).Vendor.Get(); known && v != nvidia { // NVML reports nothing of it
		in.Foreign = true
		in.Loaded = UnknownFact[bool](ReasonUnsupported, "bus/pci/devices/"+r.GPU+"/vendor", n.At)
	}
	missing := d.Loaded.Meta() // where the driver does not show this GPU, for what it does not show at all
	if g := d.At(r.GPU); g != nil {
		in.Lost, in.Product, in.ComputeCap = g.Lost, g.Name, g.ComputeCap
	} else {
		in.Lost, in.Product, in.ComputeCap = unknownLike[bool](missing), unknownLike[string](missing),
			unknownLike[int](missing)
	}
	if h := n.HCA(r.NIC); h != nil {
		in.NICDriver = h.Driver
	} else {
		in.NICDriver = unknownLike[string](r.Distance.Meta())
	}
	if nic != nil {
		in.NICIOMMU = nic.IOMMUType
		id, known := nic.ID()
		in.DataDirect = !known || id == connectX8
	} else {
		in.NICIOMMU = unknownLike[string](r.Distance.Meta())
	}
	if !in.others() {
		return in
	}
	for _, f := range n.PCI.GPUs() {
		if f.Address == r.GPU {
			continue
		}
		distance := r.Distance
		if nic != nil {
			distance = n.gpuNICDistance(f, nic)
		}
		in.Others = append(in.Others, GDROther{n.gdrRoute(f.Address, nic, distance), d.Linked(r.GPU, f.Address)})
	}
	return in
}

func (n *Node) gdrRoute(gpu string, nic *PCIFunction, distance Fact[Distance]) GDRRoute {
	f := n.PCI.Function(gpu)
	w := GDRRoute{GPU: gpu, Distance: distance, IOMMU: f.IOMMUType}
	if nic != nil {
		if distance.Or(DistanceSYS) == DistancePXB {
			w.OneSwitch = n.PCI.OneSwitch(f, nic, n.At)
		}
		w.Redirects = n.PCI.ACSRedirects(f, nic, n.At)
	} else {
		w.Redirects = unknownLike[[]string](distance.Meta())
	}
	if g := n.GPUDriver.At(gpu); g != nil {
		w.Coherent = g.Coherent()
	} else {
		w.Coherent = unknownLike[bool](n.GPUDriver.Loaded.Meta())
	}
	return w
}
