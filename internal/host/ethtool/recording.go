// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// File is the name of a file with exchanges among those of other packages.
const File = "ethtool.json"

// Record calls f with every exchange from now on that the kernel brought to its end.
func (c *Client) Record(f func(netlink.Exchange)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record = f
	if c.genl != nil {
		c.genl.Record(c.note)
	}
}

// note records an answer about an interface.
func (c *Client) note(e netlink.Exchange) {
	if e.NetDev != "" {
		c.record(e)
	}
}

// noteStatistics records the answer to ETHTOOL_GSTATS.
func (c *Client) noteStatistics(netdev string, list []fabric.Counter, err error) {
	if c.record == nil {
		return
	}
	e := netlink.Exchange{Command: cmdValues.String(), NetDev: netdev}
	if err != nil {
		var ok bool
		if e.Errno, ok = errors.AsType[syscall.Errno](err); !ok {
			return
		}
	}
	for _, s := range list {
		e.Statistics = append(e.Statistics, netlink.Statistic{Name: s.Name, Value: s.Value.Value})
	}
	c.record(e)
}

// Rewrite returns the exchange with another name for its interface, and with no other attributes than those that
// Client reads. Of a message that is malformed nothing stays but that it is.
func Rewrite(e netlink.Exchange, name func(netdev string) string) netlink.Exchange {
	var rules netlink.Rules
	switch e.Command {
	case msgLinkModes.String():
		rules = netlink.Rules{attrSpeed: netlink.Keep}
	case msgPause.String():
		rules = netlink.Rules{
			attrPauseAuto: netlink.Keep, attrPauseRX: netlink.Keep, attrPauseTX: netlink.Keep,
			attrPauseStats: netlink.Rules{attrPauseFramesTX: netlink.Keep, attrPauseFramesRX: netlink.Keep}.Rewrite,
		}
	case msgFEC.String():
		rules = netlink.Rules{attrFECActive: netlink.Keep, attrFECStats: netlink.Rules{
			attrFECCorrected: netlink.Keep, attrFECUncorrectable: netlink.Keep, attrFECCorrectedBits: netlink.Keep,
		}.Rewrite}
	}
	return e.Rewrite(name, rules.Rewrite)
}

// Replay returns a Client of a kernel that answers as it was recorded. What was not asked then is ENODEV, as for an
// interface that is not there; a kernel that was asked nothing over netlink has no ethtool netlink.
func Replay(exchanges []netlink.Exchange) (*Client, error) {
	c, err := newClient(player(exchanges))
	if err == nil {
		c.dial = func() (*netlink.Conn, error) { return netlink.Replay(name, withFamily(exchanges), unix.ENODEV), nil }
	}
	return c, err
}

// withFamily adds the answer to the question for the family, which is not recorded.
func withFamily(exchanges []netlink.Exchange) []netlink.Exchange {
	family := netlink.Exchange{Command: msgGetFamily.String(), Request: familyRequest().Message.Data, Errno: unix.ENOENT}
	for _, m := range []message{msgLinkModes, msgPause, msgFEC} {
		if slices.ContainsFunc(exchanges, func(e netlink.Exchange) bool { return e.Command == m.String() }) {
			id := binary.NativeEndian.AppendUint16(nil, controller+1) // any number will do
			family.Errno, family.Messages = 0, []netlink.Bytes{netlink.Append(nil, attrFamilyID, id)}
		}
	}
	return append(slices.Clone(exchanges), family)
}

// player is a kernel that has nothing but recorded exchanges.
type player []netlink.Exchange

func (p player) index(netdev string) (uint32, error) {
	i := slices.IndexFunc(p, func(e netlink.Exchange) bool { return e.NetDev == netdev })
	if i < 0 {
		return 0, unix.ENODEV
	}
	return uint32(i + 1), nil
}

// ethtool answers what a Client asks to get at statistics, of which there may be more than it accepts.
func (p player) ethtool(netdev string, b []byte) error {
	e, found := netlink.Find(p, cmdValues.String(), netdev, nil)
	switch {
	case !found:
		return unix.ENODEV
	case e.Errno != 0:
		return e.Errno
	}
	n := uint32(len(e.Statistics))
	known := e.Statistics[:min(n, maxStatistics)]
	switch binary.NativeEndian.Uint32(b) {
	case uint32(cmdCounts):
		binary.NativeEndian.PutUint64(b[8:], 1<<setStatistics)
		binary.NativeEndian.PutUint32(b[16:], n)
	case uint32(cmdNames):
		binary.NativeEndian.PutUint32(b[8:], n)
		for i, s := range known {
			field := b[namesHeader+i*nameSize:][:nameSize]
			clear(field)
			copy(field, s.Name)
		}
	case uint32(cmdValues):
		binary.NativeEndian.PutUint32(b[4:], n)
		for i, s := range known {
			binary.NativeEndian.PutUint64(b[valuesHeader+i*valueSize:], s.Value)
		}
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

func (p player) close() {}
