// SPDX-License-Identifier: Apache-2.0

package collector

// Families of the collector check. training_job is for checks of jobs, and left out in all others.
var (
	checkFailed = &Family{
		Name: "check_failed", Type: Gauge, Labels: []string{"check", "severity", "device", "port", "uuid", "pci_address", trainingJob},
		Help: "What a check (docs/CHECKS.md) found: 1 for each subject that it fails for; one 0, without a subject, while it passes for all it could judge. " +
			"What it could not judge is in check_unknown; there is no 0 while that is everything, or where the check does not apply. severity: critical, warning, info. " +
			"Labels that do not apply are empty: port where the whole device is meant, device and uuid where the node is. A GPU has a uuid or, where " +
			"its driver does not tell it, a pci_address. training_job is left out where no job is known. Checks that compare readings have no series: alert rules see more of the past.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Stable, Collector: "check",
	}
	checkUnknown = &Family{
		Name: "check_unknown", Type: Gauge, Labels: []string{"check", "severity", "device", "port", "uuid", "pci_address", trainingJob, "reason"},
		Help:   "1 while a check cannot tell about its subject, and reason why not, as in exporter_facts_unknown. Absent otherwise. The other labels are those of check_failed, of which there may be a 0 for what else it passes for.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Stable, Collector: "check",
	}
	checkTimestamp = &Family{
		Name: "check_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "When the checks were made, in seconds since the epoch. Only in the file that check --textfile writes: a file may be old, a scrape is not.",
		Source: "exporter", Cadence: Self, Stability: Stable, Collector: "check",
	}
	checkError = &Family{
		Name: "check_error", Type: Gauge,
		Help: "1 if the last run of check --textfile could not make its checks, because its command line or the configuration is wrong, the node could not be looked at, or no check applies to it; " +
			"else 0. The verdicts in the file are then those of check_timestamp_seconds, if there are any. Only in that file.",
		Source: "exporter", Cadence: Self, Stability: Stable, Collector: "check",
	}
	checkRunTimestamp = &Family{
		Name: "check_run_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "When check --textfile last ran, in seconds since the epoch, whether it could make its checks (check_error 0) or not. Only in the file that it writes.",
		Source: "exporter", Cadence: Self, Stability: Stable, Collector: "check",
	}
)

func checkFamilies() []*Family {
	return []*Family{checkFailed, checkUnknown, checkTimestamp, checkError, checkRunTimestamp}
}
