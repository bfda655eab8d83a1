// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// output is what a process under test writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a Run in this process.
type process struct {
	t              *testing.T
	stdout, stderr output
	addrs          []net.Addr
	url            string // of the first listener, without a trailing slash
	client         *http.Client
	cancel         context.CancelFunc
	exited         chan int
}

// start runs the program until it listens. It is stopped when the test ends.
func start(t *testing.T, ob nodeObserver, args ...string) *process {
	t.Helper()
	o := Options{}
	if ob != nil {
		o.newObserver = func(observer.Options) (nodeObserver, error) { return ob, nil }
	}
	return startWith(t, o, args...)
}

// startWith does so with these options.
func startWith(t *testing.T, o Options, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, cancel: cancel, exited: make(chan int, 1), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	o.Stdout, o.Stderr = &p.stdout, &p.stderr
	listening := make(chan []net.Addr, 1)
	o.OnListen = func(a []net.Addr) { listening <- a }
	go func() { p.exited <- Run(ctx, append([]string{"--web.listen-address=127.0.0.1:0"}, args...), o) }()
	select {
	case p.addrs = <-listening:
		p.url = "http://" + p.addrs[0].String()
	case code := <-p.exited:
		cancel()
		t.Fatalf("exit code %d before listening:\n%s", code, p.stderr.String())
	}
	t.Cleanup(func() { p.stop() })
	return p
}

// stop ends the process and returns how long that took.
func (p *process) stop() time.Duration {
	p.t.Helper()
	begin := time.Now()
	p.cancel()
	select {
	case code := <-p.exited:
		p.exited <- code // stop may be called again
		if code != exitOK {
			p.t.Errorf("exit code %d:\n%s", code, p.stderr.String())
		}
	case <-time.After(time.Minute):
		p.t.Fatal("does not stop")
	}
	return time.Since(begin)
}

// get returns status, body and headers of a request.
func (p *process) get(path string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	return p.do(http.MethodGet, path, header...)
}

func (p *process) do(method, path string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.Header
}

// ready waits for the first observation.
func (p *process) ready() {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, _, _ := p.get("/-/ready"); status == http.StatusOK {
			return
		}
	}
	p.t.Fatal("never ready")
}

// fakeObserver answers with a node, possibly late.
type fakeObserver struct {
	node func() *fabric.Node
	hold chan struct{} // nil: answers at once; else when it is closed, whatever the context says

	mu     sync.Mutex
	policy *fabric.Policy
	nccl   observer.NCCLFiles
	closed bool
	asked  chan context.Context // gets the context of each question, if anybody listens
}

func (f *fakeObserver) Observe(ctx context.Context, _ fabric.Want) *fabric.Node {
	select {
	case f.asked <- ctx:
	default:
	}
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.node()
	if f.policy != nil {
		n.Policy = f.policy
	}
	return n
}

func (f *fakeObserver) SetPolicy(p *fabric.Policy, files observer.NCCLFiles) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policy, f.nccl = p, files
}

func (f *fakeObserver) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("lacks %q:\n%.4000s", p, text)
		}
	}
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("has %q:\n%.4000s", p, text)
		}
	}
}

func TestStartAndStop(t *testing.T) {
	ob := &fakeObserver{node: healthy}
	p := start(t, ob)
	p.ready()
	if status, body, _ := p.get("/-/healthy"); status != http.StatusOK || body != "healthy\n" {
		t.Errorf("healthy: %d %q", status, body)
	}
	p.stop()
	log := p.stderr.String()
	contains(t, log, `level=info msg=starting program=gpufabric_exporter version=`, `msg=listening address=`+p.addrs[0].String(),
		`msg="node observed" devices=2 ports=2 troubles=0`, "msg=stopping", "msg=stopped")
	if strings.Count(log, "istening") != 1 {
		t.Errorf("announces its listener more than once:\n%s", log)
	}
	if !ob.closed {
		t.Error("the observer is not closed")
	}
}

func TestSeveralListeners(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy}, "--web.listen-address=127.0.0.1:0")
	if len(p.addrs) != 2 {
		t.Fatalf("listens on %v", p.addrs)
	}
	for _, a := range p.addrs {
		p.url = "http://" + a.String()
		if status, _, _ := p.get("/metrics"); status != http.StatusOK {
			t.Errorf("%s: status %d", a, status)
		}
	}
}

