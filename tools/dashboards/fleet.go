// SPDX-License-Identifier: Apache-2.0

package main

import (
	"gpufabric_exporter/internal/verdict"
)

// nodes counts the nodes of an expression.
func nodes(expr string) string { return "count(count by (cluster, instance) (" + expr + "))" }

// orZero is 0 where the expression has nothing though something it could be about is known, else nothing.
func orZero(expr, known string) string { return expr + "\nor count(" + known + ") * 0" }

func fleet(t texts) board {
	return board{
		name: "fleet", title: "GPU fabric: fleet",
		description: "All nodes of a training cluster: what is wrong, where, and whether the service levels are met.",
		lines: []line{
			fleetNow(),
			{findings(t, false, 11)},
			{railGrid()},
			{railLegend()},
			{redHistory()},
			{onTCPList()},
			{slowList(t)},
			fleetLevels(), fleetTrends(),
		},
		leads: map[string]place{
			"Up": {fleetURL, "All nodes"}, "Silent": {fleetURL, "All nodes"}, "Nodes critical": {fleetURL, findingsTitle},
			"Nodes warning": {fleetURL, findingsTitle}, "Ports down": {fleetURL, "Rails"}, "Jobs on TCP": {jobsURL, "Jobs by transport"},
			"Probes on TCP": {fleetURL, "TCP instead of RDMA"}, "Slow": {fleetURL, "Bandwidth below the baseline"},
			"Unknown": {fleetURL, "All nodes"},
		},
		rows: []row{
			drift(),
			{"All nodes", []line{{allNodes()}}},
			{"Firing alerts", []line{{firing()}}},
			{"How to read this", []line{{fleetHelp()}}},
		},
	}
}

func fleetNow() line {
	return line{
		number(about{"Up", "Nodes whose exporter answered the last scrape.", "no answer", 2, 3}, "none",
			nodes(`gpufabric_node_info{@node}`), []step{{0, bad}, {1, plainly}}, nil),
		number(about{
			"Silent",
			"Nodes whose exporter does not answer: those that did within the last hours, and targets of a job named like the exporter that never did. Nothing is known of their nodes.", "none known", 2, 3,
		}, "none",
			orZero(nodes(silence), `instance:gpufabric_node_info:last_seen_timestamp_seconds{@node}`), zero(bad), nil),
		number(about{
			"Nodes critical",
			"Nodes with at least one open finding of severity critical: training there breaks, or is many times slower.",
			"no checks are known", 3, 3,
		}, "none",
			orZero(nodes(open(of(verdict.Critical))), `gpufabric_check_failed{@node}`), zero(bad), nil),
		number(about{
			"Nodes warning",
			"Nodes with at least one open finding of severity warning, also those that have critical ones. Nodes that are silent now are counted apart.", "no checks are known", 3, 3,
		}, "none",
			orZero(nodes(openWarnings()), `gpufabric_check_failed{@node}`), zero(warning), nil),
		number(about{
			"Ports down",
			"Training ports that were active, or should be, and are not, and devices that are gone. Spare ports, and ports without a cable, do not count.", "no port is known", 3, 3,
		}, "none",
			orZero(`count(count by (cluster, instance, device, port) (port:gpufabric_hca_port_state:down_since_timestamp_seconds{@port} or gpufabric_check_failed{check="port_active",@port} == 1 or `+goneDevice+`))`, `gpufabric_hca_port_state{@port}`), zero(bad), nil),
		unlessUnseen(about{
			"Jobs on TCP",
			"Jobs that use TCP, confirmed or suspected, and nodes without a job that is seen where GPUs are busy while RDMA is silent and TCP is not. Collectives there are 5 to 20 times slower. Where none is found and jobs of some nodes are not seen, it shows the number of these nodes: see the Jobs dashboard.", "no traffic known", 3, 3,
		},
			`count(count by (cluster, training_job) (ALERTS{alertname=~"GpuFabricJobOnTcp.*",alertstate="firing",@node})
or count by (cluster, instance) (ALERTS{alertname="GpuFabricTrainingOnTcpSuspected",alertstate="firing",@node}))`, `gpufabric_job_info{@node} or instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{@node}`),
		number(about{
			"Probes on TCP",
			"Nodes where a probe of NCCL went over TCP: jobs that start there now would use TCP. Jobs that run may still use RDMA.", "no probe has run", 3, 3,
		}, "none",
			orZero(nodes(probesOnTCP), `gpufabric_probe_transport{@node}`), zero(bad), nil),
		number(about{
			"Slow",
			"Nodes where the bandwidth of an NCCL probe is below its own baseline, confirmed by a second run.",
			"no baseline yet", 2, 3,
		}, "none",
			orZero(nodes(`gpufabric_probe_regressed{@node} == 1`), `gpufabric_probe_regressed{@node}`), zero(warning), nil),
		number(about{
			"Unknown",
			"Nodes with at least one check without a verdict, mostly for want of privilege or of a driver's answer, or where the checks are switched off. Unknown is neither good nor bad.", "no checks are known", 3, 3,
		}, "none",
			orZero(nodes(`gpufabric_check_unknown{@node} == 1 or `+unchecked), `gpufabric_check_failed{@node}`),
			[]step{{0, plainly}, {1, note}}, nil),
	}
}

