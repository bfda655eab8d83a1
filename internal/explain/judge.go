// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/nccllog"
	"gpufabric_exporter/internal/signature"
)

// result ends the reading.
func (r *reading) result() *Result {
	r.Log = *r.log
	for i := range r.Log.Settings {
		s := &r.Log.Settings[i]
		s.Value = fabric.MaskValue(s.Name, s.Value)
	}
	r.Hosts = slices.Sorted(maps.Keys(r.hosts))
	r.Processes = len(r.processes)
	const shownRanks = 16
	for i := range r.Communicators {
		c := &r.Communicators[i]
		c.Started, c.Complete = len(c.started), len(c.complete)
		for _, rank := range slices.Sorted(maps.Keys(c.started)) {
			if _, done := c.complete[rank]; !done && len(c.Missing) < shownRanks {
				c.Missing = append(c.Missing, rank)
			}
		}
		c.started, c.complete = nil, nil
	}
	r.judge()
	return &r.Result
}

// judge adds what follows from the connections. It is no failure of a line, so it comes behind those that are.
func (r *reading) judge() {
	t := r.Transports()
	if t.TCP > 0 {
		r.follow(&signature.TCP, fmt.Sprintf("%d of %d connections between hosts", t.TCP, t.TCP+t.RDMA+t.Plugin))
	}
	if t.RDMA > t.RDMAGPUDirect {
		r.follow(&signature.NoGPUDirect, fmt.Sprintf("%d of %d RDMA connections", t.RDMA-t.RDMAGPUDirect, t.RDMA))
	}
}

func (r *reading) follow(s *signature.Signature, text string) {
	r.Findings = append(r.Findings, Finding{Signature: s, Count: 1, Rank: nccllog.Unknown, Code: signature.NoCode, Text: text})
}

// Transports are numbers of connections, one per channel and direction, as both sides log them.
type Transports struct {
	RDMA, RDMAGPUDirect int // of NCCL's verbs network, and those of them that use GPUDirect RDMA
	TCP                 int // TCP, except where the site installed it as a network of its own (FastSocket)
	Plugin              int // of other networks
	P2P, SHM, SHARP     int
}

// Transports counts the connections.
func (r *Result) Transports() Transports {
	var t Transports
	for _, l := range r.Log.Links {
		switch l.Via {
		case nccllog.P2P:
			t.P2P += l.Count
		case nccllog.SHM:
			t.SHM += l.Count
		case nccllog.CollNet:
			t.SHARP += l.Count
		case nccllog.Net:
			t.network(l)
		}
	}
	return t
}

// String lists the connections.
func (t Transports) String() string {
	var parts []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	add(t.RDMA, "RDMA (%d with GPUDirect RDMA)", t.RDMAGPUDirect)
	add(t.TCP, "TCP")
	add(t.Plugin, "of a network plugin")
	add(t.P2P, "P2P")
	add(t.SHM, "shared memory")
	add(t.SHARP, "SHARP")
	if len(parts) == 0 {
		return "the log shows none (they are at the level INFO of the subsystems INIT and NET)"
	}
	return strings.Join(parts, ", ")
}

func (t *Transports) network(l nccllog.Link) {
	switch carrier := nccllog.CarrierOf(l.Name); {
	case carrier == nccllog.Verbs:
		t.RDMA += l.Count
		if l.GPUDirect {
			t.RDMAGPUDirect += l.Count
		}
	case carrier == nccllog.Sockets && l.Name != nccllog.FastSocket:
		t.TCP += l.Count
	default:
		t.Plugin += l.Count
	}
}

// RingsGPUDirect reports whether all ring connections between hosts use GPUDirect RDMA, and whether the log says so (NCCL 2.24 and
// later).
func (r *Result) RingsGPUDirect() (all, known bool) {
	return r.Log.RingsGPUDirect == nccllog.Yes, r.Log.RingsGPUDirect != nccllog.NotSaid
}
