// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// plugin builds a library that leaves a mark where it is loaded.
func plugin(t *testing.T, library, mark string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		t.Fatal(err)
	}
	source := library + ".c"
	text := fmt.Sprintf("#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void) { open(%q, O_CREAT | O_WRONLY, 0600); }\n", mark)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestUsersPluginIsNotLoaded goes from NCCL's files to the ranks: a plugin of root's, which root's file
// names, is loaded, and nothing that another user could have written ever is.
func TestUsersPluginIsNotLoaded(t *testing.T) {
	built := t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	for _, c := range []struct {
		name   string
		change func(t *testing.T, root string) // what is wrong with it
		loaded bool
	}{
		{"root's plugin in root's file", func(*testing.T, string) {}, true},
		{"a file writable for all", func(t *testing.T, root string) { open(t, root+"/etc/jobs.conf") }, false},
		{"an environment file writable for all", func(t *testing.T, root string) { open(t, root+"/etc/env") }, false},
		{"a folder of the file writable for all", func(t *testing.T, root string) { open(t, root+"/etc") }, false},
		{"a plugin writable for all", func(t *testing.T, root string) { open(t, root+"/opt/libnccl-net-x.so") }, false},
		{"a folder of the plugin writable for all", func(t *testing.T, root string) { open(t, root+"/opt") }, false},
		{"a user's file behind a link", func(t *testing.T, root string) {
			mkdir(t, root+"/home")
			open(t, root+"/home")
			if err := errors.Join(os.Rename(root+"/etc/jobs.conf", root+"/home/conf"), os.Symlink("../home/conf", root+"/etc/jobs.conf")); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a user's plugin behind a link", func(t *testing.T, root string) {
			mkdir(t, root+"/home")
			open(t, root+"/home")
			if err := errors.Join(os.Rename(root+"/opt/libnccl-net-x.so", root+"/home/x.so"), os.Symlink("../home/x.so", root+"/opt/libnccl-net-x.so")); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStandIns(t, built, 1)
			root, mark := t.TempDir(), filepath.Join(t.TempDir(), "mark")
			mkdir(t, root+"/etc")
			library := root + "/opt/libnccl-net-x.so"
			plugin(t, library, mark)
			write(t, root+"/etc/env", "NCCL_CONF_FILE=/etc/jobs.conf\n")
			write(t, root+"/etc/jobs.conf", "NCCL_NET_PLUGIN="+library+"\n")
			c.change(t, root)
			var err error
			if s.node.NCCL, err = settings.New(root, "/etc/env", "").Read(time.Now()); err != nil {
				t.Fatal(err)
			}
			why := s.tryProbe(t)
			_, err = os.Stat(mark)
			if loaded := err == nil; loaded != c.loaded {
				t.Errorf("loaded: %t, %v, %+v", loaded, err, why)
			}
			if !c.loaded && (why == nil || why.Why != probes.SkipUntrusted || !strings.Contains(why.Detail, "owner ")) {
				t.Errorf("skipped: %+v", why)
			}
		})
	}
}

