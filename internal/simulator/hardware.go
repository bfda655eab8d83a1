// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"gpufabric_exporter/internal/fabric"
)

// PCI Express links of the generations in use.
const (
	gen1 = "2.5 GT/s PCIe"
	gen2 = "5.0 GT/s PCIe"
	gen3 = "8.0 GT/s PCIe"
	gen4 = "16.0 GT/s PCIe"
	gen5 = "32.0 GT/s PCIe"
	gen6 = "64.0 GT/s PCIe"
)

// PCI class codes.
const (
	classEthernet   = 0x020000
	classInfiniband = 0x020700
	class3D         = 0x030200
	classBridge     = 0x060400
	classOther      = 0x068000 // a bridge of another kind: NVSwitch
	classDMA        = 0x080100
	classProcessing = 0x120000
)

// PCI vendors.
const (
	amazon    = 0x1d0f
	amd       = 0x1022
	ati       = 0x1002 // AMD's GPUs
	broadcom  = 0x1000 // switches
	intel     = 0x8086
	mellanox  = 0x15b3
	microsoft = 0x1414
	netXtreme = 0x14e4 // Broadcom's NICs
	nvidia    = 0x10de
	pensando  = 0x1dd8
)

// The chips that the platforms are made of. Nothing writes to them.
var (
	sapphireRapids = Chip{intel, 0x352a, classBridge, "pcieport", Link{gen5, 16}}
	grace          = Chip{nvidia, 0x22b2, classBridge, "pcieport", Link{gen5, 16}}
	rome           = Chip{amd, 0x1483, classBridge, "pcieport", Link{gen4, 16}}
	pex89144       = Chip{broadcom, 0xc030, classBridge, "pcieport", Link{gen5, 16}}
	pex88096       = Chip{broadcom, 0xc010, classBridge, "pcieport", Link{gen4, 16}}

	connectX7   = Chip{mellanox, 0x1021, classEthernet, "mlx5_core", Link{gen5, 16}}
	connectX7VF = Chip{mellanox, 0x101e, classEthernet, "mlx5_core", Link{gen5, 16}}
	connectX7IB = Chip{mellanox, 0x1021, classInfiniband, "mlx5_core", Link{gen5, 16}}
	connectX7VI = Chip{mellanox, 0x101e, classInfiniband, "mlx5_core", Link{gen5, 16}} // virtual
	connectX8   = Chip{mellanox, 0x1023, classEthernet, "mlx5_core", Link{gen6, 16}}
	connectX8IB = Chip{mellanox, 0x1023, classInfiniband, "mlx5_core", Link{gen6, 16}}
	dataDirect  = Chip{mellanox, 0x2100, classDMA, "mlx5_core", Link{gen6, 16}} // of ConnectX-8
	connectX6   = Chip{mellanox, 0x101b, classEthernet, "mlx5_core", Link{gen4, 16}}
	connectX6IB = Chip{mellanox, 0x101b, classInfiniband, "mlx5_core", Link{gen4, 16}}
	connectX6Dx = Chip{mellanox, 0x101d, classEthernet, "mlx5_core", Link{gen4, 16}}
	connectX3   = Chip{mellanox, 0x1007, classEthernet, "mlx4_core", Link{gen3, 8}}
	bluefield3  = Chip{mellanox, 0xa2dc, classEthernet, "mlx5_core", Link{gen5, 16}}
	thor2       = Chip{netXtreme, 0x1760, classEthernet, "bnxt_en", Link{gen5, 16}}
	bcm57414    = Chip{netXtreme, 0x16d7, classEthernet, "bnxt_en", Link{gen3, 8}}
	e810        = Chip{intel, 0x1592, classEthernet, "ice", Link{gen4, 16}}
	pollara     = Chip{pensando, 0x1002, classEthernet, "ionic", Link{gen5, 16}}
	efaNIC      = Chip{amazon, 0xefa2, classEthernet, "efa", Link{gen4, 8}}
	ena         = Chip{amazon, 0xec20, classEthernet, "ena", Link{gen4, 8}}
	manaNIC     = Chip{microsoft, 0x00ba, classEthernet, "mana", Link{gen4, 8}}
	i210        = Chip{intel, 0x1533, classEthernet, "igb", Link{gen1, 1}}
)

