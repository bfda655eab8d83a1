// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// testJobPrivileges has exporters of each privilege say how a job's data travels, which uses TCP in the network namespace of the host
// and in that of a pod, and RDMA. The rank is in a control group as Slurm makes them.
func testJobPrivileges(t *testing.T, _ *exporter) {
	if _, err := os.Stat(pingpong); err != nil {
		t.Skip("the guest has no ibv_rc_pingpong: it was set up before this test was written")
	}
	nvml := jobDriver(t)
	const groups = "/sys/fs/cgroup"
	if _, err := os.Stat(groups + "/cgroup.procs"); err != nil {
		undone(t, "mount -t cgroup2 none "+groups, "umount "+groups)
	}
	undone(t, "ip netns add job-pod", "ip netns del job-pod")
	for _, line := range []string{
		"ip link add job0 type veth peer name job1 netns job-pod", "ip addr add 10.0.7.1/24 dev job0", "ip link set job0 up",
		"ip -n job-pod addr add 10.0.7.2/24 dev job1", "ip -n job-pod link set job1 up", "ip -n job-pod route add default via 10.0.7.1",
	} {
		command(t, line)
	}
	server, gid := pingpongServer(t)
	defer server()
	l, _ := echo(t)
	for n, c := range []struct {
		name string
		env  []string
		want func(*jobCell) string
	}{
		{"tcp", []string{"PEER=" + l.Addr().String()}, func(c *jobCell) string { return c.host }},
		{"tcp in a pod", []string{"PEER=" + l.Addr().String(), "HERE=10.0.7.2", "NETNS=/run/netns/job-pod"}, func(c *jobCell) string { return c.pod }},
		{"rdma", []string{"RDMA=" + gid, "UVERBS=1"}, func(c *jobCell) string { return c.rxe }},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := strconv.Itoa(4100 + n)
			group := filepath.Join(groups, "slurmstepd.scope", "job_"+id)
			if err := os.MkdirAll(group, 0o755); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(group); _ = os.Remove(filepath.Dir(group)) }()
			pid, end := rankOf(t, append(c.env, "CGROUP="+group)...)
			defer end()
			describe(t, pid)
			var all sync.WaitGroup
			for i := range jobCells {
				cell := &jobCells[i]
				all.Go(func() { cellOf(t, cell, c.want(cell), "slurm/"+id, nvml) })
			}
			all.Wait()
		})
	}
}

// cellOf asks until the verdict is the one that is wanted, and wants none that is more certain in between. The guest may move nothing for a
// while.
func cellOf(t *testing.T, cell *jobCell, want, name, nvml string) {
	caps := map[string][]uintptr{
		"setns": {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_ADMIN}, "files": {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH},
		"ptrace": {unix.CAP_SYS_PTRACE}, "none": {},
	}
	var said string
	for range 8 {
		cmd := exec.Command("./gpufabric_exporter", "jobs", "--interval=4s", "--output=json", "--gpu.nvml-library="+nvml)
		if keep, known := caps[cell.tier]; known {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: keep}
		}
		out, _ := cmd.Output() // it exits with 1 for a job on TCP
		var answer struct {
			Jobs []struct {
				Name, Transport string
				Confirmed       bool
				Reason          string `json:"unknown_reason"`
				Evidence        []string
			}
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Errorf("%s: %v: %s", cell.tier, err, out)
			return
		}
		said = "unknown"
		var why string
		for _, j := range answer.Jobs {
			if j.Name == name && j.Transport != "unknown" {
				said = j.Transport + map[bool]string{true: ", confirmed", false: ", suspected"}[j.Confirmed]
			}
			why += fmt.Sprint(j.Name, " ", j.Transport, " ", j.Reason, " ", strings.Join(j.Evidence, "; "))
		}
		if said == want {
			t.Logf("%s: %s: %s", cell.tier, said, why)
			return
		}
		if said != "unknown" && (said[:3] != want[:3] || strings.HasSuffix(said, "confirmed")) {
			t.Errorf("%s: %s, want %s: %s", cell.tier, said, want, why)
			return
		}
		t.Logf("%s: not yet %s: %s: %s", cell.tier, want, said, why)
	}
	t.Errorf("%s: %s, want %s", cell.tier, said, want)
}
