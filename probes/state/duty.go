// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"gpufabric_exporter/probes"
)

// duty limits the share of its time for which a GPU has contexts of probes. Each GPU has a budget of seconds: it grows
// by share seconds a second, up to a ceiling, and contexts are charged to it. A probe waits until the budget holds
// what it cost last time, and if it costs more the balance becomes negative.
//
// A budget starts empty, also when the state file was lost. So the limit holds over any number of restarts and
// crashes, at the cost that the first probe waits until the budget has grown.
type duty struct {
	share   float64 // more than 0, 1 at most
	ceiling time.Duration
	GPUs    map[string]account // by UUID
}

// account is the budget of a GPU.
type account struct {
	balance time.Duration
	at      time.Time // of the balance
}

const growthHeld = 6 * time.Hour // of growth that an account holds

// newDuty returns empty accounts that can hold three runs of the longest kind at least.
func newDuty(share float64, longest time.Duration) *duty {
	ceiling := max(time.Duration(share*float64(growthHeld)), 3*longest)
	return &duty{share: share, ceiling: ceiling, GPUs: map[string]account{}}
}

// open gives GPUs accounts, closes some of others when there are too many, and reports whether it opened any.
func (d *duty) Open(gpus []string, now time.Time) (opened bool) {
	for _, gpu := range gpus {
		if _, ok := d.GPUs[gpu]; !ok {
			d.GPUs[gpu] = account{at: now}
			opened = true
		}
	}
	for gpu := range d.GPUs {
		if len(d.GPUs) > probes.GPUsMost && !slices.Contains(gpus, gpu) {
			delete(d.GPUs, gpu)
		}
	}
	return opened
}

// balance is the budget of a GPU, negative where probes have cost more than expected.
func (d *duty) balance(gpu string, now time.Time) time.Duration {
	a, ok := d.GPUs[gpu]
	if !ok {
		return 0
	}
	earned := time.Duration(d.share * float64(max(now.Sub(a.at), 0)))
	return min(a.balance+earned, d.ceiling)
}

// charge takes the cost from an account. A negative cost is returned to it.
func (d *duty) Charge(gpu string, cost time.Duration, now time.Time) {
	d.GPUs[gpu] = account{d.balance(gpu, now) - cost, now}
}

// wait returns how long it takes until the budget of a GPU holds the cost; 0 if it does.
func (d *duty) Wait(gpu string, cost time.Duration, now time.Time) time.Duration {
	missing := min(cost, d.ceiling) - d.balance(gpu, now)
	if missing <= 0 {
		return 0
	}
	return min(time.Duration(float64(missing)/d.share)+time.Millisecond, 365*24*time.Hour)
}
