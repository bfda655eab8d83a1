// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const (
	devices = sysfs + "/devices"
	busPCI  = sysfs + "/bus/pci"
)

// pci lays out the PCI functions (Documentation/ABI/testing/sysfs-bus-pci in the kernel).
func (f files) pci(n *Node) {
	for _, fn := range n.Functions {
		dir := devices + "/" + fn.Path
		link, best := n.linkOf(fn)
		f.attrs(dir, map[string]string{
			"vendor":             fmt.Sprintf("0x%04x", fn.Chip.Vendor),
			"device":             fmt.Sprintf("0x%04x", fn.Chip.Device),
			"class":              fmt.Sprintf("0x%06x", fn.Chip.Class),
			"numa_node":          strconv.Itoa(fn.NUMA),
			"subsystem_vendor":   fmt.Sprintf("0x%04x", fn.Chip.Vendor),
			"subsystem_device":   fmt.Sprintf("0x%04x", fn.Chip.board()),
			"current_link_speed": link.Speed,
			"current_link_width": strconv.Itoa(link.Width),
			"max_link_speed":     best.Speed,
			"max_link_width":     strconv.Itoa(best.Width),
			"aer_dev_correctable": fmt.Sprintf("RxErr 0\nBadTLP %[1]d\nBadDLLP 0\nTOTAL_ERR_COR %[1]d",
				fn.AER.Correctable.value()),
			"aer_dev_nonfatal":     fmt.Sprintf("Undefined 0\nTLP %[1]d\nTOTAL_ERR_NONFATAL %[1]d", fn.AER.NonFatal.value()),
			"aer_dev_fatal":        fmt.Sprintf("Undefined 0\nDLP %[1]d\nTOTAL_ERR_FATAL %[1]d", fn.AER.Fatal.value()),
			"power/runtime_status": fn.runtimeStatus(),
		})
		if fn.VPD != "" {
			f[dir+"/vpd"] = entry{kind: regular, text: fn.VPD}
		}
		f[dir+"/config"] = entry{kind: regular, text: fn.config()}
		if kind := n.Host.iommu(); kind != "" {
			group := sysfs + "/kernel/iommu_groups/" + strconv.Itoa(fn.Group)
			f.text(group+"/type", kind)
			f.link(dir+"/iommu_group", group)
		}
		if fn.VFs > 0 {
			vfs := n.virtualFunctions(fn.Address())
			f.attrs(dir, map[string]string{"sriov_totalvfs": strconv.Itoa(fn.VFs), "sriov_numvfs": strconv.Itoa(len(vfs))})
			for i, vf := range vfs {
				f.link(dir+"/virtfn"+strconv.Itoa(i), devices+"/"+vf.Path)
				f.link(devices+"/"+vf.Path+"/physfn", dir)
			}
		}
		f.link(busPCI+"/devices/"+fn.Address(), dir)
		f.link(dir+"/subsystem", busPCI)
		if n.bound(fn) {
			driver := busPCI + "/drivers/" + fn.Chip.Driver
			f.link(driver+"/"+fn.Address(), dir)
			f.link(dir+"/driver", driver)
		}
	}
}

// board is the id that a chip has beside that of its kind, of its own vendor. That of switches matters to NCCL.
func (c Chip) board() int {
	switch c {
	case pex88096:
		return 0xa096
	case pex89144:
		return 0x100b
	default:
		return 1
	}
}

// iommu is the type of the groups of the IOMMU; empty where it is off.
func (h Host) iommu() string {
	switch on := func(option string) bool { return slices.Contains(strings.Fields(h.Cmdline), option) }; {
	case on("iommu=pt"), on("iommu.passthrough=1"):
		return "identity"
	case on("intel_iommu=on"):
		return "DMA-FQ"
	default:
		return ""
	}
}

