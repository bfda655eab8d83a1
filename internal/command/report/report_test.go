// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/report"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/site"
)

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", commandtest.Memory(t))
	return commandtest.Run(t, new(site.Site), New, args...)
}

// A report is no verdict: one of a broken node ends well, too.
func TestFormats(t *testing.T) {
	for format, want := range map[string][]string{
		"markdown": {"# NCCL report: dgx-h100-17 (simulated)\n", "| RoCE v2 | ", "### 1. PFC does not match", "simulated: scenario pfc-off"},
		"html":     {"<!DOCTYPE html>", "<h1>NCCL report: dgx-h100-17 (simulated)</h1>", "PFC does not match"},
		"json":     {`"report": "gpufabric_exporter report"`, `"version": 1`, `"id": "roce_pfc"`},
	} {
		code, stdout, stderr := run(t, "--scenario=pfc-off", "--output="+format)
		if code != command.OK || stderr != "" {
			t.Errorf("%s: exit code %d: %s", format, code, stderr)
		}
		commandtest.Contains(t, stdout, want...)
		if strings.Contains(stdout, "\x1b") {
			t.Errorf("%s has an escape", format)
		}
	}
	if _, stdout, _ := run(t, "--scenario=pfc-off", "-o", "html"); strings.Contains(stdout, "<script") || strings.Contains(stdout, "src=") || strings.Contains(stdout, "@import") || strings.Contains(stdout, "url(") {
		t.Error("the page asks for something else")
	}
}

// A simulated fault that shows over time only is the first issue, as in check, and not what follows from it.
func TestReportOverTime(t *testing.T) {
	code, stdout, stderr := run(t, "--scenario=pfc-storm")
	if code != command.OK || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "the worst: `mlx5_7`: [PFC storm: this host pauses the network](#issue-1).", "- First step: Drain the node.")
	commandtest.Lacks(t, stdout, "Traffic was not checked")
}

// Running jobs are read twice, as the command jobs does.
func TestJobs(t *testing.T) {
	code, stdout, stderr := run(t, "--scenario=job-tcp")
	if code != command.OK || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "the worst: `slurm/4242`: [a job uses TCP instead of RDMA](#issue-1).", "| Transport of running jobs | `slurm/4242`: tcp, confirmed |", "Remove NCCL_IB_DISABLE where the job gets it")
	if strings.Contains(stdout, "No step is needed") || strings.Contains(stdout, "No issue was found") {
		t.Errorf("a job that uses TCP is well:\n%.2000s", stdout)
	}
}

// A device may have no end, and is not opened.
func TestLogIsDevice(t *testing.T) {
	if code, _, stderr := run(t, "--scenario=healthy", "--log=/dev/zero"); code != command.Usage || !strings.Contains(stderr, "it is a device or a socket: expected a file or a pipe") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A pipe without a writer is not waited for.
func TestLogWithoutEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	soon := func(s *site.Site, log *logging.Flags) *command.Command {
		return (&reporting{site: s, log: log, wait: time.Millisecond}).command()
	}
	code, _, stderr := commandtest.Run(t, new(site.Site), soon, "--scenario=healthy", "--log="+file)
	if code != command.Usage || !strings.Contains(stderr, "interrupted before its end") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if f, err := os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // the reader ends
		f.Close()
	}
}

// A later report is compared with the JSON of an earlier one.
func TestBefore(t *testing.T) {
	before := filepath.Join(t.TempDir(), "before.json")
	_, stdout, _ := run(t, "--scenario=rate-degraded", "--output=json", "--iteration-ms=900,800")
	var f report.Facts
	if err := json.Unmarshal([]byte(stdout), &f); err != nil || f.Node.Simulated != "rate-degraded" || len(f.Results) == 0 {
		t.Fatalf("%v, %+v", err, f.Node)
	}
	if err := os.WriteFile(before, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "--scenario=healthy", "--before="+before, "--iteration-ms=900,600.5")
	if code != command.OK || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "## Compared with the earlier report", "the scenario rate-degraded", "**No longer found:** port_rate (mlx5_6)", "| Iteration, as given | 800 ms | 600.5 ms | \\-24.9 % |")
}

