// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/internal/host/nvml/nvmltest"
)

// TestMain lets this binary be the exporter, and so its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == withoutCapset {
		execWithoutCapset(os.Args[2:])
	}
	if len(os.Args) > 1 && slices.Contains([]string{"serve", "demo", "gpu-worker", "probe-rank", "ping-worker", "ping", "probe", "jobs", "check", "capture", "preflight", "install-to"}, os.Args[1]) {
		main()
	}
	os.Exit(m.Run())
}

// host is this host, as if it had NVIDIA's driver: with a file for it in procfs, and a stand-in for its library.
type host struct {
	t                          *testing.T
	version, nvml, maintenance string // files
	exporter                   *exec.Cmd
	client                     *http.Client
	url                        string
	log                        chan string // what the exporter logs, at its end
}

// gpusAlone are the flags that have the GPUs read and nothing else, and everything logged.
var gpusAlone = []string{"--collector.disable-defaults", "--collector.gpu", "--log.level=debug"}

// fastInterval is how long scrapes share a reading here.
const fastInterval = 10 * time.Millisecond

// self is this binary.
const self = "/proc/self/exe"

// Limits of real time are several times what is promised, since a loaded machine takes as long to run a
// process at all. What must not be waited for takes longer than each of them: a request that hangs is given
// up after 9 s.
const (
	eventually = 2 * time.Minute // for what happens at some time
	noWait     = 6 * time.Second // for what must not wait for a request that hangs; idle: 1.5 s
)

// startHost runs a program that is the exporter, with these flags among others, until it listens.
func startHost(t *testing.T, program string, flags ...string) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{
		t: t, version: filepath.Join(dir, "proc/driver/nvidia/version"),
		maintenance: filepath.Join(dir, "maintenance"), log: make(chan string, 1),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, // a spare connection would hold up the end
	}
	h.nvml = nvmltest.Build(t, dir)
	h.describe()
	h.load()
	h.exporter = exec.CommandContext(t.Context(), program, append([]string{
		"serve", "--web.listen-address=127.0.0.1:0", "--observer.fast-interval=" + fastInterval.String(), "--observer.medium-interval=10ms",
		"--path.procfs=" + filepath.Join(dir, "proc"), "--gpu.nvml-library=" + h.nvml, "--gpu.maintenance-file=" + h.maintenance,
	}, flags...)...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	h.exporter.Stderr = w
	if err := h.exporter.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.exporter.Wait() }) // killed when the context ended, if it still ran
	w.Close()
	listening := make(chan string, 1)
	go func() {
		defer r.Close()
		var all strings.Builder
		for s := bufio.NewScanner(r); s.Scan(); {
			fmt.Fprintln(&all, s.Text())
			if _, address, found := strings.Cut(s.Text(), "msg=listening address="); found {
				listening <- address
			}
		}
		h.log <- all.String()
	}()
	select {
	case address := <-listening:
		h.url = "http://" + address
	case text := <-h.log:
		t.Fatal(text)
	}
	return h
}

func (h *host) describe(lines ...string) {
	h.t.Helper()
	nvmltest.Describe(h.t, h.nvml, append([]string{"gpus 8"}, lines...)...)
	time.Sleep(2 * fastInterval) // until then a scrape may share what was read before
}

func (h *host) load() {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.version), 0o755); err != nil {
		h.t.Fatal(err)
	}
	touch(h.t, h.version)
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// scrape returns what one scrape says, and how long it took.
func (h *host) scrape() (string, time.Duration) {
	h.t.Helper()
	begin := time.Now()
	text := h.get("/metrics")
	return text, time.Since(begin)
}

func (h *host) get(path string) string {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "2")
	answer, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// shown counts the GPUs that a scrape shows.
func shown(text string) int { return strings.Count(text, "\ngpufabric_gpu_info{") }

// until scrapes until it shows so many GPUs, and has a process for them if there are any. Without one they may be those
// of the last reading.
func (h *host) until(what string, n int) string {
	h.t.Helper()
	for end := time.Now().Add(eventually); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, _ := h.scrape(); shown(text) == n && (h.worker() != 0) == (n > 0) {
			return text
		}
	}
	h.t.Fatalf("%s: not %d GPUs within %s", what, n, eventually)
	return ""
}

// worker returns the child of the exporter, 0 when it has none. A second one is an error.
// worker returns the process that has the library, which is the child of its guard, or the guard before and
// after; 0: there is none.
func (h *host) worker() int {
	h.t.Helper()
	children := childrenOf(h.exporter.Process.Pid)
	if len(children) > 1 {
		h.t.Fatalf("children %v", children)
	}
	if len(children) == 0 {
		return 0
	}
	if worker := childrenOf(children[0]); len(worker) > 0 {
		return worker[0]
	}
	return children[0]
}

func childrenOf(parent int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, _ := os.ReadFile(s)
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(s)))
			children = append(children, pid)
		}
	}
	return children
}

