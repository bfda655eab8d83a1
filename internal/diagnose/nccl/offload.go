// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// activeCompute counts the active compute ports.
func activeCompute(n *fabric.Node) (active int) {
	for range n.ActiveCompute {
		active++
	}
	return active
}

// judgeOffloads judges what logs say of offloads. The zero value of an offload, which is most of them, is silence.
func judgeOffloads(n *fabric.Node, v *verdict.Verdicts) {
	logs, known := n.Logs.Get()
	if !known {
		v.Hidden(verdict.Subject{}, n.Logs.Meta(), "What logs of jobs say of offloads")
		return
	}
	var names []string
	var said verdict.Verdict
	used := false
	for _, o := range offloads() {
		count := map[fabric.Offload]int{}
		for i := range logs.Files {
			count[o.of(&logs.Files[i].Offloads)]++
		}
		used = used || count[fabric.OffloadUsed] > 0
		idle := count[fabric.OffloadUnused] + count[fabric.OffloadOff]
		if idle == 0 || !o.possible(n) {
			continue
		}
		names = append(names, o.name)
		if count[fabric.OffloadUnused] > 0 {
			said.Evidence = join(said.Evidence, o.unused+" ("+logsOf(count[fabric.OffloadUnused])+").")
		}
		if count[fabric.OffloadOff] > 0 {
			said.Evidence = join(said.Evidence, "Jobs set "+o.off+" ("+logsOf(count[fabric.OffloadOff])+").")
		}
		said.Consequence, said.Remedy = join(said.Consequence, o.consequence), join(said.Remedy, o.remedy)
	}
	switch {
	case len(names) == 1:
		said.What = names[0] + " is not used by jobs that could use it"
	case len(names) > 1:
		said.What = strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] +
			" are not used by jobs that could use them"
	}
	if len(names) > 0 || used {
		v.When(len(names) > 0, verdict.Subject{}, said)
	}
}

// offload is what takes work off GPUs or the network.
type offload struct {
	name                             string
	of                               func(*fabric.Offloads) fabric.Offload
	possible                         func(*fabric.Node) bool // the node has what it takes; false where that is not known
	unused, off, consequence, remedy string
}

func offloads() []offload {
	return []offload{
		{
			name: "NVLS", of: func(o *fabric.Offloads) fabric.Offload { return o.NVLS }, possible: hasNVSwitches,
			unused: "NVLS is available to the GPU, and NCCL made no channels for it", off: "NCCL_NVLS_ENABLE=0",
			consequence: "GPUs compute sums that NVSwitches could: all-reduce in a node is slower and takes more of their SMs.",
			remedy:      "Remove NCCL_NVLS_ENABLE=0 unless it works around a fault; else look in the log (NCCL_DEBUG=INFO) for lines with NVLS.",
		},
		{
			name: "SHARP", of: func(o *fabric.Offloads) fabric.Offload { return o.SHARP }, possible: hasInfiniBand,
			unused:      "Jobs set NCCL_COLLNET_ENABLE=1, and NCCL connected no collectives in the network",
			consequence: "Sums are not computed in the switches of InfiniBand as the job wants.",
			remedy:      "Check that the image has a plugin with SHARP (nccl-rdma-sharp-plugins, HPC-X), and that the aggregation manager runs (sharp_hello).",
		},
		{
			name: "PXN", of: func(o *fabric.Offloads) fabric.Offload { return o.PXN }, possible: hasRails,
			off:         "NCCL_PXN_DISABLE=1",
			consequence: "Traffic to another rail does not go over NVLink to the GPU near its NIC: it crosses the spine, and GPUs without a NIC near them send through the CPU.",
			remedy:      "Remove NCCL_PXN_DISABLE=1 unless all NICs are on one switch or it works around a fault.",
		},
	}
}

// hasNVSwitches reports whether NVLinks of a GPU that can use multicast, which is Hopper and later, lead to NVSwitches.
func hasNVSwitches(n *fabric.Node) bool {
	return slices.ContainsFunc(n.GPUDriver.GPUs, func(g fabric.GPU) bool {
		const hopper = 90
		return g.ComputeCap.Or(0) >= hopper && hasNVLink(&g,
			func(l fabric.NVLink) bool { return l.RemoteKind.Or("") == fabric.NVLinkToSwitch })
	})
}

func hasNVLink(g *fabric.GPU, is func(fabric.NVLink) bool) bool {
	return slices.ContainsFunc(g.NVLinks.Or(nil), func(l fabric.NVLink) bool { return l.Active.Or(false) && is(l) })
}

// hasInfiniBand reports whether a port for training is one of InfiniBand.
func hasInfiniBand(n *fabric.Node) bool {
	for _, p := range n.ActiveCompute {
		if p.LinkLayer.Or("") == fabric.LinkInfiniBand {
			return true
		}
	}
	return false
}

// hasRails reports whether there are several ports for training, and GPUs that reach each other over NVLink.
func hasRails(n *fabric.Node) bool {
	linked := slices.ContainsFunc(n.GPUDriver.GPUs, func(g fabric.GPU) bool {
		return hasNVLink(&g, func(l fabric.NVLink) bool {
			end := l.RemoteKind.Or("")
			return end == fabric.NVLinkToGPU || end == fabric.NVLinkToSwitch
		})
	})
	return linked && activeCompute(n) > 1
}

func logsOf(n int) string {
	if n == 1 {
		return "1 log"
	}
	return strconv.Itoa(n) + " logs"
}

// join puts a sentence behind others.
func join(text, sentence string) string {
	if text == "" {
		return sentence
	}
	return text + " " + sentence
}
