// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/counters"
)

// The rows of the collector counters: one for each meaning of the tables in internal/counters, which also say
// under which kernel names it is found; and rows for what has no meaning of its own.
var (
	countFamilies = newCountFamilies()

	counterSaturated = &Family{
		Name: "hca_counter_saturated", Type: Gauge, Labels: []string{"device", "port", "counter"},
		Help: "1 for a counter of 4 to 32 bits, under its kernel name, that has reached its maximum and stays there until it is cleared " +
			"(perfquery -R); its rate is meaningless until then. Absent otherwise.",
		Source: pmaSource, Cadence: Slow, Stability: Stable,
	}
	hwCountersTotal = &Family{
		Name: "hca_hw_counters_total", Type: Counter, Labels: []string{"device", "port", "counter"},
		Help: "Hardware counters that have no metric of their own, with the kernel's name and unit; at most 64 per port. " +
			"port is empty for counters of the whole device. " +
			"Names that docs/COUNTERS.md does not list are assumed to be counters.",
		Source: hwSource, Cadence: Fast, Stability: Experimental,
	}
	hwCountersValue = &Family{
		Name: "hca_hw_counters_value", Type: Gauge, Labels: []string{"device", "port", "counter"},
		Help: "Values that drivers list among their hardware counters although they are gauges, with the kernel's name and unit. " +
			"port is empty for values of the whole device.",
		Source: hwSource, Cadence: Fast, Stability: Experimental,
	}
	hwCountersDropped = &Family{
		Name: "hca_hw_counters_dropped", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "Number of hardware counters without a series, because more than 64 have no metric of their own; absent if there are none.",
		Source: hwSource, Cadence: Fast, Stability: Experimental,
	}
	hwCountersLifespan = &Family{
		Name: "hca_hw_counters_lifespan_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"device", "port"},
		Help:   "Time for which the kernel caches the port's hardware counters before it reads them from the device again.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/hw_counters/lifespan", Cadence: Slow, Stability: Stable,
	}
)

// Where counters come from.
const (
	pmaSource    = "/sys/class/infiniband/<device>/ports/<port>/counters, counters_ext"
	hwSource     = "/sys/class/infiniband/<device>/ports/<port>/hw_counters, RDMA_NLDEV_CMD_STAT_GET; /sys/class/infiniband/<device>/hw_counters"
	pmaAndSource = pmaSource + "; " + hwSource
)

// countersFamilies are the rows of the collector counters, in the order of documentation.
func countersFamilies() []*Family {
	var list []*Family
	for _, row := range countRows() {
		list = append(list, countFamilies[row.meaning])
	}
	return append(list, counterSaturated, hwCountersTotal, hwCountersValue, hwCountersDropped, hwCountersLifespan)
}

// countRow is the family of a meaning. The kernel names are added to the help.
type countRow struct {
	meaning counters.Meaning
	name    string
	cadence Cadence
	help    string
}

const (
	rdmaOnly = " Includes headers, as the hardware counts them. On InfiniBand all traffic, including IP over InfiniBand; on Ethernet RDMA only, without TCP."
	ibLink   = " For InfiniBand links: an Ethernet port has a series only if it is not 0; use the counters of the network interface instead."
)

// ofInfiniBand reports whether it happens on InfiniBand links only. An Ethernet port has the counters of that
// standard too, and nothing counts in these: a dozen series a port that would never say anything.
func ofInfiniBand(m counters.Meaning) bool {
	switch m {
	case counters.TransmitWait, counters.SymbolErrors, counters.LinkErrorRecoveries, counters.ReceiveErrors,
		counters.ReceiveRemotePhysical,
		counters.ReceiveSwitchRelay, counters.ReceiveConstraintErrors, counters.TransmitDiscards,
		counters.TransmitConstraintErrors,
		counters.LocalLinkIntegrity, counters.ExcessiveBufferOverruns, counters.VL15Dropped:
		return true
	default:
		return false
	}
}

