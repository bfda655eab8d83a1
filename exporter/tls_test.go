// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"

	"golang.org/x/crypto/bcrypt"
)

func TestTLS(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	// Two listeners: the toolkit's own way of serving several races here.
	p := start(t, &fakeObserver{node: healthy}, "--web.listen-address=127.0.0.1:0", a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"))
	if status, body, _ := p.Get("/metrics"); status != http.StatusBadRequest || strings.Contains(body, "gpufabric") {
		t.Errorf("over plain HTTP: %d %q", status, body)
	}
	for _, addr := range p.Addrs {
		p.URL = "https://" + addr.String()
		p.Trust(a.Pool)
		if status, body, _ := p.Get("/metrics"); status != http.StatusOK || !strings.Contains(body, "gpufabric_hca_port_state") {
			t.Errorf("%s: %d", addr, status)
		}
	}
}

func TestMutualTLS(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	client := a.Issue("prometheus", x509.ExtKeyUsageClientAuth)
	stranger := commandtest.NewAuthority(t).Issue("prometheus", x509.ExtKeyUsageClientAuth)
	p := start(t, &fakeObserver{node: healthy}, a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key",
		"  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: ca.crt"))

	p.Trust(a.Pool, client)
	if status, _, _ := p.Get("/metrics"); status != http.StatusOK {
		t.Errorf("with the right certificate: %d", status)
	}
	for name, certs := range map[string][]tls.Certificate{"without a certificate": nil, "with a stranger's certificate": {stranger}} {
		p.Trust(a.Pool, certs...)
		r, err := p.Client.Get(p.URL + "/metrics")
		if err == nil {
			r.Body.Close()
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	p.Trust(a.Pool, client)
	p.Logs("TLS handshake error")
}

// Before its first request a client may send what a handshake needs, and no more: the chain is refused before
// it is in memory.
func TestLongCertificates(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	client := a.Issue("prometheus", x509.ExtKeyUsageClientAuth)
	p := start(t, &fakeObserver{node: healthy}, a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key",
		"  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: ca.crt"))
	long := client
	long.Certificate = slices.Repeat(long.Certificate, 2*maxHandshake/len(long.Certificate[0]))
	p.Trust(a.Pool, long)
	if r, err := p.Client.Get(p.URL + "/metrics"); err == nil {
		r.Body.Close()
		t.Errorf("with a chain of 64 KiB: %d", r.StatusCode)
	}
	p.Logs("the client sent more than 32 KiB before a request")

	p.Trust(a.Pool, client)
	p.Client.Transport.(*http.Transport).DisableKeepAlives = false
	for i := range 2 * maxHandshake / 1000 { // on one connection
		r, err := http.NewRequest(http.MethodGet, p.URL+"/-/healthy", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Padding", strings.Repeat("x", 1000))
		answer, err := p.Client.Do(r)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("request %d: %d, %v", i, answer.StatusCode, err)
		}
		answer.Body.Close()
	}
}

func TestBasicAuth(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := commandtest.NewAuthority(t)
	p := start(t, &fakeObserver{node: healthy}, a.Config("basic_auth_users:", "  prometheus: "+string(hash), "http_server_config:", "  headers:", "    Content-Security-Policy: default-src 'self'"))
	for _, test := range []struct {
		url    string
		status int
	}{
		{"http://", 401}, {"http://prometheus:wrong@", 401}, {"http://other:secret@", 401}, {"http://prometheus:secret@", 200},
	} {
		p.URL = test.url + p.Addrs[0].String()
		for _, path := range []string{"/metrics", "/", "/-/ready"} {
			if status, body, _ := p.Get(path); status != test.status && (path != "/-/ready" || test.status != 200) || status == 401 && strings.Contains(body, "mlx5") {
				t.Errorf("%s%s: %d", p.URL, path, status)
			}
		}
	}
	if _, _, h := p.Get("/"); h.Get("Content-Security-Policy") != "default-src 'self'" {
		t.Errorf("the configured header is overwritten: %v", h)
	}
	if status, _, _ := p.Do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("reload: %d", status)
	}
}

// There is no HTTP/2, whatever the web configuration asks for: its clients can have any number of answers
// kept for them.
func TestNoHTTP2(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	for _, more := range [][]string{nil, {"http_server_config:", "  http2: true"}} {
		p := start(t, &fakeObserver{node: healthy}, a.Config(append([]string{"tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"}, more...)...))
		c, err := tls.Dial("tcp", p.Addrs[0].String(), &tls.Config{RootCAs: a.Pool, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if is := c.ConnectionState().NegotiatedProtocol; is != "http/1.1" {
			t.Errorf("%q: %q is spoken", more, is)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		answer := make([]byte, 64)
		if n, _ := c.Read(answer); !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 ") {
			t.Errorf("%q: without being asked for it: %q", more, answer[:n])
		}
	}
}
