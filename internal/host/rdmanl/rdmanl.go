// SPDX-License-Identifier: Apache-2.0

// Package rdmanl asks the kernel's RDMA core over NETLINK_RDMA (include/uapi/rdma/rdma_netlink.h) what sysfs shows
// only at a high cost or not at all: all counters of a port in one request, the state of a port with a single
// ib_query_port, the mode of network namespaces, and which processes use verbs. It needs no privilege and
// sends commands that read, never another; RES_QP_GET is not one of them, because drivers ask their firmware
// once for each queue pair.
//
// Asking and decoding are apart: package netlink sends requests, the decode functions are pure and take the bytes of
// one message. Answers can be recorded, and replayed where there is no such kernel.
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
// The errors that are not answers of the kernel are those of package netlink.
package rdmanl

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// name begins every error.
const name = "rdmanl"

// File is the name of a file with exchanges among those of other packages.
const File = "rdma.json"

// bufferSize holds the largest reply: the kernel makes messages of at most 32 KiB (netlink_recvmsg).
const bufferSize = 64 << 10

// Client is a connection to the RDMA core. It sees the devices of the network namespace in which it was dialled: all
// of them while System says that namespaces share devices.
type Client struct {
	conn *netlink.Conn
	sent [lastCommand + 1]atomic.Uint64
}

// Dial opens a connection. Call it only when /sys/class/infiniband exists: on a host without RDMA, opening the
// socket makes the kernel load ib_core.
func Dial() (*Client, error) {
	conn, err := netlink.Dial(name, unix.NETLINK_RDMA, bufferSize)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Record calls f with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(netlink.Exchange)) { c.conn.Record(f) }

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is EINVAL, as for a
// device that is not there.
func Replay(exchanges []netlink.Exchange) *Client {
	return &Client{conn: netlink.Replay(name, exchanges, unix.EINVAL)}
}

// Requests returns how many requests of each kind ("get", "port_get", ...) the Client has sent. PORT_GET and
// STAT_GET make the driver ask its hardware, the others do not.
func (c *Client) Requests() map[string]uint64 {
	sent := map[string]uint64{}
	for _, cmd := range commands() {
		sent[cmd.String()] = c.sent[cmd].Load()
	}
	return sent
}
