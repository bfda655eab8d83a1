// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"cmp"

	"gpufabric_exporter/internal/host/netlink"
)

// command is an RDMA_NLDEV_CMD_... (enum rdma_nldev_command). Only commands that read are here, so that nothing else
// can be sent; a test enforces it.
type command uint16

const (
	cmdGet     command = 1
	cmdPortGet command = 5
	cmdSysGet  command = 6
	cmdCQGet   command = 12
	cmdMRGet   command = 13
	cmdPDGet   command = 14
	cmdStatGet command = 17
	cmdCtxGet  command = 22

	lastCommand = cmdCtxGet
)

func commands() []command {
	return []command{cmdGet, cmdPortGet, cmdSysGet, cmdCQGet, cmdMRGet, cmdPDGet, cmdStatGet, cmdCtxGet}
}

var commandNames = map[command]string{
	cmdGet:     "get",
	cmdPortGet: "port_get",
	cmdSysGet:  "sys_get",
	cmdCQGet:   "res_cq_get",
	cmdMRGet:   "res_mr_get",
	cmdPDGet:   "res_pd_get",
	cmdStatGet: "stat_get",
	cmdCtxGet:  "res_ctx_get",
}

// String returns the name without RDMA_NLDEV_CMD_, as in recordings.
func (c command) String() string {
	return cmp.Or(commandNames[c], "unknown")
}

// clientShift separates RDMA_NL_NLDEV, the client of the RDMA core, from the command in the type of a message
// (RDMA_NL_GET_TYPE).
const (
	nldev       = 5
	clientShift = 10
)

func (c command) header() netlink.HeaderType { return nldev<<clientShift | netlink.HeaderType(c) }

// about returns the question about everything, a device, or a device and one of its ports.
func (c *Client) about(cmd command, flags netlink.HeaderFlags, args ...uint32) netlink.Question {
	q := netlink.Question{Command: cmd.String(), Message: encode(cmd, flags, args...), Sent: &c.sent[cmd]}
	if cmd == cmdPortGet { // see nldev_port_get_doit
		q.Alias = cmdGet.header()
	}
	return q
}

// encode returns the request: args are RDMA_NLDEV_ATTR_DEV_INDEX and RDMA_NLDEV_ATTR_PORT_INDEX.
func encode(cmd command, flags netlink.HeaderFlags, args ...uint32) netlink.Message {
	m := netlink.Message{Header: netlink.Header{Type: cmd.header(), Flags: netlink.Request | flags}}
	for i, v := range args {
		m.Data = netlink.AppendUint32(m.Data, []uint16{attrDevIndex, attrPortIndex}[i], v)
	}
	return m
}
