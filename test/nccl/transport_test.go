// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/jobs/job"
)

// devices gives a node a /dev of its own, with GPUs.
const devices = `
mount -t tmpfs tmpfs /dev
mkdir /dev/shm /dev/infiniband
for d in null:3 zero:5 random:8 urandom:9 nvidiactl:3 nvidia-uvm:3 nvidia0:3 nvidia1:3; do
  mknod -m 666 /dev/${d%:*} c 1 ${d#*:}
done
`

// oneHost ends the second host of a node: the first reaches itself from its own address.
const oneHost = `
ip addr del 10.0.0.11/32 dev lo
ip route replace local 10.0.0.10 dev lo src 10.0.0.10 table local
`

const noLibrary = "tcp, confirmed socket no_libibverbs"

// placed returns the environment of the ranks of a job as a scheduler makes it.
func placed(ranks [][]string) [][]string {
	var list [][]string
	for i, own := range ranks {
		list = append(list, append([]string{
			fmt.Sprint("RANK=", i), fmt.Sprint("WORLD_SIZE=", len(ranks)), fmt.Sprint("RIG_MINOR=", i), "SLURM_JOB_ID=4242",
		}, own...))
	}
	return list
}

// TestTransports holds what the exporter says of jobs against what NCCL does.
func TestTransports(t *testing.T) {
	for _, c := range []struct {
		name   string
		common []string
		ranks  [][]string
		more   string // done on the node
		hca    string // set: the node has an RDMA device
		via    string // what NCCL says
		want   string
	}{
		{name: "no library", ranks: hosts, via: "NET/Socket", want: noLibrary},
		{name: "NET", common: []string{"NCCL_NET=Socket"}, ranks: hosts, via: "NET/Socket", want: "tcp, confirmed socket socket_selected"},
		{name: "IB_DISABLE", common: []string{"NCCL_IB_DISABLE=1"}, ranks: hosts, via: "NET/Socket", want: "tcp, confirmed socket rdma_disabled"},
		{name: "no uverbs", ranks: hosts, hca: "1", via: "NET/Socket", want: "tcp, confirmed socket no_rdma_devices_in_container"},
		{name: "split", common: []string{"RIG_SPLIT=3"}, ranks: hosts, hca: "1", more: "mknod /dev/infiniband/uverbs0 c 1 3", via: "NET/Socket", want: noLibrary},
		{name: "several communicators", common: []string{"RIG_MORE=1"}, ranks: hosts, via: "NET/Socket", want: noLibrary},
		{name: "shared memory", common: []string{"NCCL_P2P_DISABLE=1"}, ranks: gpus, more: oneHost, via: "SHM/", want: "local, confirmed"},
		{
			name: "sockets within a host", common: []string{"NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1"}, ranks: gpus, more: oneHost,
			via: "NET/Socket", want: "tcp, confirmed socket shared_memory_disabled",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r rig) {
				n := newNode(t, devices+c.more)
				ranks := n.job(t, r, 60, c.common, placed(c.ranks)...)
				waitFor(t, ranks[0], "rank 0: 11 collectives")
				if !strings.Contains(ranks[0].output(), "via "+c.via) {
					t.Fatalf("NCCL does not say via %s:\n%s", c.via, tail(ranks[0].output()))
				}
				await(t, watch(t, ranks, c.hca), c.want)
			})
		})
	}
}

// TestViews judges one job from the network namespace of the node, where that of the ranks is one of a pod;
// from the one of the ranks; and without privileges.
func TestViews(t *testing.T) {
	whole(t)
	t.Parallel()
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, devices)
		ranks := n.job(t, r, 60, nil, placed(hosts)...)
		waitFor(t, ranks[0], "rank 0: 11 collectives")
		bare := []string{"nsenter", "-t", strconv.Itoa(n.pid), "-n"}
		unprivileged := append(slices.Clone(bare), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
		pod, own, closed := watch(t, ranks, ""), watch(t, ranks, "", bare...), watch(t, ranks, "", unprivileged...)
		await(t, pod, noLibrary)
		await(t, own, noLibrary)
		await(t, closed, "unknown   privilege")
	})
}

// await reads until the verdict is this one, or one of several between " or ", and wants none before that is known and
// another one. It returns the last one.
func await(t *testing.T, next func() judgement, want string) judgement {
	t.Helper()
	readings := 8 // a machine that is busy moves little for a while
	if *guest {
		readings = 24
	}
	for i := 1; ; i++ {
		j := next()
		got := j.String()
		switch {
		case slices.Contains(strings.Split(want, " or "), got):
			t.Logf("%s: %d readings, %.1f s: %q", got, i, j.after.Seconds(), j.Verdict.Evidence)
			return j
		case i == readings || j.Verdict.Confirmed && !*guest:
			t.Fatalf("%s: %q, expected %s", got, j.Verdict.Evidence, want)
		}
	}
}

// TestFaultsOfJobs plants what ends the traffic of a job: the verdict stands, and who died is no rank. One that aborted its
// communicator still is: NCCL leaves its RAS listening.
func TestFaultsOfJobs(t *testing.T) {
	whole(t)
	t.Parallel()
	each(t, func(t *testing.T, r rig) {
		n := newNode(t, devices)
		stop := filepath.Join(n.work, "stop")
		ranks, next := judged(t, n, r, "RIG_STOP="+stop)
		ranks[1].Signal(syscall.SIGSTOP)
		stands(t, next, "stopped", 2)
		ranks[1].Signal(syscall.SIGCONT)
		if err := os.WriteFile(stop, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		stands(t, next, "hangs", 2)
		ranks[1].Kill()
		<-ranks[1].done
		stands(t, next, "killed", 1)
		ranks[0].Kill()
		<-ranks[0].done

		ranks, next = judged(t, n, r, "RIG_ABORT=200")
		waitFor(t, ranks[1], "rank 1: aborted")
		stands(t, next, "aborted", 2)
	})
}

// judged starts a job whose rank 1 has a setting, and returns it with its judge when that has a verdict.
func judged(t *testing.T, n *node, r rig, setting string) (ranks []*process, next func() judgement) {
	t.Helper()
	own := placed(hosts)
	own[1] = append(own[1], setting)
	if strings.HasPrefix(setting, "RIG_STOP=") {
		own[0] = append(own[0], setting)
	}
	ranks = n.job(t, r, 60, []string{"RIG_HOLD=1"}, own...)
	waitFor(t, ranks[0], "rank 0: 11 collectives")
	next = watch(t, ranks, "")
	await(t, next, noLibrary)
	return ranks, next
}

// stands waits until the judge sees no data of a job, and holds its verdict and the number of its ranks against what was before.
func stands(t *testing.T, next func() judgement, fault string, left int) {
	t.Helper()
	began := time.Now()
	for turns := 0; ; turns++ {
		if j := next(); j.Pulse.Flow != job.Flowing && len(j.Ranks) == left {
			break
		}
		if turns == 20 {
			t.Fatalf("%s: the judge still sees data of %d ranks", fault, left)
		}
	}
	for range 2 {
		if j := next(); j.String() != noLibrary || len(j.Ranks) != left {
			t.Errorf("%s: %s of %d ranks, expected %s of %d", fault, j, len(j.Ranks), noLibrary, left)
		}
	}
	t.Logf("%s: %s, seen %.1f s after it", fault, noLibrary, time.Since(began).Seconds())
}

// moves reports whether a job on the node moves data.
func moves(t *testing.T, n *node) bool {
	t.Helper()
	before := loopback(t, n)
	time.Sleep(200 * time.Millisecond)
	return loopback(t, n)-before > 10_000
}
