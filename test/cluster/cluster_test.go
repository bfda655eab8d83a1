// SPDX-License-Identifier: Apache-2.0

//go:build cluster

// Package cluster runs probe cluster under the real Slurm: its controller and a daemon for each node, which are network
// namespaces on a bridge with host names of their own. NCCL, CUDA and NVML are stand-ins that really compute and move
// data between the nodes. It needs root and Debian's packages slurmctld, slurmd, slurm-client and munge.
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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
)

// nodes is how many there are; rails how many each has.
const (
	nodes = 4
	rails = 2
)

// rig is a cluster of Slurm.
type rig struct {
	t   *testing.T
	dir string
}

func (r rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r rig) write(name, text string) string {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r.path(name)
}

func (r rig) must(name string, args ...string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// daemon starts a program that is killed at the end of the test.
func (r rig) daemon(log string, args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+r.path("slurm.conf"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	f, err := os.Create(r.path(log))
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		f.Close()
	})
	return cmd
}

func name(i int) string { return fmt.Sprint("cn", i) }

// newRig starts Slurm, and lays out what its nodes have.
func newRig(t *testing.T) rig {
	if os.Getuid() != 0 {
		t.Fatal("it makes network namespaces: run it as root")
	}
	for _, program := range []string{"slurmctld", "slurmd", "srun", "munged"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: apt-get install slurmctld slurmd slurm-client munge", err)
		}
	}
	dir, err := os.MkdirTemp("/opt", "cluster")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := rig{t, dir}
	r.must("chmod", "755", dir)
	r.network()
	r.build()
	r.slurm()
	return r
}

