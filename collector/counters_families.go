// SPDX-License-Identifier: Apache-2.0

package collector

import "gpufabric_exporter/internal/fabric"

// countRow is the family of a meaning. The kernel names are added to the help.
type countRow struct {
	meaning fabric.Meaning
	name    string
	cadence Cadence
	help    string
}

const (
	rdmaOnly = " With headers, as the hardware counts them. All traffic of an InfiniBand port, IP over InfiniBand included; on Ethernet RDMA only, TCP is not in it."
	ibLink   = " Of InfiniBand links: an Ethernet port has a series only while it is not 0; look at the network interface."
)

// ofInfiniBand tells whether it happens on InfiniBand links only. An Ethernet port has the counters of that standard too,
// and nothing counts in these: a dozen series a port that would never say anything.
func ofInfiniBand(m fabric.Meaning) bool {
	switch m {
	case fabric.CountTransmitWait, fabric.CountSymbolErrors, fabric.CountLinkErrorRecoveries, fabric.CountReceiveErrors, fabric.CountReceiveRemotePhysical,
		fabric.CountReceiveSwitchRelay, fabric.CountReceiveConstraintErrors, fabric.CountTransmitDiscards, fabric.CountTransmitConstraintErrors,
		fabric.CountLocalLinkIntegrity, fabric.CountExcessiveBufferOverruns, fabric.CountVL15Dropped:
		return true
	default:
		return false
	}
}

