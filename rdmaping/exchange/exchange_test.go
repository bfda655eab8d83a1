// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/rdmaping"
)

var rails = []rdmaping.Endpoint{
	{Device: "mlx5_0", Link: rdmaping.Ethernet, GID: rdmaping.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, PKey: 0xffff, QPN: 77, QKey: 1, MTU: 4096, Key: 1<<63 + 5, Timed: true, RoCE: 2},
	{Device: "mlx5_1", Link: rdmaping.InfiniBand, GID: rdmaping.GID{0: 0xfe, 1: 0x80, 15: 1}, LID: 5, PKey: 0x8001, QPN: 78, QKey: 1<<31 - 1, MTU: 2048, Key: 6},
}

func TestExchange(t *testing.T) {
	s := httptest.NewServer(Handler(func() []rdmaping.Endpoint { return rails }))
	defer s.Close()
	got, err := Ask(t.Context(), s.Client(), "http", strings.TrimPrefix(s.URL, "http://"))
	if err != nil || len(got) != 2 || got[0] != rails[0] || got[1] != rails[1] {
		t.Errorf("%+v, %v", got, err)
	}
	response, err := http.Post(s.URL, "text/plain", strings.NewReader("x"))
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", response, err)
	}
	response.Body.Close()
}

// TestLies refuses what a node cannot be, and what is too much.
func TestLies(t *testing.T) {
	lie := func(edit func(e *rdmaping.Endpoint)) string {
		e := rails[0]
		edit(&e)
		text, _ := json.Marshal(document{Version: version, Rails: []rdmaping.Endpoint{e}})
		return string(text)
	}
	many, _ := json.Marshal(document{Version: version, Rails: make([]rdmaping.Endpoint, 9)})
	twice, _ := json.Marshal(document{Version: version, Rails: []rdmaping.Endpoint{rails[0], rails[0]}})
	other := rails[0]
	other.Device = "mlx5_7"
	mirrors, _ := json.Marshal(document{Version: version, Rails: []rdmaping.Endpoint{rails[0], other}})
	for name, body := range map[string]string{
		"one rail by two names": string(mirrors), "nothing": "", "no JSON": "<html>", "another version": `{"rdma_ping":2}`, "many": string(many), "twice": string(twice),
		"long":           strings.Repeat(" ", maxAnswer+1),
		"management":     lie(func(e *rdmaping.Endpoint) { e.QPN = 1 }),
		"queue pair":     lie(func(e *rdmaping.Endpoint) { e.QPN = 1 << 24 }),
		"no Q_Key":       lie(func(e *rdmaping.Endpoint) { e.QKey = 0 }),
		"privileged":     lie(func(e *rdmaping.Endpoint) { e.QKey = 0x80010000 }),
		"multicast":      lie(func(e *rdmaping.Endpoint) { e.GID[0] = 0xff }),
		"IPv4 multicast": lie(func(e *rdmaping.Endpoint) { e.GID = netip.MustParseAddr("::ffff:239.1.1.1").As16() }),
		"broadcast":      lie(func(e *rdmaping.Endpoint) { e.GID = netip.MustParseAddr("::ffff:255.255.255.255").As16() }),
		"multicast LID":  lie(func(e *rdmaping.Endpoint) { e.Link, e.LID = rdmaping.InfiniBand, 0xc001 }),
		"no GID":         lie(func(e *rdmaping.Endpoint) { e.GID = rdmaping.GID{} }),
		"RoCE version":   lie(func(e *rdmaping.Endpoint) { e.RoCE = 3 }),
		"rail":           lie(func(e *rdmaping.Endpoint) { e.Rail = -1 }),
		"MTU":            lie(func(e *rdmaping.Endpoint) { e.MTU = 9000 }),
		"link":           lie(func(e *rdmaping.Endpoint) { e.Link = "x" }),
		"device":         lie(func(e *rdmaping.Endpoint) { e.Device = "mlx5_0\x1b[2J" }),
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		if got, err := Ask(t.Context(), s.Client(), "http", strings.TrimPrefix(s.URL, "http://")); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		s.Close()
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	if _, err := Ask(t.Context(), s.Client(), "http", strings.TrimPrefix(s.URL, "http://")); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

// TestHostile is peers that answer without end, slowly, or from elsewhere: each is an error, soon.
func TestHostile(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := io.CopyN(z, zeros{}, 100<<20)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"gzip bomb": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, "answers more than 65536 bytes"},
		"endless body": {func(w http.ResponseWriter) { _, _ = io.CopyN(w, zeros{}, 100<<20) }, "answers more than 65536 bytes"},
		"endless header": {func(w http.ResponseWriter) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, err = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
			for err == nil {
				_, err = c.Write([]byte("X-More: " + strings.Repeat("x", 1000) + "\r\n"))
			}
		}, "more than 262144 bytes of a peer"},
		"slow loris": {func(w http.ResponseWriter) {
			for {
				_, err := w.Write([]byte(" "))
				if errors.Join(err, http.NewResponseController(w).Flush()) != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}, "context deadline exceeded"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		}, "answers 302: Found"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != Path {
				t.Errorf("%s: %s is asked for", name, r.URL.Path)
			}
			c.answer(w)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if name == "slow loris" {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		got, err := Ask(ctx, Client(nil), "http", strings.TrimPrefix(s.URL, "http://"))
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, expected %s", name, got, err, c.want)
		}
		s.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestOlder is a build that tells no Q_Key: it is not asked, and none of its messages is lost. It finds no rails in
// what this one tells.
func TestOlder(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"rdma_ping":1,"rails":[{"device":"mlx5_0","link":"ethernet"}]}`))
	}))
	defer s.Close()
	got, err := Ask(t.Context(), s.Client(), "http", strings.TrimPrefix(s.URL, "http://"))
	if err == nil || !Absent(err) || !strings.Contains(err.Error(), "is an older build, which tells no Q_Key") {
		t.Errorf("%+v, %v", got, err)
	}
	w := httptest.NewRecorder()
	Handler(func() []rdmaping.Endpoint { return rails }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
	var older struct {
		Version int `json:"rdma_ping"`
		Rails   []json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &older); err != nil || older.Version != 1 || len(older.Rails) > 0 {
		t.Errorf("%+v, %v", older, err)
	}
}

// TestAbsent is what answers other than rails: where rails answer is not known. A host that may be dead is none of it.
func TestAbsent(t *testing.T) {
	status := func(code int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	}
	raw := func(answer string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, err = c.Write([]byte(answer))
				err = errors.Join(err, c.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	strict := httptest.NewUnstartedServer(http.NotFoundHandler())
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	strict.StartTLS()
	ended := status(http.StatusOK)
	ended.Close()
	asked := make(chan struct{}) // what hangs does so until the asker has gone
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-asked }))
	stalls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-asked
	}))
	trusting := Client(&http.Transport{
		DialContext: Dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	})
	for name, c := range map[string]struct {
		server *httptest.Server
		scheme string
		client *http.Client
		want   bool
	}{
		"ended":              {ended, "http", Client(nil), true},
		"other password":     {status(http.StatusUnauthorized), "http", Client(nil), true},
		"forbidden":          {status(http.StatusForbidden), "http", Client(nil), true},
		"redirect":           {status(http.StatusFound), "http", Client(nil), true},
		"no rails":           {status(http.StatusOK), "http", Client(nil), true},
		"TLS is on now":      {httptest.NewTLSServer(http.NotFoundHandler()), "http", Client(nil), true},
		"TLS is off now":     {status(http.StatusOK), "https", trusting, true},
		"not trusted":        {httptest.NewTLSServer(http.NotFoundHandler()), "https", Client(nil), true},
		"wants certificates": {strict, "https", trusting, true},
		"no HTTP":            {httptest.NewServer(raw("SSH-2.0-x\r\n")), "http", Client(nil), true},
		"closes, as proxies": {httptest.NewServer(raw("")), "http", Client(nil), false},
		"closes, TLS":        {httptest.NewTLSServer(raw("")), "https", trusting, true},
		"cut off":            {httptest.NewServer(raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")), "http", Client(nil), true},
		"hangs":              {hangs, "http", Client(nil), false},
		"stalls":             {stalls, "https", trusting, false},
		"busy":               {status(http.StatusServiceUnavailable), "http", Client(nil), false},
		"proxy of a dead":    {status(http.StatusBadGateway), "http", Client(nil), false},
	} {
		_, address, _ := strings.Cut(c.server.URL, "://")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if c.server == hangs || c.server == stalls {
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		got, err := Ask(ctx, c.client, c.scheme, address)
		cancel()
		if err == nil || Absent(err) != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		t.Cleanup(c.server.Close)
	}
	close(asked)
	for _, err := range []error{syscall.EHOSTUNREACH, syscall.ENETUNREACH, &net.DNSError{IsNotFound: true}, context.Canceled} {
		if _, err := Ask(t.Context(), Client(broken{err}), "http", "n1:1"); err == nil || Absent(err) {
			t.Error(err)
		}
	}
}

// broken is a way on which nothing can be asked.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

func FuzzParse(f *testing.F) {
	good, _ := json.Marshal(document{Version: version, Rails: rails})
	f.Add(good)
	f.Add([]byte(`{"rdma_ping":1,"queue_pairs":[]}`)) // it begins, or is in maintenance
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := parse(body)
		if err != nil && len(got) > 0 || len(got) > rdmaping.MaxRails {
			t.Errorf("%+v, %v", got, err)
		}
		for _, e := range got {
			if e.Check() != nil {
				t.Errorf("%+v", e)
			}
		}
	})
}
