// SPDX-License-Identifier: Apache-2.0

// Package sockdiag lists TCP sockets with what tcp_info counts, over NETLINK_SOCK_DIAG
// (include/uapi/linux/inet_diag.h). It needs no privilege for the network namespace of this process; DialIn
// asks in another one, which needs CAP_SYS_ADMIN.
//
// A list costs the kernel a walk through its table of sockets, which all network namespaces share, and for each socket
// that matches a short lock of it: some microseconds for a hundred sockets, milliseconds on a machine whose table has
// half a million slots. Established and listening sockets are asked for, no others.
//
// Where tcp_diag is a module that is not loaded, the first question makes the kernel load it, as ss(8) does.
// Loaded reports whether that would happen.
//
// Concurrency: a Client serves one goroutine at a time; only Close may be called from another one. Errors: an
// error number of the kernel is found with errors.Is; ENOENT means that it has no tcp_diag. Others are those
// of package netlink.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

const (
	name = "sockdiag"
	// getSock is TCPDIAG_GETSOCK. SOCK_DIAG_BY_FAMILY, which came later, asks for one address family: two walks
	// through the table, which has half a million slots on a node with 64 GiB of memory and more
	// (inet_diag_dump_compat of net/ipv4/inet_diag.c).
	getSock    = 18
	bufferSize = 64 << 10 // bytes; the kernel makes datagrams of 32 KiB at most

	// How long the list of a network namespace is listened to: of that of this process, which all who are in it
	// share, and of another one. It has no number of sockets that is too many: a user can make any, and they may
	// come before those of others. The kernel lists some hundred thousand in a second.
	longest      = 2 * time.Second
	longestOther = time.Second / 2
	// maxByGroup bounds what is returned of one control group.
	maxByGroup = 1 << 12
)

// Client is a connection to the kernel's list of sockets in one network namespace.
type Client struct {
	conn   *netlink.Conn
	within time.Duration
}

// Dial asks in the network namespace of this process.
func Dial() (*Client, error) {
	return client(longest)(netlink.Dial(name, unix.NETLINK_SOCK_DIAG, bufferSize))
}

// DialIn asks in the network namespace that file is of (/proc/PID/ns/net). Without CAP_SYS_ADMIN the error is
// a permission error. Close the Client after one list: it keeps the namespace alive.
func DialIn(file *os.File) (*Client, error) {
	return client(longestOther)(netlink.DialIn(name, unix.NETLINK_SOCK_DIAG, bufferSize, int(file.Fd())))
}

