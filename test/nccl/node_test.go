// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A node has a network and an /etc of its own, unless it is the guest. On its loopback are two addresses, each the source of what
// goes to the other: ranks that bind to interfaces loa and lob take themselves for two hosts.
type node struct {
	pid  int    // of what holds its namespaces; 0: it has none
	home string // of root there
	work string // a folder for what ranks exchange

	group string // the control group that ranks start in; empty: that of the test
}

const setUp = `
set -e
ip link set lo up
ip addr add 10.0.0.10/32 dev lo label loa
ip addr add 10.0.0.11/32 dev lo label lob
ip route replace local 10.0.0.11 dev lo src 10.0.0.10 table local
ip route replace local 10.0.0.10 dev lo src 10.0.0.11 table local
eval "$2"
mount -t tmpfs tmpfs /etc
printf '127.0.0.1 localhost\n' >/etc/hosts
printf 'root:x:0:0::%s:/bin/sh\n' "$1" >/etc/passwd
echo ready
cat >/dev/null`

// newNode starts a node, on which the shell also ran more.
func newNode(t *testing.T, more string) *node {
	t.Helper()
	n := &node{home: t.TempDir(), work: t.TempDir()}
	cmd := exec.Command("unshare", "-n", "-m", "--propagation", "private", "sh", "-c", setUp, "sh", n.home, more)
	cmd.Stderr = os.Stderr
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("no namespaces of its own: %q, %v", line, err)
	}
	n.pid = cmd.Process.Pid
	return n
}

// inside returns a command in the namespaces of the node.
func (n *node) inside(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	if n.pid != 0 {
		cmd = exec.Command("nsenter", append([]string{"-t", strconv.Itoa(n.pid), "-n", "-m", "nice", "-n", "10"}, args...)...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// sh runs a shell command on the node and returns what it prints.
func (n *node) sh(t *testing.T, command string) string {
	t.Helper()
	out, err := n.inside("sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// A process is a rank.
type process struct {
	*os.Process
	log  string // the file with its output
	done chan struct{}
	end  *os.ProcessState // once done is closed
}

// basic is the environment of every rank: what the stand-ins cannot do is off, and one channel starts faster than 64.
func (r rig) basic() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + r.folder + "/lib", "NCCL_DEBUG=INFO", "NCCL_SOCKET_IFNAME==loa",
		"NCCL_PROTO=Simple", "NCCL_CUMEM_ENABLE=0", "NCCL_NVLS_ENABLE=0", "NCCL_RUNTIME_CONNECT=0", "NCCL_MAX_CTAS=1",
	}
}

// start starts the program rank. Of two values of a variable in env the last counts.
func (n *node) start(t *testing.T, r rig, env []string, args ...string) *process {
	t.Helper()
	file, err := os.CreateTemp(n.work, "log-")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	args = append([]string{r.folder + "/rank"}, args...)
	if n.group != "" { // before it makes a socket
		args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, n.group + "/cgroup.procs"}, args...)
	}
	cmd := n.inside(args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(r.basic(), env...), file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{Process: cmd.Process, log: file.Name(), done: make(chan struct{})}
	go func() {
		cmd.Wait()
		p.end = cmd.ProcessState
		close(p.done)
	}()
	t.Cleanup(func() { p.Kill(); <-p.done })
	return p
}

// job starts ranks of a job; env has what is only for one of them.
func (n *node) job(t *testing.T, r rig, rate int, common []string, env ...[]string) []*process {
	t.Helper()
	id := filepath.Join(t.TempDir(), "id")
	var ranks []*process
	for i, own := range env {
		own = append(append([]string{}, common...), own...)
		ranks = append(ranks, n.start(t, r, own, strconv.Itoa(i), strconv.Itoa(len(env)), id, strconv.Itoa(rate)))
	}
	return ranks
}

// output is what a rank has printed, with NCCL's log.
func (p *process) output() string {
	data, _ := os.ReadFile(p.log)
	return string(data)
}

// ended waits until a rank ends by itself.
func (p *process) ended(t *testing.T, within time.Duration) *os.ProcessState {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patient(within)):
		p.Kill()
		<-p.done
		t.Fatalf("the rank does not end in %s:\n%s", within, tail(p.output()))
	}
	return p.end
}

// patient returns how long to wait for what a machine has done within d.
func patient(d time.Duration) time.Duration {
	if *guest {
		return 10 * d // all code is emulated
	}
	return d
}

func tail(s string) string { return s[max(0, len(s)-3000):] }
