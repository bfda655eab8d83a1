// SPDX-License-Identifier: Apache-2.0

package main

func probeResults(t texts) board {
	return board{
		name: "probes", title: "GPU fabric: NCCL probes", annotations: true,
		description: "What short NCCL collectives on idle GPUs measured: transport, GPUDirect RDMA, bandwidth and latency against their own past.",
		lines:       []line{probesNow(), {lastResults(t)}, bandwidth(), latency()},
		leads: map[string]place{
			"Nodes with probes": {probesURL, "Last results"}, "Probes done lately": {probesURL, "Age of the last success"},
			"Probes on TCP": {probesURL, "Last results"}, "Without GPUDirect": {probesURL, "Last results"},
			"Last run between nodes": {probesURL, "Bandwidth between nodes"}, "Nodes covered": {probesURL, "Bandwidth between nodes"},
			"Slow between nodes": {probesURL, "Verdicts between nodes"}, "Slow paths": {probesURL, "Verdicts between nodes"},
			"Probes that fail": {probesURL, "Failures by reason"}, "Probes slowed down": {probesURL, "Bandwidth over the baseline"},
		},
		rows: []row{
			{"Rail by rail", []line{probeRails()}},
			{"Transport over time", []line{probeWays()}},
			{"Failures, skips and cost", []line{probeTrouble(), probeCost()}},
			{"Between nodes", betweenNodes()},
			{"How to read this", []line{{probesHelp()}}},
		},
	}
}

func probesNow() line {
	return line{
		number(about{"Nodes with probes", "Nodes where probes are switched on.", "no probes switched on", 4, 3}, "none",
			nodes(`gpufabric_probe_interval_seconds{@node}`), nil, nil),
		number(about{
			"Probes done lately", "Share of the probes of a node that succeeded within three intervals, the mean of the nodes.",
			"no probes, or no rules", 4, 3,
		}, "percentunit",
			`avg(instance:gpufabric_slo_good:ratio{slo="probe_coverage",@node})`,
			[]step{{0, bad}, {0.5, warning}, {0.9, good}}, nil),
		number(about{
			"Probes on TCP", "Probes whose last run went over TCP, without those that do so to compare.",
			"no transport is known", 4, 3,
		}, "none",
			orZero(`count(gpufabric_probe_transport{transport="socket",kind!="socket",@port} == 1)`,
				`gpufabric_probe_transport{@node}`), zero(bad), nil),
		number(about{
			"Without GPUDirect",
			"Probes whose last run moved data through the memory of the host, though its network could take it from the GPU.",
			"not known for any probe", 4, 3,
		}, "none",
			orZero(`count(gpufabric_probe_gpudirect{kind!="socket",@port} == 0)`, `gpufabric_probe_gpudirect{@node}`),
			zero(warning), nil),
		number(about{
			"Probes that fail", "Probes whose last run failed. Skipped ones do not count.", "no probe has run", 4,
			3,
		}, "none",
			orZero(`count(gpufabric_probe_success{@port} == 0)`, `gpufabric_probe_success{@node}`), zero(bad), nil),
		number(about{
			"Probes slowed down", "Probes below their own baseline, confirmed by a second run.",
			"no baseline yet (five results)", 4, 3,
		}, "none",
			orZero(`count(gpufabric_probe_regressed{@port} == 1)`, `gpufabric_probe_regressed{@node}`), zero(warning), nil),
	}
}

const lastResult = "The last result of each probe: of kind transport (the way that NCCL chooses), node (all GPUs of the node), rail (through one NIC and back) or socket (TCP on purpose, to compare). Which way NCCL went, the bus bandwidth, that over what the same probe reached before, and the latency of small messages. Beside them is why the probe fails, or the cause: what NCCL logged about TCP, a finding on the same GPUs or port, or what differs from the last run at full bandwidth. No probe leaves the node: an address that other nodes cannot reach does not show. Last good is how long ago the last good run was. Outdated: the run is older than a critical finding on its node, or than two intervals, or a later run failed. A probe that is due and is skipped says why. What is wrong comes first."

// explaining are probes that are slower than before, with an open finding that explains it as the cause.
func explaining(of string) string {
	return `probe:gpufabric_probe_baseline_ratio:explained{` + of + `}`
}

