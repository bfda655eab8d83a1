// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
)

// rankSource is a process that looks like an NCCL rank: it maps the files in MAP and calls itself COMM.
const rankSource = `#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
	for (char *p = strtok(strdup(getenv("MAP")), " "); p; p = strtok(NULL, " ")) {
		int fd = open(p, O_CREAT | O_RDWR, 0600);
		if (fd < 0 || ftruncate(fd, 4096) || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			return perror(p), 1;
	}
	prctl(PR_SET_NAME, getenv("COMM"));
	puts("ready");
	fflush(stdout);
	return getchar();
}
`

// rankScript gives the rank a /dev and an /etc that no other process sees, and has it open a GPU. $0 is the
// rank, $1 a secret.
const rankScript = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /dev
mkdir /dev/shm /dev/infiniband /dev/tcpx
for n in null nvidia0 nvidia-uvm infiniband/uverbs0; do mknod -m 666 /dev/$n c 1 3; done
mount -t tmpfs tmpfs /etc
printf 'NCCL_IB_HCA=%s\nNCCL_DEBUG=%s\nNCCL_%s=1\nNCCL_IB_TIMEOUT=99\nTOKEN=%s\n%s\n' $1 $1 $1 $1 $1 >/etc/nccl.conf
printf 'NCCL INFO %s\n' $1 >/dev/$1.log
exec 5<>/dev/nvidia0 6<>/dev/nvidia-uvm 7>>/dev/$1.log
exec "$0" --token=$1
`

// hostScript gives a program a node with the GPU driver. Its arguments are the program and those of the program.
const hostScript = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /proc/driver
mkdir /proc/driver/nvidia
: >/proc/driver/nvidia/version
exec "$0" "$@"
`

// isolated is a command in a mount namespace of its own.
func isolated(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: processes in mount namespaces of their own are needed")
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", script}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// plant starts a rank with a secret wherever a user can put one, and returns its PID.
func plant(t *testing.T, secret, command string, env ...string) int {
	t.Helper()
	dir := filepath.Join(t.TempDir(), secret)
	rank := filepath.Join(dir, secret+"-train")
	mkdir(t, dir)
	write(t, rank+".c", rankSource)
	if out, err := exec.CommandContext(t.Context(), "gcc", "-o", rank, rank+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := isolated(t, rankScript, rank, secret)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "COMM=" + command,
		"MAP=" + dir + "/libnccl.so.2.27.3 /dev/shm/nccl-" + secret + " /dev/tcpx/libnccl-net-" + secret + ".so",
	}, env...)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var failure bytes.Buffer
	cmd.Stderr = &failure
	if err := cmd.Start(); err != nil {
		t.Skipf("no mount namespace of its own: %v", err)
	}
	t.Cleanup(func() { input.Close(); _ = cmd.Wait() })
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the rank says %q: %s", line, failure.String())
	}
	return cmd.Process.Pid
}

// aSecret is what is planted; no output of the exporter may contain a part of it.
const aSecret = "Zq7hunter2xW9-correct.horse_battery"

// TestPlantedSecret plants a secret in everything of a job that its user can write (arguments, variables,
// names of programs, libraries, segments and logs, nccl.conf of its container) and looks for it in everything
// that the exporter says.
func TestPlantedSecret(t *testing.T) {
	t.Parallel()
	pid := plant(t, aSecret, "python3", "PASSWORD="+aSecret, "NCCL_"+aSecret+"=1", "NCCL_IB_HCA="+aSecret, "NCCL_DEBUG="+aSecret,
		"NCCL_DEBUG_FILE=/dev/"+aSecret+".log", "NCCL_NET="+aSecret, "NCCL_CONF_FILE=/dev/"+aSecret+".log", "SLURM_JOB_ID=4242", "SLURM_JOB_USER=Zq7hunter2xW9", "RANK=0", "WORLD_SIZE=16",
		"SLURM_JOB_NAME="+aSecret, "OMPI_COMM_WORLD_RANK="+aSecret)
	n := newNodeOf(t, pid)
	surfaces := n.surfaces()
	if !strings.Contains(surfaces["/metrics"], fmt.Sprintf(`gpufabric_job_ranks{training_job="slurm/4242-of-user-%d"} 1`, os.Getuid())) {
		t.Errorf("the job is not seen:\n%s", regexp.MustCompile(`(?m)^gpufabric_job.*|^gpufabric_scrape.*job.*$`).FindAllString(surfaces["/metrics"], -1))
	}
	if !strings.Contains(surfaces["jobs"], "NCCL_IB_TIMEOUT=99 in /etc/nccl.conf: ") {
		t.Errorf("nccl.conf of the job is not judged:\n%s", surfaces["jobs"])
	}
	if len(surfaces) < 12 {
		t.Errorf("only %d surfaces were read", len(surfaces))
	}
	for name, text := range surfaces {
		if len(text) < 20 {
			t.Errorf("%s says %q", name, text)
		}
		for _, part := range []string{aSecret, "hunter2"} {
			if i := strings.Index(text, part); i >= 0 {
				t.Errorf("%s shows the secret: %q", name, text[max(0, i-100):min(len(text), i+100)])
			}
		}
	}
}

