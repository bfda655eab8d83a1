// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// modules has a folder for each module that is loaded; memoryPeers one for each client that ib_core lets translate
// addresses for it (peer_mem.c of MLNX_OFED and of Ubuntu's kernels). ib_core of other kernels has no clients.
const (
	modules     = "module"
	memoryPeers = "kernel/mm/memory_peers"
)

// peermemClients are the names under which peer-memory modules of GPUs are clients: the second with
// peerdirect_support=1, which is for MLNX_OFED 4.9.
func peermemClients() []string { return []string{"nv_mem", "nv_mem_nc"} }

// Peermem reads which module lets RDMA drivers pin memory of GPUs, whether ib_core knows it, and how much it is used.
// Without one it is absent.
func (f *FS) Peermem(now time.Time) fabric.Fact[fabric.Peermem] {
	const source = modules + "/{" + fabric.ModuleNvidiaPeermem + "," + fabric.ModuleNvPeerMem + "} and " + memoryPeers
	r := f.reader()
	p, loaded, err := f.peermemModule(r, now)
	if err != nil {
		return fabric.UnknownFact[fabric.Peermem](fabric.ReasonOf(err), source, now)
	}
	p.Bound, p.Registered = f.peermemUse(r, now)
	if !loaded && !p.Bound.Or(false) {
		if p.Bound.State == fabric.Unknown && p.Bound.Reason != fabric.ReasonMissing {
			return fabric.UnknownFact[fabric.Peermem](p.Bound.Reason, p.Bound.Source, now)
		}
		return fabric.AbsentFact[fabric.Peermem](source, now)
	}
	return fabric.Known(p, source, now)
}

// peermemModule looks for the modules. Where the kernel shows no modules at all nothing is known.
func (f *FS) peermemModule(r *reader, now time.Time) (p fabric.Peermem, loaded bool, err error) {
	all := &dir{fs: f, path: modules}
	defer all.close()
	if _, err := all.fd(); err != nil {
		return p, false, err
	}
	for _, name := range []string{fabric.ModuleNvidiaPeermem, fabric.ModuleNvPeerMem} {
		module := all.sub(name)
		_, err := module.fd()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return p, false, err
		}
		defer module.close()
		return fabric.Peermem{Module: name, Version: optional(textFact(r.readOnce(module, "version"), now))}, true, nil
	}
	p.Version = fabric.AbsentFact[string](modules, now)
	return p, false, nil
}

// peermemUse reports whether ib_core has such a client, and how many memory regions it holds for them now: those that
// were registered less those that were let go. The latter are read first, so that the rest is not below zero.
func (f *FS) peermemUse(r *reader, now time.Time) (bound fabric.Fact[bool], registered fabric.Fact[uint64]) {
	all := &dir{fs: f, path: memoryPeers}
	defer all.close()
	if _, err := all.fd(); err != nil {
		why := fabric.ReasonOf(err)
		return fabric.UnknownFact[bool](why, memoryPeers, now), fabric.UnknownFact[uint64](why, memoryPeers, now)
	}
	bound, registered = fabric.Known(false, memoryPeers, now), fabric.AbsentFact[uint64](memoryPeers, now)
	for _, name := range peermemClients() {
		client := all.sub(name)
		_, err := client.fd()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			why := fabric.ReasonOf(err)
			return fabric.UnknownFact[bool](why, client.path, now), fabric.UnknownFact[uint64](why, client.path, now)
		}
		bound = fabric.Known(true, client.path, now)
		held := r.regions(client, now)
		client.close()
		switch {
		case registered.State == fabric.Unknown: // of the one before
		case registered.State == fabric.OK && held.State == fabric.OK:
			registered.Value += held.Value
		default:
			registered = held
		}
	}
	return bound, registered
}

func (r *reader) regions(client *dir, now time.Time) fabric.Fact[uint64] {
	freed := factOf(r.readOnce(client, "num_dealloc_mrs"), now, parseRegions)
	made := factOf(r.readOnce(client, "num_alloc_mrs"), now, parseRegions)
	switch {
	case freed.State != fabric.OK:
		return freed
	case made.State != fabric.OK:
		return made
	case made.Value < freed.Value:
		return fabric.UnknownFact[uint64](fabric.ReasonMalformed, made.Source, now)
	}
	made.Value -= freed.Value
	return made
}

// parseRegions reads num_alloc_mrs and num_dealloc_mrs: an atomic64_t, which is never negative before it is worn out.
func parseRegions(b []byte) (uint64, bool) {
	v, ok := parseCounter(b)
	return v, ok && v < 1<<63
}
