// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"strings"

	"gpufabric_exporter/internal/jobs/progress"
)

// jobsByNCCL is what NCCL itself says of jobs.
func jobsByNCCL() []line { return []line{{jobRAS()}, {jobBandwidth()}} }

// Beside the states of RAS, in the order of progress.States: a suspected job to which no query was sent, or
// which did not answer.
var notAsked = strconv.Itoa(len(progress.States()))

// rasStates is the state of each suspected job as a number, the worst first.
func rasStates(by string) string {
	var all []string
	for i, s := range progress.States() {
		all = append(all, strconv.Itoa(i)+` + 0 * (gpufabric_job_ras_state{state="`+string(s)+`",@job} == 1)`)
	}
	all = append(all, notAsked+` + 0 * gpufabric_job_ras_suspicion{@job}`)
	return "min by (" + by + ") (\n  " + strings.Join(all, "\n  or ") + "\n)"
}

func rasWords() words {
	of := map[progress.State]word{
		progress.Failed: {"a rank failed", bad}, progress.Dead: {"a rank is dead", bad},
		progress.Missing: {"a rank is missing", bad}, progress.Hang: {"hang", bad},
		progress.Stalled: {"a rank is stalled", warning}, progress.Straggler: {"a rank is slow", warning},
		progress.Unknown:  {"unknown", note},
		progress.Starting: {"starting", plainly}, progress.Ending: {"ending", plainly}, progress.Idle: {"idle", plainly},
		progress.Moving: {"running", good},
	}
	w := words{notAsked: {"not known", note}}
	for i, s := range progress.States() {
		w[strconv.Itoa(i)] = of[s]
	}
	return w
}

// refusals are the reasons why no query is sent to a job.
func refusals() words {
	return wordsOf(map[progress.Reason]word{
		progress.ProcessesUnknown: {"processes could not be read", ""}, progress.NoRank: {"its ranks have ended", ""},
		progress.RankElsewhere:    {"another node asks", ""},
		progress.NamespaceUnknown: {"network namespace unknown", ""},
		progress.OtherNamespace:   {"pod with its own network", ""}, progress.NoListener: {"its RAS does not listen", ""},
		progress.ListenersUnknown: {"listeners unknown", ""}, progress.OtherJob: {"another job has the port", ""},
		progress.AgeUnknown:        {"boot time unknown", ""},
		progress.Young:             {"a process is below 10 min", ""},
		progress.YoungCommunicator: {"a communicator may be below 10 min", ""},
		progress.VersionUnknown:    {"release of NCCL unknown", ""},
		progress.VersionRefused:    {"release of NCCL has crashed", ""}, progress.Waiting: {"asked not long ago", ""},
		progress.Stopped:        {"it ended the connection", warning},
		progress.ReleaseStopped: {"its release may have crashed here", warning},
		progress.NodeStopped:    {"three owners ended the connection", warning},
	})
}

// jobRAS has one line for each suspected job and node.
func jobRAS() panel {
	const by = "cluster, instance, training_job"
	return grid(about{
		"Suspected jobs, by NCCL RAS",
		"Jobs that may hang, and what NCCL RAS reports about their ranks on all nodes, the worst first. Ranks are lost that are missing, dead or failed. The node is the one that asked: nothing is wrong with it.",
		"no job is suspected to hang, or nccl.ask_ras is off", 24, 6,
	},
		[]string{
			worstFirst(by, "training_job", rasStates(by)),
			rasStates(by),
			`sum by (` + by + `) (gpufabric_job_ras_ranks{problem=~"missing|dead|failed",@job})`,
			`max by (` + by + `) (gpufabric_job_ras_operations_apart{@job})`,
			`max by (` + by + `) (time() - gpufabric_job_ras_last_answer_timestamp_seconds{@job})`,
			`max by (` + by + `, reason) (gpufabric_job_ras_not_asked{@job})`,
		}, "",
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "B", title: "State", words: rasWords(), width: 129},
		column{field: "C", title: "Ranks lost", none: "-", steps: []step{{1, bad}}, width: 90},
		column{field: "D", title: "Collectives apart", none: "-", width: 125},
		column{field: "E", title: "Answered", unit: "s", none: "never", width: 82},
		column{field: "reason", title: "Not asked now because", none: "-", words: refusals(), width: 264},
		column{field: "instance", title: "Asked by", link: toNode(), width: 130},
		column{field: "cluster", title: "Cluster", width: ofCluster})
}

// jobBandwidth has one line for each job and node, those that are slowest against their past first.
func jobBandwidth() panel {
	const by = "cluster, instance, training_job"
	share := func(reference string) string {
		return `min by (` + by + `) (instance:gpufabric_job_bus_bandwidth:ratio{reference="` + reference + `",@job})`
	}
	const bandwidth = `min by (` + by + `) (instance:gpufabric_job_bus_bandwidth:min10m{@job})`
	const slowest = `topk by (cluster, training_job) (1, max by (cluster, job, instance, training_job, uuid) (uuid:gpufabric_job_collective_duration:waited_ratio{@job}) > 0)`
	return grid(about{
		"Collectives of running jobs",
		"Bus bandwidth of the slowest GPU of each job on each node, for messages from 16 MiB, as NCCL Inspector samples it, and its share of the job's own past and of its other nodes. " +
			"The GPU for which the other ranks of the job wait longest is named.",
		"no job writes files of NCCL Inspector, or nccl.inspector_folder is not set", 24, 7,
	},
		[]string{
			bandwidth,
			orElse(share("past"), bandwidth, sortedLast), share("peers"),
			`max by (` + by + `) (uuid:gpufabric_job_collective_seconds:rate5m{@job})`,
			`max by (` + by + `, gpu) (` + slowest +
				` * on (cluster, job, instance, uuid) group_left (gpu) max by (cluster, job, instance, uuid, gpu) (label_replace(gpufabric_gpu_info{@node}, "gpu", "GPU$1", "index", "(.+)")))`,
		}, "Of its past",
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "instance", title: "Node", link: toNode(), width: 135},
		column{field: "A", title: "Bus bandwidth", unit: "Bps", width: 115},
		column{
			field: "B", title: "Of its past", unit: "percentunit", none: "no hour of it yet",
			steps: []step{{0, warning}, {0.7, plainly}}, width: 128,
		},
		column{
			field: "C", title: "Of its peers", unit: "percentunit", none: "below 3 nodes",
			steps: []step{{0, warning}, {0.7, plainly}}, width: 122,
		},
		column{field: "D", title: "In collectives", unit: "percentunit", none: "not counted", width: 110},
		column{field: "gpu", title: "Slowest rank", none: "-", width: 112},
		column{field: "E", title: "Waited for", unit: "percentunit", none: "-", width: 95},
		column{field: "cluster", title: "Cluster", width: ofCluster})
}
