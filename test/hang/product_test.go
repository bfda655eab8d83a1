// SPDX-License-Identifier: Apache-2.0

//go:build hang

package hang

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/exporter"
	"gpufabric_exporter/internal/program"
	"gpufabric_exporter/internal/simulator"
)

// patience is what a scraper says that it will wait, and generous how long anything may take that has no limit.
const (
	patience = 2 * time.Second
	generous = 30 * time.Second
)

// product is the whole program in this process or in one of its own, looking at a simulated node.
type product struct {
	t       *testing.T
	url     string
	proc    string // its directory in /proc
	logFile string
	client  http.Client
	cancel  context.CancelFunc
	exited  chan int

	scrapes int
	slowest time.Duration
}

// layOut makes the files of a healthy node, and a folder to mount on.
func layOut(t *testing.T) (tree *simulator.Tree, mountPoint string) {
	t.Helper()
	parent := "/dev/shm" // thousands of small files
	if _, err := os.Stat(parent); err != nil {
		parent = t.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "gpufabric_hang_")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	scenario, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	node := scenario.Build()
	node.HCAs = node.HCAs[:6] // enough: reading all GID tables through FUSE takes its time
	if tree, err = node.Materialise(filepath.Join(dir, "node")); err != nil {
		t.Fatal(err)
	}
	mountPoint = filepath.Join(dir, "sys")
	if err := os.Mkdir(mountPoint, 0o755); err != nil {
		t.Fatal(err)
	}
	return tree, mountPoint
}

func newProduct(t *testing.T) (p *product, stderr *os.File) {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return &product{
		t: t, proc: "/proc/self", logFile: stderr.Name(), exited: make(chan int, 1),
		client: http.Client{Timeout: generous, Transport: &http.Transport{DisableKeepAlives: true}},
	}, stderr
}

func arguments(tree *simulator.Tree, sysfs string) []string {
	return []string{
		"--web.listen-address=127.0.0.1:0", "--path.sysfs=" + sysfs, "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(),
		"--web.disable-exporter-metrics", "--observer.fast-interval=250ms", "--observer.slow-interval=1h",
	}
}

// starter runs the program over a tree whose sysfs may be seen elsewhere, until it is ready.
type starter func(t *testing.T, tree *simulator.Tree, sysfs string) *product

// start runs it in this process.
func start(t *testing.T, tree *simulator.Tree, sysfs string) *product {
	t.Helper()
	p, stderr := newProduct(t)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	args := arguments(tree, sysfs)
	listening := make(chan []net.Addr, 1)
	o := program.Options{Exporter: exporter.Exporter{OnListen: func(a []net.Addr) { listening <- a }}}
	go func() {
		p.exited <- program.New(&o).Run(ctx, args, os.Stdout, stderr)
		stderr.Close()
	}()
	p.stopAtEnd()
	select {
	case a := <-listening:
		p.url = "http://" + a[0].String()
	case <-time.After(generous):
		t.Fatal("does not listen")
	}
	p.untilReady()
	return p
}

// child is set for a process that is the program, with one of Go's processors as it is shipped. It ends with its
// standard input, and so with its parent.
const child = "GPUFABRIC_TEST_HANG_CHILD"

// startChild runs the program in a process of its own.
func startChild(t *testing.T, tree *simulator.Tree, sysfs string) *product {
	t.Helper()
	p, stderr := newProduct(t)
	defer stderr.Close()
	cmd := exec.Command("/proc/self/exe", arguments(tree, sysfs)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), child+"=1", "GOMAXPROCS=1"), stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.proc, p.cancel = fmt.Sprintf("/proc/%d", cmd.Process.Pid), func() { stdin.Close() }
	go func() {
		_ = cmd.Wait()
		p.exited <- cmd.ProcessState.ExitCode()
	}()
	p.stopAtEnd()
	p.until("listening", func() bool {
		_, after, found := strings.Cut(p.log(), "msg=listening address=")
		address, _, whole := strings.Cut(after, "\n")
		p.url = "http://" + address
		return found && whole
	})
	p.untilReady()
	return p
}

func runChild() int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return program.New(new(program.Options)).Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

func (p *product) stopAtEnd() {
	p.t.Cleanup(func() {
		p.stop()
		if p.t.Failed() {
			p.t.Logf("the log ends with:\n%s", p.log())
		}
	})
}

func (p *product) untilReady() {
	p.t.Helper()
	p.until("ready", func() bool {
		status, _ := p.get("/-/ready")
		return status == http.StatusOK
	})
}

// stop ends the program and returns how long that took.
func (p *product) stop() time.Duration {
	begin := time.Now()
	p.cancel()
	select {
	case code := <-p.exited:
		p.exited <- code // stop may be called again
		if code != 0 {
			p.t.Errorf("exit code %d", code)
		}
	case <-time.After(generous):
		p.t.Error("does not stop")
	}
	return time.Since(begin)
}

func (p *product) log() string {
	text, _ := os.ReadFile(p.logFile)
	return string(text[max(0, len(text)-4000):])
}

func (p *product) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", fmt.Sprint(patience.Seconds()))
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// series are the values of one scrape, by name and labels.
type series map[string]string

// scrape returns the series about the node. It must come within the scraper's patience.
func (p *product) scrape() series {
	p.t.Helper()
	begin := time.Now()
	status, body := p.get("/metrics")
	took := time.Since(begin)
	p.scrapes++
	p.slowest = max(p.slowest, took)
	if status != http.StatusOK || took > patience {
		p.t.Fatalf("scrape %d: status %d after %s:\n%.500s", p.scrapes, status, took, body)
	}
	all := series{}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(name, "gpufabric_") && value != "" {
			all[name+"}"] = value
		}
	}
	return all
}

// until polls a condition.
func (p *product) until(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(generous); !is(); {
		if time.Now().After(end) {
			p.t.Fatalf("not %s within %s", what, generous)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var check = regexp.MustCompile(`^gpufabric_check_failed(\{check="[a-z_]+")`)

// lost returns what was in before and is not any more, except what may match. A verdict is not lost while its
// check says that it is unknown, or reports another device.
func (s series) lost(before series, may *regexp.Regexp) (names []string) {
	reported := map[string]bool{}
	for name := range s {
		if _, rest, ok := strings.Cut(name, "gpufabric_check_"); ok {
			_, rest, _ = strings.Cut(rest, "{")
			about, _, _ := strings.Cut(rest, ",")
			reported["{"+about] = true
		}
	}
	for name := range before {
		if m := check.FindStringSubmatch(name); m != nil && reported[m[1]] {
			continue
		}
		if _, ok := s[name]; !ok && !may.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// any reports whether one of the series matches.
func (s series) any(pattern *regexp.Regexp) bool {
	for name := range s {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// usage is what a leak would show in.
type usage struct{ goroutines, threads, fds int }

func (p *product) used() usage {
	entries := func(dir string) int {
		list, _ := os.ReadDir(dir)
		return len(list)
	}
	return usage{runtime.NumGoroutine(), entries(p.proc + "/task"), entries(p.proc + "/fd")}
}

// noMoreThan allows for what the Go runtime and connections that are closing need. A leak is one for each scrape.
func (u usage) noMoreThan(before usage) bool {
	return u.goroutines <= before.goroutines+5 && u.threads <= before.threads+5 && u.fds <= before.fds+2
}
