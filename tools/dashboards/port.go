// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// port is the dashboard of one RDMA device, with all its ports: most have one.
func port(t texts) board {
	return board{
		name: "port", title: "GPU fabric: port", oneNode: true, oneDevice: true, annotations: true,
		description: "One port: its state, rate, traffic, errors, pauses, settings and probe, now and over time, against what is expected of it.",
		lines: []line{
			portNow(),
			{portIdentity()},
			{portFindings(t), portCourse()},
			{qosChain(4)},
			{gids(24, 4)},
			{portProbes(t)},
			portTraffic(), portPauses(), portErrors(), portPCIe(),
		},
		leads: map[string]place{
			"State": {portURL, "As it should be, over time"}, "Rate": {portURL, "Traffic and rate"}, "Expected rate": {portURL, "Traffic and rate"},
			"Errors": {portURL, "Link errors"}, "Time paused": {portURL, "Pauses"}, "Time pausing": {portURL, "Pauses"},
			"RoCE settings": {portURL, "RoCE settings, from the traffic class to congestion control"}, "Last probe": {portURL, "Probe of this rail"},
		},
	}
}

func portNow() line {
	const (
		current  = `8 * min(gpufabric_hca_port_rate_bytes_per_second{@port})`
		expected = `8 * max(gpufabric_hca_port_expected_rate_bytes_per_second{@port})`
		down     = `(gpufabric_hca_port_physical_state{state="link_up",@port} == 0) unless on () gpufabric_hca_port_rate_bytes_per_second{@port}`
		slow     = `(gpufabric_hca_port_rate_bytes_per_second{@port} < on (cluster, job, instance, device, port) gpufabric_hca_port_expected_rate_bytes_per_second{@port})`
	)
	speed := number(about{
		"Rate",
		"Signalling rate of the link: green at the expected rate, red below it, without colour where no rate is expected. A link that is down has none, whatever the driver says.", "unknown", 3, 3,
	}, "bps",
		current+" and on () "+expected+" unless on () "+slow+"\nor "+linkDown+" + 0 * max("+down+")", []step{{0, good}},
		words{linkDown: {"link down", unknown}})
	speed = instead(speed, "B", "8 * min("+slow+")", "bps", bad)
	speed = instead(speed, "C", current+" unless on () "+expected, "bps", plainly)
	return line{
		number(about{
			"State",
			"Logical state of the port; of several ports the worst. Some drivers, such as that of EFA, report none.",
			"unknown", 3, 3,
		}, "none",
			`max(gpufabric_hca_port_state{state="active",@port} == 1
  or 2 * (gpufabric_hca_port_state{state="armed",@port} == 1)
  or 3 * (gpufabric_hca_port_state{state="init",@port} == 1)
  or 0 * `+spare+`
  or 4 * (gpufabric_hca_port_state{state="down",@port} == 1 unless on (cluster, job, instance, device, port) `+spare+`)
  or 5 * (gpufabric_hca_port_state{state!~"active|armed|init|down",@port} == 1)
  or 6 + 0 * (gpufabric_hca_port_info{link_layer="unspecified",@port} unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{@port})
  or 7 + 0 * `+goneDevice+`)`, nil,
			words{
				"0": {"down (spare)", unneeded}, "1": {"active", good}, "2": {"armed", warning}, "3": {"init", warning},
				"4": {"down", bad}, "5": {"other", warning}, "6": {"not reported", plainly}, "7": {"gone", bad},
			}),
		speed,
		number(about{
			"Expected rate", "What configuration, manifest, profile or record of the node state.", "not stated", 3,
			3,
		}, "bps", expected, nil, nil),
		number(about{
			"Errors",
			"In 10 minutes: symbol errors, blocks that FEC could not repair, packets lost, and connections given up.",
			"not counted", 3, 3,
		}, "short",
			`round(sum(`+apart("increase", "10m", "gpufabric_ethernet_symbol_errors_total",
				"gpufabric_hca_port_symbol_errors_total", "gpufabric_ethernet_fec_uncorrectable_blocks_total",
				"gpufabric_ethernet_received_discards_total", "gpufabric_hca_port_receive_errors_total",
				"gpufabric_hca_retries_exceeded_total")+`)) unless on () `+goneDevice, zero(bad), nil),
		number(about{
			"Time paused",
			"Share of the last 2 minutes in which pause frames (PFC) of the switch kept the port from sending: the network is congested.", "not counted", 3, 3,
		}, "percentunit", `max(`+pausedShare+`{@port})`, []step{{0, good}, {0.02, warning}, {0.1, bad}}, nil),
		number(about{
			"Time pausing",
			"Share of the last 2 minutes in which the port made its switch wait with pause frames (PFC): the host receives slower than others send.", "not counted", 3, 3,
		}, "percentunit", `max(`+pausingShare+`{@port})`, []step{{0, good}, {0.05, warning}, {0.5, bad}}, nil),
		number(about{
			"RoCE settings",
			"Whether address, traffic class, DSCP, priority, PFC and ECN agree. Settings of a port that is not active are not judged.", "not known", 3, 3,
		}, "none",
			`min(gpufabric_roce_chain_consistent{@port}`+ofActive+`)
or max(2 + 0 * (gpufabric_hca_port_state{state="active",@port} == 0))
or max(3 + 0 * gpufabric_hca_port_info{link_layer!="ethernet",@port})`, nil, words{"1": {"consistent", good}, "0": {"wrong", bad}, "2": {"not judged", plainly}, "3": {"no RoCE", plainly}}),
		number(about{
			"Last probe",
			"Bus bandwidth of the last probe of this rail over its own baseline, which takes five results. Outdated: it is older than a critical finding on this node, or than two of its intervals.", "no result", 3, 3,
		}, "percentunit",
			`min(`+freshOrFails(`kind="rail",@port`)+`)`, []step{{0, bad}, {0.8, warning}, {0.95, good}}, ratios()),
	}
}

