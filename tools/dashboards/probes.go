// SPDX-License-Identifier: Apache-2.0

package main

func probes() board {
	return board{
		name: "probes", title: "GPU fabric: NCCL probes", annotations: true,
		description: "What short NCCL collectives on idle GPUs measured: transport, GPUDirect RDMA, bandwidth and latency against their own past.",
		lines:       []line{probesNow(), {probeTable("Last results", "@node", "max by (cluster, instance, kind, device, port", 24, 10, true)}, bandwidth(), latency()},
		rows: []row{
			{"Rail by rail", []line{probeRails()}},
			{"Transport over time", []line{probeWays()}},
			{"Failures, skips and cost", []line{probeTrouble(), probeCost()}},
			{"How to read this", []line{{probesHelp()}}},
		},
	}
}

func probesNow() line {
	return line{
		number(about{"Nodes with probes", "Nodes where probes are switched on.", "no probes switched on", 4, 4}, "none", nodes(`gpufabric_probe_interval_seconds{@node}`), nil, nil),
		share(about{"Nodes probed lately", "Share of nodes with probes that had a success within three intervals.", "no probes switched on", 4, 4}, "percentunit",
			`avg(instance:gpufabric_slo_good:ratio{slo="probe_coverage",@node})`, 1, []step{{0, bad}, {0.5, warning}, {0.9, good}}),
		number(about{"Probes on TCP", "Probes whose last run went over sockets, without those that do so to compare.", "no probe has told its transport", 4, 4}, "none",
			orZero(`count(gpufabric_probe_transport{transport="socket",kind!="socket",@port} == 1)`, `gpufabric_probe_transport{@node}`), zero(bad), nil),
		number(about{"Without GPUDirect RDMA", "Probes whose last run moved data through the memory of the host, though its network could take it from the GPU.", "no probe has told", 4, 4}, "none",
			orZero(`count(gpufabric_probe_gpudirect{kind!="socket",@port} == 0)`, `gpufabric_probe_gpudirect{@node}`), zero(warning), nil),
		number(about{"Probes that fail", "Probes whose last run failed. Skipped ones do not count.", "no probe has run", 4, 4}, "none",
			orZero(`count(gpufabric_probe_success{@port} == 0)`, `gpufabric_probe_success{@node}`), zero(bad), nil),
		number(about{"Probes slowed down", "Probes below their own baseline, confirmed by a second run.", "no baseline yet (five results)", 4, 4}, "none",
			orZero(`count(gpufabric_probe_regressed{@port} == 1)`, `gpufabric_probe_regressed{@node}`), zero(warning), nil),
	}
}

// probeTable is the last result of each probe; by opens the grouping of its queries.
func probeTable(title, which, by string, w, h uint32, withNode bool) panel {
	columns := []column{}
	if withNode {
		columns = append(columns, column{field: "instance", title: "Node", link: toNode()})
	}
	columns = append(columns,
		column{field: "kind", title: "Probe", words: kinds()},
		column{field: "device", title: "Device"},
		column{field: "B", title: "Last success", unit: "s", none: "never"},
		column{field: "reason", title: "Fails with", none: "-", words: words{"wrong_result": {"wrong result", bad}, "hang": {"hang", bad}, "init": {"init", bad}, "crash": {"crash", bad}, "nccl": {"nccl", bad}, "cuda": {"cuda", bad}}},
		column{field: "transport", title: "Transport", none: "unknown", words: transports()},
		column{field: "E", title: "GPUDirect RDMA", none: "no network", words: yesNo(good, warning)},
		column{field: "F", title: "Bus bandwidth", unit: "Bps", none: "none"},
		column{field: "G", title: "Of the baseline", unit: "percentunit", none: "no baseline", steps: []step{{0, bad}, {0.8, warning}, {0.95, good}}},
		column{field: "H", title: "Latency of small messages", unit: "s", none: "not measured"},
		column{field: "skipped", title: "Due, but", none: "-"},
		column{field: "port"})
	m := func(metric, extra string) string { return metric + "{" + extra + which + "}" }
	return grid(about{title, "The last result of each probe: which way NCCL went, how fast, and that over what the same probe reached before. A probe that is due and does not run says why.", "no probes switched on, or the exporter does not answer", w, h},
		[]string{
			by + `) (` + m("gpufabric_probe_runs_total", "") + `)`,
			`time() - ` + by + `) (` + m("gpufabric_probe_last_success_timestamp_seconds", "") + `)`,
			by + `, reason) (` + m("gpufabric_probe_failing", "") + ` == 1)`,
			by + `, transport) (` + m("gpufabric_probe_transport", "") + ` == 1)`,
			by + `) (` + m("gpufabric_probe_gpudirect", "") + `)`,
			by + `) (` + m("gpufabric_probe_bus_bandwidth_bytes_per_second", "") + `)`,
			by + `) (` + m("gpufabric_probe_baseline_ratio", "") + `)`,
			by + `) (` + m("gpufabric_probe_small_message_latency_seconds", "") + `)`,
			by + `, skipped) (label_replace(` + m("gpufabric_probe_skipped", "") + ` == 1, "skipped", "$1", "reason", "(.*)"))`,
		}, "Probe", columns...)
}

