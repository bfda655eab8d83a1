// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"

	"gpufabric_exporter/internal/jobs/job"
)

// noJobs is what panels show where there are no jobs, and no GPU is known to be busy.
const noJobs = "no job is seen, and no GPU is known to be busy"

// unseen are nodes of which jobs may be missing: no job is seen though GPUs are busy, or the exporter may not
// look into processes.
const unseen = `(
  instance:gpufabric_gpu_utilization_ratio:avg2m{@node} > 0.05 unless on (cluster, job, instance) gpufabric_job_info{@node}
  or gpufabric_scrape_collector_supported{collector="job",@node} == 0 and on (cluster, job, instance) gpufabric_gpu_driver_loaded{@node} == 1
)`

// orUnseen adds a row to an empty table of jobs, which says that some must be running.
func orUnseen(expr string) string {
	return expr + `
or max by (why) (label_replace(count_values("nodes", count(` + unseen + `) unless on () gpufabric_job_info{@node}), "why", "GPUs are busy or cannot be looked at on nodes without a job (nodes: $1): privilege is missing, the collector job is off, or no process was found", "nodes", "(.*)"))`
}

func jobs() board {
	return board{
		name: "jobs", title: "GPU fabric: jobs", ofJobs: true,
		description: "Jobs that use GPUs now: whether NCCL moves their data over RDMA or fell back to TCP, why, which settings are wrong, and the GPU time that is lost.",
		lines:       []line{jobsNow(), {allJobs()}, {jobNodes()}, {jobRules()}, jobTraffic(), jobLoss()},
		leads: map[string]place{
			"Jobs": {jobsURL, "Jobs by transport"}, "Jobs on TCP": {jobsURL, "Jobs by transport"},
			"Misconfigured": {jobsURL, "Wrong settings"}, "Unknown": {jobsURL, "Jobs, node by node"}, "GPUs on TCP": {jobsURL, "Jobs by transport"},
			"GPU time on TCP in a day": {jobsURL, "GPU time lost in a day, by reason"}, "Nodes unseen": {fleetURL, "All nodes"},
		},
		rows: []row{
			{"What NCCL says", jobsByNCCL()},
			{"Transport over time", []line{jobHistory()}},
			{"How to read this", []line{{jobsHelp()}}},
		},
	}
}

// transportsOf is the transport of each job on each node as a number, the worst first (jobTransports).
func transportsOf() string { return `job:gpufabric_job_transport:place{@job}` }

func jobTransports() words {
	return words{
		"0": {"TCP", bad}, "1": {"TCP suspected", warning}, "2": {"RDMA and TCP", warning}, "3": {"unknown", note},
		"4": {"TCP by design", plainly},
		"5": {"RDMA, not certain", plainly}, "6": {"RDMA", good}, "7": {"one node or NVLink", good},
	}
}

// causes are why NCCL uses TCP.
func causes() words {
	return wordsOf(map[job.Cause]word{
		job.CauseNoDevices: {"no /dev/infiniband in its container", ""}, job.CauseDisabled: {"NCCL_IB_DISABLE is set", ""},
		job.CauseSocketSelected: {"NCCL_NET=Socket is set", ""},
		job.CauseNoLibrary:      {"libibverbs is not loaded", ""}, job.CausePlugin: {"the plugin fell back", ""},
		job.CauseNoPort:         {"no RDMA device could be read", ""},
		job.CauseNotNamed:       {"NCCL_IB_HCA names no device", ""},
		job.CauseNoSharedMemory: {"NCCL_SHM_DISABLE is set", ""},
	})
}

// jobUnknowns are why a transport is unknown.
func jobUnknowns() words {
	return wordsOf(map[job.Reason]word{
		job.FirstReading: {"second reading needed", ""}, job.Idle: {"its GPUs are idle", ""},
		job.NoTraffic: {"nothing carries data", ""}, job.LittleTraffic: {"too little data", ""},
		job.Privilege: {"the exporter lacks privilege", warning}, job.Unreadable: {"a reading failed", warning},
		job.Moved:          {"devices are in the pod", ""},
		job.NoCommunicator: {"no NCCL communicator", ""},
	})
}

// because are why a job is on TCP, or its transport is unknown.
func because() words {
	all := causes()
	maps.Copy(all, jobUnknowns())
	return all
}

