// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"
	"time"
)

// GDRInputs is all that the verdict on GPUDirect RDMA between a GPU and a NIC follows from.
type GDRInputs struct {
	NIC string   // RDMA device
	Way GDRRoute // from the GPU
	// Foreign says that the GPU is of another vendor than NVIDIA, of whose GPUs no rules are known.
	Foreign bool
	// Others are the ways from all other GPUs, one of which NCCL may go through.
	Others []GDROther

	Loaded     Fact[bool]   // GPUDriver.Loaded
	Lost       Fact[bool]   // GPU.Lost
	Product    Fact[string] // GPU.Name
	ComputeCap Fact[int]
	CUDA       Fact[string]
	Kernel     Fact[string]
	NICDriver  Fact[string]
	DataDirect bool // the NIC is or may be a ConnectX-8, which reaches coherent GPUs through another PCI function
	Direct     GPUDirect
	NCCL       Fact[*NCCLConfig]
	NICIOMMU   Fact[string] // PCIFunction.IOMMUType
	Hypervisor Fact[bool]
	At         time.Time
}

// others reports whether the paths of other GPUs matter: NCCL does not consider them where the GPU itself is
// near enough, and may have the NIC read from it. All of them together are most of what the verdicts on a
// node cost.
func (in *GDRInputs) others() bool {
	nccl, known := in.NCCL.Get()
	_, furthest, _ := in.Way.span()
	capability, rated := in.ComputeCap.Get()
	return !known || furthest > nccl.gdrLimit().path || !rated || capability < ampere
}

// ampere is the compute capability, times ten, of the first GPUs that NICs read from without NVLink.
const ampere = 80

// GDRRoute is the path between a GPU and the NIC, and what on it matters for GPUDirect RDMA.
type GDRRoute struct {
	GPU       string // PCI address
	Distance  Fact[Distance]
	OneSwitch Fact[bool]     // PCI.OneSwitch, where the distance is PXB
	Coherent  Fact[bool]     // GPU.Coherent
	Redirects Fact[[]string] // PCI.ACSRedirects
	IOMMU     Fact[string]   // PCIFunction.IOMMUType of the GPU
}

// GDROther is the route from another GPU.
type GDROther struct {
	GDRRoute
	Linked Fact[bool] // GPUDriver.Linked of the two GPUs
}

// span returns the nearest and the furthest path that the way may be to NCCL. What is between says what is not known.
func (w *GDRRoute) span() (nearest, furthest ncclPath, between Meta) {
	d, known := w.Distance.Get()
	if !known {
		return pathPIX, pathSYS, w.Distance.Meta()
	}
	switch p := ncclPathOf(d); {
	case p == pathPHB && w.Coherent.State != OK:
		return pathP2C, p, w.Coherent.Meta()
	case p == pathPXB && w.OneSwitch.State != OK:
		return pathPIX, p, w.OneSwitch.Meta()
	case p == pathPXB && w.OneSwitch.Value:
		return pathPIX, pathPIX, Meta{}
	default:
		return p, p, Meta{}
	}
}

// evaluateGDR reports whether NCCL would use GPUDirect RDMA, by its own rule (ncclTopoCheckGdr of graph/paths.cc,
// transport/net_ib/gdr.cc), and whether that does good.
//
// The steps are those of GDRBlock. The first that is known to block makes the verdict, whatever is not known
// of others; without one, the first that is not known does. So hiding an input never makes usable what was
// blocked or unknown.
func evaluateGDR(in GDRInputs) GDR {
	j := gdrJudge{in: &in, way: &in.Way}
	j.GPU, j.NIC = in.Way.GPU, in.NIC
	j.driver()
	j.product()
	j.module()
	j.override()
	j.distance()
	j.Chosen = j.verdict()
	if chosen, ok := j.Chosen.Get(); ok && chosen {
		j.Send = in.send()
	} else {
		j.Path, j.Via = "", ""
		j.Send = AbsentFact[bool](gdrSource, in.At)
	}
	if coherent, known := in.Way.Coherent.Get(); in.DataDirect && (coherent || !known) && j.Via == "" {
		j.dunno(UnknownFact[bool](ReasonUnsupported, "bus/pci/devices", in.At).Meta(),
			"the NIC may use a function for Data Direct, which needs ACS bits and an IOMMU group of its own: these are not read (rdma_topo check shows them)")
	} else {
		j.acs()
		j.iommu()
	}
	j.Usable = j.verdict()
	return j.GDR
}

