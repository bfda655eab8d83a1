// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func judgeAlignment(n *fabric.Node, v *verdict.Verdicts) {
	devices, applies := JobDevices(n)
	if !applies {
		return
	}
	filter, _ := n.NCCL.Devices()
	var mine []string
	for _, h := range devices {
		if node, has := verbsNodeOf(n.Inside, h.Name); has && node.Usable.Or(false) && filter.Takes(h.Name, -1) {
			mine = append(mine, h.Name)
		}
	}
	if len(mine) == 0 {
		return
	}
	given := n.Inside.GivenGPUs()
	gpus, known := given.Get()
	if !known {
		v.Unknown(verdict.Subject{}, given.Meta().Reason,
			"Which GPUs the job has is unknown: "+given.Source+" names GPUs that the driver does not show.")
		return
	}
	for _, g := range gpus {
		s := verdict.Subject{GPU: g.Address, Name: fmt.Sprintf("/dev/nvidia%d", g.Minor)}
		f := n.PCI.Function(g.Address)
		if f == nil {
			v.Unknown(s, fabric.ReasonMissing, "The place of this GPU on the PCI bus is unknown.")
			continue
		}
		alignGPU(n, s, f, mine, v)
	}
}

// alignGPU compares the NIC nearest to a GPU with those that the job has.
func alignGPU(n *fabric.Node, s verdict.Subject, gpu *fabric.PCIFunction, mine []string, v *verdict.Verdicts) {
	near, nearMine := fabric.DistanceSYS, fabric.DistanceSYS
	var others []string // nearest ones that the job has not
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		has := slices.Contains(mine, h.Name)
		if f == nil || !has && !h.Moved && !h.Serves(fabric.RoleCompute) {
			continue
		}
		d, known := n.Distance(gpu, f).Get()
		switch {
		case !known:
			v.Unknown(s, n.Distance(gpu, f).Meta().Reason,
				"Its distance from "+h.Name+" is unknown: "+verdict.ReasonText(n.Distance(gpu, f).Meta().Reason)+".")
			return
		case has:
			nearMine = min(nearMine, d)
		case d < near:
			near, others = d, []string{h.Name}
		case d == near:
			others = append(others, h.Name)
		}
	}
	switch {
	case nearMine <= fabric.DistanceP2C:
		v.OK(s)
	case near > fabric.DistanceP2C: // no NIC of the node is near
	default:
		v.Failed(s, verdict.Verdict{
			Evidence: fmt.Sprintf("Its NIC is %s (%s); those of the job are %s, %s away at best.",
				strings.Join(others, ", "), near, verdict.Few(mine), nearMine),
			Consequence: "Traffic of this GPU crosses the processor, without GPUDirect RDMA by NCCL's default: collectives of all ranks become as slow.",
			Remedy: "Give the job the NICs near its GPUs: in Kubernetes the Topology Manager with policy restricted or single-numa-node, or all NICs of the node; with Slurm do not constrain RDMA devices; " +
				"correct NCCL_IB_HCA if it leaves them out.",
		})
	}
}
