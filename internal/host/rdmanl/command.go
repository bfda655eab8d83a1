// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"encoding/binary"
	"strings"

	"github.com/mdlayher/netlink"
)

// command is an RDMA_NLDEV_CMD_... (enum rdma_nldev_command). Only commands that read are here, so that nothing else
// can be sent; a test sees to it that it stays so.
type command uint16

const (
	cmdGet           command = 1
	cmdPortGet       command = 5
	cmdSysGet        command = 6
	cmdResGet        command = 9
	cmdStatGet       command = 17
	cmdStatGetStatus command = 24

	lastCommand = cmdStatGetStatus
)

func commands() []command {
	return []command{cmdGet, cmdPortGet, cmdSysGet, cmdResGet, cmdStatGet, cmdStatGetStatus}
}

// String returns the name without RDMA_NLDEV_CMD_.
func (c command) String() string { return strings.ToUpper(c.kind()) }

// kind returns the name as a label.
func (c command) kind() string {
	switch c {
	case cmdGet:
		return "get"
	case cmdPortGet:
		return "port_get"
	case cmdSysGet:
		return "sys_get"
	case cmdResGet:
		return "res_get"
	case cmdStatGet:
		return "stat_get"
	case cmdStatGetStatus:
		return "stat_get_status"
	}
	return "unknown"
}

// clientShift separates RDMA_NL_NLDEV, the client of the RDMA core, from the command in the type of a message
// (RDMA_NL_GET_TYPE).
const (
	nldev       = 5
	clientShift = 10
)

func (c command) header() netlink.HeaderType { return nldev<<clientShift | netlink.HeaderType(c) }

func commandOf(request netlink.Message) command {
	return command(request.Header.Type & (1<<clientShift - 1))
}

// isReply tells whether a message has the type of an answer to the request. The answer to PORT_GET calls itself GET
// (nldev_port_get_doit).
func isReply(m, request netlink.Message) bool {
	t := m.Header.Type
	return t == request.Header.Type || commandOf(request) == cmdPortGet && t == cmdGet.header()
}

// encode returns the request for everything, for a device, or for a device and one of its ports: args are
// RDMA_NLDEV_ATTR_DEV_INDEX and RDMA_NLDEV_ATTR_PORT_INDEX.
func encode(cmd command, flags netlink.HeaderFlags, args ...uint32) netlink.Message {
	m := netlink.Message{Header: netlink.Header{Type: cmd.header(), Flags: netlink.Request | flags}}
	for i, v := range args {
		m.Data = binary.NativeEndian.AppendUint16(m.Data, headerSize+4)
		m.Data = binary.NativeEndian.AppendUint16(m.Data, uint16([]attr{attrDevIndex, attrPortIndex}[i]))
		m.Data = binary.NativeEndian.AppendUint32(m.Data, v)
	}
	return m
}
