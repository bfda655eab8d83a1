// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"time"

	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

// probesInBrief are the probes of a node as the status document has them, with the causes of their results.
func probesInBrief(v *probesView) (list []status.Probe, causes []*verdict.Verdict) {
	for i := range v.Probes {
		list, causes = append(list, probeInBrief(&v.Probes[i])), append(causes, v.Probes[i].cause)
	}
	return list, causes
}

func probeInBrief(v *probeView) status.Probe {
	p := v.status
	to := status.Probe{
		Name: v.Name, Kind: string(p.Key.Kind), Device: p.Key.Device, Port: p.Key.Port, Status: status.StatusNone, Result: v.Result.Text, LastRun: moment(p.LastRun),
	}
	if p.Last == nil && p.LastSkip != nil {
		to.Skipped = cmp.Or(p.LastSkip.Detail, verdict.Spaced(string(p.LastSkip.Why)))
	}
	if p.Last != nil {
		to.Transport = v.Path.Text
		if v.far {
			to.Transport += ", " + withoutGPUDirect
		}
		switch complaint := v.complaint(); {
		case complaint != "":
			to.Status, to.Severity, to.Result = status.StatusFailed, string(v.severity), complaint
		case p.Last.Outcome == probes.OK:
			to.Status = status.StatusOK
		default:
			to.Status = status.StatusUnknown
		}
	}
	for _, h := range p.History {
		to.History = append(to.History, status.Sample{Time: h.At.UTC().Truncate(time.Millisecond), Value: h.BusBW})
	}
	r := p.LastGood
	if r == nil || len(r.Measurements) == 0 {
		return to
	}
	value := r.Measurements[len(r.Measurements)-1].BusBW
	to.BusBandwidth = &value
	if ratio, known := r.Comparison.Ratio.Get(); known {
		to.Ratio = &ratio
	}
	if n := len(to.History); r.Comparison.Regressed || n > 0 && to.History[n-1].Value != value { // what has regressed is no part of the baseline
		to.History = append(to.History, status.Sample{Time: r.At.UTC().Truncate(time.Millisecond), Value: value})
	}
	return to
}
