// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// everything are the choices of a reader who has chosen only some devices.
var everything = strings.NewReplacer("$cluster", ".*", "$site", ".*", "$instance", ".*", "$device", "mlx5_1|mlx5_2|mlx5_3", "$training_job", ".*", "$__rate_interval", "1m", "$__range", "5m")

// showing is what a panel returns for the samples of a fault.
type showing struct {
	name   string
	series []string // name and labels, and values of one minute each
	panel  string   // board/title
	ref    string
	by     string // labels that matter
	want   string // of samples: labels and value, with " | " between them
}

// shows queries, with promtool, what panels return for the samples of a fault. Each case has occurred: a reader would
// have taken the wrong action.
var shows = []showing{
	{
		name: "the wrong address is the first wrong step, and a port that is down is not judged",
		series: []string{
			`gpufabric_roce_chain_broken{cluster="c",job="e",instance="n",device="mlx5_2",port="1",step="gid"} 1`,
			`gpufabric_roce_chain_broken{cluster="c",job="e",instance="n",device="mlx5_3",port="1",step="pfc"} 1`,
			`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_2",port="1",state="active"} 1`,
			`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_3",port="1",state="active"} 0`,
		},
		panel: "node/RoCE settings, from the traffic class to congestion control", ref: "K", by: "device, broken",
		want: `{broken="gid", device="mlx5_2"} 1`,
	},
	{
		name: "what follows from a wrong address is not shown as wrong", panel: "node/RoCE settings, from the traffic class to congestion control", ref: "G", by: "device, mode",
		series: []string{
			`gpufabric_roce_chain_broken{cluster="c",job="e",instance="n",device="mlx5_2",port="1",step="gid"} 1`,
			`gpufabric_roce_congestion_control{cluster="c",job="e",instance="n",device="mlx5_2",port="1",mode="ecn"} 1`,
			`gpufabric_roce_congestion_control{cluster="c",job="e",instance="n",device="mlx5_3",port="1",mode="pfc_ecn"} 1`,
		},
		want: `{device="mlx5_2", mode="-"} 1 | {device="mlx5_3", mode="pfc_ecn"} 1`,
	},
	{
		name: "a leaf at fault is named by the alert that fires, also to a reader who has chosen a node", panel: "ping/At fault", ref: "A", by: "alertname, leaf",
		series: []string{
			`ALERTS{alertname="GpuFabricPingLeaf",alertstate="firing",cluster="c",job="e",leaf="leaf-3",severity="warning"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricPingLeaf",cluster="c",job="e",leaf="leaf-3",severity="warning"} 15`,
			`ALERTS{alertname="GpuFabricPingPath",alertstate="pending",cluster="c",job="e",leaf="leaf-1",peer_leaf="leaf-3",severity="warning"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricPingPath",cluster="c",job="e",leaf="leaf-1",peer_leaf="leaf-3",severity="warning"} 15`,
		},
		want: `{alertname="GpuFabricPingLeaf", leaf="leaf-3"} 300`,
	},
	{
		name: "a probe on TCP is no job on TCP", panel: "fleet/Jobs on TCP", ref: "A",
		series: []string{
			`gpufabric_probe_transport{cluster="c",job="e",instance="n",kind="rail",device="mlx5_0",port="1",transport="socket"} 1`,
			`instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{cluster="c",job="e",instance="n"} 1e9`,
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
		},
		want: "{} 0",
	},
	{
		name: "a probe on TCP is named", panel: "fleet/TCP instead of RDMA", ref: "A", by: "instance, who",
		series: []string{`gpufabric_probe_transport{cluster="c",job="e",instance="n",kind="rail",device="mlx5_0",port="1",transport="socket"} 1`},
		want:   `{instance="n", who="probe"} 1`,
	},
	{
		name: "lost NVLinks are the cause of a slow probe of the node, and not that no setting changed", panel: "fleet/Bandwidth below the baseline", ref: "C", by: "instance, cause",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="node",device="",port=""} 0.94`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="node",device="",port="",fault="slow",cause="no_difference"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="nvlink_active",severity="critical",uuid="GPU-2"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="nvlink_active",severity="critical",uuid="GPU-3"} 1`,
		},
		want: `{cause="nvlink_active", instance="n"} 1`,
	},
	{
		name: "the finding of a slow rail says that its port is the cause, not that no setting changed", panel: "fleet/Open findings", ref: "B", by: "instance, problem, measured",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_2",port="1"} 0.5`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="rail",device="mlx5_2",port="1",fault="slow",cause="no_difference"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="port_rate",severity="critical",device="mlx5_2",port="1"} 1`,
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="m",kind="rail",device="mlx5_2",port="1"} 0.7`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="m",kind="rail",device="mlx5_2",port="1",fault="slow",cause="no_difference"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="m",check="port_rate",severity="critical",device="mlx5_6",port="1"} 1`,
			`ALERTS{alertname="GpuFabricProbeBandwidthCollapsed",alertstate="firing",cluster="c",job="e",instance="n",severity="critical"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricProbeBandwidthCollapsed",cluster="c",job="e",instance="n",severity="critical"} 1700000000`,
			`ALERTS{alertname="GpuFabricProbeBandwidthCollapsed",alertstate="firing",cluster="c",job="e",instance="m",severity="critical"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricProbeBandwidthCollapsed",cluster="c",job="e",instance="m",severity="critical"} 1700000000`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="m",collector="check"} 1`,
		},
		want: `{instance="n", measured="50 % of baseline", problem="GpuFabricProbeBandwidthCollapsed"} 1 | {instance="n", measured="port is slow", problem="GpuFabricProbeBandwidthCollapsed"} 1` +
			` | {instance="m", measured="70 % of baseline", problem="GpuFabricProbeBandwidthCollapsed"} 1 | {instance="m", measured="no setting changed", problem="GpuFabricProbeBandwidthCollapsed"} 1`,
	},
	{
		name: "a wrong DSCP says which traffic class is set, and that it looks like a priority", panel: "fleet/Open findings", ref: "B", by: "instance, problem, measured",
		series: []string{
			`gpufabric_roce_traffic_class{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="roce_dscp",severity="critical",device="mlx5_1",port="1"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="nccl_configuration",severity="warning"} 1`,
			`gpufabric_nccl_config_findings{cluster="c",job="e",instance="n",rule="ib_tc_looks_like_a_priority"} 1`,
			`gpufabric_nccl_config_findings{cluster="c",job="e",instance="n",rule="not_a_number"} 1`,
			`gpufabric_roce_traffic_class{cluster="c",job="e",instance="m",device="mlx5_1",port="1"} 96`,
			`gpufabric_roce_traffic_class{cluster="c",job="e",instance="m",device="mlx5_2",port="1"} 106`,
			`gpufabric_check_failed{cluster="c",job="e",instance="m",check="roce_dscp",severity="critical",device="mlx5_1",port="1"} 1`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="m",collector="check"} 1`,
		},
		want: `{instance="m", measured="traffic class 96", problem="roce_dscp"} 1 | {instance="n", measured="traffic class 5", problem="roce_dscp"} 1 | {instance="n", measured="NCCL_IB_TC is a priority", problem="nccl_configuration"} 1 | {instance="n", measured="not a number", problem="nccl_configuration"} 1`,
	},
	{
		name: "a node without checks is named", panel: "fleet/Open findings", ref: "A", by: "instance, problem", series: uncheckedSix[:1],
		want: `{instance="n0", problem="checks-off"} -1e9`,
	},
	{
		name: "many nodes without checks are one row", panel: "fleet/Open findings", ref: "A", by: "instance, problem", series: uncheckedSix,
		want: `{problem="checks-off"} -1e9`,
	},
	{
		name: "many nodes without checks are counted", panel: "fleet/Open findings", ref: "B", by: "instance, problem, measured", series: uncheckedSix,
		want: `{measured="nodes: 6", problem="checks-off"} 1`,
	},
	{
		name: "a job on TCP is named", panel: "fleet/Open findings", ref: "A", by: "problem, where, page, target", series: onTCP,
		want: `{page="jobs/gpu-fabric-jobs", problem="GpuFabricJobOnTcp", target="var-training_job=slurm/7", where="slurm/7"} 17e11`,
	},
	{
		name: "a job on TCP says why", panel: "fleet/Open findings", ref: "B", by: "problem, measured", series: onTCP,
		want: `{measured="NCCL_IB_DISABLE", problem="GpuFabricJobOnTcp"} 1`,
	},
	{
		name: "a wrong setting is named where it put the job on TCP", panel: "jobs/Wrong settings", ref: "B", by: "training_job, rule, setting",
		series: append([]string{
			`gpufabric_job_misconfigured{cluster="c",job="e",instance="n",training_job="slurm/7",rule="setting_wrong_here",severity="critical"} 1`,
			`gpufabric_job_misconfigured{cluster="c",job="e",instance="n",training_job="slurm/8",rule="setting_wrong_here",severity="critical"} 1`,
			`gpufabric_job_misconfigured{cluster="c",job="e",instance="n",training_job="slurm/8",rule="cpu_affinity",severity="info"} 1`,
		}, onTCP...),
		want: `{rule="setting_wrong_here", setting="rdma_disabled", training_job="slurm/7"} 1 | {rule="setting_wrong_here", setting="unnamed", training_job="slurm/8"} 1`,
	},
	{
		name: "a rail keeps its number while a NIC before it is gone", panel: "node/GPUs", ref: "C", by: "device, rail", series: renumbered,
		want: `{device="mlx5_1", rail="1"} 4 | {device="mlx5_3", rail="3"} 1`,
	},
	{
		name: "the port has the number of its rail on other boards", panel: "port/The port", ref: "C", by: "device, rail", series: renumbered,
		want: `{device="mlx5_1", rail="1"} 4 | {device="mlx5_3", rail="3"} 1`,
	},
	{
		name: "GPUs are not lost where the collector gpu is off", panel: "node/GPUs", ref: "B", by: "instance, name",
		series: []string{
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="pcie"} 1`,
			`gpufabric_gpu_nic_distance{cluster="c",job="e",instance="n",pci_address="0000:1b:00.0",device="mlx5_0"} 1`,
		},
		want: "",
	},
	{
		name: "a GPU without a driver is lost", panel: "node/GPUs", ref: "B", by: "pci_address, name",
		series: []string{
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="gpu"} 1`,
			`gpufabric_gpu_nic_distance{cluster="c",job="e",instance="n",pci_address="0000:1b:00.0",device="mlx5_0"} 1`,
		},
		want: `{name="lost, or no driver", pci_address="0000:1b:00.0"} 1`,
	},
	{
		name: "the settings of a port that is down are not judged", panel: "port/RoCE settings", ref: "A",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
			`gpufabric_roce_chain_consistent{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 1`,
			`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",link_layer="ethernet"} 1`,
			`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="active"} 0`,
		},
		want: "{} 2",
	},
	{
		name: "a probe that fails, one that is skipped and one that is outdated say so", panel: "probes/Last results", ref: "D", by: "kind, cause",
		series: []string{
			`gpufabric_probe_failing{cluster="c",job="e",instance="n",kind="node",device="",port="",reason="hang"} 1`,
			`gpufabric_probe_skipped{cluster="c",job="e",instance="n",kind="node",device="",port="",reason="process"} 1`,
			`gpufabric_probe_skipped{cluster="c",job="e",instance="n",kind="transport",device="",port="",reason="process"} 1`,
			`gpufabric_probe_runs_total{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1"} 7`,
			`probe:gpufabric_probe_last_run:outdated{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1"} 1`,
		},
		want: `{cause="fails hang", kind="node"} 1 | {cause="outdated", kind="rail"} 1 | {cause="skipped process", kind="transport"} 1`,
	},
	{
		name: "jobs on TCP have their own causes", panel: "fleet/TCP instead of RDMA", ref: "B", by: "instance, training_job, cause", series: onTCP,
		want: `{cause="rdma_disabled", instance="n", training_job="slurm/7"} 1`,
	},
	{
		name: "many devices lead to the node, not to the first of them", panel: "fleet/Open findings", ref: "A", by: "page, target, where",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="roce_dscp",severity="critical",device="mlx5_1",port="1"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="roce_dscp",severity="critical",device="mlx5_2",port="1"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="roce_dscp",severity="critical",device="mlx5_3",port="1"} 1`,
		},
		want: `{page="node/gpu-fabric-node", target="var-device=All&var-instance=n", where="3 devices"} 1000`,
	},
	{
		name: "a driver that reports no state leaves the state of a port open, but not grey", panel: "fleet/Rails", ref: "A", by: "cell",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`, `gpufabric_check_failed{cluster="c",job="e",instance="n",check="gpu_lost",severity="critical"} 0`,
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="rdmap79s0",rail="0"} 1`,
			`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="rdmap79s0",port="1",role="compute",link_layer="unspecified"} 1`,
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_1",rail="1"} 1`,
			`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",role="compute",link_layer="ethernet"} 1`,
		},
		want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_1&mlx5_1&` + portUnknown + `"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=rdmap79s0&rdmap79s0&` + portStateless + `"} 1 | {cell="ok"} 1`,
	},
	{
		name: "a storm that the port sends is the cause of its slow probe, one of another port is not", panel: "fleet/Bandwidth below the baseline", ref: "C", by: "instance, cause",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_7",port="1"} 0.05`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="rail",device="mlx5_7",port="1",fault="slow",cause="no_difference"} 1`,
			`ALERTS{alertname="GpuFabricPfcStorm",alertstate="firing",cluster="c",job="e",instance="n",device="mlx5_7",port="1"} 1`,
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="m",kind="rail",device="mlx5_7",port="1"} 0.05`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="m",kind="rail",device="mlx5_7",port="1",fault="slow",cause="no_difference"} 1`,
			`ALERTS{alertname="GpuFabricPfcStorm",alertstate="firing",cluster="c",job="e",instance="m",device="mlx5_6",port="1"} 1`,
		},
		want: `{cause="GpuFabricPfcStorm", instance="n"} 1 | {cause="no_difference", instance="m"} 1`,
	},
	{
		name: "the finding of a rail that is slow in a storm has words for it", panel: "fleet/Open findings", ref: "B", by: "instance, measured",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_7",port="1"} 0.05`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="rail",device="mlx5_7",port="1",fault="slow",cause="no_difference"} 1`,
			`ALERTS{alertname="GpuFabricPfcStorm",alertstate="firing",cluster="c",job="e",instance="n",device="mlx5_7",port="1"} 1`,
			`ALERTS{alertname="GpuFabricProbeBandwidthCollapsed",alertstate="firing",cluster="c",job="e",instance="n",severity="critical"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricProbeBandwidthCollapsed",cluster="c",job="e",instance="n",severity="critical"} 1700000000`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
		},
		want: `{instance="n", measured="5 % of baseline"} 1 | {instance="n", measured="sends a PFC storm"} 1`,
	},
	{
		name: "without a finding nothing is known to be the cause", panel: "fleet/Bandwidth below the baseline", ref: "C", by: "instance, cause",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_6",port="1"} 0.7`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="rail",device="mlx5_6",port="1",fault="slow",cause="no_difference"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="port_rate",severity="critical",device="mlx5_2",port="1"} 1`,
		},
		want: `{cause="no_difference", instance="n"} 1`,
	},
	{
		name: "a probe over TCP does not hide that jobs use RDMA", panel: "fleet/Open findings", ref: "B", by: "problem, measured",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`ALERTS{alertname="GpuFabricProbeTransportSocket",alertstate="firing",cluster="c",job="e",instance="n",severity="critical"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricProbeTransportSocket",cluster="c",job="e",instance="n",severity="critical"} 1700000000`,
			`instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{cluster="c",job="e",instance="n"} 135e9`,
		},
		want: `{measured="RDMA 1080 Gb/s", problem="GpuFabricProbeTransportSocket"} 1`,
	},
	{
		name: "a lost GPU does not count", panel: "fleet/All nodes", ref: "D", by: "instance",
		series: []string{
			`gpufabric_node_gpus{cluster="c",job="e",instance="n"} 8`, `gpufabric_node_gpus{cluster="c",job="e",instance="m"} 8`,
			`gpufabric_gpu_lost{cluster="c",job="e",instance="n",index="5"} 1`, `gpufabric_gpu_lost{cluster="c",job="e",instance="m",index="5"} 0`,
		},
		want: `{instance="m"} 8 | {instance="n"} 7`,
	},
	{
		name: "a spare port is neither active nor wrong", panel: "port/As it should be, over time", ref: "A", series: halfCabled, want: "{} 2",
	},
	{
		name: "a spare port says why it is spare", panel: "port/Open findings of this port", ref: "A", by: "rank, because",
		series: append([]string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
		}, halfCabled...),
		want: `{because="Spare: the 1 expected training ports are active", rank="spare"} ` + absent(sortedFirst),
	},
	{
		name: "a spare port has a colour of its own among the rails", panel: "fleet/Rails", ref: "A", by: "instance, cell",
		series: append([]string{
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_1",rail="1"} 1`,
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`,
		}, halfCabled...),
		want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_1&mlx5_1&` + portSpare + `", instance="n"} 1 | {cell="not checked", instance="n"} 1`,
	},
	{
		name: "nodes of one name in two clusters do not share a line", panel: "fleet/Rails", ref: "A", by: "row",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`,
			`gpufabric_node_info{cluster="d",job="e",instance="n"} 1`, `up{cluster="d",job="e",instance="n"} 1`,
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_1",rail="1"} 1`,
			`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="active"} 1`,
		},
		want: `{row="n&var-cluster=c&2"} 1 | {row="n&var-cluster=d&2"} 1`,
	},
	{
		name: "an exporter that never answered was never seen", panel: "fleet/Open findings", ref: "A", by: "instance, problem, rank",
		series: []string{
			`up{cluster="c",job="gpufabric",instance="n"} 0`,
			`ALERTS{alertname="GpuFabricExporterDown",alertstate="firing",cluster="c",job="gpufabric",instance="n",severity="critical"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricExporterDown",cluster="c",job="gpufabric",instance="n",severity="critical"} 1700000000`,
		},
		want: `{instance="n", problem="exporter-never-answered", rank="0 silent"} 2000`,
	},
	{
		name: "a GPU has its index and its PCI address", panel: "fleet/Open findings", ref: "A", by: "problem, where",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="nvlink_active",severity="critical",uuid="GPU-2"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="gpu_lost",severity="critical",pci_address="0000:90:00.0"} 1`,
			`gpufabric_gpu_info{cluster="c",job="e",instance="n",uuid="GPU-2",index="2",pci_address="0000:52:00.0"} 1`,
		},
		want: `{problem="nvlink_active", where="GPU 2 (0000:52:00.0)"} 1000 | {problem="gpu_lost", where="GPU 0000:90:00.0"} 1000`,
	},
	{
		name: "a port that is down says whether its link is disabled", panel: "fleet/Open findings", ref: "B", by: "problem, measured",
		series: []string{
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="port_active",severity="critical",device="mlx5_3",port="1"} 1`,
			`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_3",port="1",state="disabled"} 1`,
			`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_3",port="1",state="link_up"} 0`,
			`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_4",port="1",state="link_up"} 1`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
		},
		want: `{measured="Link: disabled", problem="port_active"} 1`,
	},
	{
		name: "a finding about a device leads to its port, and others to the node", panel: "fleet/Open findings", ref: "A", by: "page, target, where",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="port_active",severity="critical",device="mlx5_3",port="1"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="memlock_unlimited",severity="critical"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="gpu_lost",severity="critical",pci_address="0000:90:00.0"} 1`,
		},
		want: `{page="port/gpu-fabric-port", target="var-device=mlx5_3&var-instance=n", where="mlx5_3"} 1000 | {page="node/gpu-fabric-node", target="var-device=All&var-instance=n"} 1000 | {page="node/gpu-fabric-node", target="var-device=All&var-instance=n", where="GPU 0000:90:00.0"} 1000`,
	},
	{
		name: "a restart is named, with its time", panel: "fleet/Open findings", ref: "A", by: "instance, problem, rank, runbook",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`instance:gpufabric_node_info:restarted_timestamp_seconds{cluster="c",job="e",instance="n",restarted="exporter"} 270`,
			`instance:gpufabric_node_info:restarted_timestamp_seconds{cluster="c",job="e",instance="m",restarted="exporter"} 260`,
			`instance:gpufabric_node_info:restarted_timestamp_seconds{cluster="c",job="e",instance="m",restarted="node"} 200`,
		},
		want: `{instance="m", problem="node-restarted", rank="2 2", runbook="node-restarted"} 200000 | {instance="n", problem="exporter-restarted", rank="2 2", runbook="exporter-restarted"} 270000`,
	},
	{
		name: "no job on TCP is not good while nodes are unseen", panel: "fleet/Jobs on TCP", ref: "A", series: unseenNode, want: "",
	},
	{
		name: "the number of nodes unseen stands for jobs on TCP", panel: "fleet/Jobs on TCP", ref: "B", series: unseenNode, want: "{} 1",
	},
	{
		name: "no job on TCP is not good on the board of jobs while nodes are unseen", panel: "jobs/Jobs on TCP", ref: "A",
		series: append([]string{`gpufabric_job_info{cluster="c",job="e",instance="m",training_job="slurm/7"} 1`}, unseenNode...), want: "",
	},
	{
		name: "with more than ten rails a cell has the end of the name", panel: "fleet/Rails", ref: "A", by: "cell",
		series: manyRails(20), want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_7&7&0"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=rdmap113s0&113s0&0"} 1 | {cell="not checked"} 1`,
	},
	{
		name: "with twelve rails short names are whole", panel: "fleet/Rails", ref: "A", by: "cell",
		series: manyRails(12), want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_7&mlx5_7&0"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=rdmap113s0&113s0&0"} 1 | {cell="not checked"} 1`,
	},
	{
		name: "busy GPUs without a job are unseen", panel: "jobs/Nodes unseen", ref: "A",
		series: []string{
			`instance:gpufabric_gpu_utilization_ratio:avg2m{cluster="c",job="e",instance="n"} 0.9`,
			`gpufabric_scrape_collector_supported{cluster="c",job="e",instance="n",collector="job"} 1`,
		},
		want: "{} 1",
	},
	{
		name: "a table without jobs says that GPUs are busy", panel: "jobs/Jobs by transport", ref: "A", by: "why",
		series: []string{`instance:gpufabric_gpu_utilization_ratio:avg2m{cluster="c",job="e",instance="n"} 0.9`},
		want:   `{why="GPUs are busy or cannot be looked at on nodes without a job (nodes: 1): privilege is missing, the collector job is off, or no process was found"} 1`,
	},
	{
		name: "traffic has a gap where the exporter did not answer", panel: "node/Sent, by port", ref: "A", by: "device",
		series: []string{
			`gpufabric_hca_port_transmitted_data_bytes_total{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 0+6e9x19 _ _ 6e9+6e9x9`,
			`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 1`,
			`gpufabric_hca_port_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10`,
			`up{cluster="c",job="e",instance="n"} 1x19 0 0 1x9`,
		},
		want: "",
	},
	{
		name: "traffic is there without up, as from an agent", panel: "node/Sent, by port", ref: "A", by: "device",
		series: []string{
			`gpufabric_hca_port_transmitted_data_bytes_total{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 0+6e9x40`,
			`gpufabric_hca_port_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10`,
		},
		want: `{device="mlx5_1"} 3.2e9`,
	},
	{
		name: "a warning says what it follows", panel: "fleet/Open findings", ref: "B", by: "problem, measured",
		series: []string{
			`ALERTS{alertname="GpuFabricGidChanged",alertstate="firing",cluster="c",job="e",instance="n",device="mlx5_2",port="1",severity="warning"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricGidChanged",cluster="c",job="e",instance="n",device="mlx5_2",port="1",severity="warning"} 1700000000`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="gid_usable",severity="critical",device="mlx5_2",port="1"} 1`,
			`gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
		},
		want: `{measured="follows: no RoCE v2 address for NCCL", problem="GpuFabricGidChanged"} 1`,
	},
	{
		name: "ten minutes are no day", panel: "fleet/Service levels", ref: "C", by: "slo",
		series: []string{
			`cluster:gpufabric_slo_error:ratio_1d{cluster="c",slo="conformance"} 0.1`,
			`cluster:gpufabric_slo_total:observed_seconds{cluster="c",slo="conformance"} 600`,
		},
		want: `{slo="conformance"} ` + absent(sortedFirst),
	},
}
