// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const groups = "/sys/fs/cgroup"

// podGroup is the control group of a container of the pod with this UID.
func podGroup(uid string) string {
	return "kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") +
		".slice/cri-containerd-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff.scope"
}

// newGroups returns the guest, where control groups can be made.
func newGroups(t *testing.T) *node {
	t.Helper()
	n := newGuest(t)
	n.sh(t, "[ -e "+groups+"/cgroup.procs ] || mount -t cgroup2 none "+groups)
	return n
}

// enter makes ranks that start later start in a control group.
func (n *node) enter(t *testing.T, group string) {
	t.Helper()
	n.group = filepath.Join(groups, group)
	n.sh(t, "mkdir -p "+n.group)
}

// TestGuestPods judges ranks of one job in two pods of one node, as an MPIJob has them: each pod is a job, because
// nothing that a pod states joins it to another.
func TestGuestPods(t *testing.T) {
	n := newGroups(t)
	each(t, func(t *testing.T, r rig) {
		var want []string
		id, ranks := filepath.Join(t.TempDir(), "id"), []*process(nil)
		for i, own := range placed(rails) {
			uid := fmt.Sprintf("0a1b2c3d-0000-1111-2222-33334444555%d", i)
			want = append(want, "kubernetes/"+uid)
			n.enter(t, podGroup(uid))
			ranks = append(ranks, n.start(t, r, append(append(own, small...), "NCCL_RAS_ENABLE=0", "NCCL_IB_DISABLE=1"), strconv.Itoa(i), "2", id, "5"))
		}
		waitFor(t, ranks[0], "rank 0: 11 collectives")
		next := watch(t, ranks, "")
		for range 24 {
			j := next()
			var got []string
			for _, one := range j.all {
				if s := (judgement{Job: one}).String(); s == "tcp, confirmed socket rdma_disabled" || s == unread {
					got = append(got, one.Name)
				}
			}
			slices.Sort(got)
			if slices.Equal(got, want) {
				t.Logf("%q over tcp, %.1f s", got, j.after.Seconds())
				return
			}
			t.Logf("jobs over tcp: %q of %d", got, len(j.all))
		}
		t.Errorf("expected %q over tcp", want)
	})
}

// TestGuestGroups judges ranks in control groups as schedulers make them, with all privileges and with none: an exporter
// without any sees sockets by their control group, and the kernel's list of verbs.
func TestGuestGroups(t *testing.T) {
	n := newGroups(t)
	for _, c := range []struct {
		group, job string
		settings   []string
		all        string // with all privileges
		none       string // without
	}{
		{
			group:    podGroup("0a1b2c3d-0000-1111-2222-333344445555"),
			job:      "kubernetes/0a1b2c3d-0000-1111-2222-333344445555",
			settings: []string{"NCCL_IB_DISABLE=1"}, all: "tcp, confirmed socket rdma_disabled or " + unread, none: "tcp, suspected socket",
		},
		{group: "system.slice/slurmstepd.scope/job_4242/step_0/user/task_0", job: "slurm/4242", all: overVerbs, none: overVerbs},
	} {
		t.Run(c.job, func(t *testing.T) {
			n.enter(t, c.group)
			each(t, func(t *testing.T, r rig) {
				ranks := guestJob(t, n, r, c.settings)
				all, none := watch(t, ranks, ""), watch(t, ranks, "", nobody)
				for _, j := range []judgement{await(t, all, c.all), await(t, none, c.none)} {
					if j.Name != c.job {
						t.Errorf("the job is %s, expected %s", j.Name, c.job)
					}
				}
			})
		})
	}
}
