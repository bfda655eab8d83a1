// SPDX-License-Identifier: Apache-2.0

package fabric

// GPUDirect is what the kernel shows of the ways for a NIC to reach the memory of a GPU.
type GPUDirect struct {
	// Peermem is the module that lets RDMA drivers pin memory of GPUs; absent when none is loaded. NCCL looks at the
	// same files (ncclIbGdrModuleLoaded of transport/net_ib/gdr.cc).
	Peermem Fact[Peermem]
	// OpenModule says that the GPU driver's kernel module is the open one, which alone exports memory as dma-buf
	// (/proc/driver/nvidia/version); absent without a driver.
	OpenModule Fact[bool]
	// Driver is the version of the GPU driver's kernel module; absent without a driver.
	Driver Fact[string]
	// TopologyOverride is GrdmaPciTopoCheckOverride of /proc/driver/nvidia/params: 0 the driver decides, 1 allows
	// peer-to-peer whatever the topology, 2 forbids it.
	TopologyOverride Fact[int]
}

// Names of peer-memory modules.
const (
	ModuleNvidiaPeermem = "nvidia_peermem" // comes with the GPU driver
	ModuleNvPeerMem     = "nv_peer_mem"    // its predecessor, which was built apart
)

// Peermem is a loaded peer-memory module.
type Peermem struct {
	// Module is one of Module*, or empty where ib_core shows the client but the kernel no such module.
	Module  string
	Version Fact[string] // of the module
	// Bound says that it has registered with ib_core: a module that was built for another one is loaded and of no use.
	// Unknown where ib_core does not show its clients (/sys/kernel/mm/memory_peers).
	Bound Fact[bool]
	// Registered is how many memory regions of GPUs are registered now, over all processes: proof of use.
	Registered Fact[uint64]
}

// GDRPath is how GPUDirect RDMA would work.
type GDRPath string

// Ways of GPUDirect RDMA. NCCL prefers dma-buf.
const (
	GDRDMABuf  GDRPath = "dmabuf"
	GDRPeermem GDRPath = "peermem"
)

// GDRBlock is why NCCL would not use GPUDirect RDMA, or why it would not do any good.
type GDRBlock string

// Blocks, in the order in which they are reported. NCCL does not consider the last two.
const (
	GDRNoDriver GDRBlock = "driver"   // no GPU driver answers, or it lost the GPU
	GDRNoGPU    GDRBlock = "gpu"      // the product cannot do it
	GDRModule   GDRBlock = "module"   // neither a peer-memory module nor dma-buf
	GDROverride GDRBlock = "override" // a driver option denies it (GrdmaPciTopoCheckOverride=2)
	GDRDistance GDRBlock = "distance" // further than NCCL's default level
	GDRLevel    GDRBlock = "level"    // NCCL_NET_GDR_LEVEL of the host is set lower than the distance
	GDRACS      GDRBlock = "acs"      // a bridge redirects what they exchange
	GDRIOMMU    GDRBlock = "iommu"    // an IOMMU translates, on a machine that is not a guest
)

// Slow reports whether NCCL uses GPUDirect RDMA nevertheless, slowly: it looks neither at ACS nor at the IOMMU.
func (b GDRBlock) Slow() bool { return b == GDRACS || b == GDRIOMMU }

// GDR is whether NCCL would use GPUDirect RDMA between a GPU and the NIC that it is dealt. Derived by Node.DeriveGDR.
type GDR struct {
	GPU, NIC string // PCI address, RDMA device
	// Usable says that NCCL would use it, and that it does good. Absent without a NIC.
	Usable Fact[bool]
	// Chosen is the choice of NCCL, which does not consider ACS and IOMMU: it is also known where these cannot be read.
	Chosen Fact[bool]
	Path   GDRPath  // while chosen
	Block  GDRBlock // while known not to be usable: the first that applies
	// Setting is the variable of NCCL that allows no more, where that is the Block.
	Setting string
	// Via is the address of the GPU that NCCL goes through by NVLink, because it is near the NIC (PXN); empty otherwise.
	Via string
	// Send says that NCCL also reads GPU memory so when it sends (NCCL_NET_GDR_READ); absent unless chosen.
	Send Fact[bool]
	// Evidence says in words what the verdict comes from.
	Evidence string
}
