// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
)

const ncclConf = "etc/nccl.conf"

const h100, a100 = "dgx-h100-roce", "dgx-a100-ib" // platforms

// scenarios returns the tables of all scenarios. A new one is an entry there, with an edit below if none fits.
func scenarios() []Scenario {
	return slices.Concat(linkScenarios(), healthyScenarios(), counterScenarios(), qosScenarios(), priorityScenarios(), qosHealthyScenarios(), pciScenarios(),
		gpuHealthyScenarios(), gpuScenarios(), nvlinkScenarios(), gpuDirectScenarios(), lookalikeScenarios(), mismatchScenarios(), classScenarios(), hostScenarios(), ncclScenarios(), movedScenarios(), probeScenarios(), jobScenarios(), jobTrapScenarios(), rasScenarios(), logScenarios(), inspectorScenarios())
}

// linkScenarios are about links, addresses and GIDs.
func linkScenarios() []Scenario {
	return []Scenario{
		{
			Name: "healthy", Platform: h100,
			Summary: "healthy H100 node with RoCE",
			Truth: "Eight compute ports at 400 Gb/s, two storage ports and a management bond, all active. Each port has its address as a RoCE " +
				"v2 GID at index 3, which NCCL selects without configuration. Nothing is reported.",
		},
		{
			Name: "healthy-ib", Platform: a100,
			Summary: "healthy A100 node with InfiniBand",
			Truth: "Eight InfiniBand ports at 200 Gb/s with a LID and a subnet manager, and two Ethernet ports for storage whose device " +
				"numbers are between those of the InfiniBand ports. Nothing is reported.",
		},
		{
			Name: "port-down", Platform: h100,
			Summary: "the link of one compute port is down",
			Truth: "mlx5_3 is down and disabled; its seven peers are active. The kernel prints 40 Gb/s for it, as mlx5 does for every port " +
				"without a link: the rate is unknown, and the missing link is reported instead of a slow one.",
			Expect: []Finding{{"mlx5_3", 1, "port_down"}},
			edit:   func(n *Node) { n.LinkDown("mlx5_3") },
		},
		{
			Name: "port-down-of-128", Platform: "sriov-rails",
			Summary: "the link of one of 16 compute ports is down on a node with 128 ports",
			Truth: "mlx5_9 is down, and with it its seven virtual functions, mlx5_79 to mlx5_85, which are not reported: they are no compute ports " +
				"of this node. The other 15 ports are active.",
			Expect: []Finding{{"mlx5_9", 1, "port_down"}},
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
			Truth: "mlx5_4 is active for 40 seconds of each minute and down for the other 20. A single reading shows a healthy port or a dead " +
				"one; only the history shows a bad cable or transceiver.",
			Expect:   []Finding{{"mlx5_4", 1, "link_flapping"}},
			OverTime: true,
			edit:     func(n *Node) { n.Flaps = append(n.Flaps, Flap{Device: "mlx5_4", Period: 60, Down: 20}) },
		},
		{
			Name: "device-gone", Platform: h100,
			Summary: "one compute HCA has fallen off the PCI bus",
			Truth: "mlx5_5 is missing: no RDMA device, no interface, no PCI function. The node has seven compute ports; the site expects " +
				"eight. The hardware that is present looks healthy, so without that expectation nothing could be reported. The GPU next to " +
				"it is left with the NIC of a neighbor: NCCL reaches it over NVLink (PXN) and uses GPUDirect RDMA.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			edit:   func(n *Node) { n.Unplug("mlx5_5") },
		},
		{
			Name: "no-rdma", Platform: h100,
			Summary: "the RDMA modules are not loaded, so there are no RDMA devices",
			Truth: "The NICs and their interfaces work, but the kernel has no RDMA class. The exporter works without it. The site expects " +
				"eight compute ports and has none, and NCCL would use TCP sockets on bond0.",
			Expect: []Finding{{"", 0, "compute_ports_missing"}},
			GDR:    []GDRLabel{{NoNIC: true}},
			edit:   func(n *Node) { n.HCAs = nil },
		},
		{
			Name: "rate-degraded", Platform: h100,
			Summary: "one compute port has come up at half its rate",
			Truth: "mlx5_6 lost two of its four lanes and runs at 200 Gb/s, as its interface also reports. Peers run at 400 Gb/s, which the " +
				"site expects. The slowest rail sets the speed of every collective.",
			Expect: []Finding{{"mlx5_6", 1, "rate_below_expected"}},
			edit: func(n *Node) {
				p := &n.HCA("mlx5_6").Ports[0]
				p.Rate = "200 Gb/sec (2X NDR)"
				n.NetDev(p.NetDev).Speed = 200_000
			},
		},
		{
			Name: "rate-mismatch", Platform: h100,
			Summary: "RDMA reports a wrong, low rate for one compute port that runs at full speed",
			Truth: "The interface of mlx5_1 negotiated 400 Gb/s; the RDMA stack, which does not know that mode, prints 10 Gb/s. The link is " +
				"fine. NCCL trusts the 10 Gb/s and plans its rings accordingly.",
			Expect: []Finding{{"mlx5_1", 1, "rate_mismatch"}},
			edit:   func(n *Node) { n.HCA("mlx5_1").Ports[0].Rate = "10 Gb/sec (4X SDR)" },
		},
		{
			Name: "gid-missing", Platform: h100,
			Summary: "one compute port has lost its IPv4 address and therefore its GIDs",
			Truth: "The interface of mlx5_2 is up but has no address. Only the link-local entries 0 and 1 remain in the GID table. NCCL " +
				"selects entry 0, which is RoCE v1 and not routable, and the connection over this rail fails.",
			Expect: []Finding{{"mlx5_2", 1, "no_routable_gid"}},
			edit: func(n *Node) {
				n.SetAddrs("enp79s0np0")
				slow(n, "mlx5_2", math.MaxUint64) // nothing arrives
			},
		},
		{
			Name: "gid-roce-v1-only", Platform: h100,
			Summary: "one compute port offers RoCE v1 only",
			Truth: "mlx5_7 has its address, but only as RoCE v1: routers do not forward such frames, and they carry no DSCP for the switches. " +
				"The other rails use RoCE v2.",
			Expect: []Finding{{"mlx5_7", 1, "no_routable_gid"}},
			edit:   roceV1Only,
		},
		{
			Name: "gid-index-pinned", Platform: h100,
			Summary: "NCCL is pinned to GID index 3, which is RoCE v1 on one port",
			Truth: "NCCL_IB_GID_INDEX=3 is correct for seven rails. On mlx5_2 a process held the old entry 2 while the address was configured " +
				"again, so the new entries are 3 and 4, and index 3 is RoCE v1. NCCL does not verify the index. Without the setting it " +
				"would select index 4.",
			Expect: []Finding{{"mlx5_2", 1, "gid_index_wrong"}},
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_GID_INDEX=3\n"
				gids := n.HCA("mlx5_2").Ports[0].GIDs
				gids[2].Index, gids[3].Index = 3, 4
			},
		},
		{
			Name: "ipv6-only", Platform: h100,
			Summary: "healthy node with IPv6 addresses only",
			Truth: "Every interface has one IPv6 address, the default route is an IPv6 route, and NCCL_IB_ADDR_FAMILY=AF_INET6 is set. NCCL " +
				"selects index 3 on every rail. Nothing is reported.",
			edit: func(n *Node) {
				ipv6Only(n)
				n.Files[ncclConf] += "NCCL_IB_ADDR_FAMILY=AF_INET6\n"
			},
		},
		{
			Name: "ipv6-only-family-unset", Platform: h100,
			Summary: "the node has IPv6 addresses only, and NCCL looks for IPv4",
			Truth: "The ports are configured as in ipv6-only. But without NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL looks for an IPv4 GID, finds none " +
				"on any rail, and selects index 0: RoCE v1 and link-local.",
			Expect: onCompute("gid_not_matched"),
			edit:   ipv6Only,
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
