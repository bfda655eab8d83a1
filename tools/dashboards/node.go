// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"gpufabric_exporter/internal/verdict"
)

// compute leaves out ports that are known not to be for training.
const compute = `unless on (cluster, job, instance, device, port) gpufabric_hca_port_info{role!="compute",@node}`

func node(t texts) board {
	return board{
		name: "node", title: "GPU fabric: node", oneNode: true, annotations: true,
		description: "One node: what is wrong with it, and everything that is known about its ports, RoCE settings, GPUs and probes.",
		lines: []line{
			nodeNow(),
			{findings(t, true, 6)},
			{ports()},
			{qosChain(13)},
			{gpus()},
			{unknowns(t)},
			{nodeProbes(t)},
			nodeTraffic(),
		},
		leads: map[string]place{
			"The exporter": {nodeURL, "Collectors"}, "Critical findings": {nodeURL, findingsTitle}, "Warnings": {nodeURL, findingsTitle},
			"Ports up": {nodeURL, "Ports"}, "Jobs go over": {jobsURL, "Jobs, node by node"}, "Probe goes over": {nodeURL, "Probes"},
			"GPUDirect": {nodeURL, "GPUs"}, "Worst probe": {nodeURL, "Probes"},
		},
		rows: []row{
			{"Addresses (GIDs)", []line{{gids(15, 13), gidTables()}}},
			{"Ports over time", []line{portHistory()}},
			{"GPUs over time", []line{gpuTrends(), gpuErrors()}},
			{"Firing alerts", []line{{firing()}}},
			{"The exporter itself", []line{exporterNow(), exporterTrends()}},
		},
	}
}

func nodeNow() line {
	const (
		known     = `gpufabric_hca_port_info{role="compute",link_layer!="unspecified",@node}`
		stateless = `gpufabric_hca_port_info{role="compute",link_layer="unspecified",@node}`
		up        = `count(gpufabric_hca_port_state{state="active",@node} == 1 ` + compute + `)`
		states    = `gpufabric_hca_port_state{state="active",@node} ` + compute
		expected  = `(max(gpufabric_node_compute_ports_expected{@node}) or count(` + states + `))`
		some      = `(` + up + ` or 0 * count(` + states + `))`
	)
	portsUp := number(about{
		"Ports up",
		"Active training ports (role compute), of those that are expected: green if none is missing, red otherwise. Without a number in the configuration all are expected. Where the driver reports no state, as for EFA, ports are only present.", "no RDMA port is known", 3, 3,
	}, "none",
		some+" >= "+expected, []step{{0, good}}, nil)
	portsUp = instead(portsUp, "B", some+" < "+expected, "none", bad)
	portsUp = instead(portsUp, "C", `count(`+known+`) unless on () `+states, "suffix: of unknown state", note)
	portsUp = instead(portsUp, "D", `count(`+stateless+`) unless on () `+states, "suffix: present", plainly)

	const (
		usable = `(count(gpufabric_gpudirect_usable{@node} == 1 unless on (cluster, job, instance, pci_address) ` +
			nicDown + `) or 0 * sum(gpufabric_gpudirect_usable{@node}))`
		onTCP = `max(gpufabric_probe_transport{kind="transport",transport="socket",@node} == 1)`
	)
	cards := `((max(gpufabric_node_gpus{@node}) or count(gpufabric_gpudirect_usable{@node})) - (count(count by (pci_address) (` + nicSpare + `)) or vector(0)))`
	direct := number(about{
		"GPUDirect",
		"GPUs that can use GPUDirect RDMA with their nearest NIC under the host's configuration: the NIC reads and writes GPU memory without a copy through host memory. Green if all GPUs of the node can. A GPU whose NIC is down does not count, and none does if the probe of kind transport goes over TCP. GPUs whose nearest NIC is spare are left out: they use that of another GPU. The table of GPUs has the reason.", "no GPU with a NIC", 3, 3,
	}, "none",
		usable+" >= "+cards+" unless on () "+onTCP, []step{{0, good}}, nil)
	direct = instead(direct, "B", usable+" < "+cards+" unless on () "+onTCP, "suffix: GPUs only", bad)
	direct = instead(direct, "C", usable+" * 0 and on () "+onTCP, "suffix: (probe: TCP)", bad)

	return line{
		number(about{
			"The exporter",
			"Whether the last scrape was answered. While it is not, nothing on this page is of now.", "never seen", 3, 3,
		},
			"none",
			`min(up{@node} == 1 and on (cluster, job, instance) instance:gpufabric_node_info:last_seen_timestamp_seconds)`,
			nil, words{"1": {"answers", good}}),
		number(about{
			"Critical findings", "Problems of severity critical, however many devices have them.",
			"checks are off", 3, 3,
		}, "none",
			orZero(`count(`+problems(open(of(verdict.Critical)))+`)`, `gpufabric_check_failed{@node}`), zero(bad), nil),
		number(about{"Warnings", "Problems of severity warning, however many devices have them.", "checks are off", 3, 3},
			"none",
			orZero(`count(`+problems(openWarnings())+`)`, `gpufabric_check_failed{@node}`), zero(warning), nil),
		portsUp,
		jobsGoOver(),
		number(about{
			"Probe goes over",
			"What NCCL would use to other nodes, according to the last probe of kind transport: RDMA, a plugin, or TCP. It says nothing about jobs that run: these have the panel beside this one. Outdated: the probe is older than a critical finding on this node, or than two of its intervals.", "no probes switched on", 3, 3,
		}, "none",
			`max(10 * probe:gpufabric_probe_last_run:outdated{kind="transport",@node} or on () vector(0)) + max(
  3 * (gpufabric_probe_transport{kind="transport",transport="socket",@node} == 1)
  or 2 * (gpufabric_probe_transport{kind="transport",transport="plugin",@node} == 1)
  or gpufabric_probe_transport{kind="transport",transport="ib",@node} == 1
)`, nil, words{"1": {"RDMA", good}, "2": {"plugin", good}, "3": {"TCP", bad}, "11": {"RDMA, outdated", unknown}, "12": {"plugin, outdated", unknown}, "13": {"TCP, outdated", bad}}),
		direct,
		number(about{
			"Worst probe",
			"Lowest bus bandwidth of the last probes over their own baselines: 100 % is as fast as before. It says *fails* if the last run of one failed. Outdated probes (see the table) count only if there are no others.", "no baseline yet", 3, 3,
		}, "percentunit",
			`min(`+freshOrFails("@node")+`)`, []step{{0, bad}, {0.8, warning}, {0.95, good}}, ratios()),
	}
}

