// SPDX-License-Identifier: Apache-2.0

// Package healthcheck is the command healthcheck: it asks a running exporter over HTTP whether it is healthy,
// where the shell and curl that container runtimes and service managers use for this are missing.
//
// It makes one request without following redirects or using proxies, and reads at most maxAnswer bytes.
// Everything that keeps the exporter from answering within the timeout is a Failure; files and flags that are
// wrong are command.Usage.
package healthcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"gpufabric_exporter/internal/command"
)

const (
	defaultURL = "http://localhost:10791/-/healthy"
	maxAnswer  = 256 // bytes of an answer that are shown
)

// healthcheck is one call of the command.
type healthcheck struct {
	url        string
	ca         string // file; empty: the authorities of the system
	cert, key  string // files of the client's certificate; empty: none
	serverName string // in the certificate of the server; empty: the host of url
	skipVerify bool
	timeout    time.Duration
}

// New returns the command.
func New() *command.Command {
	h := new(healthcheck)
	return &command.Command{
		Name: "healthcheck",
		Help: "Ask a running exporter whether it is healthy, for container runtimes. Exit code 0: it answers (a demand for a password is an answer); 1: it does not, or it is not healthy; 3: the command line or a file that it names is wrong.",
		Define: func(f *command.Flags) {
			f.Add("url",
				"Where to ask; /-/ready instead of /-/healthy also waits for the first observation of the node. An exporter with --web.route-prefix needs the prefix.",
				command.Into(&h.url, parseURL)).Default(defaultURL)
			f.Add("tls.ca-file",
				"Certificate authorities that the certificate of the exporter is verified with, instead of the system's (PEM).",
				command.File(&h.ca)).PlaceHolder("FILE")
			f.Add("tls.cert-file", "Client certificate, where the exporter requires one (PEM).",
				command.File(&h.cert)).PlaceHolder("FILE")
			f.Add("tls.key-file", "Private key of the client certificate (PEM).", command.File(&h.key)).PlaceHolder("FILE")
			f.Add("tls.server-name", "Name that the certificate of the exporter is for. Default: the host in --url.",
				command.Into(&h.serverName, parseName)).PlaceHolder("NAME")
			f.Switch("tls.insecure-skip-verify", "Accept any certificate, as the kubelet does.", &h.skipVerify)
			f.Add("timeout", "How long to wait for the answer.", command.Into(&h.timeout, command.ParseInterval)).Default("3s")
			f.Check(h.check)
		},
		Run: h.run,
	}
}

func parseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path == "" || u.User != nil {
		return "", errors.New("expected a URL such as " + defaultURL)
	}
	return s, nil
}

func parseName(s string) (string, error) {
	if s == "" {
		return "", errors.New("expected a host name or an address")
	}
	return s, nil
}

// check finds flags that contradict each other.
func (h *healthcheck) check() error {
	if (h.cert == "") != (h.key == "") {
		return errors.New("--tls.cert-file and --tls.key-file: expected both or neither")
	}
	return nil
}

func (h *healthcheck) run(ctx context.Context, c *command.Call) int {
	config, err := h.tls()
	if err != nil {
		c.Complain(err)
		return command.Usage
	}
	answer, err := h.ask(ctx, config)
	if err != nil {
		return c.Fail(err)
	}
	fmt.Fprintln(c.Stdout, answer)
	return command.OK
}

// tls reads the files that flags name.
func (h *healthcheck) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: h.serverName, InsecureSkipVerify: h.skipVerify}
	if h.ca != "" {
		text, err := os.ReadFile(h.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls.ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls.ca-file=%q: expected certificates in PEM", h.ca)
		}
	}
	if h.cert != "" {
		pair, err := tls.LoadX509KeyPair(h.cert, h.key)
		if err != nil {
			return nil, fmt.Errorf("--tls.cert-file=%q --tls.key-file=%q: expected a certificate and its key: %w", h.cert,
				h.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ask returns what the exporter answered, on one line.
func (h *healthcheck) ask(ctx context.Context, config *tls.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return "", fmt.Errorf("--url=%q: %w", h.url, err)
	}
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return "", h.explain(err)
	}
	defer func() { _ = response.Body.Close() }() // the answer is read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return "healthy: it demands a password", nil
	case err != nil:
		return "", h.explain(err)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answers %s: %.256q", h.url, response.Status, body)
	}
	return string(trimmed(body)), nil
}

// trimmed is the first line.
func trimmed(body []byte) []byte {
	for i, b := range body {
		if b == '\n' {
			return body[:i]
		}
	}
	return body
}

// explain says which flag helps against an error of a request.
func (h *healthcheck) explain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL, which is named below
	}
	timeout, waits := errors.AsType[net.Error](err)
	switch _, unverified := errors.AsType[*tls.CertificateVerificationError](err); {
	case unverified:
		err = fmt.Errorf("%w (--tls.ca-file, --tls.server-name and --tls.insecure-skip-verify say what to accept)", err)
	case waits && timeout.Timeout():
		err = fmt.Errorf("no answer within %s", h.timeout)
	}
	return fmt.Errorf("%s: %w", h.url, err)
}
