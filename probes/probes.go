// SPDX-License-Identifier: Apache-2.0

// Package probes has what the rooms of probes share: kinds and keys, the configuration, results with their faults,
// causes and changes, skips, the status, and the protocol between a probe and the process of a rank. It is plain data
// and pure functions, safe for concurrent use while nothing writes; what cannot be is an error in words, or a
// Skipped.
//
// Probes measure the training fabric of this node with short NCCL collectives, on a schedule and by hand, on GPUs that
// are verified idle. They are pure Go: NCCL and CUDA run in processes of their own, one for each rank (package
// ncclprobe), and are never loaded into the exporter. They are off until the configuration enables them
// (probes.enabled).
//
// Harm comes first. The gate opens only when every source could be read and reports idle; while a probe runs, any
// other process on its GPUs has the ranks killed. Between probes nothing is held: no process, no memory of a GPU, no
// lock. What ranks, logs, the state file and the node say is not trusted: sizes, counts and times are bounded.
//
// A prober decides when a probe is due. It has a plan made, the gate opened, the ranks run, and the state judge the
// result. Faults are decided here, and have a series only while they exist: alert rules over all probes would cost
// more than all others.
package probes

import (
	"slices"
)

// Kind is what a probe is for.
type Kind string

// Kinds of probes.
const (
	Transport Kind = "transport" // one rank: the network that NCCL chooses on this node, no traffic
	Node      Kind = "node"      // all GPUs of the node, through NVLink, PCIe or what else NCCL chooses
	Rail      Kind = "rail"      // two ranks that meet through one HCA port: NIC, PCIe and GPUDirect, not the cable
	Socket    Kind = "socket"    // two ranks over TCP, to compare the others with
	Calibrate Kind = "calibrate" // like Node, with all the channels that NCCL wants and for longer; by hand only
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Transport, Node, Rail, Socket, Calibrate} }

// Op is a collective operation.
type Op string

// Operations, named as nccl-tests names its programs.
const (
	AllReduce     Op = "all_reduce"
	Broadcast     Op = "broadcast"
	Reduce        Op = "reduce"
	AllGather     Op = "all_gather"
	ReduceScatter Op = "reduce_scatter"
	AllToAll      Op = "alltoall"
	SendRecv      Op = "sendrecv" // to the next rank of the ring, from the one before
)

// Ops returns all operations.
func Ops() []Op {
	return []Op{AllReduce, Broadcast, Reduce, AllGather, ReduceScatter, AllToAll, SendRecv}
}

// DType is the type of an element.
type DType string

// Types of elements.
const (
	Float32  DType = "float32"
	Float16  DType = "float16"
	BFloat16 DType = "bfloat16"
	Int32    DType = "int32"
)

// DTypes returns all types.
func DTypes() []DType { return []DType{Float32, Float16, BFloat16, Int32} }

// Size is that of an element in bytes; 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case Float32, Int32:
		return 4
	case Float16, BFloat16:
		return 2
	}
	return 0
}

// BusFactor is what the algorithm bandwidth of an operation over n ranks is multiplied with to get the bus bandwidth:
// the bytes that a ring moves over each link for one byte of the message (nccl-tests, doc/PERFORMANCE.md).
func (op Op) BusFactor(n int) float64 {
	switch {
	case n < 2:
		return 0
	case op == AllReduce:
		return 2 * float64(n-1) / float64(n)
	case op.Divided():
		return float64(n-1) / float64(n)
	case slices.Contains(Ops(), op):
		return 1
	}
	return 0
}

// Divided reports whether a message has a part for each rank.
func (op Op) Divided() bool { return op == AllGather || op == ReduceScatter || op == AllToAll }

// Count is how many elements nccl-tests counts in a message: those of a part where it is divided.
func (op Op) Count(t DType, bytes uint64, ranks int) uint64 {
	n := bytes / uint64(max(t.Size(), 1))
	if op.Divided() {
		n /= uint64(max(ranks, 1))
	}
	return n
}

// Outcome is how a probe ended.
type Outcome string

// Outcomes. A probe that was skipped has no result.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // it could not be finished, or the sums were wrong
	Aborted Outcome = "aborted" // another process came to its GPUs, or the exporter ends: no statement about the fabric
)

// Path is the slowest kind of way that the ranks of a probe talk over, or that NCCL would take to other nodes.
type Path string

// Paths.
const (
	PathNone   Path = "none"   // one rank, no network
	PathNVLS   Path = "nvls"   // NVLink with sums in the switch
	PathP2P    Path = "p2p"    // between GPUs over NVLink or PCIe
	PathSHM    Path = "shm"    // through memory of the host
	PathIB     Path = "ib"     // InfiniBand and RoCE by verbs: NCCL's own, IBext of HPC-X, gIB
	PathPlugin Path = "plugin" // a network plugin, such as that of EFA
	PathSocket Path = "socket" // TCP
)

// Paths returns the full state set.
func Paths() []Path {
	return []Path{PathNone, PathNVLS, PathP2P, PathSHM, PathIB, PathPlugin, PathSocket}
}

// Key identifies a probe with a history of its own.
type Key struct {
	Kind   Kind   `json:"kind"`
	Device string `json:"device,omitempty"` // HCA of a Rail probe, "mlx5_0"; else empty
	Port   int    `json:"port,omitempty"`   // of Device
}