// Nodes with something on TCP where RDMA should be, with who and evidence: jobs that run, and probes of NCCL,
// which say what jobs that start now would use.
const (
	jobsOnTCP = `label_replace(label_replace(
  count by (cluster, instance, training_job) (ALERTS{alertname=~"GpuFabricJobOnTcp.*",alertstate="firing",@node}),
  "evidence", "its processes, sockets", "", ""), "who", "job", "", "")
or
label_replace(label_replace(
  count by (cluster, instance) (ALERTS{alertname="GpuFabricTrainingOnTcpSuspected",alertstate="firing",@node}),
  "evidence", "GPUs busy, no RDMA", "", ""), "who", "job", "", "")`
	probesOnTCP = `sum by (cluster, instance, who, evidence) (label_replace(label_replace(
  count by (cluster, instance, kind) (gpufabric_probe_transport{transport="socket",kind!="socket",@node} == 1),
  "evidence", "last result: $1", "kind", "(.*)"), "who", "probe", "", ""))`
	nicsOnTCP = `label_replace(label_replace(
  count by (cluster, instance) (ALERTS{alertname="GpuFabricTcpOnRdmaNic",alertstate="firing",port_role!="unknown",@node}),
  "evidence", "more TCP than RDMA", "", ""), "who", "nic", "", "")`
)

// everyJob is in a link what Grafana takes for all values of a variable.
const everyJob = "All"

// anyJob gives rows without the name of a job a link to all jobs: with an empty name, the dashboard of jobs shows none.
func anyJob(query string) string {
	return `label_replace(` + query + `, "training_job", "` + everyJob + `", "training_job", "")`
}

func onTCPList() panel {
	users := words{"job": {"job", ""}, "probe": {"NCCL probe", ""}, "nic": {"training NIC", ""}}
	return grid(about{
		"TCP instead of RDMA",
		"Training that falls back to TCP continues several times slower, without an error. A probe of NCCL on TCP says what jobs that start now would use: jobs that run may still use RDMA, see what the node sends over RDMA now beside it. The cause is that of the job, or what NCCL logged in the probe.", "none on the nodes that answer; nodes without probes and traffic are unknown", width, 5,
	},
		[]string{
			anyJob(jobsOnTCP + "\nor\n" + probesOnTCP + "\nor\n" + nicsOnTCP),
			anyJob(`label_replace(count by (cluster, instance, training_job, cause) (gpufabric_job_info{cause!="",@node}), "who", "job", "", "")
and on (cluster, instance, training_job) (` + jobsOnTCP + `)
or label_replace(topk by (cluster, instance) (1, count by (cluster, instance, cause) (gpufabric_probe_fault_cause{fault="socket",@node})), "who", "probe", "", "")
and on (cluster, instance) ` + probesOnTCP),
			`8 * sum by (cluster, instance) (instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{@node})
and on (cluster, instance) (` + jobsOnTCP + "\nor\n" + probesOnTCP + "\nor\n" + nicsOnTCP + `)`,
		}, "",
		column{field: "instance", title: "Node", link: toNode(), width: 135},
		column{field: "who", title: "On TCP", words: users, width: 100},
		column{field: "training_job", title: "Job", words: words{everyJob: {"-", ""}}, link: toJob()},
		column{field: "cause", title: "Cause", none: "not known", words: fallbackCauses(), width: 250},
		column{field: "evidence", title: "Evidence", width: 165},
		column{field: "A", title: "Count", none: "-", width: 60},
		column{field: "C", title: "RDMA of node", unit: "bps", width: 122},
		column{field: "cluster", title: "Cluster", width: ofCluster})
}

