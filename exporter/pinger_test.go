// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPingerNeedsProtection tells nobody over plain HTTP where rails answer, unless the site says so.
func TestPingerNeedsProtection(t *testing.T) {
	on := rdmaping.DefaultConfig()
	plain, broken := on, on
	plain.Plain = true
	broken.Plain, broken.ClientFile = true, "/nosuch/client.yml"
	with := func(scheme string, plain bool, client string) *rdmaping.Config {
		c := on
		c.Scheme, c.Plain, c.ClientFile = scheme, plain, file(t, "client.yml", client)
		return &c
	}
	const (
		password = "basic_auth: {username: prometheus, password: opensesame}\n"
		clear    = "its credentials would be sent over plain HTTP: set scheme: https, or plain: true"
	)
	users := file(t, "web.yml", "basic_auth_users: {prometheus: hash}\n")
	e := &Exporter{Site: new(site.Site), Pinging: func(context.Context, string, *slog.Logger) (pinger.Worker, error) {
		return nil, errors.New("no library")
	}}
	for _, c := range []struct {
		name, web string
		config    *rdmaping.Config
		want      string
	}{
		{"off", "", nil, ""},
		{"neither", "", &on, "plain: true"},
		{"plain", "", &plain, ""},
		{"headers only", file(t, "web.yml", "http_server_config: {http2: false}\n"), &on, "plain: true"},
		{"TLS without a certificate", file(t, "web.yml", "tls_server_config: {min_version: TLS12}\n"), &on, "plain: true"},
		{"passwords", users, with("https", false, password), ""},
		{"a password in clear", users, with("http", false, password), clear},
		{"a token in clear", users, with("http", false, "bearer_token: opensesame\n"), clear},
		{"a header in clear", users, with("http", false, "http_headers: {X-Key: {secrets: [opensesame]}}\n"), clear},
		{"a password in clear as the site wants", users, with("http", true, password), ""},
		{"nothing to hide", users, with("http", false, "tls_config: {insecure_skip_verify: true}\n"), ""},
		{"TLS", file(t, "web.yml", "tls_server_config: {cert_file: a, key_file: b}\n"), &on, ""},
		{"no client file", "", &broken, "client_file"},
	} {
		e.Web.ConfigFile = c.web
		p := e.pinger(t.Context(), Node{}, &wanting{}, slog.New(slog.DiscardHandler))
		err := p.Apply(c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, exchange.Path, nil)
		if c.name == "TLS" {
			r.TLS = new(tls.ConnectionState)
		}
		p.ServeHTTP(w, r)
		if on := c.config != nil && c.want == ""; (w.Code == http.StatusOK) != on || p.Status().Enabled != on {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		if c.config != nil && c.want == "" {
			if err := p.Apply(nil); err != nil || p.Status().Enabled {
				t.Errorf("%s: not switched off: %v", c.name, err)
			}
		}
		p.Close()
	}
	var none *hostPinger
	if err := none.Apply(&plain); err == nil {
		t.Error("accepted where nothing can ping")
	}
}

// TestPingerTakesClient begins anew with what the client file has by now, and goes on where it has the same.
func TestPingerTakesClient(t *testing.T) {
	on := rdmaping.DefaultConfig()
	on.Plain, on.ClientFile = true, file(t, "client.yml", "bearer_token: old\n")
	e := &Exporter{Site: new(site.Site), Pinging: func(context.Context, string, *slog.Logger) (pinger.Worker, error) {
		return nil, errors.New("no library")
	}}
	p := e.pinger(t.Context(), Node{}, &wanting{}, slog.New(slog.DiscardHandler))
	defer p.Close()
	apply := func() *pinger.Pinger {
		again := on
		if err := p.Apply(&again); err != nil {
			t.Fatal(err)
		}
		runs, _ := p.current()
		return runs
	}
	first := apply()
	if apply() != first {
		t.Error("it begins anew without a change")
	}
	if err := os.WriteFile(on.ClientFile, []byte("bearer_token: new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if apply() == first {
		t.Error("it goes on with the old token")
	}
}

// TestPingerLosesProtection tells nobody any more where rails answer, when the web configuration loses its passwords.
func TestPingerLosesProtection(t *testing.T) {
	on := rdmaping.DefaultConfig()
	e := &Exporter{Site: new(site.Site), Pinging: func(context.Context, string, *slog.Logger) (pinger.Worker, error) {
		return nil, errors.New("no library")
	}}
	e.Web.ConfigFile = file(t, "web.yml", "basic_auth_users: {prometheus: hash}\n")
	p := e.pinger(t.Context(), Node{}, &wanting{}, slog.New(slog.DiscardHandler))
	defer p.Close()
	if err := p.Apply(&on); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		web  string
		tls  *tls.ConnectionState
		want int
	}{
		{"basic_auth_users: {prometheus: hash}\n", nil, http.StatusOK},
		{"", nil, http.StatusForbidden},
		{"tls_server_config: {cert_file: a, key_file: b}\n", nil, http.StatusForbidden}, // which takes a restart
		{"", new(tls.ConnectionState), http.StatusOK},
	} {
		if err := os.WriteFile(e.Web.ConfigFile, []byte(c.web), 0o600); err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, exchange.Path, nil)
		r.TLS = c.tls
		if p.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%q: %d %s, expected %d", c.web, w.Code, w.Body, c.want)
		}
	}
}

// TestPingerReadsNoMore reads no more of a peer where a file says how it is asked, either.
func TestPingerReadsNoMore(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 4000 {
			w.Header().Set("X-More-"+strconv.Itoa(i), strings.Repeat("x", 100))
		}
	}))
	defer s.Close()
	asks, err := readAsker(file(t, "client.yml", "follow_redirects: false\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = exchange.Ask(t.Context(), asks.client, "http", strings.TrimPrefix(s.URL, "http://"))
	if err == nil || !strings.Contains(err.Error(), "bytes of a peer") {
		t.Error(err)
	}
}
