// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

const askDriver = "run the command where NVML reaches the GPU driver, or measure with `gpufabric_exporter probe`"

// inside is what connects the GPUs of the node: NVLink where it joins all of them, else PCIe.
func (k *adviser) inside() (Link, rated) {
	gpus := k.node.GPUDriver.GPUs
	if len(gpus) == 0 {
		return LinkPCIe, rated{
			LinkPCIe, nil,
			"Whether the GPUs have NVLink is not known: the GPU driver was not asked or did not answer.", askDriver,
		}
	}
	least, joined, ok := nvlink(gpus)
	switch {
	case !ok:
		return LinkNVLink, rated{LinkNVLink, nil, "The state or the rate of an NVLink could not be read.", askDriver}
	case joined:
		return LinkNVLink, rated{
			LinkNVLink, &least,
			fmt.Sprintf("active NVLinks of the slowest GPU: %.0f GB/s in each direction", least/1e9), "",
		}
	}
	return LinkPCIe, pcie(gpus)
}

// LinkInside is what connects the GPUs of a node, for measurements.
func LinkInside(node *fabric.Node) Link {
	link, _ := (&adviser{node: node}).inside()
	return link
}

// LinkOf is what a port of a device is, for measurements; empty: not known.
func LinkOf(h *fabric.HCA, port int) Link {
	for i := range h.Ports {
		if p := &h.Ports[i]; p.Number == port {
			if f := linkFabric(h, p); f != Auto {
				return Link(f)
			}
		}
	}
	return ""
}

// nvlink is the bandwidth of the active links of the slowest GPU, and whether links join all GPUs; ok is
// false where that is not known.
func nvlink(gpus []fabric.GPU) (least float64, joined, ok bool) {
	group := map[string]string{} // by address: another GPU, or the switch, that it reaches
	find := func(a string) string {
		for group[a] != "" && group[a] != a {
			a = group[a]
		}
		return a
	}
	const toSwitch = "switch"
	for i := range gpus {
		g := &gpus[i]
		links, known := g.NVLinks.Get()
		if !known && g.NVLinks.State != fabric.Absent || g.Address == "" {
			return 0, false, false
		}
		var sum float64
		for _, l := range links {
			active, knownActive := l.Active.Get()
			rate, knownRate := l.Specified()
			kind, knownKind := l.RemoteKind.Get()
			switch {
			case knownActive && !active:
				continue
			case !knownActive || !knownRate || !knownKind:
				return 0, false, false
			}
			sum += rate
			end := toSwitch
			if kind == fabric.NVLinkToGPU {
				end = l.Remote.Or("")
			}
			if a, b := find(g.Address), find(end); a != b && end != "" {
				group[a] = b
			}
		}
		if i == 0 || sum < least {
			least = sum
		}
	}
	for i := range gpus {
		if find(gpus[i].Address) != find(gpus[0].Address) {
			return least, false, true
		}
	}
	return least, least > 0 && len(gpus) > 1, true
}

// rack says of the estimate between nodes what one node does not show where its GPUs belong to an NVLink
// domain of several nodes.
func (k *adviser) rack(between *rated) {
	for i := range k.node.GPUDriver.GPUs {
		f, known := k.node.GPUDriver.GPUs[i].Fabric.Get()
		if !known || strings.Trim(f.Cluster, "0-") == "" {
			continue // no cluster, or that of one board
		}
		k.open("NVLink between nodes",
			fmt.Sprintf("The GPUs belong to an NVLink domain of several nodes (cluster %s, clique %d), such as a rack of GB200 NVL72. Between nodes of one clique NCCL uses NVLink (MNNVL, NCCL_MNNVL_ENABLE) where IMEX works, and the network only beyond it. Which nodes of the job are in this clique is not known from one node.", f.Cluster, f.Clique),
			"compare cluster and clique of the nodes (`nvidia-smi -q`, Fabric) and look at the IMEX domain (`nvidia-imex-ctl -N`)")
		if between.rate != nil {
			between.basis += "; only for nodes in different NVLink domains"
		}
		return
	}
}

// lanes are the rates of a PCIe lane in bytes per second by generation: transfers per second times the
// encoding, 8b/10b up to the second and 128b/130b from the third on. The sixth has frames with error
// correction, of which 236 of 256 bytes are data.
var laneRates = map[int]float64{
	1: 2.5e9 * 0.8 / 8, 2: 5e9 * 0.8 / 8, 3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8,
	5: 32e9 * 128 / 130 / 8, 6: 64e9 * 236 / 256 / 8,
}

