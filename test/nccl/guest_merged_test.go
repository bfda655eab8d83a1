// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// secondLink makes one more link like that of wire, with a Soft-RoCE device at each end.
const secondLink = `
set -e
ip link add rdma2 type veth peer name rdma3
for i in 0 1; do
  d=rdma$((i + 2))
  ip link set $d mtu 4200 up
  ip addr add 10.0.2.1$i/24 dev $d
  sysctl -q net.ipv4.conf.$d.accept_local=1 net.ipv4.conf.$d.rp_filter=0
  rdma link add rxe$((i + 2)) type rxe netdev $d
  ip rule add pref 5 iif lo to 10.0.2.1$((1 - i)) lookup 11$i
  ip route replace 10.0.2.1$((1 - i)) dev $d src 10.0.2.1$i table 11$i
done
`

const noSecondLink = `
ip link del rdma2
for i in 0 1; do ip rule del pref 5 iif lo to 10.0.2.1$i; done
`

// twoPorts is a topology for NCCL in which two devices are the ports of one NIC: Soft-RoCE has no place on the PCI bus.
const twoPorts = `<system version="1">
<cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
<pci busid="0000:25:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="%s"/><net name="%s"/></nic></pci>
</cpu>
</system>
`

// merged makes two ranks take themselves for two hosts with a NIC of two ports each, one on each link.
func merged(t *testing.T, n *node) (hosts [][]string) {
	for i, ports := range [][]any{{"rxe0", "rxe2"}, {"rxe1", "rxe3"}} {
		file := filepath.Join(n.work, fmt.Sprint("topology", i))
		if err := os.WriteFile(file, fmt.Appendf(nil, twoPorts, ports...), 0o644); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, append(slices.Clip(rails[i]), fmt.Sprintf("NCCL_IB_HCA==%s,%s", ports...), "NCCL_TOPO_FILE="+file))
	}
	return hosts
}

// plantMerged makes a second link and returns the environments of two hosts with a NIC of two ports each.
func plantMerged(t *testing.T, n *node, r rig) [][]string {
	t.Helper()
	if r.suite == suites[0] {
		t.Skipf("NCCL %s merges by PCI paths, which Soft-RoCE has not", r.release)
	}
	n.sh(t, secondLink)
	t.Cleanup(func() { n.sh(t, "true; "+noSecondLink) }) // after the ranks: the kernel waits for their contexts
	return merged(t, n)
}

// TestGuestMerged holds what the exporter says of ranks whose two devices NCCL has made one against what NCCL does, also
// where the link of one of them goes down. NCCL 2.22.3 merges by PCI paths, which Soft-RoCE has not.
func TestGuestMerged(t *testing.T) {
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		ranks := hostsJob(t, n, r, plantMerged(t, n, r), []string{"NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH"})
		overBoth(t, n, ranks)
		next := watch(t, ranks, "")
		if j := await(t, next, overVerbs); !slices.Contains(j.Devices, "rxe0") || !slices.Contains(j.Devices, "rxe2") {
			t.Errorf("devices %q carry it, expected both of rank 0", j.Devices)
		}
		n.sh(t, "ip link set rdma3 down")
		ends(t, r, ranks)
		if j := next(); !strings.HasPrefix(j.String(), "rdma") {
			t.Errorf("after the link went down: %s: %q", j, j.Verdict.Evidence)
		}
		explains(t, ranks, "completion_retry_exceeded", "completion_failed", "port_error")
	})
}

// overBoth holds that NCCL made one NIC of two devices and has queue pairs on both.
func overBoth(t *testing.T, n *node, ranks []*process) {
	t.Helper()
	for _, want := range []string{"name=rxe0+rxe2", "via NET/IB"} {
		if !strings.Contains(ranks[0].output(), want) {
			t.Fatalf("NCCL does not say %s:\n%s", want, tail(ranks[0].output()))
		}
	}
	if pairs := queuePairs(t, n, ranks[0]); !slices.Contains(pairs, "rxe0/1") || !slices.Contains(pairs, "rxe2/1") {
		t.Errorf("queue pairs of %q, expected both devices", pairs)
	}
}
