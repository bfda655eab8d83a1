// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// message is what generic netlink calls a command. Only those that read are here, so that nothing else can be sent; a
// test sees to it that it stays so.
type message uint8

const (
	msgGetFamily message = 3  // CTRL_CMD_GETFAMILY, to the controller
	msgLinkModes message = 4  // ETHTOOL_MSG_LINKMODES_GET
	msgPause     message = 21 // ETHTOOL_MSG_PAUSE_GET
	msgFEC       message = 29 // ETHTOOL_MSG_FEC_GET
)

// String returns the name in linux/genetlink.h or linux/ethtool_netlink.h.
func (m message) String() string {
	switch m {
	case msgGetFamily:
		return "CTRL_CMD_GETFAMILY"
	case msgLinkModes:
		return "ETHTOOL_MSG_LINKMODES_GET"
	case msgPause:
		return "ETHTOOL_MSG_PAUSE_GET"
	case msgFEC:
		return "ETHTOOL_MSG_FEC_GET"
	}
	return fmt.Sprintf("message %d", uint8(m))
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
	headerVersion = 1         // of the controller and of ethtool: ETHTOOL_GENL_VERSION
	headerSize    = 4         // struct genlmsghdr: cmd, version, reserved

	attrFamilyID   = 1 // CTRL_ATTR_FAMILY_ID
	attrFamilyName = 2 // CTRL_ATTR_FAMILY_NAME

	attrHeader      = 1 // ETHTOOL_A_PAUSE_HEADER, ETHTOOL_A_FEC_HEADER
	attrDeviceName  = 2 // ETHTOOL_A_HEADER_DEV_NAME
	attrFlags       = 3 // ETHTOOL_A_HEADER_FLAGS
	flagCompact     = 1 // ETHTOOL_FLAG_COMPACT_BITSETS: no names for bits
	flagStatistics  = 4 // ETHTOOL_FLAG_STATS, since 5.10
	netlinkReceives = 32 << 10
)

// connection is a socket of generic netlink, and the number that this kernel gave to ethtool.
type connection struct {
	*netlink.Conn
	family uint16
}

func dialGeneric() (*netlink.Conn, error) {
	return netlink.Dial(unix.NETLINK_GENERIC, &netlink.Config{MessageBufferSize: netlinkReceives})
}

// connect opens the socket that ask uses. Generic netlink belongs to the kernel proper: unlike a socket of the RDMA
// core, it may stay open.
func (c *Client) connect() error {
	if c.genl != nil {
		return nil
	}
	conn, err := c.dial()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	c.genl = &connection{Conn: conn}
	e := netlink.NewAttributeEncoder()
	e.String(attrFamilyName, familyName)
	family, err := exchange(c, controller, msgGetFamily, e, decodeFamily)
	switch {
	case errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("%w: %w", ErrMissing, err)
	case err == nil:
		c.genl.family = family
		return nil
	}
	c.disconnect()
	return err
}

func (c *Client) disconnect() {
	if c.genl != nil {
		_ = c.genl.Close()
		c.genl = nil
	}
}

// ask asks about an interface, and for statistics where there are some.
func ask[T any](c *Client, m message, netdev string, decode func([]byte) (T, error)) (T, error) {
	var none T
	if err := c.connect(); err != nil {
		return none, fmt.Errorf("ethtool: %s: %v: %w", netdev, m, err)
	}
	e := netlink.NewAttributeEncoder()
	e.Nested(attrHeader, func(e *netlink.AttributeEncoder) error {
		e.String(attrDeviceName, netdev)
		e.Uint32(attrFlags, m.flags())
		return nil
	})
	var answer []byte
	v, err := exchange(c, c.genl.family, m, e, func(b []byte) (T, error) {
		answer = bytes.Clone(b)
		return decode(b)
	})
	c.note(Exchange{Command: m.String(), NetDev: netdev, Answer: answer}, err)
	if err != nil {
		return none, fmt.Errorf("ethtool: %s: %v: %w", netdev, m, err)
	}
	return v, nil
}

// exchange sends a request and decodes the one message of the answer. An exchange that ends half-way takes the
// connection with it: answers that are still on their way could be taken for those of later requests.
func exchange[T any](c *Client, family uint16, m message, e *netlink.AttributeEncoder, decode func([]byte) (T, error)) (T, error) {
	var none T
	attributes, err := e.Encode()
	if err != nil {
		return none, err
	}
	switch m {
	case msgLinkModes:
		c.asked[countLink].Add(1)
	case msgPause:
		c.asked[countPause].Add(1)
	case msgFEC:
		c.asked[countFEC].Add(1)
	}
	request, err := c.genl.Send(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request},
		Data:   append([]byte{uint8(m), headerVersion, 0, 0}, attributes...),
	})
	var replies []netlink.Message
	if err == nil {
		if replies, err = c.genl.Receive(); err == nil {
			err = netlink.Validate(request, replies)
		}
	}
	if err != nil {
		if !isAnswer(err, request) {
			c.disconnect()
			err = fmt.Errorf("%w: %w", ErrBroken, err)
		}
		return none, err
	}
	if len(replies) != 1 {
		return none, fmt.Errorf("%d messages, expected 1: %w", len(replies), ErrMalformed)
	}
	r := replies[0]
	if r.Header.Type != request.Header.Type || len(r.Data) < headerSize || r.Data[0] != m.reply() {
		return none, fmt.Errorf("message of type %d, %#x, expected type %d and command %d: %w",
			r.Header.Type, r.Data[:min(len(r.Data), headerSize)], request.Header.Type, m.reply(), ErrMalformed)
	}
	return decode(r.Data[headerSize:])
}

// isAnswer tells whether err is the kernel's answer to the request: NLMSG_ERROR.
func isAnswer(err error, request netlink.Message) bool {
	op, ok := errors.AsType[*netlink.OpError](err)
	return ok && op.Sequence != 0 && op.Sequence == request.Header.Sequence
}

// decodeFamily reads what ctrl_fill_info of net/netlink/genetlink.c writes.
func decodeFamily(b []byte) (uint16, error) {
	var id uint16
	err := attributes(b, []string{attrFamilyID: "CTRL_ATTR_FAMILY_ID"}, func(d *netlink.AttributeDecoder) error {
		if d.Type() == attrFamilyID {
			id = d.Uint16()
		}
		return nil
	})
	if err == nil && id == 0 {
		err = fmt.Errorf("no CTRL_ATTR_FAMILY_ID: %w", ErrMalformed)
	}
	if err != nil {
		return 0, err
	}
	return id, nil
}

// attributes calls fn for each attribute of a message or of a nest. Errors have the names of attributes, by number.
func attributes(b []byte, names []string, fn func(*netlink.AttributeDecoder) error) error {
	d, err := netlink.NewAttributeDecoder(b)
	for err == nil && d.Next() {
		if err = fn(d); err == nil {
			err = d.Err()
		}
		if kind := int(d.Type()); err != nil && kind < len(names) {
			err = fmt.Errorf("%s: %w", names[kind], err)
		}
	}
	if err == nil {
		err = d.Err()
	}
	if err != nil && !errors.Is(err, ErrMalformed) {
		err = fmt.Errorf("%w: %w", err, ErrMalformed)
	}
	return err
}
