// SPDX-License-Identifier: Apache-2.0

// Package rdmanl asks the kernel's RDMA core over NETLINK_RDMA (include/uapi/rdma/rdma_netlink.h) what sysfs tells
// only at a high price or not at all: all counters of a port in one request, the state of a port with a single
// ib_query_port, how many queue pairs and memory regions a device has, and the mode of network namespaces. It needs
// no privilege and sends commands that read, never another.
//
// Asking and decoding are apart: rdmanl.go sends requests, the decode functions are pure and take the bytes of one
// message. Answers can be recorded, and replayed where there is no such kernel.
//
// A socket keeps the module ib_core loaded, and an operator who restarts the drivers must be able to unload it: dial
// for one round of questions, and close.
//
// Concurrency: a Client serves one goroutine at a time; only Close and Requests may be called from another one. The
// kernel answers within sendmsg(2), so a call may hang as long as the driver does (mlx5 waits up to 60 s for its
// firmware), and nothing here sets deadlines. Close ends a call that waits for an answer. It cannot end one that
// hangs in the driver, and waits for it: leave such a Client alone. Clients do not wait for each other, unless two
// read the counters of one port.
//
// Errors: an error number of the kernel is found with errors.Is. EINVAL is its answer for a device or a port that is
// not there (any more), for a driver without counters, for a driver that failed to read them, and for a command that
// it does not know; EMSGSIZE says that the counters do not fit into its one message, and sysfs has to be read.
// ErrMalformed, ErrInterrupted and ErrBroken are the errors of this package.
package rdmanl

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// The errors that are not answers of the kernel.
var (
	// ErrMalformed means that a reply is not what the kernel's ABI promises.
	ErrMalformed = fabric.Because(fabric.ReasonMalformed, "not what the kernel's ABI promises")
	// ErrInterrupted means that a list changed while the kernel wrote it. Asking again helps.
	ErrInterrupted = errors.New("list changed while it was read")
	// ErrBroken means that an exchange ended half-way. Answers that are still on their way could be taken for those of
	// later requests, so the Client refuses all of them: close it and dial again.
	ErrBroken = errors.New("connection is broken")
)

// bufferSize holds the largest reply: the kernel makes messages of at most 32 KiB (netlink_recvmsg).
const bufferSize = 64 << 10

// Client is a connection to the RDMA core. It sees the devices of the network namespace in which it was dialled: all
// of them while System says that namespaces share devices.
type Client struct {
	conn   *netlink.Conn
	broken bool
	sent   [lastCommand + 1]atomic.Uint64
	record func(Exchange) // nil: nobody wants to know
}

// Dial opens a connection. Call it only when /sys/class/infiniband exists: on a host without RDMA, opening the
// socket makes the kernel load ib_core.
func Dial() (*Client, error) {
	conn, err := netlink.Dial(unix.NETLINK_RDMA, &netlink.Config{MessageBufferSize: bufferSize})
	if err != nil {
		return nil, fmt.Errorf("rdmanl: %w", err)
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("rdmanl: %w", err)
	}
	return nil
}

// Requests returns how many requests of each kind ("get", "port_get", ...) the Client has sent. PORT_GET and
// STAT_GET make the driver ask its hardware, the others do not.
func (c *Client) Requests() map[string]uint64 {
	sent := map[string]uint64{}
	for _, cmd := range commands() {
		sent[cmd.kind()] = c.sent[cmd].Load()
	}
	return sent
}

// get asks a question that has one answer.
func get[T any](c *Client, cmd command, decode func([]byte) (T, error), args ...uint32) (T, error) {
	var none T
	replies, err := c.ask(encode(cmd, 0, args...))
	if err == nil && len(replies) != 1 {
		err = fmt.Errorf("%d messages, expected 1: %w", len(replies), ErrMalformed)
	}
	if err == nil {
		var v T
		if v, err = decode(replies[0].Data); err == nil {
			return v, nil
		}
	}
	return none, fmt.Errorf("rdmanl: %v: %w", cmd, err)
}

// dump asks for a list. What cannot be decoded is left out and named in the error: one device that says nonsense
// must not hide the others.
func dump[T any](c *Client, cmd command, decode func([]byte) (T, error)) ([]T, error) {
	replies, err := c.ask(encode(cmd, netlink.Dump))
	if err != nil {
		return nil, fmt.Errorf("rdmanl: %v: %w", cmd, err)
	}
	list := make([]T, 0, len(replies))
	var failed []error
	for _, m := range replies {
		v, err := decode(m.Data)
		if err != nil {
			failed = append(failed, fmt.Errorf("rdmanl: %v: %w", cmd, err))
			continue
		}
		list = append(list, v)
	}
	return list, errors.Join(failed...)
}

// ask sends a request and returns the messages of the answer.
func (c *Client) ask(request netlink.Message) ([]netlink.Message, error) {
	if c.broken {
		return nil, ErrBroken
	}
	c.sent[commandOf(request)].Add(1)
	request, err := c.conn.Send(request)
	if err != nil {
		c.broken = true
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	replies, err := c.conn.Receive()
	if err == nil {
		err = netlink.Validate(request, replies)
	}
	if err != nil {
		if !answers(err, request) {
			c.broken = true
			err = fmt.Errorf("%w: %w", ErrBroken, err)
		} else if errno, ok := errors.AsType[unix.Errno](err); ok && c.record != nil {
			c.record(recorded(request, nil, errno))
		}
		return nil, err
	}
	for _, m := range replies {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return nil, ErrInterrupted
		}
		if !isReply(m, request) {
			return nil, fmt.Errorf("message of type %d in answer to %d: %w", m.Header.Type, request.Header.Type, ErrMalformed)
		}
	}
	if c.record != nil {
		c.record(recorded(request, replies, 0))
	}
	return replies, nil
}

// answers tells whether err is the kernel's answer to the request: NLMSG_ERROR, or NLMSG_DONE with an error number.
func answers(err error, request netlink.Message) bool {
	op, ok := errors.AsType[*netlink.OpError](err)
	return ok && op.Sequence != 0 && op.Sequence == request.Header.Sequence
}
