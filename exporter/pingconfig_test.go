// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

func noLibrary(context.Context, string, *slog.Logger) (pinger.Worker, error) {
	return nil, errors.New("no library")
}

// users is a web configuration file with a password.
func users(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("opensesame"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "web.yml", "basic_auth_users: {prometheus: "+string(hash)+"}\n")
}

// TestConfigCheckOfPing refuses what the exporter would not ping with: packages restart it after the check only.
func TestConfigCheckOfPing(t *testing.T) {
	client := func(text string) string { return file(t, "client.yml", text) }
	web := users(t)
	password := file(t, "password", "opensesame")
	missingCA := client("tls_config: {ca_file: /nosuch/ca.pem}\n")
	for _, c := range []struct {
		name, ping, web string
		without         bool // libibverbs
		want            []string
	}{
		{name: "nothing protects it", ping: "{enabled: true}", want: []string{"plain: true"}},
		{name: "plain", ping: "{enabled: true, plain: true}"},
		{name: "passwords", ping: "{enabled: true}", web: web},
		{name: "off", ping: "{enabled: false, client_file: /nosuch/client.yml}"},
		{name: "not here", ping: "{enabled: true, plain: true}", without: true, want: []string{"cannot run here"}},
		{
			name: "no client file", ping: "{enabled: true, client_file: /nosuch/client.yml}",
			want: []string{"plain: true", "rdma_ping.client_file: open /nosuch/client.yml: no such file"},
		},
		{
			name: "no CA", ping: "{enabled: true, client_file: " + missingCA + "}", web: web,
			want: []string{"rdma_ping.client_file: " + missingCA + ": unable to read CA cert: unable to read file /nosuch/ca.pem"},
		},
		{
			name: "no password file", ping: "{enabled: true, scheme: https, client_file: " + client("basic_auth: {username: a, password_file: /nosuch/password}\n") + "}", web: web,
			want: []string{"open /nosuch/password: no such file"},
		},
		{
			name: "credentials in clear", ping: "{enabled: true, client_file: " + client("basic_auth: {username: a, password_file: "+password+"}\n") + "}", web: web,
			want: []string{"over plain HTTP"},
		},
		{
			name: "all right", ping: "{enabled: true, scheme: https, client_file: " + client("basic_auth: {username: a, password_file: "+password+"}\n") + "}", web: web,
		},
		{
			name: "each error", ping: "{enabled: true, client_file: /nosuch/client.yml}", web: "../internal/config/testdata/bad.yml",
			want: []string{"bad.yml: ", "plain: true", "/nosuch/client.yml"},
		},
	} {
		var stdout, stderr output
		o := options{Stdout: &stdout, Stderr: &stderr, Pinging: noLibrary}
		if c.without {
			o.Pinging = nil
		}
		args := []string{"--config.check", "--config.file=" + file(t, "site.yml", "rdma_ping: "+c.ping+"\n")}
		if c.web != "" {
			args = append(args, "--web.config.file="+c.web)
		}
		code, expected := run(t.Context(), args, o), command.OK
		if len(c.want) > 0 {
			expected = command.Usage
		}
		said := stderr.String()
		if code != expected || strings.Count(said, command.Name+": error: ") != len(c.want) {
			t.Errorf("%s: exit code %d, %s%s", c.name, code, stdout.String(), said)
		}
		for _, w := range c.want {
			if !strings.Contains(said, w) {
				t.Errorf("%s: %s, expected %q", c.name, said, w)
			}
		}
	}
}

// TestServesWithoutPing serves all else where rails cannot be pinged: the node is watched by it, and systemd does not
// start again what ends with a wrong configuration. A reload that fails keeps what is in force, one that does not pings.
func TestServesWithoutPing(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "site.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("expected: {compute_ports: 2}\nrdma_ping: {enabled: true, client_file: /nosuch/client.yml}\n")
	o := options{Pinging: noLibrary}
	o.site.NewObserver = func(observer.Options) (site.Observer, error) { return &fakeObserver{node: healthy}, nil }
	p := startWith(t, o, "--config.file="+conf)
	look := func(successful, ports string, pings int) { // ports: as the configuration of a reload says; empty: none has been reloaded
		t.Helper()
		_, body, _ := p.Get("/metrics")
		contains(t, body, "gpufabric_exporter_config_last_reload_successful "+successful+"\n")
		if got := regexp.MustCompile(`(?m)^gpufabric_node_compute_ports_expected (.*)$`).FindStringSubmatch(body); (ports == "") != (got == nil) || got != nil && got[1] != ports {
			t.Errorf("%q ports are expected, not %s", got, ports)
		}
		if status, _, _ := p.Get(exchange.Path); status != pings {
			t.Errorf("%s: %d", exchange.Path, status)
		}
	}
	look("0", "", http.StatusNotFound)
	if log := p.Stderr.String(); strings.Count(log, "level=error") != 1 || !strings.Contains(log, "rails are not pinged until this is corrected and the configuration reloaded") || !strings.Contains(log, "/nosuch/client.yml") {
		t.Error(log)
	}
	_, page, _ := p.Get("/")
	contains(t, page, "rails are not pinged", "/nosuch/client.yml")

	write("expected: {compute_ports: 3}\nrdma_ping: {enabled: true}\n")
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, body)
	}
	look("0", "", http.StatusNotFound)
	write("expected: {compute_ports: 3}\nrdma_ping: {enabled: true, plain: true}\n")
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	look("1", "3", http.StatusOK)
	write("expected: {compute_ports: 4}\nrdma_ping: {enabled: true}\n")
	if status, body, _ := p.Do("POST", "/-/reload"); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, body)
	}
	look("0", "3", http.StatusOK)
}

