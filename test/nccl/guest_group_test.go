// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"path/filepath"
	"testing"
)

// TestGuestGroups judges ranks in control groups as schedulers make them, with all privileges and with none: an exporter
// without any sees sockets by their control group, and the kernel's list of verbs.
func TestGuestGroups(t *testing.T) {
	n := newGuest(t)
	const root = "/sys/fs/cgroup"
	n.sh(t, "[ -e "+root+"/cgroup.procs ] || mount -t cgroup2 none "+root)
	defer func() { n.group = "" }()
	for _, c := range []struct {
		group, job string
		settings   []string
		all        string // with all privileges
		none       string // without
	}{
		{
			group: "kubepods.slice/kubepods-pod0a1b2c3d_0000_1111_2222_333344445555.slice/" +
				"cri-containerd-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff.scope",
			job:      "kubernetes/0a1b2c3d-0000-1111-2222-333344445555",
			settings: []string{"NCCL_IB_DISABLE=1"}, all: "tcp, confirmed socket rdma_disabled or " + unread, none: "tcp, suspected socket",
		},
		{group: "system.slice/slurmstepd.scope/job_4242/step_0/user/task_0", job: "slurm/4242", all: overVerbs, none: overVerbs},
	} {
		t.Run(c.job, func(t *testing.T) {
			n.group = filepath.Join(root, c.group)
			n.sh(t, "mkdir -p "+n.group)
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