// jobsGoOver is about the jobs of a node: what carries their data. Where no job is seen, it is judged by the traffic of
// the node.
func jobsGoOver() panel {
	const rdma, other = `instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{@node} > 1e8`,
		`sum by (cluster, job, instance) (instance:gpufabric_ethernet_transmitted_other_unicast_bytes:rate2m{@node})`
	w := jobTransports()
	w["20"], w["21"] = word{"RDMA, by traffic", plainly}, word{"TCP suspected", bad}
	return number(about{
		"Jobs go over",
		"What carries the data of the jobs that run, according to their processes and sockets: of several jobs the worst. Where no job is seen, the traffic of the node speaks: by traffic.", "no job is seen", 3, 3,
	}, "none",
		`min(`+strings.ReplaceAll(transportsOf(), "@job", "@node")+`)
or max(21 + 0 * ALERTS{alertname="GpuFabricTrainingOnTcpSuspected",alertstate="firing",@node})
or max(20 + 0 * (`+rdma+` unless on (cluster, job, instance) `+rdma+` < on (cluster, job, instance) `+other+`))`, nil, w)
}

func unknowns(t texts) panel {
	expr := `label_replace(
  label_replace(max by (cluster, instance, check, reason, device) (gpufabric_check_unknown{@node} == 1), "problem", "$1", "check", "(.*)"),
  "runbook", "$1", "check", "(.*)"
)
or label_replace(max(gpufabric_node_info{@node}) unless on () gpufabric_check_failed{@node}, "problem", "checks are off", "", "")
or max by (problem, reason) (label_replace(label_replace(count_values("ports", count(gpufabric_hca_port_info{role="compute",@node} unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{@node})),
  "problem", "the state of $1 training ports", "ports", "(.*)"), "reason", "the driver reports none, as EFA", "", ""))`
	return grid(about{
		"Checks without a verdict",
		"What could be wrong and is not known, and why: not_read (it was not read), no_permission, stuck and the like. Unknown is neither good nor bad.", "none is known", width, 5,
	},
		[]string{orSilentIn(expr, "problem")}, "What could be wrong",
		column{field: "problem", title: "What could be wrong", words: t.problems},
		column{field: "reason", title: "Not known because", width: 260},
		column{field: "device", title: "Device", link: toPort(), width: 110},
		column{field: "runbook", title: "Runbook", words: t.runbooks, link: toRunbook(), width: 200})
}

