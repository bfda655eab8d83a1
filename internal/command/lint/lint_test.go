// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/capture"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/verdict"
)

// lintJob runs the command over a file of that name and text.
func lintJob(t *testing.T, name, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = commandtest.Run(t, new(site.Site), New, append(args, file)...)
	return code, strings.ReplaceAll(stdout, file, name), stderr
}

// Each scenario judges the same line otherwise.
func TestOnNode(t *testing.T) {
	commandtest.Memory(t)
	for _, c := range []struct {
		scenario, line string
		code           int
		want           []string
	}{
		{"healthy", "NCCL_IB_HCA=mlx5_1", exitFailed, []string{"wrong_here", "It does not include mlx5_0, mlx5_2, mlx5_3"}},
		{"healthy", "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7", exitFine, nil},
		{"healthy", "NCCL_IB_HCA=mlx5_99", exitFailed, []string{"NCCL_IB_HCA matches no active RDMA port"}},
		{"healthy", "NCCL_IB_HCA=^mlx5", exitFailed, []string{"NCCL_IB_HCA matches no active RDMA port"}},
		{"healthy", "NCCL_IB_HCA=mlx5:2", exitFailed, []string{"wrong_here"}},
		{"healthy-oci-h100", "NCCL_IB_HCA=mlx5_0,mlx5_1", exitFailed, []string{"mlx5_1 is a prefix, and also matches mlx5_10", "NCCL_IB_HCA==mlx5_0,mlx5_1"}},
		{"healthy", "NCCL_IB_GID_INDEX=7", exitFailed, []string{"NCCL_IB_GID_INDEX=7 is used unchecked; that entry is empty"}},
		{"healthy", "NCCL_IB_GID_INDEX=3", exitFine, []string{"not_recommended"}},
		{"healthy-ib", "NCCL_IB_GID_INDEX=3", exitFine, []string{"The rails of this node are InfiniBand"}},
		{"healthy-ib", "NCCL_IB_TC=106", exitFine, []string{"NCCL gives a traffic class to RoCE alone"}},
		{"healthy", "NCCL_IB_TC=106", exitFine, nil},
		{"healthy", "NCCL_IB_TC=32", exitFailed, []string{"PFC does not match the RoCE configuration"}},
		{"healthy", "NCCL_IB_SL=3", exitFine, []string{"The rails of this node are RoCE"}},
		{"healthy", "NCCL_SOCKET_IFNAME=eth77", exitFailed, []string{"NCCL_SOCKET_IFNAME matches no interface of the node"}},
		{"healthy", "NCCL_SOCKET_IFNAME=bond0", exitFine, nil},
		{"healthy", "NCCL_SOCKET_IFNAME=enp24s0np0", exitFine, []string{"It takes interfaces of rails: enp24s0np0"}},
		{"healthy-roce-vlan", "NCCL_SOCKET_IFNAME=ens5np0", exitFine, []string{"It takes interfaces of rails: ens5np0 (mlx5_0), ens5np0.180 (mlx5_0). The"}},
		{"healthy-roce-vlan", "NCCL_SOCKET_IFNAME==ens5np0", exitFine, []string{"It takes interfaces of rails: ens5np0 (mlx5_0). The"}},
		{"healthy-roce-vlan", "NCCL_SOCKET_IFNAME==ens5np0.180", exitFine, []string{"It takes interfaces of rails: ens5np0.180 (mlx5_0). The"}},
		{"healthy", "NCCL_SOCKET_IFNAME=lo", exitFailed, []string{"lo: it does not reach other nodes"}},
		{"healthy", "NCCL_IB_DISABLE=1", exitFailed, []string{"RDMA is disabled", "NCCL uses TCP sockets"}},
		{"healthy", "NCCL_IB_HCA=mlx5_0; export NCCL_IB_HCA=$(devices)", exitFailed, []string{"1 failed, 1 undecided", "Line 1 sets NCCL_IB_HCA too"}},
		{"healthy-efa", "NCCL_IB_DISABLE=1", exitFine, nil},
		{"no-rdma", "NCCL_IB_DISABLE=1", exitFine, nil},
		{"healthy", "NCCL_NET=Socket", exitFailed, []string{"wrong_here"}},
		{"healthy", "NCCL_P2P_DISABLE=1", exitFailed, []string{"wrong_here", "8 GPUs of this node have NVLink, which NCCL then does not use"}},
	} {
		code, stdout, stderr := lintJob(t, "job.sh", "export "+c.line+"\n", "--scenario="+c.scenario)
		if code != c.code || stderr != "" || strings.Contains(stdout, "job setting") || strings.Contains(stdout, "jobs of the host") || strings.Contains(c.line, "$(") && strings.Contains(stdout, "It does not include") {
			t.Errorf("%s %s: exit code %d, want %d: %s%s", c.scenario, c.line, code, c.code, stdout, stderr)
		}
		commandtest.Contains(t, stdout, c.want...)
	}
}

