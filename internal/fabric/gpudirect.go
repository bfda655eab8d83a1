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

// Peermem is a loaded peer-memory module.
type Peermem struct {
	Module  string       // "nvidia_peermem", "nv_peer_mem"
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

// Blocks, in the order in which they are told.
const (
	GDRNoDriver GDRBlock = "driver"   // no GPU driver answers
	GDRModule   GDRBlock = "module"   // neither a peer-memory module nor dma-buf
	GDRDistance GDRBlock = "distance" // further than NCCL's default level
	GDRLevel    GDRBlock = "level"    // NCCL_NET_GDR_LEVEL of the host is set lower than the distance
	GDRACS      GDRBlock = "acs"      // a bridge redirects what they exchange
	GDRIOMMU    GDRBlock = "iommu"    // an IOMMU translates, on a machine that is not a guest
)

// GDRBlocks returns all of them.
func GDRBlocks() []GDRBlock {
	return []GDRBlock{GDRNoDriver, GDRModule, GDRDistance, GDRLevel, GDRACS, GDRIOMMU}
}

// GDR is whether NCCL would use GPUDirect RDMA between a GPU and the NIC that it is dealt. Derived by Node.Derive.
type GDR struct {
	GPU, NIC string // PCI address, RDMA device
	// Usable is absent without a NIC.
	Usable Fact[bool]
	Path   GDRPath  // while usable
	Block  GDRBlock // while not usable: the first that applies
	// Send says that NCCL also reads GPU memory so when it sends (NCCL_NET_GDR_READ); absent unless usable.
	Send Fact[bool]
	// Evidence says in words what the verdict comes from.
	Evidence string
}
