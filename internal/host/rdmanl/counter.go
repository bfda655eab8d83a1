// SPDX-License-Identifier: Apache-2.0

package rdmanl

// Counter is one counter of a port, as under hw_counters in sysfs.
type Counter struct {
	Name  string // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME; nothing keeps a driver from using one twice
	Value uint64 // RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE
}

// Counters reads all counters of a port in the driver's order (RDMA_NLDEV_CMD_STAT_GET). The driver reads the whole
// set from its hardware once, where sysfs on mlx5 makes it do so for each file; optional counters that the
// administrator turned on are only here. Values of queue pairs that are counted apart are included.
func (c *Client) Counters(device, port uint32) ([]Counter, error) {
	return get(c, cmdStatGet, decodeCounters, device, port)
}

// decodeCounters reads what stat_get_doit_default_counter of drivers/infiniband/core/nldev.c writes.
func decodeCounters(b []byte) ([]Counter, error) {
	return decodeCounterTable(b, func(d *decoder, b []byte) Counter {
		var v Counter
		for a, data := range d.attributes(b, attrStatHWCounterName, attrStatHWCounterValue) {
			switch a {
			case attrStatHWCounterName:
				v.Name = d.text(a, data)
			case attrStatHWCounterValue:
				v.Value = d.u64(a, data)
			}
		}
		return v
	})
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
	return get(c, cmdStatGetStatus, decodeCounterStatus, device, port)
}

// decodeCounterStatus reads what nldev_stat_get_counter_status_doit of drivers/infiniband/core/nldev.c writes.
func decodeCounterStatus(b []byte) ([]CounterStatus, error) {
	return decodeCounterTable(b, func(d *decoder, b []byte) CounterStatus {
		v := CounterStatus{Enabled: true}
		for a, data := range d.attributes(b, attrStatHWCounterName, attrStatHWCounterIndex) {
			switch a {
			case attrStatHWCounterName:
				v.Name = d.text(a, data)
			case attrStatHWCounterIndex:
				v.Index = d.u32(a, data)
			case attrStatHWCounterDynamic:
				v.Optional, v.Enabled = true, d.flag(a, data)
			}
		}
		return v
	})
}

// decodeCounterTable reads RDMA_NLDEV_ATTR_STAT_HWCOUNTERS with the RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY in it.
func decodeCounterTable[T any](b []byte, entry func(*decoder, []byte) T) ([]T, error) {
	const smallest = 24 // bytes of an entry
	var d decoder
	var list []T
	for a, table := range d.attributes(b, attrStatHWCounters) {
		if a != attrStatHWCounters {
			continue
		}
		list = make([]T, 0, len(table)/smallest)
		for a, data := range d.attributes(table) {
			if a == attrStatHWCounterEntry {
				list = append(list, entry(&d, data))
			}
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	return list, nil
}
