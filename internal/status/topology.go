// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Topology is how far GPUs and NICs are from each other, and what works between them: what the command
// topology prints, and as JSON promises (README.md).
type Topology struct {
	Virtual   *bool          `json:"virtual_machine"` // null: not known
	Driver    TopologyDriver `json:"gpu_driver"`
	Peermem   Peermem        `json:"peer_memory_module"`
	GPUs      []TopologyGPU  `json:"gpus"`
	NICs      []TopologyNIC  `json:"nics"`
	Distances []Distance     `json:"distances"`

	Configuration config.Report `json:"configuration"`
}

// TopologyDriver is the driver of the GPUs.
type TopologyDriver struct {
	Loaded  *bool   `json:"loaded"` // null: not known
	Version *string `json:"version"`
	CUDA    *string `json:"cuda_version"`
	Open    *bool   `json:"open_kernel_module"`
	Reason  string  `json:"unknown_reason,omitempty"`
	Text    string  `json:"text"`
}

// Peermem is the kernel module that lets NICs reach GPU memory.
type Peermem struct {
	Loaded     *bool   `json:"loaded"`
	Module     string  `json:"module,omitempty"`
	Bound      *bool   `json:"bound"`
	Registered *uint64 `json:"registered_regions"`
	Reason     string  `json:"unknown_reason,omitempty"`
}

// TopologyGPU is a GPU, and its way to the nearest NIC.
type TopologyGPU struct {
	Name     string  `json:"name"`  // GPU and the index by PCI address, as NVML counts
	Index    *int    `json:"index"` // of NVML; null: NVML does not list it, or was not asked
	UUID     string  `json:"uuid"`
	Model    *string `json:"model"`
	Lost     *bool   `json:"lost"`
	PCI      string  `json:"pci_address"`
	NUMANode *int    `json:"numa_node"`
	IOMMU
	NVLinks *TopologyLinks `json:"nvlinks"` // null: not known
	// state of its registration; missing: not known, or without fabric manager
	Fabric  string   `json:"nvlink_fabric,omitempty"`
	Rail    *int     `json:"rail"` // null without a nearest NIC
	NIC     string   `json:"nic"`
	Nearest []string `json:"nearest_nics"`
	Class   string   `json:"class"`
	Shared  bool     `json:"nic_shared"`
	Reason  string   `json:"unknown_reason,omitempty"`
	// ACSRedirect names the bridges on the way to NIC that redirect; null: not known.
	ACSRedirect []string  `json:"acs_redirecting_bridges"`
	ACSReason   string    `json:"acs_unknown_reason,omitempty"`
	GPUDirect   GPUDirect `json:"gpudirect"`
}

// IOMMU is what the kernel has it do for a function.
type IOMMU struct {
	Type  *string `json:"iommu"`       // identity, DMA, DMA-FQ, ...; off without one; null: not known
	Group *int    `json:"iommu_group"` // null: not known, or without one
}

func iommuOf(f *fabric.PCIFunction) IOMMU {
	i := IOMMU{pointer(f.IOMMUType), pointer(f.IOMMUGroup)}
	if f.IOMMUType.State == fabric.Absent {
		i.Type = new("off")
	}
	return i
}

// TopologyLinks are the NVLinks of a GPU.
type TopologyLinks struct {
	Active int `json:"active"`
	Total  int `json:"total"`
}

// GPUDirect is whether NCCL would use GPUDirect RDMA between a GPU and its NIC.
type GPUDirect struct {
	Usable   *bool  `json:"usable"` // null: not known, or without a NIC
	Path     string `json:"path,omitempty"`
	Block    string `json:"blocked_by,omitempty"`
	Send     *bool  `json:"send"` // null: not known, or not usable
	Evidence string `json:"evidence,omitempty"`
	Reason   string `json:"unknown_reason,omitempty"`
}