// linkDown is the rate of a link that is down: it has none.
const linkDown = "-4"

func portIdentity() panel {
	return grid(about{
		"The port",
		"What it is, what it is for, whether its PCIe link has its full speed and width, and the nearest GPU. " + nearness,
		"no such device, or the collector hca is off", 24, 4,
	},
		[]string{
			orSilent(`max by (device, port, role, netdev) (gpufabric_hca_port_info{@port} or 0 * ` + goneDevice + `)`),
			`max by (device, board_id, firmware_version, pci_address) (gpufabric_hca_info{@port})`,
			`max by (device, rail, class, gpu) (` + dealtGPU + `)`,
			`max by (device) (gpufabric_pcie_link_degraded{@port})`,
			`max by (device, port, physical) (label_replace(gpufabric_hca_port_physical_state{@port} == 1, "physical", "$1", "state", "(.*)") or label_replace(` +
				goneDevice + `, "physical", "gone", "", ""))`,
		}, "",
		column{field: "device", title: "Device", width: 106},
		column{field: "port", title: "Port", width: 44},
		column{field: "role", title: "Role", words: roles(), width: 80},
		column{field: "netdev", title: "Interface", width: 121},
		column{field: "physical", title: "Link", none: "unknown", words: physicalStates().with("gone", word{"gone", bad}), width: 130},
		column{field: "board_id", title: "Board", width: 129},
		column{field: "firmware_version", title: "Firmware", width: 97},
		column{field: "pci_address", title: "PCI address", width: 104},
		column{field: "D", title: "PCIe link", words: words{"0": {"full", good}, "1": {"degraded", bad}}, width: 81},
		column{field: "rail", title: "Rail", none: "-", width: 43},
		column{field: "gpu", title: "GPU", none: "none", width: 124},
		column{field: "class", title: "Distance", none: "-", words: distances(), width: 126})
}

// dealtGPU are the GPUs near each NIC.
var dealtGPU = nearest("@port") + ` * on (cluster, job, instance, pci_address) group_left (gpu)
  max by (cluster, job, instance, pci_address, gpu) (` + nameGPU(`gpufabric_gpu_info{@node}`) + `)
or ` + nearest("@port") + ` unless on (cluster, job, instance, pci_address) gpufabric_gpu_info{@node}`

func portFindings(t texts) panel {
	opened := open(`device=~"$device",`)
	found := `1000 * min by (severity, problem) (` + opened + `)`
	return grid(about{
		"Open findings of this port",
		"Checks of this device that fail, and alerts about it that fire. What is wrong leads to what it means and what to do. What is wrong with the whole node is on its dashboard.", "unknown: no answer, or the recording rules are not loaded", 13, 8,
	},
		[]string{`label_replace(` + caveats(ranked(found), opened, "@port") + `, "runbook", "$1", "problem", "(.*)")
or label_replace(` + absent(sortedFirst) + ` + 0 * max by (because) (` + spareBecause + `), "rank", "spare", "", "")`}, bySeverity+","+bySince,
		column{field: "rank", title: bySeverity, words: ranks(), width: 85},
		column{field: "problem", title: "What is wrong", words: t.problems, link: toRunbookOfRow()},
		column{field: "because", title: "Why it is spare"},
		column{field: "A", title: bySince, unit: "time:MMM D HH:mm", none: "-", words: noTimes(), width: 110},
		column{field: "runbook", title: "Runbook", words: t.runbooks, hidden: true},
		column{field: "severity"})
}

