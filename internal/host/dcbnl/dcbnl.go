// SPDX-License-Identifier: Apache-2.0

// Package dcbnl asks the drivers of network interfaces, over rtnetlink, how they treat classes of traffic: priority
// flow control, transmission selection, the application priority table, receive buffers, and who sets all that (Data
// Center Bridging, net/dcb/dcbnl.c and include/uapi/linux/dcbnl.h). It needs no privilege and sends commands that
// read, never another.
//
// A driver is asked once, for all it has of IEEE 802.1Qaz; a second time, for CEE, only when it uses that older
// protocol. A driver that has no DCB at all (virtual functions, ionic, mana) leaves facts unknown, which is not "off".
//
// Asking and decoding are apart: package netlink sends requests, the decode functions are pure and take the bytes of
// one message. Answers can be recorded, and replayed where there is no such kernel.
//
// Concurrency: a Client serves one goroutine at a time; only Close and Commands may be called from another one. The
// kernel answers within sendmsg(2) and under its rtnl lock, which it shares with every change of every interface, and
// mlx5 asks its firmware some thirty times meanwhile. A call may hang as long as the lock is held, and ignores
// signals: no deadline of a socket reaches into sendmsg(2), so nothing here sets one, and Close waits for the call
// instead of ending it. Keep such calls apart from what must go on, and leave a Client alone whose call hangs. Memory
// is bounded by the receive buffer.
//
// Errors: an error number of the kernel is found with errors.Is; ENODEV says that the interface is not there (any
// more). The errors that are not answers of the kernel are those of package netlink.
package dcbnl

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// name begins every error.
const name = "dcbnl"

// File is the name of a file with exchanges among those of other packages.
const File = "dcb.json"

// bufferSize holds the largest reply, which the kernel limits to a page of at most 8 KiB (NLMSG_DEFAULT_SIZE).
const bufferSize = 16 << 10

// Client is a connection to rtnetlink. It sees the interfaces of the network namespace in which it was dialled.
type Client struct {
	conn *netlink.Conn
	sent atomic.Uint64
}

// Dial opens a connection.
func Dial() (*Client, error) {
	conn, err := netlink.Dial(name, unix.NETLINK_ROUTE, bufferSize)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Record calls f with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(netlink.Exchange)) { c.conn.Record(f) }

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is ENODEV, as for an
// interface that is not there.
func Replay(exchanges []netlink.Exchange) *Client {
	return &Client{conn: netlink.Replay(name, exchanges, unix.ENODEV)}
}

// Commands counts the questions that were asked. Where an interface has no DCB, the kernel answers for the driver.
func (c *Client) Commands() fabric.Commands {
	return fabric.Commands{fabric.CommandDCB: c.sent.Load()}
}

// Read fills in PFC, ETS, Apps, Buffers and DCBX of an interface, always all of them and nothing else. The error is
// why some of them are unknown; that a driver does not have something is none.
func (c *Client) Read(netdev string, q *fabric.QoS, now time.Time) error {
	err := c.read(cmdIEEEGet, netdev, q, now)
	if usesCEE(q) {
		// This replaces facts, and the error with them: the application table was one of CEE.
		err = c.read(cmdCEEGet, netdev, q, now)
	}
	return err
}

// usesCEE reports, by the answer to IEEE_GET, whether a driver is to be asked for CEE: it says that it uses CEE
// instead (in which case ixgbe answers IEEE_GET with zeros), or it says nothing about that and had no answer. One that
// says IEEE and has no answer failed to read it, and its CEE would be a guess: mlx5 then says that PFC is off.
func usesCEE(q *fabric.QoS) bool {
	if mode, ok := q.DCBX.Get(); ok && (mode.IEEE || mode.CEE) {
		return !mode.IEEE
	}
	none := func(r fabric.Reason) bool { return r == fabric.ReasonUnsupported }
	// The application table is the kernel's own: it is there for every driver that has DCB.
	return none(q.PFC.Reason) && none(q.ETS.Reason) && !none(q.Apps.Reason)
}

// read asks one question and decodes the answer.
func (c *Client) read(cmd command, netdev string, q *fabric.QoS, now time.Time) error {
	question := c.about(cmd, netdev)
	data, err := c.ask(question)
	if err == nil {
		err = decode(cmd, data, netdev, q, now)
	} else {
		unknown(cmd, q, fabric.ReasonOf(err), now)
	}
	// EOPNOTSUPP is no failure: the driver or the kernel has no DCB.
	if err == nil || errors.Is(err, errors.ErrUnsupported) && !c.conn.Broken() {
		return nil
	}
	return c.conn.Failed(question, err)
}

// ask returns the answer, beginning with its struct dcbmsg.
func (c *Client) ask(q netlink.Question) ([]byte, error) {
	if len(q.NetDev) == 0 || len(q.NetDev) >= unix.IFNAMSIZ || strings.Contains(q.NetDev, "\x00") {
		return nil, fmt.Errorf("%q, expected the name of an interface: %w", q.NetDev, unix.ENODEV)
	}
	replies, err := c.conn.Ask(q)
	if err != nil {
		return nil, err
	}
	return replies[0].Data, nil
}
