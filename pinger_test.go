// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
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
	asked, err := run("--device=mlx5_0", "--count=2", "--interval=100ms", "--timeout=5s", address).CombinedOutput()
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

// TestExportersPing has two exporters ping each other, tell it to Prometheus, and leave no worker behind.
func TestExportersPing(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	targets := filepath.Join(dir, "targets.json")
	var hosts []*host
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		l.Close()
	}
	list, _ := json.Marshal([]map[string]any{{"targets": addresses, "labels": map[string]string{"leaf": "l1"}}})
	if err := os.WriteFile(targets, list, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, address := range addresses {
		of := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(of, 0o700); err != nil {
			t.Fatal(err)
		}
		library := verbstest.Build(t, of)
		verbstest.Describe(t, library, fmt.Sprintf("device mlx5_0 127.0.%d.2", i), fmt.Sprintf("device mlx5_1 127.0.%d.3", i))
		file := filepath.Join(of, "config.yml")
		config := fmt.Sprintf("rdma_ping: {enabled: true, target_files: [%s], self: %q, plain: true, interval: 500ms, library: %s}\n", targets, address, library)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, startHost(t, self, "--web.listen-address="+address, "--config.file="+file, "--path.sysfs="+tree.Sysfs(),
			"--path.rootfs="+tree.Rootfs(), "--collector.disable-defaults", "--collector.ping"))
	}
	for i, h := range hosts {
		url := "http://" + addresses[i] + "/metrics"
		for end := time.Now().Add(eventually); ; time.Sleep(50 * time.Millisecond) {
			answer, err := h.client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if regexp.MustCompile(`(?m)^gpufabric_ping_messages_total\{device="mlx5_1",leaf="l1",peer_leaf="l1",peers="leaf",port="1"\} [1-9]`).Match(out) &&
				regexp.MustCompile(`(?m)^gpufabric_ping_rtt_seconds_count\{clock="host",device="mlx5_0",peers="loopback",port="1"\} [1-9]`).Match(out) &&
				strings.Contains(string(out), `gpufabric_ping_uncovered{device="mlx5_2",port="1",reason="not_opened"} 1`) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("nothing is pinged: %s", out)
			}
		}
	}
	workers := offspring(hosts[0].exporter.Process.Pid)
	if len(workers) != 1 {
		t.Errorf("processes %v", workers)
	}
	begin := time.Now()
	if err := hosts[0].exporter.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	log := <-hosts[0].log
	t.Logf("ended after %s: %s", time.Since(begin), log)
	for end := time.Now().Add(eventually); hasLoaded(workers[0], verbstest.Library); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the worker is left")
		}
	}
}

// hasLoaded reports whether a process has a library loaded.
func hasLoaded(pid int, library string) bool {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	return strings.Contains(string(b), library)
}
