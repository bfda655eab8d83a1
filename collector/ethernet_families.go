// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"

	"gpufabric_exporter/internal/counters"
)

// The rows of the collector ethernet: one for each meaning of the tables of statistics in internal/counters,
// which also say under which kernel names it is found; and rows for what has no meaning of its own.
var (
	statFamilies = newStatFamilies()

	ethernetFECInfo = &Family{
		Name: "ethernet_fec_info", Type: Info, Labels: []string{"device", "port", "netdev", "mode"},
		Help:   "Active forward error correction of the link, by mode: none, rs (Reed-Solomon), baser (Fire code), llrs (low latency Reed-Solomon).",
		Source: fecMessage, Cadence: Slow, Stability: Stable,
	}
	ethernetStatisticTotal = &Family{
		Name: "ethernet_statistic_total", Type: Counter, Labels: []string{"device", "port", "netdev", "statistic"},
		Help: "Statistics of the network interface that match --collector.netdev.stats-include and have no metric of their own, with the name and unit of " +
			"the kernel; at most 64 per interface. They are assumed to be counters.",
		Source: statsIoctl, Cadence: Medium, Stability: Experimental,
	}
	ethernetStatisticsDropped = &Family{
		Name: "ethernet_statistics_dropped", Type: Gauge, Labels: []string{"device", "port", "netdev"},
		Help: "Number of statistics of the network interface without a series, because of the limits of 60 with a metric of their own and 64 others; absent if there are none. " +
			"Statistics of priorities without PFC are dropped first, and among them traffic before pauses and losses.",
		Source: statsIoctl, Cadence: Medium, Stability: Experimental,
	}
)

// Where statistics come from.
const (
	statsIoctl   = "ETHTOOL_GSTATS"
	pauseMessage = "ETHTOOL_MSG_PAUSE_GET"
	fecMessage   = "ETHTOOL_MSG_FEC_GET"
)

// ethernetFamilies are the rows of the collector ethernet, in the order of documentation.
func ethernetFamilies() []*Family {
	var list []*Family
	for _, row := range ethernetRows() {
		list = append(list, statFamilies[row.meaning])
	}
	return append(list, ethernetFECInfo, ethernetStatisticTotal, ethernetStatisticsDropped)
}

// ethernetRow is the family of a meaning. The kernel names are added to the help.
type ethernetRow struct {
	meaning counters.Meaning
	name    string
	message string // of ethtool that has it where statistics do not
	help    string
}

const allTraffic = " All traffic of the priority, including TCP."

// ofCompute reports whether it matters on interfaces that carry training traffic only: how PCIe keeps up with them, and
// what a priority carries beside its bytes. Others have loss, pauses, errors and traffic.
func ofCompute(m counters.Meaning) bool {
	switch m {
	case counters.StatReceiveBufferAlmostFull, counters.StatPCIeReadStalledSeconds, counters.StatPCIeWriteStalledSeconds,
		counters.StatPCIeReadStalledRatio, counters.StatPCIeWriteStalledRatio, counters.StatPriorityTransmittedPackets,
		counters.StatPriorityReceivedPackets:
		return true
	default:
		return false
	}
}

