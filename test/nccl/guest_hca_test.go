// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// more are Soft-RoCE devices with the names of others.
var more = []string{"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_bond_0", "roce1"}

// filters are values of NCCL_IB_HCA.
var filters = []string{
	"", "mlx5", "=mlx5", "mlx5_1", "=mlx5_1", "^mlx5", "^=mlx5_1", "mlx5_0:1", "mlx5_0:2", "=mlx5_0:1,rxe0", "=mlx5_0:1:0,rxe0", "mlx5_10:x", "mlx5_10:1x", "mlx5_10:", "mlx5_1,rxe",
	" mlx5_0", "mlx5_0 ", "mlx5_0, mlx5_1", "MLX5_0", "mlx5_*", "=", "^", ",", "^,", "^^mlx5", "=^mlx5_0", "^mlx5_1:2", "rxe0;rxe1", "absent", "=absent,roce1", "\"rxe0\"",
}

var usedDevice = regexp.MustCompile(`\[\d+\]([^:\s]+):\d+/`)

// TestGuestHCA holds our reading of NCCL_IB_HCA against the devices that NCCL then uses.
func TestGuestHCA(t *testing.T) {
	n := newGuest(t)
	for i, name := range more {
		netdev := "name" + string(rune('0'+i))
		n.sh(t, "ip link add "+netdev+" type dummy; ip link set "+netdev+" up; rdma link add "+name+" type rxe netdev "+netdev)
	}
	t.Cleanup(func() {
		for i := range more {
			n.sh(t, "ip link del name"+string(rune('0'+i)))
		}
	})
	each(t, func(t *testing.T, r rig) {
		all := devicesUsed(t, n, r, "")
		if want := append([]string{"rxe0", "rxe1", "siw0"}, more...); !same(all, want) {
			t.Fatalf("NCCL %s uses %q, expected %q", r.release, all, want)
		}
		for _, value := range filters[1:] {
			var want []string
			for _, name := range all {
				if fabric.ParseNameFilter(value).Takes(name, 1) {
					want = append(want, name)
				}
			}
			if have := devicesUsed(t, n, r, value); !same(have, want) {
				t.Errorf("NCCL_IB_HCA=%q: NCCL %s uses %q, we say %q", value, r.release, have, want)
			}
		}
	})
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// devicesUsed returns the devices that NCCL uses with that value.
func devicesUsed(t *testing.T, n *node, r rig, value string) (found []string) {
	t.Helper()
	// NCCL 2.22.3 compares the PCI paths of devices that it may merge, and dies where there are none.
	p := n.job(t, r, 1, append(small, "NCCL_SOCKET_IFNAME==loa", "NCCL_IB_MERGE_NICS=0", "NCCL_IB_HCA="+value), nil)[0]
	line := said(t, p, "NET/IB : Using ", "NET/IB : No device found")
	p.Kill()
	<-p.done
	for _, m := range usedDevice.FindAllStringSubmatch(line, -1) {
		found = append(found, m[1])
	}
	return found
}

// said waits until a rank has printed a whole line with one of these words, and returns the line.
func said(t *testing.T, p *process, words ...string) string {
	t.Helper()
	for end := time.Now().Add(patient(20 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for line := range strings.Lines(p.output()) {
			if strings.HasSuffix(line, "\n") && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) {
				return line
			}
		}
		select {
		case <-p.done:
			t.Fatalf("the rank ended without %q:\n%s", words, tail(p.output()))
		default:
		}
	}
	t.Fatalf("no %q in time:\n%s", words, tail(p.output()))
	return ""
}
