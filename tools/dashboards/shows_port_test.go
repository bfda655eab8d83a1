// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// downPort is a port whose link went down two minutes before the end.
var downPort = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_hca_port_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10x12 stale`,
	`gpufabric_hca_port_expected_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10`,
	`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="link_up"} 1x12 0x30`,
	`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="polling"} 0x12 1x30`,
}

// upPort is one at its expected rate.
var upPort = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_hca_port_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10`,
	`gpufabric_hca_port_expected_rate_bytes_per_second{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 5e10`,
	`gpufabric_hca_port_physical_state{cluster="c",job="e",instance="n",device="mlx5_1",port="1",state="link_up"} 1`,
}

// portShows are about single ports and rails.
var portShows = []showing{
	{name: "a link that is down has no rate, and says so", panel: "port/Rate", ref: "A", series: downPort, want: "{} " + linkDown},
	{name: "a link that is down has no rate now", panel: "port/Traffic and rate", ref: "B", series: downPort, want: ""},
	{name: "a link that is up has a rate", panel: "port/Rate", ref: "A", series: upPort, want: "{} 4e11"},
	{name: "a link that is up has a rate now", panel: "port/Traffic and rate", ref: "B", series: upPort, want: "{} 4e11"},
	{name: "the rate of a link that is up is not that of one that went down", panel: "port/Traffic and rate", ref: "C", series: upPort, want: ""},
	{
		name: "a NIC that is gone is red in its own column", panel: "fleet/Rails", ref: "A", by: "rail, cell",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`,
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_1",rail="1"} 1`,
			`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device="mlx5_2",rail="2"} 1`,
			`device:gpufabric_hca_info:gone_since_timestamp_seconds{cluster="c",job="e",instance="n",device="mlx5_1"} 0`,
			`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device="mlx5_2",port="1",state="active"} 1`,
		},
		want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_1&mlx5_1&` + portBroken + `", rail="1"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=mlx5_2&mlx5_2&` + portRight + `", rail="2"} 1 | {cell="not checked", rail="node"} 1`,
	},
	{
		name: "of a long name of a job the fleet has the end", panel: "fleet/Open findings", ref: "A", by: "where, target",
		series: []string{
			`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
			`ALERTS{alertname="GpuFabricJobOnTcp",alertstate="firing",cluster="c",job="e",instance="n",severity="critical",training_job="kubernetes/training/llama-70b-0"} 1`,
			`ALERTS_FOR_STATE{alertname="GpuFabricJobOnTcp",cluster="c",job="e",instance="n",severity="critical",training_job="kubernetes/training/llama-70b-0"} 1700000000`,
		},
		want: `{target="var-training_job=kubernetes/training/llama-70b-0", where="…ining/llama-70b-0"} 17e11`,
	},
	{
		name: "a job on TCP and one of unknown transport say why in one column", panel: "jobs/Jobs, node by node", ref: "F", by: "training_job, because",
		series: []string{
			`gpufabric_job_info{cluster="c",job="e",instance="n",training_job="slurm/7",cause="rdma_disabled"} 1`,
			`gpufabric_job_info{cluster="c",job="e",instance="n",training_job="slurm/8",cause=""} 1`,
			`gpufabric_job_transport_unknown{cluster="c",job="e",instance="n",training_job="slurm/8",reason="idle"} 1`,
		},
		want: `{because="rdma_disabled", training_job="slurm/7"} 1 | {because="idle", training_job="slurm/8"} 1`,
	},
	{
		name: "where every check passes there are no findings", panel: "fleet/Open findings", ref: "A", by: "problem, rank, runbook", series: passing,
		want: `{problem="no-findings", rank="none", runbook="no-findings"} -1e9`,
	},
	{
		name: "where a check has no verdict there may be findings", panel: "fleet/Open findings", ref: "A", by: "problem, rank",
		series: append([]string{`gpufabric_check_unknown{cluster="c",job="e",instance="n",check="port_active",severity="critical",device="mlx5_1",port="1",reason="stuck"} 1`}, passing...),
		want:   `{problem="checks-unknown", rank="unknown"} -1e9`,
	},
	{
		name: "without the rules it is not known that there are no findings", panel: "fleet/Open findings", ref: "A", by: "problem", series: passing[:3], want: "",
	},
	{
		name: "beside a finding there is no row that says that there are none", panel: "fleet/Open findings", ref: "A", by: "problem",
		series: append([]string{`gpufabric_check_failed{cluster="c",job="e",instance="n",check="gpu_lost",severity="critical",pci_address="0000:90:00.0"} 1`}, passing...),
		want:   `{problem="gpu_lost"} 1000`,
	},
	{
		name: "a port of which nothing is wrong has no findings", panel: "port/Open findings of this port", ref: "A", by: "problem, rank", series: passing,
		want: `{problem="no-findings", rank="none"} -1e9`,
	},
	{
		name: "a port that is not judged has no verdict", panel: "port/Open findings of this port", ref: "A", by: "problem, rank",
		series: append([]string{`gpufabric_check_unknown{cluster="c",job="e",instance="n",check="port_active",severity="critical",device="mlx5_1",port="1",reason="stuck"} 1`}, passing...),
		want:   `{problem="checks-unknown", rank="unknown"} -1e9`,
	},
	{
		name: "ACS on the way of a rail is the cause of its slow probe", panel: "fleet/Bandwidth below the baseline", ref: "C", by: "instance, cause",
		series: []string{
			`gpufabric_probe_baseline_ratio{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1"} 0.5`,
			`gpufabric_probe_fault_cause{cluster="c",job="e",instance="n",kind="rail",device="mlx5_1",port="1",fault="slow",cause="no_difference"} 1`,
			`gpufabric_check_failed{cluster="c",job="e",instance="n",check="pcie_acs",severity="warning",device="mlx5_1"} 1`,
		},
		want: `{cause="pcie_acs", instance="n"} 1`,
	},
	{
		name: "EFA has no address of RoCE, which is not one that is missing", panel: "port/RoCE address (GID)", ref: "C", by: "device, type",
		series: []string{`gpufabric_hca_port_info{cluster="c",job="e",instance="n",device="mlx5_1",port="1",link_layer="unspecified"} 1`},
		want:   `{device="mlx5_1", type="no RoCE"} 1`,
	},
	{
		name: "an entry that NCCL is to use and that is empty is missing", panel: "port/RoCE address (GID)", ref: "C", by: "device, type",
		series: []string{
			`gpufabric_gid_table_entries{cluster="c",job="e",instance="n",device="mlx5_1",port="1"} 256`,
			`gpufabric_gid_selected_index{cluster="c",job="e",instance="n",device="mlx5_1",port="1",reason="configured"} 7`,
		},
		want: "",
	},
	{
		name: "a probe that collapsed on all rails is a fault of the node, not of each NIC", panel: "fleet/Rails", ref: "A", by: "cell", series: collapsed("mlx5_1", "mlx5_2"),
		want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_1&mlx5_1&` + portSlow + `"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=mlx5_2&mlx5_2&` + portSlow + `"} 1 | {cell="critical"} 1`,
	},
	{
		name: "a probe that collapsed on one of the rails is red there", panel: "fleet/Rails", ref: "A", by: "cell", series: collapsed("mlx5_1"),
		want: `{cell="&var-instance=n&var-cluster=c&var-device=mlx5_1&mlx5_1&` + portBroken + `"} 1 | {cell="&var-instance=n&var-cluster=c&var-device=mlx5_2&mlx5_2&` + portRight + `"} 1 | {cell="critical"} 1`,
	},
}

// passing is a node without a finding.
var passing = []string{
	`up{cluster="c",job="e",instance="n"} 1`,
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_scrape_collector_success{cluster="c",job="e",instance="n",collector="check"} 1`,
	`gpufabric_check_failed{cluster="c",job="e",instance="n",check="memlock_unlimited",severity="critical"} 0`,
	`instance:gpufabric_node_info:last_seen_timestamp_seconds{cluster="c",job="e",instance="n"} 300`,
}

// collapsed is a node of two rails where the probes of these collapsed.
func collapsed(devices ...string) []string {
	all := []string{`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `up{cluster="c",job="e",instance="n"} 1`}
	for i, device := range []string{"mlx5_1", "mlx5_2"} {
		all = append(all, fmt.Sprintf(`device:gpufabric_hca_info:rail{cluster="c",job="e",instance="n",device=%q,rail="%d"} 1`, device, i),
			fmt.Sprintf(`gpufabric_hca_port_state{cluster="c",job="e",instance="n",device=%q,port="1",state="active"} 1`, device))
	}
	for _, device := range devices {
		const labels = `cluster="c",job="e",instance="n",severity="critical",kind="rail",port="1"`
		all = append(all, fmt.Sprintf(`ALERTS{alertname="GpuFabricProbeBandwidthCollapsed",alertstate="firing",`+labels+`,device=%q} 1`, device),
			fmt.Sprintf(`ALERTS_FOR_STATE{alertname="GpuFabricProbeBandwidthCollapsed",`+labels+`,device=%q} 1700000000`, device))
	}
	return all
}
