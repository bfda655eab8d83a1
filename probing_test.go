// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/nvml"
	"gpufabric_exporter/internal/host/nvml/nvmltest"
	"gpufabric_exporter/internal/program"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/ncclprobe/ncclprobetest"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/probes/run"
)

// standIns are NCCL and CUDA for this program, on a machine with this many GPUs.
type standIns struct {
	dir  string
	node *fabric.Node
}

func newStandIns(t *testing.T, built string, gpus int, lines ...string) standIns {
	t.Helper()
	s := standIns{dir: ncclprobetest.Place(t, built), node: new(fabric.Node)}
	ncclprobetest.Describe(t, s.dir, append([]string{"gpus " + strconv.Itoa(gpus)}, lines...)...)
	s.node.GPUDriver.Loaded = fabric.Known(true, "", time.Now())
	for i := range gpus {
		s.node.GPUDriver.GPUs = append(s.node.GPUDriver.GPUs, fabric.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", i), Address: fmt.Sprintf("0000:%02x:00.0", 0x1b+i),
		})
	}
	port := fabric.Port{Number: 1, LinkLayer: fabric.Known(fabric.LinkEthernet, "", time.Now()), State: fabric.Known(fabric.PortActive, "", time.Now())}
	s.node.HCAs = []fabric.HCA{{Name: "mlx5_0", Restricted: fabric.Known(false, "", time.Now()), Ports: []fabric.Port{port}}}
	return s
}

// probe runs a probe as the exporter does: with processes of this program.
func (s standIns) probe(t *testing.T, key probes.Key, guard run.Guard, more plan.Settings) probes.Result {
	t.Helper()
	more.NCCL, more.CUDA = filepath.Join(s.dir, ncclprobetest.NCCL), filepath.Join(s.dir, ncclprobetest.CUDA)
	if more.Bytes == 0 {
		more.Bytes = 1 << 20
	}
	more.Budget = cmp.Or(more.Budget, 2*time.Minute) // a loaded machine takes long to start processes
	more.Deadline = cmp.Or(more.Deadline, 3*time.Minute)
	plan, skip := plan.New(key, s.node, more)
	if skip != nil {
		t.Fatalf("%+v", skip)
	}
	return run.Run(t.Context(), plan, startRank(nil, new(worker.Room)), guard)
}

// What goes wrong with a library, in a process of its own, is named by the result, and the next probe runs.
func TestFaultsOfProbes(t *testing.T) {
	built := t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "fault\tkind\toutcome\tfailure\tpath\tin words")
	for _, c := range []struct {
		fault   string
		kind    probes.Kind
		outcome probes.Outcome
		failure probes.Failure
		path    probes.Path
		words   string
	}{
		{"", probes.Node, probes.OK, "", probes.PathP2P, ""},
		{"", probes.Rail, probes.OK, "", probes.PathIB, ""},
		{"", probes.Transport, probes.OK, "", probes.PathIB, ""},
		{"transport Socket", probes.Transport, probes.OK, "", probes.PathSocket, ""},
		{"transport Socket", probes.Rail, probes.Failed, probes.FailureInit, "", "NET plugin"},
		{"transport SHM", probes.Node, probes.OK, "", probes.PathSHM, ""},
		{"gdr 0", probes.Rail, probes.OK, "", probes.PathIB, ""},
		{"rank 1 hang init", probes.Node, probes.Failed, probes.FailureHang, "", ""}, // a slow machine gets no further than open
		{"rank 1 hang collective", probes.Node, probes.Failed, probes.FailureHang, "", ""},
		{"crash init", probes.Node, probes.Failed, probes.FailureCrash, "", "segmentation fault"},
		{"rank 1 crash collective", probes.Node, probes.Failed, probes.FailureCrash, "", "segmentation fault"},
		{"exit ncclGetVersion 3", probes.Node, probes.Failed, probes.FailureCrash, "", "exit status 3"},
		{"rank 1 lie sum", probes.Node, probes.Failed, probes.FailureWrong, probes.PathP2P, "1 "},
		{"error ncclCommInitRankConfig 5", probes.Node, probes.Failed, probes.FailureInit, "", "ncclCommInitRankConfig"},
		{"error collective 6", probes.Node, probes.Failed, probes.FailureNCCL, "", ""},
		{"fault collective 700", probes.Node, probes.Failed, probes.FailureCUDA, "", ""},
		{"error cuInit 100", probes.Node, probes.Failed, probes.FailureCUDA, "", "cuInit"},
		{"log 20000000", probes.Node, probes.OK, "", probes.PathP2P, ""},
	} {
		var lines []string
		if c.fault != "" {
			lines = []string{c.fault}
		}
		key := probes.Key{Kind: c.kind}
		if c.kind == probes.Rail {
			key.Device, key.Port = "mlx5_0", 1
		}
		s := newStandIns(t, built, 2, lines...)
		var patience plan.Settings
		if strings.Contains(c.fault, "hang") {
			patience.Deadline = 8 * time.Second
		}
		r := s.probe(t, key, nil, patience)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.90s\n", c.fault, c.kind, r.Outcome, r.Failure, r.Path.Or(""), r.Error)
		if r.Outcome != c.outcome || r.Failure != c.failure || r.Path.Or("") != c.path && c.path != "" || !strings.Contains(r.Error, c.words) {
			t.Errorf("%q, %s: %s, %s, %s: %q; expected %s, %s, %s, %q", c.fault, c.kind, r.Outcome, r.Failure, r.Path.Or(""), r.Error,
				c.outcome, c.failure, c.path, c.words)
		}
		if gdr, known := r.GPUDirect.Get(); c.kind == probes.Rail && r.Outcome == probes.OK && (!known || gdr != (c.fault != "gdr 0")) {
			t.Errorf("%q: GPUDirect RDMA %+v", c.fault, r.GPUDirect)
		}
		if len(r.Log) > 64<<10 || len(r.Error) > 1<<12 {
			t.Errorf("%q: %d bytes of log, %d of error", c.fault, len(r.Log), len(r.Error))
		}
		if r.Outcome == probes.Failed {
			ncclprobetest.Describe(t, s.dir, "gpus 2")
			if again := s.probe(t, key, nil, plan.Settings{}); again.Outcome != probes.OK {
				t.Errorf("after %q: %s %s", c.fault, again.Failure, again.Error)
			}
		}
	}
	table.Flush()
}

