// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Each connection says that a body will come, and none does.
func TestMissingBodiesBlockNothing(t *testing.T) {
	p := start(t, &fakeObserver{node: healthy})
	for _, head := range []string{
		"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n",
	} {
		for range 50 {
			c, err := net.Dial("tcp", p.Addrs[0].String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, head); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || answer.StatusCode != http.StatusBadRequest || !answer.Close {
				t.Fatalf("%.20q: %v, %v, expected 400 and a connection that closes", head, answer, err)
			}
		}
	}
	if status, _, _ := p.Get("/metrics"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// The connection of a request that stays incomplete is closed, in fake time. A request without a body keeps its
// connection as long as its answer takes.
func TestReadTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		sent string
		ends bool
	}{
		"half a header": {"GET / HTTP/1.1\r\nHo", true},
		"whole":         {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := newPipeListener()
				ended := make(chan error, 1)
				var cancelled atomic.Bool
				slow := bodiless(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					select {
					case <-time.After(readTimeout + writeTimeout/4):
					case <-r.Context().Done():
						cancelled.Store(true)
					}
					io.WriteString(w, "done")
				}))
				go func() {
					ended <- serveListeners(ctx, []net.Listener{l}, slow, "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
				}()
				client, server := net.Pipe()
				l.conns <- server
				io.WriteString(client, test.sent)
				begin := time.Now()
				line, _ := bufio.NewReader(client).ReadString('\n')
				took := time.Since(begin)
				if test.ends && took > readTimeout+time.Second || !test.ends && !strings.HasPrefix(line, "HTTP/1.1 200") || cancelled.Load() {
					t.Errorf("%q after %s, cancelled %t", line, took, cancelled.Load())
				}
				client.Close()
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The connection of a client that does not read its answer is closed, in fake time.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newPipeListener()
		ended := make(chan error, 1)
		wrote := make(chan error, 1)
		answer := bodiless(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			wrote <- err
		}))
		go func() {
			ended <- serveListeners(ctx, []net.Listener{l}, answer, "", slog.New(slog.DiscardHandler), slog.DiscardHandler)
		}()
		client := l.request()
		select {
		case err := <-wrote:
			if err == nil {
				t.Error("what was written was not read")
			}
		case <-time.After(time.Hour):
			t.Error("still waits for its client after an hour")
		}
		client.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// unread is an answer that its client does not read.
type unread struct {
	*httptest.ResponseRecorder
	writing, read chan struct{}
}

func (u unread) Write(p []byte) (int, error) {
	close(u.writing)
	<-u.read
	return len(p), nil
}

func TestUnreadAnswersHoldNoPlace(t *testing.T) {
	h := newPlaces(1).wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "answer") }), nil)
	u := unread{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		h.ServeHTTP(u, httptest.NewRequest(http.MethodGet, "/", nil))
		close(done)
	}()
	<-u.writing
	next := httptest.NewRecorder()
	h.ServeHTTP(next, httptest.NewRequest(http.MethodGet, "/", nil))
	if next.Code != http.StatusOK {
		t.Errorf("status %d while another does not read its answer", next.Code)
	}
	close(u.read)
	<-done
	again := httptest.NewRecorder()
	h.ServeHTTP(again, httptest.NewRequest(http.MethodGet, "/", nil))
	if again.Code != http.StatusOK {
		t.Errorf("status %d afterwards: a place was released twice or never", again.Code)
	}
}

// peer is a connection from an address.
type peer struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (p *peer) RemoteAddr() net.Addr { return p.from }
func (p *peer) Close() error         { p.closed = true; return nil }

// Clients that send only the first byte of a request use all connections: from the address of the scraper, or each from
// its own in 127.0.0.0/8.
func TestHalfRequestsBlockNothing(t *testing.T) {
	for name, from := range map[string]func(i int) net.IP{
		"one address":      func(int) net.IP { return net.IPv4(127, 0, 0, 1) },
		"an address each":  func(i int) net.IP { return net.IPv4(127, 1, byte(i/250), byte(1+i%250)) },
		"beside a scraper": func(i int) net.IP { return net.IPv4(127, 0, 0, byte(1+i%2)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, &fakeObserver{node: healthy})
			for i := range maxConnections + 10 {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from(i)}}
				c, err := d.Dial("tcp", p.Addrs[0].String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, "G"); err != nil {
					t.Fatal(err)
				}
			}
			scraper := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for range 20 {
				answer, err := scraper.Get("http://" + p.Addrs[0].String() + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatal(answer.Status, err)
				}
			}
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(4, maxUnsent)
		connect := func(ip string, states ...http.ConnState) *peer {
			p := &peer{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
			for _, s := range append([]http.ConnState{http.StateNew}, states...) {
				time.Sleep(time.Second)
				c.track(p, s)
			}
			return p
		}
		scraper := connect("10.0.0.1", http.StateActive, http.StateIdle)
		served := connect("2001:db8::1", http.StateActive)
		idle := connect("2001:db8::2", http.StateActive, http.StateIdle) // the same network
		fresh := connect("2001:db8::3")
		if scraper.closed || served.closed || idle.closed || fresh.closed {
			t.Fatal("closed within the limit")
		}
		next := connect("2001:db8::4")
		if !idle.closed || scraper.closed || served.closed || fresh.closed || next.closed {
			t.Errorf("expected the idle one of the network with the most to be closed: %v %v %v %v %v", scraper.closed, served.closed, idle.closed, fresh.closed, next.closed)
		}
		for range 100 {
			connect("2001:db8::5", http.StateActive)
		}
		if scraper.closed || len(c.open) > 4 {
			t.Errorf("scraper closed: %t, %d open", scraper.closed, len(c.open))
		}
		c.track(scraper, http.StateClosed)
		if _, known := c.open[scraper]; known {
			t.Error("a closed connection counts")
		}
	})
}