// bound reports whether the driver of a function is loaded.
func (n *Node) bound(f Function) bool {
	if f.Chip.Driver == "" {
		return false
	}
	return n.Driver.Version != "" || f.Chip.Vendor != nvidia || f.Chip.Driver == passThrough || f.Chip.Class == classBridge
}

// above returns the bridge that leads to a function, or nil.
func (n *Node) above(f *Function) *Function {
	return lookup(n.Functions, func(b Function) bool { return b.Path == path.Dir(f.Path) })
}

// ancestor is how NVML calls the way between two functions (nvmlGpuTopologyLevel_t).
func (n *Node) ancestor(a, b string) fabric.Distance {
	f, g := n.Function(a), n.Function(b)
	left, right := strings.Split(f.Path, "/"), strings.Split(g.Path, "/")
	shared := 0
	for shared < min(len(left), len(right)) && left[shared] == right[shared] {
		shared++
	}
	// After the host bridge and the root port, a switch is an upstream and a downstream port.
	switch bridges := max(len(left), len(right)) - 1 - shared; {
	case shared >= 2 && bridges <= 1:
		return fabric.DistancePIX
	case shared >= 2:
		return fabric.DistancePXB
	case shared == 1:
		return fabric.DistancePHB
	case f.NUMA == g.NUMA:
		return fabric.DistanceNODE
	default:
		return fabric.DistanceSYS
	}
}

// virtualFunctions returns the virtual functions of the physical one at that address.
func (n *Node) virtualFunctions(address string) []Function {
	var vfs []Function
	for _, f := range n.Functions {
		if f.PF == address {
			vfs = append(vfs, f)
		}
	}
	return vfs
}

// depth counts the functions above.
func (f Function) depth() int {
	n := 0
	for dir := path.Dir(f.Path); strings.Count(dir, "/") > 0; dir = path.Dir(dir) {
		n++
	}
	return n
}

// leadsDown reports whether the function is a root port or a downstream port, whose link is the one below it.
func (f Function) leadsDown() bool { return f.Chip.Class == classBridge && f.depth()%2 == 0 }

// linkOf returns the link of a function and the best that the function could do there. Both ends of a link report the
// same of it. A virtual function has none.
func (n *Node) linkOf(f Function) (now Link, best Link) {
	if f.PF != "" {
		return Link{Speed: "Unknown"}, Link{Speed: "Unknown"}
	}
	now = f.Link
	if f.leadsDown() {
		for _, below := range n.Functions {
			if path.Dir(below.Path) == f.Path {
				now = below.Link
				break
			}
		}
	}
	return now, f.Chip.Link
}

func (f Function) runtimeStatus() string {
	if f.Asleep {
		return "suspended"
	}
	return "active"
}