// causeBy is one cause of what probes found: where they went over TCP, that of TCP, then an open finding that
// explains it, then what differs.
func causeBy(by, of string) string {
	findings := `topk by (` + by + `) (1, count by (` + by + `, cause) (
` + explaining(of) + `
))`
	one := func(faults string) string {
		return `topk by (` + by + `) (1, count by (` + by + `, cause) (gpufabric_probe_fault_cause{fault` + faults + `,` +
			of + `}))`
	}
	return one(`="socket"`) + ` or on (` + by + `) ` + findings + ` or on (` + by + `) ` + one(`!="socket"`)
}

// noteBy is what there is to say about each probe: why it fails, the cause of what it found, why it does not
// run though it is due, or that its result is outdated.
func noteBy(by, of string) string {
	one := func(expr, note, label string) string {
		return `label_replace(topk by (` + by + `) (1, count by (` + by + `, ` + label + `) (` + expr + `)), "cause", "` +
			note + `", "` + label + `", "(.*)")`
	}
	return `max by (` + by + `, cause) (
` + one(`gpufabric_probe_failing{`+of+`} == 1`, noteOfFailure+"$1", "reason") + `
or on (` + by + `) ` + causeBy(by, of) + `
or on (` + by + `) ` + one(`gpufabric_probe_skipped{`+of+`} == 1`, noteOfSkip+"$1", "reason") + `
or on (` + by + `) ` + one(`gpufabric_probe_runs_total{`+of+`} `+ifOutdated, noteOfAge, "kind") + `
)`
}

const (
	unlessOutdated = `unless on (cluster, job, instance, kind, device, port) probe:gpufabric_probe_last_run:outdated{@node}`
	ifOutdated     = `and on (cluster, job, instance, kind, device, port) probe:gpufabric_probe_last_run:outdated{@node}`
	notFresh       = "1000" // replaces a value that is outdated: more than any other
)

// probeFails replaces what the last success of a probe found, when a later run failed: it is below any other value.
const probeFails = "-5"

// freshOrFails is the baseline ratio of the last results of probes, or notFresh, or probeFails.
func freshOrFails(of string) string {
	return probeFails + ` + 0 * (gpufabric_probe_failing{kind!="socket",` + of + `} == 1) or ` +
		fresh(`gpufabric_probe_baseline_ratio{kind!="socket",`+of+`}`)
}

// ratios are the words for values of freshOrFails that are none.
func ratios() words {
	return words{notFresh: outdated, probeFails: {"fails", bad}}
}

// fresh is the value of a probe, or notFresh where its result is outdated.
func fresh(expr string) string {
	return `(` + expr + ` ` + unlessOutdated + ` or ` + notFresh + ` + 0 * (` + expr + ` ` + ifOutdated + `))`
}

// lastResults are those of all nodes chosen.
func lastResults(t texts) panel {
	return probeTable(t, about{
		"Last results", lastResult + " Of the rails of a node, the worst.",
		"no probes switched on, or no exporter answers", 24, 13,
	}, "cluster, instance, kind", "@node", "instance")
}