// jobRulesWords are the rules that a job can break.
func jobRulesWords() words {
	return wordsOf(map[job.Rule]word{
		job.RuleNoCommunicator: {"GPUs are busy without NCCL", ""},
		job.RuleNoDevices:      {"no RDMA devices in the container", ""}, job.RuleMemlock: {"locked memory is limited", ""},
		job.RuleAlignment: {"GPUs without their nearest NICs", ""}, job.RuleFewerNICs: {"fewer NICs than before", ""},
		job.RuleAffinity: {"CPUs far from their GPUs", ""},
		job.RuleVersions: {"ranks have different NCCL releases", ""},
		job.RuleSettings: {"ranks have different settings", ""},
		job.RuleGrowing:  {"verbs contexts grow", ""}, job.RuleBAR1: {"BAR1 of a GPU is full", ""},
		job.RuleSettingMisread: {"NCCL misreads a setting", ""},
		job.RuleSettingRefused: {"NCCL refuses a setting", ""}, job.RuleSettingIgnored: {"NCCL ignores a setting", ""},
		job.RuleSettingUnknown:        {"a setting unknown to NCCL", ""},
		job.RuleSettingWrongHere:      {"a setting is wrong on this node", ""},
		job.RuleSettingNotRecommended: {"a setting makes it slower", ""},
	})
}

// impairments are why GPU time is lost.
func impairments() words {
	return wordsOf(map[job.Impairment]word{
		job.ImpairedTCP: {"on TCP", bad}, job.ImpairedMisconfig: {"misconfigured", warning},
		job.ImpairedLink:        {"nearest NIC slow or down", warning},
		job.ImpairedNoGPUDirect: {"without GPUDirect RDMA", warning},
	})
}

// perJob counts jobs, on however many nodes they are.
func perJob(expr string) string { return "count(count by (cluster, training_job) (" + expr + "))" }

// unlessUnseen is a count of which any is bad. None is good only where nothing can be missing: else it shows
// the number of nodes of which jobs may be missing.
func unlessUnseen(a about, expr, known string) panel {
	p := number(a, "none", expr+"\nor count("+known+") * 0 unless on () "+unseen, zero(bad), nil)
	return instead(p, "B", nodes(unseen)+" unless on () "+expr, "suffix: unseen", unknown)
}

func jobsNow() line {
	worst := func(places string) string {
		return orZero(perJob("min by (cluster, training_job) ("+transportsOf()+") "+places), `gpufabric_job_info{@job}`)
	}
	onTCP := `count by (cluster, job, instance, training_job) (job:gpufabric_job_transport:tcp{@job})`
	return line{
		number(about{
			"Jobs", "Jobs that use GPUs now, each counted once on however many nodes it is.", "no job is seen", 3,
			3,
		}, "none", perJob(`gpufabric_job_info{@job}`), nil, nil),
		unlessUnseen(about{
			"Jobs on TCP",
			"Jobs of which a rank moves its data over TCP, confirmed or suspected, which is 5 to 20 times slower. TCPX and FasTrak do so by design and do not count. Where none is found and jobs of some nodes are not seen, it shows the number of these nodes.", "no job is seen", 4, 3,
		},
			perJob("min by (cluster, training_job) ("+transportsOf()+") < 2"), `gpufabric_job_info{@job}`),
		number(about{
			"Misconfigured",
			"Jobs that break a rule of severity warning or critical: settings of NCCL, locked memory, NICs far from their GPUs.", "no job is seen", 4, 3,
		}, "none",
			orZero(perJob(`gpufabric_job_misconfigured{severity=~"critical|warning",@job} == 1`), `gpufabric_job_info{@job}`),
			zero(warning), nil),
		number(about{
			"Unknown", "Jobs whose transport is unknown on all of their nodes. Unknown is neither good nor bad.",
			"no job is seen", 3, 3,
		}, "none", worst("== 3"), []step{{0, plainly}, {1, note}}, nil),
		number(about{"GPUs on TCP", "GPUs of jobs that use TCP, confirmed or suspected.", "no job is seen", 3, 3}, "none",
			orZero(`count(gpufabric_job_gpu_info{@job} and on (cluster, job, instance, training_job) `+onTCP+`)`,
				`gpufabric_job_info{@job}`), zero(bad), nil),
		number(about{
			"GPU time on TCP in a day",
			"Time that GPUs worked for jobs on TCP in the last day, added up over the GPUs of the chosen clusters, whichever jobs are chosen. Not known where no job is seen, or the rules are not loaded.", "not known", 4, 3,
		}, "s",
			`sum(cluster:gpufabric_gpu_impaired_seconds:sum_1d{reason="tcp",@cluster})
or 0 * (count(gpufabric_job_info{@node}) and on () instance:gpufabric_node_info:last_seen_timestamp_seconds{@node})`, []step{{0, good}, {1e-9, warning}}, nil),
		number(about{
			"Nodes unseen",
			"Nodes whose GPUs are busy while no job is seen there, and nodes with GPUs whose processes the exporter may not look into: jobs there are not shown. It needs root, or the host's PID namespace with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.", "no exporter answers", 3, 3,
		}, "none",
			orZero(nodes(unseen), `gpufabric_scrape_collector_supported{collector="job",@node}`),
			[]step{{0, plainly}, {1, note}}, nil),
	}
}

