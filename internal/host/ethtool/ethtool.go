// SPDX-License-Identifier: Apache-2.0

// Package ethtool reads counters and link settings from the drivers of network interfaces: statistics
// under the driver's own names and the name of the driver through SIOCETHTOOL (linux/ethtool.h), pause and
// forward error correction through ethtool netlink (linux/ethtool_netlink.h), which alone has their counts in
// one form for all drivers. It needs no privilege and sends requests that read, never another.
//
// Names of statistics are a list that may change at any time: mlx5 has the pause counters of those priorities only
// that have PFC, so that moving PFC from one priority to another gives a list of the same length with other names.
// A value is therefore returned only if the list of names was the same, byte for byte, before and after it was read
// (statistics.go). Answers can be recorded, and replayed where there is no such kernel (recording.go).
//
// Concurrency: calls of one Client wait for each other, except Commands and Close. Every call takes the kernel's rtnl
// lock, under which drivers wait for their firmware, and may hang as long as they do; nothing here sets deadlines.
// The sockets belong to the network namespace in which Open was called; they keep no module loaded. Ask only about
// interfaces that are there: for another name, the kernel of a process with CAP_NET_ADMIN looks for a module that
// could bring it (dev_load), as it does for ifconfig.
//
// Errors: an error number of the kernel is found with errors.Is. ENODEV says that the interface is gone,
// errors.ErrUnsupported that its driver has no such thing. Those that are not answers of the kernel are ErrChanging,
// ErrMissing and ErrNoSocket, and ErrMalformed and ErrBroken of package netlink. After the last, the next call opens
// another socket.
package ethtool

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// The errors that are not answers of the kernel.
var (
	// ErrChanging means that the list of statistics was another one after each attempt to read it.
	ErrChanging = errors.New("list of statistics keeps changing")
	// ErrMissing means that this kernel has no ethtool netlink; it came with 5.6.
	ErrMissing = fabric.Because(fabric.ReasonMissing, "no ethtool netlink in this kernel")
	// ErrNoSocket means that the socket of netlink could not be opened.
	ErrNoSocket = errors.New("no socket of generic netlink")
)

// Client asks about the network interfaces of the network namespace in which it was opened.
type Client struct {
	mu     sync.Mutex
	kernel kernel // nil after Close
	names  []byte // struct ethtool_gstrings: what the last ETHTOOL_GSTRINGS said
	values []byte // struct ethtool_stats: what the last ETHTOOL_GSTATS said
	tables map[string]*table

	dial func() (*netlink.Conn, error)
	genl *connection // nil until it is needed, and after it broke

	asked  [numCommands]atomic.Uint64
	record func(netlink.Exchange) // nil: nothing is recorded
}

// Open returns a Client.
func Open() (*Client, error) {
	s, err := openSocket()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	c, err := newClient(s)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	return c, nil
}

// newClient returns a Client that asks k.
func newClient(k kernel) (*Client, error) {
	names, err := reserve(namesHeader + maxStatistics*nameSize)
	if err != nil {
		return nil, err
	}
	values, err := reserve(valuesHeader + maxStatistics*valueSize)
	if err != nil {
		release(names)
		return nil, err
	}
	return &Client{kernel: k, names: names, values: values, tables: map[string]*table{}, dial: dialGeneric}, nil
}

// Close ends the use of the Client. A call that hangs in a driver keeps what it has: the kernel may still write the
// answer into its memory.
func (c *Client) Close() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if c.kernel == nil {
		return
	}
	c.disconnect()
	c.kernel.close()
	release(c.names)
	release(c.values)
	c.kernel, c.names, c.values, c.tables = nil, nil, nil, nil
}

// errClosed is why a closed Client answers nothing.
var errClosed = fmt.Errorf("ethtool: %w", os.ErrClosed)

// What is counted.
const (
	countValues = iota
	countNames
	countPause
	countFEC
	countLink
	numCommands
)

// Commands counts what drivers were asked.
func (c *Client) Commands() fabric.Commands {
	return fabric.Commands{
		fabric.CommandNetStats: c.asked[countValues].Load(),
		fabric.CommandNetNames: c.asked[countNames].Load(),
		fabric.CommandPause:    c.asked[countPause].Load(),
		fabric.CommandFEC:      c.asked[countFEC].Load(),
		fabric.CommandLink:     c.asked[countLink].Load(),
	}
}
