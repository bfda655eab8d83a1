// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
)

// maxHandshake bounds what a client sends before its first request, in bytes. Chains of certificates have a
// tenth of it; TLS alone would take 256 KiB from each client, and ten times that in memory to verify them.
const maxHandshake = 32 << 10

var errHandshake = errors.New("the client sent more than 32 KiB before a request: expected a shorter chain of certificates")

// handshakes is a listener whose clients may not send more than maxHandshake before a request.
type handshakes struct{ net.Listener }

func (l handshakes) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &greeted{Conn: c, left: maxHandshake}, nil
}

// greeted is a connection of handshakes.
type greeted struct {
	net.Conn
	left      int         // bytes, before the first request
	requested atomic.Bool // one has begun
}

func (c *greeted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.requested.Load() {
		return n, err
	}
	if c.left -= n; c.left < 0 {
		return 0, errHandshake
	}
	return n, err
}

// CloseWrite is what a server does before it closes a connection of which it has not read all, so that its
// answer is read.
func (c *greeted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// requested takes note that a request has begun on a connection.
func requested(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*greeted); ok {
		c.requested.Store(true)
	}
}
