// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"math"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/spelling"
)

// Fabric is a kind of network between nodes.
type Fabric string

// Fabrics.
const (
	Auto       Fabric = "auto" // that of the node
	RoCE       Fabric = "roce"
	InfiniBand Fabric = "infiniband"
	EFA        Fabric = "efa"
	TCP        Fabric = "tcp" // no RDMA
)

// Fabrics returns every kind.
func Fabrics() []Fabric { return []Fabric{Auto, RoCE, InfiniBand, EFA, TCP} }

// Text is the fabric as people write it.
func (f Fabric) Text() string {
	return map[Fabric]string{Auto: "not known", RoCE: "RoCE", InfiniBand: "InfiniBand", EFA: "EFA", TCP: "TCP"}[f]
}

// Workload is what a job will do. The zero Workload states nothing.
type Workload struct {
	Nodes       int    `json:"nodes"`         // 0: not stated; several are assumed
	GPUsPerNode int    `json:"gpus_per_node"` // 0: all GPUs of the node
	Fabric      Fabric `json:"fabric"`        // empty: Auto
	// MessageBytes is the size of one AllReduce, IterationBytes what one iteration reduces in all, such as the
	// size of the gradients; 0: not stated. Iteration is the time of one iteration.
	MessageBytes   int64         `json:"message_bytes"`
	IterationBytes int64         `json:"iteration_bytes"`
	Iteration      time.Duration `json:"iteration_nanoseconds"`
	// NCCL is the release that the job uses; the zero value: that of the library found on the node, else the
	// newest that is known.
	NCCL lint.Version `json:"-"`
	// Measured are results of probes of this node, to be shown beside the estimates.
	Measured []Measured `json:"-"`
	// Impaired are running jobs of this node with findings of severity warning or critical: each its name and
	// the rules. No share of the iteration is an all-clear beside them.
	Impaired []string `json:"-"`
}

// Bounds of a Workload.
const (
	MaxNodes       = 100_000
	MaxGPUsPerNode = 128
	MaxBytes       = 1 << 50
	MaxIteration   = 24 * time.Hour
	MaxMeasured    = 4096
)

// Validate says which values of a workload are invalid.
func (w Workload) Validate() error {
	switch {
	case w.Nodes < 0 || w.Nodes > MaxNodes:
		return fmt.Errorf("nodes %d: expected 1 to %d, or 0 if not known", w.Nodes, MaxNodes)
	case w.GPUsPerNode < 0 || w.GPUsPerNode > MaxGPUsPerNode:
		return fmt.Errorf("GPUs per node %d: expected 1 to %d, or 0 for all", w.GPUsPerNode, MaxGPUsPerNode)
	case w.MessageBytes < 0 || w.MessageBytes > MaxBytes || w.IterationBytes < 0 || w.IterationBytes > MaxBytes:
		return fmt.Errorf("%d and %d bytes: expected 0 to %d", w.MessageBytes, w.IterationBytes, int64(MaxBytes))
	case w.Iteration < 0 || w.Iteration > MaxIteration:
		return fmt.Errorf("iteration of %s: expected 0 to %s", w.Iteration, MaxIteration)
	}
	if len(w.Measured) > MaxMeasured {
		return fmt.Errorf("%d measurements: expected at most %d", len(w.Measured), MaxMeasured)
	}
	for _, m := range w.Measured {
		if !(m.BusBW >= 1 && m.BusBW <= math.MaxInt64 && m.Seconds > 0 && m.Seconds <= math.MaxInt32) || m.Bytes < 1 ||
			m.Bytes > MaxBytes || m.Ranks < 2 {
			return fmt.Errorf("measurement of %d bytes by %d ranks in %g s with %g bytes/s: expected 1 to %d bytes, at least 2 ranks, a time above 0 and at least 1 byte/s",
				m.Bytes, m.Ranks, m.Seconds, m.BusBW, int64(MaxBytes))
		}
	}
	return nil
}

// Measured is what a probe measured on this node: an AllReduce of its GPUs, or the bandwidth of one link between nodes.
type Measured struct {
	Link Link `json:"link"`
	// Port is the one that a bandwidth is of, such as mlx5_0:1; empty: an AllReduce, or TCP.
	Port    string    `json:"port,omitempty"`
	Ranks   int       `json:"ranks"`
	Bytes   int64     `json:"bytes"`
	Seconds float64   `json:"seconds"`
	BusBW   float64   `json:"busbw_bytes_per_second"`
	From    string    `json:"from"` // what measured it, such as "probe rail"
	At      time.Time `json:"at"`
}

