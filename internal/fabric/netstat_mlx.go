// SPDX-License-Identifier: Apache-2.0

package fabric

// Registers of network statistics.
var (
	micros64  = CounterSpec{Bits: 64, Scale: 1e-6}
	halves64  = CounterSpec{Bits: 64, Scale: 0.5}
	class64   = CounterSpec{Bits: 64, OfClass: true}
	bits32    = CounterSpec{Bits: 32} // nobody says what they do at their end
	percent32 = CounterSpec{Bits: 32, Scale: 0.01, Gauge: true}
)

var mlx5NetStats = NetStatTable{
	Name: "mlx5", Drivers: []string{"mlx5_core", "mlx5_core.sf"},
	Source: "drivers/net/ethernet/mellanox/mlx5/core/en_stats.c",
	Note: "A priority has its pause statistics only while PFC is on for it, and the port has `*_global_pause_duration` only while 802.3x flow control is on. " +
		"Virtual functions have none of the physical port (`prio`, `phy`). The driver reads `tx_pause_storm_*` of the port and priority 0 only. `rx_ecn_mark` is TCP's and `rx_symbol_err_phy` packets lost, not symbols: neither is mapped.",
	rows: []counterRow{
		{"rx_prio%d_pause_duration", StatReceivedPauseSeconds, micros64},
		{"tx_prio%d_pause_duration", StatTransmittedPauseSeconds, micros64},
		{"rx_prio%d_pause", StatReceivedPauseFrames, bits64},
		{"tx_prio%d_pause", StatTransmittedPauseFrames, bits64},
		{"rx_prio%d_pause_transition", StatReceivedPauses, bits64},
		{"rx_prio%d_discards", StatPriorityDiscards, bits64},
		{"rx_prio%d_cong_discard", StatReceivedCongestionDiscards, bits64},
		{"rx_prio%d_buf_discard", StatReceivedHostDiscards, bits64},
		{"rx_prio%d_marked", StatReceivedECNMarks, bits64},
		{"tx_prio%d_bytes", StatPriorityTransmittedBytes, bits64},
		{"rx_prio%d_bytes", StatPriorityReceivedBytes, bits64},
		{"tx_prio%d_packets", StatPriorityTransmittedPackets, bits64},
		{"rx_prio%d_packets", StatPriorityReceivedPackets, bits64},

		{"rx_pause_ctrl_phy", StatLinkReceivedPauseFrames, bits64}, // what ETHTOOL_MSG_PAUSE_GET shows, too
		{"tx_pause_ctrl_phy", StatLinkTransmittedPauseFrames, bits64},
		{"rx_global_pause_duration", StatLinkReceivedPauseSeconds, micros64},
		{"tx_global_pause_duration", StatLinkTransmittedPauseSecs, micros64},
		{"rx_global_pause_transition", StatLinkReceivedPauses, bits64},
		{"tx_pause_storm_warning_events", StatPauseStormWarnings, bits64},
		{"tx_pause_storm_error_events", StatPauseStormErrors, bits64},

		{"rx_discards_phy", StatReceivedDiscards, bits64},
		{"tx_discards_phy", StatTransmittedDiscards, bits64},
		{"rx_out_of_buffer", StatOutOfBuffer, wraps32},
		{"rx_buffer_passed_thres_phy", StatReceiveBufferAlmostFull, bits64},
		{"tx_vport_rdma_unicast_bytes", StatTransmittedRDMABytes, bits64},
		{"rx_vport_rdma_unicast_bytes", StatReceivedRDMABytes, bits64},
		{"tx_vport_unicast_bytes", StatTransmittedOtherBytes, bits64},
		{"rx_vport_unicast_bytes", StatReceivedOtherBytes, bits64},
		{"link_down_events_phy", StatLinkDownEvents, bits32},
		{"rx_pcs_symbol_err_phy", StatSymbolErrors, bits64},
		{"rx_crc_errors_phy", StatCRCErrors, bits64},
		{"rx_corrected_bits_phy", StatFECCorrectedBits, bits64},

		// An "event" is a second in which more than 30 % of the time were stalled; the others are the percentage of
		// the last second.
		{"outbound_pci_stalled_rd_events", StatPCIeReadStalledSeconds, bits32},
		{"outbound_pci_stalled_wr_events", StatPCIeWriteStalledSeconds, bits32},
		{"outbound_pci_stalled_rd", StatPCIeReadStalledRatio, percent32},
		{"outbound_pci_stalled_wr", StatPCIeWriteStalledRatio, percent32},
		{"outbound_pci_buffer_overflow", StatPCIeBufferOverflows, bits64},
		{"rx_pci_signal_integrity", StatPCIeReceivedIntegrity, bits32},
		{"tx_pci_signal_integrity", StatPCIeTransmittedIntegrity, bits32},
	},
}

var mlx4NetStats = NetStatTable{
	Name: "mlx4", Drivers: []string{"mlx4_core", "mlx4_en"},
	Source: "drivers/net/ethernet/mellanox/mlx4/en_ethtool.c",
	Note:   "ConnectX-3. Frames without a VLAN tag are in no priority. The unit of `*_pause_duration*` is not in the kernel's source; they are not mapped.",
	rows: []counterRow{
		{"rx_pause_prio_%d", StatReceivedPauseFrames, bits64},
		{"tx_pause_prio_%d", StatTransmittedPauseFrames, bits64},
		{"tx_prio_%d_bytes", StatPriorityTransmittedBytes, bits64},
		{"rx_prio_%d_bytes", StatPriorityReceivedBytes, bits64},
		{"tx_prio_%d_packets", StatPriorityTransmittedPackets, bits64},
		{"rx_prio_%d_packets", StatPriorityReceivedPackets, bits64},
		{"rx_pause", StatLinkReceivedPauseFrames, bits64},
		{"tx_pause", StatLinkTransmittedPauseFrames, bits64},
		{"rx_crc_errors", StatCRCErrors, bits32},
	},
}
