// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
)

// Event is what can be wrong with a job: the alert whose runbook is about it, and the summary of that alert without
// its full stop, which page and report show, too.
type Event struct{ Alert, Title string }

var (
	onTCP          = Event{"GpuFabricJobOnTcp", "A job uses TCP instead of RDMA"}
	onTCPSuspected = Event{"GpuFabricJobOnTcpSuspected", "A job seems to use TCP instead of RDMA"}
	rankLost       = Event{"GpuFabricJobRankLost", "A job lost a rank"}
	hang           = Event{"GpuFabricJobHang", "A job hangs"}
	hangSuspected  = Event{"GpuFabricJobHangSuspected", "A job seems to hang"}
	straggler      = Event{"GpuFabricJobStraggler", "A rank holds up its job"}
	misconfigured  = Event{"GpuFabricJobMisconfigured", "A job is misconfigured"}
	nicsFar        = Event{"GpuFabricJobNicsFar", "A job has GPUs without their nearest NICs"}
	fewerNICs      = Event{"GpuFabricJobFewerNics", "A job runs on fewer NICs than before"}
)

// FallbackEvent is that of a verdict that is a fallback.
func FallbackEvent(v *job.Verdict) Event {
	if v.Confirmed {
		return onTCP
	}
	return onTCPSuspected
}

// FindingEvent is that of a finding about a job.
func FindingEvent(f job.Finding) Event {
	switch f.Rule {
	case job.RuleAlignment:
		return nicsFar
	case job.RuleFewerNICs:
		return fewerNICs
	}
	return misconfigured
}

// JobEvent is the worst that is wrong with a job of which JobSeverity is not empty. What RAS reports of it may be nil.
func JobEvent(j *job.Job, said *progress.Account) Event {
	if j.Verdict.Fallback() && j.Verdict.Confirmed {
		return onTCP
	}
	if said != nil && said.Known() && said.Report.State.Bad() {
		switch said.Report.State {
		case progress.Hang:
			if said.Report.Confirmed {
				return hang
			}
			return hangSuspected
		case progress.Stalled, progress.Straggler:
			return straggler
		}
		return rankLost
	}
	if j.Verdict.Fallback() {
		return onTCPSuspected
	}
	worst := func(a, b job.Finding) int { return a.Severity.Rank() - b.Severity.Rank() }
	if problems := j.Problems(); len(problems) > 0 {
		return FindingEvent(slices.MinFunc(problems, worst))
	}
	return hangSuspected
}
