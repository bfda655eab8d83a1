// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net"
	"slices"
)

// rdmaDriver is what a driver of the kernel makes of its ports: constants, the GID table, which attributes exist,
// and the names of its counters (drivers/infiniband/hw in the kernel). What it only knows of some devices, as the
// rate, is part of the adapter.
type rdmaDriver struct {
	nodeType    string
	linkLayer   string
	aux         Aux                         // the name still without the number
	guid        func(net.HardwareAddr) GUID // nil: zero
	onePerCard  bool                        // the functions of a card have the same sys_image_guid
	description string                      // node_desc, until rdma-ndd changes it; empty: it has
	capMask     uint32
	lid, lmc    int // unless a subnet manager says otherwise
	pkeySlots   int
	gidSlots    int
	gidTypes    []string
	noLink      string

	pma    []counterSet // counters/ of a port
	hw     []counterSet // hw_counters/ of a port
	device []counterSet // hw_counters/ of the device
	cm     bool         // the connection manager serves it
}

// Node types.
const (
	nodeCA          = "1: CA"
	nodeUnspecified = "7: unspecified"
)

// The rates that drivers make up for a port without a link: mlx5 and mlx4 their default, others what the core
// makes of an interface without a speed (ib_get_eth_speed of drivers/infiniband/core/verbs.c).
const (
	mellanoxNoLink = "40 Gb/sec (4X QDR)"
	subnetNoLink   = "10 Gb/sec (4X SDR)"
	coreNoLink     = "2.5 Gb/sec (1X SDR)"
)

// The drivers. Nothing writes to them.
var (
	mlx5Ethernet = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf, onePerCard: true,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), hw: []counterSet{mlx5Queue, mlx5Congestion, mlx5Physical}, cm: true,
	}
	mlx5InfiniBand = rdmaDriver{
		nodeType: nodeCA, linkLayer: InfiniBand, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf, onePerCard: true,
		capMask: 0xa651e848, pkeySlots: 128, gidSlots: 8, noLink: subnetNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), hw: []counterSet{mlx5Queue, mlx5Physical}, cm: true,
	}
	// A virtual function may not ask for the counters of the physical port: reading those is EINVAL, which no plain
	// file can do. They are left out.
	mlx5Virtual = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: pmaTraffic, hw: []counterSet{mlx5Queue}, cm: true,
	}
	// Its hardware counters are those of the device, unless the firmware counts by port.
	mlx4 = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, guid: guidOf, onePerCard: true,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 128, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), device: []counterSet{mlx4Diagnostic}, cm: true,
	}
	bnxtRE = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"bnxt_en.rdma", "bnxt_re.rdma"}, guid: eui48,
		description: "Broadcom NetXtreme-C/E RoCE Driver HCA",
		capMask:     0x001d0000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{bnxtCounters}, cm: true,
	}
	irdma = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"ice.roce", "irdma.gen_2"}, guid: eui48,
		capMask: 0x00050000, lid: 1, pkeySlots: 1, gidSlots: 32, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{irdmaCounters}, cm: true,
	}
	// It has no links, subnet or Ethernet: what it prints about them are constants (efa_query_port). It is
	// the driver of the PCI function itself, and the connection manager does not serve it.
	efa = rdmaDriver{
		nodeType: nodeUnspecified, linkLayer: Unspecified, lmc: 1, pkeySlots: 1, gidSlots: 1,
		hw: []counterSet{efaPort}, device: []counterSet{efaDevice},
	}
	ionic = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"ionic.rdma", "ionic_rdma.rdma"}, guid: eui48,
		description: "AMD Pensando RoCE HCA",
		pkeySlots:   1, gidSlots: 256, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{ionicCounters}, cm: true,
	}
	mana = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mana.rdma", "mana_ib.rdma"}, guid: eui48,
		pkeySlots: 1, gidSlots: 16, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{manaPort}, device: []counterSet{manaDevice}, cm: true,
	}
)

// guids returns the GUIDs of a device with that MAC address on a card with that one.
func (d rdmaDriver) guids(mac, card string) (device, image GUID) {
	switch {
	case d.guid == nil:
		return 0, 0
	case d.onePerCard:
		return d.guid(macOf(mac)), d.guid(macOf(card))
	default:
		return d.guid(macOf(mac)), d.guid(macOf(mac))
	}
}

// port returns a port of this driver with that MAC address, a link and that traffic. The interface is the one
// that shares it, or nil.
func (d rdmaDriver) port(mac string, netdev *NetDev, t traffic) Port {
	p := Port{
		LinkLayer: d.linkLayer, State: active, PhysState: "5: LinkUp", NoLink: d.noLink, CapMask: d.capMask,
		LID: d.lid, LMC: d.lmc, PKeySlots: d.pkeySlots, GIDSlots: d.gidSlots, GIDTypes: slices.Clone(d.gidTypes),
		PMA: t.statistics(true, d.pma), HW: t.statistics(false, d.hw),
	}
	if netdev != nil {
		p.NetDev = netdev.Name
	}
	switch d.linkLayer {
	case Ethernet:
		p.GIDs = roceGIDs(netdev, d.gidTypes)
	case InfiniBand:
		p.GIDs = subnetGIDs(d.guid(macOf(mac)))
	default:
		p.GIDs = subnetGIDs(eui48(macOf(mac)))
	}
	if d.cm {
		p.CM = t.statistics(false, cmSets())
	}
	return p
}
