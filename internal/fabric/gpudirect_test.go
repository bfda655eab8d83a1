// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strings"
	"testing"
)

// nearby is an H100 below the switch of its NIC on a machine as NVIDIA's guides set it up: open kernel
// module, peer-memory module, ACS off, IOMMU passing through.
func nearby() GDRInputs {
	return GDRInputs{
		NIC: "mlx5_0", At: at,
		Way:    GDRRoute{GPU: "0000:1b:00.0", Distance: ok(DistancePIX), Coherent: ok(false), Redirects: ok([]string(nil)), IOMMU: ok("identity")},
		Loaded: ok(true), Lost: ok(false), Product: ok("NVIDIA H100 80GB HBM3"), ComputeCap: ok(90), CUDA: ok("13.0"),
		Kernel: ok("6.8.0-1030-nvidia"), NICDriver: ok("mlx5_core"), NICIOMMU: ok("identity"), Hypervisor: ok(false),
		Direct: GPUDirect{
			Peermem:    ok(Peermem{Module: ModuleNvidiaPeermem, Version: ok("580.95.05"), Bound: ok(true), Registered: ok[uint64](0)}),
			OpenModule: ok(true), Driver: ok("580.95.05"), TopologyOverride: ok(0),
		},
		NCCL: withNCCL(),
	}
}

