// SPDX-License-Identifier: Apache-2.0

package main

// rates draws what is counted for each device: the ten highest, so that it stays readable on a large fleet.
func rates(a about, unit, by, expr, legend string) panel {
	a.description += " The ten that are highest at the end of the time shown, and the highest at each time."
	return over(a, unit, nil, extreme("topk", 10, `sum by (instance, `+by+`) (`+expr+`)`, legend)...)
}

func rate(metric string) string { return `rate(` + metric + `{@port}[$__rate_interval])` }

// carried is the rate of a counter of bytes. What no link can carry is left out: a counter began anew at a
// value above 0. Of a time in which the exporter did not answer there is a gap: what it counted afterwards
// may begin anew, and the mean would be less than what was carried.
func carried(metric string) string {
	const port = "cluster, job, instance, device, port"
	return `((` + rate(metric) +
		` unless on (cluster, job, instance) min_over_time(up{@node}[$__rate_interval]) == 0) < on (` + port +
		`) group_left () min by (` + port +
		`) (2 * gpufabric_hca_port_rate_bytes_per_second{@port} or 1e12 * gpufabric_hca_port_info{@port}))`
}

func roce() board {
	return board{
		name: "roce", title: "GPU fabric: RoCE congestion",
		description: "Pauses, congestion marks, losses and retransmissions of RoCE ports: whether the network or a host is the bottleneck.",
		lines:       []line{roceNow(), rocePauses(), roceLosses(), roceMarks()},
		rows: []row{
			{"Pause frames and storms", []line{roceFrames()}},
			{"Traffic", []line{roceTraffic(), {priorities()}}},
			{"Settings, and errors of connections", []line{{congestionControl(), brokenChains()}, {connectionErrors()}}},
			{"How to read this", []line{{roceHelp()}}},
		},
	}
}

func roceNow() line {
	const paused,
		pausing = `max(max without (priority) (rate(gpufabric_roce_received_pause_seconds_total{@port}[5m])) or rate(gpufabric_ethernet_received_pause_seconds_total{@port}[5m]))`,
		`max(max without (priority) (rate(gpufabric_roce_transmitted_pause_seconds_total{@port}[5m])) or rate(gpufabric_ethernet_transmitted_pause_seconds_total{@port}[5m]))`
	return line{
		number(about{
			"Most paused",
			"Share of time in which the network kept the worst port from sending, in 5 minutes. Above 10 % jobs feel it: look for congestion in the switches.", "no pause counters are known", 4, 5,
		}, "percentunit", paused, []step{{0, good}, {0.02, warning}, {0.1, bad}}, nil),
		number(about{
			"Most pausing",
			"Share of time in which the worst host paused its switch, over 5 minutes. Above 5 % the host receives slower than it is sent to; above 50 % it is a storm, which spreads.", "no pause counters are known", 4, 5,
		}, "percentunit", pausing, []step{{0, good}, {0.05, warning}, {0.5, bad}}, nil),
		number(about{
			"Lossless packets lost",
			"Packets dropped on arrival in priorities that should lose nothing, per second, all ports.",
			"no counters by priority", 4, 5,
		}, packets,
			`sum(rate(gpufabric_roce_received_discards_total{@port}[5m]) and on (cluster, job, instance, device, port, priority) gpufabric_roce_pfc_enabled{@port} == 1)`, []step{{0, good}, {1e-6, bad}}, nil),
		number(about{
			"Connections given up", "Connections whose retries were used up within 10 minutes. Their jobs fail.",
			"no such counters are known", 4, 5,
		}, "short",
			`sum(increase(gpufabric_hca_retries_exceeded_total{@port}[10m]))`, []step{{0, good}, {0.5, bad}}, nil),
		number(about{
			"Ports in a storm",
			"Ports whose NIC warned within 10 minutes that it pauses for too long, or dropped instead, and ports that paused their switch for more than half of the last 5 minutes.", "no pauses are counted", 4, 5,
		}, "none",
			orZero(`count(sum by (cluster, instance, device, port) (
  increase(gpufabric_ethernet_pause_storm_warnings_total{@port}[10m]) > 0
  or increase(gpufabric_ethernet_pause_storm_errors_total{@port}[10m]) > 0
  or rate(gpufabric_roce_transmitted_pause_seconds_total{@port}[5m]) > 0.5
  or rate(gpufabric_ethernet_transmitted_pause_seconds_total{@port}[5m]) > 0.5
))`, `gpufabric_ethernet_pause_storm_warnings_total{@port} or gpufabric_roce_transmitted_pause_seconds_total{@port}`), zero(bad), nil),
		number(about{
			"Broken RoCE chains",
			"Ports whose settings contradict each other between traffic class, DSCP, priority, PFC and ECN. The node's dashboard says where.", "no RoCE port, or unknown", 4, 5,
		}, "none",
			orZero(`count(gpufabric_roce_chain_consistent{@port} == 0`+ofActive+`)`, `gpufabric_roce_chain_consistent{@port}`),
			zero(bad), nil),
	}
}