func countRows() []countRow {
	return []countRow{
		{counters.TransmittedBytes, "hca_port_transmitted_data_bytes_total", Fast, "Bytes sent by the port." + rdmaOnly},
		{counters.ReceivedBytes, "hca_port_received_data_bytes_total", Fast, "Bytes received by the port." + rdmaOnly},
		{counters.TransmittedPackets, "hca_port_transmitted_packets_total", Fast, "Packets sent by the port; on Ethernet RDMA only."},
		{counters.ReceivedPackets, "hca_port_received_packets_total", Fast, "Packets received by the port; on Ethernet RDMA only."},
		{counters.TransmittedUnicastPackets, "hca_port_transmitted_unicast_packets_total", Slow, "Unicast packets sent by the port; on Ethernet RDMA only."},
		{counters.ReceivedUnicastPackets, "hca_port_received_unicast_packets_total", Slow, "Unicast packets received by the port; on Ethernet RDMA only."},
		{counters.TransmittedMulticastPackets, "hca_port_transmitted_multicast_packets_total", Slow, "Multicast packets sent by the port; on Ethernet RDMA only."},
		{counters.ReceivedMulticastPackets, "hca_port_received_multicast_packets_total", Slow, "Multicast packets received by the port; on Ethernet RDMA only."},
		{
			counters.TransmitWait, "hca_port_transmit_wait_ticks_total", Fast,
			"Ticks during which the port had data to send but no credits: the network behind it is congested. The device does not report the length of a tick.",
		},

		{counters.SymbolErrors, "hca_port_symbol_errors_total", Slow, "Minor errors on the physical lanes. Likely causes: cable, connector or transceiver."},
		{counters.LinkErrorRecoveries, "hca_port_link_error_recoveries_total", Slow, "Times the link recovered by itself from errors; traffic stopped during the recovery."},
		{counters.LinkDowned, "hca_port_link_downed_total", Slow, "Times the link went down."},
		{counters.ReceiveErrors, "hca_port_receive_errors_total", Slow, "Packets received with an error."},
		{counters.ReceiveRemotePhysical, "hca_port_receive_remote_physical_errors_total", Slow, "Packets received that a switch had marked as bad: the error is on an earlier link, not the one to this port."},
		{counters.ReceiveSwitchRelay, "hca_port_receive_switch_relay_errors_total", Slow, "Packets that a switch could not forward."},
		{counters.ReceiveConstraintErrors, "hca_port_receive_constraint_errors_total", Slow, "Packets not received because of the partition or the filter for raw packets."},
		{counters.ReceiveDiscards, "hca_port_receive_discards_total", Fast, "Received RDMA packets that the device dropped."},
		{counters.TransmitDiscards, "hca_port_transmit_discards_total", Slow, "Packets dropped before they were sent, because the port was down or congested."},
		{counters.TransmitConstraintErrors, "hca_port_transmit_constraint_errors_total", Slow, "Packets not sent because of the partition or the filter for raw packets."},
		{counters.LocalLinkIntegrity, "hca_port_local_link_integrity_errors_total", Slow, "Times errors on the physical lanes exceeded their threshold."},
		{counters.ExcessiveBufferOverruns, "hca_port_excessive_buffer_overrun_errors_total", Slow, "Times the receive buffers overran for longer than the threshold."},
		{counters.VL15Dropped, "hca_port_vl15_dropped_total", Slow, "Subnet management packets dropped because of a lack of buffers."},
		{counters.ICRCErrors, "hca_icrc_errors_total", Fast, "Corrupted RoCE packets received with a correct Ethernet checksum. Likely cause: memory of a switch or NIC."},

		{counters.OutOfSequence, "hca_out_of_sequence_total", Fast, "Times received RDMA packets had a gap in their sequence numbers: packets to this host were lost or reordered."},
		{counters.PacketSequenceErrors, "hca_packet_sequence_errors_total", Fast, "Negative acknowledgements (NAK) received for a gap in the sequence: packets from this host were lost or reordered."},
		{counters.ImpliedNAKs, "hca_implied_nak_sequence_errors_total", Fast, "Times a later response to an RDMA read showed that an earlier one was lost."},
		{counters.AckTimeouts, "hca_ack_timeouts_total", Fast, "Times packets were retransmitted because no acknowledgement arrived in time: packets were lost, or the remote side does not respond."},
		{counters.DuplicateRequests, "hca_duplicate_requests_total", Fast, "Requests received again after they had been executed: the sender did not receive the acknowledgement."},
		{counters.Retransmissions, "hca_retransmissions_total", Fast, "Times the sender retransmitted, for any reason."},
		{counters.RetransmittedPackets, "hca_retransmitted_packets_total", Fast, "RDMA packets retransmitted."},
		{counters.RetransmittedBytes, "hca_retransmitted_bytes_total", Fast, "Bytes of retransmitted RDMA packets."},
		{counters.AdaptiveRetrans, "hca_adaptive_retransmissions_total", Fast, "Retransmissions by adaptive retransmission of RoCE, which does not wait for the full timeout."},
		{counters.AdaptiveRetransTimeout, "hca_adaptive_retransmission_timeouts_total", Fast, "Times RoCE traffic timed out despite adaptive retransmission."},
		{counters.SlowRestarts, "hca_slow_restarts_total", Fast, "Times RoCE resumed sending slowly after a pause."},
		{counters.SlowRestartCNPs, "hca_slow_restart_cnps_total", Fast, "Times a slow restart of RoCE generated congestion notifications."},
		{counters.SlowRestartTransitions, "hca_slow_restart_transitions_total", Fast, "Times RoCE entered the slow restart state."},
		{counters.RetriesExceeded, "hca_retries_exceeded_total", Fast, "Connections that failed because all retries went unanswered. The job that uses the connection fails (NCCL: \"transport retry counter exceeded\")."},
		{counters.RNRRetriesExceeded, "hca_rnr_retries_exceeded_total", Fast, "Connections that failed because the receiver was not ready for all retries. The job that uses the connection fails."},
		{counters.RNRNAKsReceived, "hca_rnr_naks_received_total", Fast, "Times the remote side was not ready to receive (RNR NAK): its application had posted no buffer."},
		{counters.RNRNAKsSent, "hca_rnr_naks_sent_total", Fast, "Times this side reported that it was not ready to receive (RNR NAK): its application had posted no buffer."},
		{counters.OutOfBuffer, "hca_out_of_buffer_total", Fast, "Times a message arrived for which the application had posted no receive buffer."},

		{counters.ECNMarked, "hca_ecn_marked_total", Fast, "RoCE packets received with a congestion mark of a switch (ECN)."},
		{counters.CNPSent, "hca_cnp_sent_total", Fast, "Congestion notifications sent to senders whose packets arrived marked."},
		{counters.CNPReceived, "hca_cnp_received_total", Fast, "Congestion notifications received: traffic from this host meets congestion."},
		{counters.CNPHandled, "hca_cnp_handled_total", Fast, "Congestion notifications received for which the device reduced its rate."},
		{counters.CNPIgnored, "hca_cnp_ignored_total", Fast, "Congestion notifications received and ignored: congestion control is off for them."},

		{counters.ReceivedReads, "hca_received_read_requests_total", Fast, "Requests received to read local memory."},
		{counters.ReceivedWrites, "hca_received_write_requests_total", Fast, "Requests received to write local memory."},
		{counters.ReceivedAtomics, "hca_received_atomic_requests_total", Fast, "Requests received to change local memory atomically."},
		{counters.ReceivedDCTConnects, "hca_received_dct_connects_total", Fast, "Connection requests received for dynamically connected transport."},
		{counters.RequesterCQEErrors, "hca_requester_cqe_errors_total", Fast, "Sends, reads and writes that completed with an error."},
		{counters.ResponderCQEErrors, "hca_responder_cqe_errors_total", Fast, "Receives that completed with an error."},
		{counters.RequesterFlushErrors, "hca_requester_flush_errors_total", Fast, "Sends, reads and writes that were discarded because their connection had failed or was closed; normal when a job ends."},
		{counters.ResponderFlushErrors, "hca_responder_flush_errors_total", Fast, "Receives that were discarded because their connection had failed or was closed; normal when a job ends."},
		{counters.RequesterRemoteAccess, "hca_requester_remote_access_errors_total", Fast, "Requests of this host that the remote side rejected: wrong key, address or permission."},
		{counters.ResponderRemoteAccess, "hca_responder_remote_access_errors_total", Fast, "Remote requests that this host rejected: wrong key, address or permission."},
		{counters.RequesterRemoteInvalid, "hca_requester_remote_invalid_requests_total", Fast, "Requests of this host that the remote side rejected as invalid."},
		{counters.RequesterRemoteOperation, "hca_requester_remote_operation_errors_total", Fast, "Requests of this host that the remote side could not execute."},
		{counters.ResponderLocalLength, "hca_responder_local_length_errors_total", Fast, "Messages received that were longer than the buffer posted for them."},
	}
}

