// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

// The rows that NCCL Inspector of jobs fills: communicators and ranks become a GPU, a kind of collective and
// a class of sizes.
var (
	collectiveLabels = []string{trainingJob, "uuid", "collective", "size_class", "scope"}
	totalLabels      = []string{trainingJob, "uuid", "collective", "scope"}

	jobBusBandwidth = &Family{
		Name: "job_bus_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: collectiveLabels,
		Help: "Bus bandwidth of the collectives of the job on the GPU, as NCCL Inspector of the job measured it last: geometric mean of a sample, since Inspector drops records. " +
			"size_class: under_1MiB, 1MiB_to_16MiB, 16MiB_to_256MiB, from_256MiB. scope: node if the communicator is within one node, else nodes. Absent unless the site sets nccl.inspector_folder and the job uses Inspector (docs/JOBS.md).",
		Source: "NCCL Inspector: nccl_inspector_metrics_<uuid>.prom, <host>-pid<pid>.log", Cadence: Fast,
		Privilege: "read access to the folder", Stability: Experimental,
	}
	jobCollectiveDuration = &Family{
		Name: "job_collective_duration_seconds", Type: Gauge, Unit: "seconds", Labels: collectiveLabels,
		Help:   "Mean time of the same collectives in the kernels of the GPU, with the time for which it waits for the others. The others wait for the GPU with the shortest time.",
		Source: "NCCL Inspector: nccl_inspector_metrics_<uuid>.prom, <host>-pid<pid>.log", Cadence: Fast,
		Privilege: "read access to the folder", Stability: Experimental,
	}
	jobCollectiveTime = &Family{
		Name: "job_collective_seconds_total", Type: Counter, Unit: "seconds", Labels: totalLabels,
		Help: "Time of the collectives that NCCL Inspector recorded on the GPU, with the time for which they wait for other ranks. It begins when the exporter first reads the file of the process. " +
			"Its rate is the share of time that the job spends in them, at least: Inspector drops records. Collectives that run at the same time count each. Estimated from a sample where a process writes more than 128 KiB between two readings. " +
			"Absent in the Prometheus mode of Inspector, which does not count.",
		Source: "NCCL Inspector: coll_exec_time_us in <host>-pid<pid>.log", Cadence: Fast,
		Privilege: "read access to the folder", Stability: Experimental,
	}
	jobCollectivesRecorded = &Family{
		Name: "job_collectives_recorded_total", Type: Counter, Labels: totalLabels,
		Help:   "Number of the same collectives.",
		Source: "NCCL Inspector: records of <host>-pid<pid>.log", Cadence: Fast, Privilege: "read access to the folder",
		Stability: Experimental,
	}
	jobCollectivesLaunched = &Family{
		Name: "job_collectives_launched_total", Type: Counter, Labels: totalLabels,
		Help:   "Number of collectives that the job launched in the same time, by the numbers that NCCL gives them. Those that Inspector did not record count, too: small ones, and what its rings dropped. Absent for Send and Recv.",
		Source: "NCCL Inspector: coll_sn in <host>-pid<pid>.log", Cadence: Fast, Privilege: "read access to the folder",
		Stability: Experimental,
	}
	jobInspectorRefused = &Family{
		Name: "job_inspector_files_refused", Type: Gauge, Labels: []string{"reason"},
		Help:   "Files of NCCL Inspector that are not used: not_regular, too_large, malformed, too_many, unreadable, no_rank (no running process of one job wrote it, as for 10 minutes after the end of a job). Absent unless the site sets nccl.inspector_folder.",
		Source: "NCCL Inspector", Cadence: Fast, Privilege: "read access to the folder", Stability: Experimental,
	}
)

func collectCollectives(jobs job.Jobs, n *fabric.Node, emit emit) {
	reading, known := n.Inspector.Get()
	if !known {
		return
	}
	found := jobs.Inspect(n)
	for _, c := range found.Samples {
		emit(jobBusBandwidth, c.Sample.BusBandwidth, c.Job, label(c.GPU), c.Sample.Collective, string(c.Sample.Size),
			scope(c.Sample.Nodes))
		emit(jobCollectiveDuration, c.Sample.Duration.Seconds(), c.Job, label(c.GPU), c.Sample.Collective,
			string(c.Sample.Size), scope(c.Sample.Nodes))
	}
	for _, c := range found.Totals {
		emit(jobCollectiveTime, c.Total.Seconds, c.Job, label(c.GPU), c.Total.Collective, scope(c.Total.Nodes))
		emit(jobCollectivesRecorded, c.Total.Recorded, c.Job, label(c.GPU), c.Total.Collective, scope(c.Total.Nodes))
		if c.Total.Launched > 0 {
			emit(jobCollectivesLaunched, c.Total.Launched, c.Job, label(c.GPU), c.Total.Collective, scope(c.Total.Nodes))
		}
	}
	for _, why := range fabric.Refusals() {
		files := reading.Refused[why]
		if why == fabric.RefusedNoRank {
			files = found.NoRank
		}
		emit(jobInspectorRefused, float64(files), string(why))
	}
}

// scope is where the ranks of a communicator are.
func scope(nodes bool) string {
	if nodes {
		return "nodes"
	}
	return "node"
}
