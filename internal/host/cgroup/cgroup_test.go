// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// tree makes files, and directories for names that end in a slash.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		path := filepath.Join(root, name)
		dir := path
		if !strings.HasSuffix(name, "/") {
			dir = filepath.Dir(path)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir != path {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestCgroups(t *testing.T) {
	v2 := []string{"cgroup.controllers", "cgroup.procs", "system.slice/sshd.service/", "user.slice/user-0.slice/session-1.scope/", "init.scope/"}
	v1 := []string{"unified/cgroup.procs", "unified/cgroup.controllers"}
	for _, controller := range []string{"freezer", "cpuset", "memory", "systemd"} {
		v1 = append(v1, controller+"/cgroup.procs", controller+"/release_agent")
	}
	for _, c := range []struct {
		name  string
		tree  []string
		more  []string
		jobs  []string
		slurm bool
		pods  bool
	}{
		{name: "version 2", tree: v2},
		{name: "version 1", tree: v1},
		{name: "Slurm, no job", tree: v2, more: []string{"system.slice/slurmstepd.scope/system/"}, slurm: true},
		{name: "Slurm, a job", tree: v2, more: []string{"system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/", "system.slice/slurmstepd.scope/cgroup.procs"}, jobs: []string{"4711"}, slurm: true},
		{
			name: "several slurmd", tree: v2, jobs: []string{"1", "2"}, slurm: true,
			more: []string{"system.slice/n1_slurmstepd.scope/job_2/", "system.slice/n2_slurmstepd.scope/job_1/"},
		},
		{name: "CgroupSlice", tree: v2, more: []string{"hpc.slice/hpc-gpu.slice/slurmstepd.scope/job_9/"}, jobs: []string{"9"}, slurm: true},
		{name: "IgnoreSystemd in a container", tree: v2, more: []string{"system.slice/system.slice/n1_slurmstepd.scope/job_9/"}, jobs: []string{"9"}, slurm: true},
		{name: "a scope in the root", tree: v2, more: []string{"slurmstepd.scope/job_9/"}, jobs: []string{"9"}, slurm: true},
		{
			name: "Slurm, version 1", tree: v1, jobs: []string{"17", "18"}, slurm: true,
			more: []string{"freezer/slurm/uid_1000/job_17/step_0/", "memory/slurm/uid_1000/job_17/", "cpuset/slurm/uid_0/job_18/", "cpuset/slurm/tasks"},
		},
		{name: "several slurmd, version 1", tree: v1, more: []string{"freezer/slurm_n1/uid_1000/job_17/"}, jobs: []string{"17"}, slurm: true},
		{name: "Slurm, version 1, no job", tree: v1, more: []string{"freezer/slurm/"}, slurm: true},
		{name: "Slurm, version 1, users without jobs", tree: v1, more: []string{"freezer/slurm/uid_1000/"}, slurm: true},
		{name: "kubelet", tree: v2, more: []string{"kubepods.slice/kubepods-burstable.slice/"}, pods: true},
		{name: "kubelet without systemd", tree: v1, more: []string{"memory/kubepods/burstable/"}, pods: true},
		{name: "kubelet in a container", tree: v2, more: []string{"kubelet.slice/kubelet-kubepods.slice/"}, pods: true},
		{name: "files are no groups", tree: v2, more: []string{"slurmstepd.scope", "kubepods"}},
	} {
		got, err := New(tree(t, append(slices.Clone(c.tree), c.more...)...)).Cgroups()
		if err != nil || !slices.Equal(got.SlurmJobs, c.jobs) || got.Slurm != c.slurm || got.Pods != c.pods {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for name, root := range map[string]string{
		"not there":            filepath.Join(t.TempDir(), "cgroup"),
		"empty":                tree(t),
		"no control groups":    tree(t, "something/else/"),
		"a namespace":          tree(t, "cgroup.controllers", "cgroup.procs", "cgroup.events"),
		"of version 1":         tree(t, "freezer/cgroup.procs", "freezer/release_agent", "memory/cgroup.procs"),
		"of version 2 beside":  tree(t, "freezer/cgroup.procs", "freezer/release_agent", "unified/cgroup.procs", "unified/cgroup.controllers", "unified/cgroup.events"),
		"a file":               filepath.Join(tree(t, "file"), "file"),
		"a link in the middle": linked(t),
	} {
		if got, err := New(root).Cgroups(); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	root := tree(t, "cgroup.controllers", "system.slice/slurmstepd.scope/job_1/")
	if os.Getuid() == 0 {
		t.Log("permissions do not stop root: not tried")
		return
	}
	os.Chmod(filepath.Join(root, "system.slice/slurmstepd.scope"), 0)
	if got, err := New(root).Cgroups(); fabric.ReasonOf(err) != fabric.ReasonPrivilege {
		t.Errorf("a scope that cannot be listed: %+v, %v", got, err)
	}
}

// linked has a link where a hierarchy is expected: nothing is followed.
func linked(t *testing.T) string {
	t.Helper()
	root := tree(t)
	if err := os.Symlink(tree(t, "cgroup.procs"), filepath.Join(root, "freezer")); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGroupsAreBounded(t *testing.T) {
	names := []string{"cgroup.controllers"}
	for i := range maxJobs + 10 {
		names = append(names, fmt.Sprintf("system.slice/slurmstepd.scope/job_%d/", i))
	}
	got, err := New(tree(t, names...)).Cgroups()
	if err != nil || len(got.SlurmJobs) != maxJobs {
		t.Errorf("%d jobs, %v", len(got.SlurmJobs), err)
	}
	w := walk{entries: maxEntries}
	w.root, _ = os.OpenRoot(tree(t, "a/"))
	defer w.root.Close()
	if names, err := w.list("."); err == nil {
		t.Errorf("%v is listed after %d entries", names, maxEntries)
	}
}