func TestTwoInstances(t *testing.T) {
	a, b := start(t, &fakeObserver{node: healthy}), start(t, &fakeObserver{node: noHardware})
	_, one, _ := a.get("/metrics")
	_, two, _ := b.get("/metrics")
	contains(t, one, `device="mlx5_0"`)
	lacks(t, two, `device="mlx5_0"`)
	a.stop()
	if status, _, _ := b.get("/metrics"); status != http.StatusOK {
		t.Errorf("the other instance answers %d", status)
	}
}

func TestNoDevice(t *testing.T) {
	p := start(t, &fakeObserver{node: noHardware}, "--path.sysfs=/host/sys")
	p.ready()
	p.get("/metrics")
	const text = "no RDMA device found under /host/sys/class/infiniband; serving node facts only (try: make demo)"
	if n := strings.Count(p.stderr.String(), text); n != 1 {
		t.Errorf("says %d times that there is no device:\n%s", n, p.stderr.String())
	}
	_, page, _ := p.get("/")
	contains(t, page, "No RDMA device found under /host/sys/class/infiniband; serving node facts only")
}

func TestReadiness(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{})}
	p := start(t, ob)
	if status, body, _ := p.get("/-/ready"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the first observation") {
		t.Errorf("before the first observation: %d %q", status, body)
	}
	if status, _, _ := p.get("/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	close(ob.hold)
	p.ready()
}

// TestStopWhileHanging stops while a read hangs that heeds nothing.
func TestStopWhileHanging(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
	defer close(ob.hold)
	p := start(t, ob)
	<-ob.asked // the first observation
	go func() {
		if r, err := p.client.Get(p.url + "/metrics"); err == nil {
			r.Body.Close()
		}
	}()
	<-ob.asked // the scrape
	// 2 s are promised, of which TestShutdownGrace proves the first in fake time; a loaded machine takes longer. The read would hang for ever.
	if took := p.stop(); took >= 10*time.Second {
		t.Errorf("took %s to stop", took)
	}
}

func TestStopLetsScrapesFinish(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
	p := start(t, ob)
	<-ob.asked
	type answer struct {
		status int
		err    error
	}
	done := make(chan answer)
	go func() {
		r, err := p.client.Get(p.url + "/metrics")
		if err != nil {
			done <- answer{err: err}
			return
		}
		r.Body.Close()
		done <- answer{status: r.StatusCode}
	}()
	ctx := <-ob.asked
	p.cancel()
	if ctx.Err() != nil {
		t.Error("the scrape in flight was cancelled")
	}
	close(ob.hold)
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("the scrape in flight got %+v", a)
	}
}

func TestListenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stderr output
	o := Options{Stderr: &stderr, newObserver: func(observer.Options) (nodeObserver, error) { return &fakeObserver{node: healthy}, nil }}
	if code := Run(t.Context(), []string{"--web.listen-address=" + l.Addr().String()}, o); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr.String(), l.Addr().String(), "address already in use", "level=error")
}

func TestStartFails(t *testing.T) {
	bad := t.TempDir() + "/fabric.yml"
	if err := os.WriteFile(bad, []byte("rolls: []\nexpected: {compute_ports: many}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		arg, want string
		code      int
	}{
		"configuration": {"--config.file=" + bad, `fabric.yml:2: compute_ports: \"many\"`, exitUsage},
		"no such file":  {"--config.file=/nonexistent", "no such file", exitUsage},
		"web":           {"--web.config.file=/nonexistent", `--web.config.file=\"/nonexistent\"`, exitUsage},
		"sysfs":         {"--path.sysfs=/nonexistent", "/nonexistent", exitFailure},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr output
			if code := Run(t.Context(), []string{"--web.listen-address=127.0.0.1:0", test.arg}, Options{Stderr: &stderr}); code != test.code {
				t.Errorf("exit code %d", code)
			}
			contains(t, stderr.String(), test.want)
			lacks(t, stderr.String(), "goroutine", "msg=listening")
		})
	}
}
