// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"fmt"
	"time"

	"github.com/mdlayher/netlink"

	"gpufabric_exporter/internal/fabric"
)

// ErrTooLong means that the kernel writes a list for longer than the caller listens. What came before was visited. The
// Conn is closed: the rest of the list is not read from the kernel.
var ErrTooLong = fabric.Because(fabric.ReasonTimeout, "longer than is listened to")

// lookEvery is the number of messages after which Each looks at the clock.
const lookEvery = 256

// Each asks a question that has a list as its answer, and calls visit with the payload of each message, which is valid
// until visit returns. Unlike List, it holds one datagram in memory at a time, so that a list may have any
// length. It takes no longer than within; then, or with an error of visit, it closes the Conn and returns
// ErrTooLong or that error.
func (c *Conn) Each(q Question, within time.Duration, visit func(data []byte) error) error {
	if c.broken {
		return c.Failed(q, ErrBroken)
	}
	if q.Sent != nil {
		q.Sent.Add(1)
	}
	var kept []Message // only for a recording
	n, until := 0, time.Now().Add(within)
	see := func(m Message) error {
		if err := q.check([]Message{m}); err != nil {
			return err
		}
		if n++; n%lookEvery == 0 && time.Now().After(until) {
			return fmt.Errorf("%d messages in %s: %w", n, within, ErrTooLong)
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