// network makes a namespace for each node, and a bridge.
func (r rig) network() {
	const bridge = "clbr0"
	drop := func() {
		for i := range nodes {
			_ = exec.Command("ip", "link", "del", fmt.Sprint("clve", i)).Run()
			_ = exec.Command("ip", "netns", "del", name(i)).Run()
		}
		_ = exec.Command("ip", "link", "del", bridge).Run()
	}
	drop()
	r.t.Cleanup(drop)
	r.must("ip", "link", "add", bridge, "type", "bridge")
	r.must("ip", "addr", "add", "10.77.0.254/24", "dev", bridge)
	r.must("ip", "link", "set", bridge, "up")
	for i := range nodes {
		n, outside := name(i), fmt.Sprint("clve", i)
		r.must("ip", "netns", "add", n)
		r.must("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", n)
		r.must("ip", "link", "set", outside, "master", bridge, "up")
		for _, args := range [][]string{
			{"addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"link", "set", "lo", "up"},
		} {
			r.must("ip", append([]string{"-n", n}, args...)...)
		}
	}
}

// build makes the program, the libraries and what the nodes read.
func (r rig) build() {
	r.t.Helper()
	r.must("go", "build", "-o", r.path("gpufabric_exporter"), "gpufabric_exporter")
	lib := r.path("lib")
	if err := os.Mkdir(lib, 0o755); err != nil {
		r.t.Fatal(err)
	}
	ncclprobetest.Build(r.t, lib, "2.27.3")
	r.machine()
	nvml := nvmltest.Build(r.t, lib)
	nvmltest.Describe(r.t, nvml, fmt.Sprint("gpus ", rails), "processes 0")
	scenario, err := simulator.Find("healthy")
	if err != nil {
		r.t.Fatal(err)
	}
	tree, err := scenario.Build().Materialise(r.t.TempDir())
	if err != nil {
		r.t.Fatal(err)
	}
	r.must("cp", "-r", "-P", tree.Sysfs(), r.path("sys"))
	r.must("cp", "-r", "-P", tree.Procfs(), r.path("proc"))
	r.must("mkdir", "-p", r.path("sys/fs/cgroup"), r.path("run"))
	r.write("sys/fs/cgroup/cgroup.controllers", "")
	r.write("environment", "NCCL_SOCKET_IFNAME=eth0\n")
	for i := range nodes {
		r.write(name(i)+".yml", fmt.Sprintf("probes:\n  idle_memory: 512MiB\n  nccl: %s\n  cuda: %s\n  lock_file: %s\n  env_file: %s\n",
			filepath.Join(lib, ncclprobetest.NCCL), filepath.Join(lib, ncclprobetest.CUDA), r.path("run/"+name(i)+"/lock"), r.path("environment")))
	}
	r.must("chmod", "-R", "a+rX", r.dir)
}

// machine says what the stand-ins are to do: 64 KiB take a third of a second: time that other processes of this machine take is little of it.
func (r rig) machine(lines ...string) {
	ncclprobetest.Describe(r.t, r.path("lib"), append([]string{fmt.Sprint("gpus ", rails), "transport IB", "busbw 2e5"}, lines...)...)
	r.must("chmod", "644", r.path("lib/machine"))
}

func (r rig) slurm() {
	r.t.Helper()
	r.must("mkdir", "-p", r.path("state"), r.path("munge"))
	r.must("dd", "if=/dev/urandom", "of="+r.path("munge/key"), "bs=1024", "count=1", "status=none")
	r.must("chmod", "600", r.path("munge/key"))
	r.daemon("munged.log", "munged", "--foreground", "--force", "--key-file="+r.path("munge/key"), "--socket="+r.path("munge/socket"),
		"--pid-file="+r.path("munge/pid"), "--log-file="+r.path("munge/log"), "--seed-file="+r.path("munge/seed"))
	host, err := os.Hostname()
	if err != nil {
		r.t.Fatal(err)
	}
	var list strings.Builder
	for i := range nodes {
		fmt.Fprintf(&list, "NodeName=%s NodeAddr=10.77.0.%d CPUs=1 State=UNKNOWN\n", name(i), i+1)
	}
	r.write("slurm.conf", fmt.Sprintf(`ClusterName=test
SlurmctldHost=%s(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%s
CredType=cred/munge
StateSaveLocation=%s
SlurmdSpoolDir=%s/%%n
SlurmctldPidFile=%s
SlurmdPidFile=%s/%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=5
%sPartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, host, r.path("munge/socket"), r.path("state"), r.path("run"), r.path("run/ctld.pid"), r.path("run"), list.String()))
	r.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n")
	r.daemon("slurmctld.log", "slurmctld", "-D", "-i", "-f", r.path("slurm.conf"))
	for i := range nodes {
		r.must("mkdir", "-p", r.path("run/"+name(i)))
		r.daemon(name(i)+".log", "nsenter", "--net=/run/netns/"+name(i), "unshare", "--uts", "sh", "-c",
			"hostname "+name(i)+" && exec slurmd -D -f "+r.path("slurm.conf"))
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Second) {
		out, _ := r.slurmCommand(r.t.Context(), "sinfo", "-h", "-t", "idle", "-o", "%D").Output()
		if strings.TrimSpace(string(out)) == strconv.Itoa(nodes) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("the nodes are not idle: %s\n%s\n%s", out, r.log("slurmctld.log"), r.log(name(0)+".log"))
		}
	}
}

func (r rig) log(name string) string {
	b, _ := os.ReadFile(r.path(name))
	return string(b[max(0, len(b)-4000):])
}

func (r rig) slurmCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLURM_") }), "SLURM_CONF="+r.path("slurm.conf"))
	return cmd
}

// outcome is what came of a run.
type outcome struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// probe runs the command on all nodes.
func (r rig) probe(ctx context.Context, srun []string, args ...string) outcome {
	r.t.Helper()
	all := slices.Concat([]string{"srun", "-N", strconv.Itoa(nodes), "--ntasks-per-node=1", "--mpi=pmi2"}, srun, []string{
		"unshare", "--mount", "sh", "-c", `for d in class devices bus; do mount --bind "$1/sys/$d" /sys/$d || exit 9; done; ` +
			`exec "$0" probe cluster --config.file="$1/$SLURMD_NODENAME.yml" --path.procfs="$1/proc" ` +
			`--gpu.nvml-library="$1/lib/libnvidia-ml.so.1" --collector.device-include='mlx5_[01]' --bytes=64K --seed=1 "$@"`,
		r.path("gpufabric_exporter"), r.dir,
	})
	all[len(all)-3] = strings.Replace(all[len(all)-3], `"$@"`, strings.Join(args, " "), 1)
	cmd := r.slurmCommand(ctx, all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	o := outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		r.t.Fatal(err)
	}
	return o
}

// report is what is asserted of the JSON.
type report struct {
	Verdicts []struct {
		Subject, Level, Node, Partner, Failure, Device string
		Rail                                           int
	}
	Coverage float64
	Drain    []string
	Missing  []int
	Wall     float64 `json:"wall_seconds"`
	Rounds   int
}

func (o outcome) report(t *testing.T) report {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatalf("%v: %s\n%s", err, o.stdout, o.stderr)
	}
	return r
}

// What is planted on nodes of the real Slurm is what is named.
func TestSlurm(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name    string
		machine []string
		want    []string // subject, level, node, device, failure
		node    string   // that may be named; empty: none
		code    int
	}{
		{"healthy", nil, nil, "", 0},
		{"slow node", []string{"host cn2 slow 1.3"}, []string{"node bad cn2"}, "cn2", 1},
		// together, all ranks of the node use that HCA
		{"slow rail", []string{"host cn1 hca mlx5_1 slow 1.6"}, []string{"rail bad cn1 mlx5_1", "node bad cn1"}, "cn1", 1},
		{"crash", []string{"host cn3 crash collective"}, []string{"node failed cn3 crash"}, "cn3", 1},
		{"no library function", []string{"host cn0 error ncclGetVersion 3"}, []string{"node failed cn0 nccl"}, "cn0", 1},
	} {
		r.machine(c.machine...)
		o := r.probe(t.Context(), nil, "--output=json")
		got := o.report(t)
		var said []string
		blamed := ""
		for _, v := range got.Verdicts {
			said = append(said, strings.Join(strings.Fields(strings.Join([]string{v.Subject, v.Level, v.Node, v.Device, v.Failure}, " ")), " "))
			if (v.Level == "bad" || v.Level == "failed") && v.Node != c.node {
				blamed = v.Node
			}
		}
		slices.Sort(said)
		said = slices.Compact(said)
		t.Logf("%s: %q, %d rounds, %.1f s, coverage %g, exit code %d", c.name, said, got.Rounds, got.Wall, got.Coverage, o.code)
		lacks := slices.ContainsFunc(c.want, func(w string) bool { return !slices.Contains(said, w) })
		if noisy() { // other processes of a loaded machine take time from ranks, which look slow then
			continue
		}
		if lacks || blamed != "" || o.code != c.code {
			t.Errorf("%s: %q, exit code %d, expected %q and %d\n%s\n%s", c.name, said, o.code, c.want, c.code, o.stderr, o.stdout)
		}
	}
	r.nothingLeft()
}

// noisy reports whether the machine has more to do than it has processors for.
func noisy() bool {
	var load float64
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(b), &load)
	}
	return err == nil && load > 4*float64(runtime.NumCPU())
}

// nothingLeft requires that no process of the probe is left.
func (r rig) nothingLeft() {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command("pgrep", "-af", "^"+r.path("gpufabric_exporter")).Output()
		if err != nil {
			return
		}
		if time.Now().After(end) {
			r.t.Errorf("left behind: %s", out)
			return
		}
	}
}
