// SPDX-License-Identifier: Apache-2.0

package main

import "gpufabric_exporter/internal/diagnose"

// compute leaves out ports that are known not to be for training.
const compute = `unless on (cluster, job, instance, device, port) gpufabric_hca_port_info{role!="compute",@node}`

func node(t texts) board {
	return board{
		name: "node", title: "GPU fabric: node", oneNode: true, annotations: true,
		description: "One node: what is wrong with it, and everything that is known about its ports, RoCE settings, GPUs and probes.",
		lines:       []line{nodeNow(), {findings(t, 16), unknowns(t)}, {ports()}, {qosChain()}, {gpus()}, {nodeProbes()}, nodeTraffic()},
		rows: []row{
			{"Addresses (GIDs)", []line{{gids(), gidTables()}}},
			{"Ports over time", []line{portHistory()}},
			{"GPUs over time", []line{gpuTrends(), gpuErrors()}},
			{"Firing alerts", []line{{firing()}}},
			{"The exporter itself", []line{exporterNow(), exporterTrends()}},
		},
	}
}

func nodeNow() line {
	return line{
		number(about{"The exporter", "Whether the last scrape was answered. While it is not, nothing on this page is of now.", "never seen", 3, 4}, "none",
			`min(up{@node} and on (cluster, job, instance) instance:gpufabric_node_info:last_seen_timestamp_seconds)`, nil, words{"1": {"answers", good}, "0": {"silent", bad}}),
		number(about{"Critical findings", "Open findings of severity critical.", "checks are off", 3, 4}, "none",
			orZero(`count(`+open(of(diagnose.Critical))+`)`, `gpufabric_check_failed{@node}`), zero(bad), nil),
		number(about{"Warnings", "Open findings of severity warning.", "checks are off", 3, 4}, "none",
			orZero(`count(`+open(of(diagnose.Warning))+`)`, `gpufabric_check_failed{@node}`), zero(warning), nil),
		number(about{"Training ports up", "Active ports of role compute.", "no RDMA port is known", 3, 4}, "none",
			orZero(`count(gpufabric_hca_port_state{state="active",@node} == 1 `+compute+`)`, `gpufabric_hca_port_state{state="active",@node} `+compute), []step{{0, bad}, {1, plainly}}, nil),
		number(about{"Training ports down", "Ports of role compute that are not active.", "no RDMA port is known", 3, 4}, "none",
			orZero(`count(gpufabric_hca_port_state{state="active",@node} == 0 `+compute+`)`, `gpufabric_hca_port_state{state="active",@node} `+compute), zero(bad), nil),
		number(about{"NCCL goes over", "The way that the last probe of kind transport found NCCL would take to other nodes: RDMA, a plugin, or TCP.", "no probes switched on", 3, 4}, "none",
			`max(
  3 * (gpufabric_probe_transport{kind="transport",transport="socket",@node} == 1)
  or 2 * (gpufabric_probe_transport{kind="transport",transport="plugin",@node} == 1)
  or gpufabric_probe_transport{kind="transport",transport="ib",@node} == 1
)`, nil, words{"1": {"RDMA", good}, "2": {"plugin", good}, "3": {"TCP", bad}}),
		number(about{"GPUDirect RDMA", "Share of GPUs between which and their NIC NCCL would use GPUDirect RDMA under the host's configuration. The table of GPUs says what blocks it.", "no GPU with a NIC is known", 3, 4}, "percentunit",
			`avg(gpufabric_gpudirect_usable{@node})`, []step{{0, bad}, {1, good}}, nil),
		number(about{"Worst probe", "Lowest bus bandwidth of the last probes over their own baselines: 100 % is as fast as ever.", "no baseline yet, or no probes switched on", 3, 4}, "percentunit",
			`min(gpufabric_probe_baseline_ratio{kind!="socket",@node})`, []step{{0, bad}, {0.8, warning}, {0.95, good}}, nil),
	}
}

func unknowns(t texts) panel {
	return grid(about{"What cannot be told", "Checks without a verdict, and why: not_read (nobody read it), no_permission, stuck and the like. Unknown is neither good nor bad.", "every check that applies has a verdict, or checks are off", 8, 9},
		[]string{`label_replace(
  label_replace(max by (instance, check, reason, device) (gpufabric_check_unknown{@node} == 1), "problem", "$1", "check", "(.*)"),
  "runbook", "$1", "check", "(.*)"
)`}, "What could be wrong",
		column{field: "problem", title: "What could be wrong", words: t.problems},
		column{field: "reason", title: "Not known because", width: 130},
		column{field: "device", title: "Device", width: 100},
		column{field: "runbook", title: "Runbook", words: t.runbooks, link: toRunbook(), width: 120})
}