func slowList(t texts) panel {
	return grid(about{
		"Bandwidth below the baseline",
		"Probes whose last bus bandwidth is below 95 % of what the same probe reached under the same conditions, worst node first. Confirmed is how many of these a second run confirmed. The cause is what differs from the last run at full bandwidth, or another finding on the same GPUs or the same port.", "none on the nodes that answer, or no probe has a baseline yet (five results)", width, 5,
	},
		[]string{
			`bottomk(30, min by (cluster, instance, kind) (gpufabric_probe_baseline_ratio{kind!="socket",@node} < 0.95))`,
			`count by (cluster, instance, kind) (gpufabric_probe_regressed{kind!="socket",@node} == 1)`,
			`(` + causeBy("cluster, instance, kind", "@node") + `)
and on (cluster, instance, kind) gpufabric_probe_baseline_ratio{kind!="socket",@node} < 0.95`,
		}, "Of baseline",
		column{field: "instance", title: "Node", link: toNode(), width: 135},
		column{field: "kind", title: "Probe", words: shortKinds(), width: 100},
		column{field: "cause", title: "Cause", none: "-", words: causesAndFindings(t)},
		column{
			field: "A", title: "Of baseline", unit: "percentunit",
			steps: []step{{0, bad}, {0.8, warning}, {0.95, plainly}}, none: "above 95 %", width: 105,
		},
		column{field: "B", title: "Confirmed probes", none: "none", steps: []step{{1, warning}}, width: 132},
		column{field: "cluster", title: "Cluster", width: ofCluster})
}

func fleetLevels() line {
	const (
		recorded = `max by (cluster, slo) (cluster:gpufabric_slo_total:observed_seconds{@cluster})`
		overADay = `and on (cluster, slo) cluster:gpufabric_slo_total:observed_seconds{@cluster} > 86400`
	)
	return line{
		grid(about{
			"Service levels",
			"What share of the time, or of the results of probes, was good. The budget is what may be bad in 30 days; below 0 the objective is missed, and what is below -100 % is shown as that. Data is how much of the 30 days was recorded: values for 1 day and 30 days and the budget need more than one day.", "no service levels: the recording rules are not loaded, or nothing is known yet", 16, 10,
		},
			[]string{
				orElse(`max by (cluster, slo) (cluster:gpufabric_slo_objective:ratio{@cluster})`,
					`avg by (cluster, slo) (instance:gpufabric_slo_good:ratio{@node})`, sortedLast),
				`avg by (cluster, slo) (instance:gpufabric_slo_good:ratio{@node})`,
				orElse(`1 - max by (cluster, slo) (cluster:gpufabric_slo_error:ratio_1d{@cluster}) `+overADay, recorded,
					sortedFirst),
				orElse(`1 - max by (cluster, slo) (cluster:gpufabric_slo_error:ratio_30d{@cluster}) `+overADay, recorded,
					sortedFirst),
				orElse(`clamp_min(min by (cluster, slo) (cluster:gpufabric_slo_error_budget_remaining:ratio{@cluster}), -1) `+overADay, recorded, sortedFirst),
				recorded,
			}, "Service level",
			column{field: "slo", title: "Service level", words: objectives()},
			column{field: "A", title: "Objective", unit: "percentunit", none: "unknown", width: 79},
			column{field: "B", title: "Now", unit: "percentunit", width: 79},
			column{field: "C", title: "1 day", unit: "percentunit", none: "< 1 day", width: 70},
			column{field: "D", title: "30 days", unit: "percentunit", none: "< 1 day", width: 75},
			column{field: "F", title: "Data", unit: "s", width: 79},
			column{
				field: "E", title: "Budget left", unit: "percentunit", none: "< 1 day",
				steps: []step{{-1, bad}, {0, warning}, {0.25, good}}, width: 90,
			},
			column{field: "cluster", title: "Cluster", width: ofCluster}),
		named(over(about{
			"Error budget left",
			"Share of the error budget of 30 days that is left, in the worst cluster chosen. Below 0 the objective is missed; what is below -100 % is drawn there. The first day has no value.", "less than a day of data, or the recording rules are not loaded", 8, 10,
		}, "percentunit",
			[]step{{0, bad}}, curve{`clamp_min(min by (slo) (cluster:gpufabric_slo_error_budget_remaining:ratio{@cluster} ` +
				overADay + `), -1)`, "{{slo}}"}), objectives()),
	}
}

// sent is what training ports send.
const sent = `port:gpufabric_hca_port_transmitted_data_bytes:carried2m{@node}`

func fleetTrends() line {
	return line{
		over(about{
			"RDMA sent, by rail",
			"What each rail sends over RDMA, the mean of the nodes. Rail 0 is the first training NIC of every node. A line below the others is a rail that lags.", "no RDMA traffic is known, or no GPU is near a NIC", 12, 8,
		}, "bps", nil,
			curve{`8 * avg by (rail) (` + sent + ` * ` + rails + `)`, "rail {{rail}}"}),
		over(about{
			"RDMA and other traffic",
			"What all nodes send: over RDMA from their training ports, and otherwise (mostly TCP) from all their RDMA-capable interfaces. Training that falls back moves from the first line to the second.", "no traffic counters are known", 12, 8,
		}, "bps", nil,
			curve{`8 * sum(` + sent + `)`, "RDMA"},
			curve{`8 * sum(instance:gpufabric_ethernet_transmitted_other_unicast_bytes:rate2m{@node})`, "not RDMA"}),
	}
}

