// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/nccl/explain"
)

// slowness is how much slower than a machine the guest counts as: ranks move 1 MB/s there where the host is busy, and
// less than 10 MB/s is no collective to the exporter. Its judge has a clock that is slower by that.
func slowness() time.Duration {
	if os.Getenv("RIG_GUEST") != "" {
		return 16
	}
	return 1
}

// verbs returns what processes have of verbs, as the exporter reads it; nothing where there are no devices.
func verbs(process func(int) int) (map[int]*fabric.VerbsUse, error) {
	if os.Getenv("RIG_GUEST") == "" {
		return nil, nil
	}
	c, err := rdmanl.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	devices, err := c.Devices()
	if err != nil {
		return nil, err
	}
	use, err := c.Use(devices, process)
	return use.ByProcess, err
}

// guestHCAs reads the Soft-RoCE devices as the exporter does.
func guestHCAs(now time.Time) (list []fabric.HCA, err error) {
	f, err := sysfs.Open("/sys")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	devices, err := filepath.Glob("/sys/class/infiniband/rxe*")
	if err != nil {
		return nil, err
	}
	for _, name := range devices {
		name = filepath.Base(name)
		d, err := f.Device(name)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		h := fabric.HCA{Name: name}
		for _, read := range []func(*fabric.HCA, time.Time) error{d.ReadOnce, d.ReadPorts, d.ReadPortDetails, d.ReadHWCounters} {
			if err := read(&h, now); err != nil {
				return nil, err
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// overVerbs is no more than suspected: Soft-RoCE counts packets and no bytes.
const overVerbs = "rdma, suspected verbs"

// unread is the verdict where the environment of a rank could not be read in the time that the exporter takes for it,
// which happens where a busy machine emulates the guest.
const unread = "tcp, suspected socket"

// TestGuestJobs holds what the exporter says of jobs on RDMA devices against what NCCL does.
func TestGuestJobs(t *testing.T) {
	n := newGuest(t)
	for _, c := range []struct {
		name   string
		common []string
		via    string // what NCCL says
		want   string
	}{
		{name: "RDMA", via: "NET/IB", want: overVerbs},
		{name: "both devices", common: []string{"NCCL_IB_HCA=rxe", "NCCL_IB_MERGE_NICS=0"}, via: "NET/IB", want: overVerbs},
		{name: "a name that drivers do not give", common: []string{"NCCL_IB_HCA=absent"}, via: "NET/Socket", want: "tcp, confirmed socket or " + unread},
		{name: "an interface for a device", common: []string{"NCCL_IB_HCA=eth0"}, via: "NET/Socket", want: "tcp, confirmed socket no_device_of_that_name or " + unread},
		{name: "IB_DISABLE", common: []string{"NCCL_IB_DISABLE=1"}, via: "NET/Socket", want: "tcp, confirmed socket rdma_disabled or " + unread},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rig) {
				ranks := guestJob(t, n, r, c.common)
				if !strings.Contains(ranks[0].output(), "via "+c.via) {
					t.Fatalf("NCCL does not say via %s:\n%s", c.via, tail(ranks[0].output()))
				}
				await(t, watch(t, ranks, ""), c.want)
			})
		})
	}
}

// guestJob starts two ranks as a scheduler does, and returns them when they have launched collectives.
func guestJob(t *testing.T, n *node, r rig, common []string) []*process {
	t.Helper()
	return hostsJob(t, n, r, rails, common)
}

// hostsJob is a guestJob of other hosts than rails.
func hostsJob(t *testing.T, n *node, r rig, hosts [][]string, common []string) []*process {
	t.Helper()
	ranks := startJob(t, n, r, hosts, common)
	waitFor(t, ranks[0], "rank 0: 11 collectives")
	return ranks
}

// startJob starts ranks that stay when NCCL has returned an error, which it does soon after a queue pair has none.
func startJob(t *testing.T, n *node, r rig, hosts [][]string, common []string) []*process {
	t.Helper()
	var own [][]string
	for _, host := range hosts {
		own = append(own, append(append([]string{}, host...), common...))
	}
	return n.job(t, r, 5, append(small, "NCCL_RAS_ENABLE=0", "RIG_HOLD=1", "NCCL_IB_TIMEOUT=14", "NCCL_IB_RETRY_CNT=3"), placed(own)...)
}

// TestGuestLinkDown plants a link that goes down under a job over RDMA: NCCL ends the job after its retries, the
// verdict stands, and the log tells why.
func TestGuestLinkDown(t *testing.T) {
	n := newGuest(t)
	each(t, func(t *testing.T, r rig) {
		ranks := guestJob(t, n, r, nil)
		next := watch(t, ranks, "")
		await(t, next, overVerbs)
		n.sh(t, "ip link set rdma1 down")
		defer n.sh(t, "ip link set rdma1 up; sleep 1")
		ends(t, r, ranks)
		if j := next(); !strings.HasPrefix(j.String(), "rdma") {
			t.Errorf("after the link went down: %s: %q", j, j.Verdict.Evidence)
		}
		explains(t, ranks, "completion_retry_exceeded", "completion_failed", "port_error") // the side whose port it is says so
	})
}

// ends waits until a rank has an error of a collective, and says which ones have. Only a rank with something under way
// gets one: to the other, whose last write was acknowledged, a link that is down is a peer that is silent.
func ends(t *testing.T, r rig, ranks []*process) {
	t.Helper()
	const failed = "ncclAllReduce("
	began := time.Now()
	either := func() bool {
		return slices.ContainsFunc(ranks, func(p *process) bool { return strings.Contains(p.output(), failed) })
	}
	for ; !either(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patient(20*time.Second) {
			t.Fatalf("no rank returns an error in time:\n%s\n%s", tail(ranks[0].output()), tail(ranks[1].output()))
		}
	}
	after := time.Since(began)
	time.Sleep(2 * time.Second)
	var with []int
	for i, p := range ranks {
		if strings.Contains(p.output(), failed) {
			with = append(with, i)
		}
	}
	t.Logf("NCCL %s returned an error after %.1f s; ranks with one: %v", r.release, after.Seconds(), with)
}

// TestGuestMemlock plants a limit of locked memory that is too small, which root has not.
func TestGuestMemlock(t *testing.T) {
	n := newGuest(t)
	n.sh(t, "chmod 666 /dev/infiniband/*; chmod 1777 /dev/shm /tmp")
	each(t, func(t *testing.T, r rig) {
		ranks := n.job(t, r, 5, append(small, "RIG_UID=65534", "RIG_MEMLOCK=65536"), rails...)
		got, output := fateOf(t, ranks)
		if got != refused {
			t.Errorf("NCCL %s: %s, expected %s:\n%s", r.release, got, refused, lastLines(output))
		}
		explains(t, ranks, "memory_registration")
	})
}

// explains holds the first failure that explain finds in the logs of a job against what was planted.
func explains(t *testing.T, ranks []*process, want ...string) {
	t.Helper()
	var all strings.Builder
	for _, p := range ranks {
		all.WriteString(p.output())
	}
	result, err := explain.Read(strings.NewReader(all.String()))
	if err != nil {
		t.Fatal(err)
	}
	first := ""
	if f := result.First(); f != nil {
		first = f.Signature.ID
	}
	if !slices.Contains(want, first) {
		t.Errorf("explain says %q, expected one of %q:\n%s", first, want, lastLines(all.String()))
	}
	t.Log(first)
}