func client(within time.Duration) func(*netlink.Conn, error) (*Client, error) {
	return func(conn *netlink.Conn, err error) (*Client, error) {
		if err != nil {
			return nil, err
		}
		return &Client{conn, within}, nil
	}
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Sockets lists the established and the listening TCP sockets, over IPv4 and IPv6, whose inode is wanted, and
// those whose control group is: that in which the socket was made. groups may be nil; of one of them a few
// thousand are returned. It is up to wanted to bound the others.
func (c *Client) Sockets(wanted func(inode uint64) bool, groups map[uint64]bool) ([]fabric.Socket, error) {
	list := []fabric.Socket{}
	byGroup := map[uint64]int{}
	err := c.conn.Each(question(), c.within, func(b []byte) error {
		inode, ok := inodeOf(b)
		mine := !ok || wanted(inode)
		if !mine && len(groups) == 0 {
			return nil
		}
		s, err := decode(b)
		if err != nil || !mine && !groups[s.Cgroup] {
			return err
		}
		if !mine {
			if byGroup[s.Cgroup]++; byGroup[s.Cgroup] > maxByGroup {
				return nil
			}
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// InGroup lists those sockets that were made in a control group, whose inode is wanted. The kernel (Linux
// 5.9) leaves the others out, which costs it a tenth of a microsecond for each: it has an answer where
// Sockets takes too long.
func (c *Client) InGroup(group uint64, wanted func(inode uint64) bool) ([]fabric.Socket, error) {
	q := question()
	q.Message.Data = netlink.Append(q.Message.Data, attrBytecode, inGroup(group))
	list := []fabric.Socket{}
	err := c.conn.Each(q, longestOther, func(b []byte) error {
		if inode, ok := inodeOf(b); ok && !wanted(inode) {
			return nil
		}
		s, err := decode(b)
		if err == nil {
			list = append(list, s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// inGroup is the program that the kernel runs for each socket (inet_diag_bc_run): one step, after which is
// its end if the group is that one, and nothing if not.
func inGroup(group uint64) []byte {
	const ofCgroup, size = 13, 12 // INET_DIAG_BC_CGROUP_COND; struct inet_diag_bc_op and the ID
	b := binary.NativeEndian.AppendUint16([]byte{ofCgroup, size}, size+4)
	return binary.NativeEndian.AppendUint64(b, group)
}

// Attributes of an answer (INET_DIAG_...) and states of sockets (include/net/tcp_states.h).
const (
	attrBytecode = 1 // of a question
	attrInfo     = 2
	attrCgroupID = 21 // Linux 5.8

	stateEstablished = 1
	stateListen      = 10
)

// The layout of struct inet_diag_req and of struct inet_diag_msg.
const (
	requestSize = 60
	messageSize = 72

	atExtensions = 3
	atStates     = 52

	atState      = 1
	atLocalPort  = 4
	atRemotePort = 6
	atLocal      = 8
	atRemote     = 24
	atInode      = 68
)

// question asks for all TCP sockets.
func question() netlink.Question {
	b := make([]byte, requestSize)
	b[atExtensions] = 1 << (attrInfo - 1)
	binary.NativeEndian.PutUint32(b[atStates:], 1<<stateEstablished|1<<stateListen)
	return netlink.Question{Command: "tcp", Message: netlink.Message{
		Header: netlink.Header{Type: getSock, Flags: netlink.Request | netlink.Dump}, Data: b,
	}}
}

func inodeOf(b []byte) (uint64, bool) {
	if len(b) < messageSize {
		return 0, false
	}
	return uint64(binary.NativeEndian.Uint32(b[atInode:])), true
}

// The layout of struct tcp_info. Linux 4.1 and older end before.
const (
	atBytesAcked    = 120
	atBytesReceived = 128
)

// decode reads what inet_sk_diag_fill of net/ipv4/inet_diag.c writes.
func decode(b []byte) (fabric.Socket, error) {
	inode, ok := inodeOf(b)
	if !ok {
		return fabric.Socket{}, netlink.Malformed("socket of %d bytes, expected %d or more", len(b), messageSize)
	}
	v := fabric.Socket{Inode: inode}
	switch state := b[atState]; state {
	case stateListen:
		v.Listening = true
	case stateEstablished:
	default:
		return fabric.Socket{}, netlink.Malformed("socket in state %d, expected one that was asked for", state)
	}
	address := func(at int) netip.Addr {
		if b[0] == unix.AF_INET {
			return netip.AddrFrom4([4]byte(b[at:]))
		}
		return netip.AddrFrom16([16]byte(b[at:])).Unmap() // of a socket that takes IPv4, too
	}
	if family := b[0]; family != unix.AF_INET && family != unix.AF_INET6 {
		return fabric.Socket{}, netlink.Malformed("socket of address family %d, expected IPv4 or IPv6", family)
	}
	v.Local = netip.AddrPortFrom(address(atLocal), binary.BigEndian.Uint16(b[atLocalPort:]))
	v.Remote = netip.AddrPortFrom(address(atRemote), binary.BigEndian.Uint16(b[atRemotePort:]))
	d := netlink.Decode(b[messageSize:], attributeName)
	for d.Next() {
		switch d.Type() {
		case attrInfo:
			if info := d.Bytes(); !v.Listening && len(info) >= atBytesReceived+8 {
				v.Counted = true
				v.Sent = binary.NativeEndian.Uint64(info[atBytesAcked:])
				v.Received = binary.NativeEndian.Uint64(info[atBytesReceived:])
			}
		case attrCgroupID:
			v.Cgroup = d.Uint64()
		}
	}
	if err := d.Err(); err != nil {
		return fabric.Socket{}, err
	}
	return v, nil
}

func attributeName(kind uint16) string {
	switch kind {
	case attrInfo:
		return "INET_DIAG_INFO"
	case attrCgroupID:
		return "INET_DIAG_CGROUP_ID"
	}
	return ""
}

// Loaded reports whether the kernel can answer without loading a module first: it has no modules, tcp_diag is
// loaded, or it is built in. procfs and rootfs are where those of the node are.
func Loaded(procfs, rootfs string) bool {
	const limit = 4 << 20 // bytes; both files have some hundred kilobytes at most
	read := func(file string) (string, error) {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, limit))
		return string(b), err
	}
	modules, err := read(procfs + "/modules")
	if errors.Is(err, fs.ErrNotExist) || strings.Contains("\n"+modules, "\ntcp_diag ") {
		return true
	}
	release, err := read(procfs + "/sys/kernel/osrelease")
	release = strings.TrimSuffix(release, "\n")
	if err != nil || release == "" || strings.Contains(release, "/") {
		return false
	}
	builtin, err := read(rootfs + "/lib/modules/" + release + "/modules.builtin")
	return err == nil && strings.Contains(builtin, "/tcp_diag.ko")
}
