// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "gpufabric_exporter/internal/host/netlink"

// DeviceResources says how much of what is in use on a device, by all processes and the kernel itself.
type DeviceResources struct {
	Index  uint32 // RDMA_NLDEV_ATTR_DEV_INDEX
	Name   string // RDMA_NLDEV_ATTR_DEV_NAME
	Totals []Resource
}

// Resource is how many objects of a kind there are: pd, cq, qp, cm_id, mr, ctx, srq, in the kernel's order.
type Resource struct {
	Kind  string // RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME
	Count uint64 // RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR
}

// Count returns how many objects of a kind there are, and whether the kernel counts them.
func (r DeviceResources) Count(kind string) (uint64, bool) {
	for _, t := range r.Totals {
		if t.Kind == kind {
			return t.Count, true
		}
	}
	return 0, false
}

// Resources counts the resources of all devices in one request (RDMA_NLDEV_CMD_RES_GET). The kernel counts its own
// records; no driver is asked. What is said of Devices about lists holds here too.
func (c *Client) Resources() ([]DeviceResources, error) {
	return netlink.List(c.conn, c.about(cmdResGet, netlink.Dump), decodeResources)
}

// decodeResources reads what fill_res_info of drivers/infiniband/core/nldev.c writes.
func decodeResources(b []byte) (DeviceResources, error) {
	d := netlink.Decode(b, attributeName)
	var v DeviceResources
	for d.Next() {
		switch d.Type() {
		case attrDevIndex:
			v.Index = d.Uint32()
		case attrDevName:
			v.Name = d.Text()
		case attrResSummary:
			summary := d.Nest(attributeName)
			for summary.Next() {
				if summary.Type() == attrResSummaryEntry {
					entry := summary.Nest(attributeName)
					v.Totals = append(v.Totals, decodeResource(&entry))
				}
			}
		}
	}
	d.Require(attrDevIndex, attrDevName, attrResSummary)
	if err := d.Err(); err != nil {
		return DeviceResources{}, err
	}
	return v, nil
}

func decodeResource(d *netlink.Decoder) Resource {
	var v Resource
	for d.Next() {
		switch d.Type() {
		case attrResSummaryEntryName:
			v.Kind = d.Text()
		case attrResSummaryEntryCurr:
			v.Count = d.Uint64()
		}
	}
	d.Require(attrResSummaryEntryName, attrResSummaryEntryCurr)
	return v
}
