// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// TestGuestProbe runs the exporter's probe over RDMA: it says which network NCCL took, who failed, and leaves neither
// ranks nor queue pairs. As on the host, sums are wrong.
func TestGuestProbe(t *testing.T) {
	n := newGuest(t)
	cuda := standIn(t)
	each(t, func(t *testing.T, r rig) {
		for _, c := range []struct {
			name    string
			step    string
			failure probes.Failure
			says    string
		}{
			{"RDMA", "", probes.FailureWrong, "all_reduce of 1048576 bytes: "},
			{"killed in a collective", "measure", probes.FailureCrash, "rank 1: measure all_reduce: rank worker: crashed: signal: killed"},
		} {
			e := errand{rankName(r.suite), transportOf(r, cuda, rails, "NCCL_BUFFSIZE=524288"), c.step, syscall.SIGKILL}
			e.Plan.Settings.Deadline, e.Plan.Settings.Budget = patient(time.Minute), patient(10*time.Second)
			got := probeOf(t, n, e)
			if got.Failure != c.failure || !strings.Contains(got.Error, c.says) || got.NCCL != r.release {
				t.Errorf("%s: NCCL %s: %s %q, expected %s %q", c.name, got.NCCL, got.Failure, got.Error, c.failure, c.says)
			}
			if path, known := got.Path.Get(); c.step == "" && (!known || path != probes.PathIB || got.Network != "IB" || len(got.Measurements) == 0) {
				t.Errorf("%s: path %q (known: %v), network %q, %d measurements", c.name, path, known, got.Network, len(got.Measurements))
			}
			t.Logf("%s: %s after %.1f s", c.name, got.Error, got.Wall.Duration().Seconds())
		}
		if left := n.sh(t, "grep -lx "+rankName(r.suite)+" /proc/[0-9]*/comm || true; rdma resource show qp | grep 'type RC' || true"); left != "" {
			t.Errorf("ranks or queue pairs are left: %s", left)
		}
	})
}
