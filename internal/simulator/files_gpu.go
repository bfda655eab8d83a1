// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"strings"
)

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
		f.attrs(modules+"/"+p.Module+"/parameters", map[string]string{"peerdirect_support": "0", "persistent_api_support": "1"})
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
		"num_alloc_mrs": took, "num_dealloc_mrs": gave, "num_reg_pages": took * region / page, "num_dereg_pages": gave * region / page,
		"num_reg_bytes": took * region, "num_dereg_bytes": gave * region, "num_free_callbacks": 0,
	} {
		f.text(memoryPeers+"/nv_mem/"+name, strconv.FormatUint(v, 10))
	}
}

// banner is /proc/driver/nvidia/version. The machine that built it is made up.
func (d GPUDriver) banner(arm bool) string {
	machine := "x86_64"
	if arm {
		machine = "aarch64"
	}
	kind := machine + " Kernel Module  "
	if d.Open {
		kind = "Open Kernel Module for " + machine + "  "
	}
	return "NVRM version: NVIDIA UNIX " + kind + d.Version + "  Release Build  (dvs-builder@U22-I3-AF03-09-1)  Sun Jul 27 06:55:30 UTC 2025\n" +
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
	b.WriteString("RegistryDwords: \"\"\nRegistryDwordsPerDevice: \"\"\nRmMsg: \"\"\nGpuBlacklist: \"\"\nTemporaryFilePath: \"\"\nExcludedGpus: \"\"")
	return b.String()
}
