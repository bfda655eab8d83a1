// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
)

// Limits of what a Result keeps of a log.
const (
	maxExcerptHead = 3 << 10 // bytes
	maxExcerptTail = 5 << 10
	maxSettings    = 64
)

const logSource = "NCCL log"

// harvest writes down what NCCL logged, and returns what it is for each rank.
func (e *run) harvest(r *Result, why *trouble) []log.Log {
	logs := make([]log.Log, len(e.members))
	teller := 0
	if why != nil && why.rank > 0 {
		teller = why.rank
	}
	for i, m := range e.members {
		if p := m.running(); p != nil {
			head, tail, dropped := p.Log()
			logs[i] = log.Parse(head, tail, dropped)
			if i == teller {
				r.Log = excerpt(head, tail, dropped)
			}
		}
	}
	if r.NCCL == "" {
		r.NCCL = logs[0].Version
	}
	for _, s := range logs[teller].Settings[:min(len(logs[teller].Settings), maxSettings)] {
		r.Settings = append(r.Settings, s.Name+"="+fabric.MaskValue(s.Name, s.Value))
	}
	tellPaths(r, logs)
	return logs
}

// tellPaths says how the ranks of these logs talk.
func tellPaths(r *Result, logs []log.Log) {
	var links, judged []log.Link // over anything; over a network, of ranks whose GPUDirect counts
	complete, collNet := true, false
	for i, l := range logs {
		links = append(links, l.Links...)
		for _, link := range l.Links {
			network := link.Via == log.Net || link.Via == log.CollNet
			if network && (r.Kind != Rail || i == 0) { // of a rail rank 0 has the nearest GPU
				judged = append(judged, link)
			}
		}
		if r.Network == "" || pathOf(l.Network) == PathSocket {
			r.Network = l.Network
		}
		r.NoDevices = r.NoDevices || l.NoDevices
		complete, collNet = complete && l.Complete, collNet || l.CollNet
	}
	first := logs[0]
	notSaid := fabric.ReasonMissing
	if !complete {
		notSaid = fabric.ReasonNotRead
	}
	r.Path = UnknownFact[Path](notSaid, logSource, r.At)
	switch slowest := slowestOf(links); {
	case slowest != "":
		r.Path = Known(slowest, logSource, r.At)
	case len(logs) == 1 && r.Network != "":
		r.Path = Known(pathOf(r.Network), logSource, r.At)
	case len(logs) > 1 && first.NVLSChannels > 0 && complete:
		r.Path = Known(PathNVLS, logSource, r.At)
	}
	r.GPUDirect = gpuDirect(r, judged, first, notSaid)
	known := func(is, known bool) Fact[bool] {
		if known {
			return Known(is, logSource, r.At)
		}
		return UnknownFact[bool](notSaid, logSource, r.At)
	}
	r.NVLS = known(first.NVLSChannels > 0, first.NVLSChannels != log.Unknown)
	r.SHARP = known(collNet, collNet || complete)
	r.Channels = UnknownFact[int](notSaid, logSource, r.At)
	if first.Channels != log.Unknown {
		r.Channels = Known(first.Channels, logSource, r.At)
	}
}

// gpuDirect says whether connections over a network all use GPUDirect RDMA; without any, whether the devices of the
// network could.
func gpuDirect(r *Result, links []log.Link, l log.Log, notSaid fabric.Reason) Fact[bool] {
	links = slices.DeleteFunc(slices.Clone(links), func(link log.Link) bool { return pathOf(link.Name) == PathSocket })
	switch {
	case len(links) > 0:
		return Known(!slices.ContainsFunc(links, func(link log.Link) bool { return !link.GPUDirect }), logSource, r.At)
	case r.Network == "":
		return UnknownFact[bool](notSaid, logSource, r.At)
	case pathOf(r.Network) == PathSocket:
		return AbsentFact[bool](logSource, r.At)
	}
	could := UnknownFact[bool](notSaid, logSource, r.At)
	for _, h := range l.HCAs {
		if h.Network == r.Network {
			could = Known(h.GPUDirect && could.Or(true), logSource, r.At)
		}
	}
	return could
}

// slowestOf is the slowest kind of connection; empty if there is none.
func slowestOf(links []log.Link) Path {
	slowest := -1
	for _, link := range links {
		path := Path("")
		switch link.Via {
		case log.P2P:
			path = PathP2P
		case log.SHM:
			path = PathSHM
		case log.Net, log.CollNet:
			path = pathOf(link.Name)
		}
		slowest = max(slowest, slices.Index(Paths(), path))
	}
	if slowest < 0 {
		return ""
	}
	return Paths()[slowest]
}

// pathOf is what a network of that name is.
func pathOf(network string) Path {
	switch log.CarrierOf(network) {
	case log.Verbs:
		return PathIB
	case log.Sockets:
		return PathSocket
	case log.OtherCarrier:
	}
	return PathPlugin
}

// excerpt is the beginning and the end of a log, with a line that says how much is missing between.
func excerpt(head, tail []byte, dropped int64) string {
	if dropped == 0 {
		head, tail = slices.Concat(head, tail), nil
	}
	before, after := string(head), string(tail)
	if total := int64(len(head)+len(tail)) + dropped; dropped > 0 || total > maxExcerptHead+maxExcerptTail {
		if dropped == 0 {
			before, after = before[:maxExcerptHead], before[len(before)-maxExcerptTail:]
		}
		before = before[:min(len(before), maxExcerptHead)]
		before = before[:strings.LastIndexByte(before, '\n')+1]
		after = after[max(len(after)-maxExcerptTail, 0):]
		after = after[strings.IndexByte(after, '\n')+1:]
		before += fmt.Sprintf("[%d bytes left out]\n", total-int64(len(before)+len(after)))
	}
	var b strings.Builder
	for line := range strings.Lines(before + after) {
		if line = printable(line, len(line)); line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
