// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
)

// NCCL is what probes of a node would find of it, beside what follows from its hardware. The zero value is a library that
// works and uses what there is.
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