// redHistory is what was wrong in the last day, by node: a fault that comes and goes is not among the open findings.
func redHistory() panel {
	const critical = `finding:gpufabric_finding:since{severity="critical",@node}`
	return history(about{
		"Red in the last 24 hours",
		"When nodes had critical findings (red) or only warnings (orange) in the last day, whatever time is chosen: the twelve that were red for the longest time, with silent exporters.", "no critical finding, or the recording rules are not loaded", width, 7,
	}, words{"2": {"critical", bad}, "1": {"warning", warning}, "3": {"silent", unknown}},
		curve{
			`max by (cluster, instance) (3 + 0 * ` + silence + ` or on (cluster, instance) 2 + 0 * max by (cluster, instance) (` + critical + `) or on (cluster, instance) 1 + 0 * max by (cluster, instance) (` + open(of(verdict.Warning)) + `))
and on (cluster, instance) topk(12, count by (cluster, instance) (count_over_time(` + critical + `[$__range] @ end())))`, "{{cluster}} {{instance}}",
		}).TimeFrom("24h").Interval("5m")
}

func allNodes() panel {
	return grid(about{
		"All nodes",
		"Every node that answers or is silent, with its training ports, of how many of them a source states what they should be, GPUs that are not lost, the worst probe against its baseline, and how many checks have no verdict.", "no exporter answers", 24, 12,
	},
		[]string{
			`max by (cluster, instance, kernel_release) (gpufabric_node_info{@node})
or max by (cluster, instance) (` + silence + `)`,
			`count by (cluster, instance) (gpufabric_hca_port_state{state="active",@node} == 1 unless on (cluster, job, instance, device, port) gpufabric_hca_port_info{role!="compute"})
or on (cluster, instance) 0 * max by (cluster, instance) (gpufabric_hca_port_state{state="active",@node})
or on (cluster, instance) -1 * group by (cluster, instance) (gpufabric_hca_port_info{role="compute",link_layer="unspecified",@node})`,
			`max by (cluster, instance) (gpufabric_node_compute_ports_expected{@node})`,
			`max by (cluster, instance) (gpufabric_node_gpus{@node}) - (count by (cluster, instance) (gpufabric_gpu_lost{@node} == 1) or 0 * max by (cluster, instance) (gpufabric_node_gpus{@node}))`,
			`min by (cluster, instance) (` + freshOrFails("@node") + `)`,
			`count by (cluster, instance) (gpufabric_check_unknown{@node} == 1)`,
			orElse(`count by (cluster, instance) (`+problems(open(of(verdict.Critical)))+`)`,
				`max by (cluster, instance) (gpufabric_node_info{@node} or `+silence+`)`, sortedFirst),
			`count by (cluster, instance) (` + problems(openWarnings()) + `)`,
			`max by (cluster, instance) (gpufabric_node_judged_by{@node})`,
		}, "-Critical",
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "A", title: "Exporter", words: words{
			"1": {"answers", plainly}, "-1": {"silent", bad},
			"-3": {"never answered", bad},
		}, width: 122},
		column{field: "G", title: "Critical", none: "none", steps: []step{{1, bad}}, width: 80},
		column{field: "H", title: "Warnings", none: "none", steps: []step{{1, warning}}, width: 90},
		column{field: "kernel_release", title: "Kernel"},
		column{field: "B", title: "Ports up", none: "unknown", words: words{"-1": {"not reported", plainly}}, width: 102},
		column{field: "C", title: "Expected", none: "not stated"},
		column{field: "I", title: "Stated", none: "unknown", words: words{"0": {"guesses", note}}, width: 79},
		column{field: "D", title: "GPUs"},
		column{
			field: "E", title: "Worst probe", unit: "percentunit", none: "no baseline",
			steps: []step{{0, bad}, {0.8, warning}, {0.95, plainly}}, words: ratios(),
		},
		column{field: "F", title: "No verdict", none: "none"},
		column{field: "cluster", title: "Cluster"})
}

func fleetHelp() panel {
	return prose("What is what", 24, 6, `Start at the top left: figures in red or orange are nodes that need attention. **Open findings** say what is wrong and link to what to do; a click on a node opens its dashboard.

**TCP instead of RDMA** and **Bandwidth below the baseline** show the two failures that jobs do not report: the job continues, but slower. The second needs probes, which are off by default and run only on idle GPUs.

If nothing is known, a panel says so. *Unknown* is never shown as 0 or green.`)
}
