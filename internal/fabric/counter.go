// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// Counter is one counter of a device or port, under the name the kernel gives it.
type Counter struct {
	Name  string
	Value Fact[uint64] `fact:"apart"` // as the kernel prints it; 32-bit counters that wrap are continued to 64 bits
}

// PortCounters is what a port counts. A driver without process_mad has no PMA counters, a driver without
// alloc_hw_port_stats no hardware counters: these lists are absent.
type PortCounters struct {
	PMA      Fact[[]Counter]     // counters/: the performance management counters of the InfiniBand specification
	HW       Fact[[]Counter]     // hw_counters/ or RDMA_NLDEV_CMD_STAT_GET, in the driver's order
	BeforeHW Fact[[]Counter]     `fact:"earlier"` // the reading of HW before this one; not read where there was none
	CM       Fact[[]Counter]     // cm_{rx,tx}_msgs, cm_tx_retries, cm_rx_duplicates; opt-in. Name is "cm_rx_msgs/req"
	Lifespan Fact[time.Duration] // how long the kernel serves hardware counters from its cache
}
