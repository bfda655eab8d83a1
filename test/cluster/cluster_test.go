// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/probes"
)

// outcome is what came of a run.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// wrapped has a shell on a node run the program with the files of that node, after something else.
func (r rig) wrapped(before string, args []string) []string {
	return []string{
		"unshare", "--mount", "sh", "-c", before + `for d in class devices bus; do mount --bind "$1/sys/$d" /sys/$d || exit 9; done; ` +
			`exec "$0" probe cluster --config.file="$1/$SLURMD_NODENAME.yml" --path.procfs="$1/proc" ` +
			`--gpu.nvml-library="$1/lib/libnvidia-ml.so.1" --collector.device-include='mlx5_[01]' --bytes=64K --seed=1 ` + strings.Join(args, " "),
		r.path("gpufabric_exporter"), r.dir,
	}
}

// said is what a program wrote to standard error so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run waits for a command. What happens while it measures is done in its first round.
func (r rig) run(cmd *exec.Cmd, during func()) outcome {
	r.t.Helper()
	var stdout bytes.Buffer
	var stderr said
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	if during != nil {
		for !strings.Contains(stderr.String(), "round 1") && time.Since(began) < time.Minute {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * time.Second) // ranks are there
		during()
	}
	err := cmd.Wait()
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		r.t.Fatal(err)
	}
	return o
}

// pmi is how srun starts the nodes with PMI; plain is how it does without.
var (
	pmi   = []string{"srun", "-N", strconv.Itoa(nodes), "--ntasks-per-node=1", "--mpi=pmi2"}
	plain = []string{"srun", "-N", strconv.Itoa(nodes), "--ntasks-per-node=1", "--mpi=none"}
)

// probe runs the command on all nodes.
func (r rig) probe(ctx context.Context, srun []string, args ...string) outcome {
	r.t.Helper()
	return r.run(r.slurmCommand(ctx, slices.Concat(srun, r.wrapped("", args))...), nil)
}

// report is what is asserted of the JSON.
type report struct {
	Verdicts []struct {
		Subject, Level, Node, Partner, Failure, Device string
		Rail                                           int
	}
	Results []struct {
		Round int
		A, B  string
	}
	AllNodes struct {
		Nodes  []string
		Result struct{ Measurements []probes.Measurement }
	} `json:"all_nodes"`
	Differences []struct{ What string }
	Missing     []string `json:"missing_nodes"`
	Refused     map[string]int
	Wall        float64 `json:"wall_seconds"`
	Rounds      int
}

func (o outcome) report(t *testing.T) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s\n%s", err, o.stdout, o.stderr)
	}
	return r
}

// named are the verdicts in words.
func (r report) named() string {
	list := []string{}
	for _, v := range r.Verdicts {
		nodes := v.Node
		if v.Partner != "" {
			nodes += "-" + v.Partner
		}
		list = append(list, strings.Join(strings.Fields(strings.Join([]string{v.Subject, v.Level, nodes, v.Device, v.Failure}, " ")), " "))
	}
	return strings.Join(list, "; ")
}

// table is printed at the end.
type table struct {
	*tabwriter.Writer
}

func newTable(t *testing.T) table { return table{tabwriter.NewWriter(t.Output(), 0, 8, 2, ' ', 0)} }

func (w table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(w, "%v\t", c)
	}
	fmt.Fprintln(w)
}