const gdrSource = "GPUDirect RDMA"

// gdrJudge goes from step to step.
type gdrJudge struct {
	GDR
	in  *GDRInputs
	way *GDRRoute // that of the GPU, or of the one that NCCL goes through

	passed  []string
	unknown []gdrUnknown
	blocked string
}

type gdrUnknown struct {
	Meta
	text string
}

func (j *gdrJudge) pass(format string, args ...any) {
	j.passed = append(j.passed, fmt.Sprintf(format, args...))
}

func (j *gdrJudge) block(b GDRBlock, format string, args ...any) {
	if j.Block == "" {
		j.Block, j.blocked = b, fmt.Sprintf(format, args...)
	}
}

func (j *gdrJudge) dunno(m Meta, format string, args ...any) {
	j.unknown = append(j.unknown, gdrUnknown{m, fmt.Sprintf(format, args...)})
}

// verdict is what the steps so far say.
func (j *gdrJudge) verdict() Fact[bool] {
	switch {
	case j.Block != "":
		j.Evidence = j.blocked
		return Known(false, gdrSource, j.in.At)
	case len(j.unknown) > 0:
		u := j.unknown[0]
		j.Evidence = u.text
		f := unknownLike[bool](u.Meta)
		f.At = j.in.At
		return f
	}
	j.Evidence = strings.Join(j.passed, "; ")
	return Known(true, gdrSource, j.in.At)
}

func (j *gdrJudge) driver() {
	loaded, known := j.in.Loaded.Get()
	lost, seen := j.in.Lost.Get()
	switch {
	case known && !loaded:
		j.block(GDRNoDriver, "no GPU driver is loaded")
	case known && seen && lost:
		j.block(GDRNoDriver, "the driver has lost the GPU")
	case !known && j.in.Foreign:
		j.dunno(j.in.Loaded.Meta(), "the rules of NCCL are known for GPUs of NVIDIA only")
	case !known:
		j.dunno(j.in.Loaded.Meta(), "whether a GPU driver is loaded is not known")
	case !seen:
		j.dunno(j.in.Lost.Meta(), "the driver does not list this GPU")
	}
}

// product: cudaDevAttrGPUDirectRDMASupported, which only CUDA reports; here as far as it follows from the name.
func (j *gdrJudge) product() {
	product, known := j.in.Product.Get()
	switch {
	case !known:
		j.dunno(j.in.Product.Meta(), "the product of the GPU is not known")
	case strings.Contains(product, "GeForce"), strings.HasPrefix(product, "NVIDIA GB10"):
		j.block(GDRNoGPU, "%s has no GPUDirect RDMA", product)
	}
}

// override: the GPU driver checks the topology for itself when memory is to be shared.
func (j *gdrJudge) override() {
	f := j.in.Direct.TopologyOverride
	switch v, known := f.Get(); {
	case known && v == 2:
		j.block(GDROverride, "GrdmaPciTopoCheckOverride=2 makes the GPU driver deny it (%s)", f.Source)
	case f.State == Unknown:
		j.dunno(f.Meta(), "whether a driver option denies it is not known")
	}
}

