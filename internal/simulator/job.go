// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Job is a job that runs on the node.
type Job struct {
	fabric.Workload
	Ranks []JobRank
	Until int // step from which it is gone; 0: it stays
	// Trouble is what NCCL RAS reports about its ranks, and the node shows of it.
	Trouble Trouble
}

// JobRank is a process of a job, as the readers of the host would show it. What follows from the rest of the
// node is not in it: the GPUs are those whose process it is.
type JobRank struct {
	Is      fabric.RankCandidate // at step 0
	Sockets []Rate               // of Is.Sockets, in their order; those that it does not reach carry nothing
	NetDevs []Rate               // of Is.NetDevs, likewise
	NoGPU   bool                 // the driver lists it for no GPU, as a forked child
}

// Rate is bytes per step.
type Rate struct{ Sent, Received uint64 }

// JobLabel is what is true of a job.
type JobLabel struct {
	Name      string // scheduler/id
	Transport string
	Way       string // that moves the data; empty: none, or nothing on the node shows it
	Confirmed bool   // the evidence is enough for certainty
	Reason    string // why it is unknown
	Cause     string // why NCCL uses TCP
	Findings  []string
}

// Ranks shows the processes of a tree that hold GPUs as the node is at that moment. It may be used by any
// number of goroutines, and has no errors.
type Ranks struct{ tree *Tree }

// Ranks returns a source for the processes of the tree that hold GPUs.
func (t *Tree) Ranks() *Ranks { return &Ranks{t} }

// Close does nothing.
func (*Ranks) Close() error { return nil }

// Read reads the processes. The GPUs are those that the tree has, whatever the driver was seen to have.
func (s *Ranks) Read(_ *fabric.GPUDriver, now time.Time) (list []fabric.RankCandidate, netns fabric.Fact[uint64],
	err error,
) {
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.now.Jobs {
		if j.Until > 0 && t.step >= j.Until {
			continue
		}
		for _, r := range j.Ranks {
			list = append(list, r.at(t.now, j.Workload, t.step, now))
		}
	}
	return list, fabric.Known[uint64](HostNetNS, "1/ns/net", now), nil
}

// at is the process at a step.
func (r JobRank) at(n *Node, w fabric.Workload, step int, now time.Time) fabric.RankCandidate {
	c := r.Is
	c.At = now
	if c.Workload.State == fabric.OK {
		w.Rank, w.Container = c.Workload.Value.Rank, c.Workload.Value.Container
		c.Workload.Value = w
	}
	const running = "nvmlDeviceGetComputeRunningProcesses_v3"
	c.GPUs = fabric.AbsentFact[[]string](running, now)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if !r.NoGPU && slices.ContainsFunc(g.Processes, func(p Process) bool { return p.PID == c.PID }) {
			c.GPUs = fabric.Known(append(slices.Clone(c.GPUs.Value), g.UUID), running, now)
		}
	}
	c.Sockets.Value = slices.Clone(c.Sockets.Value)
	for i := range c.Sockets.Value {
		if i < len(r.Sockets) {
			s := &c.Sockets.Value[i]
			s.Sent, s.Received = s.Sent+r.Sockets[i].Sent*uint64(step), s.Received+r.Sockets[i].Received*uint64(step)
		}
	}
	c.NetDevs.Value = slices.Clone(c.NetDevs.Value)
	for i := range c.NetDevs.Value {
		if i < len(r.NetDevs) {
			d := &c.NetDevs.Value[i]
			d.Sent, d.Received = d.Sent+r.NetDevs[i].Sent*uint64(step), d.Received+r.NetDevs[i].Received*uint64(step)
		}
	}
	return c
}

// quietRDMA stops the RDMA traffic of the node, and what the statistics of its interfaces count of it.
func (n *Node) quietRDMA() {
	for i := range n.HCAs {
		stop(n.HCAs[i].HW)
		for k := range n.HCAs[i].Ports {
			stop(n.HCAs[i].Ports[k].PMA)
			stop(n.HCAs[i].Ports[k].HW)
		}
		for k := range n.NetDevs {
			if d := &n.NetDevs[k]; d.PCI == n.HCAs[i].PCI {
				stop(d.Stats)
			}
		}
	}
}

func stop(list []Statistic) {
	for i := range list {
		list[i].PerStep = 0
	}
}

// NCCL is what probes of a node would find of it, beside what follows from its hardware. The zero value is a
// library that works and uses what there is.
type NCCL struct {
	TCP         bool      // it cannot open RDMA devices, and takes sockets
	NoGPUDirect bool      // it copies through the memory of the processors
	Detour      bool      // GPUDirect RDMA is used, and its data goes through the root complex
	Slow        []SlowHCA // HCAs that carry less than they should
	WrongGPU    int       // number of a GPU whose sums are wrong, from 1; 0: none is
	HangingGPU  int       // number of a GPU that never ends a collective, from 1; 0: none does
}

// SlowHCA is an HCA that carries a share of what it should.
type SlowHCA struct {
	Device string
	Share  float64 // 0 to 1
}

// ProbeFinding is what probes of a node complain of.
type ProbeFinding struct {
	Kind   string // of the probe
	Device string // RDMA device that it went through; empty: none, or it is the same with all
	What   string // stable identifier
}

// NCCL returns what probes find of the node as it is now.
func (t *Tree) NCCL() NCCL {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.node.NCCL
	n.Slow = slices.Clone(n.Slow)
	return n
}

// gpuDirectFrom has probes find what is true of GPUDirect RDMA on all GPUs.
func (n *Node) gpuDirectFrom(labels []GDRLabel) *Node {
	for _, l := range labels {
		switch {
		case l.GPU != "" || l.Block == "":
		case l.Block.Slow():
			n.NCCL.Detour = true
		default:
			n.NCCL.NoGPUDirect = true
		}
	}
	return n
}