// allJobs has one line for each job, the worst first.
func allJobs() panel {
	const by = "cluster, training_job"
	transport := "min by (" + by + ") (" + transportsOf() + ")"
	return grid(about{
		"Jobs by transport",
		"Every job with the transport of its worst rank, jobs on TCP first. The name of a job leads to its nodes below.",
		noJobs, 24, 6,
	},
		[]string{
			orUnseen(worstFirst(by, "training_job", transport)),
			transport,
			`count by (` + by + `) (count by (cluster, instance, training_job) (gpufabric_job_info{@job}))`,
			`sum by (` + by + `) (gpufabric_job_ranks{@job})`,
			`count by (` + by + `) (gpufabric_job_gpu_info{@job})`,
			`count by (` + by + `) (job:gpufabric_job_transport:tcp{@job})`,
			`count by (` + by +
				`) (count by (cluster, training_job, rule) (gpufabric_job_misconfigured{severity=~"critical|warning",@job} == 1))`,
		}, "",
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "B", title: "Transport", words: jobTransports(), width: 150},
		column{field: "C", title: "Nodes", none: "none", width: 90},
		column{field: "F", title: "Nodes on TCP", none: "none", steps: []step{{1, bad}}, width: 130},
		column{field: "D", title: "Ranks", width: 90},
		column{field: "E", title: "GPUs", width: 90},
		column{field: "G", title: "Rules broken", none: "none", steps: []step{{1, warning}}, width: 130},
		column{field: "cluster", title: "Cluster", width: 110})
}

// jobNodes has one line for each job and node.
func jobNodes() panel {
	const by = "cluster, instance, training_job"
	transport := "min by (" + by + ") (" + transportsOf() + ")"
	return grid(about{
		"Jobs, node by node",
		"The chosen jobs on each of their nodes: how the data go there, and why. The way is the part of NCCL, or the plugin, that moves them.", noJobs, 24, 6,
	},
		[]string{
			orUnseen(worstFirst(by, "training_job", transport)),
			transport,
			`max by (` + by + `, way) (gpufabric_job_info{@job})`,
			`max by (` + by + `) (gpufabric_job_ranks{@job})`,
			`count by (` + by + `) (gpufabric_job_gpu_info{@job})`,
			`max by (` + by +
				`, because) (label_replace(gpufabric_job_info{cause!="",@job}, "because", "$1", "cause", "(.*)") or label_replace(gpufabric_job_transport_unknown{@job} == 1, "because", "$1", "reason", "(.*)"))`,
			`count by (` + by + `) (gpufabric_job_device_info{@job})`,
		}, "",
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "instance", title: "Node", link: toNode(), width: 135},
		column{field: "B", title: "Transport", words: jobTransports(), width: 146},
		column{field: "way", title: "Way", none: "-", words: words{"socket": {"TCP", ""}, "verbs": {"RDMA", ""}}, width: 75},
		column{field: "because", title: "TCP or unknown because", none: "-", words: because(), width: 255},
		column{field: "D", title: "Ranks", width: 79},
		column{field: "E", title: "GPUs", width: 79},
		column{field: "G", title: "Rails used", none: "none", width: 90},
		column{field: "cluster", title: "Cluster", width: ofCluster})
}

// wrongSetting names the settings of rules that jobs break: of one that is wrong on its node that which put
// NCCL on TCP.
const wrongSetting = `max by (cluster, training_job, rule, setting) (label_replace(
  max by (cluster, job, instance, training_job, rule) (gpufabric_job_misconfigured{rule="setting_wrong_here",@job} == 1)
  * on (cluster, job, instance, training_job) group_left (cause) max by (cluster, job, instance, training_job, cause) (gpufabric_job_info{cause=~"rdma_disabled|socket_selected",@job}),
  "setting", "$1", "cause", "(.*)"))
or on (cluster, training_job, rule) label_replace(max by (cluster, training_job, rule) (gpufabric_job_misconfigured{rule=~"setting.*",@job} == 1), "setting", "unnamed", "", "")`

