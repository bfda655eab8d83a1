// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// Meaning is one thing that counters of several drivers count, in one unit. What counts nearly the same is
// another meaning, or passes through under its kernel name: a wrong mapping is worse than none.
type Meaning string

// CounterUnit is the unit of a meaning.
type CounterUnit string

// Units.
const (
	UnitBytes   CounterUnit = "bytes"
	UnitPackets CounterUnit = "packets"
	UnitTicks   CounterUnit = "ticks" // of a clock that the device does not tell
	UnitEvents  CounterUnit = "events"
	UnitSeconds CounterUnit = "seconds"
	UnitRatio   CounterUnit = "ratio" // 0 to 1
)

// Traffic of a port, RDMA only unless the port is InfiniBand.
const (
	CountTransmittedBytes            Meaning = "transmitted_bytes"
	CountReceivedBytes               Meaning = "received_bytes"
	CountTransmittedPackets          Meaning = "transmitted_packets"
	CountReceivedPackets             Meaning = "received_packets"
	CountTransmittedUnicastPackets   Meaning = "transmitted_unicast_packets"
	CountReceivedUnicastPackets      Meaning = "received_unicast_packets"
	CountTransmittedMulticastPackets Meaning = "transmitted_multicast_packets"
	CountReceivedMulticastPackets    Meaning = "received_multicast_packets"
	CountTransmitWait                Meaning = "transmit_wait" // credits or a pause kept a packet waiting
)

// The port and its link, mostly of the InfiniBand specification (PortCounters, 16.1.3.5).
const (
	CountSymbolErrors             Meaning = "symbol_errors"
	CountLinkErrorRecoveries      Meaning = "link_error_recoveries"
	CountLinkDowned               Meaning = "link_downed"
	CountReceiveErrors            Meaning = "receive_errors"
	CountReceiveRemotePhysical    Meaning = "receive_remote_physical_errors"
	CountReceiveSwitchRelay       Meaning = "receive_switch_relay_errors"
	CountReceiveConstraintErrors  Meaning = "receive_constraint_errors"
	CountReceiveDiscards          Meaning = "receive_discards"
	CountTransmitDiscards         Meaning = "transmit_discards"
	CountTransmitConstraintErrors Meaning = "transmit_constraint_errors"
	CountLocalLinkIntegrity       Meaning = "local_link_integrity_errors"
	CountExcessiveBufferOverruns  Meaning = "excessive_buffer_overrun_errors"
	CountVL15Dropped              Meaning = "vl15_dropped"
	CountICRCErrors               Meaning = "icrc_errors"
)

// Loss and how the transport recovers from it. The requester is the side that sends work, the responder the
// one that receives it.
const (
	CountOutOfSequence          Meaning = "out_of_sequence"        // responder: a gap
	CountPacketSequenceErrors   Meaning = "packet_sequence_errors" // requester: told of a gap
	CountImpliedNAKs            Meaning = "implied_nak_sequence_errors"
	CountAckTimeouts            Meaning = "ack_timeouts"
	CountDuplicateRequests      Meaning = "duplicate_requests"
	CountRetransmissions        Meaning = "retransmissions" // times a requester went back to send again
	CountRetransmittedPackets   Meaning = "retransmitted_packets"
	CountRetransmittedBytes     Meaning = "retransmitted_bytes"
	CountAdaptiveRetrans        Meaning = "adaptive_retransmissions"
	CountAdaptiveRetransTimeout Meaning = "adaptive_retransmission_timeouts"
	CountSlowRestarts           Meaning = "slow_restarts"
	CountSlowRestartCNPs        Meaning = "slow_restart_cnps"
	CountSlowRestartTransitions Meaning = "slow_restart_transitions"
	CountRetriesExceeded        Meaning = "retries_exceeded" // the queue pair is in error
	CountRNRRetriesExceeded     Meaning = "rnr_retries_exceeded"
	CountRNRNAKsReceived        Meaning = "rnr_naks_received"
	CountRNRNAKsSent            Meaning = "rnr_naks_sent"
	CountOutOfBuffer            Meaning = "out_of_buffer"
)

// RoCE congestion control (DCQCN).
const (
	CountECNMarked   Meaning = "ecn_marked"
	CountCNPSent     Meaning = "cnp_sent"
	CountCNPReceived Meaning = "cnp_received"
	CountCNPHandled  Meaning = "cnp_handled"
	CountCNPIgnored  Meaning = "cnp_ignored"
)

// Work of queue pairs.
const (
	CountReceivedReads            Meaning = "received_read_requests"
	CountReceivedWrites           Meaning = "received_write_requests"
	CountReceivedAtomics          Meaning = "received_atomic_requests"
	CountReceivedDCTConnects      Meaning = "received_dct_connects"
	CountRequesterCQEErrors       Meaning = "requester_cqe_errors"
	CountResponderCQEErrors       Meaning = "responder_cqe_errors"
	CountRequesterFlushErrors     Meaning = "requester_flush_errors"
	CountResponderFlushErrors     Meaning = "responder_flush_errors"
	CountRequesterRemoteAccess    Meaning = "requester_remote_access_errors"
	CountResponderRemoteAccess    Meaning = "responder_remote_access_errors"
	CountRequesterRemoteInvalid   Meaning = "requester_remote_invalid_requests"
	CountRequesterRemoteOperation Meaning = "requester_remote_operation_errors"
	CountResponderLocalLength     Meaning = "responder_local_length_errors"
)

// Unit returns the unit of the meaning.
func (m Meaning) Unit() CounterUnit {
	switch m {
	case CountTransmittedBytes, CountReceivedBytes, CountRetransmittedBytes:
		return UnitBytes
	case CountTransmittedPackets, CountReceivedPackets, CountTransmittedUnicastPackets, CountReceivedUnicastPackets,
		CountTransmittedMulticastPackets, CountReceivedMulticastPackets, CountRetransmittedPackets,
		CountECNMarked, CountCNPSent, CountCNPReceived, CountCNPHandled, CountCNPIgnored,
		CountReceiveDiscards, CountTransmitDiscards, CountVL15Dropped, CountICRCErrors:
		return UnitPackets
	case CountTransmitWait:
		return UnitTicks
	default:
		return m.statUnit()
	}
}

// Meanings returns every meaning that some driver counts, in the order of the tables.
func Meanings() []Meaning {
	var list []Meaning
	for _, t := range counterTables {
		for _, r := range t.rows {
			if r.meaning != passed && !slices.Contains(list, r.meaning) {
				list = append(list, r.meaning)
			}
		}
	}
	return list
}
