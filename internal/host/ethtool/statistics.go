// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// The layout of the structures in linux/ethtool.h.
const (
	maxStatistics = 1 << 16 // more than any driver has; mlx5 with 8 classes on 126 channels has 38,000
	nameSize      = 32      // ETH_GSTRING_LEN
	namesHeader   = 12      // struct ethtool_gstrings: cmd, string_set, len
	valueSize     = 8
	valuesHeader  = 8  // struct ethtool_stats: cmd, n_stats
	countsSize    = 20 // struct ethtool_sset_info with one count: cmd, reserved, sset_mask, data
	setStatistics = 1  // ETH_SS_STATS
)

const (
	attempts   = 3                // how often a list that changes is read anew within one call
	rememberIt = 10 * time.Minute // how long the names of an interface are kept after the last request
)

// errChanged means that names and values do not belong together.
var errChanged = errors.New("list of statistics changed")

// Statistics returns the statistics of an interface whose names are wanted, each name once, in the driver's order. A
// name is what the driver's 32 bytes hold before the first NUL, without blanks around it; some drivers use one name
// for several statistics, of which the first counts. wanted must always say the same of a name, because it is asked
// only when names are new. A driver that has no statistics gives an error that is errors.ErrUnsupported.
//
// The price is one ETHTOOL_GSTATS and one ETHTOOL_GSTRINGS: on mlx5 about 40 commands to the firmware for the first
// and 4 for the second, and 190 KB of names with 63 channels. Counting before and after would cost mlx5 the same 4
// commands and would not see that names were exchanged for as many others. A list that is new or has changed costs
// one more ETHTOOL_GSSET_INFO and ETHTOOL_GSTRINGS.
func (c *Client) Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernel == nil {
		return nil, errClosed
	}
	for name, t := range c.tables {
		if now.Sub(t.used) > rememberIt {
			delete(c.tables, name)
		}
	}
	for range attempts {
		list, err := c.statistics(netdev, wanted, now)
		if err == nil {
			c.noteStatistics(netdev, list, nil)
			return list, nil
		}
		delete(c.tables, netdev)
		if !errors.Is(err, errChanged) {
			c.noteStatistics(netdev, nil, err)
			return nil, err
		}
	}
	return nil, fmt.Errorf("ethtool: %s: %w", netdev, ErrChanging)
}

// Instance returns the number (ifindex) of the interface that Statistics read last under a name; 0 where it
// read none, or none that answered. An interface that a driver registers again has another number.
func (c *Client) Instance(netdev string) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tables[netdev]; t != nil {
		return t.index
	}
	return 0
}

// statistics reads values between two readings of the names, of which the first may be that of the last call. Only a
// list that changed and changed back meanwhile would go unnoticed.
func (c *Client) statistics(netdev string, wanted func(string) bool, now time.Time) ([]fabric.Counter, error) {
	index, err := c.index(netdev)
	if err != nil {
		return nil, err
	}
	t := c.tables[netdev]
	if t == nil || t.index != index { // the name may have gone to another interface
		if t, err = c.newTable(netdev, index, wanted); err != nil {
			return nil, err
		}
		c.tables[netdev] = t
	}
	t.used = now
	values, err := c.readValues(netdev, len(t.names)/nameSize)
	if err != nil {
		return nil, err
	}
	names, err := c.readNames(netdev, len(t.names)/nameSize)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(names, t.names) {
		return nil, errChanged
	}
	list := make([]fabric.Counter, len(t.wanted))
	for i, s := range t.wanted {
		v := binary.NativeEndian.Uint64(values[s.at*valueSize:])
		list[i] = fabric.Counter{Name: s.name, Value: fabric.Known(v, cmdValues.String(), now)}
	}
	return list, nil
}

// table is the list of statistics of one interface.
type table struct {
	index  uint32
	names  []byte // as the kernel wrote them
	wanted []statistic
	used   time.Time
}

// statistic is a name and where its value is.
type statistic struct {
	name string
	at   int
}

func (c *Client) newTable(netdev string, index uint32, wanted func(string) bool) (*table, error) {
	n, err := c.count(netdev)
	if err != nil {
		return nil, err
	}
	names, err := c.readNames(netdev, n)
	if err != nil {
		return nil, err
	}
	return &table{index: index, names: bytes.Clone(names), wanted: choose(names, wanted)}, nil
}

// choose returns the wanted ones of names.
func choose(names []byte, wanted func(string) bool) []statistic {
	var list []statistic
	seen := map[string]bool{}
	for at := range len(names) / nameSize {
		name := text(names[at*nameSize:][:nameSize])
		if name != "" && wanted(name) && !seen[name] {
			seen[name] = true
			list = append(list, statistic{name, at})
		}
	}
	return list
}

// text returns what a fixed field of the kernel's holds.
func text(field []byte) string {
	field, _, _ = bytes.Cut(field, []byte{0})
	return string(bytes.TrimSpace(field))
}

func (c *Client) index(netdev string) (uint32, error) {
	index, err := c.kernel.index(netdev)
	if err != nil {
		return 0, fmt.Errorf("ethtool: %s: SIOCGIFINDEX: %w", netdev, err)
	}
	return index, nil
}

// count returns how many statistics there are.
func (c *Client) count(netdev string) (int, error) {
	b := make([]byte, countsSize)
	binary.NativeEndian.PutUint64(b[8:], 1<<setStatistics)
	if err := c.ioctl(cmdCounts, netdev, b); err != nil {
		return 0, err
	}
	n := binary.NativeEndian.Uint32(b[16:])
	switch {
	// to ask such a driver for values makes kernels WARN
	case binary.NativeEndian.Uint64(b[8:])&(1<<setStatistics) == 0, n == 0:
		return 0, fmt.Errorf("ethtool: %s: %v: no statistics: %w", netdev, cmdCounts, unix.EOPNOTSUPP)
	case n > maxStatistics:
		return 0, fmt.Errorf("ethtool: %s: %v: %d statistics, expected at most %d: %w", netdev, cmdCounts, n, maxStatistics,
			netlink.ErrMalformed)
	}
	return int(n), nil
}

// readNames returns the names if they are still n. They are valid until the next call.
func (c *Client) readNames(netdev string, n int) ([]byte, error) {
	binary.NativeEndian.PutUint32(c.names[4:], setStatistics)
	binary.NativeEndian.PutUint32(c.names[8:], uint32(n))
	if err := c.ioctl(cmdNames, netdev, c.names); err != nil {
		return nil, err
	}
	if binary.NativeEndian.Uint32(c.names[8:]) != uint32(n) {
		return nil, errChanged
	}
	return c.names[namesHeader:][:n*nameSize], nil
}

// readValues returns the values if they are still n; a kernel that looks at n writes none otherwise, and those of
// another interface are still there. They are valid until the next call.
func (c *Client) readValues(netdev string, n int) ([]byte, error) {
	binary.NativeEndian.PutUint32(c.values[4:], uint32(n))
	if err := c.ioctl(cmdValues, netdev, c.values); err != nil {
		return nil, err
	}
	if binary.NativeEndian.Uint32(c.values[4:]) != uint32(n) {
		return nil, errChanged
	}
	return c.values[valuesHeader:][:n*valueSize], nil
}
