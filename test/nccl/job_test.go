// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hosts has what makes two ranks of a node take themselves for two hosts.
var hosts = [][]string{
	{"NCCL_SOCKET_IFNAME==loa", "NCCL_HOSTID=host0", "RIG_BUSIDS=0000:41:00.0"},
	{"NCCL_SOCKET_IFNAME==lob", "NCCL_HOSTID=host1", "RIG_BUSIDS=0000:42:00.0"},
}

// gpus makes two ranks of a node use a GPU each.
var gpus = [][]string{{"RIG_GPUS=2", "RIG_DEVICE=0"}, {"RIG_GPUS=2", "RIG_DEVICE=1"}}

// TestMovesData shows that the rig is worth something: NCCL connects over the transport that it names, and
// its own threads move what an AllReduce of two ranks has to move.
func TestMovesData(t *testing.T) {
	const collectives, size = 40, 1 << 20
	for _, c := range []struct {
		name, via string
		bytes     int // over loopback, at least
		common    []string
		ranks     [][]string
	}{
		{"two hosts over TCP", "via NET/Socket/", 2 * collectives * size, []string{"NCCL_NET=Socket"}, hosts},
		{"one host over TCP", "via NET/Socket/", 2 * collectives * size, []string{"NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1", "NCCL_NET=Socket"}, gpus},
		{"one host through shared memory", "via SHM/", 0, []string{"NCCL_P2P_DISABLE=1", "NCCL_NET=Socket"}, gpus},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rig) {
				n := newNode(t, "")
				ranks := n.job(t, r, 100, append(c.common, fmt.Sprint("RIG_COUNT=", collectives)), c.ranks...)
				for i, p := range ranks {
					if end := p.ended(t, 20*time.Second); !end.Success() || !strings.Contains(p.output(), c.via) {
						t.Errorf("rank %d: %v, expected success %s:\n%s", i, end, c.via, tail(p.output()))
					}
				}
				if moved := loopback(t, n); moved < c.bytes {
					t.Errorf("%d bytes went over loopback, expected at least %d", moved, c.bytes)
				}
			})
		})
	}
}

// loopback returns how many bytes the loopback of a node has carried.
func loopback(t *testing.T, n *node) int {
	t.Helper()
	_, line, _ := strings.Cut(n.sh(t, "cat /proc/net/dev"), "lo:")
	bytes, err := strconv.Atoi(strings.Fields(line)[0])
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
