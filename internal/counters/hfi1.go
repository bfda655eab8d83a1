// SPDX-License-Identifier: Apache-2.0

package counters

// hfi1 drives Omni-Path. Names are those of Linux 6.12.
var hfi1 = driver{
	names: []string{"hfi1"},
	counters: []Table{
		{
			Name: "hfi1", Place: PlacePMA,
			Source: "drivers/infiniband/hw/hfi1/mad.c",
			Note:   "Omni-Path. Data is in flits of eight octets, as pma_get_ib_portcounters_ext fills it, where the specification wants words of four. What has no metric is a constant 0.",
			rows: []row{
				{"symbol_error", passed, sticks16},
				{"link_error_recovery", LinkErrorRecoveries, sticks8},
				{"link_downed", LinkDowned, sticks8},
				{"port_rcv_errors", ReceiveErrors, sticks16},
				{"port_rcv_remote_physical_errors", ReceiveRemotePhysical, sticks16},
				{"port_rcv_switch_relay_errors", passed, sticks16},
				{"port_xmit_discards", TransmitDiscards, sticks16},
				{"port_xmit_constraint_errors", TransmitConstraintErrors, sticks8},
				{"port_rcv_constraint_errors", ReceiveConstraintErrors, sticks8},
				{"local_link_integrity_errors", LocalLinkIntegrity, sticks4},
				{"excessive_buffer_overrun_errors", ExcessiveBufferOverruns, sticks4},
				{"VL15_dropped", passed, sticks16},
				{"port_xmit_wait", passed, sticks32},
				{"port_xmit_data", TransmittedBytes, flits64},
				{"port_rcv_data", ReceivedBytes, flits64},
				{"port_xmit_packets", TransmittedPackets, bits64},
				{"port_rcv_packets", ReceivedPackets, bits64},
				{"unicast_xmit_packets", passed, bits64},
				{"unicast_rcv_packets", passed, bits64},
				{"multicast_xmit_packets", TransmittedMulticastPackets, bits64},
				{"multicast_rcv_packets", ReceivedMulticastPackets, bits64},
			},
		},
	},
}