// What is planted on nodes of the real Slurm is what is named, and nothing else.
func TestSlurm(t *testing.T) {
	r := newRig(t)
	w := newTable(t)
	w.row("planted", "named as", "rounds", "seconds", "exit code")
	defer w.Flush()
	healthy := r.probe(t.Context(), pmi, "--output=json")
	a, b := 0, 0
	for _, d := range healthy.report(t).Results {
		if d.Round == 1 && d.A != name(0) && d.B != name(0) { // the leader is on node 0, and the others talk to it
			a, b = int(d.A[2]-'0'), int(d.B[2]-'0')
		}
	}
	for _, c := range []struct {
		name    string
		machine []string
		plant   func() (undo func())
		during  func()
		want    string // subject, level, node, device, failure
		code    int
	}{
		{name: "nothing"},
		{name: "slow node", machine: []string{"host cn2 slow 1.3"}, want: "node bad cn2", code: 1},
		{name: "slow rail", machine: []string{"host cn1 hca mlx5_1 slow 1.6"}, want: "rail bad cn1 mlx5_1", code: 1},
		{name: "slow path", plant: func() func() { return r.narrow(a, b) }, want: "path bad " + name(a) + "-" + name(b), code: 1},
		{name: "crash", machine: []string{"host cn3 crash collective"}, want: "node failed cn3 crash", code: 1},
		{name: "error of NCCL", machine: []string{"host cn0 error ncclGetVersion 3"}, want: "node failed cn0 nccl", code: 1},
		{name: "hang", machine: []string{"host cn3 hang ncclAllReduce"}, want: "node failed cn3 hang", code: 1},
		{name: "death of a process", during: func() { r.kill(2) }, want: "node failed cn2 lost", code: 128 + 9}, // srun tells that of the process,
		{name: "other version of NCCL", plant: func() func() {
			r.configure(1, r.path(newerLib))
			return func() { r.configure(1, r.path("lib")) }
		}, want: "node failed cn1 versions", code: 1},
	} {
		r.machine(c.machine...)
		o := healthy
		if c.name != "nothing" {
			undo := func() {}
			if c.plant != nil {
				undo = c.plant()
			}
			o = r.run(r.slurmCommand(t.Context(), slices.Concat(pmi, r.wrapped("", []string{"--output=json"}))...), c.during)
			undo()
		}
		got := o.report(t)
		w.row(c.name, got.named(), got.Rounds, fmt.Sprintf("%.0f", got.Wall), o.code)
		if got.named() != c.want || o.code != c.code {
			t.Errorf("%s: %q, exit code %d, expected %q and %d\n%s\n%s", c.name, got.named(), o.code, c.want, c.code, o.stderr, o.stdout)
		}
		r.nothingLeft()
	}
	r.machine()
	r.membership(w)
	r.ends(w)
}

// All nodes measure in one communicator: nothing is planted, or what fails only where all are together.
func TestAllNodes(t *testing.T) {
	r := newRig(t)
	w := newTable(t)
	w.row("planted", "named as", "rounds", "seconds", "exit code")
	defer w.Flush()
	for _, c := range []struct {
		name       string
		machine    []string
		want       string
		rows, code int
	}{
		{name: "nothing, --all-nodes", rows: 13}, // 16 bytes are too few for 8 parts
		{name: "error of NCCL, --all-nodes", machine: []string{"host cn3 error ncclAllGather 3"}, want: "run failed cn3 nccl", rows: 4, code: 1},
		{name: "hang, --all-nodes", machine: []string{"host cn3 hang ncclAllGather"}, want: "run failed hang", rows: 4, code: 1},
	} {
		r.machine(c.machine...)
		o := r.probe(t.Context(), pmi, "--output=json", "--all-nodes")
		got := o.report(t)
		w.row(c.name, got.named(), got.Rounds, fmt.Sprintf("%.0f", got.Wall), o.code)
		list := got.AllNodes.Result.Measurements
		if got.named() != c.want || o.code != c.code || len(list) != c.rows || len(got.AllNodes.Nodes) != nodes {
			t.Errorf("%s: %q, exit code %d, %d measurements\n%s\n%s", c.name, got.named(), o.code, len(list), o.stderr, o.stdout)
		}
		for _, m := range list {
			if m.Ranks < nodes || m.BusBW <= 0 || m.Wrong > 0 {
				t.Errorf("%s: %+v", c.name, m)
			}
		}
		r.nothingLeft()
	}
}

// membership is who takes part: nodes with a wrong secret, nodes that never come, and nobody without an allocation.
func (r rig) membership(w table) {
	const secret = "0123456789abcdef0123456789abcdef"
	for i := range nodes {
		r.write("secret."+name(i), secret)
	}
	meet := []string{"--output=json", `--secret-file="$1/secret.$SLURMD_NODENAME"`, "--leader=10.77.0.1:10793", "--wait=20s"}
	for _, c := range []struct {
		name, before string
		secret       string // of the last node
		partial      bool
		want         string
		missing      string
		refused      int
		measured     bool
	}{
		{name: "none, with a secret in a file", secret: secret, measured: true},
		{name: "wrong secret", secret: strings.ToUpper(secret), missing: "cn3", refused: 1},
		{name: "half of the nodes never come", before: absent, secret: secret, missing: "cn2 cn3"},
		{name: "half never come, --partial", before: absent, secret: secret, partial: true, missing: "cn2 cn3", measured: true},
	} {
		r.write("secret."+name(nodes-1), c.secret)
		args := meet
		if c.partial {
			args = append(slices.Clone(meet), "--partial")
		}
		o := r.run(r.slurmCommand(r.t.Context(), slices.Concat(plain, r.wrapped(c.before, args))...), nil)
		got := o.report(r.t)
		code := 2
		if c.missing == "" {
			code = 0
		}
		w.row(c.name, strings.TrimSpace(fmt.Sprint("missing ", got.Missing, " refused ", got.Refused)), got.Rounds, fmt.Sprintf("%.0f", o.took.Seconds()), o.code)
		if strings.Join(got.Missing, " ") != c.missing || got.Refused["secret"] != c.refused || o.code != code || (len(got.Results) > 0) != c.measured {
			r.t.Errorf("%s: missing %q, refused %v, %d results, exit code %d\n%s\n%s", c.name, got.Missing, got.Refused, len(got.Results), o.code, o.stderr, o.stdout)
		}
		r.nothingLeft()
	}
	alone := r.slurmCommand(r.t.Context(), append([]string{"nsenter", "--net=/run/netns/" + name(0)}, r.wrapped("", nil)...)...)
	alone.Env = append(alone.Env, "SLURMD_NODENAME="+name(0))
	for _, c := range []struct {
		name string
		cmd  *exec.Cmd
		says string
		code int
	}{
		{"no allocation", alone, "not started by a scheduler", 2},
		{"--dry-run", r.slurmCommand(r.t.Context(), slices.Concat([]string{"srun", "-N1", "-n1"}, r.wrapped("", []string{"--dry-run"}))...), "in at most 8 rounds", 0},
	} {
		o := r.run(c.cmd, nil)
		w.row(c.name, c.says, 0, fmt.Sprintf("%.0f", o.took.Seconds()), o.code)
		if !strings.Contains(o.stdout+o.stderr, c.says) || o.code != c.code {
			r.t.Errorf("%s: exit code %d: %s%s", c.name, o.code, o.stdout, o.stderr)
		}
		r.nothingLeft()
	}
}

