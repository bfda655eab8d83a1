// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Authority is a certificate authority that lives as long as a test.
type Authority struct {
	t    *testing.T
	Dir  string // of its files
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	Pool *x509.CertPool
}

// NewAuthority returns an authority whose files are gone after the test.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{t: t, Dir: t.TempDir(), Pool: x509.NewCertPool()}
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
	a.Pool.AddCert(a.cert)
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return k
}

// Issue writes NAME.crt and NAME.key, and returns them as a client would use them.
func (a *Authority) Issue(name string, usage x509.ExtKeyUsage) tls.Certificate {
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:    time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
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

func (a *Authority) write(file, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(a.Dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
		0o600); err != nil {
		a.t.Fatal(err)
	}
}

// Config writes a web configuration and returns the flag that names it.
func (a *Authority) Config(lines ...string) string {
	file := filepath.Join(a.Dir, "web.yml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return "--web.config.file=" + file
}

// Trust makes the client speak TLS.
func (p *Serving) Trust(pool *x509.CertPool, certs ...tls.Certificate) {
	p.URL = strings.Replace(p.URL, "http://", "https://", 1)
	p.Client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certs},
	}}
}
