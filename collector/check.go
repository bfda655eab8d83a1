// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// The rows of the collector check. training_job is for checks of jobs, and left out in all others.
var (
	checkFailed = &Family{
		Name: "check_failed", Type: Gauge, Labels: []string{
			"check", "severity", "device", "port", "uuid", "pci_address",
			trainingJob,
		},
		Help: "Result of a check (docs/CHECKS.md): 1 for each subject for which it fails; one 0, without a subject, if it passes for all subjects that it could judge. " +
			"Subjects that it could not judge are in check_unknown; there is no 0 if it could judge none, or does not apply. severity: critical, warning, info. " +
			"Labels that do not apply are empty: port for a whole device, device and uuid for the node. A GPU has a uuid or, if its driver does not report it, " +
			"a pci_address. training_job is omitted if no job is known. Checks that compare two readings have no series, because alert rules see more of the past.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Stable,
	}
	checkUnknown = &Family{
		Name: "check_unknown", Type: Gauge, Labels: []string{
			"check", "severity", "device", "port", "uuid", "pci_address",
			trainingJob, "reason",
		},
		Help:   "1 while a check cannot judge its subject, with the reason as in exporter_facts_unknown. Absent otherwise. The other labels are those of check_failed, which may be 0 at the same time if the check passes for all other subjects.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Stable,
	}
	checkFollows = &Family{
		Name: "check_follows", Type: Gauge, Labels: []string{
			"check", "severity", "device", "port", "uuid", "pci_address",
			trainingJob, "cause",
		},
		Help:   "1 while a failed check follows from another one that fails on the node, whose name is in cause. Absent otherwise. The other labels are those of check_failed.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Stable,
	}
	checkInfo = &Family{
		Name: "check_info", Type: Info, Labels: []string{"check", "topic", "device", "port", "uuid", "pci_address", "title"},
		Help: "A subject for which a check fails; constant 1. title says what is wrong, with what was measured, and topic is the family of checks with one runbook. " +
			"Absent for all others.",
		Source: "internal/diagnose", Cadence: Fast, Stability: Experimental,
	}
	nodeJudgedBy = &Family{
		Name: "node_judged_by", Type: Gauge, Labels: []string{"source"},
		Help: "Number of ports for training (role compute) of which the source states what they should be: that they are for training, whether they should have a link, " +
			"at which rate, or how many there should be. A port counts for each source that states any of these. If all sources are 0, nothing states what the node should have: checks then go by guesses, " +
			"which are never critical. source: configuration, manifest (check --write-manifest), nccl_ib_hca (NCCL_IB_HCA of the host), profile (of the platform), " +
			"record (what the exporter saw of the port before). All sources are absent if no port for training is known, or the ports or the NCCL configuration could not be read.",
		Source: "see docs/ROLES.md", Cadence: Slow, Stability: Stable,
	}
	nodeTrainingStated = &Family{
		Name: "node_training_stated", Type: Gauge,
		Help: "1 if a source states that the node has ports for training, or should have: the role of a port, or the number of compute ports in the configuration. " +
			"0 if that is a guess, or nothing says so. Absent if the ports or the NCCL configuration could not be read.",
		Source: "see docs/ROLES.md", Cadence: Slow, Stability: Stable,
	}
	nodeProfileInfo = &Family{
		Name: "node_profile_info", Type: Info, Labels: []string{"profile"},
		Help: "The profile of the platform that the node was recognized as (docs/PROFILES.md); constant 1. Nodes with the same profile should be alike. " +
			"Absent if no profile fits, or it is not known which.",
		Source: "/sys/class/dmi/id, /sys/bus/pci/devices", Cadence: Slow, Stability: Stable,
	}
	checkTimestamp = &Family{
		Name: "check_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Time at which the checks were run, in seconds since the epoch. Only in the file of check --textfile, which may be outdated.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	checkError = &Family{
		Name: "check_error", Type: Gauge,
		Help: "1 if the last run of check --textfile could not run the checks, because its command line or the configuration is wrong, the node could not be read, or no check applies to it; " +
			"0 otherwise. If it is 1, the verdicts in the file, if any, are those of check_timestamp_seconds. Only in that file.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	checkRunTimestamp = &Family{
		Name: "check_run_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Time of the last run of check --textfile, in seconds since the epoch, even if it could not run the checks (check_error 1). Only in the file that it writes.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
)

// checkFamilies are the rows of the collector check, in the order of documentation.
func checkFamilies() []*Family {
	return []*Family{
		checkFailed, checkUnknown, checkFollows, checkInfo, nodeJudgedBy, nodeTrainingStated, nodeProfileInfo, checkTimestamp,
		checkError, checkRunTimestamp,
	}
}

// checkWants is what checks read. They read it also where the collector that shows it is switched off: a
// check that does not know its facts could only report that everything is unknown.
const checkWants = fabric.WantHCA | fabric.WantGID | fabric.WantNCCL | fabric.WantCounters | fabric.WantQoS |
	fabric.WantNetStats | fabric.WantPCI | fabric.WantGPU | fabric.WantDaemons | fabric.WantLogs

// CheckWants returns what needs to be observed for checks.
func CheckWants() fabric.Want { return checkWants }

func checkSources() []string {
	return []string{
		fabric.SourceClass, fabric.SourceHCA, fabric.SourceGID, fabric.SourceCounters, fabric.SourceNetDev,
		fabric.SourceHost, fabric.SourceNCCL,
		fabric.SourceQoS, fabric.SourceNetStats, fabric.SourcePCI, fabric.SourceGPU,
	}
}

const checkName = "check"

// WithVerdicts returns the set with a collector check, if it has one, that gives saw the verdicts of each
// Gather, all but those of checks that compare readings. saw is called by any number of goroutines at once
// and must not wait or keep the list.
func (s *Set) WithVerdicts(saw func(*fabric.Node, []verdict.Verdict)) *Set {
	with := &Set{collectors: slices.Clone(s.collectors)}
	for i := range with.collectors {
		if c := &with.collectors[i]; c.Name == checkName {
			c.collect = collectChecks(saw)
		}
	}
	return with
}

// shownChecks are those that have series: all but those that compare readings.
func shownChecks() []*verdict.Check {
	return slices.DeleteFunc(diagnose.Catalogue(), func(c *verdict.Check) bool { return c.Rate })
}

// collectChecks returns a collector that asks the checks of the catalogue, except those that compare readings.
func collectChecks(saw func(*fabric.Node, []verdict.Verdict)) func(*fabric.Node, emit) {
	checks := shownChecks()
	return func(n *fabric.Node, emit emit) {
		list := diagnose.Run(n, checks)
		saw(n, list)
		emitChecks(list, emit)
		emitJudgedBy(n, emit)
		if n.Profile != nil {
			emit(nodeProfileInfo, 1, n.Profile.Name)
		}
	}
}

func emitJudgedBy(n *fabric.Node, emit emit) {
	j := diagnose.JudgedBy(n)
	if !j.Known() {
		return
	}
	emit(nodeTrainingStated, bit(n.Binding().TrainingStated()))
	if j.Ports == 0 {
		return
	}
	for _, a := range diagnose.Authorities() {
		emit(nodeJudgedBy, float64(j.PortsBy(a)), string(a))
	}
}

func everyNode(*fabric.Node) (bool, string) { return true, "" }

// checked is what check series are about. Files have none of their own: their names come from users.
type checked struct {
	check       *verdict.Check
	device, gpu string
	port        int
}

func checkedBy(v *verdict.Verdict) checked {
	return checked{check: v.Check, device: v.Subject.Device, gpu: label(v.Subject.GPU), port: v.Subject.Port}
}

// independent are those of which some failure follows from no other one.
func independent(list []verdict.Verdict) map[checked]bool {
	alone := make(map[checked]bool)
	for i := range list {
		if v := &list[i]; v.Status == verdict.Failed && v.Cause == nil {
			alone[checkedBy(v)] = true
		}
	}
	return alone
}

// emitChecks emits one series for each subject for which a check fails or is unknown, and one for each check
// that fails for none and passes for some: nearly everything passes, and a list of it has no use. Where
// several verdicts are about one subject the first one counts: in the order of diagnose.Run that is the
// worst.
func emitChecks(list []verdict.Verdict, emit emit) {
	emitted := make(map[checked]bool)
	alone := independent(list)
	answered := make(map[*verdict.Check]bool) // those that failed, or whose 0 is shown
	for i := range list {
		v := &list[i]
		of := checkedBy(v)
		if v.Check.Rate || emitted[of] {
			continue
		}
		if v.Status == verdict.OK {
			if answered[v.Check] {
				continue
			}
			of = checked{check: v.Check} // all that it passes for
		}
		emitted[of] = true
		port := ""
		if of.port != 0 {
			port = strconv.Itoa(of.port)
		}
		uuid, address := of.gpu, ""
		if strings.Contains(of.gpu, ":") { // no UUID has one
			uuid, address = "", of.gpu
		}
		const job = "" // no check is about one
		if v.Status == verdict.Unknown {
			emit(checkUnknown, 1, v.Check.ID, string(v.Severity()), of.device, port, uuid, address, job, string(v.Reason))
		} else {
			if v.Status == verdict.Failed {
				emit(checkInfo, 1, v.Check.ID, v.Check.Topic, of.device, port, uuid, address, label(v.What))
			}
			answered[v.Check] = true
			emit(checkFailed, bit(v.Status == verdict.Failed), v.Check.ID, string(v.Check.Severity), of.device, port, uuid,
				address, job)
			if v.Cause != nil && !alone[of] {
				emit(checkFollows, 1, v.Check.ID, string(v.Check.Severity), of.device, port, uuid, address, job, v.Cause.Check.ID)
			}
		}
	}
}

// CheckFamilies returns verdicts, in the order of diagnose.Run, as the families that a scrape has of them,
// sorted by name, when they were given, and that they could be.
func CheckFamilies(list []verdict.Verdict, at time.Time) []exposition.Family {
	return families(func(emit emit) {
		emitChecks(list, emit)
		emit(checkTimestamp, unixSeconds(at))
		emit(checkError, 0)
		emit(checkRunTimestamp, unixSeconds(at))
	})
}

// CheckErrorFamilies returns the families that say that no checks could be made.
func CheckErrorFamilies(at time.Time) []exposition.Family {
	return families(func(emit emit) {
		emit(checkError, 1)
		emit(checkRunTimestamp, unixSeconds(at))
	})
}

// CheckRunFamilies are the names of the metrics of the last run.
func CheckRunFamilies() []string {
	return []string{Prefix + checkError.Name, Prefix + checkRunTimestamp.Name}
}

func families(collect func(emit)) []exposition.Family {
	out := sink{families: make([]exposition.Family, len(catalogue))}
	collect(out.emit)
	return slices.DeleteFunc(out.families, func(f exposition.Family) bool { return len(f.Series) == 0 })
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
