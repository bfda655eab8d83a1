// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// command is a DCB_CMD_... (enum dcbnl_commands of linux/dcbnl.h). Only commands that read are here, so that nothing
// else can be sent: the type RTM_GETDCB alone does not make a request harmless, because the kernel executes a
// command that writes in it when the sender is privileged (dcb_doit). A test enforces it.
type command uint8

const (
	cmdIEEEGet command = 21
	cmdCEEGet  command = 26
)

func (c command) String() string {
	switch c {
	case cmdIEEEGet:
		return "DCB_CMD_IEEE_GET"
	case cmdCEEGet:
		return "DCB_CMD_CEE_GET"
	}
	return "unknown command"
}

// nest is the attribute that holds the answer to the command, with its name.
func (c command) nest() (int, string) {
	if c == cmdCEEGet {
		return attrCEE, "DCB_ATTR_CEE"
	}
	return attrIEEE, "DCB_ATTR_IEEE"
}

// messageHeader is the size of struct dcbmsg: a family, the command, and padding.
const messageHeader = 4

// about returns the question about a network interface.
func (c *Client) about(cmd command, netdev string) netlink.Question {
	return netlink.Question{
		Command: cmd.String(), NetDev: netdev, Message: encode(cmd, netdev), Sent: &c.sent,
	}
}

// encode returns the request.
func encode(cmd command, netdev string) netlink.Message {
	b := netlink.AppendText([]byte{unix.AF_UNSPEC, byte(cmd), 0, 0}, attrIfName, netdev)
	return netlink.Message{Header: netlink.Header{Type: unix.RTM_GETDCB, Flags: netlink.Request}, Data: b}
}
