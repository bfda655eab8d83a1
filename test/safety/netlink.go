// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package safety

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reads are the messages that only read: by protocol, type and, for DCB and generic netlink, command. The
// type RTM_GETDCB alone is not enough, because the kernel also executes commands that write in such a
// message.
var reads = map[int]map[uint16]map[uint8]string{
	unix.NETLINK_ROUTE: {
		unix.RTM_GETLINK: {0: "RTM_GETLINK"}, unix.RTM_GETADDR: {0: "RTM_GETADDR"}, unix.RTM_GETROUTE: {0: "RTM_GETROUTE"},
		unix.RTM_GETNEIGH: {0: "RTM_GETNEIGH"},
		unix.RTM_GETDCB:   {21: "DCB_CMD_IEEE_GET", 26: "DCB_CMD_CEE_GET"},
	},
	unix.NETLINK_RDMA: {
		nldev + 1: {0: "RDMA_NLDEV_CMD_GET"}, nldev + 5: {0: "RDMA_NLDEV_CMD_PORT_GET"}, nldev +
			6: {0: "RDMA_NLDEV_CMD_SYS_GET"}, nldev + 12: {0: "RDMA_NLDEV_CMD_RES_CQ_GET"},
		nldev + 13: {0: "RDMA_NLDEV_CMD_RES_MR_GET"}, nldev + 14: {0: "RDMA_NLDEV_CMD_RES_PD_GET"}, nldev +
			17: {0: "RDMA_NLDEV_CMD_STAT_GET"}, nldev + 22: {0: "RDMA_NLDEV_CMD_RES_CTX_GET"},
	},
	unix.NETLINK_SOCK_DIAG: {unix.SOCK_DIAG_BY_FAMILY: {0: "SOCK_DIAG_BY_FAMILY"}},
	unix.NETLINK_GENERIC:   {unix.GENL_ID_CTRL: {unix.CTRL_CMD_GETFAMILY: "CTRL_CMD_GETFAMILY"}},
}

const (
	nldev     = 5 << 10 // RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, 0)
	wantName  = "ethtool"
	nameField = unix.CTRL_ATTR_FAMILY_NAME
)

// ethtool are the commands of the only family of generic netlink that may be looked up, whose type is a
// number of this boot.
var ethtool = map[uint8]string{
	unix.ETHTOOL_MSG_LINKMODES_GET: "ETHTOOL_MSG_LINKMODES_GET", unix.ETHTOOL_MSG_PAUSE_GET: "ETHTOOL_MSG_PAUSE_GET",
	unix.ETHTOOL_MSG_FEC_GET: "ETHTOOL_MSG_FEC_GET",
}

func protocolName(p int) string {
	names := map[int]string{
		unix.NETLINK_ROUTE: "route", unix.NETLINK_RDMA: "rdma", unix.NETLINK_SOCK_DIAG: "sock_diag",
		unix.NETLINK_GENERIC: "generic",
	}
	if name := names[p]; name != "" {
		return name
	}
	return strconv.Itoa(p)
}

// send allows streams, and netlink messages that only read. What is written to a file was allowed when it was
// opened, but for devices that may be opened only.
func (c *call) send() (string, error) {
	to := c.link("fd", int(int32(c.args[0])))
	switch {
	case strings.HasPrefix(to, rdmaDevice):
		return "", fmt.Errorf("write to %s: expected to open it only", to)
	case !strings.HasPrefix(to, "socket:"):
		return "write to open file or pipe", nil
	}
	domain, kind, protocol, err := c.kindOf(int(int32(c.args[0])))
	switch {
	case err != nil:
		return "", err
	case domain == unix.AF_UNIX || (domain == unix.AF_INET || domain == unix.AF_INET6) && kind == unix.SOCK_STREAM:
		return "send to a stream", nil
	case domain != unix.AF_NETLINK:
		return "", fmt.Errorf("send on a socket of family %d, type %d: expected a stream or netlink", domain, kind)
	}
	message, err := c.sent()
	if err != nil {
		return "", err
	}
	return asks(protocol, message)
}

// kindOf says what a socket is, by a copy of its descriptor.
func (c *call) kindOf(fd int) (domain, kind, protocol int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.tid))
	if err != nil {
		return 0, 0, 0, err
	}
	var group int
	_, after, _ := strings.Cut(string(status), "\nTgid:")
	if _, err := fmt.Sscan(after, &group); err != nil {
		return 0, 0, 0, err
	}
	pidfd, err := unix.PidfdOpen(group, 0)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { _ = unix.Close(pidfd) }()
	socket, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("pidfd_getfd: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	domain, e1 := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, e2 := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	protocol, e3 := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return domain, kind, protocol, errors.Join(e1, e2, e3)
}

// sent is what a call is about to send.
func (c *call) sent() ([]byte, error) {
	const most = 1 << 20
	base, count := c.args[1], uint64(1)
	switch c.number {
	case unix.SYS_WRITE, unix.SYS_SENDTO:
		return c.memory(c.args[1], int(min(c.args[2], most)))
	case unix.SYS_WRITEV:
		count = c.args[2]
	case unix.SYS_SENDMSG:
		header, err := c.memory(c.args[1], 32) // struct msghdr: the vector is its third word
		if err != nil {
			return nil, err
		}
		base, count = binary.NativeEndian.Uint64(header[16:]), binary.NativeEndian.Uint64(header[24:])
	}
	var all []byte
	for i := range min(count, unix.PathMax) {
		vector, err := c.memory(base+16*i, 16)
		if err != nil {
			return nil, err
		}
		size := binary.NativeEndian.Uint64(vector[8:])
		if size == 0 {
			continue
		}
		part, err := c.memory(binary.NativeEndian.Uint64(vector), int(min(size, most)))
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// asks returns what netlink messages request, or an error for one that is not allowed.
func asks(protocol int, messages []byte) (what string, err error) {
	order := binary.NativeEndian
	for len(messages) > 0 {
		if len(messages) < unix.SizeofNlMsghdr {
			return "", fmt.Errorf("netlink %s: %d bytes, expected a header", protocolName(protocol), len(messages))
		}
		size, kind := int(order.Uint32(messages)), order.Uint16(messages[4:])
		if size < unix.SizeofNlMsghdr || size > len(messages) {
			return "", fmt.Errorf("netlink %s: a message of %d in %d bytes", protocolName(protocol), size, len(messages))
		}
		if what, err = ask(protocol, kind, messages[unix.SizeofNlMsghdr:size]); err != nil {
			return "", err
		}
		messages = messages[min((size+3)&^3, len(messages)):]
	}
	return "netlink " + what, nil
}

func ask(protocol int, kind uint16, body []byte) (string, error) {
	var command uint8
	switch {
	case protocol == unix.NETLINK_ROUTE && kind == unix.RTM_GETDCB && len(body) > 1:
		command = body[1] // struct dcbmsg: family, command
	case protocol == unix.NETLINK_GENERIC && len(body) > 0:
		command = body[0]
	}
	what := reads[protocol][kind][command]
	if protocol == unix.NETLINK_GENERIC {
		if kind != unix.GENL_ID_CTRL {
			what = ethtool[command]
		} else if name := append([]byte(wantName), 0); len(body) < 8+len(name) ||
			binary.NativeEndian.Uint16(body[6:]) != nameField || !bytes.Equal(body[8:8+len(name)], name) {
			return "", fmt.Errorf("netlink generic: lookup of a family other than %s: %x", wantName, body)
		}
	}
	if what == "" {
		return "", fmt.Errorf("netlink %s: type %d, command %d: expected a message that only reads", protocolName(protocol),
			kind, command)
	}
	return what, nil
}
