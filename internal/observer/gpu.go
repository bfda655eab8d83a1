// SPDX-License-Identifier: Apache-2.0

package observer

import (
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

// startGPUs starts a read of the GPUs if one is due.
func (l *look) startGPUs() {
	if l.o.GPUs == nil {
		return
	}
	l.gpusDone = l.gpus.startIfStale(since[gpuFacts](l.now, l.o.FastInterval),
		func(last gpuFacts, now time.Time) (gpuFacts, error) {
			slow := last.slow.IsZero() || now.Sub(last.slow) >= l.o.SlowInterval
			driver, err := l.o.GPUs.Read(last.driver, slow, now)
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

// assembleGPUs waits for a read that startGPUs started. While it hangs or fails, which GPUs there are stays
// known, and nothing else.
func (l *look) assembleGPUs() {
	if l.o.GPUs == nil {
		return
	}
	l.gpus.lane.wait(l.ctx, l.gpusDone)
	v, src := sourced(l, l.gpus, fabric.SourceGPU, since[gpuFacts](l.now, l.o.FastInterval))
	if src.Up {
		l.n.GPUDriver = v.driver
		l.asOf(v.began)
		return
	}
	l.n.GPUDriver = v.driver.WithoutFacts(src.Reason, l.now)
	if v.loaded.State == fabric.OK && src.Since.IsZero() && src.Reason != fabric.ReasonPanic {
		l.n.GPUDriver.Loaded = v.loaded
	}
}
