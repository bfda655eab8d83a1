// SPDX-License-Identifier: Apache-2.0

package simulator

// PCI Express links of the generations in use.
const (
	gen1 = "2.5 GT/s PCIe"
	gen4 = "16.0 GT/s PCIe"
	gen5 = "32.0 GT/s PCIe"
)

// PCI class codes.
const (
	classEthernet   = 0x020000
	classInfiniband = 0x020700
	class3D         = 0x030200
	classBridge     = 0x060400
)

// PCI vendors.
const (
	amd      = 0x1022
	broadcom = 0x1000
	intel    = 0x8086
	mellanox = 0x15b3
	nvidia   = 0x10de
)

// The chips that the platforms are made of. Nothing writes to them.
var (
	sapphireRapids = Chip{intel, 0x352a, classBridge, "pcieport", Link{gen5, 16}}
	rome           = Chip{amd, 0x1483, classBridge, "pcieport", Link{gen4, 16}}
	pex89144       = Chip{broadcom, 0xc030, classBridge, "pcieport", Link{gen5, 16}}
	pex88096       = Chip{broadcom, 0xc010, classBridge, "pcieport", Link{gen4, 16}}

	h100SXM = Chip{nvidia, 0x2330, class3D, "nvidia", Link{gen5, 16}}
	a100SXM = Chip{nvidia, 0x20b0, class3D, "nvidia", Link{gen4, 16}}

	connectX7   = Chip{mellanox, 0x1021, classEthernet, "mlx5_core", Link{gen5, 16}}
	connectX6   = Chip{mellanox, 0x101b, classEthernet, "mlx5_core", Link{gen4, 16}}
	connectX6IB = Chip{mellanox, 0x101b, classInfiniband, "mlx5_core", Link{gen4, 16}}
	bluefield3  = Chip{mellanox, 0xa2dc, classEthernet, "mlx5_core", Link{gen5, 16}}
	i210        = Chip{intel, 0x1533, classEthernet, "igb", Link{gen1, 1}}
)
