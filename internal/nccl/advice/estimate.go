// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"math"
	"math/bits"
	"slices"
)

// Link is what data crosses.
type Link string

// Links. Those between nodes have the names of the fabrics.
const (
	LinkNVLink     Link = "nvlink"
	LinkPCIe       Link = "pcie"
	LinkRoCE            = Link(RoCE)
	LinkInfiniBand      = Link(InfiniBand)
	LinkTCP             = Link(TCP)

	linkUnknown Link = "network" // that between nodes, which is not known
)

// Text is the link as people write it.
func (l Link) Text() string {
	switch l {
	case LinkNVLink:
		return "NVLink"
	case LinkPCIe:
		return "PCIe"
	case linkUnknown:
		return "the network"
	}
	return Fabric(l).Text()
}

// Estimate is how long one AllReduce takes by NCCL's own model of its algorithms, with the links of this node
// at their rates (docs/COMMANDS.md). It leaves out what makes real runs slower, and NVLink SHARP, which makes
// them faster.
type Estimate struct {
	Link  Link  `json:"link"`
	Nodes int   `json:"nodes"`
	Ranks int   `json:"ranks"`
	Bytes int64 `json:"bytes"`
	// Ring and Tree are in seconds; nil: not known.
	Ring *float64 `json:"ring_seconds"`
	Tree *float64 `json:"tree_seconds"`
	// Bandwidth is what the estimate assumes of the link in bytes per second and direction; nil: not known.
	// Basis says where it comes from.
	Bandwidth *float64  `json:"bandwidth_bytes_per_second"`
	Basis     string    `json:"basis"`
	Measured  *Measured `json:"measured"` // an AllReduce of the same size and number of ranks; nil: not measured
}

// Protocols of NCCL, in the order of the tables below.
const protocols = 3 // LL, LL128, Simple

// Constants of NCCL's model in microseconds: ncclTunerConstantsDefaults, src/graph/tuning.cc of NCCL 2.30.7.
var (
	baseRing = [protocols]float64{6.6, 14, 8.4}
	baseTree = [protocols]float64{6.8, 14, 8.4}
	hopRing  = map[Link][protocols]float64{LinkNVLink: {0.6, 1.9, 3.4}, LinkPCIe: {1.0, 2.5, 5.7}}
	hopTree  = map[Link][protocols]float64{LinkNVLink: {0.6, 1.25, 4.0}, LinkPCIe: {1.0, 1.9, 4.0}}
	netRing  = [protocols]float64{2.7, 4.0, 14}
	netTree  = [protocols]float64{5.0, 8.5, 14}
)

// Parts of the bandwidth that each protocol and the tree reach (ncclTopoTuneModel).
var ringParts = [protocols]float64{0.5, 0.92, 1}

func treeParts(nodes int) [protocols]float64 {
	ll128 := 120.0 / 128
	if nodes == 1 {
		ll128 = 7.0 / 9
	}
	return [protocols]float64{0.92 / 3.8, 0.92 * ll128, 0.92}
}

// shape is which ranks take part.
type shape struct {
	nodes, perNode int
	inside         Link // between the GPUs of a node
}

func (s shape) ranks() int { return s.nodes * s.perNode }

// ring is the time of an AllReduce by rings in seconds: 2(n-1) steps, of which 2(nodes-1) cross the network,
// and 2(n-1)/n of the bytes through each link.
func (s shape) ring(bytes int64, bandwidth float64) float64 {
	n := float64(s.ranks())
	steps, between := 2*(n-1), 2*float64(s.nodes-1)
	net := netRing
	if s.perNode == 1 {
		net = netTree
	}
	return fastest(baseRing, func(p int) float64 {
		return (steps-between)*hopRing[s.inside][p] + between*net[p]
	}, func(p int) float64 { return float64(bytes) * steps / n / (bandwidth * ringParts[p]) })
}

// tree is that by trees: up and down log2(nodes) levels and a chain in each node, and twice the bytes through
// each link.
func (s shape) tree(bytes int64, bandwidth float64) float64 {
	levels := float64(bits.Len(uint(s.nodes)) - 1) // #nosec G115 -- nodes are positive
	parts := treeParts(s.nodes)
	return fastest(baseTree, func(p int) float64 {
		return 2 * (float64(s.perNode-1)*hopTree[s.inside][p] + levels*netTree[p])
	}, func(p int) float64 { return float64(bytes) * 2 / (bandwidth * parts[p]) })
}

// fastest is the time of the protocol that takes the least.
func fastest(base [protocols]float64, hops, data func(p int) float64) float64 {
	least := math.Inf(1)
	for p := range protocols {
		least = min(least, (base[p]+hops(p))*1e-6+data(p))
	}
	return least
}

// usualBytes are the sizes that are estimated if none is stated: small, of a bucket of gradients, and large.
var usualBytes = []int64{1 << 20, 64 << 20, 1 << 30}

// estimates adds the links that the workload crosses, each with the sizes that are stated or usual and those
// that were measured.
func (k *adviser) estimates() {
	inside, within := k.inside()
	if k.Workload.GPUsPerNode > 1 {
		k.estimate(within, shape{1, k.Workload.GPUsPerNode, inside})
	}
	if k.Workload.Nodes != 1 {
		between := k.between()
		k.rack(&between)
		if k.Workload.GPUsPerNode > 1 && within.rate != nil && between.rate != nil && *within.rate < *between.rate {
			between.rate, between.basis = within.rate, between.basis+"; the links inside the node are slower: "+within.basis
		}
		k.estimate(between, shape{max(k.Workload.Nodes, 2), max(k.Workload.GPUsPerNode, 1), inside})
		for _, l := range k.measuredBetween(between.link) {
			k.estimate(l, shape{max(k.Workload.Nodes, 2), max(k.Workload.GPUsPerNode, 1), inside})
		}
	}
}

// rated is a link with its bandwidth.
type rated struct {
	link  Link
	rate  *float64 // bytes per second; nil: not known
	basis string   // of the rate, or why it is not known
	ask   string   // what would show it
}

func (k *adviser) estimate(l rated, s shape) {
	if l.rate == nil {
		k.open("time over "+l.link.Text(), l.basis, l.ask)
	}
	var measured []*Measured
	sizes := usualBytes
	if k.Workload.MessageBytes > 0 {
		sizes = []int64{k.Workload.MessageBytes}
	}
	sizes = slices.Clone(sizes)
	for i := range k.Workload.Measured {
		if m := &k.Workload.Measured[i]; m.Link == l.link && m.Port == "" && s.nodes == 1 && m.Ranks == s.ranks() {
			measured, sizes = append(measured, m), append(sizes, m.Bytes)
		}
	}
	slices.Sort(sizes)
	for _, size := range slices.Compact(sizes) {
		e := Estimate{Link: l.link, Nodes: s.nodes, Ranks: s.ranks(), Bytes: size, Bandwidth: l.rate, Basis: l.basis}
		if l.rate != nil {
			e.Ring, e.Tree = new(s.ring(size, *l.rate)), new(s.tree(size, *l.rate))
		}
		for _, m := range measured {
			if m.Bytes == size {
				e.Measured = m
			}
		}
		if l.rate != nil || e.Measured != nil {
			k.Estimates = append(k.Estimates, e)
		}
	}
}
