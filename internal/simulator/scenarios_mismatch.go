// SPDX-License-Identifier: Apache-2.0

package simulator

// mismatchScenarios are about ports that are not like their peers.
func mismatchScenarios() []Scenario {
	return []Scenario{
		{
			Name: "firmware-mismatch", Platform: h100,
			Summary: "one compute NIC runs older firmware than its seven peers",
			Truth: "mlx5_3 was replaced and the new card was not updated: it runs 28.35.2000, the others of the same board 28.39.3560. The " +
				"port works; congestion control and bug fixes differ between rails.",
			Expect: []Finding{{"mlx5_3", 1, "firmware_mismatch"}},
			edit:   func(n *Node) { n.HCA("mlx5_3").Firmware = "28.35.2000" },
		},
		{
			Name: "mtu-mismatch", Platform: h100,
			Summary: "the interface of one compute port has an MTU of 1500",
			Truth: "The interface of mlx5_5 was configured again with an MTU of 1500; its seven peers have 9000. RDMA over it uses packets of " +
				"1024 bytes instead of 4096.",
			Expect: []Finding{{"mlx5_5", 1, "mtu_mismatch"}},
			edit:   func(n *Node) { n.NetDev("enp192s0np0").MTU = 1500 },
		},
		{
			Name: "ib-not-configured", Platform: a100,
			Summary: "no subnet manager has configured one InfiniBand port",
			Truth: "The cable of mlx5_6 is fine and the link is up, but the port stays in INIT without a LID, because no subnet manager " +
				"reaches it. It cannot send.",
			Expect: []Finding{{"mlx5_6", 1, "port_down"}},
			edit: func(n *Node) {
				p := n.HCA("mlx5_6").Port(1)
				p.State, p.LID, p.SMLID = "2: INIT", 0xffff, 0
				n.NetDev(p.NetDev).Carrier = false
			},
		},
		{
			Name: "storage-port-down", Platform: h100,
			Summary: "the link of one of the two storage ports is down",
			Truth: "mlx5_9 is down and disabled; the other port of the card, mlx5_8, and all compute ports are active. Checkpoints take twice " +
				"as long. The site calls it storage, but nothing states that it should have a link, unless it had one: then it is broken.",
			edit: func(n *Node) { n.LinkDown("mlx5_9") },
		},
		{
			Name: "ib-rate-degraded", Platform: a100,
			Summary: "one InfiniBand port has come up with two of its four lanes",
			Truth: "mlx5_8 runs at 100 Gb/s (2X HDR); its peers run at 200 Gb/s, as the site expects. Nothing is lost; every collective runs " +
				"at the speed of this rail.",
			Expect: []Finding{{"mlx5_8", 1, "rate_below_expected"}},
			edit: func(n *Node) {
				p := n.HCA("mlx5_8").Port(1)
				p.Rate = "100 Gb/sec (2X HDR)"
				n.NetDev(p.NetDev).Speed = 100_000
			},
		},
		{
			Name: "nccl-variable-unknown", Platform: h100,
			Summary: "the NCCL configuration sets a variable that NCCL does not have",
			Truth: "NCCL_IB_TRAFFIC_CLASS=106 in nccl.conf is not a variable of NCCL and has no effect; NCCL_IB_TC=106, which is also set, " +
				"has the intended one. The ports are correct.",
			Expect: []Finding{{"", 0, "nccl_line_ignored"}},
			edit:   func(n *Node) { n.Files[ncclConf] += "NCCL_IB_TRAFFIC_CLASS=106\n" },
		},
		{
			Name: "post-fec-errors", Platform: h100, OverTime: true,
			Summary: "the link of one compute port has errors beyond error correction",
			Truth: "A transceiver of mlx5_0 is dirty: nine blocks per second cannot be corrected, symbol errors follow, and whole packets are " +
				"lost. The port is active at full rate.",
			Expect: []Finding{{"mlx5_0", 1, "post_fec_errors"}},
			edit: func(n *Node) {
				count(n, "mlx5_0", map[string]uint64{"rx_pcs_symbol_err_phy": 14, "rx_crc_errors_phy": 3})
				n.NetDev("enp24s0np0").QoS.FEC.Uncorrectable.PerStep = 9
			},
		},
	}
}
