// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// facts are what a reader of some privilege knows of a candidate.
type facts struct {
	Hidden                                                                                  fabric.Reason
	Found                                                                                   bool
	Files, Maps, Sockets, Verbs, NetDevs, Settings, Limits, Devices, NetNS, Workload, Start string
}

// observe is what the helper does: it looks at the process with that PID, which NVML is said to list.
func observe(pid int) (facts, error) {
	r, err := Open("/proc", sources())
	if err != nil {
		return facts{}, err
	}
	defer r.Close()
	gpus := fabric.Known(map[int][]string{pid: {"GPU-a"}}, "NVML", time.Time{})
	reading, err := r.Look(context.Background(), gpus, time.Now())
	if err != nil {
		return facts{}, err
	}
	f := facts{Hidden: reading.Hidden}
	i := slices.IndexFunc(reading.Candidates, func(c fabric.RankCandidate) bool { return c.PID == pid })
	if i < 0 {
		return f, nil
	}
	c := reading.Candidates[i]
	say := func(m fabric.Meta) string { return strings.TrimSuffix(m.State.String()+" "+string(m.Reason), " ") }
	return facts{
		reading.Hidden, true, say(c.Files.Meta()), say(c.Maps.Meta()), say(c.Sockets.Meta()), say(c.Verbs.Meta()), say(c.NetDevs.Meta()),
		say(c.Settings.Meta()), say(c.Limits.Meta()), say(c.Devices.Meta()), say(c.NetNS.Meta()), say(c.Workload.Meta()), strconv.FormatBool(c.Start > 0),
	}, nil
}

// as returns the attributes of a reader of a tier: root, or the user nobody with some capabilities.
func as(tier string) *syscall.SysProcAttr {
	caps := map[string][]uintptr{
		"files and setns": {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_ADMIN},
		"files":           {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH},
		"ptrace":          {unix.CAP_SYS_PTRACE},
		"none":            {},
	}
	keep, known := caps[tier]
	if !known {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: keep}
}

// TestPrivileges is the table of what each privilege shows, on this kernel: of a process of root in the
// network namespace of the reader, and of one in a namespace of its own, as a pod has.
func TestPrivileges(t *testing.T) {
	needRoot(t)
	const (
		ok     = "ok"
		denied = "unknown privilege"
	)
	all := facts{Found: true, Files: ok, Maps: ok, Sockets: ok, Verbs: ok, NetDevs: ok, Settings: ok, Limits: ok, Devices: ok, NetNS: ok, Workload: ok, Start: "true"}
	if !hasSockets(t) {
		all.Sockets = "unknown missing"
	}
	// Folders of descriptors and environments are open to their owner only: CAP_SYS_PTRACE alone does not open
	// those of others.
	trace := all
	trace.Files, trace.Settings, trace.Sockets, trace.Verbs = denied, denied, denied, denied
	pod := all
	pod.Sockets = denied // setns(2) needs CAP_SYS_ADMIN
	none := facts{
		Found: true, Files: denied, Maps: denied, Sockets: denied, Verbs: denied, NetDevs: ok, Settings: denied, Limits: ok, Devices: denied,
		NetNS: denied, Workload: ok, Start: "true",
	}
	for _, c := range []struct {
		tier string
		pod  bool // the rank is in a network namespace of its own
		want facts
	}{
		{"root", false, all},
		{"root", true, all},
		{"files and setns", false, all},
		{"files and setns", true, all},
		{"files", false, all},
		{"files", true, pod},
		{"ptrace", false, trace},
		{"ptrace", true, trace},
		{"none", false, none},
		{"none", true, none},
	} {
		t.Run(fmt.Sprintf("%s, pod %t", c.tier, c.pod), func(t *testing.T) {
			attr := inDev()
			if c.pod {
				attr.Cloneflags |= unix.CLONE_NEWNET
			}
			s := spawn(t, attr, nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0 /dev/nvidia-uvm")
			looker := spawn(t, as(c.tier), nil, fmt.Sprintf("LOOK=%d", s.Process.Pid))
			var got facts
			if line := looker.line(t); json.Unmarshal([]byte(line), &got) != nil {
				t.Fatalf("the reader says %q", line)
			}
			// Where this machine itself is a container, procfs does not show everything whatever the privilege.
			got.Hidden = ""
			if got != c.want {
				t.Errorf("\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

// In a PID namespace of its own, all other processes are hidden, and the reading reports that.
func TestPIDNamespace(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	looker := spawn(t, attr, nil, "OWN_PROC=1", fmt.Sprintf("LOOK=%d", s.Process.Pid))
	var got facts
	if line := looker.line(t); json.Unmarshal([]byte(line), &got) != nil || got.Found || got.Hidden != fabric.ReasonPrivilege {
		t.Errorf("%+v, %q", got, line)
	}
}

// lookAs is the helper's part of these tests.
func lookAs(pid string) error {
	if os.Getenv("OWN_PROC") != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
	}
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		return err
	}
	f, err := observe(n)
	if err != nil {
		return err
	}
	b, err := json.Marshal(f)
	fmt.Fprintf(os.Stdout, "ready\n%s\n", b)
	return err
}