// idleHost is a host without jobs, as far as a gate asks.
type idleHost struct{}

func (idleHost) Initial() error                                                    { return nil }
func (idleHost) Find(context.Context, func(string) bool) ([]fabric.Process, error) { return nil, nil }

func (idleHost) Cgroups() (fabric.Cgroups, error) { return fabric.Cgroups{}, nil }

func (idleHost) GPUs(context.Context) ([]string, bool, error) { return nil, false, nil }

func (idleHost) Process(int) (fabric.Process, error) { return fabric.Process{}, os.ErrNotExist }

// lingering is a gate for which process 1000 of the driver's list is a rank that has ended.
type lingering struct {
	*gate.Pass
	freed func() // is called when the ranks are gone
}

func (l lingering) Freed(ctx context.Context, own []int) error {
	l.freed()
	return l.Pass.Freed(ctx, append(slices.Clone(own), 1000))
}

// With real processes, and a stand-in for the driver's library: a process that comes to the GPUs ends the
// ranks, and the time until their memory is free is measured.
func TestIntruderEndsProbe(t *testing.T) {
	built, dir := t.TempDir(), t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	s := newStandIns(t, built, 2, "hang collective")
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 2", "processes 0")
	session := nvml.NewSession(func() nvml.Caller {
		return askGPUs(site.GPUOptions{Library: library, Log: slog.New(slog.DiscardHandler)}).(gpus).Process
	})
	var pass *gate.Pass
	for quiet := 300 * time.Millisecond; pass == nil; quiet *= 2 { // a slow machine takes longer to start a process and to look often enough
		gate := gate.New(gate.Options{
			GPUs: session, Processes: idleHost{}, Cgroups: idleHost{}, Pods: idleHost{}, Maintenance: func() (string, error) { return "", nil },
			Lock: filepath.Join(dir, "lock"), Quiet: quiet, IdleMemory: 1 << 29, // which the library says is used
		})
		var skipped *probes.Skipped
		if pass, skipped = gate.Enter(t.Context(), []string{s.node.GPUDriver.GPUs[0].UUID, s.node.GPUDriver.GPUs[1].UUID}); pass == nil && quiet > time.Minute {
			t.Fatalf("%+v", skipped)
		}
	}
	defer pass.Leave()
	const stays = 500 * time.Millisecond
	time.AfterFunc(stays, func() { nvmltest.Describe(t, library, "gpus 2", "processes 1") }) // another process comes
	gone := make(chan struct{})
	r := s.probe(t, probes.Key{Kind: probes.Node}, lingering{pass, func() {
		time.AfterFunc(stays, func() {
			nvmltest.Describe(t, library, "gpus 2", "processes 0")
			close(gone)
		})
	}}, plan.Settings{})
	<-gone
	took, known := r.Release.Get()
	if r.Outcome != probes.Aborted || r.Failure != probes.FailureIntruder || r.Intrusion == nil || !known || took.Duration() < stays || took.Duration() > stays+r.Intrusion.Gone.Duration()+8*time.Second || r.Left != "" {
		t.Fatalf("%s %s %+v, released %+v, left %q", r.Failure, r.Error, r.Intrusion, r.Release, r.Left)
	}
	t.Logf("killed after %s, gone after %s; memory free %s after the kill", r.Intrusion.Killed, r.Intrusion.Gone, took)
	pass.Leave()
	if s := descendants(t); len(s) > 0 {
		t.Errorf("left behind: %v", s)
	}
}

