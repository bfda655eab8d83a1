// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// nic is what the fake kernel knows of an interface.
type nic struct {
	index  uint32
	names  []string // longer ones than 32 bytes are cut, without a NUL at the end
	values []uint64 // by position
	err    error    // what each request is answered with
}

// fakeKernel answers like dev_ethtool of net/ethtool/ioctl.c.
type fakeKernel struct {
	nics    map[string]*nic
	old     bool                             // does not check the size in the request
	before  func(cmd command, netdev string) // called before each request is answered
	counted uint32                           // if not 0, what ETHTOOL_GSSET_INFO says
	calls   []command
	closed  int
}

func (k *fakeKernel) close() { k.closed++ }

func (k *fakeKernel) index(netdev string) (uint32, error) {
	n := k.nics[netdev]
	if n == nil {
		return 0, unix.ENODEV
	}
	return n.index, nil
}

func (k *fakeKernel) ethtool(netdev string, b []byte) error {
	cmd := command(binary.NativeEndian.Uint32(b))
	k.calls = append(k.calls, cmd)
	if k.before != nil {
		k.before(cmd, netdev)
	}
	n := k.nics[netdev]
	switch {
	case n == nil:
		return unix.ENODEV
	case n.err != nil:
		return n.err
	}
	count := uint32(len(n.names))
	// accepts reports whether answers are written, and writes how many there are.
	accepts := func(at int) bool {
		expected := binary.NativeEndian.Uint32(b[at:])
		if !k.old && expected != 0 && expected != count {
			binary.NativeEndian.PutUint32(b[at:], 0)
			return false
		}
		binary.NativeEndian.PutUint32(b[at:], count)
		return true
	}
	switch cmd {
	case cmdCounts:
		if count == 0 {
			binary.NativeEndian.PutUint64(b[8:], 0)
			break
		}
		if k.counted != 0 {
			count = k.counted
		}
		binary.NativeEndian.PutUint32(b[16:], count)
	case cmdNames:
		if accepts(8) {
			for i, name := range n.names {
				field := b[namesHeader+i*nameSize:][:nameSize]
				clear(field)
				copy(field, name)
			}
		}
	case cmdValues:
		if accepts(4) {
			for i, v := range n.values {
				binary.NativeEndian.PutUint64(b[valuesHeader+i*valueSize:], v)
			}
		}
	case cmdDriverInfo:
		for i, field := range []string{"mlx5_core", "6.1.0", "28.39.1002 (MT_0000000838)", "0000:1a:00.0"} {
			copy(b[4+i*driverInfoField:], field)
		}
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

// client returns a Client of a kernel, and that it is closed when the test ends.
func client(tb testing.TB, k kernel) *Client {
	tb.Helper()
	c, err := newClient(k)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// hca is an interface like that of a ConnectX-7 with PFC for one priority.
func hca(index uint32, pfc string) *nic {
	return &nic{
		index: index,
		names: []string{
			"rx_packets", "rx_prio" + pfc + "_pause", "rx_prio" + pfc + "_pause_duration", "tx_prio" + pfc + "_pause", "ch0_events",
		},
		values: []uint64{1, 2, 3, 4, 5},
	}
}

func all(string) bool { return true }

// now is when the tests read.
func now() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// pairs returns names and values.
func pairs(list []fabric.Counter) map[string]uint64 {
	m := map[string]uint64{}
	for _, c := range list {
		m[c.Name] = c.Value.Value
	}
	return m
}

// count returns how often a command was asked since the last look.
func (k *fakeKernel) count() map[command]int {
	m := map[command]int{}
	for _, cmd := range slices.Clip(k.calls) {
		m[cmd]++
	}
	k.calls = nil
	return m
}
