// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// lostPath sends what is for the ports of the second link to nobody: it is up, and packets are lost on it.
const lostPath = `
ip neigh replace 10.0.2.11 lladdr 02:00:00:00:99:11 dev rdma2 nud permanent
ip neigh replace 10.0.2.10 lladdr 02:00:00:00:99:10 dev rdma3 nud permanent
`

// TestGuestFailover holds what NCCL does with a NIC of two ports, one of which fails, against what is said of it. Failover
// of 2.29.7 needs receives that are found by ID, and does not take what Soft-RoCE says where its own interface is down
// (LOC_QP_OP_ERR) for an error of a port.
func TestGuestFailover(t *testing.T) {
	const on, byID, ahead = "NCCL_IB_RESILIENCY_PORT_FAILOVER=1", "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=1", "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1"
	n := newGuest(t)
	for _, c := range []struct {
		name     string
		settings []string
		plant    string // empty: nothing, the first collective fails
		lasts    bool
		explains string
	}{
		{name: "by index", settings: []string{on}, explains: "receive_unmatched"},
		{name: "receives ahead", settings: []string{ahead}, explains: "receive_unmatched"},
		{name: "path lost, off", plant: lostPath, explains: "completion_retry_exceeded"},
		{name: "path lost", settings: []string{on, byID}, plant: lostPath, lasts: true, explains: "nic_failing"},
		{name: "link down", settings: []string{on, byID}, plant: "ip link set rdma3 down", explains: "nic_failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rig) {
				ranks, fate := startJob(t, n, r, plantMerged(t, n, r), c.settings), fails
				if c.plant != "" {
					waitFor(t, ranks[0], "rank 0: 11 collectives")
					n.sh(t, c.plant)
					fate = works
				}
				if c.lasts {
					goesOn(t, ranks)
				} else {
					ends(t, r, ranks)
				}
				explains(t, ranks, c.explains)
				release, err := fabric.ParseNCCLVersion(r.release)
				if err != nil {
					t.Fatal(err)
				}
				agrees(t, append(slices.Clone(c.settings), "NCCL_DEBUG=INFO"), release, fate, "")
			})
		})
	}
}

// goesOn holds that a job whose second port has failed moves its data over the first, and that this is what the exporter
// sees.
func goesOn(t *testing.T, ranks []*process) {
	t.Helper()
	waitFor(t, ranks[0], "marked as failed")
	next := watch(t, ranks, "")
	for i := 1; ; i++ {
		first, second := received(t, "rdma0"), received(t, "rdma2")
		j := next()
		first, second = received(t, "rdma0")-first, received(t, "rdma2")-second
		t.Logf("%s over %q: rdma0 +%d bytes, rdma2 +%d", j, j.Devices, first, second)
		if j.String() == overVerbs && slices.Contains(j.Devices, "rxe0") && !slices.Contains(j.Devices, "rxe2") && first > 100*second {
			break
		}
		if i == 24 {
			t.Fatalf("expected %s by rxe0 alone", overVerbs)
		}
	}
	time.Sleep(2 * time.Second)
	for i, p := range ranks {
		if strings.Contains(p.output(), "ncclAllReduce(") {
			t.Errorf("rank %d has an error:\n%s", i, lastLines(p.output()))
		}
	}
}