// portCourse shows in one place when each fact of the port was as it should be.
func portCourse() panel {
	return history(about{
		"As it should be, over time",
		"Whether the port was active (or is spare: not needed), at the expected rate, had few pauses, settings that agree and an address that NCCL can use, and whether its last probe succeeded and was as fast as before.", "nothing is known about this port", 11, 8,
	},
		words{"1": {"yes", good}, "0": {"no", bad}, isSpare: {"spare: not needed", unneeded}, isStateless: {"not reported", note}},
		curve{`min(` + activeOrSpare + ` or 0 * ` + goneDevice + `)
or max(` + isStateless + ` * gpufabric_hca_port_info{link_layer="unspecified",@port})`, "active"},
		curve{`min(gpufabric_hca_port_rate_bytes_per_second{@port} >= bool on (cluster, job, instance, device, port) gpufabric_hca_port_expected_rate_bytes_per_second{@port})`, "at full rate"},
		curve{`max(` + pausingShare + `{@port}) < bool 0.05`, "does not pause the network"},
		curve{`max(` + pausedShare + `{@port}) < bool 0.1`, "is not paused"},
		curve{`min(gpufabric_roce_chain_consistent{@port}` + ofActive + `)`, "RoCE settings agree"},
		curve{`min(1 + 0 * gpufabric_gid_selected_index{reason!="fallback",@port} or 0 * gpufabric_gid_selected_index{reason="fallback",@port})`, "address fits"},
		curve{`min(gpufabric_probe_success{kind="rail",@port} ` + unlessOutdated +
			` or 0 * (gpufabric_probe_failing{kind="rail",@port} == 1))`, "probe succeeds"},
		curve{`1 - max(gpufabric_probe_regressed{kind="rail",@port} ` + unlessOutdated + `)`, "probe as fast as before"})
}

func portProbes(t texts) panel {
	return probeTable(t, about{
		"Probe of this rail", lastResult,
		"no result: probes are off, the port was down, or no GPU is assigned to it", 24, 4,
	}, "kind, device, port", "@port",
		"device")
}

// lasting is a line in bits per second whose name says so if the device is gone: the legend has its last value all
// the same.
func lasting(expr, name string) curve {
	return curve{`8 * ` + expr + ` * on () group_left (was) max by (was) (label_replace(1 + 0 * max(` + atEnd.Replace(goneDevice) +
		`), "was", " before it was gone", "", "") or on () vector(1))`, name + "{{was}}"}
}

func portTraffic() line {
	const linkRate = `8 * max(gpufabric_hca_port_rate_bytes_per_second{@port})`
	return line{
		over(about{
			"Traffic and rate",
			"What the port sends and receives over RDMA (on InfiniBand: all of it) and otherwise, mostly TCP, against the rate of its link and the expected rate. A link that is down has no rate: its line ends there.", "no traffic counters are known", 12, 9,
		}, "bps", nil,
			lasting(`max(gpufabric_hca_port_expected_rate_bytes_per_second{@port})`, "expected rate"),
			curve{linkRate + ` and on () (` + atEnd.Replace(linkRate) + `)`, "rate of the link"},
			curve{linkRate + ` unless on () (` + atEnd.Replace(linkRate) + `)`, "rate of the link before it went down"},
			lasting(`sum(`+carried("gpufabric_hca_port_transmitted_data_bytes_total")+`)`, "sent over RDMA"),
			lasting(`sum(`+carried("gpufabric_hca_port_received_data_bytes_total")+`)`, "received over RDMA"),
			lasting(`sum(`+carried("gpufabric_ethernet_transmitted_other_unicast_bytes_total")+`)`, "sent otherwise"),
			lasting(`sum(`+carried("gpufabric_ethernet_received_other_unicast_bytes_total")+`)`, "received otherwise")).Min(0),
		over(about{
			"Probe: measured and expected",
			"Bus bandwidth of the last probe through this port, what the same probe reached before (its baseline), and what the line rate lets expect where that is known.", "no probe of this port is known", 12, 9,
		}, "Bps", nil,
			curve{`max(gpufabric_probe_bus_bandwidth_bytes_per_second{kind="rail",@port} / gpufabric_probe_expected_ratio{kind="rail",@port})`, "of the line rate"},
			curve{`max(gpufabric_probe_bus_bandwidth_bytes_per_second{kind="rail",@port} / gpufabric_probe_baseline_ratio{kind="rail",@port})`, "baseline"},
			curve{`min(gpufabric_probe_bus_bandwidth_bytes_per_second{kind="rail",@port})`, "measured"}).Min(0),
	}
}

