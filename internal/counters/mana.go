// SPDX-License-Identifier: Apache-2.0

package counters

// mana drives the network adapter of Azure. Its RDMA counters came after Linux 6.12.
var mana = driver{
	names:  []string{"mana"},
	traits: Traits{DMABuf: Linux{6, 15}, OrdinaryNIC: true},
	counters: []Table{
		{
			Name: "mana", Place: PlacePort,
			Source: "drivers/infiniband/hw/mana/counters.c",
			Note:   "It is not documented whether a `nak_` counter counts sent or received NAKs.",
			rows: []row{
				{"requester_timeout", AckTimeouts, bits64},
				{"requester_oos_nak", PacketSequenceErrors, bits64},
				{"requester_rnr_nak", RNRNAKsReceived, bits64},
				{"responder_rnr_nak", RNRNAKsSent, bits64},
				{"responder_oos", OutOfSequence, bits64},
				{"responder_dup_request", DuplicateRequests, bits64},
				{"requester_implicit_nak", ImpliedNAKs, bits64},
				{"requester_readresp_psn_mismatch", passed, bits64},
				{"nak_inv_req", passed, bits64},
				{"nak_access_error", passed, bits64},
				{"nak_opp_error", passed, bits64},
				{"nak_inv_read", passed, bits64},
				{"responder_local_len_error", ResponderLocalLength, bits64},
				{"requestor_local_prot_error", passed, bits64},
				{"responder_rem_access_error", ResponderRemoteAccess, bits64},
				{"responder_local_qp_error", passed, bits64},
				{"responder_malformed_wqe", passed, bits64},
				{"general_hw_error", passed, bits64},
				{"requester_rnr_nak_retries_exceeded", RNRRetriesExceeded, bits64},
				{"requester_retries_exceeded", RetriesExceeded, bits64},
				{"total_fatal_error", passed, bits64},
				{"received_cnps", CNPReceived, bits64},
				{"num_qps_congested", passed, gauge64},
				{"rate_inc_events", passed, bits64},
				{"num_qps_recovered", passed, bits64},
				{"current_rate", passed, gauge64},
				{"dup_rx_requests", passed, bits64},
				{"tx_bytes", TransmittedBytes, bits64},
				{"rx_bytes", ReceivedBytes, bits64},
				{"rx_send_requests", passed, bits64},
				{"rx_write_requests", ReceivedWrites, bits64},
				{"rx_read_requests", ReceivedReads, bits64},
				{"tx_packets", TransmittedPackets, bits64},
				{"rx_packets", ReceivedPackets, bits64},
			},
		},
		{
			Name: "mana", Place: PlaceDevice,
			Source: "drivers/infiniband/hw/mana/counters.c",
			Note:   "Notifications received are counted for the port as well.",
			rows: []row{
				{"sent_cnps", CNPSent, bits64},
				{"received_ecns", ECNMarked, bits64},
				{"received_cnp_count", passed, bits64},
				{"qp_congested_events", passed, bits64},
				{"qp_recovered_events", passed, bits64},
				{"rate_inc_events", passed, bits64},
			},
		},
	},
	statistics: &StatTable{
		Name:   "mana",
		Source: "drivers/net/ethernet/microsoft/mana/mana_ethtool.c",
		Note: "`hc_rx_discards_no_wqe` is of the whole function: ports that share one show the same number. Pauses and traffic are counted by traffic class (`hc_tc<n>_*`), but " +
			"the guest does not know the priorities of the classes; the causes of other drops are not documented. Neither is mapped.",
		rows: []row{
			{"hc_rx_discards_no_wqe", StatOutOfBuffer, bits64},
		},
	},
}
