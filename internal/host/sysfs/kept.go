// SPDX-License-Identifier: Apache-2.0

package sysfs

import "sync"

// kept counts the descriptors of attributes and of their directories that stay open. What is beyond the limit is opened
// for each read, at twenty times the cost.
type kept struct {
	mu      sync.Mutex
	limit   int
	open    int
	refused uint64
}

// Keep limits how many descriptors stay open, beside one for each device; 0 keeps none. What is open already stays.
func (f *FS) Keep(limit int) {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	f.kept.limit = limit
}

// Uncached tells how often something was opened for one use because no descriptor was left to keep it open with.
func (f *FS) Uncached() uint64 {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	return f.kept.refused
}

func (k *kept) take() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open >= k.limit {
		k.refused++
		return false
	}
	k.open++
	return true
}

func (k *kept) give() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open--
}