func rocePauses() line {
	return line{
		rates(about{
			"Paused by the network", "Share of time in which the network kept a port from sending, by priority.",
			"no pause counters are known", 12, 8,
		}, "percentunit", "device, priority",
			rate("gpufabric_roce_received_pause_seconds_total")+` or `+rate("gpufabric_ethernet_received_pause_seconds_total"),
			"{{instance}} {{device}} priority {{priority}}"),
		rates(about{
			"Pausing the network",
			"Share of time in which a port paused its switch, by priority: the host receives slower than it is sent to.",
			"no pause counters are known", 12, 8,
		}, "percentunit", "device, priority",
			rate("gpufabric_roce_transmitted_pause_seconds_total")+` or `+rate("gpufabric_ethernet_transmitted_pause_seconds_total"), "{{instance}} {{device}} priority {{priority}}"),
	}
}

func roceLosses() line {
	return line{
		rates(about{
			"Lost on arrival",
			"Packets dropped on arrival, by priority. In a lossless priority there should be none.",
			"no discard counters by priority are known", 8, 10,
		}, packets, "device, priority",
			rate("gpufabric_roce_received_discards_total"), "{{instance}} {{device}} priority {{priority}}"),
		rates(about{
			"Out of sequence",
			"Gaps in the numbers of RDMA packets that arrived: packets were lost or overtaken. With adaptive routing some are normal.", "no such counters are known", 8, 10,
		}, events, "device",
			rate("gpufabric_hca_out_of_sequence_total"), "{{instance}} {{device}}"),
		rates(about{
			"Sent again", "Retransmissions and acknowledgements that did not come in time.",
			"no such counters are known", 8, 10,
		}, events, "device",
			rate("gpufabric_hca_retransmissions_total")+` or `+rate("gpufabric_hca_adaptive_retransmissions_total")+` or `+rate("gpufabric_hca_retransmitted_packets_total")+` or `+rate("gpufabric_hca_ack_timeouts_total"), "{{instance}} {{device}}"),
	}
}

func roceMarks() line {
	return line{
		rates(about{
			"Congestion seen (ECN marks)", "RoCE packets that switches marked on their way here.",
			"no ECN counters are known", 8, 10,
		}, packets, "device",
			rate("gpufabric_hca_ecn_marked_total"), "{{instance}} {{device}}"),
		rates(about{
			"Senders notified (CNP sent)",
			"Congestion notifications sent to the senders of marked packets. Marks without notifications: congestion control does not work.", "no CNP counters are known", 8, 10,
		}, packets, "device",
			rate("gpufabric_hca_cnp_sent_total"), "{{instance}} {{device}}"),
		rates(about{
			"Slowed down (CNP handled)", "Congestion notifications received that made a port send slower.",
			"no CNP counters are known", 8, 10,
		}, packets, "device",
			rate("gpufabric_hca_cnp_handled_total"), "{{instance}} {{device}}"),
	}
}

func roceFrames() line {
	return line{
		rates(about{
			"Pause frames received", "Pause frames that a port received from its switch, by priority.",
			"no pause counters are known", 8, 10,
		}, packets, "device, priority",
			rate("gpufabric_roce_received_pause_frames_total")+` or `+rate("gpufabric_ethernet_received_pause_frames_total"),
			"{{instance}} {{device}} priority {{priority}}"),
		rates(about{
			"Pause frames sent", "Pause frames that a port sent to its switch, by priority.",
			"no pause counters are known", 8, 10,
		}, packets, "device, priority",
			rate("gpufabric_roce_transmitted_pause_frames_total")+` or `+rate("gpufabric_ethernet_transmitted_pause_frames_total"), "{{instance}} {{device}} priority {{priority}}"),
		rates(about{
			"Pause storms",
			"Times a NIC found itself pausing for too long: warnings and errors. After an error it drops instead.",
			"the NICs do not count storms", 8, 10,
		}, events, "device",
			rate("gpufabric_ethernet_pause_storm_warnings_total")+` + `+rate("gpufabric_ethernet_pause_storm_errors_total"),
			"{{instance}} {{device}}"),
	}
}