// fabric finds the network of the node. What is stated and contradicts it is an open question.
func (k *adviser) fabric() {
	stated := k.Workload.Fabric
	found, why := fabricOf(k.node)
	auto := stated == "" || stated == Auto
	missing := ""
	if auto && found == TCP && k.Workload.Nodes != 1 {
		missing = missingRDMA(k.node)
	}
	switch {
	case missing != "":
		k.Workload.Fabric = Auto
		k.open("fabric",
			missing+" The node is more likely broken than intended for TCP: nothing is recommended for the network.",
			"repair the node first: run `gpufabric_exporter check`. For jobs that use TCP on purpose, state it (--fabric=tcp)")
	case auto:
		k.Workload.Fabric = found
		if found == Auto {
			k.open("fabric", why, "state it (--fabric), or run `gpufabric_exporter check` to see what could not be read")
		}
	case found != Auto && found != stated && stated == TCP:
		k.open("fabric",
			fmt.Sprintf("The workload states TCP, but the compute ports of this node are %s: why jobs should not use them is not known.", found.Text()), "leave out --fabric to get advice for these ports")
	case found != Auto && found != stated:
		k.open("fabric",
			fmt.Sprintf("The workload states %s, but the compute ports of this node are %s: nothing is recommended for the fabric.", stated.Text(), found.Text()), "correct the workload, or run the command on a node of the job")
	}
	gpus, known := k.node.GPUs.Get()
	switch n := k.Workload.GPUsPerNode; {
	case n == 0 && known:
		k.Workload.GPUsPerNode = gpus
	case known && n > gpus:
		k.open("GPUs per node", fmt.Sprintf("The workload states %d, but this node has %d.", n, gpus),
			"correct the workload, or run the command on a node of the job")
	}
}

// contradicted reports whether the stated fabric is not that of the node.
func (k *adviser) contradicted() bool {
	found, _ := fabricOf(k.node)
	return found != Auto && found != k.Workload.Fabric
}

// fabricOf is what the compute ports of a node are; Auto, and why, where that is not known or they differ.
func fabricOf(n *fabric.Node) (f Fabric, why string) {
	switch present, known := n.ClassPresent.Get(); {
	case !known:
		return Auto, "Whether the node has RDMA devices could not be read."
	case !present:
		return TCP, ""
	}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if h.Moved && len(h.Ports) == 0 {
			return Auto, "RDMA devices of the node are in other network namespaces, such as those of pods."
		}
		for p := range h.Ports {
			port := &h.Ports[p]
			role, known := port.Role.Get()
			if known && role != fabric.RoleCompute {
				continue
			}
			one := linkFabric(h, port)
			switch {
			case !known || one == Auto:
				return Auto, "What " + h.Name + " is for, or its link layer, is not known."
			case f != "" && f != one:
				return Auto, fmt.Sprintf("The compute ports of this node are %s and %s.", f.Text(), one.Text())
			}
			f = one
		}
	}
	if f == "" {
		return TCP, ""
	}
	return f, ""
}

// missingRDMA is a sentence about the RDMA ports that a node without compute ports should have by its
// configuration; empty: none.
func missingRDMA(n *fabric.Node) string {
	var why []string
	if want := n.Policy.ComputePorts; want != nil && *want > 0 {
		why = append(why, fmt.Sprintf("the site expects %d (expected.compute_ports)", *want))
	}
	if v, set := n.NCCL.Lookup(devicesVariable); set && v.Value != "" && v.Value[0] != '^' && !v.Masked {
		why = append(why, fmt.Sprintf("%s names %s (%s)", v.Name,
			spelling.Few(strings.Split(strings.TrimPrefix(v.Value, "="), ","), few), v.Source))
	}
	if len(why) == 0 {
		return ""
	}
	return "The node has no RDMA port for training, and " + strings.Join(why, ", and ") + "."
}

// linkFabric is what a port is; Auto: not known.
func linkFabric(h *fabric.HCA, p *fabric.Port) Fabric {
	switch link := p.LinkLayer.Or(""); {
	case h.Driver.Or("") == "efa":
		return EFA
	case link == fabric.LinkInfiniBand:
		return InfiniBand
	case link == fabric.LinkEthernet:
		return RoCE
	}
	return Auto
}
