// SPDX-License-Identifier: Apache-2.0

package counters

// infiniband is the standard: the performance management counters (PortCounters, PortCountersExtended) of the
// InfiniBand specification, wherever a driver has no table of its own. Names are those of Linux 6.12 and of
// OFED for kernels before 4.5.
var infiniband = driver{
	names: []string{AnyDriver},
	counters: []Table{
		{
			Name: "InfiniBand", Place: PlacePMA,
			Source: "drivers/infiniband/core/sysfs.c",
			Note:   "On RoCE mlx5 fills traffic from the RDMA counters of the function, so TCP is not in it, and link errors from InfiniBand registers.",
			rows: []row{
				{"symbol_error", SymbolErrors, sticks16},
				{"link_error_recovery", LinkErrorRecoveries, sticks8},
				{"link_downed", LinkDowned, sticks8},
				{"port_rcv_errors", ReceiveErrors, sticks16},
				{"port_rcv_remote_physical_errors", ReceiveRemotePhysical, sticks16},
				{"port_rcv_switch_relay_errors", ReceiveSwitchRelay, sticks16},
				{"port_xmit_discards", TransmitDiscards, sticks16},
				{"port_xmit_constraint_errors", TransmitConstraintErrors, sticks8},
				{"port_rcv_constraint_errors", ReceiveConstraintErrors, sticks8},
				{"local_link_integrity_errors", LocalLinkIntegrity, sticks4},
				{"excessive_buffer_overrun_errors", ExcessiveBufferOverruns, sticks4},
				{"VL15_dropped", VL15Dropped, sticks16},
				{"port_xmit_wait", TransmitWait, sticks32},
				{"port_xmit_data", TransmittedBytes, words64},
				{"port_rcv_data", ReceivedBytes, words64},
				{"port_xmit_packets", TransmittedPackets, bits64},
				{"port_rcv_packets", ReceivedPackets, bits64},
				{"unicast_xmit_packets", TransmittedUnicastPackets, bits64},
				{"unicast_rcv_packets", ReceivedUnicastPackets, bits64},
				{"multicast_xmit_packets", TransmittedMulticastPackets, bits64},
				{"multicast_rcv_packets", ReceivedMulticastPackets, bits64},
			},
		},
		{
			Name: "OFED", Place: PlacePMAExt,
			Source: "drivers/infiniband/core/sysfs.c of OFED",
			Note: "Of OFED for kernels before 4.5, whose `counters` has 32 bits that stick. Read where `counters` has no `unicast_xmit_packets`; of two counters of the same " +
				"(`port_xmit_data`, `port_xmit_data_64`) only the one here.",
			rows: []row{
				{"port_xmit_data_64", TransmittedBytes, words64},
				{"port_rcv_data_64", ReceivedBytes, words64},
				{"port_xmit_packets_64", TransmittedPackets, bits64},
				{"port_rcv_packets_64", ReceivedPackets, bits64},
				{"port_unicast_xmit_packets", TransmittedUnicastPackets, bits64},
				{"port_unicast_rcv_packets", ReceivedUnicastPackets, bits64},
				{"port_multicast_xmit_packets", TransmittedMulticastPackets, bits64},
				{"port_multicast_rcv_packets", ReceivedMulticastPackets, bits64},
			},
		},
	},
}
