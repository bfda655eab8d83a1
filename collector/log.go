// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/signature"
)

// The rows of the collector log. Nothing of the text of a line is in them.
var (
	signatureLabels = []string{"source", "signature", "kind"}

	logFailures = &Family{
		Name: "log_failures_total", Type: Counter, Labels: signatureLabels,
		Help: "Number of log lines that match the signature of a failure (docs/SIGNATURES.md), counted since the exporter started to read the log. source: job (logs of jobs, which users can forge), kernel (kernel messages). " +
			"kind: cause, consequence, note. Absent unless the site sets nccl.log_files or kernel.messages (docs/JOBS.md).",
		Source: "nccl.log_files, /dev/kmsg", Cadence: Fast, Privilege: "read access to the files; CAP_SYSLOG for /dev/kmsg",
		Stability: Experimental,
	}
	logFailureSeen = &Family{
		Name: "log_failure_last_seen_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: signatureLabels,
		Help:   "When the last such line was read, of the kernel when it was written, before the exporter started too. Absent if there was none.",
		Source: "nccl.log_files, /dev/kmsg", Cadence: Fast, Privilege: "read access to the files; CAP_SYSLOG for /dev/kmsg",
		Stability: Stable,
	}
	logFiles = &Family{
		Name: "log_files", Type: Gauge, Labels: []string{"transport"},
		Help:   "Number of job logs that the exporter follows, by the transport between nodes that NCCL logged: gdr (verbs with GPUDirect RDMA), rdma (verbs), tcp, other (plugins), unknown (not logged, or the job is on one host). Absent unless the site sets nccl.log_files.",
		Source: "nccl.log_files", Cadence: Fast, Privilege: "read access to the files", Stability: Experimental,
	}
	logCommunicatorSetup = &Family{
		Name: "log_communicator_setup_seconds", Type: Gauge, Unit: "seconds",
		Help: "Longest time that a rank needed to set up a communicator, from the job logs that the exporter follows (NCCL 2.22 and later, NCCL_DEBUG=INFO). " +
			"Absent if no log has it, or the site does not set nccl.log_files.",
		Source: "nccl.log_files", Cadence: Fast, Privilege: "read access to the files", Stability: Experimental,
	}
	logFilesRefused = &Family{
		Name: "log_files_refused", Type: Gauge, Labels: []string{"reason"},
		Help:   "Number of files that match nccl.log_files but are not followed, by reason: not_regular (symbolic link, FIFO, more than one hard link), too_many, unreadable. Absent unless the site sets nccl.log_files.",
		Source: "nccl.log_files", Cadence: Fast, Privilege: "read access to the files", Stability: Experimental,
	}
	logSkipped = &Family{
		Name: "log_skipped_bytes_total", Type: Counter, Unit: "bytes",
		Help:   "Number of bytes in logs that the exporter skipped, because a file grew faster than it reads. Absent unless the site sets nccl.log_files.",
		Source: "nccl.log_files", Cadence: Fast, Privilege: "read access to the files", Stability: Experimental,
	}
	logKernelLost = &Family{
		Name: "log_kernel_messages_lost_total", Type: Counter,
		Help:   "Number of times that the kernel overwrote messages before the exporter read them. Absent unless the site sets kernel.messages.",
		Source: "/dev/kmsg (EPIPE)", Cadence: Fast, Privilege: "CAP_SYSLOG", Stability: Experimental,
	}
)

// logFamilies are the rows of the collector log, in the order of documentation.
func logFamilies() []*Family {
	return []*Family{
		logFailures, logFailureSeen, logFiles, logCommunicatorSetup, logFilesRefused, logSkipped,
		logKernelLost,
	}
}

func collectLog(n *fabric.Node, emit emit) {
	if logs, known := n.Logs.Get(); known {
		collectFailures(logs.Failures, "job", emit)
		files, longest := map[fabric.LogTransport]int{}, time.Duration(0)
		for i := range logs.Files {
			files[logs.Files[i].Transport]++
			longest = max(longest, logs.Files[i].Setup)
		}
		if longest > 0 {
			emit(logCommunicatorSetup, longest.Seconds())
		}
		for _, t := range fabric.LogTransports() {
			emit(logFiles, float64(files[t]), string(t))
		}
		for _, why := range []fabric.Refusal{fabric.RefusedNotRegular, fabric.RefusedTooMany, fabric.RefusedUnreadable} {
			emit(logFilesRefused, float64(logs.Refused[why]), string(why))
		}
		emit(logSkipped, float64(logs.Skipped))
	}
	if kernel, known := n.Kernel.Get(); known {
		collectFailures(kernel.Failures, "kernel", emit)
		emit(logKernelLost, float64(kernel.Lost))
	}
}

// collectFailures emits all signatures of a source, 0 at first, so that rates see the beginning.
func collectFailures(seen fabric.Failures, source string, emit emit) {
	all := signature.All()
	for i := range all {
		s := &all[i]
		if (s.Source == signature.Kernel) != (source == "kernel") {
			continue
		}
		lines := seen.Of(s.ID)
		emit(logFailures, float64(lines.Count), source, s.ID, string(s.Kind))
		if !lines.Last.IsZero() {
			emit(logFailureSeen, float64(lines.Last.UnixMilli())/1e3, source, s.ID, string(s.Kind))
		}
	}
}

func hasLog(n *fabric.Node) (bool, string) {
	if n.Logs.Meta().Reason == fabric.ReasonNotRead && n.Kernel.Meta().Reason == fabric.ReasonNotRead {
		return false,
			"the configuration names no logs of jobs (nccl.log_files) and no messages of the kernel (kernel.messages)"
	}
	return true, ""
}
