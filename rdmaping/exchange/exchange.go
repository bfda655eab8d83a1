// SPDX-License-Identifier: Apache-2.0

// Package exchange tells other nodes over HTTP where the rails of this one can be asked, and asks them. What comes
// from another node is bounded and checked. Its functions may be called from any goroutine.
package exchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
)

// Path is where the rails are told.
const Path = "/rdma-ping.json"

const (
	version   = 1
	maxAnswer = 64 << 10
	// maxConnection is how many bytes are read of a connection.
	maxConnection = 256 << 10
	maxShown      = 100 // bytes of an answer that are shown
)

// document is the answer.
type document struct {
	Version int                 `json:"rdma_ping"`
	Rails   []rdmaping.Endpoint `json:"queue_pairs"`
	// Older is in those of builds that tell no Q_Key. They find none of theirs here, so neither asks the other.
	Older json.RawMessage `json:"rails,omitempty"`
}

var errOlder = errors.New("is an older build, which tells no Q_Key")

// Handler tells the rails of this node to clients that may ask: their keys are in it.
func Handler(rails func() []rdmaping.Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "expected GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(document{Version: version, Rails: rails()}) // the peer may have gone
	})
}

// URL is where the node at host:port tells its rails.
func URL(scheme, address string) string {
	return (&url.URL{Scheme: scheme, Host: address, Path: Path}).String()
}

// Ask asks the node at host:port for its rails. It may have none just now.
func Ask(ctx context.Context, client *http.Client, scheme, address string) ([]rdmaping.Endpoint, error) {
	var answers atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone:     func(tls.ConnectionState, error) { answers.Store(true) },
		GotFirstResponseByte: func() { answers.Store(true) },
	})
	rails, err := ask(ctx, client, URL(scheme, address))
	if err != nil && answers.Load() {
		err = &answeredError{err}
	}
	return rails, err
}

func ask(ctx context.Context, client *http.Client, where string) ([]rdmaping.Endpoint, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK:
		return nil, &StatusError{response.StatusCode, strings.TrimRight(fabric.Printable(string(body), maxShown), " .")}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("answers more than %d bytes", maxAnswer)
	}
	rails, err := parse(body)
	switch {
	case errors.Is(err, errOlder):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("answers what is no list of rails: %s", fabric.Printable(err.Error(), maxShown))
	}
	return rails, nil
}

// Client returns a client that follows no redirect and keeps no connection: a node has many peers, and asks each
// once a minute. A transport of another kind should connect by Dial.
func Client(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{DisableKeepAlives: true, DialContext: Dial}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Dial connects to a peer, of which no more is read than the longest answer, its header and its certificates take.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: c, rest: io.LimitedReader{R: c, N: maxConnection}}, nil
}

// bounded is a connection that breaks when too much was read.
type bounded struct {
	net.Conn
	rest io.LimitedReader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.rest.N == 0 {
		return 0, fmt.Errorf("more than %d bytes of a peer", maxConnection)
	}
	return b.rest.Read(p)
}

// StatusError is an answer other than 200.
type StatusError struct {
	Code int
	Text string // printable
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("answers %d: %s", e.Code, cmp.Or(e.Text, http.StatusText(e.Code)))
}

// answeredError is an error of Ask after something had answered: the end of a TLS handshake, or of HTTP its first byte.
type answeredError struct{ error }

func (e *answeredError) Unwrap() error { return e.error }

// Absent reports whether an error of Ask means that where rails answer is not known: the host is up, and what answers
// there, if anything, tells no rails. Its exporter does not run, is older, or has other TLS settings or passwords by
// now. What does not answer in time may be dead. So may what a proxy answers for (5xx, or it closes the connection),
// and a busy exporter has rails.
func Absent(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code < http.StatusInternalServerError
	}
	late, ok := errors.AsType[net.Error](err)
	if ok && late.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	_, answered := errors.AsType[*answeredError](err)
	return answered || errors.Is(err, syscall.ECONNREFUSED)
}

func parse(body []byte) ([]rdmaping.Endpoint, error) {
	var d document
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&d); err != nil {
		return nil, err
	}
	switch {
	case d.Version != version:
		return nil, fmt.Errorf("version %d, expected %d", d.Version, version)
	case len(d.Older) > 0:
		return nil, errOlder
	case len(d.Rails) > rdmaping.MaxRails:
		return nil, fmt.Errorf("%d, expected at most %d", len(d.Rails), rdmaping.MaxRails)
	}
	for i, e := range d.Rails {
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("rail %d: %w", i, err)
		}
		same := func(o rdmaping.Endpoint) bool { return o.Device == e.Device || o.Key == e.Key }
		if slices.ContainsFunc(d.Rails[:i], same) { // all rails would ask one, perhaps of another node, more than it answers
			return nil, fmt.Errorf("rail %d: %s is there twice, or its key is", i, e.Device)
		}
	}
	return d.Rails, nil
}
