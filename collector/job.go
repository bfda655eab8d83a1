// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"maps"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
)

// The rows of the collector job. What users can set is in training_job only, in safe characters.
var (
	jobInfo = &Family{
		Name: "job_info", Type: Info, Labels: []string{trainingJob, "scheduler", "user", "way", "cause"},
		Help: "A job that holds GPUs of the node; constant 1. training_job is scheduler/id. scheduler: slurm, kubernetes, container, none. user is the numeric user ID, empty if not known. " +
			"way is what moves its data: verbs, efa, ucx, ibext, gib, plugin, tcpx, fastrak, socket; empty if not known. cause is why it uses TCP, if that can be seen (docs/JOBS.md).",
		Source: "/proc/<pid>, NETLINK_RDMA, NETLINK_SOCK_DIAG, NVML", Cadence: Fast,
		Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Experimental,
	}
	jobGPU = &Family{
		Name: "job_gpu_info", Type: Info, Labels: []string{trainingJob, "uuid"},
		Help:   "A GPU that a rank of the job holds; constant 1.",
		Source: "nvmlDeviceGetComputeRunningProcesses_v3", Cadence: Fast, Stability: Experimental,
	}
	jobDevice = &Family{
		Name: "job_device_info", Type: Info, Labels: []string{trainingJob, "device"},
		Help:   "RDMA devices that carried data of the job between the last two readings.",
		Source: "internal/jobs/job", Cadence: Fast, Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Experimental,
	}
	jobRanks = &Family{
		Name: "job_ranks", Type: Gauge, Labels: []string{trainingJob},
		Help:   "Ranks of the job on this node, without forked children.",
		Source: "/proc/<pid>", Cadence: Fast, Stability: Stable,
	}
	jobTransport = &Family{
		Name: "job_transport", Type: StateSet, Labels: []string{trainingJob, "transport"},
		Help: "How NCCL moves the data of the job between nodes, from two readings: rdma, tcp, mixed, local (one node or NVLink domain), unknown; 1 for the current one. " +
			"It is that of the worst rank. job_transport_confirmed states how certain it is. While it is not seen, it stays for an hour what it was (job_transport_last_seen_timestamp_seconds).",
		Source: "internal/jobs/job", Cadence: Fast, Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Stable,
	}
	jobTransportConfirmed = &Family{
		Name: "job_transport_confirmed", Type: Gauge, Labels: []string{trainingJob},
		Help:   "1 if the evidence for job_transport is complete, 0 if the transport is suspected. Absent if it is unknown.",
		Source: "internal/jobs/job", Cadence: Fast, Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Stable,
	}
	jobTransportByDesign = &Family{
		Name: "job_transport_by_design", Type: Gauge, Labels: []string{trainingJob},
		Help:   "1 if the job uses TCPX or FasTrak, whose data go over TCP by design: job_transport tcp is no fallback. 0 otherwise.",
		Source: "internal/jobs/job", Cadence: Fast, Stability: Stable,
	}
	jobTransportUnknown = &Family{
		Name: "job_transport_unknown", Type: Gauge, Labels: []string{trainingJob, "reason"},
		Help: "1 for the reason for which job_transport is unknown: first_reading, idle, no_traffic, little_traffic, privilege, unreadable, moved (its RDMA devices are in another network namespace), " +
			"no_communicator. Absent otherwise.",
		Source: "internal/jobs/job", Cadence: Fast, Stability: Experimental,
	}
	jobTransportLastSeen = &Family{
		Name: "job_transport_last_seen_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Labels: []string{trainingJob, "reason"},
		Help: "Time at which the transport of the job was last seen, in seconds since the epoch, while it is not seen now. Then what decides cannot be read of a rank, a bound left its process out, or no process could be listed. " +
			"job_transport and job_misconfigured keep what they were for an hour from then. reason: first_reading, privilege, unreadable, moved. Absent while it is seen, and if it never was.",
		Source: "internal/jobs/job", Cadence: Fast, Stability: Stable,
	}
	jobMisconfigured = &Family{
		Name: "job_misconfigured", Type: Gauge, Labels: []string{trainingJob, "rule", "severity"},
		Help:   "1 for each rule that the job breaks (docs/JOBS.md), and for an hour after it was last seen to break it, while that is not seen. severity: critical, warning, info. Absent otherwise.",
		Source: "internal/jobs/job", Cadence: Fast, Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Experimental,
	}
	jobSpansNodes = &Family{
		Name: "job_spans_nodes", Type: Gauge, Labels: []string{trainingJob},
		Help:   "1 if the job is known to have ranks on other nodes: it has connections of NCCL's bootstrap to them, or its environment states more ranks than there are here. Absent otherwise.",
		Source: "internal/jobs/job", Cadence: Fast, Privilege: "CAP_SYS_PTRACE, host PID namespace", Stability: Stable,
	}
	jobProcessesDropped = &Family{
		Name: "job_processes_dropped", Type: Gauge,
		Help:   "Processes with GPUs that are in no job, because there are more processes or jobs than the exporter keeps: the first of each user, pod and container come first. Absent if there are none.",
		Source: "internal/jobs/job", Cadence: Fast, Stability: Experimental,
	}
	gpuImpaired = &Family{
		Name: "gpu_impaired_seconds_total", Type: Counter, Unit: "seconds", Labels: []string{"uuid", "reason"},
		Help: "Time in which the GPU worked for a job that was impaired: tcp (confirmed), misconfigured (job_misconfigured of severity warning or critical), degraded_link (RDMA, and the nearest NIC is down or slow), " +
			"no_gpudirect (RDMA without GPUDirect RDMA). One second can count for several reasons. Counted between scrapes; starts at 0 with the exporter.",
		Source: "internal/jobs/job", Cadence: Fast, Stability: Experimental,
	}
)

