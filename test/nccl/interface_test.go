// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// interfaces of a node: one has no address, one is down, and the cable of one is not connected.
var interfaces = []string{"lo", "loa", "lob", "docker0", "eth0", "eth1", "eth10", "eth0.5", "ibs1", "virbr0", "bond0", down, loose, bare}

const (
	bare  = "eth9"
	down  = "down0"
	loose = "down1"
)

func addInterfaces() string {
	var b strings.Builder
	for i, name := range interfaces[3:] {
		fmt.Fprintf(&b, "ip link add %[1]s type veth peer name p%[2]d; for i in %[1]s p%[2]d; do ip link set $i addrgenmode none up; done\n", name, i)
		if name != bare {
			fmt.Fprintf(&b, "ip addr add 10.1.%d.1/24 dev %s\n", i+1, name)
		}
	}
	fmt.Fprintf(&b, "ip link set %s down; ip link set p%d down\n", down, slices.Index(interfaces[3:], loose))
	return b.String()
}

// TestInterfaces holds our reading of NCCL_SOCKET_IFNAME against the interfaces that NCCL then uses.
func TestInterfaces(t *testing.T) {
	whole(t)
	values := []string{
		"eth", "eth0", "eth1", "eth10", "=eth1", "=eth0,eth10", "=eth", "^eth", "^=eth1", "^eth1", "eth1,ib", "ib,eth1", "bond", "lo", "=lo", "docker",
		"^docker,lo", "^=docker0,lo,virbr0", "eth9", "=eth9", "down", "=down1", "wlan", "=ibs1,wlan", "eth0.5", "=eth0.5", ",eth1", "eth1,", "eth1,,bond", "^", "=", ",", "^,", " eth1",
		"eth1 ", "eth1, bond0", "ETH1", "eth1:1", "=eth1:1", "=bond0:2,eth0", "eth*", "=^eth1", "^^eth1", "==eth1", "eth0;eth1", "\"eth1\"",
	}
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, addInterfaces())
		release, err := fabric.ParseNCCLVersion(r.release)
		if err != nil {
			t.Fatal(err)
		}
		taken := func(name string) bool { // NCCL before 2.28 does not look whether an interface is up
			return name != bare && (name != down && name != loose || !release.AtLeast("2.28"))
		}
		for _, value := range values {
			filter := fabric.ParseNameFilter(value)
			if len(value) < 2 { // NCCL ignores it, and takes what begins so before others
				filter = fabric.ParseNameFilter("ib")
			}
			var want []string
			for _, name := range interfaces {
				if taken(name) && filter.Takes(name, -1) {
					want = append(want, name)
				}
			}
			if have := used(t, n, r, value); !slices.Equal(have, want) {
				t.Errorf("NCCL_SOCKET_IFNAME=%q: NCCL %s uses %q, we say %q", value, r.release, have, want)
			}
		}
	})
}

var usedInterface = regexp.MustCompile(`\[\d+\]([^:\s]+):`)

// used returns the interfaces that NCCL uses with that value, sorted as in interfaces.
func used(t *testing.T, n *node, r rig, value string) []string {
	t.Helper()
	p := n.job(t, r, 100, []string{"RIG_COUNT=1", "NCCL_NET=Socket", "NCCL_RAS_ENABLE=0", "NCCL_SOCKET_IFNAME=" + value}, nil)[0]
	p.ended(t, 20*time.Second)
	var found []string
	for line := range strings.Lines(p.output()) {
		if _, list, ok := strings.Cut(line, "NET/Socket : Using "); ok {
			for _, m := range usedInterface.FindAllStringSubmatch(list, -1) {
				found = append(found, m[1])
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return slices.Index(interfaces, a) - slices.Index(interfaces, b) })
	return slices.Compact(found)
}
