// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// System is what holds for all devices.
type System struct {
	SharedNetNS bool // RDMA_NLDEV_SYS_ATTR_NETNS_MODE: every network namespace sees every device
	CopyOnFork  bool // RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: a process may fork while memory is registered; absent means no
	Monitor     bool // RDMA_NLDEV_SYS_ATTR_MONITOR_MODE: the kernel reports devices that come and go; absent means no
}

// System asks for the state of the RDMA core (RDMA_NLDEV_CMD_SYS_GET). Kernels that do not know it make it
// errors.ErrUnsupported.
func (c *Client) System() (System, error) {
	s, err := netlink.Get(c.conn, c.about(cmdSysGet, 0), decodeSystem)
	if errors.Is(err, unix.EINVAL) {
		// The request has nothing in it that could be invalid: the kernel does not know the command.
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return s, err
}

// decodeSystem reads what nldev_sys_get_doit of drivers/infiniband/core/nldev.c writes.
func decodeSystem(b []byte) (System, error) {
	d := netlink.Decode(b, attributeName)
	var v System
	for d.Next() {
		switch d.Type() {
		case attrSysNetNSMode:
			v.SharedNetNS = d.Bool()
		case attrSysCopyOnFork:
			v.CopyOnFork = d.Bool()
		case attrSysMonitorMode:
			v.Monitor = d.Bool()
		}
	}
	d.Require(attrSysNetNSMode)
	if err := d.Err(); err != nil {
		return System{}, err
	}
	return v, nil
}
