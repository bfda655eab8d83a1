// SPDX-License-Identifier: Apache-2.0

package rdmanl

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
	return dump(c, cmdResGet, decodeResources)
}

// decodeResources reads what fill_res_info of drivers/infiniband/core/nldev.c writes.
func decodeResources(b []byte) (DeviceResources, error) {
	var d decoder
	var v DeviceResources
	for a, data := range d.attributes(b, attrDevIndex, attrDevName, attrResSummary) {
		switch a {
		case attrDevIndex:
			v.Index = d.u32(a, data)
		case attrDevName:
			v.Name = d.text(a, data)
		case attrResSummary:
			for a, data := range d.attributes(data) {
				if a == attrResSummaryEntry {
					v.Totals = append(v.Totals, decodeResource(&d, data))
				}
			}
		}
	}
	if d.err != nil {
		return DeviceResources{}, d.err
	}
	return v, nil
}

func decodeResource(d *decoder, b []byte) Resource {
	var v Resource
	for a, data := range d.attributes(b, attrResSummaryEntryName, attrResSummaryEntryCurr) {
		switch a {
		case attrResSummaryEntryName:
			v.Kind = d.text(a, data)
		case attrResSummaryEntryCurr:
			v.Count = d.u64(a, data)
		}
	}
	return v
}
