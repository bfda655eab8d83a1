// SPDX-License-Identifier: Apache-2.0

package main

// rates draws a recorded rate of each device: the ten highest, so that it stays readable on a large fleet.
func rates(a about, unit, series string) panel {
	a.description += " The ten that were highest in the time shown."
	return over(a, unit, nil, extreme("topk", "cluster, instance, device", series+"{@port}",
		"{{cluster}} {{instance}} {{device}}")...).Interval(recording)
}

// recording is the interval at which rules record what dashboards show over time: more points would show the same.
const recording = "1m"

// Recorded shares of the time in which the network paused a port, and a port the network.
const (
	pausedShare  = `port:gpufabric_received_pause_seconds:rate2m`
	pausingShare = `port:gpufabric_transmitted_pause_seconds:rate2m`
)

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
		leads: map[string]place{
			"Most paused": {roceURL, "Paused by the network"}, "Most pausing": {roceURL, "Pausing the network"},
			"Lossless packets lost": {roceURL, "Lost on arrival"}, "Connections given up": {roceURL, "Connections given up, by port"},
			"Ports in a storm": {roceURL, "Pausing the network"}, "Broken RoCE chains": {roceURL, "Where RoCE settings break"},
		},
		rows: []row{
			{"Traffic", []line{roceTraffic(), {priorities()}}},
			{"Settings, and connections given up", []line{{congestionControl(), brokenChains()}, {connectionErrors()}}},
			{"How to read this", []line{{roceHelp()}}},
		},
	}
}

func roceNow() line {
	return line{
		number(about{
			"Most paused",
			"Share of time in which the network kept the worst port from sending, over 2 minutes. Above 10 % jobs feel it: look for congestion in the switches.", "no pause counters are known", 4, 3,
		}, "percentunit", `max(`+pausedShare+`{@port})`, []step{{0, good}, {0.02, warning}, {0.1, bad}}, nil),
		number(about{
			"Most pausing",
			"Share of time in which the worst host paused its switch, over 2 minutes. Above 5 % the host receives slower than it is sent to; above 50 % it is a storm, which spreads.", "no pause counters are known", 4, 3,
		}, "percentunit", `max(`+pausingShare+`{@port})`, []step{{0, good}, {0.05, warning}, {0.5, bad}}, nil),
		number(about{
			"Lossless packets lost",
			"Packets dropped on arrival in priorities that should lose nothing, per second, all ports.",
			"no counters by priority", 4, 3,
		}, packets,
			`sum(port:gpufabric_roce_lossless_discards:rate2m{@port})`, []step{{0, good}, {1e-6, bad}}, nil),
		number(about{
			"Connections given up", "Connections whose retries were used up within 10 minutes. Their jobs fail.",
			"no such counters are known", 4, 3,
		}, "short",
			`sum(port:gpufabric_hca_given_up:increase10m{@port})`, []step{{0, good}, {0.5, bad}}, nil),
		number(about{
			"Ports in a storm",
			"Ports whose NIC warned within 10 minutes that it pauses for too long, or dropped instead, and ports that paused their switch for more than half of the last 2 minutes.", "no pauses are counted", 4, 3,
		}, "none",
			orZero(`count(sum by (cluster, instance, device, port) (
  increase(gpufabric_ethernet_pause_storm_warnings_total{@port}[10m]) > 0
  or increase(gpufabric_ethernet_pause_storm_errors_total{@port}[10m]) > 0
  or `+pausingShare+`{@port} > 0.5
))`, `gpufabric_ethernet_pause_storm_warnings_total{@port} or `+pausingShare+`{@port}`), zero(bad), nil),
		number(about{
			"Broken RoCE chains",
			"Ports whose settings contradict each other between traffic class, DSCP, priority, PFC and ECN. The node's dashboard says where.", "no RoCE port, or unknown", 4, 3,
		}, "none",
			orZero(`count(gpufabric_roce_chain_consistent{@port} == 0`+ofActive+`)`, `gpufabric_roce_chain_consistent{@port}`),
			zero(bad), nil),
	}
}