// config is configuration space: the header, the PCI Express capability, and on ports that lead down ACS
// (include/uapi/linux/pci_regs.h).
func (f Function) config() string {
	const capabilities, express, advancedErrors, acs = 0x40, 0x60, 0x100, 0x148
	b := make([]byte, 4096)
	set16 := func(at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
	set16(0x00, f.Chip.Vendor)
	set16(0x02, f.Chip.Device)
	set16(0x06, 0x10) // it has capabilities
	b[0x09], b[0x0a], b[0x0b] = byte(f.Chip.Class), byte(f.Chip.Class>>8), byte(f.Chip.Class>>16)
	if f.Chip.Class == classBridge {
		b[0x0e] = 1
	}
	b[0x34] = capabilities
	b[capabilities], b[capabilities+1] = 0x01, express // power management comes first
	b[express] = 0x10
	control := code(f.DMA.MaxPayload)<<5 | code(f.DMA.MaxRead)<<12 | 1<<11
	if f.DMA.Relaxed {
		control |= 1 << 4
	}
	set16(express+0x08, control)
	set16(advancedErrors, 0x0001)
	if f.leadsDown() {
		set16(advancedErrors+2, acs<<4|1)
		set16(acs, 0x000d)
		set16(acs+2, 1)
		set16(acs+4, 0x5f)
		set16(acs+6, f.ACS)
	}
	return string(b)
}

// code is how registers say a size in bytes.
func code(size int) uint16 { return uint16(bits.Len(uint(size / 256))) }

// gpuDriver lays out what NVIDIA's kernel modules show of themselves: the modules, the clients of ib_core's peer memory
// and /proc/driver/nvidia.
func (f files) gpuDriver(n *Node) {
	d := n.Driver
	if d.Peermem.Clients {
		f.dir(memoryPeers)
	}
	if d.Version == "" {
		return
	}
	f.module("nvidia", d.Version)
	f.module("nvidia_uvm", d.Version)
	f.text(procfs+"/driver/nvidia/version", d.banner(n.Host.isARM()))
	f.text(procfs+"/driver/nvidia/params", d.params())
	p := d.Peermem
	if p.Module == "" {
		return
	}
	f.module(p.Module, p.Version)
	if p.Module == "nvidia_peermem" {
		f.attrs(modules+"/"+p.Module+"/parameters", map[string]string{
			"peerdirect_support":     "0",
			"persistent_api_support": "1",
		})
	}
	if p.Bound {
		f.peerClient(p)
	}
}

const (
	modules     = sysfs + "/module"
	memoryPeers = sysfs + "/kernel/mm/memory_peers"
)

func (f files) module(name, version string) {
	f.attrs(modules+"/"+name, map[string]string{"version": version, "initstate": "live", "refcnt": "8"})
}

// peerClient is what ib_core shows of the client nv_mem (peer_mem.c of MLNX_OFED), under which both modules register.
func (f files) peerClient(p Peermem) {
	const region, page = 4 << 20, 64 << 10 // bytes
	took := p.Allocated.value()
	gave := took - p.Registered
	f.text(memoryPeers+"/nv_mem/version", p.Version)
	for name, v := range map[string]uint64{
		"num_alloc_mrs": took, "num_dealloc_mrs": gave, "num_reg_pages": took * region / page,
		"num_dereg_pages": gave * region / page,
		"num_reg_bytes":   took * region, "num_dereg_bytes": gave * region, "num_free_callbacks": 0,
	} {
		f.text(memoryPeers+"/nv_mem/"+name, strconv.FormatUint(v, 10))
	}
}

// banner is /proc/driver/nvidia/version. The machine that built it is assumed.
func (d GPUDriver) banner(arm bool) string {
	machine := "x86_64"
	if arm {
		machine = "aarch64"
	}
	kind := machine + " Kernel Module  "
	if d.Open {
		kind = "Open Kernel Module for " + machine + "  "
	}
	return "NVRM version: NVIDIA UNIX " + kind + d.Version +
		"  Release Build  (dvs-builder@U22-I3-AF03-09-1)  Sun Jul 27 06:55:30 UTC 2025\n" +
		"GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)"
}

// params is an excerpt of /proc/driver/nvidia/params. The proprietary modules of the platforms are too old to have
// GrdmaPciTopoCheckOverride.
func (d GPUDriver) params() string {
	var b strings.Builder
	b.WriteString("ResmanDebugLevel: 4294967295\nRmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n" +
		"UsePageAttributeTable: 4294967295\nEnableMSI: 1\nEnablePCIeGen3: 0\nMemoryPoolSize: 0\nKMallocHeapMaxSize: 0\nVMallocHeapMaxSize: 0\n" +
		"IgnoreMMIOCheck: 0\nEnableStreamMemOPs: 0\nEnablePCIERelaxedOrderingMode: 0\n")
	if d.Open {
		fmt.Fprintf(&b, "GrdmaPciTopoCheckOverride: %d\nCoherentGPUMemoryMode: \"\"\n", d.TopologyOverride)
	}
	b.WriteString("RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\nRmMsg: \"\"\n" +
		"GpuBlacklist: \"\"\nTemporaryFilePath: \"\"\nExcludedGpus: \"\"")
	return b.String()
}
