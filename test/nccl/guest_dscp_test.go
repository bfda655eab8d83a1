// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGuestDSCP sees the traffic class of settings in packets: its upper six bits are the DSCP.
func TestGuestDSCP(t *testing.T) {
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		for _, c := range []struct {
			settings []string
			old, now []int // classes of packets, in the first release of suites and in later ones
		}{
			{nil, []int{0}, []int{0}},
			{[]string{"NCCL_IB_TC=106"}, []int{106}, []int{106}},
			{[]string{"NCCL_IB_TC=106", "NCCL_IB_FIFO_TC=200"}, []int{106, 200}, []int{106, 200}},
			{[]string{"NCCL_IB_TC=300", "NCCL_IB_FIFO_TC=0"}, []int{44}, []int{0, 44}}, // 2.22 takes 0 for unset,
		} {
			want := c.now
			if r.suite == suites[0] {
				want = c.old
			}
			stop := capture(t, "rdma0")
			ranks := n.job(t, r, 20, append(append(small, "RIG_COUNT=3"), c.settings...), rails...)
			fate, said := fateOf(t, ranks)
			if have := stop(); fate != works || !slices.Equal(have, want) {
				t.Errorf("%q: NCCL %s: %s, packets of the traffic classes %d, expected %d:\n%s", c.settings, r.release, fate, have, want, tail(said))
			}
		}
	})
}

// capture collects the traffic classes of RoCE packets over IPv4 that an interface receives or sends, until stop.
func capture(t *testing.T, netdev string) (stop func() []int) {
	t.Helper()
	of, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		t.Fatal(err)
	}
	wait := unix.Timeval{Usec: 100_000}
	for _, err := range []error{
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: of.Index}), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	classes, end := map[int]bool{}, make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		defer unix.Close(fd)
		for b := make([]byte, 64); ; {
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err == nil && n >= 28 && b[0] == 0x45 && b[9] == unix.IPPROTO_UDP && binary.BigEndian.Uint16(b[22:]) == 4791 {
				classes[int(b[1])] = true
			}
			select {
			case <-end:
				return
			default:
			}
		}
	})
	return func() []int {
		close(end)
		done.Wait()
		return slices.Sorted(maps.Keys(classes))
	}
}
