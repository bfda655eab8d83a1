// SPDX-License-Identifier: Apache-2.0

package counters

import "slices"

// Meaning is one thing that counters of several drivers count, in one unit. What counts nearly the same is
// another meaning, or passes through under its kernel name: a wrong mapping is worse than none.
type Meaning string

// Unit is the unit of a meaning.
type Unit string

// Units.
const (
	UnitBytes   Unit = "bytes"
	UnitPackets Unit = "packets"
	UnitTicks   Unit = "ticks" // of a clock that the device does not report
	UnitEvents  Unit = "events"
	UnitSeconds Unit = "seconds"
	UnitRatio   Unit = "ratio" // 0 to 1
)

// Traffic of a port, RDMA only unless the port is InfiniBand.
const (
	TransmittedBytes            Meaning = "transmitted_bytes"
	ReceivedBytes               Meaning = "received_bytes"
	TransmittedPackets          Meaning = "transmitted_packets"
	ReceivedPackets             Meaning = "received_packets"
	TransmittedUnicastPackets   Meaning = "transmitted_unicast_packets"
	ReceivedUnicastPackets      Meaning = "received_unicast_packets"
	TransmittedMulticastPackets Meaning = "transmitted_multicast_packets"
	ReceivedMulticastPackets    Meaning = "received_multicast_packets"
	TransmitWait                Meaning = "transmit_wait" // credits or a pause kept a packet waiting
)

// The port and its link, mostly of the InfiniBand specification (PortCounters, 16.1.3.5).
const (
	SymbolErrors             Meaning = "symbol_errors"
	LinkErrorRecoveries      Meaning = "link_error_recoveries"
	LinkDowned               Meaning = "link_downed"
	ReceiveErrors            Meaning = "receive_errors"
	ReceiveRemotePhysical    Meaning = "receive_remote_physical_errors"
	ReceiveSwitchRelay       Meaning = "receive_switch_relay_errors"
	ReceiveConstraintErrors  Meaning = "receive_constraint_errors"
	ReceiveDiscards          Meaning = "receive_discards"
	TransmitDiscards         Meaning = "transmit_discards"
	TransmitConstraintErrors Meaning = "transmit_constraint_errors"
	LocalLinkIntegrity       Meaning = "local_link_integrity_errors"
	ExcessiveBufferOverruns  Meaning = "excessive_buffer_overrun_errors"
	VL15Dropped              Meaning = "vl15_dropped"
	ICRCErrors               Meaning = "icrc_errors"
)

// Loss and how the transport recovers from it. The requester is the side that sends work, the responder the
// one that receives it.
const (
	OutOfSequence          Meaning = "out_of_sequence"        // responder: a gap
	PacketSequenceErrors   Meaning = "packet_sequence_errors" // requester: received a report of a gap
	ImpliedNAKs            Meaning = "implied_nak_sequence_errors"
	AckTimeouts            Meaning = "ack_timeouts"
	DuplicateRequests      Meaning = "duplicate_requests"
	Retransmissions        Meaning = "retransmissions" // times a requester went back to send again
	RetransmittedPackets   Meaning = "retransmitted_packets"
	RetransmittedBytes     Meaning = "retransmitted_bytes"
	AdaptiveRetrans        Meaning = "adaptive_retransmissions"
	AdaptiveRetransTimeout Meaning = "adaptive_retransmission_timeouts"
	SlowRestarts           Meaning = "slow_restarts"
	SlowRestartCNPs        Meaning = "slow_restart_cnps"
	SlowRestartTransitions Meaning = "slow_restart_transitions"
	RetriesExceeded        Meaning = "retries_exceeded" // the queue pair is in error
	RNRRetriesExceeded     Meaning = "rnr_retries_exceeded"
	RNRNAKsReceived        Meaning = "rnr_naks_received"
	RNRNAKsSent            Meaning = "rnr_naks_sent"
	OutOfBuffer            Meaning = "out_of_buffer"
)

// RoCE congestion control (DCQCN).
const (
	ECNMarked   Meaning = "ecn_marked"
	CNPSent     Meaning = "cnp_sent"
	CNPReceived Meaning = "cnp_received"
	CNPHandled  Meaning = "cnp_handled"
	CNPIgnored  Meaning = "cnp_ignored"
)

// Work of queue pairs.
const (
	ReceivedReads            Meaning = "received_read_requests"
	ReceivedWrites           Meaning = "received_write_requests"
	ReceivedAtomics          Meaning = "received_atomic_requests"
	ReceivedDCTConnects      Meaning = "received_dct_connects"
	RequesterCQEErrors       Meaning = "requester_cqe_errors"
	ResponderCQEErrors       Meaning = "responder_cqe_errors"
	RequesterFlushErrors     Meaning = "requester_flush_errors"
	ResponderFlushErrors     Meaning = "responder_flush_errors"
	RequesterRemoteAccess    Meaning = "requester_remote_access_errors"
	ResponderRemoteAccess    Meaning = "responder_remote_access_errors"
	RequesterRemoteInvalid   Meaning = "requester_remote_invalid_requests"
	RequesterRemoteOperation Meaning = "requester_remote_operation_errors"
	ResponderLocalLength     Meaning = "responder_local_length_errors"
)

// Unit returns the unit of the meaning.
func (m Meaning) Unit() Unit {
	switch m {
	case TransmittedBytes, ReceivedBytes, RetransmittedBytes:
		return UnitBytes
	case TransmittedPackets, ReceivedPackets, TransmittedUnicastPackets, ReceivedUnicastPackets,
		TransmittedMulticastPackets, ReceivedMulticastPackets, RetransmittedPackets,
		ECNMarked, CNPSent, CNPReceived, CNPHandled, CNPIgnored,
		ReceiveDiscards, TransmitDiscards, VL15Dropped, ICRCErrors:
		return UnitPackets
	case TransmitWait:
		return UnitTicks
	default:
		return m.statUnit()
	}
}

// Meanings returns every meaning that some driver counts, in the order of the tables.
func Meanings() []Meaning {
	var list []Meaning
	for _, t := range tables {
		for _, r := range t.rows {
			if r.meaning != passed && !slices.Contains(list, r.meaning) {
				list = append(list, r.meaning)
			}
		}
	}
	return list
}
