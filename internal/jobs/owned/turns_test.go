// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"testing"
	"testing/synctest"

	"gpufabric_exporter/internal/fabric"
)

// Reads that do not return keep so many threads and no more, each for one owner, and count when they have returned.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		hang := make(chan struct{})
		ended := 0
		of := func(i int) fabric.FileOwner { return fabric.FileOwner{UID: uint32(i)} }
		for i := range maxLate {
			if turns.Busy(of(i)) {
				t.Fatalf("owner %d is busy", i)
			}
			turns.Take(of(i), func() { <-hang }, func() { ended++ })
			if !turns.Busy(of(i)) || ended != 0 {
				t.Errorf("owner %d is not busy, or ended", i)
			}
		}
		if !turns.Busy(of(maxLate)) {
			t.Error("one thread more than there may be")
		}
		if turns.Collect(); ended != 0 {
			t.Error("ended too early")
		}
		close(hang)
		synctest.Wait()
		if turns.Collect(); ended != maxLate || turns.Busy(of(0)) {
			t.Errorf("%d ended", ended)
		}
		turns.Take(of(0), func() {}, func() { ended++ })
		if ended != maxLate+1 || turns.Busy(of(0)) {
			t.Error("one that returns at once is late")
		}
	})
}