func roles() words { return words{"compute": {"training", ""}} }

func physicalStates() words {
	return words{"link_up": {"up", plainly}, "disabled": {"disabled", plainly}, "polling": {"polling (no peer)", plainly}}
}

// nearness explains the distances.
const nearness = "The distance is what lies between GPU and NIC, with NCCL's name for it: one PCIe switch (PIX), several (PXB), a CPU reached over NVLink-C2C (P2C), the host bridge of a CPU (PHB), several of one socket (NODE), or the link between sockets (SYS)."

// distances are classes of NCCL, from one switch to another socket.
func distances() words {
	return words{
		"PIX": {"one switch (PIX)", good}, "PXB": {"switches (PXB)", good}, "P2C": {"CPU, C2C (P2C)", good},
		"PHB": {"CPU (PHB)", warning}, "NODE": {"socket (NODE)", warning}, "SYS": {"sockets (SYS)", bad},
	}
}

// nicDown are GPUs whose nearest NIC is not active.
const nicDown = `(gpufabric_gpu_nic_distance{@node} and on (cluster, job, instance, device) gpufabric_hca_port_state{state="active",@node} == 0)`

// nicSpare are those of them whose NIC is not meant to be active.
var nicSpare = `(` + nicDown + ` and on (cluster, job, instance, device) ` +
	strings.ReplaceAll(spare, "@port", "@node") + `)`

// Values that ports have over time while they are spare, or their driver reports no state (EFA).
const isSpare, isStateless = "2", "3"

// activeOrSpare is 1 for ports that are active, isSpare for those that are spare, and 0 for the rest.
const activeOrSpare = `(` + isSpare + ` + 0 * ` + spare +
	` or on (cluster, job, instance, device, port) gpufabric_hca_port_state{state="active",@port})`

// spareBecause are spare ports with the label because: their role, and why they are not needed.
const spareBecause = `label_replace(
  ` + spare + ` * on (cluster, job, instance) group_left (expected) count_values by (cluster, job, instance) ("expected", gpufabric_node_compute_ports_expected{@node}),
  "because", "Spare: the $1 expected training ports are active", "expected", "(.+)"
) or label_replace(` + spare + ` and on (cluster, job, instance, device, port) gpufabric_hca_port_info{role="unused",@port}, "because", "Spare: not used, by its function or the configuration", "", "")`

// spare are ports that are down and not missing: those that are not used, such as virtual functions that no
// guest has, and training ports on nodes that have as many as they should without them.
const spare = `(gpufabric_hca_port_state{state="down",@port} == 1 and on (cluster, job, instance, device, port) gpufabric_hca_port_info{role="unused",@port}
  or gpufabric_hca_port_state{state="down",@port} == 1
  and on (cluster, job, instance, device, port) gpufabric_hca_port_info{role="compute",@port}
  and on (cluster, job, instance) gpufabric_node_compute_ports_expected{@node} <= on (cluster, job, instance) count by (cluster, job, instance) (gpufabric_hca_port_state{state="active",@node} == 1 ` + compute + `))`

