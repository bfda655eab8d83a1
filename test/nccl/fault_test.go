// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFaults plants what the program rank can do to a job, and sees it.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, "")
		t.Run("crash", func(t *testing.T) {
			ranks := n.job(t, r, 50, []string{"NCCL_NET=Socket"}, hosts[0], append([]string{"RIG_CRASH=10"}, hosts[1]...))
			if end := ranks[1].ended(t, 20*time.Second); end.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSEGV {
				t.Errorf("rank 1: %v, expected SIGSEGV:\n%s", end, tail(ranks[1].output()))
			}
			waitFor(t, ranks[0], "NCCL WARN")
		})
		t.Run("abort", func(t *testing.T) {
			ranks := n.job(t, r, 50, []string{"NCCL_NET=Socket"}, hosts[0], append([]string{"RIG_ABORT=10"}, hosts[1]...))
			if end := ranks[1].ended(t, 20*time.Second); !end.Success() {
				t.Errorf("rank 1: %v, expected success:\n%s", end, tail(ranks[1].output()))
			}
			waitFor(t, ranks[1], "rank 1: aborted")
		})
		t.Run("hang", func(t *testing.T) {
			stop := filepath.Join(n.work, "stop")
			ranks := n.job(t, r, 50, []string{"NCCL_NET=Socket", "RIG_STOP=" + stop}, hosts...)
			waitFor(t, ranks[0], "rank 0: 11 collectives")
			if err := os.WriteFile(stop, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			before := loopback(t, n)
			time.Sleep(time.Second)
			if moved := loopback(t, n) - before; moved > 10_000 {
				t.Errorf("%d bytes in a second of a job that hangs", moved)
			}
			os.Remove(stop)
			time.Sleep(time.Second)
			if moved := loopback(t, n) - before; moved < 1<<20 {
				t.Errorf("%d bytes in a second of a job that goes on", moved)
			}
		})
	})
}

// waitFor waits until a rank has printed something.
func waitFor(t *testing.T, p *process, what string) {
	t.Helper()
	for end := time.Now().Add(patient(20 * time.Second)); !strings.Contains(p.output(), what); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in time:\n%s", what, tail(p.output()))
		}
	}
}
