// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// connections limits how many clients are connected at once, because each needs a file descriptor, and so do the readers
// of devices. When there are too many, one connection of the address that has the most is closed, so that a client with
// few connections keeps them whatever other clients do. Of the connections of that address it is the one that has been
// idle longest or, if all are being answered, the one whose request began first. It is never the newest, or clients that
// do not read their answers would keep all others out.
type connections struct {
	limit int

	mu   sync.Mutex
	open map[net.Conn]*connection
}

// connection is what its server last said of it.
type connection struct {
	from   netip.Prefix
	active bool // a request is being answered
	since  time.Time
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]*connection{}}
}

// track is http.Server.ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		c.mu.Unlock()
		return
	}
	known := c.open[conn]
	if known == nil {
		known = &connection{from: origin(conn.RemoteAddr())}
		c.open[conn] = known
	}
	known.active, known.since = state == http.StateActive, time.Now()
	var surplus net.Conn
	if len(c.open) > c.limit {
		surplus = c.surplus(conn)
		delete(c.open, surplus)
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close() // it is closed on purpose
	}
}

// surplus picks the connection to close because of the newest one.
func (c *connections) surplus(newest net.Conn) net.Conn {
	from := map[netip.Prefix]int{}
	most := 0
	for _, k := range c.open {
		from[k.from]++
		most = max(most, from[k.from])
	}
	var picked net.Conn
	for conn, k := range c.open {
		if conn == newest || from[k.from] < most {
			continue
		}
		p := c.open[picked]
		if picked == nil || p.active && !k.active || p.active == k.active && k.since.Before(p.since) {
			picked = conn
		}
	}
	return picked
}

// origin is the address of a client; of IPv6 the network that one host has to itself, and of loopback all of it, because each
// user of this host has all of its addresses. All connections without an address count as one client.
func origin(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
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