func portPauses() line {
	return line{
		over(about{
			"Pauses", "Share of time in which the network paused the port, and the port the network: of its priorities the highest.",
			"no pause counters are known, or the rules are not loaded", 12, 8,
		}, "percentunit", nil,
			curve{`max(` + pausedShare + `{@port})`, "paused by the network"},
			curve{`max(` + pausingShare + `{@port})`, "pausing the network"}).Interval(recording),
		over(about{
			"Congestion marks",
			"Marked packets seen, notifications sent to their senders, and notifications received that slowed this port down.",
			"no ECN and CNP counters are known", 12, 8,
		}, packets, nil,
			curve{`sum(` + rate("gpufabric_hca_ecn_marked_total") + `)`, "marked packets seen"},
			curve{`sum(` + rate("gpufabric_hca_cnp_sent_total") + `)`, "notifications sent"},
			curve{`sum(` + rate("gpufabric_hca_cnp_handled_total") + `)`, "notifications obeyed"}),
	}
}

func portErrors() line {
	return line{
		over(about{
			"Link errors", "What the physical link could not repair, and how often it was lost.",
			"no such counters are known", 8, 10,
		}, events, nil,
			curve{`sum(` + rate("gpufabric_ethernet_symbol_errors_total") + ` or ` +
				rate("gpufabric_hca_port_symbol_errors_total") + `)`, "symbol errors"},
			curve{`sum(` + rate("gpufabric_ethernet_fec_uncorrectable_blocks_total") + `)`, "blocks beyond FEC"},
			curve{`sum(` + rate("gpufabric_ethernet_received_crc_errors_total") + `)`, "CRC errors"},
			curve{`sum(` + rate("gpufabric_ethernet_link_down_events_total") + ` or ` +
				rate("gpufabric_hca_port_link_downed_total") + `)`, "link losses"}),
		over(about{
			"Drops",
			"Packets dropped on arrival, by priority where the NIC reports it, and because of a lack of receive buffers.",
			"no drop counters are known", 8, 10,
		}, packets, nil,
			curve{`sum by (priority) (` + rate("gpufabric_roce_received_discards_total") + `)`, "priority {{priority}}"},
			curve{`sum(` + rate("gpufabric_ethernet_received_discards_total") + ` or ` +
				rate("gpufabric_hca_port_receive_discards_total") + `)`, "dropped by the port"},
			curve{`sum(` + rate("gpufabric_hca_out_of_buffer_total") + `)`, "no receive buffer"}),
		over(about{
			"Retransmissions",
			"Packets out of sequence, sent again, not acknowledged in time, and connections given up.",
			"no such counters are known", 8, 10,
		}, events, nil,
			curve{`sum(` + rate("gpufabric_hca_out_of_sequence_total") + `)`, "out of sequence"},
			curve{`sum(` + apart("rate", "$__rate_interval", "gpufabric_hca_retransmissions_total", "gpufabric_hca_adaptive_retransmissions_total", "gpufabric_hca_retransmitted_packets_total") + `)`, "sent again"},
			curve{`sum(` + rate("gpufabric_hca_ack_timeouts_total") + `)`, "acknowledgement late"},
			curve{`sum(` + apart("rate", "$__rate_interval", "gpufabric_hca_retries_exceeded_total", "gpufabric_hca_rnr_retries_exceeded_total") + `)`, "connections given up"}),
	}
}

func portPCIe() line {
	return line{
		over(about{
			"PCIe errors",
			"Errors of the PCIe link of the NIC (AER). Correctable ones cost time, fatal ones the device.",
			"no PCIe error counters are known", 12, 8,
		}, events, nil,
			curve{`sum by (severity) (` + rate("gpufabric_pcie_aer_errors_total") + `)`, "{{severity}}"}),
		over(about{
			"PCIe stalls", "Share of time in which the NIC waited for the host to read or write memory.",
			"no stall counters are known", 12, 8,
		}, "percentunit", nil,
			curve{`max(` + rate("gpufabric_ethernet_pcie_read_stalled_seconds_total") + `)`, "reads"},
			curve{`max(` + rate("gpufabric_ethernet_pcie_write_stalled_seconds_total") + `)`, "writes"}),
	}
}

// apart are what several counters of a port count, with a label that keeps one from hiding another with the same labels.
func apart(function, window string, counters ...string) string {
	var all []string
	for _, c := range counters {
		all = append(all, `label_replace(`+function+`(`+c+`{@port}[`+window+`]), "counter", "`+c+`", "", "")`)
	}
	return strings.Join(all, " or ")
}
