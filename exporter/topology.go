// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// The formats of topology.
const (
	outputText = "text"
	outputJSON = "json"
)

// topology prints how far the GPUs and RDMA NICs of this host, or of a simulated node, are from each other. The
// observer logs what could not be read; the rest is printed nevertheless.
func topology(ctx context.Context, f *flags, o Options) int {
	n, conf, err := observeOnce(ctx, f, o, fabric.WantHCA|fabric.WantPCI|fabric.WantGPU|fabric.WantNCCL, 0)
	if err == nil {
		report := topologyOf(n)
		report.Configuration = configurationOf(conf)
		err = writeTopology(o.Stdout, f.topologyOutput, report)
	}
	if err != nil {
		complain(o.Stderr, f.explain(err))
		return exitOf(err, exitFailure)
	}
	return exitOK
}

// topologyReport is what topology prints, and as JSON what it promises (README.md).
type topologyReport struct {
	Virtual   *bool              `json:"virtual_machine"` // null: not known
	Driver    topologyDriver     `json:"gpu_driver"`
	Peermem   topologyPeermem    `json:"peer_memory_module"`
	GPUs      []topologyGPU      `json:"gpus"`
	NICs      []topologyNIC      `json:"nics"`
	Distances []topologyDistance `json:"distances"`

	Configuration reportConfiguration `json:"configuration"`
}

type topologyDriver struct {
	Loaded  *bool   `json:"loaded"` // null: not known
	Version *string `json:"version"`
	CUDA    *string `json:"cuda_version"`
	Open    *bool   `json:"open_kernel_module"`
	Reason  string  `json:"unknown_reason,omitempty"`
	Text    string  `json:"text"`
}

type topologyPeermem struct {
	Loaded     *bool   `json:"loaded"`
	Module     string  `json:"module,omitempty"`
	Bound      *bool   `json:"bound"`
	Registered *uint64 `json:"registered_regions"`
	Reason     string  `json:"unknown_reason,omitempty"`
}

type topologyGPU struct {
	Name     string  `json:"name"`  // GPU and the index by PCI address, as NVML counts
	Index    *int    `json:"index"` // of NVML; null: NVML does not list it, or was not asked
	UUID     string  `json:"uuid"`
	Model    *string `json:"model"`
	Lost     *bool   `json:"lost"`
	PCI      string  `json:"pci_address"`
	NUMANode *int    `json:"numa_node"`
	topologyIOMMU
	NVLinks *topologyNVLinks `json:"nvlinks"`                 // null: not known
	Fabric  string           `json:"nvlink_fabric,omitempty"` // state of its registration; missing: not known, or without fabric manager
	Rail    *int             `json:"rail"`                    // null without a nearest NIC
	NIC     string           `json:"nic"`
	Nearest []string         `json:"nearest_nics"`
	Class   string           `json:"class"`
	Shared  bool             `json:"nic_shared"`
	Reason  string           `json:"unknown_reason,omitempty"`
	// ACSRedirect names the bridges on the way to NIC that redirect; null: not known.
	ACSRedirect []string          `json:"acs_redirecting_bridges"`
	ACSReason   string            `json:"acs_unknown_reason,omitempty"`
	GPUDirect   topologyGPUDirect `json:"gpudirect"`
}

// topologyIOMMU is what the kernel has the IOMMU do for a function.
type topologyIOMMU struct {
	IOMMU *string `json:"iommu"`       // identity, DMA, DMA-FQ, ...; off without one; null: not known
	Group *int    `json:"iommu_group"` // null: not known, or without one
}

func iommuOf(f *fabric.PCIFunction) topologyIOMMU {
	i := topologyIOMMU{pointer(f.IOMMUType), pointer(f.IOMMUGroup)}
	if f.IOMMUType.State == fabric.Absent {
		off := "off"
		i.IOMMU = &off
	}
	return i
}

type topologyNVLinks struct {
	Active int `json:"active"`
	Total  int `json:"total"`
}

// topologyGPUDirect is whether NCCL would use GPUDirect RDMA between a GPU and its NIC.
type topologyGPUDirect struct {
	Usable   *bool  `json:"usable"` // null: not known, or without a NIC
	Path     string `json:"path,omitempty"`
	Block    string `json:"blocked_by,omitempty"`
	Send     *bool  `json:"send"` // null: not known, or not usable
	Evidence string `json:"evidence,omitempty"`
	Reason   string `json:"unknown_reason,omitempty"`
}

type topologyNIC struct {
	Name     string `json:"name"`
	PCI      string `json:"pci_address"`
	NUMANode *int   `json:"numa_node"`
	topologyIOMMU
	Role string `json:"role"`
	// Degraded are the links on the way to the root complex that run below what their ends can do; null: not known.
	Degraded []topologyLink `json:"degraded_links"`
}

// topologyLink is a link by the bridge above it.
type topologyLink struct {
	Bridge string `json:"bridge"`
	Text   string `json:"text"`
}

