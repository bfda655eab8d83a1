// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
)

// counterScenarios are about what ports count.
func counterScenarios() []Scenario {
	return []Scenario{
		{
			Name: "counter-saturated", Platform: a100,
			Summary: "three counters of two ports are stuck at their maximum",
			Truth: "PMA counters stop at their maximum: excessive_buffer_overrun_errors of mlx5_2 is 15, link_downed and " +
				"port_xmit_wait of mlx5_7 are 255 and 4294967295. It is unknown since when, and further errors stay hidden " +
				"until the counters are cleared (perfquery -R). The ports work.",
			Expect: []Finding{{"mlx5_2", 1, "counter_saturated"}, {"mlx5_7", 1, "counter_saturated"}},
			differs: `port:mlx5_2/counters/excessive_buffer_overrun_errors
				port:mlx5_7/counters/(link_downed|port_xmit_wait)`,
			edit: func(n *Node) {
				n.HCA("mlx5_2").Port(1).Statistic("excessive_buffer_overrun_errors").Start = 15
				n.HCA("mlx5_7").Port(1).Statistic("link_downed").Start = 255
				n.HCA("mlx5_7").Port(1).Statistic("port_xmit_wait").Start = 1<<32 - 1
			},
		},
		{
			Name: "counters-garbage", Platform: h100,
			Summary: "healthy port with unreadable counters",
			Truth: "mlx5_4 works, but eight of its counters have no valid value: the error text of an old kernel, a negative " +
				"number, a number of more than 64 bits, words, two numbers, an empty line, an empty file, and a read error. A " +
				"ninth is 2^64-1, which a driver prints when it could not ask its device. Only these counters are unknown; all " +
				"others, including those of this port, are correct. Nothing is reported.",
			differs: `port:mlx5_4/counters/(symbol_error|link_downed|port_rcv_errors|multicast_rcv_packets|port_xmit_discards|VL15_dropped)
				port:mlx5_4/hw_counters/(out_of_buffer|rnr_nak_retry_err|roce_slow_restart_cnps)`,
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
			Truth: "A script of the site runs perfquery -R on mlx5_1 every minute. Its PMA counters return to zero, those of " +
				"the driver continue. The traffic is normal, and counters that go backwards are not a fault. Nothing is " +
				"reported.",
			differs: `port:mlx5_1/counters/(port_(xmit|rcv)_(data|packets)|unicast_(xmit|rcv)_packets|port_xmit_wait)`,
			edit:    func(n *Node) { n.HCA("mlx5_1").Port(1).ClearEvery = 60 },
		},
		{
			Name: "retransmissions", Platform: h100,
			Summary: "one rail loses and retransmits packets",
			Truth: "A transceiver on the rail of mlx5_5 is bad: packets arrive out of sequence, NAKs from its peers and " +
				"expired ACK timers make it retransmit, and its traffic is a third of that of its peers. The link is up, and no " +
				"link counter shows an error.",
			Expect:   []Finding{{"mlx5_5", 1, "retransmissions"}},
			OverTime: true,
			differs: `port:mlx5_5/hw_counters/(out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans|duplicate_request)
				port:mlx5_5/<moving> eth:enp192s0np0/stats/<rdma>`,
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
			Truth: "Many senders send to few receivers, as in every all-to-all. On all rails packets arrive with congestion " +
				"marks, notifications are sent and received, and senders slow down: congestion control works as intended. " +
				"Nothing is lost. Nothing is reported.",
			differs: `port:mlx5_[0-7]/<marks> eth:<rails>/stats/<cnps>`,
			edit:    onRails(func(n *Node, device string) { marked(n, device) }),
		},
		{
			Name: "qp-death", Platform: h100,
			Summary: "queue pairs of one port fail after their last retry",
			Truth: "Every 30 seconds four queue pairs of mlx5_3 fail because their peer does not answer: seven ACK timers " +
				"expire for each, then req_transport_retries_exceeded increases, and the queued requests are flushed. The job " +
				"ends with IBV_WC_RETRY_EXC_ERR and starts again. The link is up.",
			Expect:   []Finding{{"mlx5_3", 1, "transport_retries_exceeded"}},
			OverTime: true,
			differs:  `port:mlx5_3/hw_counters/(local_ack_timeout_err|req_(transport_retries_exceeded|cqe_error|cqe_flush_error))`,
			edit: func(n *Node) {
				const every = 30
				for name, by := range map[string]uint64{
					"local_ack_timeout_err": 28, "req_transport_retries_exceeded": 4, "req_cqe_error": 516,
					"req_cqe_flush_error": 512,
				} {
					s := n.HCA("mlx5_3").Port(1).Statistic(name)
					s.PerStep, s.Every = by, every
				}
			},
		},

		// About what goes on in the classes of traffic: only rates show them.
		{
			Name: "marked-no-cnp", Platform: "two-port",
			Summary: "one port receives marked packets and sends no notifications",
			Truth: "21400 packets per second arrive at mlx5_1 with a congestion mark, and it sends no CNP; mlx5_0 sends one " +
				"for most of them. The settings that would explain it cannot be read with the kernel's driver; only the " +
				"counters show it. Senders do not slow down until PFC stops them.",
			Expect:   []Finding{{"mlx5_1", 1, "marked_without_cnp"}},
			OverTime: true,
			differs:  `port:mlx5_[01]/<marks> eth:enp65s0f[01]np[01]/stats/<cnps>`,
			edit: func(n *Node) {
				marked(n, "mlx5_0")
				marked(n, "mlx5_1")
				n.withoutCNPs("mlx5_1")
			},
		},
		{
			Name: "wrong-priority", Platform: h100,
			Summary: "RDMA traffic is not in the lossless class, and no setting explains it",
			Truth: "A job sets NCCL_IB_TC=0 in its own environment. nccl.conf has 106 and every port is configured for it, " +
				"but all RDMA traffic has priority 0, and priority 3, which has PFC, has none. The byte counters of the " +
				"priorities show it; no configuration of this node does.",
			Expect:   onCompute("traffic_on_wrong_priority"),
			OverTime: true,
			differs:  `eth:<rails>/<carried>`,
			edit:     onRails(func(n *Node, device string) { n.Carry(device, 0) }),
		},
		{
			Name: "pfc-storm", Platform: h100,
			Summary: "one compute port pauses the network for nine tenths of the time",
			Truth: "mlx5_7 cannot write to memory and sends pause frames continuously: 12000 per second, which stop its " +
				"switch port for 0.9 s of each second, and every sender that shares its buffers. The firmware counts warnings " +
				"(tx_pause_storm_warning_events). A twentieth of the traffic remains.",
			Expect:   []Finding{{"mlx5_7", 1, "pfc_storm"}},
			Probed:   []ProbeFinding{{"rail", "mlx5_7", "slow"}},
			OverTime: true,
			differs: `port:mlx5_7/<moving>
				eth:enp220s0np0/stats/(<rdma>|tx_prio3_pause(_duration)?|tx_pause_storm_warning_events|outbound_pci_stalled_wr|rx_buffer_passed_thres_phy)`,
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
			Truth: "The switch of mlx5_0's rail sends it pause frames: for 0.35 s of each second it may not send on priority " +
				"3, and its traffic drops by as much. The cause is elsewhere, for example a slow receiver or the buffers of the " +
				"switch.",
			Expect:   []Finding{{"mlx5_0", 1, "paused_by_network"}},
			OverTime: true,
			differs:  `port:mlx5_0/<moving> eth:enp24s0np0/stats/(<rdma>|rx_prio3_pause.*)`,
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
			Truth: "The buffer of priority 3 on mlx5_2 is too small for the packets that arrive after it sends a pause: it " +
				"drops 310 packets per second of a priority that must not lose any, and RDMA retransmits them. PFC, trust and " +
				"DSCP map are correct.",
			Expect:   []Finding{{"mlx5_2", 1, "lossless_priority_drops"}},
			OverTime: true,
			differs: `port:mlx5_2/hw_counters/out_of_sequence net:enp79s0np0/qos/buffer_size
				eth:enp79s0np0/(dcb/buffers|stats/(rx_prio3_(buf_)?discards?|rx_discards_phy|tx_prio3_pause(_duration)?))`,
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
			d.Statistic("rx_" + name + "_phy").PerStep = d.Statistic("rx_prio0_"+name).PerStep +
				d.Statistic("rx_prio3_"+name).PerStep
			d.Statistic("tx_" + name + "_phy").PerStep = d.Statistic("tx_prio0_"+name).PerStep +
				d.Statistic("tx_prio3_"+name).PerStep
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
		"tx_prio6_packets": sent, "tx_prio6_bytes": sent * bytesPerCNP, "rx_prio6_packets": handled,
		"rx_prio6_bytes": handled * bytesPerCNP,
	})
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
