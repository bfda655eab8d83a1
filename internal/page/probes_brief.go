// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/probes"
)

// probesInBrief are the probes of a node as the status document has them.
func probesInBrief(s *probes.Status, n *fabric.Node) []status.Probe {
	far := farByDesign(n)
	rails := slices.ContainsFunc(s.Probes, func(p probes.ProbeStatus) bool { return p.Key.Device != "" })
	var list []status.Probe
	for i := range s.Probes {
		list = append(list, probeInBrief(&s.Probes[i], rails, far, n.At))
	}
	return list
}

// farByDesign reports whether the GPUs of the node are known to be too far from their NICs for GPUDirect RDMA, as the machine is made.
func farByDesign(n *fabric.Node) bool {
	all := diagnose.GPUs(n)
	far := func(g diagnose.GPU) bool {
		block, blocked := g.Blocked()
		return blocked && block == fabric.GDRDistance
	}
	return slices.ContainsFunc(all, far) && diagnose.FarByDesign(all).Or(false)
}

// withoutGPUDirect is the result of a run that ended well, but without GPUDirect RDMA.
const withoutGPUDirect = "without GPUDirect RDMA"

func probeInBrief(p *probes.ProbeStatus, rails, far bool, now time.Time) status.Probe {
	v := probeViewOf(p, rails, now)
	to := status.Probe{
		Name: v.Name, Kind: string(p.Key.Kind), Device: p.Key.Device, Port: p.Key.Port, Status: status.StatusNone, Result: v.Result.Text, LastRun: moment(p.LastRun),
	}
	if p.Last != nil {
		to.Transport = v.Path.Text
		lost := slices.Contains(p.Last.Faults(), probes.FaultGPUDirect)
		if lost && far {
			to.Transport += ", " + withoutGPUDirect
		}
		switch {
		case p.Last.Outcome == probes.OK && lost && !far:
			to.Status, to.Result = status.StatusFailed, withoutGPUDirect
		case v.complaint() != "":
			to.Status = status.StatusFailed
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