// Probes leave nothing in the process that has them run: no library, no memory, no descriptor, no process.
func TestProbesLeaveNothing(t *testing.T) {
	runs := 12
	if os.Getenv("FULL") != "" {
		runs = 1000
	}
	built := t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	s := newStandIns(t, built, 1)
	probe := func() {
		if r := s.probe(t, probes.Key{Kind: probes.Transport}, nil, plan.Settings{}); r.Outcome != probes.OK {
			t.Fatalf("%s %s", r.Failure, r.Error)
		}
	}
	for range 10 {
		probe()
	}
	before, files := residentKiB(t), openFiles(t)
	began := time.Now()
	for range runs {
		probe()
	}
	t.Logf("%d probes, %s each: RSS %d KiB before and %d after, descriptors %d and %d", runs, (time.Since(began) / time.Duration(runs)).Round(time.Millisecond),
		before, residentKiB(t), files, openFiles(t))
	if after := residentKiB(t); after > before+8<<10 {
		t.Errorf("RSS grew from %d to %d KiB", before, after)
	}
	if after := openFiles(t); after > files+2 {
		t.Errorf("descriptors grew from %d to %d", files, after)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libnccl", "libcuda", "libnvidia"} {
		if strings.Contains(string(maps), name) {
			t.Errorf("this process has mapped %s", name)
		}
	}
	if s := descendants(t); len(s) > 0 {
		t.Errorf("left behind: %v", s)
	}
}

func residentKiB(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// descendants returns the processes that this one has, zombies included. Those that end meanwhile are given time.
func descendants(t *testing.T) []string {
	t.Helper()
	var left []string
	for end := time.Now().Add(eventually); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		tasks, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range tasks {
			if b, err := os.ReadFile(file); err == nil {
				left = append(left, strings.Fields(string(b))...)
			}
		}
		if left = slices.Compact(left); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// The exporter probes by itself, behind its own gate, and says what came of it. It takes a minute or two
// until a probe is due, so that it is run with the long proofs only.
func TestServeProbes(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("waits for a probe that is due, a minute or two: runs with FULL=1")
	}
	dir := t.TempDir()
	built := t.TempDir()
	ncclprobetest.Build(t, built, "2.27.3")
	s := newStandIns(t, built, 2)
	library := nvmltest.Build(t, dir)
	nvmltest.Describe(t, library, "gpus 2", "processes 0")
	version := filepath.Join(dir, "proc/driver/nvidia/version")
	cgroups := filepath.Join(dir, "sys/fs/cgroup")
	for _, d := range []string{filepath.Dir(version), cgroups} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	touch(t, version)
	touch(t, filepath.Join(cgroups, "cgroup.controllers"))
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("probes:\n  every: {transport: 1m}\n  duty: 1\n  idle_memory: 512MiB\n  nccl: %s\n  cuda: %s\n  state_file: %s\n  lock_file: %s\n",
		filepath.Join(s.dir, ncclprobetest.NCCL), filepath.Join(s.dir, ncclprobetest.CUDA), filepath.Join(dir, "probes.json"), filepath.Join(dir, "lock"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := probing()
	open := p.Gate
	p.Gate = func(h *prober.Host) (*gate.Gate, func() error, error) {
		elsewhere := *h
		elsewhere.Procfs, elsewhere.Sysfs, elsewhere.Rootfs, elsewhere.Quiet = "/proc", filepath.Join(dir, "sys"), dir, 2*time.Second
		return open(&elsewhere)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	address := make(chan net.Addr, 1)
	ended := make(chan int, 1)
	go func() {
		o := program.Options{
			Site: site.Site{Worker: askGPUs}, ServeGPUs: serveGPUs,
			Exporter: exporter.Exporter{Probing: p, OnListen: func(a []net.Addr) { address <- a[0] }},
		}
		ended <- program.New(&o).Run(ctx, []string{
			"serve", "--web.listen-address=127.0.0.1:0", "--config.file=" + config, "--path.procfs=" + filepath.Join(dir, "proc"),
			"--gpu.nvml-library=" + library, "--collector.disable-defaults", "--collector.probe",
		}, t.Output(), t.Output())
	}()
	url := "http://" + (<-address).String() + "/metrics"
	const good = `gpufabric_probe_success{device="",kind="transport",port=""} 1`
	var body string
	for ; !strings.Contains(body, good); time.Sleep(time.Second) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("no probe was made: %v\n%s", err, body)
		}
		b, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if body = string(b); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`gpufabric_probe_transport{device="",kind="transport",port="",transport="ib"} 1`,
		`gpufabric_probe_runs_total{device="",kind="transport",port=""} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s:\n%s", want, body)
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s := descendants(t); len(s) > 0 {
		t.Errorf("left behind: %v", s)
	}
}