// TestCommandInjection: the name of a program is shown where no scheduler names the job, in characters that
// no format takes for its own.
func TestCommandInjection(t *testing.T) {
	t.Parallel()
	n := newNodeOf(t, plant(t, aSecret, "a\"}\n\u202e\x1b[0m{<b>"))

	for name, text := range n.surfaces() {
		if i := strings.IndexAny(text, "\u202e\x1b"); i >= 0 {
			t.Errorf("%s has a control character: %q", name, text[max(0, i-100):min(len(text), i+100)])
		}
		if name == "/metrics" && !regexp.MustCompile(`(?m)^gpufabric_job_ranks\{training_job="none/a_+0m_+b_+-of-user-[0-9]+"\} 1$`).MatchString(text) {
			t.Errorf("the name of the job:\n%s", regexp.MustCompile(`(?m)^gpufabric_job_ranks.*$`).FindAllString(text, -1))
		}
	}
}

// nodeOf is this host with a GPU driver that lists one process, and the exporter on it.
type nodeOf struct {
	t        *testing.T
	nvml     string
	url      string
	exporter *exec.Cmd
	log      *bytes.Buffer
	done     chan error
}

func newNodeOf(t *testing.T, pid int) *nodeOf {
	t.Helper()
	n := &nodeOf{t: t, nvml: nvmltest.Build(t, t.TempDir()), log: new(bytes.Buffer), done: make(chan error, 1)}
	nvmltest.Describe(t, n.nvml, "gpus 2", "processes 1", fmt.Sprintf("pid %d", pid), "util 99")
	n.exporter = isolated(t, hostScript, thisProgram(t), "serve", "--web.listen-address=127.0.0.1:0", "--web.enable-pprof", "--log.level=debug", "--gpu.nvml-library="+n.nvml,
		"--observer.fast-interval=10ms", "--observer.medium-interval=10ms")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	n.exporter.Stdout, n.exporter.Stderr = w, w
	if err := n.exporter.Start(); err != nil {
		t.Skipf("no mount namespace of its own: %v", err)
	}
	w.Close()
	listening := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			n.log.WriteString(line)
			if _, address, found := strings.Cut(strings.TrimSpace(line), "msg=listening address="); found {
				listening <- address
			}
			if err != nil {
				close(listening)
				n.done <- n.exporter.Wait()
				return
			}
		}
	}()
	address, ok := <-listening
	if !ok {
		t.Fatal(n.log.String())
	}
	n.url = "http://" + address
	return n
}

// surfaces is everything that the exporter shows about the node: pages (those of links, too), metrics,
// commands, an archive, the log, and what is left when it is killed with all goroutines shown.
func (n *nodeOf) surfaces() map[string]string {
	n.t.Helper()
	said := map[string]string{}
	n.get("/metrics")
	time.Sleep(1500 * time.Millisecond) // a verdict takes two readings that are a second apart
	todo := []string{"/metrics", "/", "/probes", "/probes.json", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if _, seen := said[path]; seen {
			continue
		}
		said[path] = n.get(path)
		for _, link := range regexp.MustCompile(`href="([a-z][a-z/.]*)"`).FindAllStringSubmatch(said[path], -1) {
			todo = append(todo, "/"+link[1])
		}
	}
	archive := filepath.Join(n.t.TempDir(), "capture.tar.gz")
	var all sync.WaitGroup
	var mu sync.Mutex
	for name, args := range map[string][]string{
		"jobs":    {"jobs", "--interval=2s"},
		"JSON":    {"jobs", "--interval=2s", "--output=json", "--log.level=debug"},
		"check":   {"check", "--log.level=debug"},
		"report":  {"check", "--output=json"},
		"capture": {"capture", "--file=" + archive},
	} {
		all.Go(func() {
			cmd := isolated(n.t, hostScript, append([]string{thisProgram(n.t)}, args...)...)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(n.nvml))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				n.t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			said[name] = string(out)
		})
	}
	all.Wait()
	said["archive"] = unpacked(n.t, archive)
	if err := n.exporter.Process.Signal(syscall.SIGQUIT); err != nil {
		n.t.Error(err)
	}
	<-n.done
	said["log"] = n.log.String()
	if !strings.Contains(said["log"], "goroutine ") {
		n.t.Error("the end of the exporter shows no goroutine")
	}
	return said
}

// thisProgram is this binary. A shell that is to start it is itself /proc/self/exe.
func thisProgram(t *testing.T) string {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func (n *nodeOf) get(path string) string {
	n.t.Helper()
	answer, err := http.Get(n.url + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		n.t.Errorf("%s: %s, %v", path, answer.Status, err)
	}
	return string(text)
}

// unpacked is all names and texts of an archive.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&all, h.Name, h.Linkname)
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(err)
		}
	}
}