// TopologyNIC is an RDMA device on the PCI bus.
type TopologyNIC struct {
	Name     string `json:"name"`
	PCI      string `json:"pci_address"`
	NUMANode *int   `json:"numa_node"`
	IOMMU
	Role string `json:"role"`
	// Degraded are the links on the way to the root complex that run below what their ends can do; null: not known.
	Degraded []DegradedLink `json:"degraded_links"`
}

// DegradedLink is a link by the bridge above it.
type DegradedLink struct {
	Bridge string `json:"bridge"`
	Text   string `json:"text"`
}

// Distance is that of a GPU or NIC to another one.
type Distance struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Class  string `json:"class"` // over PCIe; empty: not known
	Reason string `json:"unknown_reason,omitempty"`
	// NVLinks are the active ones between two GPUs; missing: not known, or not two GPUs.
	NVLinks *int `json:"nvlinks,omitempty"`
	// Write says whether one GPU can write to the other's memory, and if not, why not; missing: not known.
	Write string `json:"p2p_write,omitempty"`
	// Ancestor is the class that NVML gives the way between two GPUs over PCIe; missing: not known.
	Ancestor string `json:"nvml_class,omitempty"`
}

// TopologyOf puts what was observed in words. The distances are those of all pairs, row by row.
func TopologyOf(n *fabric.Node, conf config.Report) *Topology {
	r := &Topology{
		Configuration: conf, Virtual: pointer(n.Host.Hypervisor), Driver: topologyDriver(n),
		Peermem: peermemOf(n.GPUDirect.Peermem),
		GPUs:    []TopologyGPU{}, NICs: []TopologyNIC{}, Distances: []Distance{},
	}
	gpus := verdict.GPUs(n)
	if !gpu.HasNVIDIA(gpus) {
		r.Driver.Text = ""
	}
	for _, v := range gpus {
		r.GPUs = append(r.GPUs, topologyGPU(n, v))
	}
	members := gpus // and the NICs, each as a function with a name
	for _, h := range byName(n) {
		f := n.PCI.NIC(h.Name)
		if f == nil {
			continue
		}
		nic := TopologyNIC{Name: h.Name, PCI: f.Address, NUMANode: pointer(f.NUMANode), IOMMU: iommuOf(f), Role: roleNames(h)}
		if list, ok := n.PCI.Shortfalls(f, n.At).Get(); ok {
			nic.Degraded = []DegradedLink{}
			for _, s := range list {
				nic.Degraded = append(nic.Degraded, DegradedLink{s.Upper, gpu.LinkText(s)})
			}
		}
		r.NICs, members = append(r.NICs, nic), append(members, verdict.GPU{Name: h.Name, Function: f})
	}
	for i, a := range members {
		for k, b := range members {
			d := distanceOf(n, a.Function, b.Function)
			t := Distance{From: a.Name, To: b.Name, Reason: string(d.Meta().Reason)}
			if v, ok := d.Get(); ok {
				t.Class = v.String()
			}
			if i != k && a.Driver != nil && b.Driver != nil {
				links := linksBetween(a.Driver, b.Driver)
				if t.NVLinks = pointer(links); links.State == fabric.Absent {
					t.NVLinks = new(int)
				}
				t.Write, t.Ancestor = pairOf(&n.GPUDriver, a.Driver.Index, b.Driver.Index)
			}
			r.Distances = append(r.Distances, t)
		}
	}
	return r
}

func topologyDriver(n *fabric.Node) TopologyDriver {
	d := &n.GPUDriver
	return TopologyDriver{
		Loaded: pointer(d.Loaded), Version: pointer(d.Version), CUDA: pointer(d.CUDA), Open: pointer(n.GPUDirect.OpenModule),
		Reason: string(d.Loaded.Meta().Reason), Text: gpu.DriverText(d),
	}
}

func peermemOf(f fabric.Fact[fabric.Peermem]) Peermem {
	switch p, ok := f.Get(); {
	case ok:
		return Peermem{Loaded: &ok, Module: p.Module, Bound: pointer(p.Bound), Registered: pointer(p.Registered)}
	case f.State == fabric.Absent:
		return Peermem{Loaded: &ok}
	default:
		return Peermem{Reason: string(f.Meta().Reason)}
	}
}

