// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"sync"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Session reads GPUs for a while, through a process of its own that lives from the first reading to Release. The
// gate of probes needs facts of this moment, and must not wait for reads on behalf of scrapers.
//
// It may be used by any number of goroutines, which wait for each other.
type Session struct {
	open func() Caller

	mu     sync.Mutex
	client *Client // nil: there is no process
	last   fabric.GPUDriver
}

// NewSession returns a Session that gets each process from open.
func NewSession(open func() Caller) *Session { return &Session{open: open} }

// Read reads the fast facts, with modes the slow ones too. The others are those of the first reading of the
// process. When ctx ends, so does the reading.
func (s *Session) Read(ctx context.Context, modes bool) (fabric.GPUDriver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil { // waited for too long: no process is started for it
		return fabric.GPUDriver{}, err
	}
	d, err := s.started().read(ctx, s.last, modes, time.Now())
	if err != nil {
		s.last = fabric.GPUDriver{}
		return d, err
	}
	s.last = d
	return d, nil
}

// Processes is that of Client.
func (s *Session) Processes(ctx context.Context) ([]fabric.GPU, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.started().Processes(ctx, time.Now())
}

// started has the lock.
func (s *Session) started() *Client {
	if s.client == nil {
		s.client = NewClient(s.open())
	}
	return s.client
}

// Release ends the process. The next reading starts another.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		_ = s.client.Close() // its owner logs what the kernel does not release
		s.client, s.last = nil, fabric.GPUDriver{}
	}
}
