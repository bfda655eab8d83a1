// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"

	"gpufabric_exporter/internal/counters"
)

// The rows of the collector ethernet: one for each meaning of the tables of statistics in internal/counters, which also say
// under which kernel names it is found; and rows for what has no meaning of its own.
var (
	statFamilies = newStatFamilies()

	ethernetFECInfo = &Family{
		Name: "ethernet_fec_info", Type: Info, Labels: []string{"device", "port", "netdev", "mode"},
		Help:   "Forward error correction that is in force on the link, by mode: none, rs (Reed-Solomon), baser (Fire code), llrs (low latency Reed-Solomon).",
		Source: fecMessage, Cadence: Slow, Stability: Stable,
	}
	ethernetStatisticTotal = &Family{
		Name: "ethernet_statistic_total", Type: Counter, Labels: []string{"device", "port", "netdev", "statistic"},
		Help: "Statistics of the network interface that --collector.netdev.stats-include asks for and that have no metric of their own, under the name and in the unit of " +
			"the kernel; at most 64 an interface. They are only taken to be counters.",
		Source: statsIoctl, Cadence: Medium, Stability: Experimental,
	}
	ethernetStatisticsDropped = &Family{
		Name: "ethernet_statistics_dropped", Type: Gauge, Labels: []string{"device", "port", "netdev"},
		Help: "How many statistics of the network interface have no series, because it has at most 60 with a metric of their own, and 64 without; absent when there are none. " +
			"Rows of priorities without PFC are dropped first, those that count traffic before those that count pauses and loss.",
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

const allTraffic = " All traffic of the priority, TCP too."

// ofCompute tells whether it matters on interfaces that carry training traffic only: how PCIe keeps up with them, and
// what a priority carries beside its bytes. Others have what tells of loss, pauses, errors and traffic.
func ofCompute(m counters.Meaning) bool {
	switch m {
	case counters.StatReceiveBufferAlmostFull, counters.StatPCIeReadStalledSeconds, counters.StatPCIeWriteStalledSeconds,
		counters.StatPCIeReadStalledRatio, counters.StatPCIeWriteStalledRatio, counters.StatPriorityTransmittedPackets, counters.StatPriorityReceivedPackets:
		return true
	default:
		return false
	}
}

// ethernetRows returns the families of the port and, after them, those of its priorities in the order of interest.
func ethernetRows() []ethernetRow {
	return []ethernetRow{
		{counters.StatLinkReceivedPauseFrames, "ethernet_received_pause_frames_total", pauseMessage, "Pause frames of IEEE 802.3x received: the switch told this host to stop sending, whatever the priority."},
		{counters.StatLinkTransmittedPauseFrames, "ethernet_transmitted_pause_frames_total", pauseMessage, "Pause frames of IEEE 802.3x sent: this host told the switch to stop sending, whatever the priority."},
		{counters.StatLinkReceivedPauseSeconds, "ethernet_received_pause_seconds_total", "", "Time during which this port sent nothing at all because of pause frames (IEEE 802.3x). Its rate is the share of time lost."},
		{counters.StatLinkTransmittedPauseSecs, "ethernet_transmitted_pause_seconds_total", "", "Time during which this port kept the switch from sending anything at all (IEEE 802.3x)."},
		{counters.StatLinkReceivedPauses, "ethernet_received_pauses_total", "", "Times sending went on after a pause of the whole link (IEEE 802.3x)."},
		{counters.StatReceivedPFCFrames, "ethernet_received_pfc_frames_total", "", "Frames of priority flow control received, each for one or more priorities."},
		{counters.StatTransmittedPFCFrames, "ethernet_transmitted_pfc_frames_total", "", "Frames of priority flow control sent, each for one or more priorities."},
		{counters.StatPauseStormWarnings, "ethernet_pause_storm_warnings_total", "", "Times the device kept the switch paused for long: something in this host takes no data (PCIe, memory, the device itself)."},
		{counters.StatPauseStormErrors, "ethernet_pause_storm_errors_total", "", "Times the device kept the switch paused for so long that it gave up sending pauses; packets may be lost until it has recovered."},

		{counters.StatReceivedDiscards, "ethernet_received_discards_total", "", "Packets that arrived and that the port dropped because its buffer was full: this host takes less than it is sent. RDMA and TCP."},
		{counters.StatTransmittedDiscards, "ethernet_transmitted_discards_total", "", "Packets that the port dropped instead of sending them: the link was down or paused for too long."},
		{counters.StatOutOfBuffer, "ethernet_out_of_buffer_total", "", "Packets for the network stack of the kernel dropped because it had provided no buffer. RDMA has hca_out_of_buffer_total."},
		{counters.StatReceivedDrops, "ethernet_received_drops_total", "", "Packets that arrived and that the device dropped, where the driver does not say why: a full buffer, or packets that no receiver here asked for."},
		{counters.StatTransmittedDrops, "ethernet_transmitted_drops_total", "", "Packets that the device dropped instead of sending them, where the driver does not say why."},
		{counters.StatReceivedDeliveryErrors, "ethernet_received_delivery_errors_total", "", "Packets that arrived and that the device could not write to the memory of the host: errors of DMA or of descriptors, or a queue that was off."},
		{counters.StatReceiveBufferAlmostFull, "ethernet_receive_buffer_almost_full_total", "", "Times the receive buffer of the port got more than 85 % full."},
		{counters.StatTransmittedRDMABytes, "ethernet_transmitted_rdma_unicast_bytes_total", "", "RDMA bytes that this function of the device sent to one receiver."},
		{counters.StatReceivedRDMABytes, "ethernet_received_rdma_unicast_bytes_total", "", "RDMA bytes to one receiver that this function of the device received."},
		{counters.StatTransmittedOtherBytes, "ethernet_transmitted_other_unicast_bytes_total", "", "Bytes that this function of the device sent to one receiver and that are not RDMA, most of them TCP."},
		{counters.StatReceivedOtherBytes, "ethernet_received_other_unicast_bytes_total", "", "Bytes to one receiver that this function of the device received and that are not RDMA, most of them TCP."},

		{counters.StatLinkDownEvents, "ethernet_link_down_events_total", "", "Times the link went down."},
		{counters.StatLocalFaults, "ethernet_local_faults_total", "", "Times the port received no valid signal (local fault of IEEE 802.3): cable, transceiver, or the other side is off."},
		{counters.StatRemoteFaults, "ethernet_remote_faults_total", "", "Times the other side reported that it receives no valid signal from this port (remote fault of IEEE 802.3)."},
		{counters.StatCRCErrors, "ethernet_received_crc_errors_total", "", "Frames that arrived damaged (wrong CRC, the frame check sequence) and were dropped: cable, connector or transceiver, or a switch that forwards what it received damaged."},
		{counters.StatSymbolErrors, "ethernet_symbol_errors_total", "", "Symbols that arrived wrong and that forward error correction did not correct, or that none was there to correct: packets are lost. Cable, connector or transceiver."},
		{counters.StatFECCorrectedBits, "ethernet_fec_bit_corrections_total", fecMessage, "Bits that forward error correction corrected; normal from 100 Gb/s on, a rising trend shows a degrading link."},
		{counters.StatFECCorrectedBlocks, "ethernet_fec_corrected_blocks_total", fecMessage, "Blocks that forward error correction corrected."},
		{counters.StatFECUncorrectableBlocks, "ethernet_fec_uncorrectable_blocks_total", fecMessage, "Blocks with more errors than forward error correction corrects: packets are lost."},

		{counters.StatPCIeReadStalledSeconds, "ethernet_pcie_read_stalled_seconds_total", "", "Seconds in which the device could not read from the host over PCIe for more than 30 % of the time, for want of credits."},
		{counters.StatPCIeWriteStalledSeconds, "ethernet_pcie_write_stalled_seconds_total", "", "Seconds in which the device could not write to the host over PCIe for more than 30 % of the time, for want of credits."},
		{counters.StatPCIeReadStalledRatio, "ethernet_pcie_read_stalled_ratio", "", "Share of the last second in which the device could not read from the host over PCIe, for want of credits."},
		{counters.StatPCIeWriteStalledRatio, "ethernet_pcie_write_stalled_ratio", "", "Share of the last second in which the device could not write to the host over PCIe, for want of credits."},
		{counters.StatPCIeBufferOverflows, "ethernet_pcie_buffer_overflows_total", "", "Packets dropped because PCIe took them more slowly than they came."},
		{counters.StatPCIeReceivedIntegrity, "ethernet_pcie_received_integrity_errors_total", "", "Times PCIe had to recover from errors in what the device received: slot, riser or firmware."},
		{counters.StatPCIeTransmittedIntegrity, "ethernet_pcie_transmitted_integrity_errors_total", "", "Times the other side made PCIe recover from errors in what the device sent: slot, riser or firmware."},

		{counters.StatReceivedPauseSeconds, "roce_received_pause_seconds_total", "", "Time during which this port sent nothing of the priority because of PFC: the network is congested. Its rate is the share of time lost."},
		{counters.StatTransmittedPauseSeconds, "roce_transmitted_pause_seconds_total", "", "Time during which this port kept the switch from sending the priority (PFC): this host takes less than it is sent."},
		{counters.StatPriorityDiscards, "roce_received_discards_total", "", "Packets of the priority that arrived and that the port dropped because its buffer was full; in a lossless priority there are none."},
		{counters.StatReceivedPauseFrames, "roce_received_pause_frames_total", "", "PFC frames received that pause the priority or end its pause."},
		{counters.StatTransmittedPauseFrames, "roce_transmitted_pause_frames_total", "", "PFC frames sent that pause the priority or end its pause."},
		{counters.StatReceivedCongestionDiscards, "roce_received_congestion_discards_total", "", "Packets of the priority that arrived and that the device dropped because this host was congested."},
		{counters.StatPriorityTransmittedBytes, "roce_priority_transmitted_bytes_total", "", "Bytes sent with the priority." + allTraffic},
		{counters.StatPriorityReceivedBytes, "roce_priority_received_bytes_total", "", "Bytes received with the priority." + allTraffic},
		{counters.StatReceivedECNMarks, "roce_received_ecn_marks_total", "", "Packets of the priority that the device itself marked (ECN) because this host was congested; those that switches marked are in hca_ecn_marked_total."},
		{counters.StatReceivedHostDiscards, "roce_received_host_buffer_discards_total", "", "Packets of the priority dropped because the buffer of this host in the device was full, which matters where hosts share one."},
		{counters.StatReceivedPauses, "roce_received_pauses_total", "", "Times the network paused the priority (PFC), counted as the pause ends, as it begins (i40e), or half each (bnxt)."},
		{counters.StatTransmittedPauses, "roce_transmitted_pauses_total", "", "Times this port paused the priority (PFC), half of it counted as the pause begins and half as it ends."},
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