func ports() panel {
	rank := `0 * (gpufabric_hca_port_state{state="active",@port} == 0 ` + compute + ` unless on (cluster, job, instance, device, port) ` + spare + `)
  or 1 + 0 * (gpufabric_hca_port_state{state="active",@port} == 0)
  or 0 * ` + goneDevice + `
  or 0 * (gpufabric_hca_port_rate_bytes_per_second{@port} < on (cluster, job, instance, device, port) gpufabric_hca_port_expected_rate_bytes_per_second{@port})
  or 2 + 0 * gpufabric_hca_port_info{@port}`
	return grid(about{
		"Ports",
		"Every RDMA port: what it is for, its state, and its rate against what it should have. Link downs are counted since the driver was loaded. A device that is gone stays for a week. What is wrong comes first.", "no RDMA device, or the collector hca is off", 24, 13,
	},
		[]string{
			orSilent(worstFirst("device, port", "device", rank)),
			`max by (device, port, netdev, role, link_layer) (gpufabric_hca_port_info{@port})`,
			`max by (device, port, state) (label_replace(` + spare + `, "state", "spare", "", "") or label_replace(` + goneDevice + `, "state", "gone", "", "")
  or gpufabric_hca_port_state{@port} == 1 unless on (cluster, job, instance, device, port) ` + spare + `
  or label_replace(label_replace(gpufabric_hca_port_info{@port} unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{@port}, "state", "unknown", "", ""), "state", "not reported", "link_layer", "unspecified"))`,
			`max by (device, port, physical) (label_replace(gpufabric_hca_port_physical_state{@port} == 1, "physical", "$1", "state", "(.*)"))`,
			`8 * max by (device, port) (gpufabric_hca_port_rate_bytes_per_second{@port})`,
			`8 * max by (device, port) (gpufabric_hca_port_expected_rate_bytes_per_second{@port})`,
			`max by (device, port) (gpufabric_hca_port_rate_bytes_per_second{@port} / gpufabric_hca_port_expected_rate_bytes_per_second)`,
			`max by (device, port) (gpufabric_ethernet_link_down_events_total{@port} or gpufabric_hca_port_link_downed_total{@port})`,
		}, "",
		column{field: "device", title: "Device", link: toPort(), width: 115},
		column{field: "port", title: "Port", width: 45},
		column{field: "role", title: "Role", words: roles(), width: 145},
		column{field: "netdev", title: "Interface", none: "-", width: 132},
		column{field: "link_layer", title: "Link layer", words: words{"unspecified": {"other", ""}}, width: 90},
		column{
			field: "state", title: "State", none: "unknown",
			words: words{
				"active": {"active", good}, "down": {"down", bad}, "gone": {"gone", bad}, "init": {"init", warning},
				"armed": {"armed", warning}, "spare": {"down (spare)", unneeded}, "unknown": {"unknown", note},
				"not reported": {"not reported", plainly},
			}, width: 110,
		},
		column{field: "physical", title: "Link", none: "unknown", words: physicalStates(), width: 155},
		column{field: "E", title: "Rate", unit: "bps", width: 90},
		column{field: "F", title: "Expected", unit: "bps", none: "not stated", width: 90},
		column{field: "G", title: "Of expected", unit: "percentunit", steps: []step{{0, bad}, {1, good}}, width: 100},
		column{field: "H", title: "Link downs", none: "not counted", steps: []step{{1, warning}}, width: 100})
}

// ofActive leaves out ports that are not active: what is set there does not matter.
const ofActive = ` unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{state="active",@port} == 0`

// ofAddress leaves out ports whose address is wrong: what their packets get follows from it, and is not to be
// set right on its own.
const (
	ofAddress    = ` unless on (cluster, job, instance, device, port) ` + wrongAddress
	wrongAddress = `gpufabric_roce_chain_broken{step="gid",@port} == 1`
)

// usesV1 is -1 for ports where NCCL selects a RoCE v1 address: its packets have no traffic class.
const usesV1 = `-1 * (gpufabric_gid_info{type="roce_v1",@port} and on (cluster, job, instance, device, port, index) count_values by (cluster, job, instance, device, port) ("index", gpufabric_gid_selected_index{@port}))`

