// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/http"
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

// An HTTP/2 client sends many requests on one connection and reads no answer: each answer would stay in memory.
func TestStreamsAreFew(t *testing.T) {
	a := commandtest.NewAuthority(t)
	a.Issue("server", x509.ExtKeyUsageServerAuth)
	p := start(t, &fakeObserver{node: healthy}, a.Config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"))
	c, err := tls.Dial("tcp", p.Addrs[0].String(), &tls.Config{RootCAs: a.Pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	const settings, headers, reset, ping = 4, 1, 3, 6
	frame := func(kind, flags byte, stream uint32, payload string) {
		head := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(head[5:], stream)
		if _, err := c.Write(append(head, payload...)); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(settings, 0, 0, "\x00\x04\x00\x00\x00\x00") // the client accepts no byte of an answer
	for i := range uint32(100) {
		frame(headers, 0x5, 2*i+1, "\x82\x87\x04\x08/metrics\x01\x01a")
	}
	frame(ping, 0, 0, "12345678")
	answered, refused, pinged := 0, 0, false
	for answered+refused < 100 || !pinged {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("%v after %d answers and %d refusals", err, answered, refused)
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			t.Fatal(err)
		}
		switch head[3] {
		case headers:
			answered++
		case reset:
			refused++
		case ping:
			pinged = true
		}
	}
	if answered == 0 || answered > maxStreams {
		t.Errorf("%d answers at once, expected at most %d", answered, maxStreams)
	}
}