// distance compares with NCCL's limit, from the GPU itself or from one that NCCL goes through.
func (j *gdrJudge) distance() {
	nccl, known := j.in.NCCL.Get()
	if !known {
		j.dunno(j.in.NCCL.Meta(), "NCCL's distance limit is unknown: its configuration could not be read")
		return
	}
	limit := nccl.gdrLimit()
	nearest, furthest, between := j.way.span()
	if file := nccl.topologyFile(); file.State != Absent && pathPIX <= limit.path && limit.path < pathSYS {
		j.elsewhere(file, limit)
		return
	}
	switch {
	case furthest <= limit.path:
		j.pass("GPU and NIC are %s apart, within %s of %s", j.way.text(), limit.path, limit.from)
		return
	case nearest <= limit.path:
		j.dunno(between, "whether GPU and NIC are within %s of %s is not known: they are %s apart", limit.path, limit.from,
			j.way.text())
		return
	}
	if furthest > pathPXN && j.through(nccl, limit, nearest) {
		return
	}
	if limit.setting == "NCCL_NET_GDR_C2C" && nearest <= limit.standard && furthest > limit.standard {
		j.dunno(between, "whether %s keeps GPU and NIC from GPUDirect RDMA is not known: they are %s apart", limit.from,
			j.way.text())
		return
	}
	if nearest > limit.standard {
		j.block(GDRDistance, "GPU and NIC are %s apart, further than %s of %s", j.way.text(), limit.path, limit.from)
		return
	}
	j.Setting = limit.setting
	j.block(GDRLevel, "%s allows no more than %s; GPU and NIC are %s apart", limit.from, limit.path, j.way.text())
}

// elsewhere says that the bus does not show the distance that NCCL assumes between GPU and NIC, or that this
// is not known.
func (j *gdrJudge) elsewhere(file Fact[string], limit gdrLimit) {
	m, text := file.Meta(), "whether a file sets the positions of GPUs and NICs for NCCL is not known"
	if name, known := file.Get(); known {
		m = UnknownFact[bool](ReasonUnsupported, file.Source, file.At).Meta()
		text = name + " sets the positions of GPUs and NICs for NCCL and overrides the bus"
	}
	j.dunno(m, "whether GPU and NIC are within %s of %s is not known: %s", limit.path, limit.from, text)
}

// through looks for a GPU near the NIC that NVLink leads to. It returns false when there is none.
func (j *gdrJudge) through(nccl *NCCLConfig, limit gdrLimit, nearest ncclPath) bool {
	allowed, on := nccl.pxnLimit()
	if !on {
		return false
	}
	allowed = min(allowed, limit.path)
	var perhaps *gdrUnknown
	for i := range j.in.Others {
		o := &j.in.Others[i]
		linked, known := o.Linked.Get()
		first, last, between := o.span()
		switch {
		case known && !linked, first > allowed:
		case !known:
			perhaps = &gdrUnknown{o.Linked.Meta(), "whether NVLink leads to GPU " + o.GPU +
				", which is near the NIC, is not known"}
		case last > allowed:
			perhaps = &gdrUnknown{between, "how far GPU " + o.GPU + ", which NVLink leads to, is from the NIC is not known"}
		case nearest <= pathPXN:
			perhaps = &gdrUnknown{j.in.Way.Coherent.Meta(), "whether NCCL would go through GPU " + o.GPU + " is not known"}
		default:
			j.Via, j.way = o.GPU, &o.GDRRoute
			j.pass("NCCL goes by NVLink through GPU %s, which is %s from the NIC, within %s of %s", o.GPU, o.text(),
				limit.path, limit.from)
			return true
		}
	}
	if perhaps == nil {
		return false
	}
	j.dunno(perhaps.Meta, "%s", perhaps.text)
	return true
}

func (w *GDRRoute) text() string {
	d, ok := w.Distance.Get()
	switch {
	case ok && d == DistancePXB && w.OneSwitch.Or(false):
		return "PXB (PIX to NCCL, which takes the parts of one switch together)"
	case ok:
		return d.String()
	}
	return "an unknown distance"
}

