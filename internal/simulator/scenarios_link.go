// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
)

const ncclConf = "etc/nccl.conf"

// scenarios returns the tables of all scenarios. A new one is an entry there, with an edit below if none fits.
func scenarios() []Scenario {
	return slices.Concat(linkScenarios(), counterScenarios(), qosScenarios(),
		gpuScenarios(), hostScenarios(), jobScenarios(), jobTrapScenarios(),
		rasScenarios(), logScenarios(), inspectorScenarios())
}

// linkScenarios are about links, addresses and GIDs.
func linkScenarios() []Scenario {
	return []Scenario{
		{
			Name: "port-down", Platform: h100,
			Summary: "the link of one compute port is down",
			Truth: "mlx5_3 is down and disabled; its seven peers are active. The kernel prints 40 Gb/s for it, as mlx5 does " +
				"for every port without a link: the rate is unknown, and the missing link is reported instead of a slow one.",
			Expect:  []Finding{{"mlx5_3", 1, "port_down"}},
			differs: `down:mlx5_3,enp94s0np0`,
			edit:    func(n *Node) { n.LinkDown("mlx5_3") },
		},
		{
			Name: "port-down-of-128", Platform: "sriov-rails",
			Summary: "the link of one of 16 compute ports is down on a node with 128 ports",
			Truth: "mlx5_9 is down, and with it its seven virtual functions, mlx5_79 to mlx5_85, which are not reported: " +
				"they are no compute ports of this node. The other 15 ports are active.",
			Expect:  []Finding{{"mlx5_9", 1, "port_down"}},
			differs: `down:mlx5_(9|79|8[0-5]),rdma9(v\d)?`,
			edit: func(n *Node) {
				n.LinkDown("mlx5_9")
				for vf := 79; vf <= 85; vf++ {
					n.LinkDown(fmt.Sprintf("mlx5_%d", vf))
				}
			},
		},
		{
			Name: "link-flapping", Platform: h100,
			Summary: "the link of one compute port is flapping",
			Truth: "mlx5_4 is active for 40 seconds of each minute and down for the other 20. A single reading shows a " +
				"healthy port or a dead one; only the history shows a bad cable or transceiver.",
			Expect:   []Finding{{"mlx5_4", 1, "link_flapping"}},
			OverTime: true,
			differs:  `down:mlx5_4,enp154s0np0`,
			edit:     func(n *Node) { n.Flaps = append(n.Flaps, Flap{Device: "mlx5_4", Period: 60, Down: 20}) },
		},
		{
			Name: "device-gone", Platform: h100,
			Summary: "one compute HCA has fallen off the PCI bus",
			Truth: "mlx5_5 is missing: no RDMA device, no interface, no PCI function. The node has seven compute ports; the " +
				"site expects eight. The hardware that is present looks healthy, so without that expectation nothing could be " +
				"reported. The GPU next to it is left with the NIC of a neighbor: NCCL reaches it over NVLink (PXN) and uses " +
				"GPUDirect RDMA.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			differs: `sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)? sys/class/infiniband/mlx5_5
				sys/class/infiniband_verbs/uverbs5 sys/class/net/enp192s0np0 sys/bus/pci/.*/0000:c0:00\.0
				sys/bus/auxiliary/.*/mlx5_core\.rdma\.5 sys/kernel/iommu_groups/\d+(/.*)? v4
				eth:enp192s0np0(/.*)?`,
			edit: func(n *Node) { n.Unplug("mlx5_5") },
		},
		{
			Name: "no-rdma", Platform: h100,
			Summary: "the RDMA modules are not loaded, so there are no RDMA devices",
			Truth: "The NICs and their interfaces work, but the kernel has no RDMA class. The exporter works without it. The " +
				"site expects eight compute ports and has none, and NCCL would use TCP sockets on bond0.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			GDR:    []GDRLabel{{NoNIC: true}},
			differs: `sys/class/infiniband(_verbs)?(/.*)? sys/devices/.*/infiniband(_verbs)?(/.*)?
				sys/(bus/auxiliary|devices/.*/mlx5_core\.rdma\.\d+)(/.*)?`,
			edit: func(n *Node) { n.HCAs = nil },
		},
		{
			Name: "rate-degraded", Platform: h100,
			Summary: "one compute port has come up at half its rate",
			Truth: "mlx5_6 lost two of its four lanes and runs at 200 Gb/s, as its interface also reports. Peers run at 400 " +
				"Gb/s, which the site expects. The slowest rail sets the speed of every collective.",
			Expect:  []Finding{{"mlx5_6", 1, "rate_below_expected"}},
			differs: `port:mlx5_6/rate net:enp206s0np0/speed`,
			edit: func(n *Node) {
				p := &n.HCA("mlx5_6").Ports[0]
				p.Rate = "200 Gb/sec (2X NDR)"
				n.NetDev(p.NetDev).Speed = 200_000
			},
		},
		{
			Name: "rate-mismatch", Platform: h100,
			Summary: "RDMA reports a wrong, low rate for one compute port that runs at full speed",
			Truth: "The interface of mlx5_1 negotiated 400 Gb/s; the RDMA stack, which does not know that mode, prints 10 " +
				"Gb/s. The link is fine. NCCL trusts the 10 Gb/s and plans its rings accordingly.",
			Expect:  []Finding{{"mlx5_1", 1, "rate_mismatch"}},
			differs: `port:mlx5_1/rate`,
			edit:    func(n *Node) { n.HCA("mlx5_1").Ports[0].Rate = "10 Gb/sec (4X SDR)" },
		},
		{
			Name: "gid-missing", Platform: h100,
			Summary: "one compute port has lost its IPv4 address and therefore its GIDs",
			Truth: "The interface of mlx5_2 is up but has no address. Only the link-local entries 0 and 1 remain in the GID " +
				"table. NCCL selects entry 0, which is RoCE v1 and not routable, and the connection over this rail fails.",
			Expect: []Finding{{"mlx5_2", 1, "no_routable_gid"}},
			differs: `port:mlx5_2/<moving> port:mlx5_2/(gids|gid_attrs/types|gid_attrs/ndevs)/[23] v4
				eth:enp79s0np0/stats/<rdma>`,
			edit: func(n *Node) {
				n.SetAddrs("enp79s0np0")
				slow(n, "mlx5_2", math.MaxUint64) // nothing arrives
			},
		},
		{
			Name: "gid-roce-v1-only", Platform: h100,
			Summary: "one compute port offers RoCE v1 only",
			Truth: "mlx5_7 has its address, but only as RoCE v1: routers do not forward such frames, and they carry no DSCP " +
				"for the switches. The other rails use RoCE v2.",
			Expect:  []Finding{{"mlx5_7", 1, "no_routable_gid"}},
			differs: `port:mlx5_7/gids/[123] port:mlx5_7/gid_attrs/types/[123] port:mlx5_7/gid_attrs/ndevs/[23]`,
			edit:    roceV1Only,
		},
		{
			Name: "gid-index-pinned", Platform: h100,
			Summary: "NCCL is pinned to GID index 3, which is RoCE v1 on one port",
			Truth: "NCCL_IB_GID_INDEX=3 is correct for seven rails. On mlx5_2 a process held the old entry 2 while the " +
				"address was configured again, so the new entries are 3 and 4, and index 3 is RoCE v1. NCCL does not verify the " +
				"index. Without the setting it would select index 4.",
			Expect:  []Finding{{"mlx5_2", 1, "gid_index_wrong"}},
			differs: `port:mlx5_2/gids/[24] port:mlx5_2/gid_attrs/types/[234] port:mlx5_2/gid_attrs/ndevs/[24] nccl`,
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_GID_INDEX=3\n"
				gids := n.HCA("mlx5_2").Ports[0].GIDs
				gids[2].Index, gids[3].Index = 3, 4
			},
		},
		{
			Name: "ipv6-only", Platform: h100,
			Summary: "healthy node with IPv6 addresses only",
			Truth: "Every interface has one IPv6 address, the default route is an IPv6 route, and " +
				"NCCL_IB_ADDR_FAMILY=AF_INET6 is set. NCCL selects index 3 on every rail. Nothing is reported.",
			differs: `port:mlx5_(\d|bond_0)/gids/[23] v4 v6 nccl`,
			edit: func(n *Node) {
				ipv6Only(n)
				n.Files[ncclConf] += "NCCL_IB_ADDR_FAMILY=AF_INET6\n"
			},
		},
		{
			Name: "ipv6-only-family-unset", Platform: h100,
			Summary: "the node has IPv6 addresses only, and NCCL looks for IPv4",
			Truth: "The ports are configured as in ipv6-only. But without NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL looks for an " +
				"IPv4 GID, finds none on any rail, and selects index 0: RoCE v1 and link-local.",
			Expect:  onCompute("gid_not_matched"),
			differs: `port:mlx5_(\d|bond_0)/gids/[23] v4 v6`,
			edit:    ipv6Only,
		},

		// About ports that are not like their peers.
		{
			Name: "firmware-mismatch", Platform: h100,
			Summary: "one compute NIC runs older firmware than its seven peers",
			Truth: "mlx5_3 was replaced and the new card was not updated: it runs 28.35.2000, the others of the same board " +
				"28.39.3560. The port works; congestion control and bug fixes differ between rails.",
			Expect:  []Finding{{"mlx5_3", 1, "firmware_mismatch"}},
			differs: `sys/devices/.*/infiniband/mlx5_3/fw_ver`,
			edit:    func(n *Node) { n.HCA("mlx5_3").Firmware = "28.35.2000" },
		},
		{
			Name: "mtu-mismatch", Platform: h100,
			Summary: "the interface of one compute port has an MTU of 1500",
			Truth: "The interface of mlx5_5 was configured again with an MTU of 1500; its seven peers have 9000. RDMA over " +
				"it uses packets of 1024 bytes instead of 4096.",
			Expect:  []Finding{{"mlx5_5", 1, "mtu_mismatch"}},
			differs: `net:enp192s0np0/mtu`,
			edit:    func(n *Node) { n.NetDev("enp192s0np0").MTU = 1500 },
		},
		{
			Name: "ib-not-configured", Platform: a100,
			Summary: "no subnet manager has configured one InfiniBand port",
			Truth: "The cable of mlx5_6 is fine and the link is up, but the port stays in INIT without a LID, because no " +
				"subnet manager reaches it. It cannot send.",
			Expect: []Finding{{"mlx5_6", 1, "port_down"}},
			differs: `port:mlx5_6/(state|lid|sm_lid) net:ibp141s0/(carrier|operstate|speed) eth:ibp141s0/carrier
				port:mlx5_6/(counters/port_xmit_wait|<moving>)`,
			edit: func(n *Node) {
				p := n.HCA("mlx5_6").Port(1)
				p.State, p.LID, p.SMLID = "2: INIT", 0xffff, 0
				n.NetDev(p.NetDev).Carrier = false
			},
		},
		{
			Name: "storage-port-down", Platform: h100,
			Summary: "the link of one of the two storage ports is down",
			Truth: "mlx5_9 is down and disabled; the other port of the card, mlx5_8, and all compute ports are active. " +
				"Checkpoints take twice as long. The site calls it storage, but nothing states that it should have a link, " +
				"unless it had one: then it is broken.",
			differs: `port:mlx5_9/(state|phys_state|rate) net:enp231s0f1np1/(carrier|operstate|speed)
				eth:enp231s0f1np1/(carrier|stats/.*|fec)`,
			edit: func(n *Node) { n.LinkDown("mlx5_9") },
		},
		{
			Name: "ib-rate-degraded", Platform: a100,
			Summary: "one InfiniBand port has come up with two of its four lanes",
			Truth: "mlx5_8 runs at 100 Gb/s (2X HDR); its peers run at 200 Gb/s, as the site expects. Nothing is lost; every " +
				"collective runs at the speed of this rail.",
			Expect:  []Finding{{"mlx5_8", 1, "rate_below_expected"}},
			differs: `port:mlx5_8/rate net:ibp186s0/speed`,
			edit: func(n *Node) {
				p := n.HCA("mlx5_8").Port(1)
				p.Rate = "100 Gb/sec (2X HDR)"
				n.NetDev(p.NetDev).Speed = 100_000
			},
		},
		{
			Name: "nccl-variable-unknown", Platform: h100,
			Summary: "the NCCL configuration sets a variable that NCCL does not have",
			Truth: "NCCL_IB_TRAFFIC_CLASS=106 in nccl.conf is not a variable of NCCL and has no effect; NCCL_IB_TC=106, " +
				"which is also set, has the intended one. The ports are correct.",
			Expect:  []Finding{{"", 0, "nccl_line_ignored"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_IB_TRAFFIC_CLASS=106\n" },
		},
		{
			Name: "post-fec-errors", Platform: h100, OverTime: true,
			Summary: "the link of one compute port has errors beyond error correction",
			Truth: "A transceiver of mlx5_0 is dirty: nine blocks per second cannot be corrected, symbol errors follow, and " +
				"whole packets are lost. The port is active at full rate.",
			Expect:  []Finding{{"mlx5_0", 1, "post_fec_errors"}},
			differs: `eth:enp24s0np0/(fec|stats/rx_(pcs_symbol_err|crc_errors)_phy)`,
			edit: func(n *Node) {
				count(n, "mlx5_0", map[string]uint64{"rx_pcs_symbol_err_phy": 14, "rx_crc_errors_phy": 3})
				n.NetDev("enp24s0np0").QoS.FEC.Uncorrectable.PerStep = 9
			},
		},

		// About devices and interfaces that pods have. The trees follow drivers/infiniband/core/device.c
		// (rdma_dev_change_netns) and drivers/base/core.c (get_device_parent) of Linux 6.8.
		{
			Name: "moved-to-pod", Platform: h100,
			Summary: "healthy node whose training NICs are in a pod",
			Truth: "The RDMA core is in exclusive mode, and the RDMA CNI moved all eight devices with their interfaces into " +
				"a pod. class/infiniband of the host has the storage and management devices only, but the driver has all " +
				"devices, and their functions are on the bus. Nothing is missing. Nothing is reported.",
			differs: `moved:mlx5_[0-7],enp\d+s0np0`,
			edit:    onRails((*Node).Move),
		},
		{
			Name: "moved-to-pod-ib", Platform: a100,
			Summary: "healthy InfiniBand node with some of its NICs in pods",
			Truth: "Two pods have two devices each, with their IPoIB interfaces. The four devices that remain on the host " +
				"are active. Nothing is reported.",
			differs: `moved:mlx5_[0-3],ibp\d+s0`,
			edit: func(n *Node) {
				for _, device := range []string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"} {
					n.Move(device)
				}
			},
		},
		{
			Name: "interfaces-in-pod", Platform: h100,
			Summary: "healthy node whose training interfaces are in a pod",
			Truth: "Multus (host-device) moved the eight interfaces into a pod; the RDMA core is in shared mode, and the " +
				"devices stayed on the host. They are active, and their GIDs have the names that interfaces have in the pod, " +
				"one of which is also the name of an interface of the host. Only in the pod can the RoCE settings of the " +
				"interfaces be read. Nothing is reported.",
			differs: `sys/class/net/enp\d+s0np0 net:enp\d+s0np0(/.*)? eth:enp\d+s0np0(/.*)? v4
				port:mlx5_[0-7]/gid_attrs/ndevs/\d`,
			edit: func(n *Node) {
				for k, device := range rails8() {
					n.MoveNetDev(device, fmt.Sprintf("net%d", 1+k))
				}
				for i := range n.HCA("mlx5_0").Ports[0].GIDs {
					n.HCA("mlx5_0").Ports[0].GIDs[i].NetDev = "bond0"
				}
			},
		},
		{
			Name: "device-gone-beside-moved", Platform: h100,
			Summary: "one compute HCA has fallen off the bus while pods have the others",
			Truth: "Seven devices are in pods, and mlx5_5 is missing: no RDMA device in any namespace, no interface, no PCI " +
				"function. The site expects eight compute ports; the seven in pods do not explain the missing one.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			differs: `moved:mlx5_[0-7],enp\d+s0np0 sys/devices/pci0000:bd/.*/0000:c0:00.0(/.*)?
				sys/class/infiniband_verbs/uverbs5 sys/bus/pci/.*/0000:c0:00\.0
				sys/bus/auxiliary/.*/mlx5_core\.rdma\.5 sys/kernel/iommu_groups/\d+(/.*)?`,
			edit: func(n *Node) {
				n.Unplug("mlx5_5")
				onRails((*Node).Move)(n)
			},
		},
	}
}

// onCompute labels every compute port of the H100 platform.
func onCompute(what string) []Finding {
	var all []Finding
	for i := range 8 {
		all = append(all, Finding{fmt.Sprintf("mlx5_%d", i), 1, what})
	}
	return all
}

func roceV1Only(n *Node) {
	p := &n.HCA("mlx5_7").Ports[0]
	var v1 []GID
	for _, g := range p.GIDs {
		if g.Type == RoCEv1 {
			g.Index = len(v1)
			v1 = append(v1, g)
		}
	}
	p.GIDs = v1
}

// ipv6Only gives every interface an IPv6 address made of its IPv4 address, and the node a default route to
// match: 10.100.2.17/24 becomes fd02:0:100:2::17/64.
func ipv6Only(n *Node) {
	unique := func(a netip.Addr) netip.Addr {
		b := a.As4()
		return netip.MustParseAddr(fmt.Sprintf("fd02:0:%d:%d::%d", b[1], b[2], b[3]))
	}
	for _, d := range n.Clone().NetDevs {
		for _, p := range d.Addrs {
			n.SetAddrs(d.Name, netip.PrefixFrom(unique(p.Addr()), 64))
		}
	}
	for i := range n.Routes {
		r := &n.Routes[i]
		r.Dst, r.Gateway = netip.MustParsePrefix("::/0"), unique(r.Gateway)
	}
}

// onRails does something with each compute device of the H100 platform.
func onRails(do func(n *Node, device string)) func(*Node) {
	return func(n *Node) {
		for _, device := range rails8() {
			do(n, device)
		}
	}
}