func countRows() []countRow {
	return []countRow{
		{fabric.CountTransmittedBytes, "hca_port_transmitted_data_bytes_total", Fast, "Bytes that the port sent." + rdmaOnly},
		{fabric.CountReceivedBytes, "hca_port_received_data_bytes_total", Fast, "Bytes that the port received." + rdmaOnly},
		{fabric.CountTransmittedPackets, "hca_port_transmitted_packets_total", Fast, "Packets that the port sent; on Ethernet RDMA only."},
		{fabric.CountReceivedPackets, "hca_port_received_packets_total", Fast, "Packets that the port received; on Ethernet RDMA only."},
		{fabric.CountTransmittedUnicastPackets, "hca_port_transmitted_unicast_packets_total", Slow, "Packets to one receiver that the port sent; on Ethernet RDMA only."},
		{fabric.CountReceivedUnicastPackets, "hca_port_received_unicast_packets_total", Slow, "Packets to one receiver that the port received; on Ethernet RDMA only."},
		{fabric.CountTransmittedMulticastPackets, "hca_port_transmitted_multicast_packets_total", Slow, "Packets to many receivers that the port sent; on Ethernet RDMA only."},
		{fabric.CountReceivedMulticastPackets, "hca_port_received_multicast_packets_total", Slow, "Packets to many receivers that the port received; on Ethernet RDMA only."},
		{
			fabric.CountTransmitWait, "hca_port_transmit_wait_ticks_total", Fast,
			"Ticks during which the port had something to send but no credit to send it: congestion beyond it. The device does not tell how long a tick is.",
		},

		{fabric.CountSymbolErrors, "hca_port_symbol_errors_total", Slow, "Minor errors on the physical lanes: cable, connector or transceiver."},
		{fabric.CountLinkErrorRecoveries, "hca_port_link_error_recoveries_total", Slow, "Times the link came back by itself after errors, with traffic stopped meanwhile."},
		{fabric.CountLinkDowned, "hca_port_link_downed_total", Slow, "Times the link went down."},
		{fabric.CountReceiveErrors, "hca_port_receive_errors_total", Slow, "Packets received with an error."},
		{fabric.CountReceiveRemotePhysical, "hca_port_receive_remote_physical_errors_total", Slow, "Packets received that a switch had marked as bad: the error is on a link before the last."},
		{fabric.CountReceiveSwitchRelay, "hca_port_receive_switch_relay_errors_total", Slow, "Packets that a switch could not forward."},
		{fabric.CountReceiveConstraintErrors, "hca_port_receive_constraint_errors_total", Slow, "Packets not received because of the partition or as raw packets are filtered."},
		{fabric.CountReceiveDiscards, "hca_port_receive_discards_total", Fast, "RDMA packets that arrived and that the device dropped."},
		{fabric.CountTransmitDiscards, "hca_port_transmit_discards_total", Slow, "Packets dropped before they were sent, because the port was down or congested."},
		{fabric.CountTransmitConstraintErrors, "hca_port_transmit_constraint_errors_total", Slow, "Packets not sent because of the partition or as raw packets are filtered."},
		{fabric.CountLocalLinkIntegrity, "hca_port_local_link_integrity_errors_total", Slow, "Times errors on the physical lanes passed the threshold set for them."},
		{fabric.CountExcessiveBufferOverruns, "hca_port_excessive_buffer_overrun_errors_total", Slow, "Times the receive buffers overran for longer than the threshold set for it."},
		{fabric.CountVL15Dropped, "hca_port_vl15_dropped_total", Slow, "Packets of subnet management dropped for want of room."},
		{fabric.CountICRCErrors, "hca_icrc_errors_total", Fast, "RoCE packets that arrived damaged though the Ethernet checksum was right: memory of a switch or NIC."},

		{fabric.CountOutOfSequence, "hca_out_of_sequence_total", Fast, "Times the receiver of RDMA packets saw a gap in their numbers: packets were lost or overtaken on their way here."},
		{fabric.CountPacketSequenceErrors, "hca_packet_sequence_errors_total", Fast, "Times the sender of RDMA packets was told of a gap (NAK): packets that left here were lost or overtaken."},
		{fabric.CountImpliedNAKs, "hca_implied_nak_sequence_errors_total", Fast, "Times the reader of remote memory saw from a later answer that an earlier one was lost."},
		{fabric.CountAckTimeouts, "hca_ack_timeouts_total", Fast, "Times no acknowledgement came in time and the packets were sent again: loss, or the other side is gone."},
		{fabric.CountDuplicateRequests, "hca_duplicate_requests_total", Fast, "Requests that arrived again though they had been carried out: the sender missed the acknowledgement."},
		{fabric.CountRetransmissions, "hca_retransmissions_total", Fast, "Times the sender went back and sent again, whatever the reason."},
		{fabric.CountRetransmittedPackets, "hca_retransmitted_packets_total", Fast, "RDMA packets sent again."},
		{fabric.CountRetransmittedBytes, "hca_retransmitted_bytes_total", Fast, "Bytes of RDMA packets sent again."},
		{fabric.CountAdaptiveRetrans, "hca_adaptive_retransmissions_total", Fast, "Times adaptive retransmission of RoCE, which does not wait for the full timeout, sent again."},
		{fabric.CountAdaptiveRetransTimeout, "hca_adaptive_retransmission_timeouts_total", Fast, "Times RoCE traffic timed out in spite of adaptive retransmission."},
		{fabric.CountSlowRestarts, "hca_slow_restarts_total", Fast, "Times RoCE resumed sending slowly after a pause."},
		{fabric.CountSlowRestartCNPs, "hca_slow_restart_cnps_total", Fast, "Times a slow restart of RoCE made congestion notifications."},
		{fabric.CountSlowRestartTransitions, "hca_slow_restart_transitions_total", Fast, "Times RoCE changed to the state of slow restart."},
		{fabric.CountRetriesExceeded, "hca_retries_exceeded_total", Fast, "Connections given up because all retries were without an answer. The job that owns one fails (NCCL: \"transport retry counter exceeded\")."},
		{fabric.CountRNRRetriesExceeded, "hca_rnr_retries_exceeded_total", Fast, "Connections given up because the receiver stayed not ready through all retries. The job that owns one fails."},
		{fabric.CountRNRNAKsReceived, "hca_rnr_naks_received_total", Fast, "Times the other side was not ready to receive (RNR NAK): its application had posted no buffer."},
		{fabric.CountRNRNAKsSent, "hca_rnr_naks_sent_total", Fast, "Times this side was not ready to receive and said so (RNR NAK): the application here had posted no buffer."},
		{fabric.CountOutOfBuffer, "hca_out_of_buffer_total", Fast, "Times a message arrived for which the application had posted no receive buffer."},

		{fabric.CountECNMarked, "hca_ecn_marked_total", Fast, "RoCE packets received that a switch had marked as having met congestion (ECN)."},
		{fabric.CountCNPSent, "hca_cnp_sent_total", Fast, "Congestion notifications sent to senders whose packets arrived marked."},
		{fabric.CountCNPReceived, "hca_cnp_received_total", Fast, "Congestion notifications received: what is sent from here meets congestion."},
		{fabric.CountCNPHandled, "hca_cnp_handled_total", Fast, "Congestion notifications received that made the device send slower."},
		{fabric.CountCNPIgnored, "hca_cnp_ignored_total", Fast, "Congestion notifications received and ignored: congestion control is off for them."},

		{fabric.CountReceivedReads, "hca_received_read_requests_total", Fast, "Requests received to read local memory."},
		{fabric.CountReceivedWrites, "hca_received_write_requests_total", Fast, "Requests received to write local memory."},
		{fabric.CountReceivedAtomics, "hca_received_atomic_requests_total", Fast, "Requests received to change local memory atomically."},
		{fabric.CountReceivedDCTConnects, "hca_received_dct_connects_total", Fast, "Connection requests received for dynamically connected transport."},
		{fabric.CountRequesterCQEErrors, "hca_requester_cqe_errors_total", Fast, "Sends, reads and writes that completed with an error."},
		{fabric.CountResponderCQEErrors, "hca_responder_cqe_errors_total", Fast, "Receives that completed with an error."},
		{fabric.CountRequesterFlushErrors, "hca_requester_flush_errors_total", Fast, "Sends, reads and writes given up because their connection had failed or was closed; normal when a job ends."},
		{fabric.CountResponderFlushErrors, "hca_responder_flush_errors_total", Fast, "Receives given up because their connection had failed or was closed; normal when a job ends."},
		{fabric.CountRequesterRemoteAccess, "hca_requester_remote_access_errors_total", Fast, "Requests from here that the other side refused: wrong key, address or permission."},
		{fabric.CountResponderRemoteAccess, "hca_responder_remote_access_errors_total", Fast, "Requests of other sides that were refused here: wrong key, address or permission."},
		{fabric.CountRequesterRemoteInvalid, "hca_requester_remote_invalid_requests_total", Fast, "Requests from here that the other side found invalid."},
		{fabric.CountRequesterRemoteOperation, "hca_requester_remote_operation_errors_total", Fast, "Requests from here that the other side failed to carry out."},
		{fabric.CountResponderLocalLength, "hca_responder_local_length_errors_total", Fast, "Messages that arrived longer than the buffer posted for them."},
	}
}
