// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// errorCounters calls f with each counter of errors of a GPU's links. It returns what cannot be read of them.
func errorCounters(gpu *fabric.GPU, now time.Time, f func(key string, value uint64)) *refusal {
	replays, r := need(gpu.PCIeReplays, "PCIe replays", gpu, now)
	if r == nil {
		f("pcie/replay", replays)
	}
	if gpu.NVLinks.State == fabric.Absent {
		return r
	}
	links, ok := gpu.NVLinks.Get()
	if !ok {
		return worse(r, unproven("NVLinks of %s: %s", nameOf(gpu), gpu.NVLinks.Meta().Reason))
	}
	for i := range links {
		l := &links[i]
		active, unread := need(l.Active, fmt.Sprintf("NVLink %d", l.Number), gpu, now)
		if unread == nil && active && len(l.Errors) == 0 {
			unread = unproven("NVLink %d of %s counts no errors", l.Number, nameOf(gpu))
		}
		r = worse(r, unread)
		for _, e := range l.Errors {
			n, unread := need(e.Count, fmt.Sprintf("NVLink %d %s", l.Number, e.Kind), gpu, now)
			if r = worse(r, unread); unread == nil {
				f(fmt.Sprintf("nvlink %d/%s", l.Number, e.Kind), n)
			}
		}
	}
	return r
}

// countErrors remembers the counters of all GPUs, and since when they stand.
func (g *Gate) countErrors(gpus []fabric.GPU, now time.Time) {
	links := make(map[string]counter, len(g.links))
	for i := range gpus {
		gpu := &gpus[i]
		_ = errorCounters(gpu, now, func(key string, value uint64) { // who judges looks at what cannot be read
			key = gpu.UUID + "/" + key
			c, known := g.links[key]
			switch {
			case !known:
				c = counter{value: value, since: now}
			case value > c.value:
				c = counter{value: value, since: now, grew: true}
			case value < c.value:
				c = counter{value: value, since: now, reset: true}
			}
			links[key] = c
		})
	}
	g.links = links
}

// linkErrors judges whether a link had errors within linkTime. A counter that stands is proof, and so is one that was
// 0 when it was first seen: they count from when the driver was loaded. That of a first reading that is not 0 is none,
// nor is one that was reset.
func (g *Gate) linkErrors(gpu *fabric.GPU, now time.Time) *refusal {
	var found *refusal
	r := errorCounters(gpu, now, func(key string, value uint64) {
		c := g.links[gpu.UUID+"/"+key]
		switch stood := now.Sub(c.since); {
		case stood >= linkTime:
		case c.grew:
			found = worse(found, refuse(probes.SkipLinkErrors, "%s of %s has grown to %d, %s ago at most", key, gpu.UUID, value,
				stood.Round(time.Second)))
		case value != 0 || c.reset:
			found = worse(found, unproven("%s of %s is %d and has been watched for %s, expected %s", key, gpu.UUID, value,
				stood.Round(time.Second), linkTime))
		}
	})
	return worse(r, found)
}
