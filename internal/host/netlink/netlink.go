// SPDX-License-Identifier: Apache-2.0

// Package netlink is what the readers over netlink (rdmanl, dcbnl, ethtool) have in common: one question and its
// answer (netlink.go), the attributes of a message (decoder.go), recordings of what a kernel answered, which can be
// replayed where there is no such kernel (recording.go), and recordings without identifiers (rewrite.go). The sockets
// are those of github.com/mdlayher/netlink.
//
// Attributes are decoded in place. The library's AttributeDecoder copies each payload and accepts an attribute with a
// length of 0: for the counters of a port that is five times the memory and ten times the time, on every scrape. A
// fuzz test compares both.
//
// Concurrency: a Conn serves one goroutine at a time; Close may be called from another one. The kernel answers within
// sendmsg(2), which no deadline of a socket reaches, so a call may last as long as a driver does, and nothing here sets
// deadlines. Close ends a call that waits for an answer; it waits for one that is still in sendmsg(2).
//
// Errors: an error number of the kernel is found with errors.Is. ErrMalformed, ErrInterrupted and ErrBroken are the
// errors that are not answers of the kernel.
package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/mdlayher/netlink"

	"gpufabric_exporter/internal/fabric"
)

// The errors that are not answers of the kernel.
var (
	// ErrMalformed means that a reply is not what the kernel's ABI promises.
	ErrMalformed = fabric.Because(fabric.ReasonMalformed, "not what the kernel's ABI promises")
	// ErrInterrupted means that a list changed while the kernel wrote it. Asking again helps.
	ErrInterrupted = errors.New("list changed while it was read")
	// ErrBroken means that an exchange ended half-way. Answers that are still on their way could be taken for those of
	// later requests, so the Conn refuses all of them: close it and dial again.
	ErrBroken = fabric.Because(fabric.ReasonIO, "connection is broken")
)

type (
	// Message is one of the library.
	Message = netlink.Message
	// Header is that of a Message.
	Header = netlink.Header
	// HeaderType says what a Message is.
	HeaderType = netlink.HeaderType
	// HeaderFlags say how a request is to be answered.
	HeaderFlags = netlink.HeaderFlags
)

// Flags of a request: all have the first, and a list has the second.
const (
	Request = netlink.Request
	Dump    = netlink.Dump
)

// Question is a request with what its answer must be.
type Question struct {
	Command string // its name, in errors and recordings
	NetDev  string // the network interface that it is about; empty: the request names its subject
	Message Message
	Alias   HeaderType // what messages of the answer may call themselves, if not as the request does; 0: nothing

	// Generic is the command in the answer of generic netlink. Its header (struct genlmsghdr) is taken off the answer. 0
	// is for other protocols.
	Generic uint8

	Sent *atomic.Uint64 // counts the requests that were sent; nil: they are not counted
}

// String returns the interface and the command, as errors begin.
func (q Question) String() string {
	if q.NetDev == "" {
		return q.Command
	}
	return q.NetDev + ": " + q.Command
}

// Conn is a connection to a part of the kernel, or to a recording of one.
type Conn struct {
	name     string // of the package that asks, as errors begin
	socket   *netlink.Conn
	recorded *recording // nil: there is a socket
	broken   bool
	record   func(Exchange) // nil: nothing is recorded
}

// Dial opens a connection to a protocol (NETLINK_...). Answers have at most so many bytes a datagram.
func Dial(name string, protocol, size int) (*Conn, error) {
	socket, err := netlink.Dial(protocol, &netlink.Config{MessageBufferSize: size})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return New(name, socket), nil
}

// New returns a connection over a socket.
func New(name string, socket *netlink.Conn) *Conn { return &Conn{name: name, socket: socket} }