func newCountFamilies() map[counters.Meaning]*Family {
	families, counted := map[counters.Meaning]*Family{}, kernelCounters()
	for _, row := range countRows() {
		if ofInfiniBand(row.meaning) {
			row.help += ibLink
		}
		f := &Family{
			Name: row.name, Type: Counter, Labels: []string{"device", "port"},
			Help:   row.help + " Kernel names: " + strings.Join(counted[row.meaning].names, ", ") + ".",
			Source: counted[row.meaning].source(), Cadence: row.cadence, Stability: Stable,
		}
		if u := row.meaning.Unit(); u == counters.UnitBytes || u == counters.UnitTicks {
			f.Unit = string(u)
		}
		families[row.meaning] = f
	}
	return families
}

// kernelCounter is where drivers count something.
type kernelCounter struct {
	names   []string // with the table, for those who search by them
	pma, hw bool     // the places of those tables
}

func kernelCounters() map[counters.Meaning]kernelCounter {
	counted := map[counters.Meaning]kernelCounter{}
	for _, t := range counters.Tables() {
		names := map[counters.Meaning][]string{}
		for name, spec := range t.Counters() {
			names[spec.Meaning] = append(names[spec.Meaning], name)
		}
		pma := t.Place == counters.PlacePMA || t.Place == counters.PlacePMAExt
		for meaning, names := range names {
			c := counted[meaning]
			c.pma, c.hw = c.pma || pma, c.hw || !pma
			ofStandard := t.Place == counters.PlacePMA && t.Drivers[0] != counters.AnyDriver
			if !ofStandard && !slices.ContainsFunc(c.names, func(s string) bool { return strings.HasPrefix(s, t.Name+" ") }) {
				c.names = append(c.names, t.Name+" "+strings.Join(names, " + "))
			}
			counted[meaning] = c
		}
	}
	return counted
}

func (c kernelCounter) source() string {
	switch {
	case c.pma && c.hw:
		return pmaAndSource
	case c.pma:
		return pmaSource
	default:
		return hwSource
	}
}