// Results of probes are read from files, and findings from the log of a job.
func TestEvidence(t *testing.T) {
	dir := t.TempDir()
	results, log := filepath.Join(dir, "socket.json"), filepath.Join(dir, "job.log")
	for file, content := range map[string]string{
		results: `{"probe":"socket","runs":[{"kind":"socket","started":"2026-11-01T10:00:00Z","outcome":"ok","path":"socket","network":"Socket","nccl_version":"2.27.3","measurements":[{"op":"broadcast","type":"float32","bytes":67108864,"ranks":2,"seconds":0.03,"busbw_bytes_per_second":2.5e9}]}]}`,
		log:     "gpu1:10:11 [0] NCCL INFO Bootstrap : Using eth0\ngpu1:10:11 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 opcode=129 len=0 vendor err 129\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := run(t, "--scenario=healthy", "--probe="+results, "--log="+log)
	if code != command.OK || stderr != "" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "| TCP | 2.50 GB/s |", "2026-11-01 10:00 UTC (from "+results+")", "| RoCE v2 | not measured |", "completion_retry_exceeded", "2 lines, 2 of NCCL")
}

// A report on copied files has no probes of this host. A user who may not read everything still gets a report.
func TestOtherHost(t *testing.T) {
	args := simulatortest.Host(t, "healthy")
	code, stdout, stderr := run(t, append(args, "--config.file=none")...)
	if code != command.OK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "No bandwidth was measured.", "--probe names results", "not compared with expectations")
	code, stdout, stderr = run(t, "--path.sysfs="+t.TempDir(), "--path.procfs="+t.TempDir(), "--path.rootfs="+t.TempDir(), "--config.file=none")
	if code != command.OK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if strings.Contains(stdout, "No step is needed") {
		t.Errorf("a host of which nothing can be read is well:\n%s", stdout)
	}
}

func TestWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	large := file("large", "{")
	if err := os.Truncate(large, 1<<30); err != nil { // a hole
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"one time":             {[]string{"--iteration-ms=812"}, "expected two times in milliseconds"},
		"three times":          {[]string{"--iteration-ms=1,2,3"}, "expected two times in milliseconds"},
		"no time":              {[]string{"--iteration-ms=0,5"}, "expected two times in milliseconds"},
		"not a time":           {[]string{"--iteration-ms=NaN,5"}, "expected two times in milliseconds"},
		"an endless time":      {[]string{"--iteration-ms=1,Inf"}, "expected two times in milliseconds"},
		"with a unit":          {[]string{"--iteration-ms=812ms,640ms"}, "expected two times in milliseconds"},
		"unknown format":       {[]string{"--output=pdf"}, "expected markdown, html or json"},
		"no earlier report":    {[]string{"--before=" + filepath.Join(dir, "none")}, "no such file"},
		"1 GiB":                {[]string{"--before=" + large}, "is longer than 16777216 bytes"},
		"a folder":             {[]string{"--before=" + dir}, "expected a regular file"},
		"of check":             {[]string{"--before=" + file("check", `{"verdicts":[]}`)}, "expected the output of report --output=json"},
		"Markdown":             {[]string{"--before=" + file("md", "# NCCL report")}, "not the JSON of a report"},
		"another version":      {[]string{"--before=" + file("v9", `{"report":"gpufabric_exporter report","version":9}`)}, "version 9: expected version 1"},
		"no results":           {[]string{"--probe=" + file("noresults", `{}`)}, "neither runs nor probes"},
		"no log":               {[]string{"--log=" + filepath.Join(dir, "none")}, "no such file"},
		"a log of gzip":        {[]string{"--log=" + file("gz", "\x1f\x8b\x08\x00")}, "not text"},
		"a scenario and paths": {[]string{"--scenario=healthy", "--path.sysfs=/sys"}, "looks at a simulated node"},
	} {
		t.Run(name, func(t *testing.T) {
			args := tt.args
			if !strings.HasPrefix(args[0], "--scenario") {
				args = append(args, "--scenario=healthy-cpu-node")
			}
			code, stdout, stderr := run(t, args...)
			if code != command.Usage || stdout != "" || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, expected %d and %q: %s%s", code, command.Usage, tt.want, stderr, stdout)
			}
		})
	}
}