// gpuModel is a kind of GPU.
type gpuModel struct {
	chip       Chip
	product    string
	capability int    // compute capability times ten
	memory     uint64 // MiB, as nvidia-smi shows
	bar1       uint64 // MiB
	mig        bool
	nvlinks    int
	nvlinkGen  int
	linkSpeed  float64 // bytes per second in each direction of one NVLink
}

// The GPUs. Nothing writes to them.
var (
	a100SXM = gpuModel{
		Chip{nvidia, 0x20b0, class3D, "nvidia", Link{gen4, 16}},
		"NVIDIA A100-SXM4-40GB", 80, 40960,
		65536, true, 12, 3, 25e9,
	}
	a100PCIe = gpuModel{
		Chip{nvidia, 0x20b5, class3D, "nvidia", Link{gen4, 16}},
		"NVIDIA A100 80GB PCIe", 80, 81920,
		131072, true, 12, 3, 25e9,
	}
	h100SXM = gpuModel{
		Chip{nvidia, 0x2330, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA H100 80GB HBM3", 90, 81559,
		131072, true, 18, 4, 26.562e9,
	}
	h100PCIe = gpuModel{
		Chip{nvidia, 0x2331, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA H100 PCIe", 90, 81559, 131072,
		true, 18, 4, 25e9,
	}
	h100NVL = gpuModel{
		Chip{nvidia, 0x2321, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA H100 NVL", 90, 95830, 131072,
		true, 18, 4, 25e9,
	}
	h200SXM = gpuModel{
		Chip{nvidia, 0x2335, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA H200", 90, 143771, 262144, true,
		18, 4, 26.562e9,
	}
	b200SXM = gpuModel{
		Chip{nvidia, 0x2901, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA B200", 100, 183359, 262144,
		true, 18, 5, 50e9,
	}
	gb200 = gpuModel{
		Chip{nvidia, 0x2941, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA GB200", 100, 189471, 262144,
		true, 18, 5, 50e9,
	}
	b300SXM = gpuModel{
		Chip{nvidia, 0x3182, class3D, "nvidia", Link{gen6, 16}},
		"NVIDIA B300 SXM6 AC", 103, 275040,
		524288, true, 18, 5, 50e9,
	}
	gb300 = gpuModel{
		Chip{nvidia, 0x31c2, class3D, "nvidia", Link{gen6, 16}},
		"NVIDIA GB300", 103, 284208, 524288,
		true, 18, 5, 50e9,
	}
	gb10 = gpuModel{
		Chip{nvidia, 0x2e12, class3D, "nvidia", Link{gen5, 16}},
		"NVIDIA GB10", 121, 122880, 0, false, 0,
		0, 0,
	}
	l40s = gpuModel{
		Chip{nvidia, 0x26b9, class3D, "nvidia", Link{gen4, 16}},
		"NVIDIA L40S", 89, 46068, 65536, false,
		0, 0, 0,
	}
	mi300X = gpuModel{
		chip:    Chip{ati, 0x74a1, classProcessing, "amdgpu", Link{gen5, 16}},
		product: "AMD Instinct MI300X OAM",
	}

	nvSwitch2 = Chip{nvidia, 0x1af1, classOther, "nvidia-nvswitch", Link{gen4, 2}} // of A100
	nvSwitch3 = Chip{nvidia, 0x22a3, classOther, "nvidia-nvswitch", Link{gen4, 2}} // of H100
)

const mebibyte = 1 << 20

// errorKinds are the errors that a generation of NVLink counts.
func errorKinds(gen int) []fabric.NVLinkError {
	if gen < 5 {
		return []fabric.NVLinkError{fabric.NVLinkReplay, fabric.NVLinkRecovery, fabric.NVLinkCRC}
	}
	return []fabric.NVLinkError{
		fabric.NVLinkRecovery, fabric.NVLinkRecoveryFailed, fabric.NVLinkReceive, fabric.NVLinkLocalIntegrity,
		fabric.NVLinkTransmitDiscards,
		fabric.NVLinkEffectiveErrors,
	}
}

// gpu returns a GPU of this model in a machine that trains: one process has nearly all of its memory.
func (m gpuModel) gpu(host, address string, index int) GPU {
	g := GPU{PCI: address, Name: m.product, MemoryNode: noNUMA}
	if m.chip.Vendor != nvidia {
		return g
	}
	g.UUID, g.Capability, g.Memory, g.BAR1 = uuidOf(host, address), m.capability, m.memory*mebibyte, m.bar1*mebibyte
	g.Load, g.Mode, g.Divisible, g.Persistence = 98, fabric.ComputeDefault, m.mig, true
	g.UnknownMemory = 500 * mebibyte // the driver's own
	g.Processes = []Process{{PID: 41200 + 7*index, Kind: fabric.GPUCompute, Memory: m.memory / 100 * 91 * mebibyte}}
	for range m.nvlinks {
		l := NVLink{Speed: m.linkSpeed}
		for _, kind := range errorKinds(m.nvlinkGen) {
			l.Errors = append(l.Errors, NVLinkErrors{Kind: kind})
		}
		g.Links = append(g.Links, l)
	}
	return g
}

// openDriver is NVIDIA's driver with the open kernel modules.
func openDriver(version, cuda string) GPUDriver {
	return GPUDriver{Version: version, CUDA: cuda, Open: true}
}

// closedDriver is NVIDIA's driver with the proprietary kernel modules. A training job uses its peer memory.
func closedDriver(version, cuda string) GPUDriver {
	return GPUDriver{Version: version, CUDA: cuda, Peermem: Peermem{
		Module: "nvidia_peermem", Version: version, Clients: true, Bound: true,
		Registered: 1042, Allocated: Counter{Start: 20_846, PerStep: 2, Every: 30},
	}}
}

// addSwitches adds NVSwitches and leads the NVLinks of all GPUs to them, as many of each GPU to the i-th as links says.
func (n assembly) addSwitches(c Chip, slots []slot, links ...int) {
	var remotes []string
	for i, s := range slots {
		address := n.addFunction(c, s.path, s.numa, 0)
		for range links[i] {
			remotes = append(remotes, address)
		}
	}
	n.linkToSwitches(remotes)
}

// linkToSwitches makes all NVLinks active. Without remotes NVML does not report the addresses of the switches.
func (n assembly) linkToSwitches(remotes []string) {
	for i := range n.GPUs {
		for k := range n.GPUs[i].Links {
			l := &n.GPUs[i].Links[k]
			l.Active, l.Kind = true, fabric.NVLinkToSwitch
			if remotes != nil {
				l.Remote = remotes[k]
			}
		}
	}
}

// register registers all GPUs with fabric manager or, in a domain of several nodes, with IMEX.
func (n assembly) register(cluster string, clique int) {
	for i := range n.GPUs {
		n.GPUs[i].NVSwitch = fabric.GPUFabric{
			State: fabric.GPUFabricCompleted, Status: "success", Clique: clique,
			Cluster: cluster,
		}
	}
}

// oneBoard is the cluster of GPUs that no NVLink leads out of the machine.
const oneBoard = "00000000-0000-0000-0000-000000000000"

// bridge puts NVLink bridges between two GPUs: all their links.
func (n assembly) bridge(a, b int) {
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		for k := range n.GPUs[pair[0]].Links {
			l := &n.GPUs[pair[0]].Links[k]
			l.Active, l.Kind, l.Remote = true, fabric.NVLinkToGPU, n.GPUs[pair[1]].PCI
		}
	}
}
