// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// priorityScenarios are about what goes on in the classes of traffic: only rates show them.
func priorityScenarios() []Scenario {
	return []Scenario{
		{
			Name: "marked-no-cnp", Platform: "two-port",
			Summary: "one port receives marked packets and sends no notifications",
			Truth: "21400 packets per second arrive at mlx5_1 with a congestion mark, and it sends no CNP; mlx5_0 sends one for most of them. " +
				"The settings that would explain it cannot be read with the kernel's driver; only the counters show it. Senders do not " +
				"slow down until PFC stops them.",
			Expect:   []Finding{{"mlx5_1", 1, "marked_without_cnp"}},
			OverTime: true,
			edit: func(n *Node) {
				marked(n, "mlx5_0")
				marked(n, "mlx5_1")
				n.withoutCNPs("mlx5_1")
			},
		},
		{
			Name: "wrong-priority", Platform: h100,
			Summary: "RDMA traffic is not in the lossless class, and no setting explains it",
			Truth: "A job sets NCCL_IB_TC=0 in its own environment. nccl.conf has 106 and every port is configured for it, but all RDMA " +
				"traffic has priority 0, and priority 3, which has PFC, has none. The byte counters of the priorities show it; no " +
				"configuration of this node does.",
			Expect:   onCompute("traffic_on_wrong_priority"),
			OverTime: true,
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					n.Carry(f.Device, 0)
				}
			},
		},
		{
			Name: "pfc-storm", Platform: h100,
			Summary: "one compute port pauses the network for nine tenths of the time",
			Truth: "mlx5_7 cannot write to memory and sends pause frames continuously: 12000 per second, which stop its switch port for 0.9 s " +
				"of each second, and every sender that shares its buffers. The firmware counts warnings (tx_pause_storm_warning_events). A " +
				"twentieth of the traffic remains.",
			Expect:   []Finding{{"mlx5_7", 1, "pfc_storm"}},
			Probed:   []ProbeFinding{{"rail", "mlx5_7", "slow"}},
			OverTime: true,
			edit: func(n *Node) {
				n.NCCL.Slow = append(n.NCCL.Slow, SlowHCA{"mlx5_7", 0.05})
				slow(n, "mlx5_7", 20)
				count(n, "mlx5_7", map[string]uint64{
					"tx_prio3_pause": 12_000, "tx_prio3_pause_duration": 900_000, "tx_pause_storm_warning_events": 1,
					"outbound_pci_stalled_wr": 90, "rx_buffer_passed_thres_phy": 40_000,
				})
			},
		},
		{
			Name: "paused-by-network", Platform: h100,
			Summary: "the network pauses one compute port for a third of the time",
			Truth: "The switch of mlx5_0's rail sends it pause frames: for 0.35 s of each second it may not send on priority 3, and its " +
				"traffic drops by as much. The cause is elsewhere, for example a slow receiver or the buffers of the switch.",
			Expect:   []Finding{{"mlx5_0", 1, "paused_by_network"}},
			OverTime: true,
			edit: func(n *Node) {
				slow(n, "mlx5_0", 2)
				count(n, "mlx5_0", map[string]uint64{
					"rx_prio3_pause": 41_000, "rx_prio3_pause_duration": 350_000, "rx_prio3_pause_transition": 20_500,
				})
			},
		},
		{
			Name: "lossless-drops", Platform: h100, policy: losslessPolicy,
			Summary: "one compute port drops packets of the lossless priority",
			Truth: "The buffer of priority 3 on mlx5_2 is too small for the packets that arrive after it sends a pause: it drops 310 packets " +
				"per second of a priority that must not lose any, and RDMA retransmits them. PFC, trust and DSCP map are correct.",
			Expect:   []Finding{{"mlx5_2", 1, "lossless_priority_drops"}},
			OverTime: true,
			edit: func(n *Node) {
				b := &n.qos("mlx5_2").Buffers
				b.Bytes[0], b.Bytes[1] = b.Total-40_000, 40_000
				count(n, "mlx5_2", map[string]uint64{
					"rx_prio3_discards": 310, "rx_discards_phy": 310, "rx_prio3_buf_discard": 310, "tx_prio3_pause": 900,
					"tx_prio3_pause_duration": 4_000,
				})
				grow(n, "mlx5_2", map[string]uint64{"out_of_sequence": 310})
			},
		},
	}
}

// setNCCL replaces a line of nccl.conf.
func (n *Node) setNCCL(line, by string) {
	n.Files[ncclConf] = strings.Replace(n.Files[ncclConf], line, by, 1)
}

// withoutCNPs lets a device send no notifications of congestion, and never have sent any.
func (n *Node) withoutCNPs(device string) {
	n.HCA(device).Port(1).Statistic("np_cnp_sent").Counter = Counter{}
	for _, d := range n.members(device) {
		d.Statistic("tx_prio6_packets").Counter, d.Statistic("tx_prio6_bytes").Counter = Counter{}, Counter{}
	}
}
