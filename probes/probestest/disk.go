// SPDX-License-Identifier: Apache-2.0

package probestest

import (
	"bytes"
	"sync/atomic"
)

// Disk is a store in memory.
type Disk struct {
	Data   []byte
	Err    error
	Hang   chan struct{} // not nil: whatever is asked waits for it
	Frozen atomic.Bool   // writes have no effect, and return no error
}

// Load implements state.Store.
func (d *Disk) Load() ([]byte, error) {
	if d.Hang != nil {
		<-d.Hang
	}
	return bytes.Clone(d.Data), d.Err
}

// Save implements state.Store.
func (d *Disk) Save(data []byte) error {
	if d.Hang != nil {
		<-d.Hang
	}
	if d.Err == nil && !d.Frozen.Load() {
		d.Data = bytes.Clone(data)
	}
	return d.Err
}