func rocePauses() line {
	const none = "no pause counters are known, or the rules are not loaded"
	return line{
		rates(about{"Paused by the network", "Share of time in which the network kept a port from sending.", none, 12, 8},
			"percentunit", pausedShare),
		rates(about{
			"Pausing the network",
			"Share of time in which a port paused its switch: the host receives slower than it is sent to.", none, 12, 8,
		}, "percentunit", pausingShare),
	}
}

func roceLosses() line {
	return line{
		rates(about{
			"Lost on arrival", "Packets dropped on arrival, in all priorities. In a lossless one there should be none.",
			"no discard counters by priority are known", 8, 8,
		}, packets, `port:gpufabric_roce_received_discards:rate2m`),
		rates(about{
			"Out of sequence",
			"Gaps in the numbers of RDMA packets that arrived: packets were lost or overtaken. With adaptive routing some are normal.", "no such counters are known", 8, 8,
		}, events, `port:gpufabric_hca_out_of_sequence:rate2m`),
		rates(about{
			"Sent again", "Retransmissions, and acknowledgements that did not come in time.",
			"no such counters are known", 8, 8,
		}, events, `port:gpufabric_hca_sent_again:rate2m`),
	}
}

func roceMarks() line {
	return line{
		rates(about{
			"Congestion seen (ECN marks)", "RoCE packets that switches marked on their way here.",
			"no ECN counters are known", 8, 8,
		}, packets, `port:gpufabric_hca_ecn_marked:rate2m`),
		rates(about{
			"Senders notified (CNP sent)",
			"Congestion notifications sent to the senders of marked packets. Marks without notifications: congestion control does not work.", "no CNP counters are known", 8, 8,
		}, packets, `port:gpufabric_hca_cnp_sent:rate2m`),
		rates(about{
			"Slowed down (CNP handled)", "Congestion notifications received that made a port send slower.",
			"no CNP counters are known", 8, 8,
		}, packets, `port:gpufabric_hca_cnp_handled:rate2m`),
	}
}

func roceTraffic() line {
	// Under load all ports are high: which one is the highest says nothing.
	spread := func(a about, of, series string) panel {
		return over(a, "bps", nil, curve{`8 * max(` + series + `)`, "highest " + of},
			curve{`8 * quantile(0.5, ` + series + `)`, "median"}, curve{`8 * min(` + series + `)`, "lowest " + of}).Interval(recording)
	}
	return line{
		spread(about{
			"RDMA sent",
			"What training ports send over RDMA (on InfiniBand: all they send), over 2 minutes: the highest, the median and the lowest of those chosen.", "no traffic is known, or the recording rules are not loaded", 12, 8,
		}, "port", `port:gpufabric_hca_port_transmitted_data_bytes:carried2m{@port}`),
		spread(about{
			"Other traffic sent",
			"What the RDMA-capable interfaces of a node send that is not RDMA, mostly TCP. On a training port it takes bandwidth from RDMA, or replaces it.", "the NICs do not count it apart", 12, 8,
		}, "node", `instance:gpufabric_ethernet_transmitted_other_unicast_bytes:rate2m{@node}`),
	}
}

func priorities() panel {
	return over(about{
		"Sent, by priority",
		"What the nodes chosen send in each priority. RoCE should be in one, and other traffic in others.",
		"no counters by priority are known", 24, 7,
	}, "bps", nil,
		curve{
			`8 * sum by (priority) (instance:gpufabric_roce_priority_transmitted_bytes:rate2m{@node})`, "priority {{priority}}",
		}).Interval(recording)
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
		"Connections whose retries were used up (transport, or receiver not ready) within 10 minutes. The job that owns one fails.",
		"no such counters are known", 24, 8,
	}, "short", `port:gpufabric_hca_given_up:increase10m`)
}

func roceHelp() panel {
	return prose("Who is the bottleneck", 24, 6, `* **Paused by the network** high on many ports: the switches are congested. High on one: its own link or leaf.
* **Pausing the network** high on one host: that host is slow to receive (PCIe, memory). It makes the network slow for all.
* **Lost on arrival** above 0 in a lossless priority: PFC or buffers are set wrong on the way.
* **Marks** without **notifications**, or notifications without senders that slow down: congestion control (DCQCN) is not on at both ends.
* **Out of sequence** and **Sent again** rise with losses anywhere on the way; look at switches and cables.`)
}
