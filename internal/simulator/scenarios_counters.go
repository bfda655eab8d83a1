// SPDX-License-Identifier: Apache-2.0

package simulator

// counterScenarios are about what ports count.
func counterScenarios() []Scenario {
	return []Scenario{
		{
			Name: "counter-saturated", Platform: a100,
			Summary: "three counters of two ports are stuck at their maximum",
			Truth: "PMA counters stop at their maximum: excessive_buffer_overrun_errors of mlx5_2 is 15, link_downed and port_xmit_wait of " +
				"mlx5_7 are 255 and 4294967295. It is unknown since when, and further errors stay hidden until the counters are cleared " +
				"(perfquery -R). The ports work.",
			Expect: []Finding{{"mlx5_2", 1, "counter_saturated"}, {"mlx5_7", 1, "counter_saturated"}},
			edit: func(n *Node) {
				n.HCA("mlx5_2").Port(1).Statistic("excessive_buffer_overrun_errors").Start = 15
				n.HCA("mlx5_7").Port(1).Statistic("link_downed").Start = 255
				n.HCA("mlx5_7").Port(1).Statistic("port_xmit_wait").Start = 1<<32 - 1
			},
		},
		{
			Name: "counters-garbage", Platform: h100,
			Summary: "healthy port with unreadable counters",
			Truth: "mlx5_4 works, but eight of its counters have no valid value: the error text of an old kernel, a negative number, a number " +
				"of more than 64 bits, words, two numbers, an empty line, an empty file, and a read error. A ninth is 2^64-1, which a " +
				"driver prints when it could not ask its device. Only these counters are unknown; all others, including those of this " +
				"port, are correct. Nothing is reported.",
			edit: func(n *Node) {
				p := n.HCA("mlx5_4").Port(1)
				p.Texts = map[string]string{
					"counters/symbol_error":              "N/A (no PMA)\n",
					"counters/link_downed":               "-1\n",
					"counters/port_rcv_errors":           "18446744073709551616\n",
					"counters/multicast_rcv_packets":     "18446744073709551615\n",
					"counters/port_xmit_discards":        "",
					"hw_counters/out_of_buffer":          "not a number\n",
					"hw_counters/rnr_nak_retry_err":      "12 34\n",
					"hw_counters/roce_slow_restart_cnps": "\n",
				}
				p.Dirs = []string{"counters/VL15_dropped"} // of ConnectX-7 it answers EINVAL
			},
		},
		{
			Name: "counter-reset", Platform: a100,
			Summary: "healthy port whose counters are cleared every minute",
			Truth: "A script of the site runs perfquery -R on mlx5_1 every minute. Its PMA counters return to zero, those of the driver " +
				"continue. The traffic is normal, and counters that go backwards are not a fault. Nothing is reported.",
			edit: func(n *Node) { n.HCA("mlx5_1").Port(1).ClearEvery = 60 },
		},
		{
			Name: "retransmissions", Platform: h100,
			Summary: "one rail loses and retransmits packets",
			Truth: "A transceiver on the rail of mlx5_5 is bad: packets arrive out of sequence, NAKs from its peers and expired ACK timers " +
				"make it retransmit, and its traffic is a third of that of its peers. The link is up, and no link counter shows an error.",
			Expect:   []Finding{{"mlx5_5", 1, "retransmissions"}},
			OverTime: true,
			edit: func(n *Node) {
				grow(n, "mlx5_5", map[string]uint64{
					"out_of_sequence": 184, "packet_seq_err": 161, "local_ack_timeout_err": 3, "roce_adp_retrans": 160,
					"duplicate_request": 22,
				})
				slow(n, "mlx5_5", 3)
			},
		},
		{
			Name: "congestion", Platform: h100,
			Summary: "healthy node in a busy fabric",
			Truth: "Many senders send to few receivers, as in every all-to-all. On all rails packets arrive with congestion marks, " +
				"notifications are sent and received, and senders slow down: congestion control works as intended. Nothing is lost. " +
				"Nothing is reported.",
			edit: func(n *Node) {
				for _, f := range onCompute("") {
					marked(n, f.Device)
				}
			},
		},
		{
			Name: "qp-death", Platform: h100,
			Summary: "queue pairs of one port fail after their last retry",
			Truth: "Every 30 seconds four queue pairs of mlx5_3 fail because their peer does not answer: seven ACK timers expire for each, " +
				"then req_transport_retries_exceeded increases, and the queued requests are flushed. The job ends with " +
				"IBV_WC_RETRY_EXC_ERR and starts again. The link is up.",
			Expect:   []Finding{{"mlx5_3", 1, "transport_retries_exceeded"}},
			OverTime: true,
			edit: func(n *Node) {
				const every = 30
				for name, by := range map[string]uint64{
					"local_ack_timeout_err": 28, "req_transport_retries_exceeded": 4, "req_cqe_error": 516, "req_cqe_flush_error": 512,
				} {
					s := n.HCA("mlx5_3").Port(1).Statistic(name)
					s.PerStep, s.Every = by, every
				}
			},
		},
	}
}

// grow lets counters of the first port of a device grow by that much each step.
func grow(n *Node, device string, by map[string]uint64) {
	for name, step := range by {
		s := n.HCA(device).Port(1).Statistic(name)
		s.PerStep, s.Every = step, 0
	}
}

// slow divides the RDMA traffic of a device with one port.
func slow(n *Node, device string, by uint64) {
	p := n.HCA(device).Port(1)
	for _, name := range []string{
		"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "unicast_xmit_packets",
		"unicast_rcv_packets", "rx_write_requests",
	} {
		p.Statistic(name).PerStep /= by
	}
	for _, d := range n.members(device) {
		for _, name := range []string{
			"rx_prio3_bytes", "rx_prio3_packets", "tx_prio3_bytes", "tx_prio3_packets", "rx_vport_rdma_unicast_packets",
			"rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_packets", "tx_vport_rdma_unicast_bytes",
		} {
			d.Statistic(name).PerStep /= by
		}
		for _, name := range []string{"bytes", "packets"} {
			d.Statistic("rx_" + name + "_phy").PerStep = d.Statistic("rx_prio0_"+name).PerStep + d.Statistic("rx_prio3_"+name).PerStep
			d.Statistic("tx_" + name + "_phy").PerStep = d.Statistic("tx_prio0_"+name).PerStep + d.Statistic("tx_prio3_"+name).PerStep
		}
	}
}

// count lets statistics of the interfaces of a device grow by that much each step.
func count(n *Node, device string, by map[string]uint64) {
	for _, d := range n.members(device) {
		for name, step := range by {
			s := d.Statistic(name)
			s.PerStep, s.Every = step, 0
		}
	}
}

// marked lets packets arrive at a device with marks of congestion, and lets it notify the senders and be notified.
func marked(n *Node, device string) {
	const ecn, sent, handled = 21_400, 18_200, 17_900
	grow(n, device, map[string]uint64{"np_ecn_marked_roce_packets": ecn, "np_cnp_sent": sent, "rp_cnp_handled": handled})
	count(n, device, map[string]uint64{
		"tx_prio6_packets": sent, "tx_prio6_bytes": sent * bytesPerCNP, "rx_prio6_packets": handled, "rx_prio6_bytes": handled * bytesPerCNP,
	})
}
