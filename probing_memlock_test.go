// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
)

// A rail is not probed by ranks that cannot lock memory; other kinds register none.
func TestRailNeedsMemory(t *testing.T) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max >= fabric.EnoughMemlock {
		t.Skipf("the limit of locked memory of this process is %d bytes, and lowering it cannot be undone", l.Max)
	}
	for _, c := range []struct {
		kind probes.Kind
		want bool
	}{{probes.Rail, true}, {probes.Transport, false}, {probes.Node, false}} {
		var skipped *probes.Skipped
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlock: the thread ends with what it lost
			var data [2]unix.CapUserData
			if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
				t.Error(err)
				return
			}
			_, skipped = vetRanks(&plan.Plan{Key: probes.Key{Kind: c.kind}}, slog.New(slog.DiscardHandler))
		}()
		<-done
		if got := skipped != nil && skipped.Why == probes.SkipMemlock && strings.Contains(skipped.Detail, "RLIMIT_MEMLOCK"); got != c.want {
			t.Errorf("%s: %+v", c.kind, skipped)
		}
	}
}