func qosChain(h uint32) panel {
	v1 := words{"-1": {"none (RoCE v1)", bad}}
	rank := `0 * (gpufabric_roce_chain_consistent{@port} == 0 ` + ofActive +
		`) or 1 + 0 * gpufabric_roce_congestion_control{@port}`
	return grid(about{
		"RoCE settings, from the traffic class to congestion control",
		"The address that NCCL would use (GID), what it asks for (traffic class), what packets carry (DSCP), which priority the NIC gives them, and what protects that priority. A contradiction on the way makes RoCE lose packets or wait behind other traffic. The first wrong step is the cause of those after it. Ports with one come first; ports that are not active are not judged.", "no RDMA port is known, or the collectors roce and hca are off", 24, h,
	},
		[]string{
			orSilent(worstFirst("device, port", "device", rank) + noRoCE()),
			`max by (device, port) (gpufabric_roce_traffic_class{@port} or ` + usesV1 + `)`,
			`max by (device, port) (gpufabric_roce_dscp{@port} or ` + usesV1 + `)`,
			`max by (device, port) (gpufabric_roce_priority{@port}` + ofAddress + `)`,
			`min by (device, port) (gpufabric_roce_pfc_enabled{@port} and on (cluster, job, instance, device, port, priority) count_values by (cluster, job, instance, device, port) ("priority", gpufabric_roce_priority{@port})` + ofAddress + `)`,
			`min by (device, port) (gpufabric_roce_ecn_enabled{@port}` + ofAddress + `)`,
			`max by (device, port, mode) (gpufabric_roce_congestion_control{@port} == 1` + ofAddress + ` or label_replace(` +
				wrongAddress + `, "mode", "-", "", ""))`,
			`max by (device, port, trust) (label_replace(gpufabric_roce_trust{@port} == 1, "trust", "$1", "mode", "(.*)"))`,
			`max by (device, port) (gpufabric_roce_lossless_buffer_bytes{@port}` + ofAddress + `)`,
			`min by (device, port) (gpufabric_roce_chain_consistent{@port}` + ofActive + `)`,
			`max by (device, port, broken) (label_replace(gpufabric_roce_chain_broken{@port} == 1` + ofActive +
				`, "broken", "$1", "step", "(.*)"))`,
			`max by (device, port, unknown) (label_replace(gpufabric_roce_chain_unknown{@port} == 1, "unknown", "$1", "step", "(.*)"))`,
		}, "",
		column{field: "device", title: "Device", link: toPort(), width: 109},
		column{field: "port", title: "Port", width: 45},
		column{field: "J", title: "Consistent", words: yesNo(good, bad), width: 86},
		column{field: "broken", title: "First wrong step", none: "-", words: roceSteps(), width: 128},
		column{field: "unknown", title: "First unknown step", none: "-", words: roceSteps(), width: 139},
		column{field: "B", title: "Traffic class", none: "jobs decide", words: v1, width: 119},
		column{field: "C", title: "DSCP", words: words{"-1": {"none", bad}}, width: 79},
		column{field: "D", title: "Priority", none: "-", width: 65},
		column{field: "trust", title: "Priority from", none: "unknown", width: 97},
		column{field: "E", title: "PFC", none: "-", words: words{"1": {"on", plainly}, "0": {"off", plainly}}, width: 50},
		column{field: "F", title: "ECN", none: "-", words: words{"1": {"on", plainly}, "0": {"off", plainly}}, width: 50},
		column{field: "I", title: "Lossless buffer", none: "-", unit: "bytes", width: 117},
		column{field: "mode", title: "Flow control", none: "unknown", words: congestionModes()})
}

// noRoCE is a row for each kind of port that says why there are no settings.
func noRoCE() string {
	expr := `max by (link_layer) (gpufabric_hca_port_info{@port}) unless on () gpufabric_roce_congestion_control{@port}`
	for _, w := range []struct{ layer, why string }{
		{"ethernet", "the drivers of the Ethernet ports do not report them, or the collector roce is off"},
		{"infiniband", "InfiniBand ports do not use RoCE"},
		{"unspecified", "the ports are neither Ethernet nor InfiniBand, such as EFA: they do not use RoCE"},
	} {
		expr = `label_replace(` + expr + `, "why", "` + w.why + `", "link_layer", "` + w.layer + `")`
	}
	return "\nor max by (why) (" + expr + ")"
}

// ofGPU gives what is known by UUID the PCI address of the GPU, which is known without its driver, too.
func ofGPU(expr string) string {
	return `max by (pci_address) (` + expr +
		` * on (cluster, job, instance, uuid) group_left (pci_address) group by (cluster, job, instance, uuid, pci_address) (gpufabric_gpu_info{@node}))`
}

// withIndex gives series with the UUID of a GPU its index, too, which people use.
func withIndex(expr string) string {
	const index = `topk by (cluster, job, instance, uuid) (1, group by (cluster, job, instance, uuid, index) (gpufabric_gpu_info{@node}))`
	return `(` + expr + ` * on (cluster, job, instance, uuid) group_left (index) ` + index + `)`
}

