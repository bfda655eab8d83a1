// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/rdmaping/pinger"
)

var update = flag.Bool("update", false, "write what is seen to testdata instead of comparing it")

// golden compares what is said of failures with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%v: differs from %s (refresh with -update)\n%s", err, path, got)
	}
}

// complaints are the lines on standard error, without what is another one in each run.
func complaints(name string, code int, out string, random ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: exit code %d\n", name, code)
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "gpufabric_exporter: "); ok {
			b.WriteString("    " + strings.NewReplacer(random...).Replace(text))
		}
	}
	return b.String()
}

// TestFailures is what is said of faults that are planted in the devices.
func TestFailures(t *testing.T) {
	n := connect(t)
	var said strings.Builder
	for _, c := range []struct {
		name, fault string
		args        []string
		code        int
	}{
		{"black hole", "lose 127.0.1.2 1", nil, exitLost},
		{"MTUs differ", "device mlx5_0 127.0.0.2 4 3", nil, command.OK},
		{"beyond the MTU", "device mlx5_0 127.0.0.2 4 3", []string{"--size=2000"}, exitLost},
		{"way back", "lose 127.0.0.2 1", nil, exitLost},
		{"large messages", "longest 127.0.1.2 1500", nil, exitLost},
		{"link layers", "device mlx5_0 127.0.0.2 4 5 1", nil, exitLost},
		{"no route", "error ibv_create_ah 113", nil, exitLost},
		{"no neighbour", "error ibv_create_ah 110", nil, exitLost},
		{"GID type", "error ibv_create_ah 22", nil, exitLost},
		{"address handle", "error ibv_create_ah 5", nil, exitLost},
		{"P_Key", "error ibv_query_pkey 22", nil, exitUnasked},
		{"port down", "device mlx5_0 127.0.0.2 1 5", nil, exitUnasked},
		{"empty P_Key", "pkey 127.0.0.2 32768", nil, exitUnasked},
		{"neither InfiniBand nor RoCE", "device mlx5_0 127.0.0.2 4 5 0", nil, exitUnasked},
		{"no LID", "lid 127.0.0.2 49152\ndevice mlx5_0 127.0.0.2 4 5 1", nil, exitUnasked},
		{"memory", "error ibv_reg_mr 12", nil, exitUnasked},
		{"rights", "error ibv_open_device 13", nil, exitUnasked},
		{"no module", "error ibv_get_device_list 38", nil, exitUnasked},
		{"no provider", "", []string{"--device=mlx5_8"}, exitUnasked},
		{"size", "", []string{"--size=4097"}, command.Usage},
		{"no device", "", []string{"--collector.device-include=none"}, exitUnasked},
		{"no role", "", []string{"--collector.device-include=mlx5_8"}, exitUnasked},
		{"no such device", "", []string{"--device=mlx5_77"}, exitUnasked},
		{"answers and asks", "", []string{"--answer=:1"}, command.Usage},
	} {
		n.plant(c.fault)
		code, out := n.ping(append([]string{n.peer, "--count=1"}, c.args...)...)
		if code != c.code {
			t.Errorf("%s: exit code %d, expected %d:\n%s", c.name, code, c.code, out)
		}
		said.WriteString(complaints(c.name, code, out, n.peer, "node7:10792"))
	}
	alone := func(name string, start pinger.Start, args ...string) {
		var out commandtest.Output
		code := line(start).Run(t.Context(), append(append([]string{"ping"}, n.paths...), args...), &out, &out)
		said.WriteString(complaints(name, code, out.String(), n.peer, "node7:10792"))
	}
	alone("built without", nil, n.peer)
	alone("no library", startInProcess, n.peer, "--library=/nosuch/libibverbs.so.1")
	alone("answers at a foreign address", startInProcess, "--answer=192.0.2.1:10792", "--library="+n.here)
	golden(t, "failures.txt", said.String())
}

// TestRefusals is what is said of peers that do not tell their rails.
func TestRefusals(t *testing.T) {
	n := &network{T: t, paths: healthy(t), timeout: "1s"}
	var said strings.Builder
	ask := func(name, peer string, random ...string) {
		code, out := n.ping(peer)
		if code != exitUnasked && code != command.Usage || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
		said.WriteString(complaints(name, code, out, random...))
	}
	for _, c := range []struct {
		name, text string
		code       int
	}{
		{"password", "Unauthorized", 401},
		{"rdma_ping is off", "RDMA ping is off (rdma_ping.enabled in the configuration)", 404},
		{"busy", "too many requests at once, try again later", 503},
		{"another program", "<html><body>It works!</body></html>", 200},
		{"hostile", "\x1b[31mevil\n" + strings.Repeat("x", 1000), 500},
		{"endless", strings.Repeat(" ", 1<<20), 200},
		{"maintenance", `{"rdma_ping":1,"queue_pairs":[]}`, 200},
		{"newer", `{"rdma_ping":2}`, 200},
		{"redirect", "", 302},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(c.code)
			_, _ = w.Write([]byte(c.text))
		}))
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		ask(c.name, "localhost:"+port, port, "10791")
		s.Close()
	}
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	ask("TLS", s.Listener.Addr().String(), s.Listener.Addr().String(), "127.0.0.1:10791")
	s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	ask("silent", address, address, "127.0.0.1:10792")
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Read(make([]byte, 4096)) // the question, all of it: else closing resets the connection
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
			c.Close()
		}
	}()
	ask("no HTTP", address, address, "127.0.0.1:22")
	l.Close()
	ask("nobody", address, address, "127.0.0.1:10792")
	ask("path", "node7/x")
	ask("password in the address", "root:secret@node7")
	for _, c := range []struct { // which depend on the network of this host
		name string
		err  error
	}{
		{"no such host", &net.DNSError{Name: "node7", IsNotFound: true}},
		{"no name server", &net.DNSError{Name: "node7", IsTimeout: true}},
		{"filtered", context.DeadlineExceeded},
		{"no route", &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}}},
	} {
		fmt.Fprintf(&said, "%s:\n    error: http://node7:10792/rdma-ping.json %v\n", c.name, refusal(c.err, false))
	}
	golden(t, "refusals.txt", said.String())
}
