// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// GPUs asks NVIDIA's driver, in a process of its own. It is called by one goroutine at a time. A read ends for itself,
// but later than a scrape wants to wait.
type GPUs interface {
	// Read reads what changes; the rest it takes from last, unless slow is set or there is no last. A node without a
	// driver is an answer, not an error; of what comes with an error only Loaded is used. The pids are those of the
	// reader's namespace.
	Read(last fabric.GPUDriver, slow bool, now time.Time) (fabric.GPUDriver, error)
	Close() error
}

// gpuFacts is one reading of the GPUs' driver. It is replaced, never changed.
type gpuFacts struct {
	driver fabric.GPUDriver  // the last that was read without error: who was there is known while it fails
	loaded fabric.Fact[bool] // a driver may be loaded and not answer
	began  time.Time
	slow   time.Time // when slow facts were read; zero after a failure, because another driver may be there then
}

// closingGPUs bounds how long Close waits for the process that holds the GPUs.
const closingGPUs = time.Second

// startGPUsIfDue starts a read of the GPUs if one is due, and returns what to wait for.
func (ob *Observer) startGPUsIfDue(now time.Time, want fabric.Want) <-chan struct{} {
	if want&fabric.WantGPU == 0 || ob.o.GPUs == nil {
		return nil
	}
	return ob.gpus.startIfStale(since[gpuFacts](now, ob.o.FastInterval), func(last gpuFacts, now time.Time) (gpuFacts, error) {
		slow := last.slow.IsZero() || now.Sub(last.slow) >= ob.o.SlowInterval
		driver, err := ob.o.GPUs.Read(last.driver, slow, now)
		if err != nil {
			return gpuFacts{driver: last.driver, loaded: driver.Loaded, began: now}, err
		}
		next := gpuFacts{driver: driver, loaded: driver.Loaded, began: now, slow: last.slow}
		if slow {
			next.slow = now
		}
		return next, nil
	})
}

// assembleGPUs waits for a read that startGPUsIfDue started, and returns when the read that is shown began. While it hangs
// or fails, which GPUs there are stays known, and nothing else.
func (ob *Observer) assembleGPUs(ctx context.Context, n *fabric.Node, want fabric.Want, done <-chan struct{}) (began time.Time) {
	if want&fabric.WantGPU == 0 || ob.o.GPUs == nil {
		return n.At
	}
	if done != nil {
		ob.gpus.lane.wait(ctx, done)
	}
	v, src := ob.gpus.get(fabric.SourceGPU, "", since[gpuFacts](n.At, ob.o.FastInterval))
	n.Sources = append(n.Sources, src)
	if !src.Up {
		n.GPUDriver = v.driver.WithoutFacts(src.Reason, n.At)
		if v.loaded.State == fabric.OK && src.Since.IsZero() && src.Reason != fabric.ReasonPanic {
			n.GPUDriver.Loaded = v.loaded
		}
		return n.At
	}
	n.GPUDriver = v.driver
	return v.began
}
