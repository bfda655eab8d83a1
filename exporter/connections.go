// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connections limits how many clients are connected at once, because each needs a file descriptor, and so do
// the readers of devices; and how many bytes of answers are in memory that clients have not read. When there
// is too much, one connection of the address that has the most is closed, so that a client with few
// connections keeps them whatever other clients do. Of the connections of that address it is the one that has
// been idle longest or, if all are being answered, the one whose request
// began first. It is never the newest, or clients that do not read their answers would keep all others out.
type connections struct {
	limit, unsentLimit int

	mu      sync.Mutex
	open    map[net.Conn]*connection
	unsent  int // bytes, of those
	ending  map[net.Conn]int
	settled *sync.Cond // ending has less
}

// connection is what its server last said of it.
type connection struct {
	from   netip.Prefix
	idle   bool // between requests
	since  time.Time
	unsent int // bytes of its answer
}

func newConnections(limit, unsent int) *connections {
	c := &connections{limit: limit, unsentLimit: unsent, open: map[net.Conn]*connection{}, ending: map[net.Conn]int{}}
	c.settled = sync.NewCond(&c.mu)
	return c
}

// track is http.Server.ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		c.forget(conn)
		return
	}
	known := c.open[conn]
	if known == nil {
		known = &connection{from: origin(conn.RemoteAddr())}
		c.open[conn] = known
	}
	if state == http.StateActive {
		requested(conn)
	}
	known.idle, known.since = state == http.StateIdle, time.Now()
	if len(c.open) > c.limit {
		c.cut(c.surplus(conn, func(*connection) int { return 1 }))
	}
}

// cut closes a connection at once: to say goodbye, as TLS does, could wait for a client that reads nothing.
func (c *connections) cut(conn net.Conn) {
	if k := c.open[conn]; k.unsent > 0 {
		c.ending[conn] = k.unsent
	}
	c.forget(conn)
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // it is closed on purpose
}

func (c *connections) forget(conn net.Conn) {
	if k := c.open[conn]; k != nil {
		c.unsent -= k.unsent
		delete(c.open, conn)
	}
}

// surplus picks the connection to close because of the newest one, from the address whose connections weigh the most.
func (c *connections) surplus(newest net.Conn, weight func(*connection) int) net.Conn {
	from := map[netip.Prefix]int{}
	for _, k := range c.open {
		from[k.from] += weight(k)
	}
	most := 0
	for conn, k := range c.open {
		if conn != newest && weight(k) > 0 {
			most = max(most, from[k.from])
		}
	}
	var picked net.Conn
	for conn, k := range c.open {
		if conn == newest || weight(k) == 0 || from[k.from] < most {
			continue
		}
		p := c.open[picked]
		if picked == nil || !p.idle && k.idle || p.idle == k.idle && k.since.Before(p.since) {
			picked = conn
		}
	}
	return picked
}

// clientKey is under which a request has its connection.
type clientKey struct{}

// known is http.Server.ConnContext.
func (c *connections) known(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// counted has the answers of h count as unsent while they are written.
func (c *connections) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(clientKey{}).(net.Conn); ok {
			w = &sending{w, c, conn}
		}
		h.ServeHTTP(w, r)
	})
}

// sending is what an answer is written to.
type sending struct {
	http.ResponseWriter
	of   *connections
	conn net.Conn
}

// room waits until most of what was sent to connections that are closed now is no longer in memory: on a busy
// machine that takes a moment, and who waits here has not let others make their answers yet.
func (s *sending) room() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for {
		bytes := 0
		for _, b := range s.of.ending {
			bytes += b
		}
		if bytes <= s.of.unsentLimit/2 {
			return
		}
		s.of.settled.Wait()
	}
}

func (s *sending) Write(b []byte) (int, error) {
	s.of.sends(s.conn, len(b))
	defer s.of.sends(s.conn, -len(b))
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// sends takes note of bytes that are to be sent to a client, or less than nothing when they were, and closes
// connections until what waits is within the limit. An answer alone may be larger.
func (c *connections) sends(conn net.Conn, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil { // it was closed meanwhile
		if bytes < 0 {
			delete(c.ending, conn)
			c.settled.Broadcast()
		}
		return
	}
	known.unsent += bytes
	c.unsent += bytes
	for c.unsent > c.unsentLimit {
		surplus := c.surplus(conn, func(k *connection) int { return k.unsent })
		if surplus == nil {
			return
		}
		c.cut(surplus)
	}
}

// origin is the address of a client; of IPv6 the network that one host has to itself, and of loopback all of
// it, because each user of this host has all of its addresses. All connections without an address count as
// one client.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return client(tcp.AddrPort())
}

// originOf is that of a request.
func originOf(r *http.Request) netip.Prefix {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return client(a)
}

func client(a netip.AddrPort) netip.Prefix {
	ip := a.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	switch {
	case ip.Is4() && ip.IsLoopback():
		bits = 8
	case ip.Is6():
		bits = 64
	}
	p, _ := ip.Prefix(bits) // the length fits
	return p
}
