// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/probes/prober"
	"gpufabric_exporter/rdmaping/pinger"
)

type output = commandtest.Output

// options is what the process is run with in tests.
type options struct {
	Stdout, Stderr io.Writer
	OnListen       func([]net.Addr)
	Probing        *prober.Platform
	Pinging        pinger.Start

	site site.Site
}

// run runs the command serve, or another of this package.
func run(ctx context.Context, args []string, o options) int {
	s, log := &o.site, new(logging.Flags)
	e := &Exporter{Site: s, Log: log, OnListen: o.OnListen, Probing: o.Probing, Pinging: o.Pinging}
	line := command.Line{
		Groups:   []command.Group{&e.Web, log, &e.Collectors, &s.Devices, &s.Paths, &s.Recorded, &s.Config, &e.ConfigCheck, &e.Intervals, &s.GPUs},
		Commands: []*command.Command{e.Command()},
	}
	return line.Run(ctx, args, o.Stdout, o.Stderr)
}

// process is a run in this process.
type process = commandtest.Serving

// start runs the program until it listens. It is stopped when the test ends.
func start(t *testing.T, ob site.Observer, args ...string) *process {
	t.Helper()
	o := options{}
	if ob != nil {
		o.site.NewObserver = func(observer.Options) (site.Observer, error) { return ob, nil }
	}
	return startWith(t, o, args...)
}

// startWith does so with these options.
func startWith(t *testing.T, o options, args ...string) *process {
	t.Helper()
	return commandtest.Start(t, func(ctx context.Context, stdout, stderr io.Writer, onListen func([]net.Addr)) int {
		o.Stdout, o.Stderr, o.OnListen = stdout, stderr, onListen
		return run(ctx, append([]string{"--web.listen-address=127.0.0.1:0"}, args...), o)
	})
}

// fakeObserver answers with a node, possibly late.
type fakeObserver struct {
	node func() *fabric.Node
	hold chan struct{} // nil: observe returns at once; else when it is closed, even if the context has ended

	mu     sync.Mutex
	policy *fabric.Policy
	nccl   observer.NCCLFiles
	closed bool
	asked  chan context.Context // gets the context of each observation, if the test receives from it
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

func noHardware() *fabric.Node { return fabrictest.NoHardware() }
func healthy() *fabric.Node    { return fabrictest.Healthy() }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	commandtest.Contains(t, text, parts...)
}

func lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	commandtest.Lacks(t, text, parts...)
}

