// SPDX-License-Identifier: Apache-2.0

package main

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
		want: `{cell="&var-device=mlx5_1&mlx5_1&` + portBroken + `", rail="1"} 1 | {cell="&var-device=mlx5_2&mlx5_2&` + portRight + `", rail="2"} 1 | {cell="not checked", rail="node"} 1`,
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
}