func topologyGPU(n *fabric.Node, v verdict.GPU) TopologyGPU {
	g := TopologyGPU{Name: v.Name, NUMANode: pointer(v.NUMANode()), GPUDirect: gpuDirectOf(v.GDR)}
	if d := v.Driver; d != nil {
		g.Index, g.UUID, g.Model, g.Lost, g.PCI = &d.Index, d.UUID, pointer(d.Name), pointer(d.Lost), d.Address
		g.Fabric = string(d.Fabric.Or(fabric.GPUFabric{}).State)
	}
	switch active, total := v.NVLinks(); {
	case active.State == fabric.OK:
		g.NVLinks = &TopologyLinks{active.Value, total}
	case active.State == fabric.Absent || v.Driver == nil && !v.IsNVIDIA():
		g.NVLinks = &TopologyLinks{}
	}
	if v.Function == nil {
		g.Reason = string(fabric.ReasonMissing)
		return g
	}
	g.PCI, g.IOMMU = v.Function.Address, iommuOf(v.Function)
	if v.Rail == nil {
		g.Reason = string(fabric.ReasonNotRead)
		return g
	}
	g.NIC, g.Nearest, g.Shared, g.Reason = v.Rail.NIC, v.Rail.Nearest, v.Rail.Shared, string(v.Rail.Distance.Meta().Reason)
	if d, ok := v.Rail.Distance.Get(); ok {
		g.Class, g.Rail = d.String(), &v.Rail.Number
		redirects := n.PCI.ACSRedirects(v.Function, n.PCI.NIC(v.Rail.NIC), n.At)
		if list, ok := redirects.Get(); ok {
			g.ACSRedirect = append([]string{}, list...)
		}
		g.ACSReason = string(redirects.Meta().Reason)
	}
	return g
}

func gpuDirectOf(g *fabric.GDR) GPUDirect {
	if g == nil {
		return GPUDirect{Reason: string(fabric.ReasonNotRead)}
	}
	return GPUDirect{
		Usable: pointer(g.Usable), Path: string(g.Path), Block: string(g.Block), Send: pointer(g.Send), Evidence: g.Evidence,
		Reason: string(g.Usable.Meta().Reason),
	}
}

// distanceOf is the distance over PCIe, or NVLink-C2C on the way to a NIC. It is unknown of what is not on
// the bus that the exporter sees.
func distanceOf(n *fabric.Node, a, b *fabric.PCIFunction) fabric.Fact[fabric.Distance] {
	if a == nil || b == nil {
		return fabric.UnknownFact[fabric.Distance](fabric.ReasonMissing, "bus/pci/devices", n.At)
	}
	if a.Kind == fabric.PCIGPU && b.Kind == fabric.PCIGPU {
		return fabric.DistanceOf(a, b, n.Host.Hypervisor, n.At)
	}
	return n.Distance(a, b)
}

// pairOf is what NVML reports of writes from one GPU to another, and of the way between them; empty what it
// does not say.
func pairOf(d *fabric.GPUDriver, a, b int) (write, class string) {
	i := slices.IndexFunc(d.P2P, func(p fabric.GPUPair) bool { return p.A == min(a, b) && p.B == max(a, b) })
	if i < 0 {
		return "", ""
	}
	if v, ok := d.P2P[i].Ancestor.Get(); ok {
		class = v.String()
	}
	return string(d.P2P[i].Write.Or("")), class
}

// roleNames are the roles that the ports of a device have.
func roleNames(h *fabric.HCA) string {
	var names []string
	for _, r := range fabric.Roles() {
		if h.Serves(r) {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, ",")
}

func pointer[T any](f fabric.Fact[T]) *T {
	if v, ok := f.Get(); ok {
		return &v
	}
	return nil
}