// probeTable is the last result of each probe chosen by of (@node or @port); of several that agree in the
// labels by, the worst. What is equally bad is sorted by label.
func probeTable(t texts, a about, by, of, label string) panel {
	metric := func(name string) string { return "gpufabric_probe_" + name + "{" + of + "}" }
	training := func(name string) string { return `gpufabric_probe_` + name + `{kind!="socket",` + of + `}` }
	rank := `0 * (` + metric("failing") + ` == 1)
  or 0 * (gpufabric_probe_transport{transport="socket",kind!="socket",` + of + `} == 1)
  or 0 * (` + training("baseline_ratio") + ` < 0.8)
  or 1 + 0 * (` + training("baseline_ratio") + ` < 0.95)
  or 1 + 0 * (` + training("gpudirect") + ` == 0)
  or 2 + 0 * ` + metric("runs_total") + `
  or 3 + 0 * ` + metric("skipped")
	first := worstFirst(by, label, rank)
	var columns []column
	ways := withOutdated(transports())
	delete(ways, "socket on purpose outdated")
	if label == "instance" {
		columns = append(columns, column{field: "instance", title: "Node", link: toNode(), width: 120})
	} else {
		first = orSilent(first)
	}
	columns = append(columns, column{field: "kind", title: "Probe", words: shortKinds(), width: 85})
	if label != "instance" { // which has one row for all rails
		columns = append(columns, column{field: "device", title: "Device", link: toPort(), width: 112})
	}
	columns = append(columns,
		column{field: "B", title: "Last good", unit: "s", none: "never", width: 84},
		column{field: "transport", title: "Transport", none: "unknown", width: 135, words: ways},
		column{
			field: "E", title: "GPUDirect", none: "no network", words: yesNo(good, warning).with(notFresh, outdated),
			width: 92,
		},
		column{field: "F", title: "Bandwidth", unit: "Bps", none: "none", width: 90},
		column{
			field: "G", title: "Of baseline", unit: "percentunit", none: "no baseline",
			steps: []step{{0, bad}, {0.8, warning}, {0.95, good}}, words: ratios(), width: 95,
		},
		column{field: "cause", title: "Failure, cause or skip", none: "-", words: notes(t)},
		column{field: "port"})
	stale := func(expr, label string) string {
		return expr + ` ` + unlessOutdated + ` or label_replace(` + expr + ` ` + ifOutdated + `, "` + label +
			`", "$1 outdated", "` + label + `", "(.*)")`
	}
	q := func(op, label, expr string) string { return op + " by (" + by + label + ") (" + expr + ")" }
	exprs := []string{
		first,
		`time() - ` + q("min", "", metric("last_success_timestamp_seconds")),
		q("max", ", transport", stale(training("transport")+` == 1`,
			"transport")+` or label_replace(gpufabric_probe_transport{kind="socket",`+of+`} == 1, "transport", "$1 on purpose", "transport", "(.*)")`),
		noteBy(by, of),
		q("min", "", fresh(metric("gpudirect"))),
		q("min", "", metric("bus_bandwidth_bytes_per_second")),
		q("min", "", freshOrFails(of)+` or `+fresh(`gpufabric_probe_baseline_ratio{kind="socket",`+of+`}`)),
	}
	if label == "instance" {
		columns = append(columns, column{field: "cluster", title: "Cluster", width: ofCluster})
	} else { // there is room for it
		exprs = append(exprs, q("max", "", metric("small_message_latency_seconds")))
		columns = append(columns, column{field: "H", title: "Latency", unit: "s", none: "-", width: 75})
	}
	return grid(a, exprs, "", columns...)
}

func bandwidth() line {
	return line{
		over(about{
			"Bandwidth over the baseline",
			"Last bus bandwidth of each probe over the median of its earlier results under the same conditions. Below the first dashed line (95 %) a second run confirms or clears it; three results below the second (80 %) page. The ten that were lowest in the time shown.", "no baseline yet (five results), or no probes switched on", 12, 9,
		}, "percentunit",
			[]step{{0.8, bad}, {0.95, warning}},
			extreme("bottomk", "cluster, instance, kind, device", `gpufabric_probe_baseline_ratio{kind!="socket",@port}`,
				"{{cluster}} {{instance}} {{kind}} {{device}}")...),
		over(about{
			"Bus bandwidth",
			"Bus bandwidth as nccl-tests defines it, by kind of probe: the lowest and the mean of the nodes. Light probes use few channels: compare them with themselves only.", "no results, or no probes switched on", 12, 9,
		}, "Bps", nil,
			curve{`avg by (kind) (gpufabric_probe_bus_bandwidth_bytes_per_second{@port})`, "{{kind}} mean"},
			curve{`min by (kind) (gpufabric_probe_bus_bandwidth_bytes_per_second{@port})`, "{{kind}} lowest"}),
	}
}

func latency() line {
	return line{
		over(about{
			"Latency of small messages",
			"Time of one collective of the smallest message, by kind of probe: the highest and the mean of the nodes.",
			"no results, or no probes switched on", 12, 8,
		}, "s", nil,
			curve{`avg by (kind) (gpufabric_probe_small_message_latency_seconds{@port})`, "{{kind}} mean"},
			curve{`max by (kind) (gpufabric_probe_small_message_latency_seconds{@port})`, "{{kind}} highest"}),
		over(about{
			"Latency over the baseline",
			"Latency of small messages over the median of earlier results. Above the dashed line (twice) a result counts as late. The ten that were highest in the time shown.", "no baseline yet (five results), or no probes switched on", 12, 8,
		}, "none",
			[]step{{2, warning}},
			extreme("topk", "cluster, instance, kind, device", `gpufabric_probe_small_message_latency_ratio{@port}`,
				"{{cluster}} {{instance}} {{kind}} {{device}}")[0]), // a ratio is never 0
	}
}