// Clients that do not read their answers: a new connection is not the one that is closed. Addresses of the loopback
// network are one client, because every user of the host has all of them.
func TestUnreadAnswersHoldNoConnection(t *testing.T) {
	for name, from := range map[string]func(i int) net.IP{
		"one address":     func(int) net.IP { return net.IPv4(10, 0, 0, 1) },
		"an address each": func(i int) net.IP { return net.IPv4(10, 0, 0, byte(1+i)) },
		"loopback":        func(i int) net.IP { return net.IPv4(127, 0, 0, byte(1+i)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConnections(4, maxUnsent)
				connect := func(ip net.IP) *peer {
					time.Sleep(time.Second)
					p := &peer{from: &net.TCPAddr{IP: ip, Port: 1}}
					c.track(p, http.StateNew)
					return p
				}
				remote := connect(net.IPv4(10, 9, 9, 9))
				for i := range 10 {
					c.track(connect(from(i)), http.StateActive)
				}
				if name != "an address each" && remote.closed {
					t.Error("the connection of another client was closed")
				}
				if scraper := connect(from(0)); scraper.closed {
					t.Error("who came next was turned away")
				}
			})
		})
	}
}

// Answers that nobody reads are bounded in bytes: the client with the most of them loses the one that it
// asked for first, and no other client loses any.
func TestUnreadBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(100, 1000)
		ask := func(ip string, bytes int) *peer {
			time.Sleep(time.Second)
			p := &peer{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
			c.track(p, http.StateNew)
			c.track(p, http.StateActive)
			c.sends(p, bytes)
			return p
		}
		modest := ask("10.0.0.1", 300)
		greedy := []*peer{ask("10.0.0.2", 300), ask("10.0.0.2", 300)}
		if modest.closed || greedy[0].closed || greedy[1].closed || c.unsent != 900 {
			t.Fatalf("closed within the limit, %d bytes", c.unsent)
		}
		greedy = append(greedy, ask("10.0.0.2", 300))
		if modest.closed || !greedy[0].closed || greedy[1].closed || greedy[2].closed || c.unsent != 900 {
			t.Errorf("beyond it: %t %t %t %t, %d bytes", modest.closed, greedy[0].closed, greedy[1].closed, greedy[2].closed, c.unsent)
		}
		roomy := make(chan struct{})
		go func() {
			(&sending{of: c}).room()
			close(roomy)
		}()
		synctest.Wait()
		select {
		case <-roomy:
		default:
			t.Error("waits although little is left of what was closed")
		}
		c.sends(greedy[0], -300) // its write fails
		large := ask("10.0.0.3", 5000)
		if large.closed || !modest.closed || c.unsent != 5000 {
			t.Errorf("an answer that is larger than the limit: closed %t, %d bytes", large.closed, c.unsent)
		}
		waits := make(chan struct{})
		go func() {
			(&sending{of: c}).room()
			close(waits)
		}()
		synctest.Wait()
		select {
		case <-waits:
			t.Error("others may make answers although what was closed is still in memory")
		default:
		}
		for _, p := range append(greedy[1:], modest) {
			c.sends(p, -300)
		}
		<-waits
		c.sends(large, -5000)
		c.track(large, http.StateIdle)
		if c.unsent != 0 {
			t.Errorf("%d bytes after all", c.unsent)
		}
	})
}

// A client that is still on its way to its first request, as in the handshake of TLS, does not lose its
// connection to those that do not read their answers.
func TestHandshakesAreNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnections(4, maxUnsent)
		connect := func(states ...http.ConnState) *peer {
			time.Sleep(time.Second)
			p := &peer{from: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}}
			for _, s := range append([]http.ConnState{http.StateNew}, states...) {
				c.track(p, s)
			}
			return p
		}
		unread := []*peer{connect(http.StateActive), connect(http.StateActive), connect(http.StateActive)}
		scraper := connect()
		connect(http.StateActive)
		if scraper.closed || !unread[0].closed {
			t.Errorf("closed: %t, the oldest: %t", scraper.closed, unread[0].closed)
		}
	})
}
