// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var guest = flag.Bool("guest", false, "run as root in the guest of test/lab, with rigs that are built (lab.sh)")

// inGuest runs the tests with the rigs that lab.sh has built in folder rigs: NCCL of a release in file release, or
// what is missing in file missing.
func inGuest(m *testing.M) int {
	for _, suite := range suites {
		folder, err := filepath.Abs(filepath.Join("rigs", suite))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		release, unbuilt := os.ReadFile(filepath.Join(folder, "release"))
		r := rig{suite: suite, folder: folder, release: strings.TrimSpace(string(release))}
		if unbuilt != nil {
			why, _ := os.ReadFile(filepath.Join(folder, "missing"))
			r.missing = cmp.Or(strings.TrimSpace(string(why)), unbuilt.Error())
		}
		rigs = append(rigs, r)
	}
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("RIG_GUEST", "1") // for the judge
	code := m.Run()
	tellRigs()
	return code
}

// wire makes packets between the guest's two Soft-RoCE devices pass the veth pair below them, in one network
// namespace: addresses of this machine count as such only for what arrives, and what it sends to one of them
// leaves by the interface of the other. Two addresses on loopback are for the sockets of two hosts.
const wire = `
set -e
if [ ! -e /run/wired ]; then
  echo 1 >/sys/bus/pci/rescan # GPUs
  mkdir -p /dev/shm; mount -t tmpfs tmpfs /dev/shm
  printf '127.0.0.1 localhost\n' >/etc/hosts
  printf 'root:x:0:0::/root:/bin/sh\n' >/etc/passwd
  mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia; : >/proc/driver/nvidia/version
  for d in nvidiactl nvidia-uvm nvidia0 nvidia1; do mknod -m 666 /dev/$d c 1 3; done
  modprobe tcp_diag
  sysctl -q net.ipv4.conf.all.rp_filter=0
  for v in rdma0 rdma1 rdma0.100 rdma1.100; do sysctl -q net.ipv4.conf.$v.accept_local=1 net.ipv4.conf.$v.rp_filter=0; done
  ip addr add 10.0.1.10/32 dev lo label loa
  ip addr add 10.0.1.11/32 dev lo label lob
  ip rule add pref 9 lookup local
  ip -6 rule add pref 9 lookup local
  for i in 0 1; do
    ip route replace local 10.0.1.1$i dev lo src 10.0.1.1$((1 - i)) table local
    ip rule add pref 5 iif lo to 10.0.0.1$((1 - i)) lookup 10$i
    ip rule add pref 5 iif lo to 10.0.100.1$((1 - i)) lookup 10$i
    ip -6 rule add pref 5 iif lo to fd00::1$((1 - i)) lookup 10$i
  done
  ip rule del pref 0
  ip -6 rule del pref 0
  : >/run/wired
fi
for i in 0 1; do # what goes with an address or a link
  ip route replace 10.0.0.1$((1 - i)) dev rdma$i src 10.0.0.1$i table 10$i
  ip route replace 10.0.100.1$((1 - i)) dev rdma$i.100 src 10.0.100.1$i table 10$i
  ip -6 route replace fd00::1$((1 - i)) dev rdma$i src fd00::1$i table 10$i
done
`

// newGuest returns the guest as a node.
func newGuest(t *testing.T) *node {
	t.Helper()
	if !*guest {
		t.Skip("only in the guest of the lab (make nccl-lab)")
	}
	n := &node{home: "/root", work: t.TempDir()}
	n.sh(t, wire)
	return n
}

// rails makes two ranks of the guest take themselves for two hosts with an RDMA device each.
var rails = [][]string{
	{"NCCL_SOCKET_IFNAME==loa", "NCCL_HOSTID=host0", "NCCL_IB_HCA==rxe0", "RIG_BUSIDS=0000:24:00.0"},
	{"NCCL_SOCKET_IFNAME==lob", "NCCL_HOSTID=host1", "NCCL_IB_HCA==rxe1", "RIG_BUSIDS=0000:64:00.0"},
}

// small has what makes jobs in the guest start in seconds: Soft-RoCE maps each page that is registered. Ranks poll,
// and would leave the processors to nobody; and what they launched last is still under way for a while.
var small = []string{"NCCL_BUFFSIZE=524288", "RIG_NICE=19", "RIG_LINGER=3000"}

// TestGuestMovesData shows that NCCL's own queue pairs carry the data of two ranks from one device to the other.
func TestGuestMovesData(t *testing.T) {
	const collectives, size = 20, 1 << 20
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		before := received(t, "rdma0")
		ranks := n.job(t, r, 20, append(small, "RIG_COUNT="+strconv.Itoa(collectives)), rails...)
		waitFor(t, ranks[0], ": initialised")
		for i, p := range ranks {
			if pairs := queuePairs(t, n, p); len(pairs) == 0 {
				t.Errorf("rank %d has no queue pair", i)
			}
		}
		for i, p := range ranks {
			if end := p.ended(t, 20*time.Second); !end.Success() || !strings.Contains(p.output(), "via NET/IB/0") {
				t.Errorf("rank %d: %v, expected success via NET/IB:\n%s", i, end, tail(p.output()))
			}
		}
		// The stand-in sends one of the two steps of which NCCL makes a slice.
		if moved := received(t, "rdma0") - before; moved < collectives*size/2 {
			t.Errorf("rank 0 received %d bytes, expected at least %d", moved, collectives*size/2)
		}
	})
}

var resource = regexp.MustCompile(`(?m)^link (\S+) .* type RC .* pid (\d+) `)

// queuePairs returns the device and port of each queue pair that the kernel has of a rank. It names threads.
func queuePairs(t *testing.T, n *node, p *process) (devices []string) {
	t.Helper()
	for _, m := range resource.FindAllStringSubmatch(n.sh(t, "rdma resource show qp"), -1) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%s", p.Pid, m[2])); err == nil {
			devices = append(devices, m[1])
		}
	}
	return devices
}

// received returns how many bytes an interface has received.
func received(t *testing.T, netdev string) int {
	t.Helper()
	out, err := exec.Command("cat", "/sys/class/net/"+netdev+"/statistics/rx_bytes").Output()
	bytes, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || bytes == 0 {
		t.Fatalf("%s has received %q, %v", netdev, out, err)
	}
	return bytes
}
