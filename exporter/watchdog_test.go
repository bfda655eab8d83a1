// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/crypto/bcrypt"

	"gpufabric_exporter/internal/command/commandtest"
)

// systemd is a stand-in for the service manager; watchdog is WatchdogSec, 0: none. It returns what it is notified of.
func systemd(t *testing.T, watchdog time.Duration) <-chan string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	}
	said := make(chan string, 4096)
	go func() {
		b := make([]byte, 256)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			said <- string(b[:n])
		}
	}()
	return said
}

func next(t *testing.T, said <-chan string) string {
	t.Helper()
	select {
	case s := <-said:
		return s
	case <-time.After(time.Minute):
		t.Fatal("systemd is not notified")
		return ""
	}
}

// systemd is notified of the start and by the watchdog, however the port is protected, and what the servers
// log has no trace of it.
func TestSystemdIsNotified(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := []string{"tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"}
	for name, c := range map[string]struct{ args, web []string }{
		"plain":         {args: []string{"--web.listen-address=127.0.0.1:0", "--web.route-prefix=/fabric"}},
		"every address": {args: []string{"--web.listen-address=:0"}},
		"TLS":           {web: encrypted},
		"password":      {web: []string{"basic_auth_users:", "  prometheus: " + string(hash)}},
		"mutual TLS":    {web: append(encrypted, "  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: ca.crt")},
	} {
		t.Run(name, func(t *testing.T) {
			if c.web != nil {
				c.args = []string{a.Config(c.web...)}
			}
			said := systemd(t, 600*time.Millisecond)
			p := start(t, &fakeObserver{node: healthy}, c.args...)
			if s := next(t, said); s != "READY=1" {
				t.Errorf("first notified of %q", s)
			}
			for range 3 {
				if s := next(t, said); s != "WATCHDOG=1" {
					t.Errorf("notified of %q", s)
				}
			}
			p.Stop()
			for s := next(t, said); s != "STOPPING=1"; s = next(t, said) {
				if s != "WATCHDOG=1" {
					t.Errorf("notified of %q", s)
				}
			}
			if log := p.Stderr.String(); !strings.Contains(log, "own port does not answer") { // as on a loaded machine, which ends a handshake early
				lacks(t, log, "handshake")
			}
		})
	}
}

// A server that no longer answers is not reported to be alive, and one that answers again is.
func TestWatchdogNoticesAStuckServer(t *testing.T) {
	said := systemd(t, 300*time.Millisecond)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var stuck sync.RWMutex
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stuck.RLock()
		defer stuck.RUnlock()
	})
	var log commandtest.Output
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serveListeners(ctx, []net.Listener{l}, h, "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
	}()
	defer func() {
		cancel()
		<-served
	}()
	w := newWatchdog([]net.Listener{l}, "", slog.New(slog.NewTextHandler(&log, nil)))
	go w.run(ctx)
	for next(t, said) != "WATCHDOG=1" { // it has answered
	}

	stuck.Lock()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "own port does not answer, systemd is not notified until it does"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stuck.Unlock()
			t.Fatalf("a stuck server is not noticed: %q", log.String())
		}
	}
	const mark = "what follows was sent later"
	if _, err := daemon.SdNotify(false, mark); err != nil {
		t.Fatal(err)
	}
	for next(t, said) != mark {
	}
	lines := strings.Count(log.String(), "\n")
	select { // no handler can return
	case s := <-said:
		t.Errorf("notified of %q while the server is stuck", s)
	case <-time.After(500 * time.Millisecond):
	}
	if n := strings.Count(log.String(), "\n"); n != lines {
		t.Errorf("logged each time:\n%s", log.String())
	}
	stuck.Unlock()
	if s := next(t, said); s != "WATCHDOG=1" {
		t.Errorf("notified of %q", s)
	}
}

// An exporter that says of itself that it is not healthy is not reported to be alive, on whichever port it
// says so first.
func TestWatchdogHearsThatItIsUnhealthy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var code atomic.Int32
	code.Store(http.StatusServiceUnavailable)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "why it is so", int(code.Load())) })
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serveListeners(ctx, []net.Listener{l}, h, "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
	}()
	defer func() {
		cancel()
		<-served
	}()
	w := newWatchdog([]net.Listener{l}, "", slog.New(slog.DiscardHandler))
	if err := w.ask(ctx, time.Minute); err == nil || !strings.Contains(err.Error(), "status 503: why it is so") {
		t.Error(err)
	}
	for _, c := range []int32{http.StatusOK, http.StatusUnauthorized, http.StatusTooManyRequests} {
		code.Store(c)
		if err := w.ask(ctx, time.Minute); err != nil {
			t.Errorf("%d: %v", c, err)
		}
	}
}

// If packets of this host to its own port are dropped, as by a packet filter, the exporter is not killed for that.
func TestWatchdogTrustsAPortThatItNeverReached(t *testing.T) {
	said := systemd(t, 150*time.Millisecond)
	l, err := net.Listen("tcp", "127.0.0.1:0") // connects, and is never served
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newWatchdog([]net.Listener{l}, "", slog.New(slog.NewTextHandler(&log, nil))).run(ctx)
	}()
	for range 3 {
		next(t, said)
	}
	cancel()
	<-ended
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

// Without systemd nothing is notified, and the watchdog does not request its own port.
func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	newWatchdog([]net.Listener{l}, "", slog.New(slog.DiscardHandler)).run(t.Context()) // returns
}
