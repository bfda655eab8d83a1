// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator"
)

// captured captures a simulated node into a file, which is a new one if to is empty.
func captured(t *testing.T, to string, args ...string) (file string, stdout, stderr *commandtest.Output, code int) {
	t.Helper()
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file = cmp.Or(to, filepath.Join(t.TempDir(), "c.tar.gz"))
	stdout, stderr = new(commandtest.Output), new(commandtest.Output)
	args = append([]string{
		"capture", "--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--file=" + file,
	}, args...)
	code = run(t, Options{}, stdout, stderr, args...)
	return file, stdout, stderr, code
}

func TestCapture(t *testing.T) {
	file, stdout, stderr, code := captured(t, "", "--collector.device-exclude=mlx5_7")
	if code != command.OK || stderr.String() != "" {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	commandtest.Contains(t, stdout.String(), file, "10 RDMA devices (mlx5_0, ", "Left out: mlx5_7: excluded by flags.", capture.Note)

	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the archive: %v, %v", info, err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var again commandtest.Output
	if code := run(t, Options{}, &again, &again, "capture", "--file="+file); code != command.Failure {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, again.String(), "exists and is not overwritten")
	if after, _ := os.ReadFile(file); string(after) != string(before) {
		t.Error("overwritten")
	}

	var judged commandtest.Output
	job := filepath.Join(t.TempDir(), "job.sh")
	if err := os.WriteFile(job, []byte("export NCCL_IB_HCA=mlx5_1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(t, Options{}, &judged, &judged, "lint", "--capture="+file, job); code != 1 {
		t.Errorf("lint: exit code %d", code)
	}
	commandtest.Contains(t, judged.String(), "wrong_here  NCCL_IB_HCA=mlx5_1", "It does not include mlx5_0, mlx5_2,")

	p := start(t, Options{}, "demo", "--capture="+file)
	p.Ready()
	commandtest.Contains(t, p.Stdout.String(), "Node as captured at", "10 RDMA devices", p.URL+"/metrics")
	commandtest.Lacks(t, p.Stderr.String(), "level=warn", "level=error")
	_, body, _ := p.Get("/metrics")
	commandtest.Contains(t, body, `gpufabric_hca_info{`, "gpufabric_gid_selected_index{", "go_goroutines")
	commandtest.Lacks(t, body, `device="mlx5_7"`)
	commandtest.Lacks(t, body, "\nprocess_")
	status, page, _ := p.Get("/")
	if status != http.StatusOK {
		t.Errorf("page: %d", status)
	}
	commandtest.Contains(t, page, "captured node", "Node as captured at", capture.Note)
}

func TestCaptureToStdout(t *testing.T) {
	_, stdout, stderr, code := captured(t, "-")
	_, err := capture.Unpack(strings.NewReader(stdout.String()), t.TempDir())
	if code != command.OK || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	commandtest.Contains(t, stderr.String(), "11 RDMA devices", capture.Note)
}

func TestCaptureFails(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		says string
		code int
		args []string
	}{
		{"no such file", command.Failure, []string{"--path.sysfs=/nosuch"}},
		{"no such file", command.Usage, []string{"--config.file=/nosuch"}},
		{"no such file", command.Failure, []string{"--file=" + dir + "/nosuch/c"}},
		{"does not take this flag", command.Usage, []string{"--web.max-requests=3"}},
		{"expected a path", command.Usage, []string{"--file="}},
	} {
		file := filepath.Join(dir, "c.tar.gz")
		args := c.args
		if !strings.Contains(args[0], "--file") {
			args = append(args, "--file="+file)
		}
		var out commandtest.Output
		if code := run(t, Options{}, &out, &out, append([]string{"capture"}, args...)...); code != c.code {
			t.Errorf("%v: exit code %d, expected %d", args, code, c.code)
		}
		commandtest.Contains(t, out.String(), c.says)
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%v left a file", args)
		}
	}
}

func TestReplayFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("garbage"), 0o644); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		"not a usable capture": {"--capture=" + bad},
		"no such file":         {"--capture=" + dir + "/nosuch"},
		"at most one of them":  {"--capture=" + bad, "--scenario=healthy"},
	} {
		var out commandtest.Output
		if code := run(t, Options{}, &out, &out, append([]string{"demo"}, args...)...); code == command.OK {
			t.Errorf("%v: exit code 0", args)
		}
		commandtest.Contains(t, out.String(), says)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("leaves %v", left)
	}
}

// TestRecordedAnswers serves a copy of some sysfs with what its kernel answered.
func TestRecordedAnswers(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const answers = `[{"command": "ETHTOOL_MSG_LINKMODES_GET", "netdev": "enp24s0np0", "answer": "08000500801a0600"},
		{"command": "ETHTOOL_GSTATS", "netdev": "enp24s0np0", "statistics": [{"name": "rx_prio3_pause", "value": 77}]}]`
	if err := os.WriteFile(filepath.Join(dir, "ethtool.json"), []byte(answers), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
	p := start(t, Options{}, append(paths, "--path.netlink="+dir)...)
	p.Ready()
	_, body, _ := p.Get("/metrics")
	commandtest.Contains(t, body, `netdev="enp24s0np0",port="1",priority="3"} 77`)

	var out commandtest.Output
	if code := run(t, Options{}, &out, &out, append(paths, "--path.netlink="+dir+"/nosuch")...); code != command.Failure {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, out.String(), "no such file")
}
