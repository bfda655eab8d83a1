// SPDX-License-Identifier: Apache-2.0

package collector

const (
	probeSource    = "probes"
	probeLog       = "log of NCCL (NCCL_DEBUG=INFO)"
	probePrivilege = "a config with probes:, and GPUs that are idle for all to see"

	probeLabels = " kind: transport (one rank: the network that NCCL chooses), node (all GPUs of the node), socket (TCP, to compare with), calibrate (by hand), " +
		"rail (two ranks through the port of an RDMA device: it measures the NIC, its PCIe and GPUDirect, and NOT cable, switch or PFC). device and port are of a rail, else empty."
	probeNewest = " Of the last run that was not aborted, see probe_last_success_timestamp_seconds; absent if that failed, and until there is one."
)

// The rows of the collector probe.
var (
	probeStateFile = &Family{
		Name: "probe_state_file_ok", Type: Gauge,
		Help: "0 while the file that keeps the history of probes cannot be written, and for a day after it was found damaged or could not be read: " +
			"baselines then begin anew, or are lost with the next restart. Else 1.",
		Source: probeSource, Cadence: Self, Stability: Experimental,
	}
	probeGPUSeconds = &Family{
		Name: "probe_gpu_seconds_total", Type: Counter, Unit: "seconds",
		Help:   "Time for which probes had a context on a GPU, added up over GPUs, since the exporter started.",
		Source: probeSource, Cadence: Self, Stability: Stable,
	}
	probeInterval = &Family{
		Name: "probe_interval_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind"},
		Help:   "How often each probe of the kind is to run. It runs less often where GPUs are busy or its share of their time is used up. Absent for kinds that run on demand only.",
		Source: "config probes", Cadence: Config, Stability: Stable,
	}
	probeSkips = &Family{
		Name: "probe_skips_total", Type: Counter, Labels: []string{"kind", "reason"},
		Help: "Times that a probe was due and did not run, since the exporter started, by kind: of rails, all together. reason: cannot_prove_idle (a source that must say so cannot be read), scheduler (one that is not asked runs: set probes.idle_command); " +
			"in use: process, memory, utilization, mps, mig, compute_mode, slurm, kubernetes, site (probes.idle_command says so), maintenance; not well: throttled, link_errors, persistence (off); " +
			"locked (another prober), duty (its share of GPU time is used up), no_gpu, no_device, untrusted (others could write what a probe would load or obey). Absent until it happened once.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSkipped = &Family{
		Name: "probe_skipped", Type: Gauge, Labels: []string{"kind", "device", "port", "reason"},
		Help:   "1 while a probe is due and did not run when it was tried last; reason as in probe_skips_total. Absent otherwise.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeRuns = &Family{
		Name: "probe_runs_total", Type: Counter, Labels: []string{"kind", "device", "port"},
		Help:   "Runs of the probe that ended, whatever came of them, since the exporter started. Skips do not count." + probeLabels,
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFailures = &Family{
		Name: "probe_failures_total", Type: Counter, Labels: []string{"kind", "device", "port", "reason"},
		Help: "Runs that failed or were aborted, since the exporter started. reason: library (NCCL or CUDA cannot be loaded), init (no communicator), hang (a deadline passed), crash, nccl, cuda, " +
			"wrong_result, protocol (no answer), versions (ranks differ); aborted: intruder (somebody else came to the GPUs), stopped (the exporter ended, maintenance began, or nobody could see who uses the GPUs). Absent until it happened once: " +
			"see probe_failing for alerts.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeWrong = &Family{
		Name: "probe_wrong_results_total", Type: Counter, Labels: []string{"kind", "device", "port"},
		Help:   "Elements that were not what the operation gives, since the exporter started. Every run is verified.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeLastRun = &Family{
		Name: "probe_last_run_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "When the last run began, whatever came of it, in seconds since the epoch. The state file remembers it over restarts; " +
			"absent if the probe has never run as far as it knows.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeLastSuccess = &Family{
		Name: "probe_last_success_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "When the last run began that ended well, in seconds since the epoch: the time that bandwidths and what else is measured are of. " +
			"The state file remembers it over restarts if it is the last run. Absent until there is one.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeSuccess = &Family{
		Name: "probe_success", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 when the last run ended well, slow or not; 0 when it failed, see probe_failing. Runs that were aborted change nothing: they say nothing about the fabric. " +
			"The state file remembers the last run over restarts. Absent until there is one.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFailing = &Family{
		Name: "probe_failing", Type: Gauge, Labels: []string{"kind", "device", "port", "reason"},
		Help:   "1 for the reason why the last run failed, as in probe_failures_total. Absent when it ended well.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeUnknown = &Family{
		Name: "probe_result_unknown", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 while no result is known that says something about the fabric: none yet, or none since the exporter started and the state file remembers none. Absent otherwise.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFault = &Family{
		Name: "probe_fault_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port", "fault"},
		Help: "What is wrong, and since when: the begin of the run that said so. It is what alerts read; absent while it is not so. fault: socket (NCCL chose TCP, in a probe that does not measure TCP), " +
			"gpudirect (not used, on a network that can), wrong (wrong result), failing (see probe_failing), " +
			"stale (no success in three intervals though nobody uses the GPUs and it does not fail; since the last one), never_run (though nobody uses the GPUs; since the exporter started). " +
			"Of bandwidth, see probe_fault_ratio.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Stable,
	}
	probeFaultRatio = &Family{
		Name: "probe_fault_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port", "fault"},
		Help: "probe_baseline_ratio while bandwidth is a fault, for alerts. fault: slow (three results in a row or more below 80 % of the baseline), regressed, drifted (see probe_regressed, probe_baseline_drifted). " +
			"Absent while it is not so.",
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeRelease = &Family{
		Name: "probe_release_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "Time from when the ranks of the last run were killed or asked to close, until the driver showed none of them on the GPUs any more, and no memory in use on GPUs without other processes. " +
			"Runs that were aborted count too: after an intrusion it is how long that process had to wait. Absent when that was not so within 10 s, and when nobody looked.",
		Source: "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetMemoryInfo", Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeInfo = &Family{
		Name: "probe_info", Type: Info,
		Labels: []string{"kind", "device", "port", "nccl_version", "driver_version", "cuda_version", "network", "op", "type", "bytes", "ranks"},
		Help: "What the last run that was not aborted was made with, and what of: network in NCCL's words; operation, type of elements, size of the message and ranks " +
			"of the last measurement, which the figures are of. Constant 1; what is not known is empty.",
		Source: "ncclGetVersion, cuDriverGetVersion, nvmlSystemGetDriverVersion, " + probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeTransport = &Family{
		Name: "probe_transport", Type: StateSet, Labels: []string{"kind", "device", "port", "transport"},
		Help: "The slowest way that ranks talked over, for kind transport the one that NCCL would take to other nodes: none, nvls (NVLink with sums in the switch), p2p (NVLink or PCIe), " +
			"shm (memory of the host), ib (InfiniBand and RoCE), plugin (EFA and the like), socket (TCP); 1 for that, 0 for all others. Of the last run that was not aborted; absent if NCCL did not say.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeGPUDirect = &Family{
		Name: "probe_gpudirect", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 when NCCL used GPUDirect RDMA on its network, or would if it had needed the network; 0 when not. " +
			"Of the last run that was not aborted; absent without a network that can, and if NCCL did not say.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeNVLS = &Family{
		Name: "probe_nvls", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 when NCCL had NVLS (sums in the NVLink switch), 0 when not; for node and calibrate. Of the last run that was not aborted; absent if NCCL did not say.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSHARP = &Family{
		Name: "probe_sharp", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "1 when NCCL had SHARP (sums in InfiniBand switches), 0 when not; for node and calibrate. Of the last run that was not aborted; absent if NCCL did not say.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeChannels = &Family{
		Name: "probe_channels", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Channels that NCCL made for collectives. Of the last run that was not aborted; absent if NCCL did not say.",
		Source: probeLog, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBusBW = &Family{
		Name: "probe_bus_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"kind", "device", "port"},
		Help:   "Bus bandwidth as nccl-tests defines it: bytes over each link, whatever the operation and the number of ranks. Light probes use few channels; compare with their own baseline only." + probeNewest + probeLabels,
		Source: "ncclAllReduce and the like, clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeAlgBW = &Family{
		Name: "probe_algorithm_bandwidth_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"kind", "device", "port"},
		Help:   "Algorithm bandwidth as nccl-tests defines it: size of the message over the time of one iteration." + probeNewest,
		Source: "ncclAllReduce and the like, clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeLatency = &Family{
		Name: "probe_latency_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Time of one iteration on the slowest rank, the mean over iterations. The size of the message is in probe_info." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeSmallLatency = &Family{
		Name: "probe_small_message_latency_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help: "Time of one iteration of the smallest message (1 KiB by default) on the slowest rank, the mean over iterations: what NCCL and the way cost before there is bandwidth. " +
			"Absent for transport and calibrate, which measure none." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Stable,
	}
	probeInit = &Family{
		Name: "probe_init_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Time that creating the communicator took." + probeNewest,
		Source: "ncclCommInitRankConfig", Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeConnect = &Family{
		Name: "probe_connect_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"kind", "device", "port"},
		Help:   "Time of the first collective, in which NCCL makes its connections." + probeNewest,
		Source: "clock of the host", Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBaselineRatio = &Family{
		Name: "probe_baseline_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help: "Bus bandwidth over the median of earlier results under the same conditions (operation, size, ranks, GPUs, NCCL, driver, firmware). " +
			"Absent while there are fewer than five." + probeNewest + probeLabels,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBaselineSamples = &Family{
		Name: "probe_baseline_samples", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Earlier results under the same conditions that the last one is compared with." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSmallLatencyRatio = &Family{
		Name: "probe_small_message_latency_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help:   "probe_small_message_latency_seconds over the median of earlier results under the same conditions that were not late; above 2 it is late. Absent while there are fewer than five." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeJudged = &Family{
		Name: "probe_judged_results_total", Type: Counter, Labels: []string{"kind"},
		Help: "Results that were compared with a baseline, since the exporter started, by kind: of rails, all together. They are those of runs that ended well, with five earlier results at least. " +
			"The run that is to confirm a slow one counts too. Absent for transport, which has no bandwidth.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeSlow = &Family{
		Name: "probe_slow_results_total", Type: Counter, Labels: []string{"kind"},
		Help: "Results of probe_judged_results_total whose bus bandwidth was below the share of its baseline that the site allows (0.95 by default), by more than noise explains, " +
			"since the exporter started. Confirmed or not: see probe_regressed for alerts.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeLate = &Family{
		Name: "probe_late_results_total", Type: Counter, Labels: []string{"kind"},
		Help:   "Results of probe_judged_results_total whose smallest message took more than twice the median of its baseline, since the exporter started.",
		Source: probeSource, Cadence: Self, Privilege: probePrivilege, Stability: Experimental,
	}
	probeExpectedRatio = &Family{
		Name: "probe_expected_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"kind", "device", "port"},
		Help:   "Bus bandwidth over what the line rate lets expect, for rail and calibrate only." + probeNewest + probeLabels,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeRegressed = &Family{
		Name: "probe_regressed", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 when the bus bandwidth is below the share of its baseline that the site allows (0.95 by default), by more than noise explains, " +
			"and the result before it was too. Absent without a baseline." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeBelow = &Family{
		Name: "probe_below_baseline_results", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help:   "Results in a row that were so far below their baseline, up to the last one; absent when that is not. The state file remembers it over restarts." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeCollapsed = &Family{
		Name: "probe_collapsed_results", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "Results in a row that were below 80 % of their baseline, and so far below it as probe_below_baseline_results tells, up to the last one; absent when that is not. " +
			"The state file remembers it over restarts." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
	probeDrifted = &Family{
		Name: "probe_baseline_drifted", Type: Gauge, Labels: []string{"kind", "device", "port"},
		Help: "1 when the baseline itself is that far below the best that it ever was: bandwidth wore away too slowly for any result to be regressed. " +
			"Absent until 16 results made a best one." + probeNewest,
		Source: probeSource, Cadence: Probed, Privilege: probePrivilege, Stability: Experimental,
	}
)

// probeFamilies are the rows of the collector probe, in the order of documentation.
func probeFamilies() []*Family {
	return []*Family{
		probeStateFile, probeGPUSeconds, probeInterval, probeSkips, probeSkipped, probeRuns, probeFailures, probeWrong, probeLastRun, probeLastSuccess,
		probeSuccess, probeFailing, probeUnknown, probeFault, probeFaultRatio, probeRelease, probeInfo, probeTransport, probeGPUDirect, probeNVLS,
		probeSHARP, probeChannels, probeBusBW, probeAlgBW, probeLatency, probeSmallLatency, probeInit, probeConnect, probeBaselineRatio,
		probeBaselineSamples, probeSmallLatencyRatio, probeJudged, probeSlow, probeLate, probeExpectedRatio, probeRegressed, probeBelow,
		probeCollapsed, probeDrifted,
	}
}
