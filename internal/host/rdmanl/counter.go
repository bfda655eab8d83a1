// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "gpufabric_exporter/internal/host/netlink"

// Counter is one counter of a port, as under hw_counters in sysfs.
type Counter struct {
	Name  string // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME; nothing keeps a driver from using one twice
	Value uint64 // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE
}

// Counters reads all counters of a port in the driver's order (RDMA_NLDEV_CMD_STAT_GET). The driver reads the whole
// set from its hardware once, where sysfs on mlx5 makes it do so for each file; optional counters that the
// administrator turned on are only here. Values of queue pairs that are counted apart are included.
func (c *Client) Counters(device, port uint32) ([]Counter, error) {
	return netlink.Get(c.conn, c.about(cmdStatGet, 0, device, port), decodeCounters)
}

// decodeCounters reads what stat_get_doit_default_counter of drivers/infiniband/core/nldev.c writes.
func decodeCounters(b []byte) ([]Counter, error) {
	const smallest = 24 // bytes of an entry
	d := netlink.Decode(b, attributeName)
	var list []Counter
	for d.Next() {
		if d.Type() != attrStatHWCounters {
			continue
		}
		list = make([]Counter, 0, len(d.Bytes())/smallest)
		table := d.Nest(attributeName)
		for table.Next() {
			if table.Type() != attrStatHWCounterEntry {
				continue
			}
			var v Counter
			entry := table.Nest(attributeName)
			for entry.Next() {
				switch entry.Type() {
				case attrStatHWCounterName:
					v.Name = entry.Text()
				case attrStatHWCounterValue:
					v.Value = entry.Uint64()
				}
			}
			entry.Require(attrStatHWCounterName, attrStatHWCounterValue)
			list = append(list, v)
		}
	}
	d.Require(attrStatHWCounters)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return list, nil
}