// absent has the second half of the nodes not come.
const absent = "case $SLURMD_NODENAME in cn2|cn3) exit 0;; esac; "

// ends cancels and preempts runs: all of their processes end at once, on all nodes, and no node is blamed.
func (r rig) ends(w table) {
	for _, c := range []struct {
		name string
		srun []string
		end  []string
	}{
		{"cancelled", pmi, []string{"scancel", "--user=root"}},
		{"preempted", append(slices.Clone(pmi), "--partition=preemptible"), []string{"srun", "-N", strconv.Itoa(nodes), "true"}},
	} {
		var gone time.Duration
		cmd := r.slurmCommand(r.t.Context(), slices.Concat(c.srun, r.wrapped("", []string{"--output=json"}))...)
		o := r.run(cmd, func() {
			end := r.slurmCommand(r.t.Context(), c.end...)
			if err := end.Start(); err != nil {
				r.t.Fatal(err)
			}
			gone = r.untilGone()
			if err := end.Wait(); err != nil {
				r.t.Errorf("%q: %v", c.end, err)
			}
		})
		w.row(c.name, "nobody", 1, fmt.Sprintf("%.1f after the command", gone.Seconds()), o.code)
		if strings.Contains(o.stdout, `"level"`) {
			r.t.Errorf("%s: blames\n%s", c.name, o.stdout)
		}
		r.nothingLeft()
	}
}

// narrow has what one node sends to another pass a narrow path; undo widens it.
func (r rig) narrow(from, to int) (undo func()) {
	for _, args := range [][]string{
		{"qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1"},
		{"class", "add", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb", "rate", "10gbit"},
		{"class", "add", "dev", "eth0", "parent", "1:", "classid", "1:2", "htb", "rate", "1200kbit"},
		{"filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst", fmt.Sprintf("10.77.0.%d/32", to+1), "flowid", "1:2"},
	} {
		r.must("tc", append([]string{"-n", name(from)}, args...)...)
	}
	return func() { r.must("tc", "-n", name(from), "qdisc", "del", "dev", "eth0", "root") }
}

// processes are those of the probe, by PID; on one node, or on all.
func (r rig) processes(node string) []int {
	own := os.Getpid()
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, f := range files {
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if exe, err := os.Readlink(f); err != nil || exe != r.path("gpufabric_exporter") || pid == own {
			continue
		}
		if host, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "environ")); node == "" || bytes.Contains(host, []byte("SLURMD_NODENAME="+node+"\x00")) {
			list = append(list, pid)
		}
	}
	return list
}

// kill kills the process of a node, whose ranks must end with it.
func (r rig) kill(node int) {
	list := r.processes(name(node))
	if len(list) == 0 {
		r.t.Fatalf("no process on %s", name(node))
	}
	_ = syscall.Kill(slices.Min(list), syscall.SIGKILL)
}

// untilGone waits until no process of the probe is there.
func (r rig) untilGone() time.Duration {
	began := time.Now()
	for time.Since(began) < 20*time.Second {
		if len(r.processes("")) == 0 {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Errorf("still there: %v", r.processes(""))
	return time.Since(began)
}

// nothingLeft requires that no process of the probe is left.
func (r rig) nothingLeft() {
	r.t.Helper()
	r.untilGone()
}
