// SPDX-License-Identifier: Apache-2.0

// Package topology is the command topology: it prints how far GPUs and RDMA NICs are from each other, and whether GPUDirect RDMA
// works between them.
package topology

import (
	"context"
	"slices"
	"strings"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/config"
	gpuchecks "gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// printing is one call of the command.
type printing struct {
	site     *site.Site
	log      *logging.Flags
	scenario *simulator.Scenario // nil: this host
	json     bool
}

// New returns the command.
func New(s *site.Site, log *logging.Flags) *command.Command {
	p := &printing{site: s, log: log}
	return &command.Command{
		Name: "topology", Help: "Print the PCI bus distances between GPUs and RDMA NICs, and the nearest NIC of each GPU.",
		Define: func(f *command.Flags) {
			f.Output(&p.json)
			site.AddScenario(f, &p.scenario)
		},
		Takes:  []command.Group{&s.Config, log, &s.Devices},
		OnHost: []command.Group{&s.Recorded, &s.Paths, &s.GPUs},
		Run:    p.run,
	}
}

// run prints how far the GPUs and RDMA NICs of this host, or of a simulated node, are from each other. The
// observer logs what could not be read; the rest is printed nevertheless.
func (p *printing) run(ctx context.Context, c *command.Call) int {
	n, conf, err := p.site.ObserveOnce(ctx, p.scenario, fabric.WantHCA|fabric.WantPCI|fabric.WantGPU|fabric.WantNCCL, 0, p.log.Logger(c.Stderr))
	if err == nil {
		report := reportOf(n)
		report.Configuration = conf.Report()
		err = write(c.Stdout, p.json, report)
	}
	if err != nil {
		return c.Fail(err)
	}
	return command.OK
}

// report is what topology prints, and as JSON what it promises (README.md).
type report struct {
	Virtual   *bool      `json:"virtual_machine"` // null: not known
	Driver    driver     `json:"gpu_driver"`
	Peermem   peermem    `json:"peer_memory_module"`
	GPUs      []gpu      `json:"gpus"`
	NICs      []nic      `json:"nics"`
	Distances []distance `json:"distances"`

	Configuration config.Report `json:"configuration"`
}

type driver struct {
	Loaded  *bool   `json:"loaded"` // null: not known
	Version *string `json:"version"`
	CUDA    *string `json:"cuda_version"`
	Open    *bool   `json:"open_kernel_module"`
	Reason  string  `json:"unknown_reason,omitempty"`
	Text    string  `json:"text"`
}

type peermem struct {
	Loaded     *bool   `json:"loaded"`
	Module     string  `json:"module,omitempty"`
	Bound      *bool   `json:"bound"`
	Registered *uint64 `json:"registered_regions"`
	Reason     string  `json:"unknown_reason,omitempty"`
}

type gpu struct {
	Name     string  `json:"name"`  // GPU and the index by PCI address, as NVML counts
	Index    *int    `json:"index"` // of NVML; null: NVML does not list it, or was not asked
	UUID     string  `json:"uuid"`
	Model    *string `json:"model"`
	Lost     *bool   `json:"lost"`
	PCI      string  `json:"pci_address"`
	NUMANode *int    `json:"numa_node"`
	iommu
	NVLinks *nvlinks `json:"nvlinks"`                 // null: not known
	Fabric  string   `json:"nvlink_fabric,omitempty"` // state of its registration; missing: not known, or without fabric manager
	Rail    *int     `json:"rail"`                    // null without a nearest NIC
	NIC     string   `json:"nic"`
	Nearest []string `json:"nearest_nics"`
	Class   string   `json:"class"`
	Shared  bool     `json:"nic_shared"`
	Reason  string   `json:"unknown_reason,omitempty"`
	// ACSRedirect names the bridges on the way to NIC that redirect; null: not known.
	ACSRedirect []string  `json:"acs_redirecting_bridges"`
	ACSReason   string    `json:"acs_unknown_reason,omitempty"`
	GPUDirect   gpuDirect `json:"gpudirect"`
}

// iommu is what the kernel has the IOMMU do for a function.
type iommu struct {
	IOMMU *string `json:"iommu"`       // identity, DMA, DMA-FQ, ...; off without one; null: not known
	Group *int    `json:"iommu_group"` // null: not known, or without one
}

func iommuOf(f *fabric.PCIFunction) iommu {
	i := iommu{pointer(f.IOMMUType), pointer(f.IOMMUGroup)}
	if f.IOMMUType.State == fabric.Absent {
		off := "off"
		i.IOMMU = &off
	}
	return i
}

type nvlinks struct {
	Active int `json:"active"`
	Total  int `json:"total"`
}

// gpuDirect is whether NCCL would use GPUDirect RDMA between a GPU and its NIC.
type gpuDirect struct {
	Usable   *bool  `json:"usable"` // null: not known, or without a NIC
	Path     string `json:"path,omitempty"`
	Block    string `json:"blocked_by,omitempty"`
	Send     *bool  `json:"send"` // null: not known, or not usable
	Evidence string `json:"evidence,omitempty"`
	Reason   string `json:"unknown_reason,omitempty"`
}

type nic struct {
	Name     string `json:"name"`
	PCI      string `json:"pci_address"`
	NUMANode *int   `json:"numa_node"`
	iommu
	Role string `json:"role"`
	// Degraded are the links on the way to the root complex that run below what their ends can do; null: not known.
	Degraded []link `json:"degraded_links"`
}

// link is a link by the bridge above it.
type link struct {
	Bridge string `json:"bridge"`
	Text   string `json:"text"`
}

type distance struct {
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

// reportOf puts what was observed in words. The distances are those of all pairs, row by row.
func reportOf(n *fabric.Node) report {
	r := report{
		Virtual: pointer(n.Host.Hypervisor), Driver: driverOf(n), Peermem: peermemOf(n.GPUDirect.Peermem),
		GPUs: []gpu{}, NICs: []nic{}, Distances: []distance{},
	}
	type member struct {
		name     string
		function *fabric.PCIFunction
		driver   *fabric.GPU
	}
	var members []member
	gpus := verdict.GPUs(n)
	if !gpuchecks.HasNVIDIA(gpus) {
		r.Driver.Text = ""
	}
	for _, v := range gpus {
		r.GPUs = append(r.GPUs, reportGPU(n, v))
		members = append(members, member{v.Name, v.Function, v.Driver})
	}
	for _, h := range nicsOf(n) {
		f := n.PCI.NIC(h.Name)
		nic := nic{Name: h.Name, PCI: f.Address, NUMANode: pointer(f.NUMANode), iommu: iommuOf(f), Role: roleNames(h)}
		if list, ok := n.PCI.Shortfalls(f, n.At).Get(); ok {
			nic.Degraded = []link{}
			for _, s := range list {
				nic.Degraded = append(nic.Degraded, link{s.Upper, gpuchecks.LinkText(s)})
			}
		}
		r.NICs = append(r.NICs, nic)
		members = append(members, member{h.Name, f, nil})
	}
	for i, a := range members {
		for k, b := range members {
			t := distance{From: a.name, To: b.name}
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

func driverOf(n *fabric.Node) driver {
	d := &n.GPUDriver
	return driver{
		Loaded: pointer(d.Loaded), Version: pointer(d.Version), CUDA: pointer(d.CUDA), Open: pointer(n.GPUDirect.OpenModule),
		Reason: string(d.Loaded.Meta().Reason), Text: gpuchecks.DriverText(d),
	}
}

func peermemOf(f fabric.Fact[fabric.Peermem]) peermem {
	switch p, ok := f.Get(); {
	case ok:
		return peermem{Loaded: &ok, Module: p.Module, Bound: pointer(p.Bound), Registered: pointer(p.Registered)}
	case f.State == fabric.Absent:
		return peermem{Loaded: &ok}
	default:
		return peermem{Reason: string(f.Meta().Reason)}
	}
}

func reportGPU(n *fabric.Node, v verdict.GPU) gpu {
	g := gpu{Name: v.Name, NUMANode: pointer(v.NUMANode()), GPUDirect: gpuDirectOf(v.GDR)}
	if d := v.Driver; d != nil {
		g.Index, g.UUID, g.Model, g.Lost, g.PCI = &d.Index, d.UUID, pointer(d.Name), pointer(d.Lost), d.Address
		g.Fabric = string(d.Fabric.Or(fabric.GPUFabric{}).State)
	}
	switch active, total := v.NVLinks(); {
	case active.State == fabric.OK:
		g.NVLinks = &nvlinks{active.Value, total}
	case active.State == fabric.Absent || v.Driver == nil && !v.IsNVIDIA():
		g.NVLinks = &nvlinks{}
	}
	if v.Function == nil {
		g.Reason = string(fabric.ReasonMissing)
		return g
	}
	g.PCI, g.iommu = v.Function.Address, iommuOf(v.Function)
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

func gpuDirectOf(g *fabric.GDR) gpuDirect {
	if g == nil {
		return gpuDirect{Reason: string(fabric.ReasonNotRead)}
	}
	return gpuDirect{
		Usable: pointer(g.Usable), Path: string(g.Path), Block: string(g.Block), Send: pointer(g.Send), Evidence: g.Evidence,
		Reason: string(g.Usable.Meta().Reason),
	}
}

// distanceOf is the distance over PCIe, or NVLink-C2C on the way to a NIC. It is unknown of what is not on the bus that the
// exporter sees.
func distanceOf(n *fabric.Node, a, b *fabric.PCIFunction) fabric.Fact[fabric.Distance] {
	if a == nil || b == nil {
		return fabric.UnknownFact[fabric.Distance](fabric.ReasonMissing, "bus/pci/devices", n.At)
	}
	if a.Kind == fabric.PCIGPU && b.Kind == fabric.PCIGPU {
		return fabric.DistanceOf(a, b, n.Host.Hypervisor, n.At)
	}
	return n.Distance(a, b)
}

// pairOf is what NVML reports of writes from one GPU to another, and of the way between them; empty what it does not say.
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
