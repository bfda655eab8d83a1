// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/probes"
)

// Limits of what a Result keeps of a log.
const (
	maxExcerptHead = 3 << 10 // bytes
	maxExcerptTail = 5 << 10
	maxSettings    = 64
)

// harvest writes down what NCCL logged, and returns what it is for each rank.
func (e *run) harvest(r *probes.Result, why *trouble) []log.Log {
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
func tellPaths(r *probes.Result, logs []log.Log) {
	var links, judged []log.Link // over anything; over a network, of ranks whose GPUDirect counts
	complete, collNet := true, false
	for i, l := range logs {
		links = append(links, l.Links...)
		for _, link := range l.Links {
			network := link.Via == log.Net || link.Via == log.CollNet
			if network && (r.Kind != probes.Rail || i == 0) { // of a rail rank 0 has the nearest GPU
				judged = append(judged, link)
			}
		}
		if r.Network == "" || probes.PathOf(l.Network) == probes.PathSocket {
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
	path := slowestOf(links)
	switch {
	case path != "":
	case len(logs) == 1 && r.Network != "":
		path = probes.PathOf(r.Network)
	case len(logs) > 1 && first.NVLSChannels > 0 && complete:
		path = probes.PathNVLS
	}
	r.Path = said(path, path != "", notSaid, r.At)
	r.GPUDirect = gpuDirect(r, judged, first, notSaid)
	r.NVLS = said(first.NVLSChannels > 0, first.NVLSChannels != log.Unknown, notSaid, r.At)
	r.SHARP = said(collNet, collNet || complete, notSaid, r.At)
	r.Channels = said(first.Channels, first.Channels != log.Unknown, notSaid, r.At)
}

// said is what a log says, if it does.
func said[T any](v T, known bool, notSaid fabric.Reason, at time.Time) probes.Fact[T] {
	if !known {
		return probes.UnknownFact[T](notSaid, probes.LogSource, at)
	}
	return probes.Known(v, probes.LogSource, at)
}

// gpuDirect says whether connections over a network all use GPUDirect RDMA; without any, whether the devices of the
// network could.
func gpuDirect(r *probes.Result, links []log.Link, l log.Log, notSaid fabric.Reason) probes.Fact[bool] {
	links = slices.DeleteFunc(slices.Clone(links),
		func(link log.Link) bool { return probes.PathOf(link.Name) == probes.PathSocket })
	switch {
	case len(links) > 0:
		return probes.Known(!slices.ContainsFunc(links, func(link log.Link) bool { return !link.GPUDirect }),
			probes.LogSource, r.At)
	case r.Network == "":
		return probes.UnknownFact[bool](notSaid, probes.LogSource, r.At)
	case probes.PathOf(r.Network) == probes.PathSocket:
		return probes.AbsentFact[bool](probes.LogSource, r.At)
	}
	could := probes.UnknownFact[bool](notSaid, probes.LogSource, r.At)
	for _, h := range l.HCAs {
		if h.Network == r.Network {
			could = probes.Known(h.GPUDirect && could.Or(true), probes.LogSource, r.At)
		}
	}
	return could
}

// slowestOf is the slowest kind of connection; empty if there is none.
func slowestOf(links []log.Link) probes.Path {
	slowest := -1
	for _, link := range links {
		path := probes.Path("")
		switch link.Via {
		case log.P2P:
			path = probes.PathP2P
		case log.SHM:
			path = probes.PathSHM
		case log.Net, log.CollNet:
			path = probes.PathOf(link.Name)
		}
		slowest = max(slowest, slices.Index(probes.Paths(), path))
	}
	if slowest < 0 {
		return ""
	}
	return probes.Paths()[slowest]
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
		if line = probes.Printable(line, len(line)); line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
