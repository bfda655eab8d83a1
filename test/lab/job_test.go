// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/test/safety"
)

// asRank is the variable that makes this program a rank.
const asRank = "LAB_RANK"

func TestMain(m *testing.M) {
	safety.Enter()
	if os.Getenv(asWriter) != "" {
		writeToDevice()
		os.Exit(0)
	}
	if os.Getenv(denied) != "" {
		fmt.Println("failed:", withoutNetlink(os.Args[1:]))
		os.Exit(1)
	}
	if os.Getenv(asRank) != "" {
		if err := runRank(); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	hereAddress  = "10.0.0.10" // of rxe0
	thereAddress = "10.0.0.11" // of the other end, for TCP
	pingpong     = "/usr/bin/ibv_rc_pingpong"
)

// testJobs runs ranks whose data this kernel carries over Soft-RoCE, and over TCP, and has the exporter say
// which. The GPU driver is a stand-in that lists the rank; the library of NCCL is a file with its name. Both
// ends of the RDMA transfer are on one device: rxe sends nothing between two devices of one network namespace
// (the route leads over lo), nor between namespaces.
func testJobs(t *testing.T, _ *exporter) {
	if _, err := os.Stat(pingpong); err != nil {
		t.Skip("the guest has no ibv_rc_pingpong: it was set up before this test was written")
	}
	nvml := jobDriver(t)
	x := startWith(t, "--observer.fast-interval=100ms", "--gpu.nvml-library="+nvml, "--log.level=debug")
	t.Cleanup(func() { write(t, "jobs.log", strings.Join(x.lines(), "\n")); x.stop(t) })

	stop, gid := pingpongServer(t)
	defer stop()
	l, echoed := echo(t)
	packets := func() float64 {
		n, _ := strconv.ParseFloat(strings.TrimSpace(read(class, "rxe0/ports/1/hw_counters/sent_pkts")), 64)
		return 1024 * n
	}
	for _, c := range []struct {
		name  string
		env   []string
		want  string
		cause string         // what the exporter says of it, if anything
		moved func() float64 // bytes
	}{
		{"rdma", []string{"RDMA=" + gid, "UVERBS=1"}, "rdma", "", packets},
		{"tcp", []string{"PEER=" + l.Addr().String(), "UVERBS=1", "NCCL_IB_DISABLE=1"}, "tcp", "rdma_disabled", echoed},
		{"tcp without devices", []string{"PEER=" + l.Addr().String()}, "tcp", "no_rdma_devices_in_container", echoed},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := strconv.Itoa(4000 + len(c.name))
			pid, end := rankOf(t, append(c.env, "SLURM_JOB_ID="+id)...)
			defer end()
			describe(t, pid)
			name := "slurm/" + id + "-of-user-0" // its environment says so
			t.Logf("%s: %s after %d readings", c.name, c.want, verdictOf(t, x, name, c.want, c.cause, c.moved))
			// Two readings of a command may fall into a moment in which the guest moves nothing: it is shown, and not judged.
			out, _ := exec.Command("./gpufabric_exporter", "jobs", "--interval=3s", "--gpu.nvml-library="+nvml).CombinedOutput()
			t.Logf("\n%s", out)
		})
	}
}

// jobDriver has the guest show a driver of GPUs, and returns the path of the stand-in for NVML.
func jobDriver(t *testing.T) string {
	t.Helper()
	command(t, "modprobe tcp_diag") // the exporter loads no module
	t.Cleanup(func() { command(t, "modprobe -r tcp_diag") })
	command(t, "mount -t tmpfs tmpfs /proc/driver")
	t.Cleanup(func() { command(t, "umount /proc/driver") })
	if err := os.MkdirAll("/proc/driver/nvidia", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "/proc/driver/nvidia/version", "")
	nvml, err := filepath.Abs("libnvidia-ml.so.1") // the process that loads it has another folder
	if err != nil {
		t.Fatal(err)
	}
	describe(t, 1)
	return nvml
}

// pingpongServer starts the other end of the RDMA transfer.
func pingpongServer(t *testing.T) (stop func(), gid string) {
	t.Helper()
	gid = gidOf(t, "rxe0", hereAddress)
	server := exec.Command(pingpong, "-d", "rxe0", "-g", gid, "-s", "65536", "-m", "1024", "-n", "100000000")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	return func() { _ = server.Process.Kill(); _ = server.Wait() }, gid
}

// describe has the stand-in for NVML list one process on one GPU that is at work.
func describe(t *testing.T, pid int) {
	t.Helper()
	write(t, "libnvidia-ml.so.1.machine", fmt.Sprintf("gpus 1\nprocesses 1\npid %d\nutil 99\nfabric 0\n", pid))
}

