// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
)

// gatherWithin adds up what ranks of the job exchange over connections of which each has an end.
func (e *evidence) gatherWithin() {
	ends := map[connection]*observed{}
	for _, r := range e.ranks {
		for c := range r.within {
			ends[c] = r
		}
	}
	for _, r := range e.ranks {
		for c, f := range r.within {
			if other := ends[c.otherEnd()]; other != nil && other != r {
				e.within.sent, e.within.received = e.within.sent+f.sent, e.within.received+f.received
			}
		}
	}
}

// withinVerdict is that of a rank of a job on one node whose ranks exchange data over sockets. NCCL does so
// if it may use neither shared memory nor P2P. Gloo always does, and its sockets look the same.
func (e *evidence) withinVerdict(r *observed, rdma rdmaUse) Verdict {
	carried := fmt.Sprintf("connections between ranks on this node carried %s and %s", rateText(e.within.sent),
		rateText(e.within.received))
	v := Verdict{Transport: Local, Evidence: append(rdma.evidence, carried)}
	if disabled(r, "NCCL_SHM_DISABLE") {
		v.Transport, v.Way, v.Cause = TCP, WaySocket, CauseNoSharedMemory
		v.Confirmed = disabled(r, "NCCL_P2P_DISABLE") && r.sign == signStrong && rdma.has == no && r.busy == yes &&
			!r.partly()
	}
	if !v.Confirmed {
		v.Evidence = append(v.Evidence, "it may be Gloo: NCCL may use shared memory or P2P")
	}
	return v
}

// disabled reports whether a variable of NCCL that disables something is 1: other numbers do nothing.
func disabled(r *observed, name string) bool {
	for _, v := range r.Variables() {
		if v.Name == name {
			return v.IsNumber && v.Number == 1
		}
	}
	return false
}