// TestPingAlone does not say that RDMA devices cannot be read where no collector reads them.
func TestPingAlone(t *testing.T) {
	for _, collector := range []string{"ping", "nccl"} {
		p := start(t, &fakeObserver{node: func() *fabric.Node { return &fabric.Node{Policy: &fabric.Policy{}} }}, "--collector.disable-defaults", "--collector."+collector)
		p.Ready()
		p.Stop()
		if log := p.Stderr.String(); strings.Contains(log, "level=warn") || strings.Contains(log, "could not be read") || strings.Contains(log, "devices=0") {
			t.Errorf("%s: %s", collector, log)
		}
	}
}

// TestPingLibraryIsNamed says which key a library is of that is not there.
func TestPingLibraryIsNamed(t *testing.T) {
	gone := &os.PathError{Op: "lstat", Path: "/nope.so", Err: os.ErrNotExist}
	e := &Exporter{Site: new(site.Site), Pinging: func(context.Context, string, *slog.Logger) (pinger.Worker, error) { return nil, gone }}
	p := e.pinger(t.Context(), Node{}, &wanting{}, slog.New(slog.DiscardHandler))
	for library, want := range map[string]string{"/nope.so": "rdma_ping.library: lstat /nope.so", "": "lstat /nope.so"} {
		_, err := p.options.Start(t.Context(), library, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", library, err)
		}
	}
}

// TestFilesOfSecretsAreNotQuoted: an error about a file with passwords names it and the line, and shows nothing of it.
func TestFilesOfSecretsAreNotQuoted(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"hunter2\n", "line 1"},
		{"\n\nbasic_auth: hunter2\n", "line 3"},
		{"basic_auth: {username: a, password: *hunter2}\n", "expected"},
		{"hunter2: hunter2\n", "line 1"},
		{"proxy_url: 'http://a:hunter2@[::1'\n", "expected"},
		{"proxy_url: 'http://a.example:hunter2'\n", "expected"},
		{"basic_auth: {username: a, password: b}\nbearer_token: hunter2\n", "at most one of basic_auth"},
	} {
		name := file(t, "client.yml", c.text)
		_, err := readAsker(name, true)
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"hunter2\n", "line 1"},
		{"basic_auth_users: hunter2\n", "line 1"},
		{"basic_auth_users: {a: *hunter2}\n", "expected"},
		{"basic_auth_users: {hunter2}\nhunter2: 1\n", "line 2"},
		{"basic_auth_users: {a: hunter2}\n", "htpasswd"},
		{"tls_server_config: {cert_file: /nosuch/a.pem, key_file: /nosuch/b.pem}\n", "/nosuch/a.pem"},
	} {
		name := file(t, "web.yml", c.text)
		for _, args := range [][]string{{"--config.check"}, nil} {
			var stdout, stderr output
			args = append(args, "--config.file=none", "--web.listen-address=127.0.0.1:0", "--web.config.file="+name)
			code := run(t.Context(), args, options{Stdout: &stdout, Stderr: &stderr})
			said := stderr.String()
			if code != command.Usage || !strings.Contains(said, name) || !strings.Contains(said, c.want) || strings.Contains(said, "hunter") || strings.Contains(said, "'h'") {
				t.Errorf("%q %v: %d %s", c.text, args, code, said)
			}
		}
	}
}

// TestChangedWebFileIsNotQuoted: nor is it when it is damaged later, as it is read for each request.
func TestChangedWebFileIsNotQuoted(t *testing.T) {
	name := users(t)
	p := start(t, &fakeObserver{node: healthy}, "--web.config.file="+name)
	if status, _, _ := p.Get("/metrics"); status != http.StatusUnauthorized { // it has begun with the file as it was
		t.Fatalf("status %d", status)
	}
	if err := os.WriteFile(name, []byte("basic_auth_users: hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := p.Get("/metrics"); status != http.StatusInternalServerError {
		t.Errorf("status %d", status)
	}
	p.Stop()
	log := p.Stderr.String()
	contains(t, log, "Unable to parse configuration", "line 1")
	lacks(t, log, "hunter2")
	var said output
	slog.New(withoutValues{slog.NewTextHandler(&said, nil)}).With("a", "b").WithGroup("g").Warn("http: TLS handshake error from 10.0.0.1:1: yaml: unmarshal errors:\n  line 4: cannot unmarshal !!str `hunter2` into web.Config", "n", 1)
	contains(t, said.String(), "from 10.0.0.1:1: ", "line 4", "a=b", "g.n=1")
	lacks(t, said.String(), "hunter2")
}