// pcie is the bandwidth of the slowest GPU's link at the generation that GPU and slot can do: idle GPUs slow it down.
func pcie(gpus []fabric.GPU) rated {
	var least *float64
	basis := ""
	for i := range gpus {
		g := &gpus[i]
		generation, known := g.PCIeMaxGen.Get()
		width, knownWidth := g.PCIeWidth.Get()
		lane := laneRates[generation]
		if !known || !knownWidth || lane == 0 || width <= 0 {
			return rated{LinkPCIe, nil, fmt.Sprintf("The PCIe link of GPU%d could not be read.", g.Index), askDriver}
		}
		if rate := lane * float64(width); least == nil || rate < *least {
			least, basis = &rate,
				fmt.Sprintf("PCIe %d.0 x%d of GPU%d, the slowest: %.1f GB/s in each direction; GPUs that share a link upstream get less", generation, width, g.Index, rate/1e9)
		}
	}
	return rated{LinkPCIe, least, basis, ""}
}

// between is what connects nodes: all active compute ports together.
func (k *adviser) between() rated {
	switch k.Workload.Fabric {
	case RoCE, InfiniBand, EFA:
		if k.contradicted() {
			return rated{Link(k.Workload.Fabric), nil, "The node has no such ports.", "run the command on a node of the job"}
		}
	case TCP:
		return rated{
			LinkTCP, nil, "The rate of the interfaces that TCP would use is not read.",
			"gpufabric_exporter probe socket --now",
		}
	default:
		return rated{linkUnknown, nil, "The fabric is not known.", "state it (--fabric)"}
	}
	l := rated{link: Link(k.Workload.Fabric), ask: "run `gpufabric_exporter check`"}
	least, count, equal, shared := 0.0, 0, true, map[string]bool{}
	for h, p := range k.node.ComputePorts {
		if p.State.State == fabric.Unknown {
			l.basis = fmt.Sprintf("The state of %s:%d is not known: %s.", h.Name, p.Number,
				verdict.ReasonText(p.State.Meta().Reason))
			return l
		}
		if p.Down() {
			continue
		}
		rate, known := p.Rate.Get()
		if !known {
			l.basis, l.ask = fmt.Sprintf("The rate of %s:%d is not known: %s.", h.Name, p.Number,
				verdict.ReasonText(p.Rate.Meta().Reason)), "gpufabric_exporter probe rail --now"
			return l
		}
		if twin := k.node.SharedPort(h, p); twin != "" && shared[twin] {
			continue
		} else if twin != "" {
			shared[twin] = true
		}
		equal = equal && (count == 0 || rate.BytesPerSecond == least)
		if count++; count == 1 || rate.BytesPerSecond < least {
			least = rate.BytesPerSecond
		}
	}
	if count == 0 {
		l.basis = "No compute port is active."
		return l
	}
	sum := least * float64(count)
	l.basis = fmt.Sprintf("%s of %s together, the line rate: %s, %.0f GB/s", ports(count), k.Workload.Fabric.Text(),
		verdict.Gigabits(sum), sum/1e9)
	if !equal {
		l.basis += ", each at the rate of the slowest, for which every collective waits"
	}
	if gpus, known := k.node.GPUs.Get(); known && k.Workload.GPUsPerNode > 0 && k.Workload.GPUsPerNode < gpus {
		sum *= float64(k.Workload.GPUsPerNode) / float64(gpus)
		l.basis += fmt.Sprintf(", of which %d of %d GPUs have their part", k.Workload.GPUsPerNode, gpus)
	}
	l.rate = &sum
	return l
}

// measuredBetween are the links between nodes with the bandwidths that probes measured: all compute ports
// together, if each was, and TCP.
func (k *adviser) measuredBetween(link Link) []rated {
	const least = 1 << 20 // smaller messages show latency, and not bandwidth
	best := map[string]*Measured{}
	for i := range k.Workload.Measured {
		m := &k.Workload.Measured[i]
		if m.Bytes >= least && (m.Port != "" && m.Link == link || m.Port == "" && m.Link == LinkTCP) &&
			(best[m.Port] == nil || m.Bytes > best[m.Port].Bytes) {
			best[m.Port] = m
		}
	}
	var list []rated
	var sum float64
	count, all := 0, true
	shared := map[string]float64{} // the best of the devices of one port
	for h, p := range k.node.ComputePorts {
		if p.Down() {
			continue
		}
		m := best[fmt.Sprintf("%s:%d", h.Name, p.Number)]
		if all = all && m != nil; m != nil {
			twin := k.node.SharedPort(h, p)
			before, again := shared[twin]
			if twin == "" || !again {
				count++
			}
			sum += max(0, m.BusBW-before)
			if twin != "" {
				shared[twin] = max(before, m.BusBW)
			}
		}
	}
	if all && count > 0 {
		list = append(list, rated{
			link, &sum,
			fmt.Sprintf("measured by probe rail, one port at a time: %s together %.1f GB/s", ports(count), sum/1e9), "",
		})
	}
	if m := best[""]; m != nil {
		list = append(list, rated{LinkTCP, &m.BusBW, fmt.Sprintf("measured by %s: %.1f GB/s", m.From, m.BusBW/1e9), ""})
	}
	return list
}