// ethernetRows returns the families of the port and, after them, those of its priorities in the order of interest.
func ethernetRows() []ethernetRow {
	return []ethernetRow{
		{counters.StatLinkReceivedPauseFrames, "ethernet_received_pause_frames_total", pauseMessage, "IEEE 802.3x pause frames received: the switch asked this host to stop sending, for all priorities."},
		{counters.StatLinkTransmittedPauseFrames, "ethernet_transmitted_pause_frames_total", pauseMessage, "IEEE 802.3x pause frames sent: this host asked the switch to stop sending, for all priorities."},
		{counters.StatLinkReceivedPauseSeconds, "ethernet_received_pause_seconds_total", "", "Time during which this port could not send because of IEEE 802.3x pause frames. Its rate is the share of time lost."},
		{counters.StatLinkTransmittedPauseSecs, "ethernet_transmitted_pause_seconds_total", "", "Time during which this port paused the switch completely (IEEE 802.3x)."},
		{counters.StatLinkReceivedPauses, "ethernet_received_pauses_total", "", "Times sending resumed after a pause of the whole link (IEEE 802.3x)."},
		{counters.StatReceivedPFCFrames, "ethernet_received_pfc_frames_total", "", "Frames of priority flow control received, each for one or more priorities."},
		{counters.StatTransmittedPFCFrames, "ethernet_transmitted_pfc_frames_total", "", "Frames of priority flow control sent, each for one or more priorities."},
		{counters.StatPauseStormWarnings, "ethernet_pause_storm_warnings_total", "", "Times the device paused the switch for a long time: part of this host does not accept data (PCIe, memory or the device itself)."},
		{counters.StatPauseStormErrors, "ethernet_pause_storm_errors_total", "", "Times the device paused the switch for so long that it stopped sending pause frames; packets may be lost until it recovers."},

		{counters.StatReceivedDiscards, "ethernet_received_discards_total", "", "Received packets that the port dropped because its buffer was full: this host receives more slowly than the network sends. RDMA and TCP."},
		{counters.StatTransmittedDiscards, "ethernet_transmitted_discards_total", "", "Outgoing packets that the port dropped because the link was down or paused for too long."},
		{counters.StatOutOfBuffer, "ethernet_out_of_buffer_total", "", "Packets for the kernel's network stack that were dropped because it had provided no buffer. For RDMA see hca_out_of_buffer_total."},
		{counters.StatReceivedDrops, "ethernet_received_drops_total", "", "Received packets that the device dropped for a reason that the driver does not report, such as a full buffer or a packet without a receiver."},
		{counters.StatTransmittedDrops, "ethernet_transmitted_drops_total", "", "Outgoing packets that the device dropped for a reason that the driver does not report."},
		{counters.StatReceivedDeliveryErrors, "ethernet_received_delivery_errors_total", "", "Received packets that the device could not write to host memory: DMA or descriptor errors, or a disabled queue."},
		{counters.StatReceiveBufferAlmostFull, "ethernet_receive_buffer_almost_full_total", "", "Times the receive buffer of the port became more than 85 % full."},
		{counters.StatTransmittedRDMABytes, "ethernet_transmitted_rdma_unicast_bytes_total", "", "Unicast RDMA bytes sent by this function of the device."},
		{counters.StatReceivedRDMABytes, "ethernet_received_rdma_unicast_bytes_total", "", "Unicast RDMA bytes received by this function of the device."},
		{counters.StatTransmittedOtherBytes, "ethernet_transmitted_other_unicast_bytes_total", "", "Unicast bytes other than RDMA sent by this function of the device, mostly TCP."},
		{counters.StatReceivedOtherBytes, "ethernet_received_other_unicast_bytes_total", "", "Unicast bytes other than RDMA received by this function of the device, mostly TCP."},

		{counters.StatLinkDownEvents, "ethernet_link_down_events_total", "", "Times the link went down."},
		{counters.StatLocalFaults, "ethernet_local_faults_total", "", "Times the port received no valid signal (local fault of IEEE 802.3). Likely causes: cable, transceiver, or the remote side is off."},
		{counters.StatRemoteFaults, "ethernet_remote_faults_total", "", "Times the remote side reported that it receives no valid signal from this port (remote fault of IEEE 802.3)."},
		{counters.StatCRCErrors, "ethernet_received_crc_errors_total", "", "Corrupted frames (wrong CRC, the frame check sequence) that were dropped. Likely causes: cable, connector or transceiver, or a switch that forwards corrupted frames."},
		{counters.StatSymbolErrors, "ethernet_symbol_errors_total", "", "Symbol errors that forward error correction did not correct, or without such correction: packets are lost. Likely causes: cable, connector or transceiver."},
		{counters.StatFECCorrectedBits, "ethernet_fec_bit_corrections_total", fecMessage, "Bits that forward error correction corrected. Some are normal at 100 Gb/s and above; a rising trend shows a degrading link."},
		{counters.StatFECCorrectedBlocks, "ethernet_fec_corrected_blocks_total", fecMessage, "Blocks that forward error correction corrected."},
		{counters.StatFECUncorrectableBlocks, "ethernet_fec_uncorrectable_blocks_total", fecMessage, "Blocks with more errors than forward error correction can correct: packets are lost."},

		{counters.StatPCIeReadStalledSeconds, "ethernet_pcie_read_stalled_seconds_total", "", "Seconds in which the device was unable to read from the host over PCIe for more than 30 % of the time, because it had no credits."},
		{counters.StatPCIeWriteStalledSeconds, "ethernet_pcie_write_stalled_seconds_total", "", "Seconds in which the device was unable to write to the host over PCIe for more than 30 % of the time, because it had no credits."},
		{counters.StatPCIeReadStalledRatio, "ethernet_pcie_read_stalled_ratio", "", "Share of the last second in which the device was unable to read from the host over PCIe, because it had no credits."},
		{counters.StatPCIeWriteStalledRatio, "ethernet_pcie_write_stalled_ratio", "", "Share of the last second in which the device was unable to write to the host over PCIe, because it had no credits."},
		{counters.StatPCIeBufferOverflows, "ethernet_pcie_buffer_overflows_total", "", "Packets dropped because PCIe was slower than the network."},
		{counters.StatPCIeReceivedIntegrity, "ethernet_pcie_received_integrity_errors_total", "", "Times PCIe recovered from errors in data that the device received. Likely causes: slot, riser or firmware."},
		{counters.StatPCIeTransmittedIntegrity, "ethernet_pcie_transmitted_integrity_errors_total", "", "Times PCIe recovered from errors in data that the device sent, as requested by the other end. Likely causes: slot, riser or firmware."},

		{counters.StatReceivedPauseSeconds, "roce_received_pause_seconds_total", "", "Time during which PFC kept this port from sending the priority: the network is congested. Its rate is the share of time lost."},
		{counters.StatTransmittedPauseSeconds, "roce_transmitted_pause_seconds_total", "", "Time during which this port paused the priority at the switch (PFC): this host receives more slowly than the network sends."},
		{counters.StatPriorityDiscards, "roce_received_discards_total", "", "Received packets of the priority that the port dropped because its buffer was full; always 0 for a working lossless priority."},
		{counters.StatReceivedPauseFrames, "roce_received_pause_frames_total", "", "PFC frames received that start or end a pause of the priority."},
		{counters.StatTransmittedPauseFrames, "roce_transmitted_pause_frames_total", "", "PFC frames sent that start or end a pause of the priority."},
		{counters.StatReceivedCongestionDiscards, "roce_received_congestion_discards_total", "", "Received packets of the priority that the device dropped because this host was congested."},
		{counters.StatPriorityTransmittedBytes, "roce_priority_transmitted_bytes_total", "", "Bytes sent with the priority." + allTraffic},
		{counters.StatPriorityReceivedBytes, "roce_priority_received_bytes_total", "", "Bytes received with the priority." + allTraffic},
		{counters.StatReceivedECNMarks, "roce_received_ecn_marks_total", "", "Packets of the priority that the device itself marked (ECN) because this host was congested; for marks of switches see hca_ecn_marked_total."},
		{counters.StatReceivedHostDiscards, "roce_received_host_buffer_discards_total", "", "Packets of the priority dropped because the buffer of this host in the device was full; relevant if several hosts share the device."},
		{counters.StatReceivedPauses, "roce_received_pauses_total", "", "Times the network paused the priority (PFC), counted at the end of the pause, at its start (i40e), or half at each (bnxt)."},
		{counters.StatTransmittedPauses, "roce_transmitted_pauses_total", "", "Times this port paused the priority (PFC), counted half at the start of the pause and half at its end."},
		{counters.StatPriorityTransmittedPackets, "roce_priority_transmitted_packets_total", "", "Packets sent with the priority." + allTraffic},
		{counters.StatPriorityReceivedPackets, "roce_priority_received_packets_total", "", "Packets received with the priority." + allTraffic},
	}
}

