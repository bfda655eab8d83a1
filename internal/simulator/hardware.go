// SPDX-License-Identifier: Apache-2.0

package simulator

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
