// SPDX-License-Identifier: Apache-2.0

package job

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// account adds the time since the last reading to the GPUs of jobs that are impaired now, for each reason.
// Only GPUs that were busy at both readings, with a rank that was there at both, are counted: idle time is no
// loss.
func (t *Tracker) account(n *fabric.Node, jobs []Job, elapsed time.Duration) {
	if elapsed <= 0 {
		return
	}
	n = n.Binding()
	for i := range jobs {
		j := &jobs[i]
		if !j.hasCommunicator() {
			continue
		}
		for _, uuid := range j.GPUs {
			if !t.worked(n, uuid) {
				continue
			}
			for _, why := range impairments(n, j, uuid) {
				t.add(uuid, why, elapsed)
			}
		}
	}
}

// worked reports whether a GPU was busy at this reading and at the last one.
func (t *Tracker) worked(n *fabric.Node, uuid string) bool {
	if busyOf(n, []string{uuid}) != yes {
		return false
	}
	for _, was := range t.before {
		if was.busy == yes && slices.Contains(was.candidate.GPUs.Or(nil), uuid) {
			return true
		}
	}
	return false
}

func (t *Tracker) add(uuid string, why Impairment, elapsed time.Duration) {
	of := t.impaired[uuid]
	if of == nil {
		if len(t.impaired) >= maxGPUs {
			return
		}
		if t.impaired == nil {
			t.impaired = map[string]map[Impairment]float64{}
		}
		of = map[Impairment]float64{}
		t.impaired[uuid] = of
	}
	of[why] += elapsed.Seconds()
}

// totals is a copy of what was counted.
func (t *Tracker) totals() map[string]map[Impairment]float64 {
	c := make(map[string]map[Impairment]float64, len(t.impaired))
	for uuid, of := range t.impaired {
		c[uuid] = maps.Clone(of)
	}
	return c
}

// hasCommunicator reports whether a rank of the job shows one.
func (j *Job) hasCommunicator() bool {
	return slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Verdict.Reason != NoCommunicator })
}

// impairments are why the time of a GPU of a job is impaired.
func impairments(n *fabric.Node, j *Job, uuid string) []Impairment {
	var list []Impairment
	if j.Verdict.fellBack() && j.Verdict.Confirmed {
		list = append(list, ImpairedTCP)
	}
	if slices.ContainsFunc(j.Findings, func(f Finding) bool { return f.Severity.AtLeast(verdict.Warning) }) {
		list = append(list, ImpairedMisconfig)
	}
	g := gpuOf(n, uuid)
	if g == nil || j.Verdict.Transport != RDMA && j.Verdict.Transport != Mixed {
		return list
	}
	if nearestDegraded(n, g) {
		list = append(list, ImpairedLink)
	}
	for i := range n.GDR {
		if usable, known := n.GDR[i].Usable.Get(); known && !usable && strings.EqualFold(n.GDR[i].GPU, g.Address) {
			list = append(list, ImpairedNoGPUDirect)
		}
	}
	return list
}

// nearestDegraded reports whether the NIC that is assigned to a GPU has a port that is down, or slower than a
// source states.
func nearestDegraded(n *fabric.Node, g *fabric.GPU) bool {
	i := slices.IndexFunc(n.PCI.Rails, func(r fabric.Rail) bool { return strings.EqualFold(r.GPU, g.Address) })
	if i < 0 {
		return false
	}
	h := n.HCA(n.PCI.Rails[i].NIC)
	return h != nil && slices.ContainsFunc(h.Ports, func(p fabric.Port) bool {
		rate, measured := n.LineRate(&p).Get()
		return p.Serves(fabric.RoleCompute) && (p.Down() || measured && p.RateStated() && rate < 0.99*p.ExpectedRate.Value)
	})
}
