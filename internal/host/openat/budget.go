// SPDX-License-Identifier: Apache-2.0

package openat

import "sync"

// Budget counts the descriptors that several readers keep open, so that all of them together leave enough for
// everything else of the process. What is beyond it is opened for each read, at twenty times the cost. Nil is
// one without a limit.
type Budget struct {
	mu      sync.Mutex
	limit   int
	open    int
	refused uint64
}

// NewBudget returns a budget of that many descriptors; with 0 none stays open.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// Take reports whether one more descriptor may stay open. If so it is given back with Give.
func (b *Budget) Take() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= b.limit {
		b.refused++
		return false
	}
	b.open++
	return true
}

// Give gives back one that was taken.
func (b *Budget) Give() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
}

// Kept is how many descriptors stay open.
func (b *Budget) Kept() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Refused is how often something was opened for one use.
func (b *Budget) Refused() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}