// jobRules are what is wrong with jobs beside their transport.
func jobRules() panel {
	return grid(about{
		"Wrong settings",
		"Rules that the chosen jobs break, the most severe first, with the number of nodes. The setting is named where it put NCCL on TCP; the command jobs, or the page of a node, names every variable and rank.", "no job breaks a rule, or no job is seen", 24, 5,
	},
		[]string{
			ranked(`count by (cluster, training_job, rule, severity) (gpufabric_job_misconfigured{@job} == 1)`),
			wrongSetting,
		}, bySeverity,
		column{field: "rank", title: bySeverity, words: ranks(), width: 90},
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "rule", title: "What is wrong", words: jobRulesWords()},
		column{
			field: "setting", title: "Setting", none: "-",
			words: causes().with("unnamed", word{"see gpufabric_exporter jobs", ""}), width: 265,
		},
		column{field: "A", title: "Nodes", width: 90},
		column{field: "cluster", title: "Cluster", width: 110},
		column{field: "severity"})
}

func jobTraffic() line {
	const hosts = `on (cluster, job, instance) group by (cluster, job, instance) (gpufabric_job_info{@job})`
	return line{
		over(about{
			"RDMA sent, by device",
			"What the RDMA devices send that carry data of the chosen jobs: the ten highest at the end of the time shown. Devices that several jobs use carry the data of all of them.", "no device carries data of these jobs", 12, 9,
		}, "bps", nil,
			highestAtEnd(`8 * max by (cluster, instance, device) (port:gpufabric_hca_port_transmitted_data_bytes:carried2m{@port} and on (cluster, job, instance, device) gpufabric_job_device_info{@job})`,
				"{{cluster}} {{instance}} {{device}}")),
		over(about{
			"RDMA and other traffic of their nodes",
			"What the nodes of the chosen jobs send: over RDMA from their training ports, and otherwise (mostly TCP) from all their RDMA-capable interfaces.", "no traffic counters are known, or no job is seen", 12, 9,
		}, "bps", nil,
			curve{`8 * sum(` + sent + ` and ` + hosts + `)`, "RDMA"},
			curve{
				`8 * sum(instance:gpufabric_ethernet_transmitted_other_unicast_bytes:rate2m{@node} and ` + hosts + `)`,
				"not RDMA",
			}),
	}
}

func jobLoss() line {
	return line{
		named(over(about{
			"GPUs at work for impaired jobs",
			"How many GPUs work for jobs that are impaired, by reason, in the chosen clusters, whichever jobs are chosen: the mean of the last five minutes. The area below a line is GPU time lost; one GPU can count for several reasons.", "no impaired job is known: none was, no job is seen, or the rules are not loaded", 14, 8,
		}, "none", nil,
			curve{`sum by (reason) (cluster:gpufabric_gpu_impaired_seconds:rate5m{@cluster})`, "{{reason}}"}), impairments()),
		grid(about{
			"GPU time lost in a day, by reason",
			"Time that GPUs worked for impaired jobs in the last day, added up over all GPUs, whichever jobs are chosen. The same time can count for several reasons.", "no impaired job is known: none was, no job is seen, or the rules are not loaded", 10, 8,
		},
			[]string{`sum by (cluster, reason) (cluster:gpufabric_gpu_impaired_seconds:sum_1d{@cluster})`}, "-GPU time",
			column{field: "reason", title: "Reason", words: impairments()},
			column{field: "A", title: "GPU time", unit: "s", width: 130},
			column{field: "cluster", title: "Cluster", width: 110}),
	}
}

func jobHistory() line {
	return line{
		history(about{
			"Transport over time", "The transport of the worst rank of each chosen job.", "no job is seen", 24,
			10,
		}, jobTransports(),
			curve{"min by (cluster, training_job) (" + transportsOf() + ")", "{{cluster}} {{training_job}}"}),
	}
}

func jobsHelp() panel {
	return prose("What a job is", 24, 8, `A job is the processes on GPUs that belong together by their scheduler: slurm/ID, kubernetes/NAMESPACE/POD, container/ID, or none/PROGRAM.

* **TCP** is confirmed if the GPUs are busy, no RDMA device is open, and sockets carry as much in both directions. What could not be read makes it *suspected*, and never good.
* **RDMA, not certain**: devices carry data, and something that would prove whose data it is was not read.
* **TCP by design** is TCPX or FasTrak. **Unknown** has its reason in the table by node; idle GPUs are the most frequent one.
* A running job does not go back to RDMA: correct the cause and start it again from its checkpoint. The node is not the cause unless its own checks fail.`)
}
