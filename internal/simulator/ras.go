// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"net/netip"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Trouble is what happens to the ranks of a job at a step.
type Trouble struct {
	From   int    // step from which it is so; 0: never
	Stops  bool   // no rank moves any more, and RDMA of the node carries nothing
	Rank   int    // that is behind or dead
	Behind uint64 // collectives
	Dead   bool
	Idle   bool // the GPU of the rank is idle; it is one of this node
}

// carried is the step up to which RDMA carries data.
func (n *Node) carried(step int) int {
	for _, j := range n.Jobs {
		if t := j.Trouble; t.Stops && t.From > 0 {
			step = min(step, t.From)
		}
	}
	return step
}

// carriedBy is the step up to which the statistics of an interface grow: those of an RDMA device count little but RDMA.
func (n *Node) carriedBy(d *NetDev, step int) int {
	if slices.ContainsFunc(n.HCAs, func(h HCA) bool { return h.PCI == d.PCI }) {
		return n.carried(step)
	}
	return step
}

// idle stops the GPUs of ranks that wait for something else.
func (n *Node) idle(step int) {
	for _, j := range n.Jobs {
		if t := j.Trouble; t.Idle && t.From > 0 && step >= t.From {
			pid := j.Ranks[t.Rank].Is.PID
			for i := range n.GPUs {
				if slices.ContainsFunc(n.GPUs[i].Processes, func(p Process) bool { return p.PID == pid }) {
					n.GPUs[i].Load = 0
				}
			}
		}
	}
}

// AskRAS answers as NCCL RAS in a process of the tree would: about its job, on all nodes.
func (t *Tree) AskRAS(pid int) (fabric.RASAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.now.Jobs {
		j := &t.now.Jobs[i]
		if k := slices.IndexFunc(j.Ranks, func(r JobRank) bool { return r.Is.PID == pid }); k >= 0 {
			return j.ras(t.step), nil
		}
	}
	return fabric.RASAnswer{}, errors.New("no such process")
}

// ras is the answer at a step: one communicator of all ranks, which launches seven collectives in each step.
func (j *Job) ras(step int) fabric.RASAnswer {
	bad := j.Trouble
	if bad.From == 0 || step < bad.From {
		bad = Trouble{}
	} else if bad.Stops {
		step = bad.From
	}
	c := fabric.RASCommunicator{ID: "5eed-1-2", Size: j.Workload.Ranks, Complete: true}
	for rank := range c.Size {
		here := len(j.Ranks)
		at := fabric.RASPlace{Rank: rank, Host: jobHere, PID: 41000 + rank, GPU: rank % here}
		if rank < here {
			at.PID = j.Ranks[rank].Is.PID
		} else {
			at.Host = netip.AddrFrom4([4]byte{10, 0, 0, byte(17 + rank/here)})
		}
		launched := 10_000 + 7*uint64(step)
		if rank == bad.Rank {
			launched -= bad.Behind
		}
		if rank == bad.Rank && bad.Dead {
			c.Missing, c.MissingCount = append(c.Missing, fabric.RASMissing{RASPlace: at, Unresponsive: true, Dead: true}), 1
			continue
		}
		c.Ranks = append(c.Ranks, fabric.RASRank{RASPlace: at, Operations: launched, Counted: true})
		c.Spread.Add(launched)
	}
	return fabric.RASAnswer{Version: j.Ranks[0].Is.Maps.Value.Version, Communicators: []fabric.RASCommunicator{c}}
}
