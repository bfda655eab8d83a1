// SPDX-License-Identifier: Apache-2.0

package counters

// What the statistics of an Ethernet interface mean. A frame that is received here was sent by the switch, and what
// it pauses is what this host sends.

// Of one priority of the physical port, in the order of interest: where there is room for some only, it is for the
// first.
const (
	StatReceivedPauseSeconds       Meaning = "received_pause_seconds"    // this host could not send
	StatTransmittedPauseSeconds    Meaning = "transmitted_pause_seconds" // this host made the switch wait
	StatPriorityDiscards           Meaning = "priority_received_discards"
	StatReceivedPauseFrames        Meaning = "received_pause_frames"
	StatTransmittedPauseFrames     Meaning = "transmitted_pause_frames"
	StatReceivedCongestionDiscards Meaning = "received_congestion_discards"
	StatPriorityTransmittedBytes   Meaning = "priority_transmitted_bytes"
	StatPriorityReceivedBytes      Meaning = "priority_received_bytes"
	StatReceivedECNMarks           Meaning = "received_ecn_marks"
	StatReceivedHostDiscards       Meaning = "received_host_buffer_discards"
	StatReceivedPauses             Meaning = "received_pauses"
	StatTransmittedPauses          Meaning = "transmitted_pauses"
	StatPriorityTransmittedPackets Meaning = "priority_transmitted_packets"
	StatPriorityReceivedPackets    Meaning = "priority_received_packets"
)

// Flow control of the port, whatever the priority.
const (
	StatLinkReceivedPauseFrames    Meaning = "link_received_pause_frames" // IEEE 802.3x
	StatLinkTransmittedPauseFrames Meaning = "link_transmitted_pause_frames"
	StatLinkReceivedPauseSeconds   Meaning = "link_received_pause_seconds"
	StatLinkTransmittedPauseSecs   Meaning = "link_transmitted_pause_seconds"
	StatLinkReceivedPauses         Meaning = "link_received_pauses"
	StatReceivedPFCFrames          Meaning = "received_pfc_frames" // one may pause several priorities
	StatTransmittedPFCFrames       Meaning = "transmitted_pfc_frames"
	StatPauseStormWarnings         Meaning = "pause_storm_warnings"
	StatPauseStormErrors           Meaning = "pause_storm_errors"
)

// Loss and traffic of the port.
const (
	StatReceivedDiscards         Meaning = "received_discards"
	StatTransmittedDiscards      Meaning = "transmitted_discards"
	StatOutOfBuffer              Meaning = "ethernet_out_of_buffer" // of the network stack; OutOfBuffer is RDMA's
	StatReceivedDrops            Meaning = "received_drops"         // of causes that the driver does not distinguish
	StatTransmittedDrops         Meaning = "transmitted_drops"      // likewise
	StatReceivedDeliveryErrors   Meaning = "received_delivery_errors"
	StatReceiveBufferAlmostFull  Meaning = "receive_buffer_almost_full"
	StatTransmittedRDMABytes     Meaning = "transmitted_rdma_unicast_bytes"
	StatReceivedRDMABytes        Meaning = "received_rdma_unicast_bytes"
	StatTransmittedOtherBytes    Meaning = "transmitted_other_unicast_bytes"
	StatReceivedOtherBytes       Meaning = "received_other_unicast_bytes"
	StatLinkDownEvents           Meaning = "ethernet_link_down_events"
	StatLocalFaults              Meaning = "ethernet_local_faults"  // IEEE 802.3, 46.3.4: nothing valid arrives here
	StatRemoteFaults             Meaning = "ethernet_remote_faults" // nothing valid arrives at the other end
	StatSymbolErrors             Meaning = "ethernet_symbol_errors" // that FEC did not correct
	StatCRCErrors                Meaning = "received_crc_errors"    // frame check sequence
	StatFECCorrectedBits         Meaning = "fec_corrected_bits"
	StatFECCorrectedBlocks       Meaning = "fec_corrected_blocks"
	StatFECUncorrectableBlocks   Meaning = "fec_uncorrectable_blocks"
	StatPCIeReadStalledSeconds   Meaning = "pcie_read_stalled_seconds"
	StatPCIeWriteStalledSeconds  Meaning = "pcie_write_stalled_seconds"
	StatPCIeReadStalledRatio     Meaning = "pcie_read_stalled_ratio"
	StatPCIeWriteStalledRatio    Meaning = "pcie_write_stalled_ratio"
	StatPCIeBufferOverflows      Meaning = "pcie_buffer_overflows"
	StatPCIeReceivedIntegrity    Meaning = "pcie_received_integrity_errors"
	StatPCIeTransmittedIntegrity Meaning = "pcie_transmitted_integrity_errors"
)

// PerPriority reports whether there is one count for each priority.
func (m Meaning) PerPriority() bool {
	switch m {
	case StatReceivedPauseSeconds, StatTransmittedPauseSeconds, StatReceivedPauseFrames, StatTransmittedPauseFrames,
		StatReceivedPauses, StatTransmittedPauses,
		StatPriorityDiscards, StatReceivedCongestionDiscards, StatReceivedHostDiscards, StatReceivedECNMarks,
		StatPriorityTransmittedBytes, StatPriorityReceivedBytes, StatPriorityTransmittedPackets, StatPriorityReceivedPackets:
		return true
	default:
		return false
	}
}

// statUnit is the unit of a meaning of this file.
func (m Meaning) statUnit() Unit {
	switch m {
	case StatReceivedPauseSeconds, StatTransmittedPauseSeconds, StatLinkReceivedPauseSeconds, StatLinkTransmittedPauseSecs,
		StatPCIeReadStalledSeconds, StatPCIeWriteStalledSeconds:
		return UnitSeconds
	case StatPCIeReadStalledRatio, StatPCIeWriteStalledRatio:
		return UnitRatio
	case StatPriorityTransmittedBytes, StatPriorityReceivedBytes, StatTransmittedRDMABytes, StatReceivedRDMABytes,
		StatTransmittedOtherBytes, StatReceivedOtherBytes:
		return UnitBytes
	case StatPriorityTransmittedPackets, StatPriorityReceivedPackets, StatPriorityDiscards, StatReceivedCongestionDiscards,
		StatReceivedHostDiscards, StatReceivedECNMarks, StatReceivedDiscards, StatTransmittedDiscards, StatOutOfBuffer,
		StatPCIeBufferOverflows,
		StatReceivedDrops, StatTransmittedDrops, StatReceivedDeliveryErrors, StatCRCErrors,
		StatReceivedPauseFrames, StatTransmittedPauseFrames, StatLinkReceivedPauseFrames, StatLinkTransmittedPauseFrames,
		StatReceivedPFCFrames, StatTransmittedPFCFrames:
		return UnitPackets
	default:
		return UnitEvents
	}
}