func bandwidth() line {
	return line{
		over(about{"Bandwidth over the baseline", "Last bus bandwidth of each probe over the median of its earlier results under the same conditions. Below the first dashed line (95 %) a second run confirms or clears it; three results below the second (80 %) page. The twenty lowest.", "no baseline yet (five results), or no probes switched on", 12, 9}, "percentunit",
			[]step{{0.8, bad}, {0.95, warning}},
			curve{`bottomk(20, min by (instance, kind, device) (gpufabric_probe_baseline_ratio{@port}))`, "{{instance}} {{kind}} {{device}}"}),
		over(about{"Bus bandwidth", "Bus bandwidth as nccl-tests defines it, by kind of probe: the lowest and the mean of the nodes. Light probes use few channels: compare them with themselves only.", "no results, or no probes switched on", 12, 9}, "Bps", nil,
			curve{`avg by (kind) (gpufabric_probe_bus_bandwidth_bytes_per_second{@port})`, "{{kind}} mean"},
			curve{`min by (kind) (gpufabric_probe_bus_bandwidth_bytes_per_second{@port})`, "{{kind}} lowest"}),
	}
}

func latency() line {
	return line{
		over(about{"Latency of small messages", "Time of one collective of the smallest message, by kind of probe: the highest and the mean of the nodes.", "no results, or no probes switched on", 12, 8}, "s", nil,
			curve{`avg by (kind) (gpufabric_probe_small_message_latency_seconds{@port})`, "{{kind}} mean"},
			curve{`max by (kind) (gpufabric_probe_small_message_latency_seconds{@port})`, "{{kind}} highest"}),
		over(about{"Latency over the baseline", "Latency of small messages over the median of earlier results. Above the dashed line (twice) a result counts as late. The twenty highest.", "no baseline yet (five results), or no probes switched on", 12, 8}, "none",
			[]step{{2, warning}},
			curve{`topk(20, max by (instance, kind, device) (gpufabric_probe_small_message_latency_ratio{@port}))`, "{{instance}} {{kind}} {{device}}"}),
	}
}

func probeRails() line {
	return line{
		heat(about{"Bus bandwidth, by rail", "What the probe of each rail reached, the mean of the nodes chosen. A darker row is a slow rail.", "no probe of kind rail has a result", 12, 8}, "Bps",
			curve{`avg by (rail) (max by (cluster, job, instance, device) (gpufabric_probe_bus_bandwidth_bytes_per_second{kind="rail",@port}) * ` + rails + `)`, "rail {{rail}}"}),
		over(about{"Rails against the line rate", "Bus bandwidth of each rail over what its line rate lets expect. The twenty lowest.", "no probe of kind rail has a result", 12, 8}, "percentunit", nil,
			curve{`bottomk(20, min by (instance, device) (gpufabric_probe_expected_ratio{kind="rail",@port}))`, "{{instance}} {{device}}"}),
	}
}

func probeWays() line {
	return line{
		history(about{"TCP or not", "Whether the probes of a kind went over TCP on any of the nodes chosen.", "no probe has told its transport", 12, 8}, words{"1": {"TCP", bad}, "0": {"not TCP", good}},
			curve{`max by (kind) (gpufabric_probe_transport{transport="socket",kind!="socket",@port})`, "{{kind}}"}),
		history(about{"GPUDirect RDMA or not", "Whether all probes of a kind used GPUDirect RDMA on the nodes chosen.", "no probe has told", 12, 8}, words{"1": {"used", good}, "0": {"not used", warning}},
			curve{`min by (kind) (gpufabric_probe_gpudirect{kind!="socket",@port})`, "{{kind}}"}),
	}
}

func probeTrouble() line {
	return line{
		grid(about{"Failures by reason", "Runs that failed or were aborted since the exporters started. intruder and stopped say nothing about the fabric.", "no run has failed, or no probes switched on", 12, 7},
			[]string{`sum by (kind, reason) (gpufabric_probe_failures_total{@port})`}, "-Runs",
			column{field: "kind", title: "Probe", words: kinds()}, column{field: "reason", title: "Reason"}, column{field: "A", title: "Runs"}),
		grid(about{"Skips by reason", "Times a probe was due and did not run since the exporters started. Most mean that somebody used the GPUs, which is as it should be; cannot_prove_idle wants a look.", "no probe was skipped, or no probes switched on", 12, 7},
			[]string{`sum by (kind, reason) (gpufabric_probe_skips_total{@node})`}, "-Times",
			column{field: "kind", title: "Probe", words: kinds()}, column{field: "reason", title: "Reason"}, column{field: "A", title: "Times"}),
	}
}

func probeCost() line {
	return line{
		over(about{"GPU time of probes", "Share of the time of all GPUs of a node for which probes had a context there. The site's limit is 0.1 % unless it says otherwise. The twenty highest.", "no probes switched on", 12, 8}, "percentunit", nil,
			curve{`topk(20, max by (instance) (rate(gpufabric_probe_gpu_seconds_total{@node}[$__rate_interval]) / on (cluster, job, instance) (gpufabric_node_gpus > 0)))`, "{{instance}}"}),
		over(about{"Age of the last success", "How old the last success of each kind is, where it is oldest.", "no probe has succeeded, or none is switched on", 12, 8}, "s", nil,
			curve{`time() - min by (kind) (gpufabric_probe_last_success_timestamp_seconds{@port})`, "{{kind}}"}),
	}
}

func probesHelp() panel {
	return prose("What a probe is", 24, 7, `A probe is an NCCL collective of less than a second on GPUs that provably nobody uses, some times a day. Figures stay until the next run, so lines are steps.

* **transport** asks which way NCCL would take; **node** uses all GPUs of a node; **rail** sends through one NIC and back; **socket** is TCP, to compare with.
* A result is judged against the same probe's own past under the same conditions. Another firmware, driver or NCCL starts a new baseline: such changes are marked in the graphs.
* A rail is tested up to its NIC, not the cable or the switch.`)
}
