// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Conn is a connection after its handshake. All methods may be called from any goroutine; Receive by one at a time.
type Conn struct {
	conn net.Conn
	key  []byte

	in       uint64 // number of the next frame; of the receiver
	from, to byte   // directions

	mu  sync.Mutex
	out uint64
}

const (
	fromLeader = 'L'
	fromNode   = 'N'
	nonceSize  = 32
	macSize    = sha256.Size
)

// challenge is the first frame, of the leader; welcome the third.
type challenge struct {
	Protocol int    `json:"protocol"`
	Nonce    []byte `json:"nonce"`
}

type greeting struct {
	Hello json.RawMessage `json:"hello"`
	MAC   []byte          `json:"mac"`
}

type welcome struct {
	MAC     []byte `json:"mac,omitempty"`
	Refused string `json:"refused,omitempty"` // in words that are safe to show to anyone
}

func nonce() []byte {
	n := make([]byte, nonceSize)
	_, _ = rand.Read(n) // never fails
	return n
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(p))) // never fails, nor does the next
		h.Write(p)
	}
	return h.Sum(nil)
}

// Accept does the leader's part of the handshake. The error may be a *Refused, of which the other side is told the
// reason.
func Accept(conn net.Conn, secret []byte, size int) (*Conn, *Hello, error) {
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	ours := nonce()
	c, h, err := accept(conn, secret, size, ours)
	if err != nil {
		_ = writeJSON(conn, welcome{Refused: string(ReasonOf(err))})
		return nil, nil, late(err)
	}
	if err := writeJSON(conn, welcome{MAC: mac(secret, []byte("leader"), h.Nonce, ours)}); err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return c, h, nil
}

func accept(conn net.Conn, secret []byte, size int, ours []byte) (*Conn, *Hello, error) {
	if err := writeJSON(conn, challenge{Protocol, ours}); err != nil {
		return nil, nil, err
	}
	var g greeting
	if err := readJSON(conn, &g); err != nil {
		return nil, nil, err
	}
	if !hmac.Equal(g.MAC, mac(secret, []byte("node"), ours, g.Hello)) {
		return nil, nil, refused(ReasonSecret, "it does not have the secret of this run")
	}
	h := new(Hello)
	if err := json.Unmarshal(g.Hello, h); err != nil || h.Protocol != Protocol { // another one may have other fields
		return nil, nil, refused(ReasonVersion, "protocol %d of %.40q, expected %d", h.Protocol, h.Program, Protocol)
	}
	if err := strictly(g.Hello, h); err != nil {
		return nil, nil, err
	}
	if len(h.Nonce) != nonceSize {
		return nil, nil, refused(ReasonField, "a nonce of %d bytes", len(h.Nonce))
	}
	if err := h.Check(size); err != nil {
		return nil, nil, err
	}
	return newConn(conn, secret, ours, h.Nonce, fromNode, fromLeader), h, nil
}

// Greet does the node's part.
func Greet(conn net.Conn, secret []byte, h Hello) (*Conn, error) {
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	var c challenge
	if err := readJSON(conn, &c); err != nil {
		return nil, late(err)
	}
	if len(c.Nonce) != nonceSize { // another protocol is for the leader to refuse, who counts
		return nil, refused(ReasonField, "a nonce of %d bytes", len(c.Nonce))
	}
	h.Protocol, h.Nonce = Protocol, nonce()
	hello, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if err := writeJSON(conn, greeting{hello, mac(secret, []byte("node"), c.Nonce, hello)}); err != nil {
		return nil, err
	}
	var w welcome
	if err := readJSON(conn, &w); err != nil {
		return nil, late(err)
	}
	if why := Reason(w.Refused); slices.Contains(Reasons(), why) { // who says it need not be the leader
		return nil, refused(why, "said by the leader")
	}
	if !hmac.Equal(w.MAC, mac(secret, []byte("leader"), h.Nonce, c.Nonce)) {
		return nil, refused(ReasonSecret, "the leader does not have the secret of this run")
	}
	_ = conn.SetDeadline(time.Time{})
	return newConn(conn, secret, c.Nonce, h.Nonce, fromLeader, fromNode), nil
}

func late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refused(ReasonLate, "no handshake within %s", handshakeLimit)
	}
	return err
}

func newConn(conn net.Conn, secret, leader, node []byte, from, to byte) *Conn {
	return &Conn{conn: conn, key: mac(secret, []byte("frames"), leader, node), from: from, to: to}
}

// Close ends the connection.
func (c *Conn) Close() { c.conn.Close() }

// Peer is the address of the other side.
func (c *Conn) Peer() string { return c.conn.RemoteAddr().String() }

func (c *Conn) seal(direction byte, number uint64, payload []byte) []byte {
	return mac(c.key, []byte{direction}, binary.BigEndian.AppendUint64(nil, number), payload)
}

// Send sends a message. Who does not take it within the time of a silence is lost.
func (c *Conn) Send(m Message) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(silence))
	err = writeFrame(c.conn, append(payload, c.seal(c.to, c.out, payload)...), frameMost)
	c.out++
	if err != nil {
		c.conn.Close() // half a frame may be on the way
	}
	return err
}

// Receive returns the next message that is not a beat.
func (c *Conn) Receive() (Message, error) {
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(silence))
		frame, err := readFrame(c.conn, frameMost)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return Message{}, fmt.Errorf("silent for %s: %w", silence, err)
		}
		if err != nil {
			return Message{}, err
		}
		m, err := c.open(frame)
		if err != nil || m.Beat == nil {
			return m, err
		}
	}
}

// open checks a frame and reads it.
func (c *Conn) open(frame []byte) (Message, error) {
	var m Message
	at := len(frame) - macSize
	if at < 0 || !hmac.Equal(frame[at:], c.seal(c.from, c.in, frame[:at])) {
		return m, refused(ReasonSecret, "a frame that the other side did not send")
	}
	c.in++
	if err := strictly(frame[:at], &m); err != nil {
		return m, err
	}
	return m, m.check()
}

// Beat sends beats until ctx ends or the other side is gone.
func (c *Conn) Beat(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		if c.Send(Message{Beat: &struct{}{}}) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func strictly(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return refused(ReasonField, "%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refused(ReasonField, "something follows the message")
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, payload, helloMost)
}

func readJSON(r io.Reader, v any) error {
	payload, err := readFrame(r, helloMost)
	if err != nil {
		return err
	}
	return strictly(payload, v)
}

// writeFrame writes the length of a payload and the payload at once.
func writeFrame(w io.Writer, payload []byte, most int) error {
	if len(payload) > most {
		return refused(ReasonField, "a frame of %d bytes, expected at most %d", len(payload), most)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

func readFrame(r io.Reader, most int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > uint32(most) {
		return nil, refused(ReasonField, "a frame of %d bytes, expected at most %d", n, most)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(r, payload)
	return payload, err
}