// jobFamilies are the rows of the collector job, in the order of documentation.
func jobFamilies() []*Family {
	return slices.Concat([]*Family{
		jobInfo, jobGPU, jobDevice, jobRanks, jobTransport, jobTransportConfirmed, jobTransportByDesign,
		jobTransportUnknown, jobTransportLastSeen, jobSpansNodes, jobMisconfigured, jobProcessesDropped, gpuImpaired,
		jobBusBandwidth, jobCollectiveDuration, jobCollectiveTime, jobCollectivesRecorded, jobCollectivesLaunched,
		jobInspectorRefused,
	}, rasFamilies())
}

// jobCollector is the one collector with a memory: a verdict on a job takes two readings. Its tracker may be
// used by any number of goroutines.
func jobCollector() collector {
	tracker := new(job.Tracker)
	return collector{
		About: About{
			Name: "job",
			Help: "Running jobs: whether NCCL moves their data over RDMA or TCP, what is wrong with their settings, GPU time lost.", Default: true,
		},
		want:     job.Wants,
		sources:  []string{fabric.SourceRanks, fabric.SourceGPU, fabric.SourceInspector},
		families: jobFamilies(),
		collect: func(n *fabric.Node, emit emit) {
			jobs := tracker.Update(n)
			collectJobs(jobs, emit)
			collectCollectives(jobs, n, emit)
		},
		supported: hasJobs,
		jobs:      tracker.Update,
	}
}

// Jobs returns the jobs of the node, which Gather compares with the same earlier readings; or why they are
// not looked for.
func (s *Set) Jobs(n *fabric.Node) (jobs job.Jobs, why string) {
	i := slices.IndexFunc(s.collectors, func(c collector) bool { return c.jobs != nil })
	if i < 0 {
		return job.Jobs{}, "the collector job is disabled by --no-collector.job"
	}
	if supported, why := hasGPUDriver(n); !supported {
		return job.Jobs{}, why
	}
	if n.Ranks.Meta().Reason == fabric.ReasonNotRead {
		return job.Jobs{}, notRead
	}
	return s.collectors[i].jobs(n), ""
}

const notRead = "the processes that hold GPUs are not read"

func hasJobs(n *fabric.Node) (bool, string) {
	if supported, why := hasGPUDriver(n); !supported {
		return false, why
	}
	switch n.Ranks.Meta().Reason {
	case fabric.ReasonNotRead:
		return false, notRead
	case fabric.ReasonPrivilege:
		return false,
			"the processes that hold GPUs are not seen: it takes root, or the host's PID namespace with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
	}
	return true, ""
}

func collectJobs(jobs job.Jobs, emit emit) {
	gpus := map[string]bool{}
	for i := range jobs.List {
		j := &jobs.List[i]
		for _, uuid := range j.GPUs {
			gpus[uuid] = true
		}
		collectJob(j, emit)
	}
	if jobs.Dropped > 0 {
		emit(jobProcessesDropped, float64(jobs.Dropped))
	}
	for uuid := range jobs.Impaired {
		gpus[uuid] = true
	}
	for _, uuid := range slices.Sorted(maps.Keys(gpus)) { // 0 at first, so that rates see the beginning
		for _, why := range job.Impairments() {
			emit(gpuImpaired, jobs.Impaired[uuid][why], label(uuid), string(why))
		}
	}
}

func collectJob(j *job.Job, emit emit) {
	v := &j.Verdict
	emit(jobInfo, 1, j.Name, j.Scheduler, j.User, string(v.Way), string(v.Cause))
	for _, uuid := range j.GPUs {
		emit(jobGPU, 1, j.Name, label(uuid))
	}
	for _, device := range j.Devices {
		emit(jobDevice, 1, j.Name, label(device))
	}
	emit(jobRanks, float64(len(j.Ranks)), j.Name)
	state(emit, jobTransport, v.Transport, job.Transports(), j.Name)
	emit(jobTransportByDesign, bit(v.Transport == job.TCP && !v.Fallback()), j.Name)
	if v.Transport == job.Unknown {
		emit(jobTransportUnknown, 1, j.Name, string(v.Reason))
	} else {
		emit(jobTransportConfirmed, bit(v.Confirmed), j.Name)
	}
	if j.Spans {
		emit(jobSpansNodes, 1, j.Name)
	}
	if !j.Seen.IsZero() {
		emit(jobTransportLastSeen, float64(j.Seen.UnixMilli())/1000, j.Name, string(j.Unseen))
	}
	for _, f := range j.Findings {
		emit(jobMisconfigured, 1, j.Name, string(f.Rule), string(f.Severity))
	}
}
