// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	leastHeap = 11 << 19 // bytes, at which garbage is collected however little of it is in use
	// bytes, beyond what is in use, at which it is collected in any case: under attack the unit's limit is near
	mostGarbage = 24 << 20
	headroom    = 1 << 20 // that Go's runtime leaves below a memory limit
)

// collectByNeed has garbage collected when the heap has twice the size of what was in use after the last
// collection, as is Go's default, or mostGarbage more if that is less; but not every two minutes besides:
// between scrapes 15 s apart there is little to collect, and to look for it costs an eighth of them. Without
// a percentage Go collects only to stay below a limit, so each collection sets the next one.
func collectByNeed() {
	type sentinel struct{ _ [16]byte } // nothing refers to it: its finalizer runs after each collection
	var collected func(*sentinel)
	collected = func(s *sentinel) {
		debug.SetMemoryLimit(nextLimit())
		runtime.SetFinalizer(s, collected)
	}
	debug.SetGCPercent(-1)
	collected(new(sentinel))
}

// nextLimit is how much memory Go's runtime may have when it collects garbage next, in bytes.
func nextLimit() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	beside := samples[0].Value.Uint64()
	for _, heap := range samples[1:4] {
		beside -= heap.Value.Uint64()
	}
	live := samples[4].Value.Uint64()
	return int64(beside + max(leastHeap, live+min(live, mostGarbage)) + headroom)
}