func probeRails() line {
	return line{
		over(about{
			"Bus bandwidth, by rail",
			"What the probe of each rail reached, the mean of the nodes chosen. A line below the others is a slow rail.",
			"no probe of kind rail has a result", 12, 8,
		}, "Bps", nil,
			curve{`avg by (rail) (max by (cluster, job, instance, device) (gpufabric_probe_bus_bandwidth_bytes_per_second{kind="rail",@port}) * ` + rails + `)`, "rail {{rail}}"}),
		over(about{
			"Rails against the line rate",
			"Bus bandwidth of each rail over what its line rate lets expect, where two GPUs share a NIC and it is known. The ten that were lowest in the time shown.", "no rail of which it is known what to expect", 12, 8,
		}, "percentunit", nil,
			extreme("bottomk", "cluster, instance, device", `gpufabric_probe_expected_ratio{kind="rail",@port}`,
				"{{cluster}} {{instance}} {{device}}")...),
	}
}

func probeWays() line {
	return line{
		history(about{
			"TCP or not", "Whether the probes of a kind went over TCP on any of the nodes chosen.",
			"no transport is known", 12, 8,
		}, words{"1": {"TCP", bad}, "0": {"not TCP", good}},
			curve{`max by (kind) (gpufabric_probe_transport{transport="socket",kind!="socket",@port})`, "{{kind}}"}),
		history(about{
			"GPUDirect RDMA or not", "Whether all probes of a kind used GPUDirect RDMA on the nodes chosen.",
			"not known for any probe", 12, 8,
		}, words{"1": {"used", good}, "0": {"not used", warning}},
			curve{`min by (kind) (gpufabric_probe_gpudirect{kind!="socket",@port})`, "{{kind}}"}),
	}
}

func probeTrouble() line {
	return line{
		grid(about{
			"Failures by reason",
			"Runs that failed or were aborted since the exporters started. intruder and stopped say nothing about the fabric.",
			"no run has failed, or no probes switched on", 12, 7,
		},
			[]string{`sum by (kind, reason) (gpufabric_probe_failures_total{@port})`}, "-Runs",
			column{field: "kind", title: "Probe", words: kinds(), width: 214}, column{field: "reason", title: "Reason"},
			column{field: "A", title: "Runs", width: 79}),
		grid(about{
			"Skips by reason",
			"Times a probe was due and did not run since the exporters started. Most skips mean that the GPUs were in use, as intended; investigate cannot_prove_idle.", "no probe was skipped, or no probes switched on", 12, 7,
		},
			[]string{`sum by (kind, reason) (gpufabric_probe_skips_total{@node})`}, "-Times",
			column{field: "kind", title: "Probe", words: kinds(), width: 214},
			column{field: "reason", title: "Reason", words: skips()}, column{field: "A", title: "Times", width: 80}),
	}
}

func probeCost() line {
	const duty = `rate(gpufabric_probe_gpu_seconds_total{@node}[$__rate_interval]) / on (cluster, job, instance) (gpufabric_node_gpus > 0)`
	return line{
		over(about{
			"GPU time of probes",
			"Share of the time of all GPUs of a node for which probes had a context there: the highest of the nodes, and their mean. The site's limit is 0.1 % in the long run, unless it says otherwise.", "no probes switched on", 12, 8,
		}, "percentunit", nil,
			curve{`max(` + duty + `)`, "highest node"}, curve{`avg(` + duty + `)`, "mean"}),
		over(about{
			"Age of the last success",
			"How old the last success is: the ten oldest at the end of the time shown.",
			"no probe has succeeded, or none is switched on", 12, 8,
		}, "s", nil,
			highestAtEnd(`(time() - min by (cluster, instance, kind) (gpufabric_probe_last_success_timestamp_seconds{@port}))`,
				"{{cluster}} {{instance}} {{kind}}")),
	}
}

func probesHelp() panel {
	return prose("What a probe is", 24, 7, `A probe is an NCCL collective of less than a second on GPUs verified idle, run a few times a day. Values stay until the next run, so lines are steps.

* **transport** shows which transport NCCL would use; **node** uses all GPUs of a node; **rail** sends through one NIC and back; **socket** uses TCP, for comparison.
* A result is compared with earlier results of the same probe under the same conditions. A new firmware, driver or NCCL version starts a new baseline; graphs mark such changes.
* A rail probe tests the path up to the NIC, not the cable or the switch. What probe cluster measures between nodes is in a row of its own.`)
}
