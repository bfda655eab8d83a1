// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// message is what generic netlink calls a command. Only those that read are here, so that nothing else can be sent; a
// test enforces it.
type message uint8

const (
	msgGetFamily message = 3  // CTRL_CMD_GETFAMILY, to the controller
	msgLinkModes message = 4  // ETHTOOL_MSG_LINKMODES_GET
	msgPause     message = 21 // ETHTOOL_MSG_PAUSE_GET
	msgFEC       message = 29 // ETHTOOL_MSG_FEC_GET
)

var messageNames = map[message]string{
	msgGetFamily: "CTRL_CMD_GETFAMILY",
	msgLinkModes: "ETHTOOL_MSG_LINKMODES_GET",
	msgPause:     "ETHTOOL_MSG_PAUSE_GET",
	msgFEC:       "ETHTOOL_MSG_FEC_GET",
}

// String returns the name in linux/genetlink.h or linux/ethtool_netlink.h.
func (m message) String() string {
	return cmp.Or(messageNames[m], fmt.Sprintf("message %d", uint8(m)))
}

// reply returns what the answer calls itself.
func (m message) reply() uint8 {
	switch m {
	case msgGetFamily:
		return 1 // CTRL_CMD_NEWFAMILY
	case msgLinkModes:
		return uint8(m)
	default:
		return uint8(m) + 1 // ETHTOOL_MSG_..._GET_REPLY, numbered apart
	}
}

// flags returns those of the request. The kernel refuses to be asked for statistics where there are none.
func (m message) flags() uint32 {
	if m == msgLinkModes {
		return flagCompact
	}
	return flagCompact | flagStatistics
}

const (
	familyName    = "ethtool" // ETHTOOL_GENL_NAME
	controller    = 0x10      // GENL_ID_CTRL
	headerVersion = 1         // in struct genlmsghdr, of the controller and of ethtool: ETHTOOL_GENL_VERSION

	attrFamilyID   = 1 // CTRL_ATTR_FAMILY_ID
	attrFamilyName = 2 // CTRL_ATTR_FAMILY_NAME

	attrHeader      = 1 // ETHTOOL_A_PAUSE_HEADER, ETHTOOL_A_FEC_HEADER
	attrDeviceName  = 2 // ETHTOOL_A_HEADER_DEV_NAME
	attrFlags       = 3 // ETHTOOL_A_HEADER_FLAGS
	flagCompact     = 1 // ETHTOOL_FLAG_COMPACT_BITSETS: no names for bits
	flagStatistics  = 4 // ETHTOOL_FLAG_STATS, since 5.10
	netlinkReceives = 32 << 10
)

// name begins every error.
const name = "ethtool"

// connection is a socket of generic netlink, and the number that this kernel gave to ethtool.
type connection struct {
	*netlink.Conn
	family uint16
}

func dialGeneric() (*netlink.Conn, error) {
	return netlink.Dial(name, unix.NETLINK_GENERIC, netlinkReceives)
}

// connect opens the socket that ask uses. Generic netlink belongs to the kernel proper: unlike a socket of the RDMA
// core, it may stay open.
func (c *Client) connect() error {
	if c.genl != nil {
		return nil
	}
	conn, err := c.dial()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoSocket, err)
	}
	if c.record != nil {
		conn.Record(c.note)
	}
	family, err := netlink.Get(conn, familyRequest(), decodeFamily)
	if err != nil {
		_ = conn.Close()
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("%w: %w", ErrMissing, err)
		}
		return err
	}
	c.genl = &connection{conn, family}
	return nil
}

func (c *Client) disconnect() {
	if c.genl != nil {
		_ = c.genl.Close()
		c.genl = nil
	}
}

// ask asks about an interface, and for statistics where there are some. An exchange that ends half-way takes the
// connection with it.
func ask[T any](c *Client, m message, netdev string, decode func([]byte) (T, error)) (T, error) {
	if err := c.connect(); err != nil {
		var none T
		return none, fmt.Errorf("%s: %s: %v: %w", name, netdev, m, err)
	}
	header := netlink.AppendUint32(netlink.AppendText(nil, attrDeviceName, netdev), attrFlags, m.flags())
	q := question(m, c.genl.family, netlink.Append(nil, attrHeader|netlink.Nested, header))
	q.NetDev, q.Sent = netdev, c.counter(m)
	v, err := netlink.Get(c.genl.Conn, q, decode)
	if c.genl.Broken() {
		c.disconnect()
	}
	return v, err
}

// question returns the question of a generic netlink family.
func question(m message, family uint16, attributes []byte) netlink.Question {
	return netlink.Question{
		Command: m.String(), Generic: m.reply(),
		Message: netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request},
			Data:   append([]byte{uint8(m), headerVersion, 0, 0}, attributes...),
		},
	}
}

func (c *Client) counter(m message) *atomic.Uint64 {
	switch m {
	case msgLinkModes:
		return &c.asked[countLink]
	case msgPause:
		return &c.asked[countPause]
	default:
		return &c.asked[countFEC]
	}
}

func familyRequest() netlink.Question {
	return question(msgGetFamily, controller, netlink.AppendText(nil, attrFamilyName, familyName))
}

// decodeFamily reads what ctrl_fill_info of net/netlink/genetlink.c writes.
func decodeFamily(b []byte) (uint16, error) {
	d := netlink.Decode(b, func(kind uint16) string { return nameIn([]string{attrFamilyID: "CTRL_ATTR_FAMILY_ID"}, kind) })
	var id uint16
	for d.Next() {
		if d.Type() == attrFamilyID {
			if id = d.Uint16(); id == 0 {
				d.Fail("0, expected a number of a family")
			}
		}
	}
	d.Require(attrFamilyID)
	if err := d.Err(); err != nil {
		return 0, err
	}
	return id, nil
}

// nameIn returns the name of an attribute; empty without one.
func nameIn(names []string, kind uint16) string {
	if int(kind) < len(names) {
		return names[kind]
	}
	return ""
}
