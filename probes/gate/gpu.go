// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
)

// idleness is since when a GPU is seen to be idle.
type idleness struct {
	since time.Time // of the first of the readings without a gap that all say idle
	last  time.Time // of the last reading
	used  *refusal  // what was seen when it last was not idle; nil: never
	at    time.Time // of used
}

// counter is what is known of a counter of errors.
type counter struct {
	value uint64
	since time.Time // of the first reading that gave this value
	grew  bool      // another reading came before it, with less
	reset bool      // another reading came before it, with more
}

// lookAtGPUs reads the GPUs and judges what it sees.
func (g *Gate) lookAtGPUs(ctx context.Context, gpus []string, full bool) *refusal {
	if len(gpus) == 0 {
		return refuse(probes.SkipNoGPU, "no GPU to probe")
	}
	if g.o.GPUs == nil {
		return unproven("no reader of GPUs")
	}
	var d fabric.GPUDriver
	for range 2 { // the first reading may come with the initialisation of the library
		began := time.Now()
		var err error
		if d, err = g.o.GPUs.Read(ctx, full); err != nil {
			return unproven("GPUs: %v", err)
		}
		if time.Since(began) <= maxAge {
			break
		}
	}
	now := time.Now()
	if d.Released != "" {
		return refuse(probes.SkipMaintenance, "%s", d.Released)
	}
	switch loaded, ok := d.Loaded.Get(); {
	case !ok:
		return unproven("whether there is a driver: %s", d.Loaded.Meta().Reason)
	case !loaded:
		return refuse(probes.SkipNoGPU, "NVIDIA's driver is not loaded")
	}
	var r *refusal
	if full {
		g.countErrors(d.GPUs, now)
	}
	seen := map[string]bool{}
	for i := range d.GPUs {
		gpu := &d.GPUs[i]
		if gpu.UUID != "" && seen[gpu.UUID] {
			r = worse(r, unproven("two GPUs are %s", gpu.UUID))
		}
		seen[gpu.UUID] = true
		if !slices.Contains(gpus, gpu.UUID) {
			r = worse(r, g.others(gpu, now))
			continue
		}
		r = worse(r, g.idleNow(gpu, now))
		if full {
			r = worse(r, modes(gpu, now))
			r = worse(r, g.linkErrors(gpu, now))
		}
	}
	for _, uuid := range gpus {
		if uuid == "" || !seen[uuid] {
			r = worse(r, unproven("the driver has no GPU %q", uuid))
		}
	}
	return r
}

// need returns the value of a fact that was read just now.
func need[T any](f fabric.Fact[T], what string, gpu *fabric.GPU, now time.Time) (T, *refusal) {
	v, ok := f.Get()
	age := now.Sub(f.At)
	switch {
	case !ok && f.State == fabric.Absent:
		return v, unproven("%s of %s: there is none", what, nameOf(gpu))
	case !ok:
		return v, unproven("%s of %s: %s", what, nameOf(gpu), f.Meta().Reason)
	case age < 0 || age > maxAge:
		return v, unproven("%s of %s was read %s ago, expected %s at most", what, nameOf(gpu), age.Round(time.Millisecond),
			maxAge)
	}
	return v, nil
}

func nameOf(gpu *fabric.GPU) string {
	if gpu.UUID != "" {
		return gpu.UUID
	}
	return fmt.Sprintf("GPU %d", gpu.Index)
}

// others judges a GPU that is not to be probed: nothing may compute on it. A display is no job, whatever memory it
// has. Without a process, memory that is in use is that of a job which the driver does not show.
func (g *Gate) others(gpu *fabric.GPU, now time.Time) *refusal {
	list, r := need(gpu.Processes, "processes", gpu, now)
	if r != nil {
		return r
	}
	for _, p := range list {
		if p.Kind != fabric.GPUGraphics {
			return processOn(gpu, p)
		}
	}
	if len(list) > 0 {
		return nil
	}
	return g.memoryInUse(gpu, othersMargin, now)
}

// memoryInUse judges memory beyond that of a GPU that nothing uses, and a margin.
func (g *Gate) memoryInUse(gpu *fabric.GPU, margin uint64, now time.Time) *refusal {
	memory, unread := need(gpu.Memory, "memory", gpu, now)
	switch {
	case unread != nil:
		return unread
	case memory.Total == 0 || memory.Used > memory.Total:
		return unproven("memory of %s: %d of %d bytes are used", nameOf(gpu), memory.Used, memory.Total)
	case memory.Used > margin && memory.Used-margin > g.o.IdleMemory:
		return refuse(probes.SkipMemory, "%d MiB are used on %s, expected %d at most", memory.Used>>20, nameOf(gpu),
			(margin+g.o.IdleMemory)>>20)
	}
	return nil
}