func ports() panel {
	return grid(about{"Ports", "Every RDMA port: what it is for, its state, and its rate against what it should have. Training ports have the role compute.", "no RDMA device, or the collector hca is off", 24, 10},
		[]string{
			`max by (device, port, netdev, role, link_layer) (gpufabric_hca_port_info{@port})`,
			`max by (device, port, state) (gpufabric_hca_port_state{@port} == 1)`,
			`max by (device, port, physical) (label_replace(gpufabric_hca_port_physical_state{@port} == 1, "physical", "$1", "state", "(.*)"))`,
			`8 * max by (device, port) (gpufabric_hca_port_rate_bytes_per_second{@port})`,
			`8 * max by (device, port) (gpufabric_hca_port_expected_rate_bytes_per_second{@port})`,
			`max by (device, port) (gpufabric_hca_port_rate_bytes_per_second{@port} / gpufabric_hca_port_expected_rate_bytes_per_second)`,
			`max by (device, port) (gpufabric_ethernet_link_down_events_total{@port} or gpufabric_hca_port_link_downed_total{@port})`,
		}, "Device",
		column{field: "device", title: "Device", width: 100},
		column{field: "port", title: "Port", width: 50},
		column{field: "role", title: "Role", words: words{"compute": {"compute (training)", ""}}, width: 160},
		column{field: "netdev", title: "Interface"},
		column{field: "link_layer", title: "Link layer", width: 100},
		column{field: "state", title: "State", none: "unknown", words: words{"active": {"active", good}, "down": {"down", bad}, "init": {"init", warning}, "armed": {"armed", warning}}, width: 80},
		column{field: "physical", title: "Link", none: "unknown", words: words{"link_up": {"up", good}, "disabled": {"disabled", bad}, "polling": {"polling (no partner)", bad}}, width: 150},
		column{field: "D", title: "Rate", unit: "bps", width: 100},
		column{field: "E", title: "Expected", unit: "bps", width: 100},
		column{field: "F", title: "Of expected", unit: "percentunit", steps: []step{{0, bad}, {1, plainly}}, width: 100},
		column{field: "G", title: "Link losses ever", none: "not counted", width: 130})
}

func qosChain() panel {
	return grid(about{"RoCE settings, from the traffic class to congestion control", "What NCCL asks for (traffic class), what packets carry (DSCP), which priority the NIC gives them, and what protects that priority. A contradiction on the way makes RoCE lose packets or wait behind other traffic.", "no RoCE port, or the collector roce is off", 24, 10},
		[]string{
			`max by (device, port) (gpufabric_roce_traffic_class{@port})`,
			`max by (device, port) (gpufabric_roce_dscp{@port})`,
			`max by (device, port) (gpufabric_roce_priority{@port})`,
			`min by (device, port) (gpufabric_roce_pfc_enabled{@port} and on (cluster, job, instance, device, port, priority) count_values by (cluster, job, instance, device, port) ("priority", gpufabric_roce_priority{@port}))`,
			`min by (device, port) (gpufabric_roce_ecn_enabled{@port})`,
			`max by (device, port, mode) (gpufabric_roce_congestion_control{@port} == 1)`,
			`max by (device, port, trust) (label_replace(gpufabric_roce_trust{@port} == 1, "trust", "$1", "mode", "(.*)"))`,
			`max by (device, port) (gpufabric_roce_lossless_buffer_bytes{@port})`,
			`min by (device, port) (gpufabric_roce_chain_consistent{@port})`,
			`max by (device, port, broken) (label_replace(gpufabric_roce_chain_broken{@port} == 1, "broken", "$1", "step", "(.*)"))`,
			`max by (device, port, unknown) (label_replace(gpufabric_roce_chain_unknown{@port} == 1, "unknown", "$1", "step", "(.*)"))`,
		}, "Device",
		column{field: "device", title: "Device", width: 100},
		column{field: "port", title: "Port", width: 50},
		column{field: "A", title: "Traffic class", none: "left to jobs", width: 110},
		column{field: "B", title: "DSCP", width: 80},
		column{field: "C", title: "Priority", width: 75},
		column{field: "trust", title: "Priority taken from", none: "unknown", width: 130},
		column{field: "D", title: "PFC", words: words{"1": {"on", plainly}, "0": {"off", plainly}}, width: 60},
		column{field: "E", title: "ECN", words: words{"1": {"on", plainly}, "0": {"off", plainly}}, width: 60},
		column{field: "H", title: "Lossless buffer", unit: "bytes", width: 120},
		column{field: "mode", title: "Congestion is met by", none: "unknown", words: congestionModes(), width: 160},
		column{field: "I", title: "Consistent", words: yesNo(good, bad), width: 90},
		column{field: "broken", title: "Broken at", none: "-"},
		column{field: "unknown", title: "Unknown from", none: "-"})
}

