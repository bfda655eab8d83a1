// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// From inside a job, check reports what root, a user, and containers without device nodes or in another
// network namespace may do with RDMA devices, by opening their nodes and nothing else.
func testInside(t *testing.T, _ *exporter) {
	undone(t, "mknod -m 666 /dev/nvidia0 c 195 0", "rm /dev/nvidia0")
	write(t, "/tmp/inside.yml", "roles: [{device: 'fakehca_[01]', role: compute}, {device: '.*', role: storage}]\n")
	const libraries = "/tmp/inside-lib"
	if err := os.MkdirAll(libraries+"/libibverbs", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(libraries); os.Remove("/tmp/inside.yml") })
	write(t, libraries+"/libibverbs.so.1", "x")
	write(t, libraries+"/libibverbs/libmlx5-rdmav34.so", "x")

	nodes := strings.Fields(shellOutput(t, "ls -d /dev/infiniband/uverbs*"))
	if len(nodes) == 0 {
		t.Fatal("the guest has no uverbs nodes")
	}
	mode := func(m string) { command(t, "chmod "+m+" "+strings.Join(nodes, " ")) }
	mode("666")
	t.Cleanup(func() { mode("600") })

	// preflight returns what is not ok of the checks of a job.
	preflight := func(t *testing.T, uid uint32, script string) string {
		t.Helper()
		const run = "LD_LIBRARY_PATH=" + libraries + " ./gpufabric_exporter preflight --output=json --config.file=/tmp/inside.yml --only=inside_verbs --only=inside_devices --only=inside_memlock --only=inside_libibverbs --only=inside_provider"
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, "PREFLIGHT", run))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		var report struct{ Verdicts []verdict }
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%v: %s%s", err, out, said.String())
		}
		var found []string
		asked := 0
		for _, v := range report.Verdicts {
			t.Log(v.Check, v.Device, v.Status, v.Evidence)
			if strings.HasPrefix(v.Check, "inside_") {
				asked++
			}
			if v.Status != "ok" {
				found = append(found, fmt.Sprint(v.Check, " ", v.Status))
			}
		}
		if asked == 0 {
			t.Errorf("no check of a job was made: %s", out)
		}
		return strings.Join(found, ", ")
	}
	for _, c := range []struct {
		name   string
		uid    uint32
		script string
		want   string
	}{
		{"root", 0, "PREFLIGHT", ""},
		{"no_uverbs", 0, "unshare -m sh -c 'mount -t tmpfs none /dev/infiniband; PREFLIGHT'", "inside_verbs failed"},
		{"low_memlock", 65534, "ulimit -l 64; PREFLIGHT", "inside_memlock failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := preflight(t, c.uid, c.script); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		mode("600")
		defer mode("666")
		if got := preflight(t, 65534, "ulimit -l 64; PREFLIGHT"); got != "inside_verbs failed, inside_memlock failed" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("pod_network_shared", func(t *testing.T) {
		namespace(t)
		if got := preflight(t, 0, "ip netns exec other sh -c 'PREFLIGHT'"); got != "" {
			t.Errorf("got %q, want nothing: the kernel shows devices in every namespace", got)
		}
	})
	t.Run("pod_network_exclusive", func(t *testing.T) {
		exclusive(t)
		namespace(t)
		if got := preflight(t, 0, "ip netns exec other sh -c 'PREFLIGHT'"); got != "inside_devices unknown" {
			t.Errorf("got %q", got)
		}
	})
}

func shellOutput(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