// withNCCL is a host's configuration, name after value.
func withNCCL(settings ...string) Fact[*NCCLConfig] {
	c := &NCCLConfig{Files: []NCCLFile{{Path: "/etc/nccl.conf", Exists: ok(true)}}, VirtualTopology: AbsentFact[bool]("", at)}
	for i := 0; i < len(settings); i += 2 {
		v := NCCLVariable{Name: settings[i], Value: settings[i+1], Source: "/etc/nccl.conf:1"}
		if v.Name != "NCCL_NET_GDR_LEVEL" && v.Name != "NCCL_TOPO_FILE" {
			v.Number, v.IsNumber = int64(settings[i+1][0]-'0'), true
		}
		c.Variables = append(c.Variables, v)
	}
	slices.SortFunc(c.Variables, func(a, b NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	return ok(c)
}

// noPeermem leaves dma-buf alone, noDMABuf (the proprietary module) the peer-memory module.
func noPeermem(in *GDRInputs) { in.Direct.Peermem = AbsentFact[Peermem]("module", at) }
func noDMABuf(in *GDRInputs)  { in.Direct.OpenModule = ok(false) }

// bound sets what ib_core reports about the module.
func bound(in *GDRInputs, is Fact[bool]) {
	p := in.Direct.Peermem.Value
	p.Bound = is
	in.Direct.Peermem = ok(p)
}

// virtualTopology sets whether a virtual machine has a file for NCCL.
func virtualTopology(in *GDRInputs, is Fact[bool]) {
	c := *in.NCCL.Value
	c.VirtualTopology = is
	in.NCCL = ok(&c)
}

// grace makes it a GB200 whose NIC is on the same processor.
func grace(in *GDRInputs) {
	in.Product, in.ComputeCap, in.Way.Coherent, in.Way.Distance = ok("NVIDIA GB200"), ok(100), ok(true), ok(DistanceP2C)
	in.Way.IOMMU, in.NICIOMMU = ok("DMA-FQ"), ok("DMA-FQ") // the SMMU always translates
}

// beside adds a GPU that is near the NIC.
func beside(in *GDRInputs, linked Fact[bool]) {
	o := in.Way
	o.GPU, o.Distance = "0000:43:00.0", ok(DistancePIX)
	in.Others = append(in.Others, GDROther{o, linked})
}

type gdrTruth struct {
	name    string
	edit    func(in *GDRInputs)
	verdict string // path while usable, block while blocked, reason while unknown
	send    string // yes, no, reason, or empty while NCCL would not use it
	says    string
}

// gdrTruths is the truth table. What is expected follows from NCCL's source and NVIDIA's guides, not from the code.
var gdrTruths = []gdrTruth{
	{"as it should be", func(*GDRInputs) {}, "dmabuf", "yes", "open kernel module, CUDA 13.0, Linux 6.8 with mlx5_core"},
	{"proprietary driver with peermem", noDMABuf, "peermem", "yes", "nvidia_peermem is loaded and bound"},
	{"open driver without peermem", noPeermem, "dmabuf", "yes", "no bridge between them redirects"},
	{"proprietary driver without peermem", func(in *GDRInputs) { noDMABuf(in); noPeermem(in) }, "module", "", "no peer-memory module is loaded; no dma-buf: the GPU driver's kernel module is not the open one"},
	{"no driver", func(in *GDRInputs) {
		in.Loaded, in.Lost, in.Product, in.CUDA = ok(false), UnknownFact[bool](ReasonMissing, "", at), UnknownFact[string](ReasonMissing, "", at), AbsentFact[string]("", at)
	}, "driver", "", "no GPU driver"},
	{"GPU lost", func(in *GDRInputs) {
		in.Lost, in.Product = ok(true), UnknownFact[string](ReasonGone, "", at)
	}, "driver", "", "lost"},
	{"driver does not answer", func(in *GDRInputs) {
		in.Loaded, in.Lost, in.Product = UnknownFact[bool](ReasonTimeout, "", at), UnknownFact[bool](ReasonTimeout, "", at), UnknownFact[string](ReasonTimeout, "", at)
	}, "timeout", "", "not known"},
	{"a gaming GPU", func(in *GDRInputs) { in.Product = ok("NVIDIA GeForce RTX 4090") }, "gpu", "", "GeForce"},
	{"DGX Spark", func(in *GDRInputs) { grace(in); in.Product = ok("NVIDIA GB10") }, "gpu", "", "GB10"},
	{"option denies", func(in *GDRInputs) { in.Direct.TopologyOverride = ok(2) }, "override", "", "GrdmaPciTopoCheckOverride=2"},
	{"option allows", func(in *GDRInputs) { in.Direct.TopologyOverride = ok(1) }, "dmabuf", "yes", ""},
	{"driver without that setting", func(in *GDRInputs) { in.Direct.TopologyOverride = AbsentFact[int]("", at) }, "dmabuf", "yes", ""},

	// Ways for a NIC to GPU memory.
	{"peermem of another ib_core", func(in *GDRInputs) { noDMABuf(in); bound(in, ok(false)) }, "module", "", "built for another version"},
	{"dma-buf makes up for it", func(in *GDRInputs) { bound(in, ok(false)) }, "dmabuf", "yes", ""},
	{"ib_core shows no clients", func(in *GDRInputs) { noDMABuf(in); bound(in, UnknownFact[bool](ReasonMissing, "", at)) }, "peermem", "yes", "nvidia_peermem is loaded"},
	{"ib_core's clients unreadable", func(in *GDRInputs) { noDMABuf(in); bound(in, UnknownFact[bool](ReasonPrivilege, "", at)) }, "privilege", "", "whether it is registered with ib_core"},
	{"old kernel", func(in *GDRInputs) { noPeermem(in); in.Kernel = ok("5.4.0-150-generic") }, "module", "", "Linux 5.4 is older than 5.12"},
	{"kernel 5.12", func(in *GDRInputs) { in.Kernel = ok("5.12.0") }, "dmabuf", "yes", ""},
	{"kernel 5.11 with peermem", func(in *GDRInputs) { in.Kernel = ok("5.11.22") }, "peermem", "yes", ""},
	{"CUDA 11.6", func(in *GDRInputs) { noPeermem(in); in.CUDA = ok("11.6") }, "module", "", "CUDA 11.6 is older than 11.7"},
	{"CUDA 11.7", func(in *GDRInputs) { in.CUDA = ok("11.7") }, "dmabuf", "yes", ""},
	{"CUDA in riddles", func(in *GDRInputs) { noPeermem(in); in.CUDA = ok("twelve") }, "malformed", "", "no version of CUDA"},
	{"dma-buf switched off", func(in *GDRInputs) { in.NCCL = withNCCL("NCCL_DMABUF_ENABLE", "0") }, "peermem", "yes", ""},
	{"dma-buf switched off, no peermem", func(in *GDRInputs) { noPeermem(in); in.NCCL = withNCCL("NCCL_DMABUF_ENABLE", "0") }, "module", "", "NCCL_DMABUF_ENABLE is 0"},
	{"NIC driver of which nothing is known", func(in *GDRInputs) { noPeermem(in); in.NICDriver = ok("mlx4_core") }, "unsupported", "", "mlx4_core takes a dma-buf"},
	{"NIC not known", func(in *GDRInputs) {
		noPeermem(in)
		in.NIC, in.NICDriver = "", UnknownFact[string](ReasonVirtual, "", at)
	}, "virtual", "", "dma-buf: which NIC is nearest to the GPU is not known"},
	{"NIC whose driver is not read", func(in *GDRInputs) { noPeermem(in); in.NICDriver = UnknownFact[string](ReasonPrivilege, "", at) }, "privilege", "", "is not known (ethtool -i"},
	{"a vendor's driver on an older kernel", func(in *GDRInputs) { noPeermem(in); in.NICDriver = ok("efa"); in.Kernel = ok("5.15.0-1063-aws") }, "unsupported", "", "efa takes a dma-buf on Linux 5.15"},

	// Distance.
	{"through several switches", func(in *GDRInputs) { in.Way.Distance = ok(DistancePXB) }, "dmabuf", "yes", "PXB apart, within P2C of NCCL's default"},
	{"through the host bridge", func(in *GDRInputs) { in.Way.Distance = ok(DistancePHB) }, "distance", "", "PHB apart, further than P2C"},
	{"another host bridge", func(in *GDRInputs) { in.Way.Distance = ok(DistanceNODE) }, "distance", "", "NODE apart"},
	{"the other socket, and nothing else is known", func(in *GDRInputs) {
		nccl := in.NCCL
		*in = walkOf[GDRInputs]().without(*in, Meta{Reason: ReasonIO, At: at})
		in.NCCL, in.Way.Distance = nccl, ok(DistanceSYS)
	}, "distance", "", "SYS apart"},
	{"the host allows the host bridge", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistancePHB), withNCCL("NCCL_NET_GDR_LEVEL", "PHB")
	}, "dmabuf", "yes", "within PHB of NCCL_NET_GDR_LEVEL=PHB (/etc/nccl.conf:1)"},
	{"NODE is PHB to NCCL", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceNODE), withNCCL("NCCL_NET_GDR_LEVEL", "3")
	}, "dmabuf", "yes", "within PHB"},
	{"the host allows all", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceSYS), withNCCL("NCCL_NET_GDR_LEVEL", "SYS")
	}, "dmabuf", "yes", "SYS apart, within SYS"},
	{"an old number for all", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceSYS), withNCCL("NCCL_NET_GDR_LEVEL", "5")
	}, "dmabuf", "yes", ""},
	{"the host switches it off", func(in *GDRInputs) { in.NCCL = withNCCL("NCCL_NET_GDR_LEVEL", "LOC") }, "level", "", "NCCL_NET_GDR_LEVEL=LOC (/etc/nccl.conf:1) allows no more than LOC"},
	{"the host switches it off, by number", func(in *GDRInputs) { in.NCCL = withNCCL("NCCL_NET_GDR_LEVEL", "0") }, "level", "", ""},
	{"the host switches it off, wherever the NIC is", func(in *GDRInputs) {
		in.NCCL, in.Way.Distance = withNCCL("NCCL_NET_GDR_LEVEL", "LOC"), UnknownFact[Distance](ReasonVirtual, "", at)
	}, "level", "", "an unknown distance apart"},
	{"the host wants one switch", func(in *GDRInputs) {
		in.Way.Distance, in.Way.OneSwitch, in.NCCL = ok(DistancePXB), ok(false), withNCCL("NCCL_NET_GDR_LEVEL", "PIX")
	}, "level", "", "PXB apart"},
	{"the host wants one switch, which has parts", func(in *GDRInputs) {
		in.Way.Distance, in.Way.OneSwitch, in.NCCL = ok(DistancePXB), ok(true), withNCCL("NCCL_NET_GDR_LEVEL", "PIX")
	}, "dmabuf", "yes", "PIX to NCCL"},
	{"the host wants one switch, unknown whether there is one", func(in *GDRInputs) {
		in.Way.Distance, in.Way.OneSwitch, in.NCCL = ok(DistancePXB), UnknownFact[bool](ReasonIO, "", at), withNCCL("NCCL_NET_GDR_LEVEL", "PIX")
	}, "io_error", "", "they are PXB apart"},
	{"a level that NCCL ignores", func(in *GDRInputs) { in.NCCL = withNCCL("NCCL_NET_GDR_LEVEL", "loc") }, "dmabuf", "yes", "NCCL's default"},
	{"a flat guest", func(in *GDRInputs) {
		in.Way.Distance, in.Hypervisor = UnknownFact[Distance](ReasonVirtual, "", at), ok(true)
	}, "virtual", "", "not known"},
	{"a flat guest whose site allows all", func(in *GDRInputs) {
		in.Way.Distance, in.Hypervisor, in.NCCL = UnknownFact[Distance](ReasonVirtual, "", at), ok(true), withNCCL("NCCL_NET_GDR_LEVEL", "SYS")
	}, "dmabuf", "yes", ""},
	{"a file says where everything is", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistancePHB), withNCCL("NCCL_TOPO_FILE", "/opt/topo.xml")
	}, "unsupported", "", "NCCL_TOPO_FILE (/etc/nccl.conf:1) sets the positions of GPUs and NICs"},
	{"a file says so, and any distance will do", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistancePHB), withNCCL("NCCL_NET_GDR_LEVEL", "SYS", "NCCL_TOPO_FILE", "/opt/topo.xml")
	}, "dmabuf", "yes", "within SYS"},
	{"a file says so, and no distance will do", func(in *GDRInputs) {
		in.NCCL = withNCCL("NCCL_NET_GDR_LEVEL", "LOC", "NCCL_TOPO_FILE", "/opt/topo.xml")
	}, "level", "", "no more than LOC"},
	{"a virtual machine with a file", func(in *GDRInputs) { virtualTopology(in, Known(true, "var/run/v.xml", at)) }, "unsupported", "", "/var/run/v.xml sets the positions"},
	{"a file that may be there", func(in *GDRInputs) { virtualTopology(in, UnknownFact[bool](ReasonPrivilege, "", at)) }, "privilege", "", "whether a file sets the positions"},
	{"NCCL's configuration unreadable", func(in *GDRInputs) { in.NCCL = UnknownFact[*NCCLConfig](ReasonPrivilege, "", at) }, "privilege", "", "its configuration could not be read"},

	// NVLink-C2C.
	{"GB200", grace, "dmabuf", "yes", "P2C apart, within P2C of NCCL's default"},
	{"GB200 with C2C off", func(in *GDRInputs) { grace(in); in.NCCL = withNCCL("NCCL_NET_GDR_C2C", "0") }, "level", "", "NCCL_NET_GDR_C2C=0 (/etc/nccl.conf:1) allows no more than PXB; GPU and NIC are P2C apart"},
	{"C2C off, and no C2C there", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistancePHB), withNCCL("NCCL_NET_GDR_C2C", "0")
	}, "distance", "", "PHB apart"},
	{"C2C off, and unknown whether there is C2C", func(in *GDRInputs) {
		in.Way.Distance, in.Way.Coherent, in.NCCL = ok(DistancePHB), UnknownFact[bool](ReasonIO, "", at), withNCCL("NCCL_NET_GDR_C2C", "0")
	}, "io_error", "", "NCCL_NET_GDR_C2C=0"},
	{"GB300: Data Direct", func(in *GDRInputs) { grace(in); in.DataDirect = true }, "unsupported", "yes", "Data Direct"},
	{"GB300: Data Direct, ACS redirects", func(in *GDRInputs) { grace(in); in.DataDirect, in.Way.Redirects = true, ok([]string{"0009:00:00.0"}) }, "unsupported", "yes", "Data Direct"},
	{"ConnectX-8 beside another processor", func(in *GDRInputs) { in.DataDirect = true }, "dmabuf", "yes", ""},
	{"GB200 at level PXB", func(in *GDRInputs) { grace(in); in.NCCL = withNCCL("NCCL_NET_GDR_LEVEL", "PXB") }, "level", "", ""},
	{"GB200, NIC of the other processor", func(in *GDRInputs) { grace(in); in.Way.Distance = ok(DistanceSYS) }, "distance", "", "SYS"},
	{"PHB from what may be coherent", func(in *GDRInputs) {
		in.Way.Distance, in.Way.Coherent = ok(DistancePHB), UnknownFact[bool](ReasonUnsupported, "", at)
	}, "unsupported", "", "not known"},

	// Through another GPU.
	{"through a neighbour", func(in *GDRInputs) { in.Way.Distance = ok(DistanceNODE); beside(in, ok(true)) }, "dmabuf", "yes", "by NVLink through GPU 0000:43:00.0, which is PIX from the NIC"},
	{"neighbour without NVLink", func(in *GDRInputs) { in.Way.Distance = ok(DistanceNODE); beside(in, ok(false)) }, "distance", "", "NODE"},
	{"neighbour unknown", func(in *GDRInputs) {
		in.Way.Distance = ok(DistanceNODE)
		beside(in, UnknownFact[bool](ReasonTimeout, "", at))
	}, "timeout", "", "whether NVLink leads to GPU 0000:43:00.0"},
	{"neighbour no nearer", func(in *GDRInputs) {
		in.Way.Distance = ok(DistanceNODE)
		beside(in, ok(true))
		in.Others[0].Distance = ok(DistanceSYS)
	}, "distance", "", "NODE"},
	{"neighbour behind ACS", func(in *GDRInputs) {
		in.Way.Distance = ok(DistanceNODE)
		beside(in, ok(true))
		in.Others[0].Redirects = ok([]string{"0000:42:00.0"})
	}, "acs", "yes", "0000:42:00.0"},
	{"PXN off", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceNODE), withNCCL("NCCL_PXN_DISABLE", "1")
		beside(in, ok(true))
	}, "distance", "", "NODE"},
	{"PXN off by a number that NCCL does not know", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceNODE), withNCCL("NCCL_PXN_DISABLE", "2")
		beside(in, ok(true))
	}, "dmabuf", "yes", "by NVLink through GPU 0000:43:00.0"},
	{"no reading from the neighbour either", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL = ok(DistanceNODE), withNCCL("NCCL_NET_GDR_READ", "0")
		beside(in, ok(true))
	}, "distance", "", "NODE"},

	// What NCCL does not look at.
	{"ACS on", func(in *GDRInputs) { in.Way.Redirects = ok([]string{"0000:17:00.0"}) }, "acs", "yes", "NCCL does not check it"},
	{"ACS on in a guest", func(in *GDRInputs) { in.Way.Redirects, in.Hypervisor = ok([]string{"0000:17:00.0"}), ok(true) }, "dmabuf", "yes", "in a guest"},
	{"ACS on, guest or not", func(in *GDRInputs) {
		in.Way.Redirects, in.Hypervisor = ok([]string{"0000:17:00.0"}), UnknownFact[bool](ReasonMissing, "", at)
	}, "missing", "yes", "which is right in a guest"},
	{"ACS on, coherent", func(in *GDRInputs) { grace(in); in.Way.Redirects = ok([]string{"0000:17:00.0"}) }, "dmabuf", "yes", ""},
	{"ACS on a way that goes up anyway", func(in *GDRInputs) {
		in.Way.Distance, in.NCCL, in.Way.Redirects = ok(DistancePHB), withNCCL("NCCL_NET_GDR_LEVEL", "SYS"), ok([]string{"0000:17:00.0"})
	}, "dmabuf", "yes", "ACS does not affect"},
	{"ACS may not be read", func(in *GDRInputs) { in.Way.Redirects = UnknownFact[[]string](ReasonPrivilege, "", at) }, "privilege", "yes", "(ACS) is not known"},
	{"IOMMU translates", func(in *GDRInputs) { in.NICIOMMU = ok("DMA-FQ") }, "iommu", "yes", "an IOMMU translates"},
	{"IOMMU translates for the GPU", func(in *GDRInputs) { in.Way.IOMMU = ok("DMA") }, "iommu", "yes", ""},
	{"IOMMU translates for the NIC, the GPU is unknown", func(in *GDRInputs) {
		in.NICIOMMU, in.Way.IOMMU = ok("DMA"), UnknownFact[string](ReasonIO, "", at)
	}, "iommu", "yes", ""},
	{"IOMMU in a guest", func(in *GDRInputs) { in.NICIOMMU, in.Hypervisor = ok("DMA-FQ"), ok(true) }, "dmabuf", "yes", "the host manages the IOMMU"},
	{"no IOMMU", func(in *GDRInputs) {
		in.NICIOMMU, in.Way.IOMMU = AbsentFact[string]("", at), AbsentFact[string]("", at)
	}, "dmabuf", "yes", "no IOMMU translates"},
	{"NIC of a driver in user space", func(in *GDRInputs) { in.NICIOMMU = ok("unmanaged") }, "unsupported", "yes", ""},
	{"ACS and IOMMU, and no module", func(in *GDRInputs) {
		noDMABuf(in)
		noPeermem(in)
		in.NICIOMMU, in.Way.Redirects, in.Way.Distance = ok("DMA"), ok([]string{"0000:17:00.0"}), ok(DistanceSYS)
	}, "module", "", ""},

	// Sends.
	{"V100 without NVLink", func(in *GDRInputs) { in.ComputeCap = ok(70); beside(in, ok(false)) }, "dmabuf", "no", ""},
	{"V100 with NVLink", func(in *GDRInputs) { in.ComputeCap = ok(70); beside(in, ok(true)) }, "dmabuf", "yes", ""},
	{"V100 alone", func(in *GDRInputs) { in.ComputeCap = ok(70) }, "dmabuf", "yes", ""},
	{"V100, links unknown", func(in *GDRInputs) { in.ComputeCap = ok(70); beside(in, UnknownFact[bool](ReasonIO, "", at)) }, "dmabuf", "io_error", ""},
	{"V100 without NVLink, set to read", func(in *GDRInputs) {
		in.ComputeCap, in.NCCL = ok(70), withNCCL("NCCL_NET_GDR_READ", "1")
		beside(in, ok(false))
	}, "dmabuf", "yes", ""},
	{"H100, set not to read", func(in *GDRInputs) { in.NCCL = withNCCL("NCCL_NET_GDR_READ", "0") }, "dmabuf", "no", ""},
	{"A100 without NVLink", func(in *GDRInputs) { in.ComputeCap = ok(80); beside(in, ok(false)) }, "dmabuf", "yes", ""},

	{"nothing was read", func(in *GDRInputs) { *in = GDRInputs{} }, "not_read", "", "not known"},
}

