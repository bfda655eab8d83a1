// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"slices"
	"testing"
)

// overRDMA is a job that reaches what NCCL reads only for RDMA devices.
var overRDMA = map[string]reach{
	"two hosts over RDMA": {rails, append([]string{
		"RIG_GDR=1", "NCCL_NET_GDR_LEVEL=SYS", "NCCL_RAS_ENABLE=0",
	}, small...)},
}

// rdmaWords are values that are no numbers, of variables that NCCL reads only for RDMA devices.
var rdmaWords = []word{
	{name: "NCCL_IB_ADDR_FAMILY", value: "AF_INET6", with: "NCCL_DEBUG_SUBSYS=ENV,NET", says: `NCCL_IB_ADDR_FAMILY set by environment to AF_INET6(?s:.*) GID \d+ \(FD/`, ranks: rails},
	{name: "NCCL_IB_ADDR_RANGE", value: "10.0.0.0/24", ranks: rails},
	{name: "NCCL_IB_HCA", value: "^rxe1,siw", says: `NET/IB : Using \[0\]rxe0:1/RoCE (\[RO\])?; OOB`},
	{name: "NCCL_NET_GDR_LEVEL", value: "SYS", with: "RIG_GDR=1 NCCL_DEBUG_SUBSYS=ALL", ranks: rails},
	{name: "NCCL_NET_FORCE_MERGE", value: "rxe0,absent", with: "NCCL_IB_HCA==rxe0", says: `Only matched 1 devices, 2 requested`, fails: true},
}

// TestGuestVariables is TestVariables for what NCCL reads with RDMA devices only.
func TestGuestVariables(t *testing.T) {
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		verified := map[string]bool{}
		readNumbers(t, n, r, overRDMA, verified)
		for _, w := range rdmaWords {
			own := slices.Clone(small)
			if w.ranks == nil {
				own = append(own, "NCCL_SOCKET_IFNAME==loa", "RIG_BUSIDS=0000:24:00.0", "NCCL_HOSTID=host0")
			}
			if seeWord(t, n, r, w, own...) {
				verified[w.name] = true
			}
		}
		judgeVerified(t, r, verified)
	})
}
