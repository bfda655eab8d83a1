// SPDX-License-Identifier: Apache-2.0

package counters

// mlx5 drives ConnectX-4 and later and BlueField, and their subfunctions. Names are those of Linux 6.12.
var mlx5 = driver{
	names:  []string{"mlx5_core", "mlx5_core.sf"},
	traits: Traits{DMABuf: Linux{5, 12}, PCPUntilDSCP: true},
	counters: []Table{
		{
			Name: "mlx5", Place: PlacePort,
			Source: "drivers/infiniband/hw/mlx5/counters.c",
			Note: "Ports of representors prefix the names with `vport_`. The last seven are optional: they must be enabled, and only netlink shows them. Most " +
				"of them count events that other counters count, too.",
			vport: true,
			rows:  mlx5Counters,
		},
		{
			Name: "mlx5", Place: PlaceDevice,
			Source: "drivers/infiniband/hw/mlx5/counters.c",
			Note:   "In switchdev mode only: events of the function itself, which none of its ports counts.",
			rows:   mlx5Counters,
		},
	},
	statistics: &StatTable{
		Name:   "mlx5",
		Source: "drivers/net/ethernet/mellanox/mlx5/core/en_stats.c",
		Note: "A priority has its pause statistics only while PFC is on for it, and the port has `*_global_pause_duration` only while 802.3x flow control is on. " +
			"Virtual functions have none of the physical port (`prio`, `phy`). The driver reads `tx_pause_storm_*` of the port and priority 0 only. `rx_ecn_mark` is TCP's and `rx_symbol_err_phy` packets lost, not symbols: neither is mapped.",
		rows: []row{
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
	},
}

// mlx5Counters are those of a port. In switchdev mode the device has the same for the traffic of the function itself.
var mlx5Counters = []row{
	{"rx_write_requests", ReceivedWrites, wraps32},
	{"rx_read_requests", ReceivedReads, wraps32},
	{"rx_atomic_requests", ReceivedAtomics, wraps32},
	{"rx_dct_connect", ReceivedDCTConnects, wraps32},
	{"out_of_buffer", OutOfBuffer, wraps32},
	{"out_of_sequence", OutOfSequence, wraps32},
	{"duplicate_request", DuplicateRequests, wraps32},
	{"rnr_nak_retry_err", RNRNAKsReceived, wraps32},
	{"packet_seq_err", PacketSequenceErrors, wraps32},
	{"implied_nak_seq_err", ImpliedNAKs, wraps32},
	{"local_ack_timeout_err", AckTimeouts, wraps32},
	{"resp_local_length_error", ResponderLocalLength, wraps32},
	{"resp_cqe_error", ResponderCQEErrors, wraps32},
	{"req_cqe_error", RequesterCQEErrors, wraps32},
	{"req_remote_invalid_request", RequesterRemoteInvalid, wraps32},
	{"req_remote_access_errors", RequesterRemoteAccess, wraps32},
	{"resp_remote_access_errors", ResponderRemoteAccess, wraps32},
	{"resp_cqe_flush_error", ResponderFlushErrors, wraps32},
	{"req_cqe_flush_error", RequesterFlushErrors, wraps32},
	{"req_transport_retries_exceeded", RetriesExceeded, wraps32},
	{"req_rnr_retries_exceeded", RNRRetriesExceeded, wraps32},
	{"roce_adp_retrans", AdaptiveRetrans, wraps32},
	{"roce_adp_retrans_to", AdaptiveRetransTimeout, wraps32},
	{"roce_slow_restart", SlowRestarts, wraps32},
	{"roce_slow_restart_cnps", SlowRestartCNPs, wraps32},
	{"roce_slow_restart_trans", SlowRestartTransitions, wraps32},

	{"rp_cnp_ignored", CNPIgnored, bits64},
	{"rp_cnp_handled", CNPHandled, bits64},
	{"np_ecn_marked_roce_packets", ECNMarked, bits64},
	{"np_cnp_sent", CNPSent, bits64},
	{"rx_icrc_encapsulated", ICRCErrors, bits64},

	{"cc_rx_ce_pkts", passed, bits64},
	{"cc_rx_cnp_pkts", CNPReceived, bits64},
	{"cc_tx_cnp_pkts", passed, bits64},
	{"rdma_tx_packets", passed, bits64},
	{"rdma_tx_bytes", passed, bits64},
	{"rdma_rx_packets", passed, bits64},
	{"rdma_rx_bytes", passed, bits64},
}
