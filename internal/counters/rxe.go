// SPDX-License-Identifier: Apache-2.0

package counters

// rxe is RoCE in software, whose devices have no PCI function. Names are those of Linux 6.12.
var rxe = driver{
	names: []string{""},
	counters: []Table{
		{
			Name: "rxe", Place: PlacePort,
			Source: "drivers/infiniband/sw/rxe/rxe_hw_counters.c",
			Note:   "Counted by software. `completer_retry_err` counts every retransmission, for any reason.",
			rows: []row{
				{"sent_pkts", TransmittedPackets, bits64},
				{"rcvd_pkts", ReceivedPackets, bits64},
				{"duplicate_request", DuplicateRequests, bits64},
				{"out_of_seq_request", OutOfSequence, bits64},
				{"rcvd_rnr_err", RNRNAKsReceived, bits64},
				{"send_rnr_err", RNRNAKsSent, bits64},
				{"rcvd_seq_err", PacketSequenceErrors, bits64},
				{"ack_deferred", passed, bits64},
				{"retry_exceeded_err", RetriesExceeded, bits64},
				{"retry_rnr_exceeded_err", RNRRetriesExceeded, bits64},
				{"completer_retry_err", Retransmissions, bits64},
				{"send_err", passed, bits64},
				{"link_downed", LinkDowned, bits64},
				{"rdma_sends", passed, bits64},
				{"rdma_recvs", passed, bits64},
			},
		},
	},
}
