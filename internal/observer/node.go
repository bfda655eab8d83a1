// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"os"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/inside"
)

// hostFacts is one reading of the node itself. What few ask for has a time of its own.
type hostFacts struct {
	host      fabric.Host
	daemonsAt time.Time
	gpus      fabric.Fact[int]
	direct    fabric.GPUDirect
	directAt  time.Time
}

// freshHost reports whether what is wanted of the node itself is known well enough.
func (ob *Observer) freshHost(now time.Time, want fabric.Want) func(hostFacts, time.Time) bool {
	return func(v hostFacts, began time.Time) bool {
		return ob.young(began, now, false) && (want&fabric.WantDaemons == 0 || ob.young(v.daemonsAt, now, false)) &&
			(want&fabric.WantGPU == 0 || ob.young(v.directAt, now, false))
	}
}

func (ob *Observer) readHost(want fabric.Want) func(hostFacts, time.Time) (hostFacts, error) {
	return func(last hostFacts, now time.Time) (hostFacts, error) {
		next := last
		next.host, next.gpus = ob.host.Host(last.host, now), ob.host.GPUs(now)
		next.host.Daemons = last.host.Daemons
		if want&fabric.WantDaemons != 0 {
			next.host.Daemons, next.daemonsAt = ob.host.Daemons(now), now
		}
		if want&fabric.WantGPU != 0 {
			next.direct, next.directAt = ob.host.GPUDirect(now), now
		}
		return next, nil
	}
}

func (l *look) startHost() { l.node.startIfStale(l.freshHost(l.now, l.want), l.readHost(l.want)) }

func (l *look) awaitHost() { l.node.refresh(l.ctx, l.freshHost(l.now, l.want), l.readHost(l.want)) }

func (l *look) assembleHost() {
	n := l.n
	h, src := sourced(l, l.node, fabric.SourceHost, l.freshHost(l.now, l.want))
	n.Host, n.GPUs, n.GPUDirect = h.host, h.gpus, h.direct
	if !src.Up {
		n.Host.Daemons = fabric.UnknownFact[[]fabric.Daemon](src.Reason, "", n.At)
		n.GPUDirect = fabric.UnknownGPUDirect(src.Reason, n.At)
	}
}

// observeInside reads what a job finds here. Until that is read, and where a folder does not answer, nothing
// of it is known.
func (l *look) observeInside() {
	r := inside.Reader{
		Dev: l.o.Rootfs + "/dev", Sysfs: l.o.Sysfs, Procfs: l.o.Procfs, Root: l.o.Rootfs,
		LibraryPath: l.o.LibraryPath, Environment: os.LookupEnv,
	}
	fresh := since[fabric.Inside](l.now, l.o.FastInterval)
	l.inside.refresh(l.ctx, fresh, func(_ fabric.Inside, now time.Time) (fabric.Inside, error) { return r.Read(now), nil })
	in, _ := sourced(l, l.inside, fabric.SourceInside, fresh)
	l.n.Inside = &in
}