func TestStartAndStop(t *testing.T) {
	ob := &fakeObserver{node: healthy}
	p := start(t, ob)
	p.Ready()
	if status, body, _ := p.Get("/-/healthy"); status != http.StatusOK || body != "healthy\n" {
		t.Errorf("healthy: %d %q", status, body)
	}
	p.Stop()
	log := p.Stderr.String()
	contains(t, log, `level=info msg=starting program=gpufabric_exporter version=`, `msg=listening address=`+p.Addrs[0].String(),
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
	if len(p.Addrs) != 2 {
		t.Fatalf("listens on %v", p.Addrs)
	}
	for _, a := range p.Addrs {
		p.URL = "http://" + a.String()
		if status, _, _ := p.Get("/metrics"); status != http.StatusOK {
			t.Errorf("%s: status %d", a, status)
		}
	}
}

func TestTwoInstances(t *testing.T) {
	a, b := start(t, &fakeObserver{node: healthy}), start(t, &fakeObserver{node: noHardware})
	_, one, _ := a.Get("/metrics")
	_, two, _ := b.Get("/metrics")
	contains(t, one, `device="mlx5_0"`)
	lacks(t, two, `device="mlx5_0"`)
	a.Stop()
	if status, _, _ := b.Get("/metrics"); status != http.StatusOK {
		t.Errorf("the other instance answers %d", status)
	}
}

func TestNoDevice(t *testing.T) {
	p := start(t, &fakeObserver{node: noHardware}, "--path.sysfs=/host/sys")
	p.Ready()
	p.Get("/metrics")
	const text = "no RDMA device found under /host/sys/class/infiniband; serving node facts only (try: gpufabric_exporter demo)"
	if n := strings.Count(p.Stderr.String(), text); n != 1 {
		t.Errorf("says %d times that there is no device:\n%s", n, p.Stderr.String())
	}
	_, page, _ := p.Get("/")
	contains(t, page, "No RDMA device found under /host/sys/class/infiniband; serving node facts only")
}

// What is missing of the GPU driver is logged once, with what to do.
func TestNoGPUDriver(t *testing.T) {
	for says, loaded := range map[string]fabric.Fact[bool]{
		"no GPU driver is loaded (/proc/driver/nvidia/version); serving no facts of GPUs":                                                fabric.Known(false, "/proc/driver/nvidia/version", time.Now()),
		"NVIDIA's driver is loaded, but its library libnvidia-ml.so.1 is not found here. With systemd, enable the tier gpu":              fabric.UnknownFact[bool](fabric.ReasonMissing, fabric.NVMLLibrary, time.Now()),
		"NVIDIA's driver is loaded, but NVML does not reach it: the device nodes /dev/nvidia* may be missing here. With systemd, enable": fabric.UnknownFact[bool](fabric.ReasonMissing, "nvmlInit", time.Now()),
	} {
		p := start(t, &fakeObserver{node: func() *fabric.Node {
			n := healthy()
			n.GPUDriver = fabric.GPUDriver{Loaded: loaded}
			return n
		}})
		p.Ready()
		p.Get("/metrics")
		if n := strings.Count(p.Stderr.String(), says); n != 1 {
			t.Errorf("says %q %d times:\n%s", says, n, p.Stderr.String())
		}
	}
	p := start(t, &fakeObserver{node: healthy})
	p.Ready()
	lacks(t, p.Stderr.String(), "GPU driver", "NVIDIA")
}

// A node whose devices may not be read, as SELinux and AppArmor have it, is not one without devices.
func TestDevicesMayNotBeRead(t *testing.T) {
	denied := func() *fabric.Node {
		n := noHardware()
		n.ClassPresent = fabric.UnknownFact[bool](fabric.ReasonPrivilege, "class/infiniband", n.At)
		return n
	}
	p := start(t, &fakeObserver{node: denied}, "--path.sysfs=/host/sys")
	p.Ready()
	said := p.Stderr.String()
	contains(t, said, "the RDMA devices of the node are unknown: /host/sys/class/infiniband could not be read (privilege)", "SELinux or AppArmor")
	lacks(t, said, "devices=0", "no RDMA device")
}

func TestReadiness(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{})}
	p := start(t, ob)
	if status, body, _ := p.Get("/-/ready"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the first observation") {
		t.Errorf("before the first observation: %d %q", status, body)
	}
	if status, _, _ := p.Get("/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	close(ob.hold)
	p.Ready()
}

// TestStopWhileHanging stops while a read hangs that ignores its context.
func TestStopWhileHanging(t *testing.T) {
	ob := &fakeObserver{node: healthy, hold: make(chan struct{}), asked: make(chan context.Context, 16)}
	defer close(ob.hold)
	p := start(t, ob)
	<-ob.asked // the first observation
	go func() {
		if r, err := p.Client.Get(p.URL + "/metrics"); err == nil {
			r.Body.Close()
		}
	}()
	<-ob.asked // the scrape
	// 2 s are promised, of which TestShutdownGrace proves the first in fake time; a loaded machine takes longer.
	// The read would hang for ever.
	if took := p.Stop(); took >= 10*time.Second {
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
		r, err := p.Client.Get(p.URL + "/metrics")
		if err != nil {
			done <- answer{err: err}
			return
		}
		r.Body.Close()
		done <- answer{status: r.StatusCode}
	}()
	ctx := <-ob.asked
	p.Cancel()
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
	o := options{Stdout: io.Discard, Stderr: &stderr, site: site.Site{NewObserver: func(observer.Options) (site.Observer, error) { return &fakeObserver{node: healthy}, nil }}}
	if code := run(t.Context(), []string{"--web.listen-address=" + l.Addr().String()}, o); code != command.Failure {
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
		"configuration": {"--config.file=" + bad, `fabric.yml:2: compute_ports: \"many\"`, command.Usage},
		"no such file":  {"--config.file=/nonexistent", "no such file", command.Usage},
		"web":           {"--web.config.file=/nonexistent", `--web.config.file=\"/nonexistent\"`, command.Usage},
		"sysfs":         {"--path.sysfs=/nonexistent", "/nonexistent", command.Failure},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr output
			if code := run(t.Context(), []string{"--web.listen-address=127.0.0.1:0", test.arg}, options{Stderr: &stderr}); code != test.code {
				t.Errorf("exit code %d", code)
			}
			contains(t, stderr.String(), test.want)
			lacks(t, stderr.String(), "goroutine", "msg=listening")
		})
	}
}
