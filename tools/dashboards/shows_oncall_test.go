// SPDX-License-Identifier: Apache-2.0

package main

// wrongResult is a node whose probe of all GPUs was fast, and then wrong.
var wrongResult = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_probe_runs_total{cluster="c",job="e",instance="n",kind="node"} 9`,
	`gpufabric_probe_runs_total{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1"} 9`,
	`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="node"} 0.99`,
	`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1"} 0.98`,
	`gpufabric_probe_gpudirect{cluster="c",job="e",instance="n",kind="node"} 1`,
	`gpufabric_probe_failing{cluster="c",job="e",instance="n",kind="node",reason="wrong_result"} 1`,
	`gpufabric_probe_failing{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1",reason="wrong_result"} 0`,
}

// goneNIC is a node whose mlx5_2 is gone: what was known of its port is not yet stale where a range is looked at.
var goneNIC = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="active"} 1`,
	`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",role="compute",link_layer="ethernet"} 1`,
	`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_2",port="1",state="active"} 1x8 stale`,
	`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_2",port="1",role="compute",link_layer="ethernet"} 1x8 stale`,
	`device:gpufabric_hca_info:gone_since_timestamp_seconds{cluster="c",job="e",instance="n",device="mlx5_2"} _x9 135x30`,
}

// goneAlone is the same where that device is chosen.
var goneAlone = append([]string{
	`gpufabric_hca_retries_exceeded_total{cluster="c",job="e",instance="n",device="mlx5_2",port="1"} 0x8 stale`,
}, goneNIC[0], goneNIC[3], goneNIC[4], goneNIC[5])

// chain is a node that lacks a device, what follows from that and was found before, and another with wrong results
// since.
var chain = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_check_failed{cluster="c",job="e",instance="n",check="compute_ports",severity="critical"} 1`,
	`gpufabric_check_failed{cluster="c",job="e",instance="n",check="hardware",severity="critical"} 1`,
	`gpufabric_check_failed{cluster="c",job="e",instance="m",check="hardware",severity="critical"} 1`,
	`check:gpufabric_check_follows:latched{cluster="c",job="e",instance="n",check="hardware",severity="critical",cause="compute_ports"} 1`,
	`ALERTS{alertname="GpuFabricDeviceGone",alertstate="firing",cluster="c",job="e",instance="n",device="mlx5_2",severity="critical"} 1`,
	`ALERTS_FOR_STATE{alertname="GpuFabricDeviceGone",cluster="c",job="e",instance="n",device="mlx5_2",severity="critical"} 1700000000`,
	`ALERTS{alertname="GpuFabricProbeWrongResult",alertstate="firing",cluster="c",job="e",instance="m",kind="node",severity="critical"} 1`,
	`ALERTS_FOR_STATE{alertname="GpuFabricProbeWrongResult",cluster="c",job="e",instance="m",kind="node",severity="critical"} 1700000000`,
	`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
	`gpufabric_scrape_collector_success{cluster="c",job="e",instance="m",collector="check"} 1`,
}

var efaPort = []string{`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",role="compute",link_layer="unspecified"} 1`}

// oncallShows are about what an engineer on call read on a board, and was wrong.
var oncallShows = []showing{
	{name: "a node whose probe fails has no good worst probe", panel: "node/Worst probe", ref: "A", series: wrongResult, want: "{} " + probeFails},
	{name: "the same among all nodes", panel: "fleet/All nodes", ref: "E", by: "instance", series: wrongResult, want: `{instance="n"} ` + probeFails},
	{name: "a probe that fails is not as fast as before", panel: "node/Probes", ref: "G", by: "kind", series: wrongResult, want: `{kind="node"} ` + probeFails + ` | {kind="rail"} 0.98`},
	{name: "wrong results come before causes, and what follows from these last", panel: "fleet/Open findings", ref: "A", by: "instance, problem, rank", series: chain, want: `{instance="m", problem="GpuFabricProbeWrongResult", rank="0 0"} 17e11 | {instance="n", problem="GpuFabricDeviceGone", rank="0 1"} 17e11 | {instance="m", problem="hardware", rank="0 2"} 1000` +
		` | {instance="n", problem="compute_ports", rank="0 3"} 1000 | {instance="n", problem="hardware", rank="0 3"} 1000`},
	{name: "missing ports follow from the device that is gone", panel: "fleet/Open findings", ref: "B", by: "instance, problem, measured", series: chain, want: `{instance="m", problem="GpuFabricProbeWrongResult", measured="probe: node"} 1 | {instance="n", problem="compute_ports", measured="follows: gone device"} 1 | {instance="n", problem="hardware", measured="follows: training ports"} 1`},
	{name: "a wrong result says of which probe", panel: "fleet/Open findings", ref: "B", by: "problem, measured", series: chain[7:9], want: `{problem="GpuFabricProbeWrongResult", measured="probe: node"} 1`},
	{name: "an alert about a job names it, one about a GPU its number", panel: "fleet/Firing alerts", ref: "A", by: "alertname, index, training_job", series: []string{
		`ALERTS{alertname="GpuFabricJobOnTcp",alertstate="firing",cluster="c",job="e",instance="n",training_job="slurm/7",severity="critical"} 1`,
		`ALERTS{alertname="GpuFabricNvlinkDown",alertstate="firing",cluster="c",job="e",instance="n",uuid="GPU-2",severity="critical"} 1`,
		`gpufabric_gpu_info{cluster="c",job="e",instance="n",uuid="GPU-2",index="2",pci_address="0000:1b:00.0"} 1`,
	}, want: `{alertname="GpuFabricJobOnTcp", training_job="slurm/7"} 1 | {alertname="GpuFabricNvlinkDown", index="2"} 1`},
	{name: "EFA reports no state of its ports", panel: "fleet/All nodes", ref: "B", by: "instance", series: efaPort, want: `{instance="n"} -1`},
	{name: "and its board does not say that nothing is known", panel: "port/As it should be, over time", ref: "A", series: efaPort, want: "{} " + isStateless},
	{name: "a device that is gone is a port that is down", panel: "fleet/Ports down", ref: "A", series: goneNIC, want: "{} 1"},
	{name: "a device that is gone has its row", panel: "node/Ports", ref: "A", by: "device", series: goneNIC, want: `{device="mlx5_1"} 1 | {device="mlx5_2"} 1`},
	{name: "which says so", panel: "node/Ports", ref: "C", by: "device, state", series: goneNIC, want: `{device="mlx5_1", state="active"} 1 | {device="mlx5_2", state="gone"} 135`},
	{name: "a device that is gone has that state", panel: "port/State", ref: "A", series: goneAlone, want: "{} 7"},
	{name: "and no errors of before", panel: "port/Errors", ref: "A", series: goneAlone, want: ""},
	{name: "and is not active", panel: "port/As it should be, over time", ref: "A", series: goneAlone, want: "{} 0"},
	{name: "and its rate was expected before", panel: "port/Traffic and rate", ref: "A", by: "was", series: append([]string{
		`gpufabric_hca_port_expected_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_2",port="1"} 5e10`,
	}, goneAlone...), want: `{was=" before it was gone"} 4e11`},
	{name: "that of a port that is there is expected now", panel: "port/Traffic and rate", ref: "A", series: upPort, want: "{} 4e11"},
	{name: "and is in its table", panel: "port/The port", ref: "A", by: "device", series: goneAlone, want: `{device="mlx5_2"} 0`},
	{name: "a rail whose probe succeeds is not that of another that fails", panel: "port/Last probe", ref: "A", series: wrongResult, want: "{} 0.98"},
}
