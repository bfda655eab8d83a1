// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/rdmaping/verbs/verbstest"
)

// TestPinger has one process of this program answer another one, each with a worker of its own that has the library,
// and none left when they are done.
func TestPinger(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	library := verbstest.Build(t, t.TempDir())
	verbstest.Describe(t, library, "device mlx5_0 127.0.0.2", "device mlx5_1 127.0.0.3")
	run := func(args ...string) *exec.Cmd {
		args = append([]string{"ping", "--library=" + library, "--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}, args...)
		return exec.Command(os.Args[0], args...)
	}
	answering := run("--answer=127.0.0.1:0", "--device=mlx5_1")
	out, err := answering.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	answering.Stderr = &complaints
	if err := answering.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answering.Process.Kill(); answering.Wait() })
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if m := regexp.MustCompile(`http://(\S+)/rdma-ping`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	if address == "" {
		t.Fatalf("it does not answer: %s", complaints.String())
	}
	asked, err := run("--device=mlx5_0", "--count=2", "--interval=50ms", "--timeout=5s", address).CombinedOutput()
	if err != nil || !strings.Contains(string(asked), "2 sent, 2 answered") {
		t.Errorf("%v: %s", err, asked)
	}
	workers := offspring(answering.Process.Pid)
	if len(workers) != 1 || !hasLoaded(workers[0], library) || hasLoaded(answering.Process.Pid, library) {
		t.Errorf("processes %v: the library is in the wrong one", workers)
	}
	if err := answering.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := answering.Wait(); err != nil {
		t.Errorf("%v: %s", err, complaints.String())
	}
	for end := time.Now().Add(eventually); hasLoaded(workers[0], library); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker is left")
		}
	}
	if again, err := run("--count=1", address).CombinedOutput(); err == nil {
		t.Errorf("nobody answers any more: %s", again)
	}
}

// hasLoaded reports whether a process has a library loaded.
func hasLoaded(pid int, library string) bool {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	return strings.Contains(string(b), library)
}