type topologyDistance struct {
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

// topologyOf puts what was observed in words. The distances are those of all pairs, row by row.
func topologyOf(n *fabric.Node) topologyReport {
	r := topologyReport{
		Virtual: pointer(n.Host.Hypervisor), Driver: driverOf(n), Peermem: peermemOf(n.GPUDirect.Peermem),
		GPUs: []topologyGPU{}, NICs: []topologyNIC{}, Distances: []topologyDistance{},
	}
	type member struct {
		name     string
		function *fabric.PCIFunction
		driver   *fabric.GPU
	}
	var members []member
	gpus := diagnose.GPUs(n)
	if !diagnose.HasNVIDIA(gpus) {
		r.Driver.Text = ""
	}
	for _, v := range gpus {
		r.GPUs = append(r.GPUs, topologyOfGPU(n, v))
		members = append(members, member{v.Name, v.Function, v.Driver})
	}
	for _, h := range nicsOf(n) {
		f := n.PCI.NIC(h.Name)
		nic := topologyNIC{Name: h.Name, PCI: f.Address, NUMANode: pointer(f.NUMANode), topologyIOMMU: iommuOf(f), Role: roleNames(h)}
		if list, ok := n.PCI.Shortfalls(f, n.At).Get(); ok {
			nic.Degraded = []topologyLink{}
			for _, s := range list {
				nic.Degraded = append(nic.Degraded, topologyLink{s.Upper, diagnose.LinkText(s)})
			}
		}
		r.NICs = append(r.NICs, nic)
		members = append(members, member{h.Name, f, nil})
	}
	for i, a := range members {
		for k, b := range members {
			t := topologyDistance{From: a.name, To: b.name}
			d := distanceOf(n, a.function, b.function)
			if v, ok := d.Get(); ok {
				t.Class = v.String()
			}
			t.Reason = string(d.Meta().Reason)
			if i != k && a.driver != nil && b.driver != nil {
				t.NVLinks = pointer(linksBetween(a.driver, b.driver))
				if links := linksBetween(a.driver, b.driver); links.State == fabric.Absent {
					t.NVLinks = new(int)
				}
				t.Write, t.Ancestor = pairOf(&n.GPUDriver, a.driver.Index, b.driver.Index)
			}
			r.Distances = append(r.Distances, t)
		}
	}
	return r
}

func driverOf(n *fabric.Node) topologyDriver {
	d := &n.GPUDriver
	return topologyDriver{
		Loaded: pointer(d.Loaded), Version: pointer(d.Version), CUDA: pointer(d.CUDA), Open: pointer(n.GPUDirect.OpenModule),
		Reason: string(d.Loaded.Meta().Reason), Text: diagnose.DriverText(d),
	}
}

func peermemOf(f fabric.Fact[fabric.Peermem]) topologyPeermem {
	switch p, ok := f.Get(); {
	case ok:
		return topologyPeermem{Loaded: &ok, Module: p.Module, Bound: pointer(p.Bound), Registered: pointer(p.Registered)}
	case f.State == fabric.Absent:
		return topologyPeermem{Loaded: &ok}
	default:
		return topologyPeermem{Reason: string(f.Meta().Reason)}
	}
}

func topologyOfGPU(n *fabric.Node, v diagnose.GPU) topologyGPU {
	g := topologyGPU{Name: v.Name, NUMANode: pointer(v.NUMANode()), GPUDirect: gpuDirectOf(v.GDR)}
	if d := v.Driver; d != nil {
		g.Index, g.UUID, g.Model, g.Lost, g.PCI = &d.Index, d.UUID, pointer(d.Name), pointer(d.Lost), d.Address
		g.Fabric = string(d.Fabric.Or(fabric.GPUFabric{}).State)
	}
	switch active, total := v.NVLinks(); {
	case active.State == fabric.OK:
		g.NVLinks = &topologyNVLinks{active.Value, total}
	case active.State == fabric.Absent || v.Driver == nil && !v.IsNVIDIA():
		g.NVLinks = &topologyNVLinks{}
	}
	if v.Function == nil {
		g.Reason = string(fabric.ReasonMissing)
		return g
	}
	g.PCI, g.topologyIOMMU = v.Function.Address, iommuOf(v.Function)
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

func gpuDirectOf(g *fabric.GDR) topologyGPUDirect {
	if g == nil {
		return topologyGPUDirect{Reason: string(fabric.ReasonNotRead)}
	}
	return topologyGPUDirect{
		Usable: pointer(g.Usable), Path: string(g.Path), Block: string(g.Block), Send: pointer(g.Send), Evidence: g.Evidence,
		Reason: string(g.Usable.Meta().Reason),
	}
}

// distanceOf is the distance over PCIe, or NVLink-C2C on the way to a NIC. It is unknown of what is not on the bus that the
// exporter sees.
func distanceOf(n *fabric.Node, a, b *fabric.PCIFunction) fabric.Fact[fabric.Distance] {
	if a == nil || b == nil {
		return fabric.NotKnown[fabric.Distance](fabric.ReasonMissing, "bus/pci/devices", n.At)
	}
	if a.Kind == fabric.PCIGPU && b.Kind == fabric.PCIGPU {
		return fabric.DistanceOf(a, b, n.Host.Hypervisor, n.At)
	}
	return n.Distance(a, b)
}

// pairOf is what NVML says of writes from one GPU to another, and of the way between them; empty what it does not say.
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

// nicsOf returns the RDMA devices that are PCI functions, mlx5_2 before mlx5_10.
func nicsOf(n *fabric.Node) []*fabric.HCA {
	var list []*fabric.HCA
	for i := range n.HCAs {
		if n.PCI.NIC(n.HCAs[i].Name) != nil {
			list = append(list, &n.HCAs[i])
		}
	}
	slices.SortFunc(list, func(a, b *fabric.HCA) int { return fabric.NaturalOrder(a.Name, b.Name) })
	return list
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