// ends waits until the process has ended, and returns how long that took.
func (h *host) ends(what string, pid int) time.Duration {
	h.t.Helper()
	begin := time.Now()
	for time.Since(begin) < eventually {
		if !alive(pid) {
			return time.Since(begin)
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Fatalf("%s: process %d is still there after %s", what, pid, eventually)
	return 0
}

func maps(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGPUWorker runs the exporter on a host with a stand-in for NVIDIA's library, and makes that crash, hang, and let
// go. Its log is the table of the outcomes.
func TestGPUWorker(t *testing.T) {
	t.Parallel()
	h := startHost(t, self, gpusAlone...)
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "event\tprocess ended after\tthen")

	text := h.until("at first", 8)
	pid := h.worker()
	if pid == 0 {
		t.Fatal("no process")
	}
	if strings.Contains(maps(t, h.exporter.Process.Pid), "libnvidia-ml") || !strings.Contains(maps(t, pid), "libnvidia-ml") {
		t.Error("the library is loaded into the wrong process")
	}
	const supported = "\ngpufabric_scrape_collector_supported{collector=\"gpu\"} "
	if !strings.Contains(text, "\ngpufabric_gpu_driver_loaded 1\n") || !strings.Contains(text, "\ngpufabric_gpu_released 0\n") || !strings.Contains(text, supported+"1\n") {
		t.Errorf("neither loaded nor free:\n%s", text)
	}

	// No scrape happens while the file appears.
	release := func(what string, begin, end func()) {
		t.Helper()
		h.until("before "+what, 8)
		pid := h.worker()
		begin()
		took := h.ends(what, pid)
		if took > noWait { // 5 s are promised
			t.Errorf("%s: released after %s", what, took)
		}
		text, gone := h.until(what, 0), what == "the driver goes"
		if strings.Contains(text, "\ngpufabric_gpu_released 1\n") == gone || strings.Contains(text, supported+"0\n") != gone {
			t.Errorf("%s:\n%s", what, regexp.MustCompile(`(?m)^gpufabric_(gpu|scrape_collector)_.*$`).FindAllString(text, -1))
		}
		if why := "no NVIDIA driver is loaded (" + h.version + ")"; strings.Contains(h.get("/"), why) != gone {
			t.Errorf("%s: the page says %q: %v", what, why, !gone)
		}
		end()
		h.until("after "+what, 8)
		fmt.Fprintf(rows, "%s\t%s\tread again when it is over\n", what, took.Round(time.Millisecond))
	}
	signal := func() {
		if err := h.exporter.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	release("maintenance file", func() { touch(t, h.maintenance) }, func() { remove(t, h.maintenance) })
	release("SIGUSR1", signal, signal)
	release("the driver goes", func() { remove(t, h.version) }, h.load)

	hang := func() { // a request without an answer
		h.describe("hang nvmlDeviceGetUtilizationRates")
		if _, took := h.scrape(); took > noWait {
			t.Errorf("a scrape waits for what hangs: %s", took)
		}
	}
	release("maintenance file during a hang", func() { hang(); touch(t, h.maintenance) }, func() { h.describe(); remove(t, h.maintenance) })
	release("SIGUSR1 during a hang", func() { hang(); signal() }, func() { h.describe(); signal() })

	// Whatever ends the process, it comes back.
	fail := func(what, fault string) {
		t.Helper()
		h.until("before "+what, 8)
		pid := h.worker()
		h.describe(fault)
		_, took := h.scrape()
		if took > noWait {
			t.Errorf("%s: a scrape took %s", what, took)
		}
		ended := h.ends(what, pid)
		h.describe()
		begin := time.Now()
		h.until("after "+what, 8)
		fmt.Fprintf(rows, "%s\t%s, the scrape %s\tback after %s\n", what, ended.Round(time.Millisecond), took.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	}
	fail("crash", "crash nvmlDeviceGetUtilizationRates")
	fail("hang", "hang nvmlDeviceGetUtilizationRates")

	// A child must not outlive the exporter, even if that is killed.
	pid = h.worker()
	_ = h.exporter.Process.Kill()
	_ = h.exporter.Wait()
	begin := time.Now()
	for alive(pid) && time.Since(begin) < eventually {
		time.Sleep(5 * time.Millisecond)
	}
	if alive(pid) {
		t.Error("the worker outlives the exporter")
	}
	fmt.Fprintf(rows, "SIGKILL of the exporter\t%s\n", time.Since(begin).Round(time.Millisecond))
	rows.Flush()
	t.Logf("\n%s", table.String())

	log := <-h.log
	for _, want := range []string{
		`level=warn msg="worker failed" worker=gpu failure=crash err="crashed: exit status 2: SIGSEGV`,
		`failure=hang err="hung: no answer within 9s"`, `msg="GPUs released" reason=SIGUSR1`, `msg="GPUs are no longer released"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// alive reports whether the process runs, and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// TestStop ends the exporter by SIGTERM while its worker hangs.
func TestStop(t *testing.T) {
	t.Parallel()
	h := startHost(t, self, gpusAlone...)
	h.until("at first", 8)
	pid := h.worker()
	h.describe("hang nvmlDeviceGetUtilizationRates")
	h.scrape()
	begin := time.Now()
	_ = h.exporter.Process.Signal(syscall.SIGTERM)
	if err := h.exporter.Wait(); err != nil {
		t.Error(err)
	}
	took := time.Since(begin)
	t.Logf("ended after %s", took.Round(time.Millisecond))
	if took > noWait || alive(pid) { // 2 s are promised
		t.Errorf("ended after %s, worker alive: %v\n%s", took, alive(pid), <-h.log)
	}
}
