// SPDX-License-Identifier: Apache-2.0

//go:build cluster

// Package cluster runs probe cluster under the real Slurm: its controller and a daemon for each node, which are network
// namespaces on a bridge with host names of their own. NCCL, CUDA and NVML are stand-ins that really compute and move
// data between the nodes. It needs root and Debian's packages slurmctld, slurmd, slurm-client and munge.
package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	newer := r.path(newerLib)
	if err := os.Mkdir(newer, 0o755); err != nil {
		r.t.Fatal(err)
	}
	ncclprobetest.Build(r.t, newer, "2.30.7")
	r.must("ln", "-s", "../lib/machine", r.path(newerLib+"/machine"))
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
		r.configure(i, lib)
	}
	r.must("chmod", "-R", "a+rX", r.dir)
}

// newerLib has another version of NCCL.
const newerLib = "newer"

// configure has a node use the libraries in that folder.
func (r rig) configure(node int, lib string) {
	r.t.Helper()
	r.write(name(node)+".yml", fmt.Sprintf("probes:\n  idle_memory: 512MiB\n  nccl: %s\n  cuda: %s\n  lock_file: %s\n  env_file: %s\n",
		filepath.Join(lib, ncclprobetest.NCCL), filepath.Join(lib, ncclprobetest.CUDA), r.path("run/"+name(node)+"/lock"), r.path("environment")))
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
KillWait=30
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
%sPartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=2
PartitionName=preemptible Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1
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
