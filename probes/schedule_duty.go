// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"time"
)

// duty keeps the share of its time for which a GPU has contexts of probes below a limit. Each GPU has an account: it
// earns share seconds a second, up to a ceiling, and pays for contexts. A probe must be able to pay what it cost last
// time, and if it costs more the account is in debt.
//
// An account starts empty, also when the state file was lost. So the limit holds over any number of restarts and
// crashes, and the price is that the first probe waits until it is earned.
type duty struct {
	share   float64 // more than 0, 1 at most
	ceiling time.Duration
	gpus    map[string]account // by UUID
}

// account is that of a GPU.
type account struct {
	balance time.Duration
	at      time.Time // of the balance
}

const (
	savings  = 6 * time.Hour // of earning that an account holds
	gpusMost = 256           // accounts
)

// newDuty returns empty accounts that can hold three runs of the longest kind at least.
func newDuty(share float64, longest time.Duration) *duty {
	ceiling := max(time.Duration(share*float64(savings)), 3*longest)
	return &duty{share: share, ceiling: ceiling, gpus: map[string]account{}}
}

// open sees to it that GPUs have accounts, and closes some of others when there are too many. It tells whether it opened any.
func (d *duty) open(gpus []string, now time.Time) (opened bool) {
	for _, gpu := range gpus {
		if _, ok := d.gpus[gpu]; !ok {
			d.gpus[gpu] = account{at: now}
			opened = true
		}
	}
	for gpu := range d.gpus {
		if len(d.gpus) > gpusMost && !slices.Contains(gpus, gpu) {
			delete(d.gpus, gpu)
		}
	}
	return opened
}

// balance is what a GPU can pay. It is negative in debt.
func (d *duty) balance(gpu string, now time.Time) time.Duration {
	a, ok := d.gpus[gpu]
	if !ok {
		return 0
	}
	earned := time.Duration(d.share * float64(max(now.Sub(a.at), 0)))
	return min(a.balance+earned, d.ceiling)
}

// pay takes the cost from an account, or gives it back if it is negative.
func (d *duty) pay(gpu string, cost time.Duration, now time.Time) {
	d.gpus[gpu] = account{d.balance(gpu, now) - cost, now}
}

// wait is how long it takes until a GPU can pay; 0 if it can.
func (d *duty) wait(gpu string, cost time.Duration, now time.Time) time.Duration {
	missing := min(cost, d.ceiling) - d.balance(gpu, now)
	if missing <= 0 {
		return 0
	}
	return min(time.Duration(float64(missing)/d.share)+time.Millisecond, 365*24*time.Hour)
}