func newStatFamilies() map[counters.Meaning]*Family {
	families := map[counters.Meaning]*Family{}
	for _, row := range ethernetRows() {
		f := &Family{
			Name: row.name, Type: Counter, Labels: []string{"device", "port", "netdev"},
			Help:   row.help + " Kernel names: " + statNames(row.meaning) + ".",
			Source: statsIoctl, Cadence: Medium, Stability: Stable,
		}
		if ofCompute(row.meaning) {
			f.Help += " Only of compute ports."
		}
		if row.message != "" {
			f.Source += "; " + row.message
		}
		if row.meaning.PerPriority() {
			f.Labels = append(f.Labels, "priority")
		}
		switch u := row.meaning.Unit(); u {
		case counters.UnitRatio:
			f.Type, f.Unit = Gauge, string(u)
		case counters.UnitBytes, counters.UnitSeconds:
			f.Unit = string(u)
		}
		families[row.meaning] = f
	}
	return families
}

// statNames lists under which names the drivers count it, for those who search by them.
func statNames(m counters.Meaning) string {
	var list []string
	for _, t := range counters.StatTables() {
		var names, older []string
		for name, spec := range t.Rows() {
			switch {
			case spec.Meaning != m:
			case spec.Older:
				older = append(older, name)
			default:
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			list = append(list, t.Name+" "+strings.Join(names, " + "))
		}
		switch {
		case len(names) > 0 && len(older) > 0:
			list[len(list)-1] += " (once " + strings.Join(older, " + ") + ")"
		case len(older) > 0:
			list = append(list, t.Name+" (once "+strings.Join(older, " + ")+")")
		}
	}
	return strings.Join(list, ", ")
}
