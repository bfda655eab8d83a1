// SPDX-License-Identifier: Apache-2.0

package site

import (
	"testing"
	"testing/synctest"
	"time"
)

// slowGPUs are those of a process that takes seconds to end.
type slowGPUs struct {
	*fakeGPUs
	began chan struct{}
}

func (s *slowGPUs) Release(reason string) error {
	close(s.began)
	time.Sleep(3 * time.Second)
	return s.fakeGPUs.Release(reason)
}

// Nobody waits for the end of a process to be told whether the GPUs are released.
func TestReleaseHoldsNoLock(t *testing.T) {
	h := newGPUHost(t)
	synctest.Test(t, func(t *testing.T) {
		slow := &slowGPUs{h.worker, make(chan struct{})}
		h.GPUAccess.worker = slow
		go h.toggle()
		<-slow.began
		if !h.mu.TryLock() {
			t.Fatal("the lock is held while a process ends")
		}
		h.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := h.worker.barred; got != "SIGUSR1" {
			t.Errorf("released because of %q", got)
		}
	})
}