// verdictOf scrapes until the job has that transport, and returns how many readings that took. The guest is
// emulated on a host that may be busy. Readings do not count before which it moved less than collectives do,
// which is none to the exporter, or of which the exporter says that it could not read all.
func verdictOf(t *testing.T, x *exporter, name, transport, cause string, moved func() float64) int {
	t.Helper()
	const most, within, collectives = 8, 3 * time.Minute, 11e6 // the first finds the process, the second its data
	var said error
	n, moving, answered, last, at := 1, 0, false, moved(), time.Now()
	for deadline := at.Add(within); n <= most && at.Before(deadline); {
		time.Sleep(1500 * time.Millisecond) // readings that are closer are not compared
		s, err := x.scrape()
		now, then := moved(), time.Now()
		enough := err == nil && (now-last)/then.Sub(at).Seconds() >= collectives
		last, at, answered = now, then, answered || err == nil
		if enough {
			moving++
		}
		if enough && is(1, "exporter_source_up", "source", "ranks")(s) == nil {
			n++
		}
		if said = errors.Join(err, is(1, "job_transport", "training_job", name, "transport", transport)(s)); said == nil && cause != "" {
			said = errors.Join(is(1, "job_info", "training_job", name, "cause", cause)(s), is(1, "job_transport_confirmed", "training_job", name)(s))
		}
		if said == nil {
			return n
		}
		for _, m := range s {
			if strings.HasPrefix(m.name, "job_") && m.value == 1 {
				said = fmt.Errorf("%w\n%v", said, m)
			}
		}
	}
	if answered && moving < most/2 {
		t.Skipf("in %s, the guest moved enough before %d readings only: its host is too busy to judge by it", within, moving)
	}
	t.Fatalf("no %s of %s after %d readings, %d with data; at last:\n%v", transport, name, n, moving, said)
	return n
}

// gidOf is the index of the RoCE v2 GID that an address has.
func gidOf(t *testing.T, device, address string) string {
	t.Helper()
	a := net.ParseIP(address).To4()
	want := fmt.Sprintf("ffff:%02x%02x:%02x%02x", a[0], a[1], a[2], a[3])
	files, err := filepath.Glob(filepath.Join(class, device, "ports/1/gids/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(strings.TrimSpace(read(f)), want) {
			return filepath.Base(f)
		}
	}
	t.Fatalf("%s has no GID of %s", device, address)
	return ""
}

// echo sends back what it gets, as a rank on another node that gives as much as it takes.
func echo(t *testing.T) (l net.Listener, bytes func() float64) {
	t.Helper()
	var sent atomic.Int64
	l, err := net.Listen("tcp", thereAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for b := make([]byte, 256<<10); ; {
					n, err := c.Read(b)
					if err == nil {
						n, err = c.Write(b[:n])
					}
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l, func() float64 { return float64(sent.Load()) }
}

// rankOf starts a rank, and returns its PID and what ends it.
func rankOf(t *testing.T, env ...string) (pid int, end func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	for _, v := range env {
		if ns, ok := strings.CutPrefix(v, "NETNS="); ok {
			cmd = exec.Command("nsenter", "--net="+ns, exe)
		}
	}
	cmd.Env = append([]string{asRank + "=1", "RANK=0", "WORLD_SIZE=2"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the rank says %q", line)
	}
	return cmd.Process.Pid, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}

// runRank is what a rank does: it has a /dev of its own with a GPU and, if they are given to it, the nodes of
// RDMA devices.
func runRank() error {
	if group := os.Getenv("CGROUP"); group != "" { // before it makes a socket
		if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0); err != nil {
			return err
		}
	}
	nodes := map[string]uint64{"nvidia0": unix.Mkdev(1, 3), "nvidia-uvm": unix.Mkdev(1, 3), "null": unix.Mkdev(1, 3)}
	if os.Getenv("UVERBS") != "" {
		found, _ := filepath.Glob("/dev/infiniband/uverbs*")
		for _, f := range found {
			var st unix.Stat_t
			if err := unix.Stat(f, &st); err != nil {
				return err
			}
			nodes["infiniband/"+filepath.Base(f)] = st.Rdev
		}
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", "/dev", "tmpfs", 0, ""),
		os.MkdirAll("/dev/infiniband", 0o755), os.MkdirAll("/dev/shm", 0o755)); err != nil {
		return err
	}
	for name, device := range nodes {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(device)); err != nil {
			return err
		}
	}
	for _, name := range []string{"/dev/nvidia0", "/dev/nvidia-uvm"} {
		if _, err := unix.Open(name, unix.O_RDWR, 0); err != nil { // stays open
			return err
		}
	}
	if gid := os.Getenv("RDMA"); gid != "" {
		fmt.Println("ready")
		return unix.Exec(pingpong, []string{pingpong, "-d", "rxe0", "-g", gid, "-s", "65536", "-m", "1024", "-n", "100000000", hereAddress}, os.Environ())
	}
	for _, name := range []string{"/dev/shm/nccl-lab", "/dev/shm/libnccl.so.2.27.3", "/dev/shm/libibverbs.so.1"} {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err = f.Truncate(4096); err == nil {
			_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		}
		if err != nil {
			return err
		}
	}
	return exchange(os.Getenv("PEER"))
}

// exchange sends to a peer and takes what comes back, beside a connection that is quiet.
func exchange(peer string) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(cmp.Or(os.Getenv("HERE"), hereAddress))}}
	quiet, err := d.Dial("tcp", peer)
	if err != nil {
		return err
	}
	defer quiet.Close()
	data, err := d.Dial("tcp", peer)
	if err != nil {
		return err
	}
	defer data.Close()
	fmt.Println("ready")
	go func() { _, _ = io.Copy(io.Discard, data) }()
	for chunk := make([]byte, 256<<10); ; time.Sleep(5 * time.Millisecond) { // leaves the guest some time
		if _, err := data.Write(chunk); err != nil {
			return err
		}
	}
}