// acs: NCCL does not look at it. A guest needs it, and NVLink-C2C does not pass the bridges.
func (j *gdrJudge) acs() {
	list, known := j.way.Redirects.Get()
	guest, guestKnown := j.in.Hypervisor.Get()
	coherent, judged := j.way.Coherent.Get()
	nearest, furthest, between := j.way.span()
	switch {
	case known && len(list) == 0:
		j.pass("no bridge between them redirects (ACS)")
	case guestKnown && guest:
		j.pass("in a guest ACS does not show the path")
	case judged && coherent, nearest > pathPXB:
		j.pass("ACS does not affect a path through the processor")
	case !known:
		j.dunno(j.way.Redirects.Meta(), "whether bridges between them redirect (ACS) is not known; NCCL does not check it")
	case !guestKnown:
		j.dunno(j.in.Hypervisor.Meta(), "ACS redirects at %s, which is right in a guest; whether this is one is not known",
			strings.Join(list, ", "))
	case !judged:
		j.dunno(j.way.Coherent.Meta(), "ACS redirects at %s; whether the GPU goes by NVLink-C2C instead is not known",
			strings.Join(list, ", "))
	case furthest > pathPXB:
		j.dunno(between, "ACS redirects at %s; whether that is on their path is not known", strings.Join(list, ", "))
	default:
		j.block(GDRACS,
			"ACS redirects their traffic through the root complex, at %s; NCCL does not check it and would use GPUDirect RDMA, slowly",
			strings.Join(list, ", "))
	}
}

// iommu: NCCL does not look at it either.
func (j *gdrJudge) iommu() {
	guest, guestKnown := j.in.Hypervisor.Get()
	coherent, judged := j.way.Coherent.Get()
	gpu, nic := translates(j.way.IOMMU), translates(j.in.NICIOMMU)
	side := gpu // the one to speak of
	if nic.Or(false) || gpu.State == OK && nic.State != OK {
		side = nic
	}
	on := gpu.Or(false) || nic.Or(false)
	switch {
	case gpu.State == OK && nic.State == OK && !on:
		j.pass("no IOMMU translates")
	case guestKnown && guest:
		j.pass("in a guest the host manages the IOMMU")
	case judged && coherent:
		j.pass("the IOMMU does not affect NVLink-C2C")
	case !on:
		j.dunno(side.Meta(), "whether an IOMMU translates is not known; NCCL does not check it")
	case !guestKnown:
		j.dunno(j.in.Hypervisor.Meta(), "an IOMMU translates, which is right in a guest; whether this is one is not known")
	case !judged:
		j.dunno(j.way.Coherent.Meta(),
			"an IOMMU translates; whether the GPU goes by NVLink-C2C, which it does not affect, is not known")
	default:
		if gpu.Or(false) {
			side = gpu
		}
		j.block(GDRIOMMU,
			"an IOMMU translates (%s); NCCL does not check it and would use GPUDirect RDMA, slowly or without success",
			side.Source)
	}
}

// translates reports whether the kernel has the IOMMU translate what a device addresses (iommu_groups/*/type).
func translates(domain Fact[string]) Fact[bool] {
	switch v, known := domain.Get(); {
	case domain.State == Absent || known && v == "identity":
		return Known(false, domain.Source, domain.At)
	case known && (v == "DMA" || v == "DMA-FQ"):
		return Known(true, domain.Source, domain.At)
	case known: // a driver has it for itself
		return UnknownFact[bool](ReasonUnsupported, domain.Source, domain.At)
	}
	return unknownLike[bool](domain.Meta())
}

// send: NCCL lets a NIC read from a GPU before Ampere only where NVLink keeps other traffic off PCIe.
func (in *GDRInputs) send() Fact[bool] {
	nccl, _ := in.NCCL.Get() // it is known, else nothing would have been chosen
	if read := nccl.Number("NCCL_NET_GDR_READ", -2); read >= 0 {
		return Known(read != 0, "NCCL_NET_GDR_READ", in.At)
	}
	switch c, known := in.ComputeCap.Get(); {
	case !known:
		return unknownLike[bool](in.ComputeCap.Meta())
	case c >= ampere || len(in.Others) == 0:
		return Known(true, in.ComputeCap.Source, in.At)
	}
	verdict := Known(false, in.ComputeCap.Source, in.At)
	for i := range in.Others {
		linked := in.Others[i].Linked
		switch is, known := linked.Get(); {
		case known && is:
			return Known(true, linked.Source, in.At)
		case !known:
			verdict = unknownLike[bool](linked.Meta())
		}
	}
	return verdict
}