func open(t *testing.T, file string) {
	t.Helper()
	if err := unix.Chmod(file, 0o777); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tryProbe runs a probe of the way to other nodes behind everything but the gate, or says why none is run.
func (s standIns) tryProbe(t *testing.T) *probes.Skipped {
	t.Helper()
	plan, skip := plan.New(probes.Key{Kind: probes.Transport}, s.node, plan.Settings{
		NCCL: filepath.Join(s.dir, ncclprobetest.NCCL), CUDA: filepath.Join(s.dir, ncclprobetest.CUDA), User: nobody,
	})
	if skip != nil {
		return skip
	}
	start, skip := vetRanks(plan, slog.New(slog.DiscardHandler))
	if skip != nil {
		return skip
	}
	if r := run.Run(t.Context(), plan, start, nil); r.Outcome != probes.OK {
		t.Errorf("%s: %s", r.Failure, r.Error)
	}
	return nil
}

// public makes a directory of this test readable for all users, with the folders above it that are the test's own.
func public(t *testing.T, dir string) {
	t.Helper()
	for at := dir; at != filepath.Clean(os.TempDir()) && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRankIsAnother runs ranks of a root exporter as a user without privileges: two of them, who share memory
// and are killed while they compute, and prints what the kernel reports about them, the worker for NVML and
// the exporter.
func TestRankIsAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	if _, err := worker.InPlaceOfRoot("/", nobody, true); err != nil {
		t.Skipf("not on this host: %v", err)
	}
	built := t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	s := newStandIns(t, built, 2, "shm 9437184", "hang collective")
	public(t, built)
	public(t, s.dir)
	plan, skip := plan.New(probes.Key{Kind: probes.Node}, s.node, plan.Settings{
		NCCL: filepath.Join(s.dir, ncclprobetest.NCCL), CUDA: filepath.Join(s.dir, ncclprobetest.CUDA), User: nobody, Deadline: 15 * time.Second,
	})
	if skip != nil {
		t.Fatal(skip)
	}
	start, skip := vetRanks(plan, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if skip != nil {
		t.Fatal(skip)
	}
	before := sharedFiles(t)
	look := make(chan string, 8)
	r := run.Run(t.Context(), plan, spied(start, look), nil)
	if r.Failure != probes.FailureHang {
		t.Errorf("%s %s", r.Failure, r.Error)
	}
	for range 2 {
		got := <-look
		t.Logf("rank:\n%s", got)
		got = strings.ReplaceAll(got, "0000000000004000", "0000000000000000") // CAP_IPC_LOCK, in some containers
		for _, want := range []string{"Uid 65534 65534 65534 65534\n", "NoNewPrivs 1\n", "CapPrm 0000000000000000\n", "CapBnd 0000000000000000\n", "shm 2\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("lacks %q:\n%s", want, got)
			}
		}
	}
	if after := sharedFiles(t); after != before {
		t.Errorf("left in /dev/shm: %s, before: %s", after, before)
	}
	t.Logf("exporter (here the test):\n%s", privileges(os.Getpid()))
}

func sharedFiles(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/dev/shm/nccl-*")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}

// spied sends the state of each rank as it was last seen before it ended: the first that is killed may end the other.
func spied(start probes.StartRank, look chan<- string) probes.StartRank {
	return func(ctx context.Context, r probes.Rank) (probes.RankProcess, error) {
		p, err := start(ctx, r)
		if err != nil {
			return nil, err
		}
		s := &spiedRank{RankProcess: p, look: look, end: make(chan struct{}), seen: make(chan string, 1)}
		go s.watch()
		return s, nil
	}
}

type spiedRank struct {
	probes.RankProcess
	look      chan<- string
	end       chan struct{}
	seen      chan string
	announced bool
}

// watch keeps what was seen while the process had its namespaces, which it gives up when it ends.
func (s *spiedRank) watch() {
	last := "never seen\n"
	for {
		shm, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/dev/shm/nccl-*", s.PID()))
		if now := privileges(s.PID()); strings.Contains(now, "mnt:[") {
			last = now + fmt.Sprintf("shm %d\n", len(shm))
		}
		select {
		case <-s.end:
			s.seen <- last
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *spiedRank) Kill() {
	if !s.announced {
		s.announced = true
		close(s.end)
		s.look <- <-s.seen
	}
	s.RankProcess.Kill()
}

// privileges returns those of a process, as the kernel shows them.
func privileges(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.Contains(" Name Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp ", " "+name+" ") {
			fmt.Fprintf(&b, "%s %s\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	for _, ns := range []string{"mnt", "pid", "user", "net"} {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		if err != nil {
			to = err.Error()
		}
		fmt.Fprintln(&b, to)
	}
	return b.String()
}

// TestNVMLIsAnother has the worker for NVML run without privileges, and the exporter closed to other
// processes of its user.
func TestNVMLIsAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	if _, err := worker.InPlaceOfRoot("/", nobody, true); err != nil {
		t.Skipf("not on this host: %v", err)
	}
	dir := t.TempDir()
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 2", "processes 0")
	public(t, dir)
	g := askGPUs(site.GPUOptions{Library: library, Log: slog.New(slog.DiscardHandler)}).(gpus)
	defer g.Process.Close()
	d, err := g.Read(fabric.GPUDriver{}, true, time.Now())
	if err != nil || len(d.GPUs) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	guard := g.Statistics().PID
	for _, pid := range append(childrenOf(guard), guard) {
		got := privileges(pid)
		t.Logf("worker for NVML, or its guard:\n%s", got)
		for _, want := range []string{"Uid 65534 65534 65534 65534\n", "NoNewPrivs 1\n", "CapPrm 0000000000000000\n", "CapBnd 0000000000000000\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("lacks %q:\n%s", want, got)
			}
		}
		var st syscall.Stat_t // of what is not dumpable, /proc belongs to root
		if err := syscall.Stat(fmt.Sprintf("/proc/%d/environ", pid), &st); err != nil || st.Uid != 0 {
			t.Errorf("/proc/PID/environ belongs to %d, %v, expected root", st.Uid, err)
		}
	}
}

// TestExporterIsClosed has the exporter of an ordinary user: other processes of that user get neither at its
// memory nor at its environment, and it still reads of itself what it exports.
func TestExporterIsClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	cmd := exec.CommandContext(t.Context(), self, "serve", "--web.listen-address=127.0.0.1:0", "--collector.disable-defaults", "--collector.check", "--path.sysfs=/sys/kernel/mm")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var said strings.Builder
	address := ""
	for s := bufio.NewScanner(out); address == "" && s.Scan(); {
		fmt.Fprintln(&said, s.Text())
		_, address, _ = strings.Cut(s.Text(), "msg=listening address=")
	}
	var st syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid), &st); err != nil || st.Uid != 0 {
		t.Errorf("/proc/PID/environ belongs to %d, %v, expected root", st.Uid, err)
	}
	if address == "" {
		t.Fatal(said.String())
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nprocess_open_fds ", "\nprocess_resident_memory_bytes ", "\nprocess_cpu_seconds_total "} {
		if !strings.Contains(string(body), want) {
			t.Errorf("lacks %q:\n%s", want, body)
		}
	}
}