// TestSourceOnNode wants what a user can find as the place of a setting, not a number of this program.
func TestSourceOnNode(t *testing.T) {
	in, err := lint.Environment("environment", []string{"NCCL_IB_GID_INDEX=7"})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := diagnose.Run(lint.OnNode(in, simulated(t, "healthy")), diagnose.Checks(verdict.CheckGID))
	commandtest.Contains(t, verdicts[0].Evidence, "NCCL_IB_GID_INDEX=7 (environment) is used unchecked")
}

// A value in any branch may be the one of the job. Values of different branches are not mixed.
func TestBranchesOnNode(t *testing.T) {
	commandtest.Memory(t)
	const matches = "NCCL_IB_HCA matches no active RDMA port"
	for name, c := range map[string]struct {
		script string
		code   int
		lines  []string // that have the finding
	}{
		"first":  {"if a; then\nexport NCCL_IB_HCA=mlx5_99\nelse\nexport NCCL_IB_HCA=mlx5\nfi\n", exitFailed, []string{"job.sh:2"}},
		"case":   {"case $1 in\na) export NCCL_IB_HCA=mlx5_98;;\nb) export NCCL_IB_HCA=mlx5_99;;\n*) export NCCL_IB_HCA=mlx5;;\nesac\n", exitFailed, []string{"job.sh:2", "job.sh:3"}},
		"base":   {"export NCCL_IB_HCA=mlx5_99\n[ -n \"$A\" ] && export NCCL_IB_HCA=mlx5\n", exitFailed, []string{"job.sh:1"}},
		"choice": {"export NCCL_IB_HCA=${HCA:-mlx5_99}\n", exitFailed, []string{"job.sh:1"}},
		"call":   {"NCCL_IB_HCA=mlx5_99 ./a\nNCCL_IB_HCA=mlx5 ./b\n", exitFailed, []string{"job.sh:1"}},
		"inside": {"main() {\nexport NCCL_IB_HCA=mlx5\nif a; then\nexport NCCL_IB_HCA=mlx5_99\nfi\n}\nmain\n", exitFailed, []string{"job.sh:4"}},
		"apart":  {"if a; then\nexport NCCL_IB_DISABLE=0\nelse\nexport NCCL_IB_HCA=mlx5\nfi\n", exitFine, nil},
	} {
		code, stdout, stderr := lintJob(t, "job.sh", c.script, "--scenario=healthy")
		if code != c.code || stderr != "" || strings.Count(stdout, matches) != len(c.lines) {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", name, code, c.code, c.lines, stdout, stderr)
		}
		for _, line := range c.lines {
			commandtest.Contains(t, stdout, line+"  wrong_here")
		}
	}
}

