// SPDX-License-Identifier: Apache-2.0

package collector

const (
	probeSource    = "probes"
	probeLog       = "log of NCCL (NCCL_DEBUG=INFO)"
	probePrivilege = "a configuration with probes enabled, and GPUs verified idle"

	probeLabels = " kind: transport (one rank: the network that NCCL chooses), node (all GPUs of the node), socket (TCP, for comparison), calibrate (run manually), " +
		"rail (two ranks through one port of an RDMA device: it measures the NIC, its PCIe link and GPUDirect, but NOT cable, switch or PFC). device and port are set for rails only."
	probeNewest = " From the last run that was not aborted, see probe_last_success_timestamp_seconds; absent if that run failed or there is none yet."
)

// The rows of the collector probe.
var (
	probeStateFile = &Family{
		Name: "probe_state_file_ok", Type: Gauge,
		Help: "0 while the file with the history of probes cannot be written, and for a day after it was damaged or could not be read: " +
			"baselines then start from scratch, or will be lost with the next restart. 1 otherwise.",
		Source: probeSource, Cadence: Self, Stability: Experimental,
	}
	probeGPUSeconds = &Family{
		Name: "probe_gpu_seconds_total", Type: Counter, Unit: "seconds",
		Help:   "Time during which probes had a context on a GPU, summed over GPUs, since the exporter started.",
		Source: probeSource, Cadence: Self, Stability: Stable,
	}
	probeInterval = &Family{
		Name: "probe_interval_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind"},
		Help:   "Configured interval of each probe of the kind. Probes run less often if the GPUs are busy or their share of GPU time is used up. Absent for kinds that run on demand only.",
		Source: "config probes", Cadence: Config, Stability: Stable,
	}
	probeSkips = &Family{
		Name: "probe_skips_total", Type: Counter, Labels: []string{"kind", "reason"},
		Help: "Number of times that a probe was due and did not run, since the exporter started, by kind, summed over rails. reason: cannot_prove_idle (a required source cannot be read), scheduler (a scheduler runs that the exporter cannot query: set probes.idle_command); " +
			"in use: process, memory, utilization, mps, mig, compute_mode, slurm, kubernetes, site (according to probes.idle_command), maintenance; not healthy: throttled, link_errors, persistence (off); " +
			"locked (by another prober), duty (the share of GPU time is used up), no_gpu, no_device, untrusted (other users could change files that a probe loads or follows). Absent until the first skip.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSkipped = &Family{
		Name: "probe_skipped", Type: Gauge, Labels: []string{"kind", "device", "port", "reason"},
		Help:   "1 while a probe is due and its last attempt was skipped; reason as in probe_skips_total. Absent otherwise.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeRuns = &Family{
		Name: "probe_runs_total", Type: Counter, Labels: []string{"kind", "device", "port"},
		Help: "Number of completed runs of the probe, with any outcome, since the exporter started. Skips do not count." +
			probeLabels,
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFailures = &Family{
		Name: "probe_failures_total", Type: Counter, Labels: []string{"kind", "device", "port", "reason"},
		Help: "Number of runs that failed or were aborted, since the exporter started. reason: library (NCCL or CUDA cannot be loaded), init (no communicator), hang (a deadline passed), crash, nccl, cuda, " +
			"wrong_result, protocol (no valid answer), versions (ranks differ); aborted: intruder (another process started to use the GPUs), stopped (the exporter ended, maintenance began, or the use of the GPUs could not be monitored). Absent until the first one; " +
			"for alerts use probe_failing.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeWrong = &Family{
		Name: "probe_wrong_results_total", Type: Counter, Labels: []string{"kind", "device", "port"},
		Help:   "Number of wrong elements in results, since the exporter started. Every run is verified.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeLastRun = &Family{
		Name: "probe_last_run_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "Start time of the last run, with any outcome, in seconds since the epoch. The state file keeps it across restarts; " +
			"absent if no run is known.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeLastSuccess = &Family{
		Name: "probe_last_success_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Labels: []string{"kind", "device", "port"},
		Help: "Start time of the last successful run, in seconds since the epoch; bandwidths and other measurements are from that run. " +
			"The state file keeps it across restarts if it is the last run. Absent if there is none yet.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeSuccess = &Family{
		Name: "probe_success", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 if the last run succeeded, even if it was slow; 0 if it failed, see probe_failing. Aborted runs do not change it, because they say nothing about the fabric. " +
			"The state file keeps the last run across restarts. Absent if there is none yet.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFailing = &Family{
		Name: "probe_failing", Type: Gauge, Labels: []string{"kind", "device", "port", "reason"},
		Help:   "1 for the reason why the last run failed, as in probe_failures_total. Absent if it succeeded.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeUnknown = &Family{
		Name: "probe_result_unknown", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 while no result about the fabric is known: no run has completed since the exporter started, and the state file has no result. Absent otherwise.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFault = &Family{
		Name: "probe_fault_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Labels: []string{"kind", "device", "port", "fault"},
		Help: "Start time of the run that first showed the fault, in seconds since the epoch, for alerts. Absent while the probe does not have the fault. fault: socket (NCCL chose TCP, in a probe that does not measure TCP), " +
			"gpudirect (not used, although the network supports it), wrong (wrong result), failing (see probe_failing), " +
			"stale (no success in three intervals, although the GPUs are idle and no run failed; the time of the last success), never_run (although the GPUs are idle; the time when the exporter started). " +
			"For faults of bandwidth, see probe_fault_ratio.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFaultRatio = &Family{
		Name: "probe_fault_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port", "fault"},
		Help: "probe_baseline_ratio while the bandwidth has a fault, for alerts. fault: slow (three results in a row or more below 80 % of the baseline), regressed, drifted (see probe_regressed, probe_baseline_drifted). " +
			"Absent while there is no such fault.",
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeFaultCause = &Family{
		Name: "probe_fault_cause", Type: Gauge, Labels: []string{"kind", "device", "port", "fault", "cause"},
		Help: "1 for what explains a fault. fault socket, according to NCCL's log: rdma_disabled (NCCL_IB_DISABLE), socket_selected (NCCL_NET=Socket), " +
			"no_rdma_device (NCCL found no RDMA device that it can open and that NCCL_IB_HCA selects), not_logged. Faults slow, regressed and drifted: what differs from the last run at full bandwidth: versions (NCCL, CUDA, GPU driver), gpus, transport, gpudirect, " +
			"switch_sums (NVLS, SHARP), channels, settings (variables of NCCL), no_difference (nothing that NCCL reports). Absent for other faults.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeFollows = &Family{
		Name: "probe_follows", Type: Gauge, Labels: []string{"kind", "device", "port", "cause"},
		Help:   "1 while all that is wrong with the last run that was not aborted follows from a check that fails on the node, whose name is in cause. Absent otherwise, and without the collector check.",
		Source: "internal/diagnose", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeRelease = &Family{
		Name: "probe_release_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "Time from killing or closing the ranks of the last run until the driver showed none of them on the GPUs, and no used memory on GPUs without other processes. " +
			"Aborted runs count, too: after an intrusion it is the time that the other process had to wait. Absent if it took more than 10 s, or was not monitored.",
		Source: "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetMemoryInfo", Cadence: Probed, Privilege: probePrivilege,
		Stability: Experimental,
	}
	probeInfo = &Family{
		Name: "probe_info", Type: Info,
		Labels: []string{
			"kind", "device", "port", "nccl_version", "driver_version", "cuda_version", "network", "op",
			"type", "bytes", "ranks",
		},
		Help: "Software and parameters of the last run that was not aborted; constant 1. network is NCCL's name; op, type, bytes (size of the message) and ranks are those " +
			"of the last measurement, to which the other metrics refer. Unknown labels are empty.",
		Source: "ncclGetVersion, cuDriverGetVersion, nvmlSystemGetDriverVersion, " + probeLog, Cadence: Probed,
		Privilege: probePrivilege, Stability: Experimental,
	}
	probeTransport = &Family{
		Name: "probe_transport", Type: StateSet, Labels: []string{"kind", "device", "port", "transport"},
		Help: "The slowest transport between ranks; for kind transport, the one that NCCL would use to other nodes: none, nvls (NVLink with reduction in the switch), p2p (NVLink or PCIe), " +
			"shm (host memory), ib (InfiniBand and RoCE), plugin (such as EFA), socket (TCP); 1 for this transport, 0 for all others. From the last run that was not aborted; absent if NCCL's log does not show it.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeGPUDirect = &Family{
		Name: "probe_gpudirect", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 if NCCL used GPUDirect RDMA, or would use it on the network; 0 if not. " +
			"From the last run that was not aborted; absent if the network does not support it, or NCCL's log does not show it.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeNVLS = &Family{
		Name: "probe_nvls", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 if NCCL enabled NVLS (reduction in the NVLink switch), 0 if not; for node and calibrate. From the last run that was not aborted; absent if NCCL's log does not show it.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSHARP = &Family{
		Name: "probe_sharp", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 if NCCL enabled SHARP (reduction in InfiniBand switches), 0 if not; for node and calibrate. From the last run that was not aborted; absent if NCCL's log does not show it.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeChannels = &Family{
		Name: "probe_channels", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Number of channels that NCCL created for collectives. From the last run that was not aborted; absent if NCCL's log does not show it.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBusBW = &Family{
		Name: "probe_bus_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second",
		Labels: []string{"kind", "device", "port"},
		Help:   "Bus bandwidth as nccl-tests defines it: bytes over each link, independent of the operation and the number of ranks. Light probes use few channels; compare them only with their own baseline." + probeNewest + probeLabels,
		Source: "ncclAllReduce and the like, clock of the host", Cadence: Probed, Privilege: probePrivilege,
		Stability: Stable,
	}
	probeAlgBW = &Family{
		Name: "probe_algorithm_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second",
		Labels: []string{"kind", "device", "port"},
		Help: "Algorithm bandwidth as nccl-tests defines it: size of the message divided by the time of one iteration." +
			probeNewest,
		Source: "ncclAllReduce and the like, clock of the host", Cadence: Probed, Privilege: probePrivilege,
		Stability: Stable,
	}
	probeLatency = &Family{
		Name: "probe_latency_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Mean time of one iteration on the slowest rank. The size of the message is in probe_info." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeSmallLatency = &Family{
		Name: "probe_small_message_latency_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "Mean time of one iteration with the smallest message (1 KiB by default) on the slowest rank: the fixed cost of NCCL and the transport. " +
			"Absent for transport and calibrate, which do not measure it." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeInit = &Family{
		Name: "probe_init_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Time to create the communicator." + probeNewest,
		Source: "ncclCommInitRankConfig", Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeConnect = &Family{
		Name: "probe_connect_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Time of the first collective, during which NCCL establishes its connections." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBaselineRatio = &Family{
		Name: "probe_baseline_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help: "Bus bandwidth divided by the median of earlier results under the same conditions (operation, size, ranks, GPUs, NCCL, driver, firmware). " +
			"Absent while there are fewer than five results." + probeNewest + probeLabels,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBaselineSamples = &Family{
		Name: "probe_baseline_samples", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Number of earlier results under the same conditions with which the last one is compared." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSmallLatencyRatio = &Family{
		Name: "probe_small_message_latency_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help:   "probe_small_message_latency_seconds divided by the median of earlier results under the same conditions that were not late; above 2, the result is late. Absent while there are fewer than five results." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeJudged = &Family{
		Name: "probe_judged_results_total", Type: Counter, Labels: []string{"kind"},
		Help: "Number of results that were compared with a baseline, since the exporter started, by kind, summed over rails: successful runs with at least five earlier results. " +
			"The second run that confirms a slow result counts, too. Absent for transport, which has no bandwidth.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSlow = &Family{
		Name: "probe_slow_results_total", Type: Counter, Labels: []string{"kind"},
		Help: "Number of results in probe_judged_results_total whose bus bandwidth was below the configured share of its baseline (0.95 by default), by more than noise explains, " +
			"since the exporter started. It includes results that were not confirmed; for alerts use probe_regressed.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeLate = &Family{
		Name: "probe_late_results_total", Type: Counter, Labels: []string{"kind"},
		Help:   "Number of results in probe_judged_results_total whose smallest message took more than twice the median of its baseline, since the exporter started.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeExpectedRatio = &Family{
		Name: "probe_expected_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help: "Bus bandwidth divided by the bandwidth expected from the line rate; for rail and calibrate only." +
			probeNewest + probeLabels,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeRegressed = &Family{
		Name: "probe_regressed", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 if the last two results had a bus bandwidth below the configured share of the baseline (0.95 by default), by more than noise explains; 0 otherwise. " +
			"Absent without a baseline." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBelow = &Family{
		Name: "probe_below_baseline_results", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Number of consecutive results, up to the last one, that were slow as in probe_slow_results_total; absent if the last one was not. The state file keeps it across restarts." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeCollapsed = &Family{
		Name: "probe_collapsed_results", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "Number of consecutive results, up to the last one, that were below 80 % of their baseline and slow as in probe_slow_results_total; absent if the last one was not. " +
			"The state file keeps it across restarts." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeDrifted = &Family{
		Name: "probe_baseline_drifted", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 if the baseline itself is below the configured share of the best baseline so far: bandwidth has declined too slowly for single results to show it; 0 otherwise. " +
			"Absent until 16 results have formed a best baseline." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
)

// probeFamilies are the rows of the collector probe, in the order of documentation.
func probeFamilies() []*Family {
	return []*Family{
		probeStateFile, probeGPUSeconds, probeInterval, probeSkips, probeSkipped, probeRuns, probeFailures, probeWrong,
		probeLastRun, probeLastSuccess,
		probeSuccess, probeFailing, probeUnknown, probeFault, probeFaultRatio, probeFaultCause, probeFollows, probeRelease,
		probeInfo,
		probeTransport, probeGPUDirect, probeNVLS,
		probeSHARP, probeChannels, probeBusBW, probeAlgBW, probeLatency, probeSmallLatency, probeInit, probeConnect,
		probeBaselineRatio,
		probeBaselineSamples, probeSmallLatencyRatio, probeJudged, probeSlow, probeLate, probeExpectedRatio, probeRegressed,
		probeBelow,
		probeCollapsed, probeDrifted,
	}
}