func gpus() panel {
	const (
		// The driver does not answer for a GPU that is on the bus, though the collector gpu asks.
		lost = `(max by (pci_address) (gpufabric_gpu_nic_distance{@node} and on (cluster, job, instance) gpufabric_scrape_collector_success{collector="gpu",@node}) unless on (pci_address) gpufabric_gpu_info{@node})`
		gone = "lost, or no driver"
	)
	// A GPU on a PCIe card without a bridge has links, none of which is up.
	up := ofGPU(`gpufabric_nvlink_links_active{@node}`)
	down := `(` + ofGPU(`gpufabric_nvlink_links{@node}`) + ` - (` + up + ` > 0))`
	rank := `0 * ` + lost + `
  or 0 * (gpufabric_gpudirect_usable{@node} == 0)
  or 0 * (` + down + ` > 0)
  or 0 * (gpufabric_pcie_link_degraded{device="",@node} == 1)
  or 1 + 0 * gpufabric_gpu_info{@node}`
	return grid(about{
		"GPUs",
		"Each GPU, its nearest training NIC, and whether GPUDirect RDMA is possible between them (the NIC reads and writes GPU memory directly), or what blocks it. What is wrong comes first. " + nearness, "no GPU, or the collectors pcie and gpu are off", 24, 11,
	},
		[]string{
			orSilent(worstFirst("pci_address", "pci_address", rank)),
			`max by (pci_address, index, name) (gpufabric_gpu_info{@node}) or label_replace(` + lost + `, "name", "` + gone +
				`", "", "")`,
			`max by (pci_address, device, rail, class) (` + nearest("@node") + `)`,
			`max by (pci_address) (0 * (gpufabric_gpudirect_usable{@node} == 0))
or max by (pci_address) (4 + 0 * ` + nicSpare + `)
or max by (pci_address) (2 + 0 * ` + nicDown + `)
or max by (pci_address) (3 + 0 * (gpufabric_gpudirect_usable{@node} and on (cluster, job, instance) gpufabric_probe_transport{kind="transport",transport="socket",@node} == 1))
or max by (pci_address) (gpufabric_gpudirect_usable{@node})`,
			`max by (pci_address, reason) (gpufabric_gpudirect_blocked{@node} == 1 or label_replace(gpufabric_gpudirect_unknown{@node} == 1, "reason", "unknown: $1", "reason", "(.*)"))`,
			ofGPU(`gpufabric_gpu_utilization_ratio{@node}`),
			up,
			down,
			`max by (pci_address) (gpufabric_pcie_link_degraded{device="",@node})`,
		}, "",
		column{field: "index", title: "GPU", none: "?", width: 55},
		column{field: "pci_address", title: "PCI address", width: 105},
		column{field: "name", title: "Product", none: "not read", words: words{gone: {gone, bad}}},
		column{field: "device", title: "Nearest NIC", none: "unknown", link: toPort(), width: 112},
		column{field: "rail", title: "Rail", width: 45},
		column{field: "class", title: "Distance", none: "unknown", words: distances(), width: 135},
		column{field: "D", title: "GPUDirect", words: words{
			"0": {"blocked", bad}, "1": {"possible", good},
			"2": {"NIC is down", bad}, "3": {"probe over TCP", bad}, "4": {"NIC is spare", unneeded},
		}, width: 120},
		column{field: "reason", title: "Blocked by", none: "-"},
		column{field: "F", title: "Busy", unit: "percentunit", width: 79},
		column{field: "G", title: "NVLinks up", none: "none", width: 92},
		column{field: "H", title: "NVLinks down", none: "-", steps: []step{{0, good}, {1, bad}}, width: 112},
		column{field: "I", title: "PCIe slow", words: yesNo(bad, good), width: 84})
}

func nodeProbes(t texts) panel {
	return probeTable(t, about{"Probes", lastResult, "no probes switched on", 24, 13}, "kind, device, port", "@node",
		"kind")
}

func nodeTraffic() line {
	return line{
		over(about{
			"Sent, by port",
			"What each port sends over RDMA (on InfiniBand: all it sends), and what else leaves all interfaces together, mostly TCP.", "no traffic counters are known", 12, 8,
		}, "bps", nil,
			curve{`8 * sum by (device) (` + carried("gpufabric_hca_port_transmitted_data_bytes_total") + `)`, "{{device}} RDMA"},
			curve{`8 * sum(` + carried("gpufabric_ethernet_transmitted_other_unicast_bytes_total") + `)`, "all ports, not RDMA"}),
		over(about{
			"Received, by port",
			"What each port receives over RDMA (on InfiniBand: all it receives), and what else comes in on all interfaces together, mostly TCP.", "no traffic counters are known", 12, 8,
		}, "bps", nil,
			curve{`8 * sum by (device) (` + carried("gpufabric_hca_port_received_data_bytes_total") + `)`, "{{device}} RDMA"},
			curve{`8 * sum(` + carried("gpufabric_ethernet_received_other_unicast_bytes_total") + `)`, "all ports, not RDMA"}),
	}
}
