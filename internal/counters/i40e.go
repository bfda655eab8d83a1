// SPDX-License-Identifier: Apache-2.0

package counters

// i40e drives the interfaces of the Intel X722; pauses are counted as ice does. Names are those of Linux 6.12
// and of older ones.
var i40e = driver{
	names: []string{"i40e"},
	statistics: &StatTable{
		Name:   "i40e",
		Source: "drivers/net/ethernet/intel/i40e/i40e_ethtool.c",
		Note:   "The driver shows the difference of two 32-bit registers, which wraps as they do. `port.rx_priority_<n>_xon_2_xoff` counts pauses as they begin, mlx5 as they end.",
		rows: []row{
			{"port.rx_priority_%d_xon_rx", StatReceivedPauseFrames, wraps32},
			{"port.rx_priority_%d_xoff_rx", StatReceivedPauseFrames, wraps32},
			{"port.tx_priority_%d_xon_tx", StatTransmittedPauseFrames, wraps32},
			{"port.tx_priority_%d_xoff_tx", StatTransmittedPauseFrames, wraps32},
			{"port.rx_priority_%d_xon_2_xoff", StatReceivedPauses, wraps32},

			{"port.link_xon_rx", StatLinkReceivedPauseFrames, wraps32},
			{"port.link_xoff_rx", StatLinkReceivedPauseFrames, wraps32},
			{"port.link_xon_tx", StatLinkTransmittedPauseFrames, wraps32},
			{"port.link_xoff_tx", StatLinkTransmittedPauseFrames, wraps32},

			{"port.rx_discards", StatReceivedDiscards, wraps32},
			{"port.tx_dropped_link_down", StatTransmittedDiscards, wraps32},
			{"port.mac_local_faults", StatLocalFaults, wraps32},
			{"port.mac_remote_faults", StatRemoteFaults, wraps32},
			{"port.rx_crc_errors", StatCRCErrors, wraps32},
		},
		older: []row{
			{"port.rx_priority_%d_xon", StatReceivedPauseFrames, wraps32},
			{"port.rx_priority_%d_xoff", StatReceivedPauseFrames, wraps32},
			{"port.tx_priority_%d_xon", StatTransmittedPauseFrames, wraps32},
			{"port.tx_priority_%d_xoff", StatTransmittedPauseFrames, wraps32},
			{"port.rx_dropped", StatReceivedDiscards, wraps32}, // rx_discards of the port (GLPRT_RDPC), as above
			{"port.crc_errors", StatCRCErrors, wraps32},
		},
	},
}