// simulated returns the node of a scenario.
func simulated(t *testing.T, name string) *fabric.Node {
	t.Helper()
	scenario, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	node, _, err := new(site.Site).ObserveOnce(t.Context(), &scenario, collector.CheckWants(), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// judge judges a script for a node, as the command does.
func judge(t *testing.T, node *fabric.Node, script string) (code int, text string) {
	t.Helper()
	in, err := lint.Parse("job.sh", []byte(script), lint.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	result := lint.Judge([]lint.Input{in}, lint.Newest(), node)
	var b strings.Builder
	if err := writeText(&b, &result, false, command.Colours(&b)); err != nil {
		t.Fatal(err)
	}
	return exitCode(&result), b.String()
}

// Every program that a script may run is judged with the settings that it gets.
func TestProgramsOnNode(t *testing.T) {
	commandtest.Memory(t)
	node := simulated(t, "healthy")
	const bad, good = "NCCL_IB_HCA=mlx5_77", "NCCL_IB_HCA=mlx5"
	for _, c := range []struct {
		script string
		code   int
	}{
		{"export BAD; ./a; export GOOD; ./a", exitFailed},
		{"export GOOD; ./a; export BAD; ./a", exitFailed},
		{"export GOOD; ./a; export GOOD; ./b", exitFine},
		{"export BAD; srun ./a; export GOOD; srun ./a", exitFailed},
		{"export BAD\nmpirun -np 8 ./a\nexport GOOD\nmpirun -np 8 ./a", exitFailed},
		{"export BAD; torchrun a.py; unset NCCL_IB_HCA; torchrun a.py", exitFailed},
		{"export BAD; unset NCCL_IB_HCA; torchrun a.py", exitFine},
		{"export BAD; export -n NCCL_IB_HCA; torchrun a.py", exitFine},
		{"export BAD; ./a & export GOOD; ./b & wait", exitFailed},
		{"export BAD; ./a | tee log; export GOOD; ./b", exitFailed},
		{"export BAD; cat x | ./a 2>&1 |& tee log; export GOOD; ./b", exitFailed},
		{"BAD ./a; GOOD ./a", exitFailed},
		{"GOOD ./a; env BAD ./a; export GOOD; ./a", exitFailed},
		{"( export BAD; ./a ); export GOOD; ./b", exitFailed},
		{"export GOOD; ( export BAD ); ./b", exitFailed}, // it has no effect: a mistake
		{"export GOOD; ( export GOOD; ./a ) ; ./b", exitFine},
		{"export BAD; ( export GOOD; ./a ); ./b", exitFailed},
		{"export BAD; (export GOOD; ./a) & ./b", exitFailed},
		{"export BAD; { export GOOD; ./a; } & ./b", exitFailed},
		{"export BAD; { export GOOD; ./a; } | tee log; ./b", exitFailed},
		{"export BAD; cat x | { export GOOD; ./a; }; ./b", exitFailed},
		{"export BAD; { export GOOD; ./a; }; ./b", exitFailed}, // line 1 counts for nothing
		{"for i in 1 2; do export BAD; ./a; done; export GOOD; ./b", exitFailed},
		{"for i in 1 2; do ./a; export BAD; done; export GOOD; ./b", exitFailed},
		{"while read l; do export BAD; ./a; done < x; export GOOD; ./b", exitFailed},
		{"export BAD; while true; do ./a; export GOOD; done", exitFailed},
		{"run() { ./a; }\nexport BAD; run\nexport GOOD; run", exitFailed},
		{"run() { ./a; }\nexport GOOD; run", exitFine},
		{"function run { ./a; }\nexport BAD; run; export GOOD; run", exitFailed},
		{"function run() { ./a; }\nexport BAD; run; export GOOD; run", exitFailed},
		{"setup() { export BAD; }\nsetup; ./a; export GOOD; ./b", exitFailed},
		{"setup() { export GOOD; }\nexport BAD; setup; ./a", exitFailed}, // line 2 counts for nothing
		{"setup() (\n export GOOD; ./b\n)\nexport BAD; setup; ./a", exitFailed},
		{"a() { export BAD; }\nmain() { a; ./a; export GOOD; ./a; }\nmain \"$@\"", exitFailed},
		{"a() { export BAD; }\n./a", exitFailed}, // another script may call it
		{"if x; then export BAD; fi; ./a; export GOOD; ./b", exitFailed},
		{"if x; then export BAD; else export GOOD; fi; if y; then ./a; fi; export GOOD; ./b", exitFailed},
		{"export BAD; if ./a; then echo; fi; export GOOD; ./b", exitFailed},
		{"if x; then export GOOD; elif y; then export GOOD; else export BAD; fi; ./a", exitFailed},
		{"case $1 in\na) export BAD; ./a;;\nb|c) export GOOD;;\nesac\nexport GOOD; ./b", exitFailed},
		{"case $1 in a) export GOOD;; *) export BAD; esac; ./a; export GOOD; ./b", exitFailed},
		{"[ x ] && export BAD && ./a\nexport GOOD; ./b", exitFailed},
		{"x ||\n export BAD\n./a; export GOOD; ./b", exitFailed},
		{"[ x ] && ( export BAD; ./a ); export GOOD; ./b", exitFailed},
		{"[ x ] && { export BAD; ./a; }; export GOOD; ./b", exitFailed},
		{"cd /x && export GOOD && ./a", exitFine},
		{"bash -c 'export BAD; ./a'; export GOOD; ./b", exitFailed},
		{"export BAD; bash -c './a'; export GOOD; ./b", exitFailed},
		{"ssh a \"export BAD; ./a\"; export GOOD; ./b", exitFailed},
		{"eval \"export BAD; ./a\"; export GOOD; ./b", exitFailed},
		{"export BAD; source ./run.sh; export GOOD; ./b", exitFailed},
		{"export BAD; . run.sh; export GOOD; ./b", exitFailed},
		{"export BAD; source venv/bin/activate; unset NCCL_IB_HCA; ./b", exitFine},
		{"#SBATCH --export=ALL,BAD\nsrun ./a; export GOOD; ./b", exitFailed},
		{"OPTIONS=(-x BAD)\nmpirun ${OPTIONS[@]} ./a; mpirun -x GOOD ./a", exitFailed},
		{"export BAD; $RUN ./a; export GOOD; ./b", exitFailed},
		{"for ((i=0; i<3; i++)); do export BAD; ./a; done; export GOOD; ./b", exitFailed},
		{"export BAD; ((n++)); unset NCCL_IB_HCA; ./b", exitFine},
		{"((export BAD; ./a) | tee x); export GOOD; ./b", exitFailed},
		{"export BAD; echo; mkdir x; unset NCCL_IB_HCA; ./b", exitFine},
		{"export NCCL_IB_HCA=${NCCL_IB_HCA:-mlx5_77}; ./a; export GOOD; ./a", exitFailed},
		{"export BAD; export NCCL_IB_HCA=${NCCL_IB_HCA:-mlx5}; ./a", exitFailed},
		{"export BAD; exec ./a", exitFailed},
		{"export BAD; ./a; export NCCL_IB_HCA=$(devices); ./a", exitFailed},
		{"time ./a; export BAD; ! ./a; export GOOD; ./a", exitFailed},
		{"export BAD; command ./a; export GOOD; ./a", exitFailed},
		{"export BAD; nohup ./a & export GOOD; ./a", exitFailed},
	} {
		script := strings.NewReplacer("BAD", bad, "GOOD", good).Replace(c.script) + "\n"
		if code, stdout := judge(t, node, script); code != c.code {
			t.Errorf("%q: exit code %d, want %d: %s", c.script, code, c.code, stdout)
		}
	}
}

// What lies beyond the bounds of a script is undecided: it does not pass.
func TestBoundsOnNode(t *testing.T) {
	commandtest.Memory(t)
	node := simulated(t, "healthy")
	var programs, branches strings.Builder
	for i := range 200 {
		fmt.Fprintf(&programs, "export NCCL_BUFFSIZE=%d; ./a\n", 1<<22+i)
		fmt.Fprintf(&branches, "if a; then export NCCL_MAX_NCHANNELS=32 NCCL_BUFFSIZE=%d; fi\n", 1<<22+i)
	}
	calls := "export NCCL_DEBUG=WARN\n./a\n"
	for i := range 20 {
		calls = fmt.Sprintf("f%d() { f%d; f%d; export NCCL_BUFFSIZE=%d; ./a; }\n", i, i+1, i+1, 1<<22+i) + calls
	}
	for name, script := range map[string]string{"programs": programs.String(), "branches": branches.String() + "./a\n", "calls": calls + "f0\n"} {
		code, stdout := judge(t, node, script)
		if code != exitUndecided {
			t.Errorf("%s: exit code %d: %.2000s", name, code, stdout)
		}
		commandtest.Contains(t, stdout, "The settings are not judged in all combinations: expected at most 128 different environments of programs, and 64 at a line")
	}
}

// No format shows a value that may be a secret, wherever it stands.
func TestSecrets(t *testing.T) {
	const (
		hf     = "hf_AbCdEfGhIjKlMnOp"
		random = "3f786850e387550fdab836ed7e6dc881de23001b"
		plain  = "correct-horse"
		bearer = "eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbC"
	)
	inputs := map[string]string{
		"job.sh": "export NCCL_HF=" + hf + " NCCL_MINE=" + plain + " NCCL_DEBUG=" + random + " TOKEN=" + plain + "\nNCCL_OWN=" + plain + "\nexport NCCL_NET=" + bearer +
			"\nexport NCCL_DEBUG_FILE=$(curl -u a:" + plain + " x) NCCL_IB_TIMEOUT=`login " + plain + "`\nexport NCCL_IB_HCAA=" + plain + " NCCL_X = " + plain + "\nsrun --export=ALL,NCCL_Q=" + plain + "," + plain + " a\n",
		"nccl.conf": "NCCL_HF=" + hf + "\nexport NCCL_MINE=" + plain + "\n " + plain + "\nNCCL_NET=" + hf + "\nNCCL_MINE2 =" + plain + "\nnccl_net=" + plain + "\n",
		"job.env":   "NCCL_HF=\"" + hf + "\"\nNCCL_TOPO_FILE=/tmp/" + random + "\nNCCL_Y=\"" + plain + "\n",
		"pod.yaml": "kind: ConfigMap\ndata:\n  NCCL_MINE: " + plain + "\n  NCCL_NET: " + hf + "\n  NCCL_PIN: 123454321\n---\nkind: Pod\nspec:\n  containers:\n  - env:\n" +
			"    - {name: NCCL_PIN, value: 123454321}\n    - {name: NCCL_MINE, value: " + plain + "}\n    - {name: NCCL_TOKEN, value: " + plain + "}\n",
		"bad.yaml": "a: b: " + plain + "\n" + hf + "\n\t" + random,
		"train.py": "os.environ['NCCL_MINE'] = '" + plain + "'\nos.environ['NCCL_NET'] = '" + hf + "'\n",
	}
	for name, text := range inputs {
		for _, args := range [][]string{{"--verbose"}, {"--output=json"}, {"--output=github"}, {"--output=sarif"}, {"--suggest=shell"}} {
			_, stdout, stderr := lintJob(t, name, text, args...)
			for _, secret := range []string{hf, random, plain, bearer, "123454321"} {
				if strings.Contains(stdout+stderr, secret) {
					t.Errorf("%s %v shows %s:\n%s%s", name, args, secret, stdout, stderr)
				}
			}
		}
	}
}

// The output in docs/COMMANDS.md is what lint prints.
func TestDocumentShowsOutput(t *testing.T) {
	commandtest.Memory(t)
	text, err := os.ReadFile("../../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "    $ gpufabric_exporter lint --scenario=healthy job.sbatch\n")
	shown, _, closed := strings.Cut(rest, "\n\n")
	script := "#!/bin/bash\nexport NCCL_DEBUG=WARN\nexport NCCL_NET=IB\nexport NCCL_IB_DISABLE=true\nexport NCCL_IB_HCA=mlx5_1\n"
	_, stdout, _ := lintJob(t, "job.sbatch", script, "--scenario=healthy")
	var want strings.Builder
	for line := range strings.Lines(stdout) {
		want.WriteString("    " + line)
	}
	if !found || !closed || shown+"\n" != want.String() {
		t.Errorf("docs/COMMANDS.md shows\n%s\nwant\n%s", shown, want.String())
	}
}

const job = "#!/bin/bash\nexport SECRET=hunter2 NCCL_DEBUG=WARN\nexport NCCL_IB_DISABLE=true\nexport NCCL_ALGO='Ri%,n:g'\n"

func TestOutputs(t *testing.T) {
	code, stdout, _ := lintJob(t, "job.sh", job)
	want := `job.sh:3  misread  NCCL_IB_DISABLE=true
    NCCL_IB_DISABLE="true" is not a number: NCCL reads 0.
    Better: remove the line
    Source: src/transport/net_ib/init.cc of NCCL 2.30.7
job.sh:4  refused  NCCL_ALGO=Ri%,n:g
`
	if code != exitFailed || strings.Contains(stdout, "hunter2") {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, stdout, want, "NCCL 2.30.7: 2 failed, 0 undecided, 0 with a note, 1 without a finding; 1 setting is not judged: other software reads them\n")

	_, stdout, _ = lintJob(t, "job.sh", job, "--output=json")
	var report struct {
		Version string `json:"nccl_version"`
		Failed  bool   `json:"failed"`
		Others  int    `json:"other_settings"`
		Lines   []line `json:"lines"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if !report.Failed || report.Others != 1 || len(report.Lines) != 3 || report.Lines[1].Verdict != "misread" || report.Lines[1].Line != 3 ||
		report.Lines[1].Findings[0].Better != "remove the line" || report.Lines[1].Source != "src/transport/net_ib/init.cc" {
		t.Errorf("%+v", report)
	}

	_, stdout, _ = lintJob(t, "job.sh", job, "--output=github")
	commandtest.Contains(t, stdout, "::warning file=job.sh,line=3,title=NCCL_IB_DISABLE=true%3A misread::NCCL_IB_DISABLE=\"true\" is not a number: NCCL reads 0. Better: remove the line\n",
		"::error file=job.sh,line=4,title=NCCL_ALGO=Ri%25%2Cn%3Ag%3A refused::")
	if strings.Count(stdout, "\n") != 2 {
		t.Errorf("%q", stdout)
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		text string
		args []string
		code int
	}{
		{"export NCCL_DEBUG=WARN\n", nil, exitFine},
		{"", nil, exitUndecided},                       // nothing was judged
		{"export NCCL_IB_TIMEOUT=22\n", nil, exitFine}, // worth knowing
		{"export NCCL_DEBUG=$LEVEL\n", nil, exitUndecided},
		{"export NCCL_DEBUG=DEBUG\n", nil, exitFailed},
		{"export NCCL_IB_GID_INDEX=3\n", []string{"--nccl-version=2.18"}, exitFine},
		{"export NCCL_RAS_ENABLE=0\n", []string{"--nccl-version=2.18.1"}, exitFailed},
		{"a\x00b", nil, exitUnjudged},
		{"export NCCL_DEBUG=WARN\n", []string{"--nccl-version=1"}, exitUnjudged},
		{"export NCCL_DEBUG=WARN\n", []string{"--host", "--scenario=healthy"}, exitUnjudged},
		{"export NCCL_DEBUG=WARN\n", []string{"/nonexistent"}, exitUnjudged},
		{"export NCCL_DEBUG=WARN\n", []string{"/"}, exitUnjudged},
	} {
		if code, stdout, stderr := lintJob(t, "job.sh", c.text, c.args...); code != c.code {
			t.Errorf("%q %v: exit code %d, want %d: %s%s", c.text, c.args, code, c.code, stdout, stderr)
		}
	}
}

// An input that cannot be read does not hide what is wrong in the others.
func TestUnreadableInput(t *testing.T) {
	code, stdout, stderr := lintJob(t, "job.sh", "export NCCL_DEBUG=DEBUG\n", "/nonexistent")
	if code != exitUnjudged {
		t.Errorf("exit code %d, want %d", code, exitUnjudged)
	}
	commandtest.Contains(t, stdout, "job.sh:1  misread  NCCL_DEBUG=DEBUG")
	commandtest.Contains(t, stderr, "/nonexistent: no such file")
}

// Without an input the configuration of the node is judged.
func TestConfigurationOfNode(t *testing.T) {
	commandtest.Memory(t)
	for scenario, want := range map[string]struct {
		code int
		text string
	}{
		"healthy": {exitFine, "0 failed"}, "nccl-tc-5": {exitFailed, "/etc/nccl.conf:"}, "gid-index-pinned": {exitFailed, "NCCL_IB_GID_INDEX"},
		"nccl-variable-unknown": {exitFine, "unknown_variable"}, "nccl-rdma-off": {exitFailed, "wrong_here"}, "nccl-algo-unknown": {exitFailed, "refused"},
	} {
		code, stdout, stderr := commandtest.Run(t, new(site.Site), New, "--scenario="+scenario)
		if code != want.code || stderr != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", scenario, code, want.code, stdout, stderr)
		}
		commandtest.Contains(t, stdout, want.text)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NCCL_IB_DISABLE", "true")
	t.Setenv("API_TOKEN", "hunter2")
	code, stdout, _ := commandtest.Run(t, new(site.Site), New, "--env")
	if code != exitFailed || strings.Contains(stdout, "hunter2") {
		t.Errorf("exit code %d", code)
	}
	commandtest.Contains(t, stdout, "environment  misread  NCCL_IB_DISABLE=true\n")
}

// An interrupt or the time ends the wait for an input that does not end.
func TestInterrupted(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { // lets the abandoned read go
		if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	}()
	k := &linting{files: []string{pipe}, format: lint.FormatAuto, wait: time.Millisecond}
	if _, err := k.read(t.Context()); err == nil || !strings.Contains(err.Error(), pipe+": expected its end within 1ms") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.wait = time.Hour
	if _, err := k.read(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), pipe+": interrupted") {
		t.Errorf("%v", err)
	}
}

// archive is a capture with a manifest and these entries; a header without a type is a file, whose text is in Uname.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range append([]tar.Header{{Name: "MANIFEST.json", Uname: fmt.Sprintf(`{"format": %d}`, capture.Format)}}, headers...) {
		text := h.Uname
		h.Uname, h.Mode = "", 0o644
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whatever a capture is, lint ends with a clear error, and writes nowhere else; facts that make no sense are
// no approval.
func TestHostileCapture(t *testing.T) {
	commandtest.Memory(t)
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	pipe := filepath.Join(dir, "pipe.tar.gz")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	if _, err := io.CopyN(z, zero{}, 300<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var many []tar.Header
	for i := range 2000 {
		many = append(many, tar.Header{Name: fmt.Sprintf("sys/class/infiniband/mlx5_%d/ports/1/state", i), Uname: "4: ACTIVE\n"})
	}
	good := archive(t, many[:8]...)
	deep := strings.Repeat("a/", 500) + "b"
	for name, c := range map[string]struct {
		data []byte
		want string // in the error; empty: the capture is judged
	}{
		"text":         {[]byte("no archive"), "expected a tar.gz"},
		"truncated":    {good[:len(good)/2], "not a usable capture"},
		"without end":  {good[:len(good)-4], "not a usable capture"},
		"bomb":         {zeros.Bytes(), "not a usable capture"},
		"bomb behind":  {append(slices.Clone(good), zeros.Bytes()...), "it unpacks to more than"},
		"traversal":    {archive(t, tar.Header{Name: "sys/../../outside", Uname: "x"}), "path"},
		"absolute":     {archive(t, tar.Header{Name: outside, Uname: "x"}), "path"},
		"link":         {archive(t, tar.Header{Name: "root/etc/nccl.conf", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}), "expected a place in root"},
		"links":        {archive(t, tar.Header{Name: "sys/a", Typeflag: tar.TypeSymlink, Linkname: "b/.."}, tar.Header{Name: "sys/b", Typeflag: tar.TypeSymlink, Linkname: "../sys"}), "not a usable capture"},
		"hard link":    {archive(t, tar.Header{Name: "root/x", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}), "is neither file, directory nor symbolic link"},
		"device":       {archive(t, tar.Header{Name: "root/dev/zero", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}), "is neither file, directory nor symbolic link"},
		"pipe":         {archive(t, tar.Header{Name: "root/x", Typeflag: tar.TypeFifo}), "is neither file, directory nor symbolic link"},
		"deep":         {archive(t, tar.Header{Name: "sys/" + deep, Uname: "x"}), ""},
		"loop":         {archive(t, tar.Header{Name: "sys/class/infiniband", Typeflag: tar.TypeSymlink, Linkname: "infiniband"}), ""},
		"many devices": {archive(t, many...), ""},
		"hostile conf": {archive(t, tar.Header{Name: "root/etc/nccl.conf", Uname: strings.Repeat("NCCL_NET=\x1b[31mhunter2\n", 50_000)}), ""},
	} {
		file := filepath.Join(dir, "capture.tar.gz")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		code, stdout, stderr := lintJob(t, "job.sh", "export NCCL_IB_HCA=mlx5_99999 NCCL_DEBUG=WARN\n", "--capture="+file)
		want := exitUnjudged
		if c.want == "" {
			want = exitFailed
			if name == "deep" || name == "loop" || name == "hostile conf" { // no device is known
				want = code
			}
		}
		if code != want || code == exitFine || strings.Contains(stdout+stderr, "\x1b") || len(stdout+stderr) > 20_000 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q: %.2000s%.2000s", name, code, want, c.want, stdout, stderr)
		}
		t.Logf("%s: exit code %d, %v: %.200s", name, code, time.Since(begin).Round(time.Millisecond), stderr)
	}
	if code, _, stderr := lintJob(t, "job.sh", "export NCCL_DEBUG=WARN\n", "--capture="+pipe); code != exitUnjudged || !strings.Contains(stderr, "expected a regular file") {
		t.Errorf("pipe: exit code %d: %s", code, stderr)
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a file was written outside of the capture")
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// What env prints is read as an environment, whatever its values are.
func TestPrintedEnvironment(t *testing.T) {
	for text, want := range map[string]struct {
		code int
		text string
	}{
		"SHELL=/bin/bash\nTOKEN=hunter2 x\nPWD=/home/a b\nNCCL_IB_HCA=mlx5_0, mlx5_1\n_=/usr/bin/env\n": {exitFailed, "standard input:4  misread  NCCL_IB_HCA=mlx5_0, mlx5_1"},
		"PATH=/bin\nPWD=/\nNCCL_NET=AWS Libfabric\nPS1=$(x) `y`; z\nNCCL_DEBUG=\"INFO\"\n":              {exitFailed, "standard input:5  misread  NCCL_DEBUG=\"INFO\""},
		"PATH=/bin\nPWD=/\nNCCL_NET=AWS Libfabric\nBASH_FUNC_m%%=() {  a\n b\n}\n":                      {exitFine, "1 without a finding"},
	} {
		var stdout, stderr commandtest.Output
		define := func(s *site.Site, log *logging.Flags) *command.Command {
			return (&linting{site: s, log: log, stdin: strings.NewReader(text), version: lint.Newest(), wait: maxWait}).command()
		}
		if code := commandtest.RunTo(t, &stdout, &stderr, new(site.Site), define, "-"); code != want.code || strings.Contains(stdout.String(), "hunter2") {
			t.Errorf("%q: exit code %d, want %d: %s%s", text, code, want.code, stdout.String(), stderr.String())
		}
		commandtest.Contains(t, stdout.String(), want.text)
	}
}

// The release of the library of the host is the one that settings are judged for.
func TestLibraryOfHost(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(lib, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(lib, "libnccl.so.2.18.1"), []byte("\x7fELF"), 0o600), os.Symlink("libnccl.so.2.18.1", filepath.Join(lib, "libnccl.so.2"))); err != nil {
		t.Fatal(err)
	}
	host := []string{"--host", "--path.rootfs=" + dir, "--path.sysfs=" + dir, "--path.procfs=" + dir}
	code, stdout, stderr := lintJob(t, "job.sh", "export NCCL_RAS_ENABLE=0\n", host...)
	if code != exitFailed {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	commandtest.Contains(t, stdout, "NCCL 2.18.1 does not read it", "NCCL 2.18.1 (library found: /usr/lib/x86_64-linux-gnu/libnccl.so.2): 1 failed")
	_, stdout, _ = lintJob(t, "job.sh", "export NCCL_RAS_ENABLE=0\n", append(host, "--nccl-version=2.24.3")...)
	commandtest.Contains(t, stdout, "NCCL 2.24.3: 0 failed")
}

// A file that a setting names and that the host lacks is a finding, which says that a container may have it.
func TestNamedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "topo.xml"), nil, 0o600), os.Symlink("/elsewhere", filepath.Join(dir, "out.xml"))); err != nil {
		t.Fatal(err)
	}
	host := []string{"--host", "--path.rootfs=" + dir, "--path.sysfs=" + dir, "--path.procfs=" + dir}
	const said = "This host has no such file. A container may have it"
	for text, want := range map[string]bool{
		"NCCL_TOPO_FILE=/topo.xml":                           false,
		"NCCL_TOPO_FILE=/gone/topo.xml":                      true,
		"NCCL_GRAPH_FILE=/gone.xml":                          true,
		"NCCL_TUNER_CONFIG_FILE=/../../gone.csv":             true,
		"NCCL_TOPO_FILE=/out.xml":                            false, // out of the root: not known
		"NCCL_TOPO_FILE=$HOME/topo.xml":                      false,
		"NCCL_TOPO_FILE=topo.xml":                            false, // of the working directory of the job
		"NCCL_TOPO_DUMP_FILE=/gone/topo.xml":                 false, // NCCL writes it
		"NCCL_DEBUG_FILE=/gone/nccl.%h.%p.log":               false,
		"NCCL_GRAPH_FILE=/gone/" + strings.Repeat("x", 5000): false, // no such name can be
	} {
		code, stdout, stderr := lintJob(t, "job.sh", "export "+text+"\n", host...)
		if strings.Contains(stdout, said) != want || want && code != exitFailed {
			t.Errorf("%.60s: exit code %d: %.500s%s", text, code, stdout, stderr)
		}
	}
}

func TestStandardInput(t *testing.T) {
	var stdout, stderr commandtest.Output
	define := func(s *site.Site, log *logging.Flags) *command.Command {
		k := &linting{site: s, log: log, stdin: strings.NewReader("NCCL_DEBUG=\x1b[31m\"\n"), version: lint.Newest(), wait: maxWait}
		return k.command()
	}
	code := commandtest.RunTo(t, &stdout, &stderr, new(site.Site), define, "--format=conf", "-")
	if code != exitFailed || strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("exit code %d: %q %s", code, stdout.String(), stderr.String())
	}
	commandtest.Contains(t, stdout.String(), "standard input:1  misread")
}

// Whatever the input is, no output shows what belongs to other software, and none is longer than its bounds.
func TestHostileInput(t *testing.T) {
	secret := "export AWS_SECRET_ACCESS_KEY=hunter2 HF_TOKEN='hunter2'\n"
	huge := secret + strings.Repeat("echo nothing to see here, only a line of a long script\n", lint.MaxInput/56)
	for name, c := range map[string]struct {
		text string
		code int
		want string
	}{
		"binary.sh":    {secret + "\x7fELF\x00\x01", exitUnjudged, "expected text: it has NUL bytes"},
		"huge.sh":      {huge, exitUndecided, "2 settings are not judged"},
		"toohuge.sh":   {huge + huge, exitUnjudged, "expected at most 10 MiB"},
		"controls.sh":  {secret + "export NCCL_DEBUG=\x1b[31mWARN\u202e\n", exitFailed, "NCCL_DEBUG"},
		"includes.sh":  {secret + ". ./includes.sh\nsource /etc/shadow\nsource <(curl -H 'Authorization: hunter2' x)\nexport NCCL_DEBUG=WARN\n", exitUndecided, "lint does not read /etc/shadow: what it sets is not judged"},
		"includes.yml": {"a: !include hunter2\nb: &b {TOKEN: hunter2, NCCL_DEBUG: WARN}\nc: {<<: *b}\n", exitFine, "WARN"},
		"broken.yml":   {"a: {TOKEN: hunter2\n", exitUnjudged, "expected YAML or JSON"},
		"quotes.sh":    {"export TOKEN=\"hunter2\nexport NCCL_DEBUG=WARN\n", exitFailed, "A quote that begins here is not closed"},
		"inline.sh":    {"TOKEN=hunter2 NCCL_DEBUG=DEBUG ./train --key hunter2\n", exitFailed, "NCCL_DEBUG"},
		"url.sh":       {"export NCCL_DEBUG_FILE=https://user:hunter2@host/x NCCL_NETT=1\n", exitFailed, "NCCL_NETT"},
	} {
		for _, output := range []output{outputText, outputJSON, outputGitHub, outputSARIF} {
			code, stdout, stderr := lintJob(t, name, c.text, "--verbose", "--output="+string(output))
			all := stdout + stderr
			if code != c.code || strings.Contains(all, "hunter2") || strings.ContainsAny(all, "\x1b\u202e") || len(all) > 10_000 {
				t.Errorf("%s as %s: exit code %d, want %d: %.2000q", name, output, code, c.code, all)
			}
			if output == outputText {
				commandtest.Contains(t, all, c.want)
			}
		}
	}
}