func gdrWords(g GDR) (verdict, send string) {
	switch usable, known := g.Usable.Get(); {
	case known && usable:
		verdict = string(g.Path)
	case known:
		verdict = string(g.Block)
	default:
		verdict = string(g.Usable.Meta().Reason)
	}
	switch reads, known := g.Send.Get(); {
	case known && reads:
		send = "yes"
	case known:
		send = "no"
	default:
		send = string(g.Send.Meta().Reason)
	}
	return verdict, send
}

func TestGDR(t *testing.T) {
	blocks := map[GDRBlock]bool{}
	for _, c := range gdrTruths {
		in := nearby()
		c.edit(&in)
		g := evaluateGDR(in)
		verdict, send := gdrWords(g)
		t.Logf("%-48s %-11s send %-8s %s", c.name, verdict, send, g.Evidence)
		if verdict != c.verdict || send != c.send || !strings.Contains(g.Evidence, c.says) {
			t.Errorf("%s: want %s, send %q, %q", c.name, c.verdict, c.send, c.says)
		}
		usable, chosen := g.Usable.Or(false), g.Chosen.Or(false)
		if usable && !chosen || chosen != (g.Path != "") || (g.Block != "") != (g.Usable.State == OK && !usable) || g.Evidence == "" || chosen == (g.Send.State == Absent) {
			t.Errorf("%s: half a verdict %+v", c.name, g)
		}
		if named, _, _ := strings.Cut(g.Evidence, "="); g.Block == GDRLevel && g.Setting != named {
			t.Errorf("%s: the setting is %q, %s", c.name, g.Setting, g.Evidence)
		}
		blocks[g.Block] = true
	}
	for _, b := range []GDRBlock{GDRNoDriver, GDRNoGPU, GDRModule, GDROverride, GDRDistance, GDRLevel, GDRACS, GDRIOMMU} {
		if !blocks[b] {
			t.Errorf("no row of the table is blocked by %s", b)
		}
	}
}

