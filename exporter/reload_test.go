// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
)

func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fabric.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("expected: {compute_ports: 2}\n")
	ob := &fakeObserver{node: healthy}
	p := start(t, ob, "--config.file="+file)
	metrics := func(want ...string) {
		t.Helper()
		_, body, _ := p.Get("/metrics")
		contains(t, body, want...)
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_exporter_config_last_reload_success_timestamp_seconds 1.")

	write("expected: {compute_ports: 3}\nnccl: {home: /root}\n")
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, body)
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_node_compute_ports_expected 3\n")
	if ob.nccl.Home != "/root" {
		t.Errorf("NCCL files: %+v", ob.nccl)
	}

	write("expected: {compute_ports: <b>}\nother: 1\n")
	status, body, _ := p.Do("POST", "/-/reload")
	if status != http.StatusInternalServerError {
		t.Errorf("bad reload: %d", status)
	}
	contains(t, body, "stays in force", file+`:1: compute_ports: "<b>"`, file+`:2: unknown key "other"`)
	metrics("gpufabric_exporter_config_last_reload_successful 0\n", "gpufabric_node_compute_ports_expected 3\n")
	_, page, _ := p.Get("/")
	contains(t, page, "last read with errors", "fabric.yml:1: compute_ports: &#34;&lt;b&gt;&#34;", ">3<")
	lacks(t, page, "<b>")

	write("expected: {compute_ports: 4}\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Count(p.Stderr.String(), `msg="configuration reloaded"`) == 2 {
			break
		}
	}
	metrics("gpufabric_exporter_config_last_reload_successful 1\n", "gpufabric_node_compute_ports_expected 4\n")
}

func TestReloadWithoutFile(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	if status, _, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	_, page, _ := p.Get("/")
	contains(t, page, "Nothing is configured")
}

// A signal that comes while a client's reload is under way is not lost: clients may have one under way at any time.
func TestSignalWaitsForReloadOfClient(t *testing.T) {
	ob := &fakeObserver{node: healthy}
	reads, hold := make(chan struct{}), make(chan struct{})
	n := Node{Config: func() (config.Config, error) {
		reads <- struct{}{}
		<-hold
		return config.Config{}, nil
	}}
	r := newReloader(n, config.Config{}, ob, (*hostProber)(nil), nil, nil, slog.New(slog.DiscardHandler))
	signals := make(chan os.Signal)
	go r.onSignal(t.Context(), signals)
	client := make(chan error)
	go func() { client <- r.reload(t.Context(), true) }()
	<-reads
	signals <- syscall.SIGHUP
	select {
	case signals <- syscall.SIGHUP:
		t.Fatal("the first signal was given up")
	case <-time.After(50 * time.Millisecond): // nothing can end the wait
	}
	close(hold)
	if err := <-client; err != nil {
		t.Error(err)
	}
	<-reads // for the signal
}

// A reload switches queries to NCCL RAS on and off, and a configuration that is refused does not change them:
// a query may crash a job.
func TestReloadAskRAS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fabric.yml")
	o := options{}
	o.site.NewObserver = func(observer.Options) (site.Observer, error) { return &fakeObserver{node: healthy}, nil }
	o.site.RAS = func(context.Context, net.Conn, fabric.NCCLVersion) (fabric.RASAnswer, error) {
		t.Error("a process is asked, and no job runs")
		return fabric.RASAnswer{}, nil
	}
	var p *process
	const questions = "gpufabric_job_ras_questions_total"
	for i, c := range []struct {
		text   string
		status int
		asks   bool
	}{
		{"expected: {compute_ports: 2}\n", http.StatusOK, false},
		{"nccl: {ask_ras: true}\n", http.StatusOK, true},
		{"nccl: {ask_ras: false, other: 1}\n", http.StatusInternalServerError, true},
		{"nccl: {ask_ras: false}\n", http.StatusOK, false},
		{"nccl: {ask_ras: maybe}\n", http.StatusInternalServerError, false},
		{"nccl: {ask_ras: true}\n", http.StatusOK, true},
		{"expected: {compute_ports: 2}\n", http.StatusOK, false},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p = startWith(t, o, "--config.file="+file)
		} else if status, body, _ := p.Do("POST", "/-/reload"); status != c.status {
			t.Errorf("%d: reload of %q: %d %s", i, c.text, status, body)
		}
		if _, body, _ := p.Get("/metrics"); strings.Contains(body, questions) != c.asks {
			t.Errorf("%d: after %q: questions are asked: %t, expected %t", i, c.text, !c.asks, c.asks)
		}
	}
}
