// SPDX-License-Identifier: Apache-2.0

package counters

// ionic drives Pensando DSC and Pollara of AMD. The interface's names are those of Linux 6.12; RDMA came
// later, its names are those that the firmware of a Pollara 400 gave.
var ionic = driver{
	names:  []string{"ionic"},
	traits: Traits{DMABuf: Linux{6, 18}},
	counters: []Table{
		{
			Name: "ionic", Place: PlacePort,
			Source: "drivers/infiniband/hw/ionic/ionic_hw_stats.c",
			Note:   "The firmware defines the names and widths of the counters, so there may be more or fewer. The last four need later firmware.",
			rows: []row{
				{"tx_rdma_ucast_bytes", TransmittedBytes, asFirmware},
				{"tx_rdma_ucast_pkts", TransmittedPackets, asFirmware},
				{"tx_rdma_mcast_bytes", TransmittedBytes, asFirmware},
				{"tx_rdma_mcast_pkts", TransmittedPackets, asFirmware},
				{"tx_rdma_cnp_pkts", CNPSent, asFirmware},
				{"rx_rdma_ucast_bytes", ReceivedBytes, asFirmware},
				{"rx_rdma_ucast_pkts", ReceivedPackets, asFirmware},
				{"rx_rdma_mcast_bytes", ReceivedBytes, asFirmware},
				{"rx_rdma_mcast_pkts", ReceivedPackets, asFirmware},
				{"rx_rdma_cnp_pkts", CNPReceived, asFirmware},
				{"rx_rdma_ecn_pkts", ECNMarked, asFirmware},
				{"req_rx_pkt_seq_err", PacketSequenceErrors, asFirmware},
				{"req_rx_rnr_retry_err", RNRNAKsReceived, asFirmware},
				{"req_rx_rmt_acc_err", RequesterRemoteAccess, asFirmware},
				{"req_rx_rmt_req_err", RequesterRemoteInvalid, asFirmware},
				{"req_rx_oper_err", RequesterRemoteOperation, asFirmware},
				{"req_rx_impl_nak_seq_err", ImpliedNAKs, asFirmware},
				{"req_rx_cqe_err", RequesterCQEErrors, asFirmware},
				{"req_rx_cqe_flush", RequesterFlushErrors, asFirmware},
				{"req_rx_dup_response", passed, asFirmware},
				{"req_rx_inval_pkts", passed, asFirmware},
				{"req_tx_loc_acc_err", passed, asFirmware},
				{"req_tx_loc_oper_err", passed, asFirmware},
				{"req_tx_mem_mgmt_err", passed, asFirmware},
				{"req_tx_retry_excd_err", RetriesExceeded, asFirmware},
				{"req_tx_loc_sgl_inv_err", passed, asFirmware},
				{"resp_rx_dup_request", DuplicateRequests, asFirmware},
				{"resp_rx_outof_buf", OutOfBuffer, asFirmware},
				{"resp_rx_outouf_seq", OutOfSequence, asFirmware},
				{"resp_rx_cqe_err", ResponderCQEErrors, asFirmware},
				{"resp_rx_cqe_flush", ResponderFlushErrors, asFirmware},
				{"resp_rx_loc_len_err", ResponderLocalLength, asFirmware},
				{"resp_rx_inval_request", passed, asFirmware},
				{"resp_rx_loc_oper_err", passed, asFirmware},
				{"resp_rx_outof_atomic", passed, asFirmware},
				{"resp_rx_s0_table_err", passed, asFirmware},
				{"resp_tx_pkt_seq_err", passed, asFirmware},
				{"resp_tx_rmt_inval_req_err", passed, asFirmware},
				{"resp_tx_rmt_acc_err", ResponderRemoteAccess, asFirmware},
				{"resp_tx_rmt_oper_err", passed, asFirmware},
				{"resp_tx_rnr_retry_err", RNRNAKsSent, asFirmware},
				{"resp_tx_loc_sgl_inv_err", passed, asFirmware},

				{"tx_rdma_ack_timeout", AckTimeouts, asFirmware},
				{"tx_rdma_retx_pkts", RetransmittedPackets, asFirmware},
				{"tx_rdma_retx_bytes", RetransmittedBytes, asFirmware},
				{"rx_rdma_mtu_discard_pkts", passed, asFirmware},
			},
		},
	},
	statistics: &StatTable{
		Name:   "ionic",
		Source: "drivers/net/ethernet/pensando/ionic/ionic_stats.c",
		Note: "`rx_` of the pause times is taken to be of frames received, as everywhere; the kernel does not say. PFC frames are not counted by priority. " +
			"`hw_` is of the function: `hw_rx_over_errors` is what found the queue empty, `hw_rx_missed_errors` what could not be written to the host. `frames_rx_dropped` is of the " +
			"port and may hold what `hw_rx_dropped` does; `frames_rx_stomped_crc`, which another device damaged on purpose, may be among `frames_rx_bad_fcs`: neither is mapped.",
		rows: []row{
			{"rx_pripause_%d_1us_count", StatReceivedPauseSeconds, micros64},
			{"tx_pripause_%d_1us_count", StatTransmittedPauseSeconds, micros64},
			{"frames_tx_pri_%d", StatPriorityTransmittedPackets, bits64},
			{"frames_rx_pri_%d", StatPriorityReceivedPackets, bits64},

			{"frames_rx_pause", StatLinkReceivedPauseFrames, bits64},
			{"frames_tx_pause", StatLinkTransmittedPauseFrames, bits64},
			{"rx_pause_1us_count", StatLinkReceivedPauseSeconds, micros64},
			{"frames_rx_pripause", StatReceivedPFCFrames, bits64},
			{"frames_tx_pripause", StatTransmittedPFCFrames, bits64},

			{"hw_rx_dropped", StatReceivedDrops, bits64},
			{"hw_tx_dropped", StatTransmittedDrops, bits64},
			{"hw_rx_over_errors", StatOutOfBuffer, bits64},
			{"hw_rx_missed_errors", StatReceivedDeliveryErrors, bits64},
			{"frames_rx_bad_fcs", StatCRCErrors, bits64},
		},
	},
}