func roceTraffic() line {
	// Under load all ports are high: which one is the highest says nothing.
	spread := func(a about, expr string) panel {
		expr = `sum by (cluster, instance, device) (` + expr + `)`
		return over(a, "Bps", nil, curve{`max(` + expr + `)`, "highest port"},
			curve{`quantile(0.5, ` + expr + `)`, "median"}, curve{`min(` + expr + `)`, "lowest port"})
	}
	return line{
		spread(about{
			"RDMA sent",
			"What training ports send over RDMA (on InfiniBand: all they send), over 2 minutes: the highest, the median and the lowest of those chosen.", "no traffic is known, or the recording rules are not loaded", 12, 8,
		},
			`port:gpufabric_hca_port_transmitted_data_bytes:carried2m{@port}`),
		spread(about{
			"Other traffic sent",
			"What RDMA-capable interfaces send that is not RDMA, mostly TCP. On a training port it takes bandwidth from RDMA, or replaces it.", "the NICs do not count it apart", 12, 8,
		},
			carried("gpufabric_ethernet_transmitted_other_unicast_bytes_total")),
	}
}

func priorities() panel {
	return over(about{
		"Sent, by priority",
		"What the ports chosen send in each priority. RoCE should be in one, and other traffic in others.",
		"no counters by priority are known", 24, 7,
	}, "Bps", nil,
		curve{
			`sum by (priority) (` + carried("gpufabric_roce_priority_transmitted_bytes_total") + `)`,
			"priority {{priority}}",
		})
}

func congestionControl() panel {
	return grid(about{
		"Congestion control",
		"What keeps RoCE from losing packets: PFC stops the sender for a moment, ECN slows it down. All ports of a fabric should have the same.", "no RoCE port, or the collector roce is off", 10, 8,
	},
		[]string{
			`count by (mode) (gpufabric_roce_congestion_control{@port} == 1)`,
			`count by (mode) (count by (cluster, instance, mode) (gpufabric_roce_congestion_control{@port} == 1))`,
		}, "-Ports",
		column{field: "mode", title: "Flow control", words: congestionModes()},
		column{field: "A", title: "Ports"},
		column{field: "B", title: "Nodes"})
}

func brokenChains() panel {
	return grid(about{
		"Where RoCE settings break",
		"Ports whose settings contradict each other, and the first step that does not fit: address (GID), traffic class, DSCP, priority, PFC, pause, buffer, ETS, ECN or CNP.", "no contradiction is known", 14, 8,
	},
		[]string{`max by (cluster, instance, device, port, step) (gpufabric_roce_chain_broken{@port} == 1` + ofActive +
			`)`}, "Node",
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "device", title: "Device", link: toPortOf("Node")},
		column{field: "port", title: "Port", width: 60},
		column{field: "step", title: "First wrong step", words: roceSteps()},
		column{field: "cluster", title: "Cluster"})
}

func connectionErrors() panel {
	return rates(about{
		"Connections given up, by port",
		"Connections whose retries were used up (transport, or receiver not ready). The job that owns one fails.",
		"no such counters are known", 24, 8,
	}, events, "device",
		rate("gpufabric_hca_retries_exceeded_total")+` or `+rate("gpufabric_hca_rnr_retries_exceeded_total"),
		"{{instance}} {{device}}")
}

func roceHelp() panel {
	return prose("Who is the bottleneck", 24, 6, `* **Paused by the network** high on many ports: the switches are congested. High on one: its own link or leaf.
* **Pausing the network** high on one host: that host is slow to receive (PCIe, memory). It makes the network slow for all.
* **Lost on arrival** above 0 in a lossless priority: PFC or buffers are set wrong on the way.
* **Marks** without **notifications**, or notifications without senders that slow down: congestion control (DCQCN) is not on at both ends.
* **Out of sequence** and **Sent again** rise with losses anywhere on the way; look at switches and cables.`)
}