// ofGPU gives what is known by UUID the PCI address of the GPU, which is known without its driver, too.
func ofGPU(expr string) string {
	return `max by (pci_address) (` + expr + ` * on (cluster, job, instance, uuid) group_left (pci_address) group by (cluster, job, instance, uuid, pci_address) (gpufabric_gpu_info{@node}))`
}

func gpus() panel {
	return grid(about{"GPUs", "Each GPU, its nearest training NIC and how far that is (PIX: one switch, SYS: another socket), and whether NCCL would use GPUDirect RDMA between them, or what stands in its way.", "no GPU, or the collectors pcie and gpu are off", 24, 10},
		[]string{
			`max by (pci_address, index, name) (gpufabric_gpu_info{@node})`,
			`max by (pci_address, device, rail, class) (gpufabric_gpu_nic_distance{@node})`,
			`min by (pci_address) (gpufabric_gpudirect_usable{@node})`,
			`max by (pci_address, path) (gpufabric_gpudirect_path{@node} == 1)`,
			`max by (pci_address, reason) (gpufabric_gpudirect_blocked{@node} == 1 or label_replace(gpufabric_gpudirect_unknown{@node} == 1, "reason", "unknown: $1", "reason", "(.*)"))`,
			ofGPU(`gpufabric_gpu_utilization_ratio{@node}`),
			ofGPU(`gpufabric_nvlink_links_active{@node}`),
			ofGPU(`gpufabric_nvlink_links{@node}`),
			`max by (pci_address) (gpufabric_pcie_link_degraded{device="",@node})`,
		}, "GPU",
		column{field: "index", title: "GPU", width: 50},
		column{field: "pci_address", title: "PCI address", width: 130},
		column{field: "name", title: "Product", none: "no driver"},
		column{field: "device", title: "Nearest NIC", none: "unknown", width: 100},
		column{field: "rail", title: "Rail", width: 50},
		column{field: "class", title: "Distance", none: "unknown", words: words{"PIX": {"PIX", good}, "PXB": {"PXB", good}, "P2C": {"P2C", good}, "PHB": {"PHB", warning}, "NODE": {"NODE", warning}, "SYS": {"SYS", bad}}, width: 80},
		column{field: "C", title: "GPUDirect RDMA", words: words{"1": {"would be used", good}, "0": {"not used", bad}}, width: 130},
		column{field: "path", title: "By", none: "-", width: 80},
		column{field: "reason", title: "Blocked by", none: "-"},
		column{field: "F", title: "Busy", unit: "percentunit", width: 70},
		column{field: "G", title: "NVLinks up", none: "none", width: 90},
		column{field: "H", title: "NVLinks", none: "none", width: 80},
		column{field: "I", title: "PCIe degraded", words: yesNo(bad, plainly), width: 110})
}

func nodeProbes() panel {
	return probeTable("Probes", "kind, device, port", 24, 10, false)
}

func nodeTraffic() line {
	return line{
		over(about{"Sent, by port", "What each port sends over RDMA (on InfiniBand: all it sends), and what else leaves all interfaces together, mostly TCP.", "no traffic counters are known", 12, 8}, "Bps", nil,
			curve{`sum by (device) (rate(gpufabric_hca_port_transmitted_data_bytes_total{@port}[$__rate_interval]))`, "{{device}} RDMA"},
			curve{`sum(rate(gpufabric_ethernet_transmitted_other_unicast_bytes_total{@port}[$__rate_interval]))`, "all ports, not RDMA"}),
		over(about{"Received, by port", "What each port receives over RDMA (on InfiniBand: all it receives), and what else comes in on all interfaces together, mostly TCP.", "no traffic counters are known", 12, 8}, "Bps", nil,
			curve{`sum by (device) (rate(gpufabric_hca_port_received_data_bytes_total{@port}[$__rate_interval]))`, "{{device}} RDMA"},
			curve{`sum(rate(gpufabric_ethernet_received_other_unicast_bytes_total{@port}[$__rate_interval]))`, "all ports, not RDMA"}),
	}
}
