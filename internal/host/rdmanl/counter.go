// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "gpufabric_exporter/internal/host/netlink"

// Counter is one counter of a port, as under hw_counters in sysfs.
type Counter struct {
	Name  string // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME; nothing keeps a driver from using one twice
	Value uint64 // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE
}

const smallestCounter = 24 // bytes of an entry

// Counters reads all counters of a port in the driver's order (RDMA_NLDEV_CMD_STAT_GET). The driver reads the whole
// set from its hardware once, where sysfs on mlx5 makes it do so for each file; optional counters that the
// administrator turned on are only here. Values of queue pairs that are counted apart are included.
func (c *Client) Counters(device, port uint32) ([]Counter, error) {
	return netlink.Get(c.conn, c.about(cmdStatGet, 0, device, port), decodeCounters)
}

// decodeCounters reads what stat_get_doit_default_counter of drivers/infiniband/core/nldev.c writes.
func decodeCounters(b []byte) ([]Counter, error) {
	d := netlink.Decode(b, attributeName)
	var list []Counter
	for d.Next() {
		if d.Type() != attrStatHWCounters {
			continue
		}
		list = make([]Counter, 0, len(d.Bytes())/smallestCounter)
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

// CounterStatus tells of a counter whether it counts.
type CounterStatus struct {
	Name     string // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME
	Index    uint32 // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX
	Optional bool   // has RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC: counts only when the administrator wants it
	Enabled  bool   // counts, and Counters has it
}

// CounterStatus lists the counters of a port without their values (RDMA_NLDEV_CMD_STAT_GET_STATUS, since 5.16). It
// costs the driver nothing.
func (c *Client) CounterStatus(device, port uint32) ([]CounterStatus, error) {
	return netlink.Get(c.conn, c.about(cmdStatGetStatus, 0, device, port), decodeCounterStatus)
}

// decodeCounterStatus reads what nldev_stat_get_counter_status_doit of drivers/infiniband/core/nldev.c writes.
func decodeCounterStatus(b []byte) ([]CounterStatus, error) {
	return decodeCounterTable(b, func(d *netlink.Decoder) CounterStatus {
		v := CounterStatus{Enabled: true}
		for d.Next() {
			switch d.Type() {
			case attrStatHWCounterName:
				v.Name = d.Text()
			case attrStatHWCounterIndex:
				v.Index = d.Uint32()
			case attrStatHWCounterDynamic:
				v.Optional, v.Enabled = true, d.Bool()
			}
		}
		d.Require(attrStatHWCounterName, attrStatHWCounterIndex)
		return v
	})
}

// decodeCounterTable reads RDMA_NLDEV_ATTR_STAT_HWCOUNTERS with the RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY in it.
func decodeCounterTable[T any](b []byte, decode func(*netlink.Decoder) T) ([]T, error) {

	d := netlink.Decode(b, attributeName)
	var list []T
	for d.Next() {
		if d.Type() != attrStatHWCounters {
			continue
		}
		list = make([]T, 0, len(d.Bytes())/smallestCounter)
		table := d.Nest(attributeName)
		for table.Next() {
			if table.Type() == attrStatHWCounterEntry {
				entry := table.Nest(attributeName)
				list = append(list, decode(&entry))
			}
		}
	}
	d.Require(attrStatHWCounters)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return list, nil
}
