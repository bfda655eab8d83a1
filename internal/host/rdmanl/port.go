// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Port is the state of a port. The kernel reports neither rate nor GIDs here.
type Port struct {
	State     fabric.PortState // RDMA_NLDEV_ATTR_PORT_STATE; empty for a state that is not known here
	PhysState fabric.PhysState // RDMA_NLDEV_ATTR_PORT_PHYS_STATE; likewise
	Subnet    *Subnet          // nil unless the port speaks the InfiniBand protocol

	// NetDev is the network interface of the port, as RDMA_NLDEV_ATTR_NDEV_INDEX and _NDEV_NAME. Both are zero when it
	// has none, and when that is in another network namespace.
	NetDevIndex uint32
	NetDev      string
}

// Subnet is what an InfiniBand port has from its subnet manager.
type Subnet struct {
	LID      uint32 // RDMA_NLDEV_ATTR_LID
	SMLID    uint32 // RDMA_NLDEV_ATTR_SM_LID
	LMC      uint8  // RDMA_NLDEV_ATTR_LMC
	CapFlags uint64 // RDMA_NLDEV_ATTR_CAP_FLAGS: CapabilityMask, from bit 32 on CapabilityMask2
	Prefix   uint64 // RDMA_NLDEV_ATTR_SUBNET_PREFIX
}

// Port asks for the state of a port of the device with that index (RDMA_NLDEV_CMD_PORT_GET). The driver answers with
// one query_port; that of many Ethernet devices other than mlx5 takes the kernel's rtnl lock (ib_get_eth_speed).
//
// There is no method for all ports of a device: the kernel ends such a list without a word at the first port that
// does not answer.
func (c *Client) Port(device, port uint32) (Port, error) {
	return netlink.Get(c.conn, c.about(cmdPortGet, 0, device, port), decodePort)
}

// decodePort reads what fill_port_info of drivers/infiniband/core/nldev.c writes.
func decodePort(b []byte) (Port, error) {
	d := netlink.Decode(b, attributeName)
	var v Port
	var subnet Subnet
	for d.Next() {
		switch d.Type() {
		case attrPortState:
			v.State = portState(d.Uint8())
		case attrPortPhysState:
			v.PhysState = physState(d.Uint8())
		case attrLID:
			subnet.LID = d.Uint32()
			v.Subnet = &subnet
		case attrSMLID:
			subnet.SMLID = d.Uint32()
		case attrLMC:
			subnet.LMC = d.Uint8()
		case attrCapFlags:
			subnet.CapFlags = d.Uint64()
		case attrSubnetPrefix:
			subnet.Prefix = d.Uint64()
		case attrNdevIndex:
			v.NetDevIndex = d.Uint32()
		case attrNdevName:
			v.NetDev = d.Text()
		}
	}
	d.Require(attrPortState, attrPortPhysState)
	if err := d.Err(); err != nil {
		return Port{}, err
	}
	return v, nil
}

func portState(code uint8) fabric.PortState {
	if names := fabric.PortStates(); int(code) < len(names) {
		return names[code]
	}
	return ""
}

func physState(code uint8) fabric.PhysState {
	if names := fabric.PhysStates(); code >= 1 && int(code) <= len(names) {
		return names[code-1]
	}
	return ""
}
