// SPDX-License-Identifier: Apache-2.0

// Package fabric is the domain: the training fabric of one node as plain data, and the pure functions over it
// (which GID NCCL chooses, what role a NIC has, which rate a port should have, whether RoCE is configured
// consistently).
//
// It imports the standard library and package counters only, and does no I/O. A *Node that the observer
// returns is immutable and may be read by any number of goroutines; nothing here locks. Functions return no
// errors: a value that is not known is an unknown Fact with a reason.
//
// A Fact is ok, absent or unknown. A missing file is never 0, and absent hardware is not an error. The code
// that walks, counts and hides facts (walk.go) follows from the fields of the types, so a new field needs no
// entry anywhere else.
//
// # RoCE chain
//
// The chain (rocechain*.go) follows what NCCL sends, in the order of the RoCEStep constants: GID, traffic
// class, DSCP, priority, PFC, 802.3x pause, buffer, ETS, ECN, congestion notifications. Each step is
// consistent, broken, unknown with a reason, or not applicable. The first broken step decides the verdict;
// without one, the first unknown step does. A port over a bond has one
// chain per member, and the worst one is the verdict of the port.
//
//   - An input that could not be read never makes a broken or unknown chain consistent. The truth table in
//     rocechain_test.go is tested for this with every pair of inputs hidden. "Missing" is knowledge only where it
//     identifies the driver (files of MLNX_OFED), or where the driver has no such setting and the site expects
//     none (buffers, ETS, ECN).
//   - Without expected.roce in the configuration, only contradictions break the chain: lossy fabrics are a valid
//     design. An NCCL_IB_TC that the host does not set is unknown, because jobs bring their own; the later steps
//     are then judged for what the site expects. RoCEInputs.JobTC stands for the value of a job; only
//     expected.roce sets it.
//   - Observed traffic (observeRoCE) comes from the last two readings of interface statistics and of RDMA
//     counters, each with its own window. Readings that are older or further apart than five minutes say nothing
//     about the present. Observed steps do not change the verdict, with one exception: when the only thing missing
//     is the traffic class of jobs, and nearly all RDMA bytes have the expected priority, it counts as right
//     (settle). Observed steps have no metrics, because alert rules see more than two readings; the landing page
//     and "check --interval" show them (internal/diagnose/roce/observed.go).
//
// # PCI bus
//
// pci*.go judges the path between a GPU and its NIC from their places in the device tree: distance
// (DistanceOf), rails, links below what both ends support (Shortfalls), and bridges that redirect
// peer-to-peer traffic (ACSRedirects).
//
//   - Distances are the classes of NCCL and NODE, which NCCL calls PHB. "nvidia-smi topo -m" prints the same words by
//     unpublished rules: it has no P2C, and on some boards it prints SYS where the NUMA node is the same
//     (NVIDIA/nccl#1264).
//   - Two switches that one chip shows as a cascade are two switches: PXB. NCCL merges the cascades of Broadcom
//     into one switch, which makes the distance PIX. The GPUDirect verdict does the same (OneSwitch), because
//     NCCL_NET_GDR_LEVEL=PIX distinguishes the two.
//   - Where a hypervisor placed functions on a host bridge without a port above them, or each on its own root
//     port, their distance is unknown: only the host knows it.
//   - Rails assign to each GPU one of its nearest compute NICs, GPUs with the fewest candidates first, as in a
//     collective that uses all of them.
//
// # Roles and expectations
//
// docs/ROLES.md is the whole of role.go and expect.go: who states role, link and rate of a port, and the
// guess where nobody does. A guess never counts NICs, compares boards or distances, or changes when a link
// fails, a driver leaves or a device hangs.
//
// # GPUDirect RDMA
//
// gpudirect*.go checks what NCCL checks, for each GPU and the NIC assigned to it: a driver, a GPU that
// supports it, a peer-memory module or dma-buf, and the distance against NCCL_NET_GDR_LEVEL. A known block
// decides whatever else is unknown, and hiding an input never makes GPUDirect RDMA usable.
//
//   - NCCL checks neither ACS nor the IOMMU: they decide GDR.Usable, not GDR.Chosen. They do not count in a guest
//     or with NVLink-C2C, and ACS does not count beyond PXB.
//   - A distance is too far only if NCCL's files were read, the GPU is known not to use C2C, and no GPU near the
//     NIC may be connected by NVLink (PXN).
//   - Where NCCL_TOPO_FILE or virtualTopology.xml gives NCCL the topology, the distance to NCCL is unknown,
//     whatever the bus shows.
//
// # Devices of pods
//
// A container runtime gives RDMA devices and their interfaces to pods by moving them to another network
// namespace. They leave the classes infiniband and net of the host, and the exporter never enters other
// namespaces. sysfs.FS.Moved detects them.
//
// A moved device stays in the node (HCA.Moved) with its name, its identity and its place on the bus, so
// roles, rails and PCIe links are judged as before. Everything else is unknown(moved). Such a fact makes no
// verdict, neither unknown nor ok: "check" reports it in a note, and hca_moved is its metric. Of a device
// that moved before the exporter started, not even the ports are known; it may be one of those that the site
// expects (MovedCompute).
package fabric
