// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"bufio"
	"context"
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
	"time"

	"golang.org/x/sys/unix"
)

// testJobPrivileges has exporters of each privilege say how a job's data travels, which uses TCP in the
// network namespace of the host and in that of a pod, and RDMA. The rank is in a control group as Slurm makes
// them.
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

// cellOf watches until the verdict is the one that is wanted, and wants none before that is more certain or
// names another transport. The guest is emulated: it may move little for a while, and its driver may be late.
func cellOf(t *testing.T, cell *jobCell, want, name, nvml string) {
	caps := map[string][]uintptr{
		"setns": {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_ADMIN}, "files": {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH},
		"ptrace": {unix.CAP_SYS_PTRACE}, "none": {},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./gpufabric_exporter", "jobs", "--watch", "--interval=3s", "--output=json", "--gpu.nvml-library="+nvml)
	if keep, known := caps[cell.tier]; known {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: keep}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("%s: %v", cell.tier, err)
		return
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	const readings = 8 // of a verdict that is to stay unknown
	last := "nothing"
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		said, why, err := saidOf(lines.Bytes(), name)
		if err != nil {
			t.Errorf("%s: %v: %s", cell.tier, err, lines.Bytes())
			return
		}
		last = said + ": " + why
		if said == want && (want != "unknown" || n == readings) {
			t.Logf("%s: %s after %d readings", cell.tier, last, n)
			return
		}
		if said != "unknown" && (said[:3] != want[:3] || said != want && strings.HasSuffix(said, "confirmed")) {
			t.Errorf("%s: %s, want %s", cell.tier, last, want)
			return
		}
	}
	t.Errorf("%s: at last %s, want %s", cell.tier, last, want)
}

// saidOf finds what a line says of a job.
func saidOf(line []byte, name string) (said, why string, err error) {
	var answer struct {
		Jobs []struct {
			Name, Transport string
			Confirmed       bool
			Reason          string `json:"unknown_reason"`
			Evidence        []string
		}
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return "", "", err
	}
	said = "unknown"
	var reasons strings.Builder
	for _, j := range answer.Jobs {
		if j.Name == name && j.Transport != "unknown" {
			said = j.Transport + map[bool]string{true: ", confirmed", false: ", suspected"}[j.Confirmed]
		}
		fmt.Fprint(&reasons, j.Name, " ", j.Transport, " ", j.Reason, " ", strings.Join(j.Evidence, "; "))
	}
	return said, reasons.String(), nil
}
