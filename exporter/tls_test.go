// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// authority is a certificate authority that lives as long as a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return k
}

// issue writes NAME.crt and NAME.key, and returns them as a client would use them.
func (a *authority) issue(name string, usage x509.ExtKeyUsage) tls.Certificate {
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", pkcs8)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) write(file, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// config writes a web configuration and returns the flag that names it.
func (a *authority) config(lines ...string) string {
	file := filepath.Join(a.dir, "web.yml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return "--web.config.file=" + file
}

// trust makes the process's client speak TLS.
func (p *process) trust(pool *x509.CertPool, certs ...tls.Certificate) {
	p.url = strings.Replace(p.url, "http://", "https://", 1)
	p.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}}}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", x509.ExtKeyUsageServerAuth)
	// Two listeners: the toolkit's own way of serving several races here.
	p := start(t, &fakeObserver{node: healthy}, "--web.listen-address=127.0.0.1:0", a.config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"))
	if status, body, _ := p.get("/metrics"); status != http.StatusBadRequest || strings.Contains(body, "gpufabric") {
		t.Errorf("over plain HTTP: %d %q", status, body)
	}
	for _, addr := range p.addrs {
		p.url = "https://" + addr.String()
		p.trust(a.pool)
		if status, body, _ := p.get("/metrics"); status != http.StatusOK || !strings.Contains(body, "gpufabric_hca_port_state") {
			t.Errorf("%s: %d", addr, status)
		}
	}
}

func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", x509.ExtKeyUsageServerAuth)
	client := a.issue("prometheus", x509.ExtKeyUsageClientAuth)
	stranger := newAuthority(t).issue("prometheus", x509.ExtKeyUsageClientAuth)
	p := start(t, &fakeObserver{node: healthy}, a.config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key",
		"  client_auth_type: RequireAndVerifyClientCert", "  client_ca_file: ca.crt"))

	p.trust(a.pool, client)
	if status, _, _ := p.get("/metrics"); status != http.StatusOK {
		t.Errorf("with the right certificate: %d", status)
	}
	for name, certs := range map[string][]tls.Certificate{"without a certificate": nil, "with a stranger's certificate": {stranger}} {
		p.trust(a.pool, certs...)
		r, err := p.client.Get(p.url + "/metrics")
		if err == nil {
			r.Body.Close()
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	p.trust(a.pool, client)
	contains(t, p.stderr.String(), "TLS handshake error")
}

func TestBasicAuth(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t)
	p := start(t, &fakeObserver{node: healthy}, a.config("basic_auth_users:", "  prometheus: "+string(hash), "http_server_config:", "  headers:", "    Content-Security-Policy: default-src 'self'"))
	for _, test := range []struct {
		url    string
		status int
	}{
		{"http://", 401}, {"http://prometheus:wrong@", 401}, {"http://other:secret@", 401}, {"http://prometheus:secret@", 200},
	} {
		p.url = test.url + p.addrs[0].String()
		for _, path := range []string{"/metrics", "/", "/-/ready"} {
			if status, body, _ := p.get(path); status != test.status && (path != "/-/ready" || test.status != 200) || status == 401 && strings.Contains(body, "mlx5") {
				t.Errorf("%s%s: %d", p.url, path, status)
			}
		}
	}
	if _, _, h := p.get("/"); h.Get("Content-Security-Policy") != "default-src 'self'" {
		t.Errorf("the configured header is overwritten: %v", h)
	}
	if status, _, _ := p.do("POST", "/-/reload"); status != http.StatusOK {
		t.Errorf("reload: %d", status)
	}
}

// A client of HTTP/2 has many requests on one connection, and reads no answer: each would be kept in memory.
func TestStreamsAreFew(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", x509.ExtKeyUsageServerAuth)
	p := start(t, &fakeObserver{node: healthy}, a.config("tls_server_config:", "  cert_file: server.crt", "  key_file: server.key"))
	c, err := tls.Dial("tcp", p.addrs[0].String(), &tls.Config{RootCAs: a.pool, NextProtos: []string{"h2"}})
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
	frame(settings, 0, 0, "\x00\x04\x00\x00\x00\x00") // no octet of an answer is welcome
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