func processOn(gpu *fabric.GPU, p fabric.GPUProcess) *refusal {
	why := probes.SkipProcess
	if p.Kind == fabric.GPUMPS {
		why = probes.SkipMPS
	}
	return refuse(why, "%s process %d on %s", p.Kind, p.PID, nameOf(gpu))
}

// idleNow judges what changes with jobs, and whether it has been so for so long.
func (g *Gate) idleNow(gpu *fabric.GPU, now time.Time) *refusal {
	r := g.activity(gpu, now)
	seen, known := g.idle[gpu.UUID]
	if !known || seen.since.IsZero() || now.Sub(seen.last) > g.gap || now.Before(seen.last) {
		seen.since = now
	}
	seen.last = now
	if r != nil {
		seen.since = time.Time{}
		if r.why != probes.SkipCannotProveIdle {
			seen.used, seen.at = r, now
		}
	}
	g.idle[gpu.UUID] = seen
	switch {
	case r != nil:
		return r
	case seen.used != nil && now.Sub(seen.at) < g.o.Quiet:
		return refuse(seen.used.why, "%s, %s ago", seen.used.detail, now.Sub(seen.at).Round(time.Second))
	case now.Sub(seen.since) < g.o.Quiet:
		r = unproven("%s has been watched for %s, expected %s", gpu.UUID, now.Sub(seen.since).Round(time.Second), g.o.Quiet)
		r.wait = true
		return r
	}
	return nil
}

// inUse judges whether a process has a context or memory on the GPU.
func (g *Gate) inUse(gpu *fabric.GPU, now time.Time) *refusal {
	lost, r := need(gpu.Lost, "presence", gpu, now)
	if r == nil && lost {
		r = unproven("the driver has lost %s", gpu.UUID)
	}
	if r != nil {
		return r
	}
	list, r := need(gpu.Processes, "processes", gpu, now)
	if r == nil && len(list) > 0 {
		return processOn(gpu, list[0])
	}
	return worse(r, g.memoryInUse(gpu, memoryMargin, now))
}

// activity judges one reading.
func (g *Gate) activity(gpu *fabric.GPU, now time.Time) *refusal {
	r := g.inUse(gpu, now)
	if r != nil && r.why != probes.SkipCannotProveIdle {
		return r
	}
	utilization, unread := need(gpu.Utilization, "utilisation", gpu, now)
	switch {
	case unread != nil:
	case math.IsNaN(utilization) || utilization < 0 || utilization > 1:
		unread = unproven("utilisation of %s is %g", gpu.UUID, utilization)
	case utilization > 0:
		return refuse(probes.SkipUtilization, "%.0f %% on %s", 100*utilization, gpu.UUID)
	}
	r = worse(r, unread)
	reasons, unread := need(gpu.ClockReasons, "reasons for low clocks", gpu, now)
	switch names := reasons.Throttles(); {
	case unread != nil:
	case len(names) > 0:
		return refuse(probes.SkipThrottled, "%s: %s", gpu.UUID, strings.Join(names, ", "))
	case reasons&^knownReasons != 0:
		unread = unproven("reasons %#x for low clocks of %s, of which %#x is unknown", uint64(reasons), gpu.UUID,
			uint64(reasons&^knownReasons))
	}
	return worse(r, unread)
}

// knownReasons are all nvmlClocksEventReason* up to driver 580.
const knownReasons = 0x1ff

// modes judges what administrators set.
func modes(gpu *fabric.GPU, now time.Time) *refusal {
	mode, r := need(gpu.ComputeMode, "compute mode", gpu, now)
	if r == nil && mode != fabric.ComputeDefault {
		return refuse(probes.SkipComputeMode, "%s is in mode %s", gpu.UUID, mode)
	}
	if gpu.MIG.State != fabric.Absent {
		mig, unread := need(gpu.MIG, "MIG", gpu, now)
		if unread == nil && mig {
			return refuse(probes.SkipMIG, "%s is divided", gpu.UUID)
		}
		r = worse(r, unread)
	}
	persistence, unread := need(gpu.Persistence, "persistence", gpu, now)
	if unread == nil && !persistence {
		return refuse(probes.SkipPersistence, "off on %s", gpu.UUID)
	}
	return worse(r, unread)
}
