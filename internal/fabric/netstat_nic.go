// SPDX-License-Identifier: Apache-2.0

package fabric

var bnxtNetStats = NetStatTable{
	Name: "bnxt", Drivers: []string{"bnxt_en"},
	Source: "drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c",
	Note: "`*_bytes_pri<n>` and `*_packets_pri<n>` are the queue's that a priority uses, and priorities that share one show the same numbers: they count for priorities " +
		"that have a traffic class (ETS) to themselves. `pfc_pri<n>_*_transitions` count both the beginning and the end of a pause; half of them is how many pauses there " +
		"were. The queues of `rx_discard_packets_cos<n>` are no priorities; they add up to the port's discards. `rx_stat_discard` and `tx_stat_discard` are the port's, and the kernel's source says nothing " +
		"of why; `rx_total_ring_discards`, once `rx_total_discard_pkts`, is of the rings of the network stack. What `continuous_*` and `resume_*` count is not in the kernel's source.",
	rows: []counterRow{
		{"pfc_pri%d_rx_duration_us", StatReceivedPauseSeconds, micros64},
		{"pfc_pri%d_tx_duration_us", StatTransmittedPauseSeconds, micros64},
		{"rx_pfc_ena_frames_pri%d", StatReceivedPauseFrames, bits64},
		{"tx_pfc_ena_frames_pri%d", StatTransmittedPauseFrames, bits64},
		{"pfc_pri%d_rx_transitions", StatReceivedPauses, halves64},
		{"pfc_pri%d_tx_transitions", StatTransmittedPauses, halves64},
		{"tx_bytes_pri%d", StatPriorityTransmittedBytes, class64},
		{"rx_bytes_pri%d", StatPriorityReceivedBytes, class64},
		{"tx_packets_pri%d", StatPriorityTransmittedPackets, class64},
		{"rx_packets_pri%d", StatPriorityReceivedPackets, class64},

		{"rx_pause_frames", StatLinkReceivedPauseFrames, bits64},
		{"tx_pause_frames", StatLinkTransmittedPauseFrames, bits64},
		{"rx_pfc_frames", StatReceivedPFCFrames, bits64},
		{"tx_pfc_frames", StatTransmittedPFCFrames, bits64},

		{"rx_discard_packets_cos%d", StatReceivedDiscards, bits64},
		{"rx_stat_discard", StatReceivedDrops, bits64},
		{"tx_stat_discard", StatTransmittedDrops, bits64},
		{"rx_total_ring_discards", StatOutOfBuffer, bits64}, // rx_missed_errors of bnxt_get_stats64
		{"rx_buffer_passed_threshold", StatReceiveBufferAlmostFull, bits64},
		{"link_down_events", StatLinkDownEvents, bits64},
		{"rx_pcs_symbol_err", StatSymbolErrors, bits64},
		{"rx_fcs_err_frames", StatCRCErrors, bits64},
		{"rx_corrected_bits", StatFECCorrectedBits, bits64},
		{"rx_fec_corrected_blocks", StatFECCorrectedBlocks, bits64},
		{"rx_fec_uncorrectable_blocks", StatFECUncorrectableBlocks, bits64},
	},
	older: []counterRow{ // before Linux 6.6
		{"rx_total_discard_pkts", StatOutOfBuffer, bits64},
	},
}

// Intel counts the frames that begin a pause (xoff) and those that end it early (xon) apart. Others count frames, which
// is their sum.

var iceNetStats = NetStatTable{
	Name: "ice", Drivers: []string{"ice"},
	Source: "drivers/net/ethernet/intel/ice/ice_ethtool.c",
	Note:   "The interface of irdma. The driver counts neither the time of pauses nor RDMA traffic here.",
	rows: []counterRow{
		{"rx_priority_%d_xon.nic", StatReceivedPauseFrames, bits64},
		{"rx_priority_%d_xoff.nic", StatReceivedPauseFrames, bits64},
		{"tx_priority_%d_xon.nic", StatTransmittedPauseFrames, bits64},
		{"tx_priority_%d_xoff.nic", StatTransmittedPauseFrames, bits64},

		{"link_xon_rx.nic", StatLinkReceivedPauseFrames, bits64},
		{"link_xoff_rx.nic", StatLinkReceivedPauseFrames, bits64},
		{"link_xon_tx.nic", StatLinkTransmittedPauseFrames, bits64},
		{"link_xoff_tx.nic", StatLinkTransmittedPauseFrames, bits64},

		{"rx_dropped.nic", StatReceivedDiscards, bits64},
		{"tx_dropped_link_down.nic", StatTransmittedDiscards, bits64},
		{"mac_local_faults.nic", StatLocalFaults, bits64},
		{"mac_remote_faults.nic", StatRemoteFaults, bits64},
		{"rx_crc_errors.nic", StatCRCErrors, bits64},
	},
}

