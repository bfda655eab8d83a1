// SPDX-License-Identifier: Apache-2.0

package program

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// health runs the command healthcheck.
func health(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	var stdout, stderr commandtest.Output
	code = run(t, Options{}, &stdout, &stderr, append([]string{"healthcheck"}, args...)...)
	return code, stdout.String() + stderr.String()
}

// TestHealthcheck asks exporters that serve in all the ways that a web configuration has.
func TestHealthcheck(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("node", x509.ExtKeyUsageServerAuth)
	a.Issue("kubelet", x509.ExtKeyUsageClientAuth)
	file := func(name string) string { return filepath.Join(a.Dir, name) }
	host := append(simulatortest.Host(t, "healthy"), "--config.file=none")
	plain := start(t, Options{}, host...)
	plain.Ready()
	prefixed := start(t, Options{}, slices.Concat(host, []string{"--web.route-prefix=/fabric"})...)
	serving := func(name, config string) *commandtest.Serving {
		if err := os.WriteFile(file(name), []byte(config+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return start(t, Options{}, slices.Concat(host, []string{"--web.config.file=" + file(name)})...)
	}
	const tls = "tls_server_config: {cert_file: node.crt, key_file: node.key"
	encrypted := serving("encrypted.yml", tls+"}")
	mutual := serving("mutual.yml", tls+", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}")
	locked := serving("locked.yml", "basic_auth_users: {prometheus: $2y$04$1Xy1CzJwRB6bq5MQjSH5ZuEzgp5UKaSQQsEWx6KOT9Iu1BqOgx6hq}")

	url := func(p *commandtest.Serving, path string) string { return "--url=" + p.URL + path }
	secure := func(p *commandtest.Serving) string {
		return strings.Replace(url(p, "/-/healthy"), "http:", "https:", 1)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"plain":                  {[]string{url(plain, "/-/healthy")}, command.OK, "healthy\n"},
		"ready":                  {[]string{url(plain, "/-/ready")}, command.OK, "ready\n"},
		"prefix":                 {[]string{url(prefixed, "/fabric/-/healthy")}, command.OK, "healthy\n"},
		"without the prefix":     {[]string{url(prefixed, "/-/healthy")}, command.Failure, "404 Not Found"},
		"redirect":               {[]string{url(prefixed, "/")}, command.Failure, "302 Found"},
		"password":               {[]string{url(locked, "/-/healthy")}, command.OK, "healthy: it demands a password\n"},
		"HTTP instead of HTTPS":  {[]string{url(encrypted, "/-/healthy")}, command.Failure, "HTTP request to an HTTPS server"},
		"HTTPS instead of HTTP":  {[]string{secure(plain)}, command.Failure, "HTTP response to HTTPS client"},
		"TLS":                    {[]string{secure(encrypted), "--tls.ca-file=" + file("ca.crt"), "--tls.server-name=node"}, command.OK, "healthy\n"},
		"TLS by address":         {[]string{secure(encrypted), "--tls.ca-file=" + file("ca.crt")}, command.OK, "healthy\n"},
		"TLS, another name":      {[]string{secure(encrypted), "--tls.ca-file=" + file("ca.crt"), "--tls.server-name=other"}, command.Failure, "not other (--tls.ca-file"},
		"TLS, unknown authority": {[]string{secure(encrypted)}, command.Failure, "unknown authority (--tls.ca-file, --tls.server-name and --tls.insecure-skip-verify"},
		"TLS unverified":         {[]string{secure(encrypted), "--tls.insecure-skip-verify"}, command.OK, "healthy\n"},
		"mutual TLS": {
			[]string{secure(mutual), "--tls.ca-file=" + file("ca.crt"), "--tls.cert-file=" + file("kubelet.crt"), "--tls.key-file=" + file("kubelet.key")},
			command.OK, "healthy\n",
		},
		"mutual TLS without a certificate": {[]string{secure(mutual), "--tls.ca-file=" + file("ca.crt")}, command.Failure, "certificate required"},
		"nothing there":                    {[]string{"--url=http://127.0.0.1:1/-/healthy"}, command.Failure, "connection refused"},
		"no URL":                           {[]string{"--url=localhost:10791"}, command.Usage, "expected a URL such as http://localhost:10791/-/healthy"},
		"certificate without its key":      {[]string{"--tls.cert-file=" + file("kubelet.crt")}, command.Usage, "expected both or neither"},
		"no such file":                     {[]string{"--tls.ca-file=" + file("none.crt")}, command.Usage, "--tls.ca-file: open"},
		"key instead of authorities":       {[]string{"--tls.ca-file=" + file("node.key")}, command.Usage, "expected certificates in PEM"},
		"key of another certificate":       {[]string{"--tls.cert-file=" + file("node.crt"), "--tls.key-file=" + file("kubelet.key")}, command.Usage, "expected a certificate and its key"},
	} {
		code, said := health(t, c.args...)
		if code != c.code || !strings.Contains(said, c.want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", name, code, said)
		}
	}
}

// TestHealthcheckTakesNothingForHealth has servers answer that are not healthy, are slow, or say too much.
func TestHealthcheckTakesNothingForHealth(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/long":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	for path, want := range map[string]string{"/slow": "no answer within 50ms", "/long": "503 Service Unavailable"} {
		args := []string{"--url=" + s.URL + path}
		if path == "/slow" {
			args = append(args, "--timeout=50ms")
		}
		if code, said := health(t, args...); code != command.Failure || !strings.Contains(said, want) || len(said) > 600 {
			t.Errorf("%s: exit code %d, %.600q", path, code, said)
		}
	}
}
