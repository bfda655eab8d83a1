// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"

	"github.com/mdlayher/netlink"

	"gpufabric_exporter/internal/fabric"
)

// ErrTooMany means that a list has more messages than the caller reads. What came before the bound was visited. The
// Conn is closed: the rest of the list is not read from the kernel.
var ErrTooMany = fabric.Because(fabric.ReasonMalformed, "longer than is read")

// Each asks a question that has a list as its answer, and calls visit with the payload of each message, which is valid
// until visit returns. Unlike List, it holds one datagram in memory at a time. It reads at most limit messages; with the
// limit, or an error of visit, it closes the Conn and returns ErrTooMany or that error.
func (c *Conn) Each(q Question, limit int, visit func(data []byte) error) error {
	if c.broken {
		return c.Failed(q, ErrBroken)
	}
	if q.Sent != nil {
		q.Sent.Add(1)
	}
	var kept []Message // only for a recording
	n := 0
	see := func(m Message) error {
		if err := q.check([]Message{m}); err != nil {
			return err
		}
		if n++; n > limit {
			return fmt.Errorf("more than %d messages: %w", limit, ErrTooMany)
		}
		if c.record != nil {
			kept = append(kept, m)
		}
		return visit(m.Data)
	}
	err := c.stream(q, see)
	if c.record != nil {
		c.note(q, kept, err)
	}
	if err != nil {
		return c.Failed(q, err)
	}
	return nil
}

// stream calls see with each message of the answer.
func (c *Conn) stream(q Question, see func(Message) error) error {
	if c.recorded != nil {
		replies, err := c.recorded.answer(q)
		for i := 0; err == nil && i < len(replies); i++ {
			err = see(replies[i])
		}
		return err
	}
	request, err := c.socket.Send(q.Message)
	if err != nil {
		c.broken = true
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var refused error
	for m, err := range c.socket.ReceiveIter() {
		if err == nil {
			err = netlink.Validate(request, []Message{m})
		}
		switch {
		case refused != nil: // the socket is closed
		case err != nil && isAnswer(err, request):
			return err
		case err != nil:
			refused = fmt.Errorf("%w: %w", ErrBroken, err)
		default:
			refused = see(m)
		}
		if refused != nil {
			c.broken = true
			_ = c.socket.Close() // else the iterator reads the rest of the list
			break
		}
	}
	return refused
}

// DialIn is Dial in the network namespace that a descriptor is of (/proc/PID/ns/net). It needs CAP_SYS_ADMIN: without,
// the error is a permission error. An open Conn keeps the namespace alive: close it after one round of questions.
func DialIn(name string, protocol, size, namespace int) (*Conn, error) {
	socket, err := netlink.Dial(protocol, &netlink.Config{MessageBufferSize: size, NetNS: namespace})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return New(name, socket), nil
}