var i40eNetStats = NetStatTable{
	Name: "i40e", Drivers: []string{"i40e"},
	Source: "drivers/net/ethernet/intel/i40e/i40e_ethtool.c",
	Note:   "The driver shows the difference of two 32-bit registers, which wraps as they do. `port.rx_priority_<n>_xon_2_xoff` counts pauses as they begin, mlx5 as they end.",
	rows: []counterRow{
		{"port.rx_priority_%d_xon_rx", StatReceivedPauseFrames, wraps32},
		{"port.rx_priority_%d_xoff_rx", StatReceivedPauseFrames, wraps32},
		{"port.tx_priority_%d_xon_tx", StatTransmittedPauseFrames, wraps32},
		{"port.tx_priority_%d_xoff_tx", StatTransmittedPauseFrames, wraps32},
		{"port.rx_priority_%d_xon_2_xoff", StatReceivedPauses, wraps32},

		{"port.link_xon_rx", StatLinkReceivedPauseFrames, wraps32},
		{"port.link_xoff_rx", StatLinkReceivedPauseFrames, wraps32},
		{"port.link_xon_tx", StatLinkTransmittedPauseFrames, wraps32},
		{"port.link_xoff_tx", StatLinkTransmittedPauseFrames, wraps32},

		{"port.rx_discards", StatReceivedDiscards, wraps32},
		{"port.tx_dropped_link_down", StatTransmittedDiscards, wraps32},
		{"port.mac_local_faults", StatLocalFaults, wraps32},
		{"port.mac_remote_faults", StatRemoteFaults, wraps32},
		{"port.rx_crc_errors", StatCRCErrors, wraps32},
	},
	older: []counterRow{
		{"port.rx_priority_%d_xon", StatReceivedPauseFrames, wraps32},
		{"port.rx_priority_%d_xoff", StatReceivedPauseFrames, wraps32},
		{"port.tx_priority_%d_xon", StatTransmittedPauseFrames, wraps32},
		{"port.tx_priority_%d_xoff", StatTransmittedPauseFrames, wraps32},
		{"port.rx_dropped", StatReceivedDiscards, wraps32}, // rx_discards of the port (GLPRT_RDPC), as above
		{"port.crc_errors", StatCRCErrors, wraps32},
	},
}

var ionicNetStats = NetStatTable{
	Name: "ionic", Drivers: []string{"ionic"},
	Source: "drivers/net/ethernet/pensando/ionic/ionic_stats.c",
	Note: "`rx_` of the pause times is taken to be of frames received, as everywhere; the kernel does not say. PFC frames are not counted by priority. " +
		"`hw_` is of the function: `hw_rx_over_errors` is what found the queue empty, `hw_rx_missed_errors` what could not be written to the host. `frames_rx_dropped` is of the " +
		"port and may hold what `hw_rx_dropped` does; `frames_rx_stomped_crc`, which another device damaged on purpose, may be among `frames_rx_bad_fcs`: neither is mapped.",
	rows: []counterRow{
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
}

var hns3NetStats = NetStatTable{
	Name: "hns3", Drivers: []string{"hns3"},
	Source: "drivers/net/ethernet/hisilicon/hns3/hns3pf/hclge_main.c",
	Note:   "The unit of `*_xoff_time` is not in the kernel's source; they are not mapped.",
	rows: []counterRow{
		{"mac_rx_pfc_pri%d_pkt_num", StatReceivedPauseFrames, bits64},
		{"mac_tx_pfc_pri%d_pkt_num", StatTransmittedPauseFrames, bits64},
		{"mac_rx_mac_pause_num", StatLinkReceivedPauseFrames, bits64},
		{"mac_tx_mac_pause_num", StatLinkTransmittedPauseFrames, bits64},
		{"mac_rx_pfc_pkt_num", StatReceivedPFCFrames, bits64},
		{"mac_tx_pfc_pkt_num", StatTransmittedPFCFrames, bits64},
		{"mac_rx_fcs_err_pkt_num", StatCRCErrors, bits64},
	},
}

var manaNetStats = NetStatTable{
	Name: "mana", Drivers: []string{"mana"},
	Source: "drivers/net/ethernet/microsoft/mana/mana_ethtool.c",
	Note: "`hc_rx_discards_no_wqe` is of the whole function: ports that share one show the same number. Pauses and traffic are counted by traffic class (`hc_tc<n>_*`), of which " +
		"the guest does not know the priorities, and of other drops nobody says why they happened: they are not mapped.",
	rows: []counterRow{
		{"hc_rx_discards_no_wqe", StatOutOfBuffer, bits64},
	},
}

var enaNetStats = NetStatTable{
	Name: "ena", Drivers: []string{"ena"},
	Source: "drivers/net/ethernet/amazon/ena/ena_ethtool.c",
	Note:   "Nothing is mapped: EFA is no Ethernet, and ena counts neither pauses nor RDMA.",
}
