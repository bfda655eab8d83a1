// SPDX-License-Identifier: Apache-2.0

package fabric

var pmaTable = CounterTable{
	Name: "InfiniBand", Drivers: []string{AnyDriver}, Place: PlacePMA,
	Source: "drivers/infiniband/core/sysfs.c",
	Note:   "On RoCE mlx5 fills traffic from the RDMA counters of the function, so TCP is not in it, and link errors from InfiniBand registers.",
	rows: []counterRow{
		{"symbol_error", CountSymbolErrors, sticks16},
		{"link_error_recovery", CountLinkErrorRecoveries, sticks8},
		{"link_downed", CountLinkDowned, sticks8},
		{"port_rcv_errors", CountReceiveErrors, sticks16},
		{"port_rcv_remote_physical_errors", CountReceiveRemotePhysical, sticks16},
		{"port_rcv_switch_relay_errors", CountReceiveSwitchRelay, sticks16},
		{"port_xmit_discards", CountTransmitDiscards, sticks16},
		{"port_xmit_constraint_errors", CountTransmitConstraintErrors, sticks8},
		{"port_rcv_constraint_errors", CountReceiveConstraintErrors, sticks8},
		{"local_link_integrity_errors", CountLocalLinkIntegrity, sticks4},
		{"excessive_buffer_overrun_errors", CountExcessiveBufferOverruns, sticks4},
		{"VL15_dropped", CountVL15Dropped, sticks16},
		{"port_xmit_wait", CountTransmitWait, sticks32},
		{"port_xmit_data", CountTransmittedBytes, words64},
		{"port_rcv_data", CountReceivedBytes, words64},
		{"port_xmit_packets", CountTransmittedPackets, bits64},
		{"port_rcv_packets", CountReceivedPackets, bits64},
		{"unicast_xmit_packets", CountTransmittedUnicastPackets, bits64},
		{"unicast_rcv_packets", CountReceivedUnicastPackets, bits64},
		{"multicast_xmit_packets", CountTransmittedMulticastPackets, bits64},
		{"multicast_rcv_packets", CountReceivedMulticastPackets, bits64},
	},
}

var pmaExtTable = CounterTable{
	Name: "OFED", Drivers: []string{AnyDriver}, Place: PlacePMAExt,
	Source: "drivers/infiniband/core/sysfs.c of OFED",
	Note: "Of OFED for kernels before 4.5, whose `counters` has 32 bits that stick. Read where `counters` has no `unicast_xmit_packets`; of two counters of the same " +
		"(`port_xmit_data`, `port_xmit_data_64`) only the one here.",
	rows: []counterRow{
		{"port_xmit_data_64", CountTransmittedBytes, words64},
		{"port_rcv_data_64", CountReceivedBytes, words64},
		{"port_xmit_packets_64", CountTransmittedPackets, bits64},
		{"port_rcv_packets_64", CountReceivedPackets, bits64},
		{"port_unicast_xmit_packets", CountTransmittedUnicastPackets, bits64},
		{"port_unicast_rcv_packets", CountReceivedUnicastPackets, bits64},
		{"port_multicast_xmit_packets", CountTransmittedMulticastPackets, bits64},
		{"port_multicast_rcv_packets", CountReceivedMulticastPackets, bits64},
	},
}

var hfi1PMATable = CounterTable{
	Name: "hfi1", Drivers: []string{"hfi1"}, Place: PlacePMA,
	Source: "drivers/infiniband/hw/hfi1/mad.c",
	Note:   "Omni-Path. Data is in flits of eight octets, as pma_get_ib_portcounters_ext fills it, where the specification wants words of four. What has no metric is a constant 0.",
	rows: []counterRow{
		{"symbol_error", passed, sticks16},
		{"link_error_recovery", CountLinkErrorRecoveries, sticks8},
		{"link_downed", CountLinkDowned, sticks8},
		{"port_rcv_errors", CountReceiveErrors, sticks16},
		{"port_rcv_remote_physical_errors", CountReceiveRemotePhysical, sticks16},
		{"port_rcv_switch_relay_errors", passed, sticks16},
		{"port_xmit_discards", CountTransmitDiscards, sticks16},
		{"port_xmit_constraint_errors", CountTransmitConstraintErrors, sticks8},
		{"port_rcv_constraint_errors", CountReceiveConstraintErrors, sticks8},
		{"local_link_integrity_errors", CountLocalLinkIntegrity, sticks4},
		{"excessive_buffer_overrun_errors", CountExcessiveBufferOverruns, sticks4},
		{"VL15_dropped", passed, sticks16},
		{"port_xmit_wait", passed, sticks32},
		{"port_xmit_data", CountTransmittedBytes, flits64},
		{"port_rcv_data", CountReceivedBytes, flits64},
		{"port_xmit_packets", CountTransmittedPackets, bits64},
		{"port_rcv_packets", CountReceivedPackets, bits64},
		{"unicast_xmit_packets", passed, bits64},
		{"unicast_rcv_packets", passed, bits64},
		{"multicast_xmit_packets", CountTransmittedMulticastPackets, bits64},
		{"multicast_rcv_packets", CountReceivedMulticastPackets, bits64},
	},
}