// Whatever cannot be read, one or two inputs at once, what was blocked or unknown does not become usable, nor
// chosen, nor does NCCL come to read.
func TestGDRHiddenFactsNeverPass(t *testing.T) {
	count := 0
	for _, r := range []Reason{ReasonIO, ReasonNotRead} {
		for _, c := range gdrTruths {
			in := nearby()
			c.edit(&in)
			in.Others = slices.Clone(in.Others)
			was := evaluateGDR(in)
			hides := hideables(&in)
			for i, a := range hides {
				for _, b := range hides[i:] {
					showA, showB := a.hide(r), b.hide(r)
					count++
					is := evaluateGDR(in)
					if is.Usable.Or(false) && !was.Usable.Or(false) || is.Chosen.Or(false) && !was.Chosen.Or(false) || is.Send.Or(false) && !was.Send.Or(false) {
						t.Errorf("%s without %s and %s (%s): was %+v, is %+v", c.name, a.path, b.path, r, was, is)
					}
					showB()
					showA()
				}
			}
		}
	}
	t.Logf("%d verdicts", count)
}

func TestLevel(t *testing.T) {
	for text, want := range map[string]string{
		"LOC": "LOC", "NVL": "NVL", "NVB": "NVB", "C2C": "C2C", "PIX": "PIX", "PXB": "PXB", "P2C": "P2C", "PXN": "PXN", "PHB": "PHB", "SYS": "SYS",
		"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS", "99999999999999999999": "SYS", "0x2": "PXB", "03": "PHB", "2 # two": "PXB", "0x": "LOC",
		"": "", "pix": "", "PCI": "", " 2": "", "-1": "", "PIX ": "", "NODE": "", "+1": "",
	} {
		got := ""
		if level, ok := parseLevel(text); ok {
			got = level.String()
		}
		if got != want {
			t.Errorf("level %q is %q, want %q", text, got, want)
		}
	}
}

func FuzzParseLevel(f *testing.F) {
	for _, s := range []string{"PXB", "0x4", "08", "4294967296", "3\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if level, ok := parseLevel(s); ok && (level < pathLOC || level > pathSYS) {
			t.Errorf("%q is level %d", s, level)
		}
	})
}
