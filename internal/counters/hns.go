// SPDX-License-Identifier: Apache-2.0

package counters

// hns drives the RoCE engine of HiSilicon Kunpeng (hns_roce) over hns3, whose name the PCI function has.
// Names are those of Linux 6.12.
var hns = driver{
	names: []string{"hns3"},
	counters: []Table{
		{
			Name: "hns_roce", Place: PlacePort,
			Source: "drivers/infiniband/hw/hns/hns_roce_main.c",
			rows: []row{
				{"rx_rc_pkt", passed, bits64},
				{"rx_uc_pkt", passed, bits64},
				{"rx_ud_pkt", passed, bits64},
				{"rx_xrc_pkt", passed, bits64},
				{"rx_pkt", ReceivedPackets, bits64},
				{"rx_err_pkt", passed, bits64},
				{"rx_cnp_pkt", CNPReceived, bits64},
				{"tx_rc_pkt", passed, bits64},
				{"tx_uc_pkt", passed, bits64},
				{"tx_ud_pkt", passed, bits64},
				{"tx_xrc_pkt", passed, bits64},
				{"tx_pkt", TransmittedPackets, bits64},
				{"tx_err_pkt", passed, bits64},
				{"tx_cnp_pkt", CNPSent, bits64},
				{"trp_get_mpt_err_pkt", passed, bits64},
				{"trp_get_irrl_err_pkt", passed, bits64},
				{"ecn_doorbell", passed, bits64},
				{"rx_buffer", passed, bits64},
				{"trp_rx_sof", passed, bits64},
				{"cq_cqe", passed, bits64},
				{"cq_poe", passed, bits64},
				{"cq_notify", passed, bits64},
			},
		},
	},
	statistics: &StatTable{
		Name:   "hns3",
		Source: "drivers/net/ethernet/hisilicon/hns3/hns3pf/hclge_main.c",
		Note:   "The unit of `*_xoff_time` is not in the kernel's source; they are not mapped.",
		rows: []row{
			{"mac_rx_pfc_pri%d_pkt_num", StatReceivedPauseFrames, bits64},
			{"mac_tx_pfc_pri%d_pkt_num", StatTransmittedPauseFrames, bits64},
			{"mac_rx_mac_pause_num", StatLinkReceivedPauseFrames, bits64},
			{"mac_tx_mac_pause_num", StatLinkTransmittedPauseFrames, bits64},
			{"mac_rx_pfc_pkt_num", StatReceivedPFCFrames, bits64},
			{"mac_tx_pfc_pkt_num", StatTransmittedPFCFrames, bits64},
			{"mac_rx_fcs_err_pkt_num", StatCRCErrors, bits64},
		},
	},
}
