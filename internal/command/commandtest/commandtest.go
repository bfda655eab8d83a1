// SPDX-License-Identifier: Apache-2.0

// Package commandtest runs commands in tests as the program would, in the test's own process.
package commandtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/site"
)

// Output is what a command writes. It may be read while it is written.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String is what has been written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Run runs a command that looks at a site, and returns its exit code and what it wrote.
func Run(t testing.TB, s *site.Site, command func(*site.Site, *logging.Flags) *command.Command,
	args ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs Output
	code = RunTo(t, &out, &errs, s, command, args...)
	return code, out.String(), errs.String()
}

// RunTo does so with other standard streams.
func RunTo(t testing.TB, stdout, stderr io.Writer, s *site.Site,
	define func(*site.Site, *logging.Flags) *command.Command, args ...string,
) (code int) {
	t.Helper()
	log := new(logging.Flags)
	c := define(s, log)
	line := command.Line{
		Groups:   []command.Group{log, &s.Devices, &s.Paths, &s.Recorded, &s.Config, &s.GPUs},
		Commands: []*command.Command{c},
	}
	return line.Run(t.Context(), append([]string{c.Name}, args...), stdout, stderr)
}

// Serving is a command that serves, in this process.
type Serving struct {
	Stdout, Stderr Output
	Addrs          []net.Addr
	URL            string // of the first listener, without a trailing slash
	Client         *http.Client

	t      *testing.T
	cancel context.CancelFunc
	exited chan int
}

// Start runs what serves until it listens, which it says with its bound addresses. It is stopped when the test ends.
func Start(t *testing.T, run func(ctx context.Context, stdout, stderr io.Writer,
	onListen func([]net.Addr)) int,
) *Serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Serving{
		t: t, cancel: cancel, exited: make(chan int, 1),
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	listening := make(chan []net.Addr, 1)
	go func() { p.exited <- run(ctx, &p.Stdout, &p.Stderr, func(a []net.Addr) { listening <- a }) }()
	select {
	case p.Addrs = <-listening:
		p.URL = "http://" + p.Addrs[0].String()
	case code := <-p.exited:
		cancel()
		t.Fatalf("exit code %d before listening:\n%s", code, p.Stderr.String())
	}
	t.Cleanup(func() { p.Stop() })
	return p
}

// Stop ends it and returns how long that took.
func (p *Serving) Stop() time.Duration {
	p.t.Helper()
	begin := time.Now()
	p.cancel()
	select {
	case code := <-p.exited:
		p.exited <- code // Stop may be called again
		if code != command.OK {
			p.t.Errorf("exit code %d:\n%s", code, p.Stderr.String())
		}
	case <-time.After(time.Minute):
		p.t.Fatal("does not stop")
	}
	return time.Since(begin)
}

// Cancel has it end without waiting for that.
func (p *Serving) Cancel() { p.cancel() }

// Get returns status, body and headers of the answer to a request.
func (p *Serving) Get(path string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	return p.Do(http.MethodGet, path, header...)
}

// Do does so with any method.
func (p *Serving) Do(method, path string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := p.Client.Do(r)
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

// Ready waits for the first observation.
func (p *Serving) Ready() {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, _, _ := p.Get("/-/ready"); status == http.StatusOK {
			return
		}
	}
	p.t.Fatal("never ready")
}

// Logs waits until all parts are in the log, which may come after an answer that the test has.
func (p *Serving) Logs(parts ...string) {
	p.t.Helper()
	missing := func(part string) bool { return !strings.Contains(p.Stderr.String(), part) }
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(parts, missing) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	Contains(p.t, p.Stderr.String(), parts...)
}

// Contains expects all parts in a text.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("lacks %q:\n%.4000s", p, text)
		}
	}
}

// Lacks expects none of the parts in a text.
func Lacks(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("has %q:\n%.4000s", p, text)
		}
	}
}

// Memory is a folder in memory where that can be had, for the thousands of small files of a simulated node.
func Memory(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	return t.TempDir()
}

// ConfigFile is a configuration file with this text.
func ConfigFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