// Close closes the connection.
func (c *Conn) Close() error {
	if c.socket == nil {
		return nil
	}
	if err := c.socket.Close(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// Broken reports whether every further question would fail with ErrBroken.
func (c *Conn) Broken() bool { return c.broken }

// Record calls f with every exchange from now on that the kernel brought to its end.
func (c *Conn) Record(f func(Exchange)) { c.record = f }

// Get asks a question that has one answer.
func Get[T any](c *Conn, q Question, decode func([]byte) (T, error)) (T, error) {
	replies, err := c.Ask(q)
	if err == nil {
		var v T
		if v, err = decode(replies[0].Data); err == nil {
			return v, nil
		}
	}
	var none T
	return none, c.Failed(q, err)
}

// List asks a question that has a list as its answer, with the flag Dump. What cannot be decoded is left out
// and named in the error: one device with a malformed answer does not hide the others.
func List[T any](c *Conn, q Question, decode func([]byte) (T, error)) ([]T, error) {
	replies, err := c.Ask(q)
	if err != nil {
		return nil, c.Failed(q, err)
	}
	list := make([]T, 0, len(replies))
	var failed []error
	for _, m := range replies {
		v, err := decode(m.Data)
		if err != nil {
			failed = append(failed, c.Failed(q, err))
			continue
		}
		list = append(list, v)
	}
	return list, errors.Join(failed...)
}

// Failed returns the error of a question with its interface and its command.
func (c *Conn) Failed(q Question, err error) error { return fmt.Errorf("%s: %v: %w", c.name, q, err) }

// Ask sends a request and returns the messages of the answer: exactly one, unless the request is for a list.
func (c *Conn) Ask(q Question) ([]Message, error) {
	if c.broken {
		return nil, ErrBroken
	}
	if q.Sent != nil {
		q.Sent.Add(1)
	}
	replies, err := c.exchange(q)
	if err == nil {
		err = q.check(replies)
	}
	if c.record != nil {
		c.note(q, replies, err)
	}
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// exchange sends the request. An exchange that ends half-way breaks the connection.
func (c *Conn) exchange(q Question) ([]Message, error) {
	if c.recorded != nil {
		return c.recorded.answer(q)
	}
	request, err := c.socket.Send(q.Message)
	if err != nil {
		c.broken = true
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	replies, err := c.socket.Receive()
	if err == nil {
		err = netlink.Validate(request, replies)
	}
	if err != nil && !isAnswer(err, request) {
		c.broken = true
		err = fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return replies, err
}

// isAnswer reports whether err is the kernel's answer to the request: NLMSG_ERROR, or NLMSG_DONE with an error number.
func isAnswer(err error, request Message) bool {
	op, ok := errors.AsType[*netlink.OpError](err)
	return ok && op.Sequence != 0 && op.Sequence == request.Header.Sequence
}

const genericHeader = 4 // bytes of struct genlmsghdr: command, version, reserved

// check looks whether the messages are an answer to the question, and takes the header of generic netlink off them.
func (q Question) check(replies []Message) error {
	if n := len(replies); n != 1 && q.Message.Header.Flags&Dump == 0 {
		return Malformed("%d messages, expected 1", n)
	}
	for i, m := range replies {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return ErrInterrupted
		}
		if t := m.Header.Type; t != q.Message.Header.Type && (t != q.Alias || t == 0) {
			return Malformed("message of type %d, expected %d", t, q.Message.Header.Type)
		}
		if q.Generic == 0 {
			continue
		}
		if len(m.Data) < genericHeader || m.Data[0] != q.Generic {
			return Malformed("message that begins with %#x, expected command %d", m.Data[:min(len(m.Data), genericHeader)],
				q.Generic)
		}
		replies[i].Data = m.Data[genericHeader:]
	}
	return nil
}

// Malformed returns an error that is ErrMalformed, with what was read and what was expected.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrMalformed)
}

// note records what the kernel answered. Half an answer is none.
func (c *Conn) note(q Question, replies []Message, err error) {
	e := Exchange{Command: q.Command, NetDev: q.NetDev}
	if q.NetDev == "" {
		e.Request = bytes.Clone(q.Message.Data)
	}
	if err != nil {
		var ok bool
		if e.Errno, ok = errors.AsType[syscall.Errno](err); !ok || c.broken {
			return
		}
		replies = nil
	}
	e.setMessages(replies)
	c.record(e)
}
