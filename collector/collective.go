// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/job"
)

// The rows that NCCL Inspector of jobs fills: communicators and ranks become a GPU, a kind of collective and a class of sizes.
var (
	collectiveLabels = []string{trainingJob, "uuid", "collective", "size_class", "scope"}

	jobBusBandwidth = &Family{
		Name: "job_bus_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: collectiveLabels,
		Help: "Bus bandwidth of the collectives of the job on the GPU, as NCCL Inspector of the job measured it last: geometric mean of a sample, since Inspector drops records. " +
			"size_class: under_1MiB, 1MiB_to_16MiB, 16MiB_to_256MiB, from_256MiB. scope: node if the communicator is within one node, else nodes. Absent unless the site sets nccl.inspector_folder and the job uses Inspector (docs/INSPECTOR.md).",
		Source: "NCCL Inspector: nccl_inspector_metrics_<uuid>.prom, <host>-pid<pid>.log", Cadence: Fast, Privilege: "read access to the folder", Stability: Experimental,
	}
	jobCollectiveDuration = &Family{
		Name: "job_collective_duration_seconds", Type: Gauge, Unit: "seconds", Labels: collectiveLabels,
		Help:   "Mean time of the same collectives in the kernels of the GPU, with the time for which it waits for the others: the GPU with the shortest time is the one that the others wait for.",
		Source: "NCCL Inspector: nccl_inspector_metrics_<uuid>.prom, <host>-pid<pid>.log", Cadence: Fast, Privilege: "read access to the folder", Stability: Experimental,
	}
	jobInspectorRefused = &Family{
		Name: "job_inspector_files_refused", Type: Gauge, Labels: []string{"reason"},
		Help:   "Files of NCCL Inspector that are not used: not_regular, too_large, malformed, too_many, unreadable. Absent unless the site sets nccl.inspector_folder.",
		Source: "NCCL Inspector", Cadence: Fast, Privilege: "read access to the folder", Stability: Experimental,
	}
)

func collectCollectives(jobs job.Jobs, n *fabric.Node, emit emit) {
	reading, known := n.Inspector.Get()
	if !known {
		return
	}
	for _, c := range jobs.Collectives(n) {
		scope := "node"
		if c.Sample.Nodes {
			scope = "nodes"
		}
		emit(jobBusBandwidth, c.Sample.BusBandwidth, c.Job, label(c.GPU), c.Sample.Collective, string(c.Sample.Size), scope)
		emit(jobCollectiveDuration, c.Sample.Duration.Seconds(), c.Job, label(c.GPU), c.Sample.Collective, string(c.Sample.Size), scope)
	}
	for _, why := range fabric.Refusals() {
		emit(jobInspectorRefused, float64(reading.Refused[why]), string(why))
	}
}
