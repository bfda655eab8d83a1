// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/progress"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// JobSeverity is how bad it is what is known of a job; empty: nothing is wrong. What RAS reports of it may be nil: no
// one suspected the job. A suspicion that RAS refutes counts for nothing.
func JobSeverity(j *job.Job, said *progress.Account) verdict.Severity {
	wrong := func(f job.Finding) bool { return f.Severity.AtLeast(verdict.Warning) }
	switch {
	case j.Verdict.Fallback() && j.Verdict.Confirmed, said != nil && said.Known() && said.Report.State.Bad():
		return verdict.Critical
	case j.Verdict.Fallback(), suspected(said), slices.ContainsFunc(j.Findings, wrong):
		return verdict.Warning
	}
	return ""
}

// suspected reports whether a job is suspected, and RAS did not say that its ranks move.
func suspected(said *progress.Account) bool {
	return said != nil && (!said.Known() || said.Report.State != progress.Moving)
}

// AccountOf is what RAS reports of a job; nil: it was not asked.
func AccountOf(s *progress.Status, job string) *progress.Account {
	i := slices.IndexFunc(s.Jobs, func(a progress.Account) bool { return a.Job == job })
	if i < 0 {
		return nil
	}
	return &s.Jobs[i]
}

// conclude gives the verdict on the node. It is as bad as the worst finding, probe and job, and counts each
// fault once, whatever follows from it.
func (b *builder) conclude() {
	found := 0
	b.Worst = verdict.Info
	worse := func(s verdict.Severity) {
		if s != "" && s.AtLeast(b.Worst) {
			b.Worst = s
		}
	}
	for _, list := range [][]Finding{b.Findings, b.Troubles} {
		for i := range list {
			worse(verdict.Severity(list[i].Severity))
			if list[i].Cause == "" {
				found++
			}
		}
	}
	var jobs job.Jobs
	if b.in.Jobs != nil {
		jobs = *b.in.Jobs
	}
	suspected, troubled, once := 0, 0, false
	for i := range jobs.List {
		j := &jobs.List[i]
		s, faults := JobSeverity(j, AccountOf(&b.in.RAS, j.Name)), len(j.Problems())
		worse(s)
		if j.Verdict.Fallback() && j.Verdict.Confirmed {
			faults++
		}
		if s == verdict.Critical {
			faults = max(faults, 1)
		}
		if j.Verdict.Fallback() && !j.Verdict.Confirmed {
			suspected++
		}
		if s != "" {
			troubled++
		}
		found, once = found+faults, once || j.Verdict.Reason == job.FirstReading
	}
	b.Verdict = b.verdict(found, suspected, troubled, once)
}

func (b *builder) verdict(found, suspected, troubled int, once bool) Verdict {
	silent := stateless(b.in.Node)
	switch {
	case found > 0 && suspected > 0:
		return Verdict{StatusFailed, probes.Counted(found, "problem") + " found, and a possible problem in " +
			probes.Counted(suspected, "job")}
	case found > 0:
		return Verdict{StatusFailed, probes.Counted(found, "problem") + " found"}
	case b.in.Probing.Status == StatusFailed:
		return Verdict{StatusFailed, b.in.Probing.Text}
	case troubled > 0:
		return Verdict{StatusUnknown, "Possible problem in " + probes.Counted(troubled, "job")}
	case b.in.NoDevice != "":
		return Verdict{StatusUnknown, verdict.Sentence(b.in.NoDevice)}
	case b.in.NoRDMA:
		return Verdict{StatusUnknown, "RDMA devices are not checked: their collectors are disabled"}
	case len(b.NotChecked) > 0:
		return Verdict{StatusPartly, "No problems found in the facts that could be read"}
	case b.RetryAfter > 0:
		return Verdict{StatusUnknown, "No problems found so far; traffic has not been checked yet"}
	case once:
		return Verdict{StatusUnknown, "No problems found so far; jobs have been read once only"}
	case silent > 0:
		return Verdict{StatusPartly, "No problems found; the state of " + probes.Counted(silent, "port") + " is unknown"}
	}
	return Verdict{StatusOK, "No problems found"}
}

// stateless counts the ports whose driver does not report a state. No check is unknown for that.
func stateless(n *fabric.Node) (ports int) {
	for _, p := range n.Ports {
		if p.State.Meta().Reason == fabric.ReasonDriverConstant {
			ports++
		}
	}
	return ports
}

// retry says after how many seconds traffic can be judged, when all that lacks is a second reading of the
// statistics: a node that is not scraped would otherwise never have one.
func (b *builder) retry() {
	n := b.in.Node
	for _, p := range n.Ports {
		if !p.Serves(fabric.RoleCompute) && !p.Serves(fabric.RoleStorage) {
			continue
		}
		for _, c := range p.RoCE.Or(nil) {
			if d := n.NetDev(c.Interface); d != nil && d.QoS.Counters.State == fabric.OK && c.Window.State != fabric.OK {
				b.RetryAfter = int(b.in.Between.Seconds()) + 1
			}
		}
	}
	for _, c := range diagnose.Catalogue() {
		if c.Rate && b.RetryAfter > 0 {
			b.NotYetJudged = append(b.NotYetJudged, c.ID)
		}
	}
}
