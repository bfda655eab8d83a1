// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Device is an RDMA device.
type Device struct {
	Index     uint32          // RDMA_NLDEV_ATTR_DEV_INDEX. A device that is plugged in again gets another one
	Name      string          // RDMA_NLDEV_ATTR_DEV_NAME. It can be changed while the device is in use
	Ports     uint32          // RDMA_NLDEV_ATTR_PORT_INDEX: the number of the last port; the first is 1
	Firmware  string          // RDMA_NLDEV_ATTR_FW_VERSION; empty when the device has none
	NodeGUID  string          // RDMA_NLDEV_ATTR_NODE_GUID, as in sysfs: "a288:c203:0012:3456"
	ImageGUID string          // RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, likewise: the same on all functions of a card
	NodeType  fabric.NodeType // RDMA_NLDEV_ATTR_DEV_NODE_TYPE; empty for a type that is not known here
	// RDMA_NLDEV_ATTR_DEV_TYPE, Linux 6.11: it is a part of a multi-plane device, for subnet management alone
	SMI      bool
	Protocol string // RDMA_NLDEV_ATTR_DEV_PROTOCOL of the first port: ib, roce, iw, opa, usnic; may be empty
}

// Devices lists the devices (RDMA_NLDEV_CMD_GET). No driver asks its firmware for it. A device may be missing from
// the list when another one leaves at the same time. With an error that is ErrMalformed, the list holds the devices
// that could be understood.
func (c *Client) Devices() ([]Device, error) {
	return netlink.List(c.conn, c.about(cmdGet, netlink.Dump), decodeDevice)
}

// decodeDevice reads what fill_dev_info of drivers/infiniband/core/nldev.c writes.
func decodeDevice(b []byte) (Device, error) {
	d := netlink.Decode(b, attributeName)
	var v Device
	for d.Next() {
		switch d.Type() {
		case attrDevIndex:
			v.Index = d.Uint32()
		case attrDevName:
			v.Name = d.Text()
		case attrPortIndex:
			v.Ports = d.Uint32()
		case attrFWVersion:
			v.Firmware = d.Text()
		case attrNodeGUID:
			v.NodeGUID = guid(d.Uint64())
		case attrSysImageGUID:
			v.ImageGUID = guid(d.Uint64())
		case attrDevNodeType:
			v.NodeType = nodeType(d.Uint8())
		case attrDevType:
			const smi = 1 // RDMA_DEVICE_TYPE_SMI
			v.SMI = d.Uint8() == smi
		case attrDevProtocol:
			v.Protocol = d.Text()
		}
	}
	d.Require(attrDevIndex, attrDevName, attrPortIndex, attrNodeGUID, attrSysImageGUID, attrDevNodeType)
	if err := d.Err(); err != nil {
		return Device{}, err
	}
	return v, nil
}

// nodeType names an RDMA_NODE_... of rdma/ib_verbs.h.
func nodeType(code uint8) fabric.NodeType {
	names := [...]fabric.NodeType{
		1: fabric.NodeCA, fabric.NodeSwitch, fabric.NodeRouter, fabric.NodeRNIC, fabric.NodeUSNIC, fabric.NodeUSNICUDP,
		fabric.NodeUnspecified,
	}
	if int(code) < len(names) {
		return names[code]
	}
	return ""
}

// guid prints a GUID as sysfs does. The kernel sends it in host byte order, unlike anywhere else.
func guid(v uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", v>>48, v>>32&0xffff, v>>16&0xffff, v&0xffff)
}
