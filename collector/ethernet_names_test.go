// SPDX-License-Identifier: Apache-2.0

package collector

import "testing"

// Names that drivers had once (i40e of Linux 3.x and 4.x, bnxt_en before 6.6) mean the same as the current
// ones, and nothing counts twice where a driver shows both.
func TestFormerNames(t *testing.T) {
	checkEthernet(t, roce(nic("i40e", "port.rx_dropped", 7, "port.crc_errors", 2, "port.rx_priority_3_xon", 1, "port.rx_priority_3_xoff", 20, "port.rx_priority_3_xon_2_xoff", 19)),
		"ethernet_received_discards_total"+ofEth0+"7", "ethernet_received_crc_errors_total"+ofEth0+"2",
		"roce_received_pause_frames_total"+ofPriority(3)+"21", "roce_received_pauses_total"+ofPriority(3)+"19")
	checkEthernet(t, roce(nic("i40e", "port.rx_dropped", 7, "port.rx_discards", 7)), "ethernet_received_discards_total"+ofEth0+"7")
	checkEthernet(t, roce(nic("i40e", "port.tx_priority_3_xon", 1)), // half of it would be a lie
		`ethernet_statistic_total{device="dev0",netdev="eth0",port="1",statistic="port.tx_priority_3_xon"} 1`)
	checkEthernet(t, roce(nic("bnxt_en", "rx_total_discard_pkts", 5, "rx_stat_discard", 9)),
		"ethernet_out_of_buffer_total"+ofEth0+"5", "ethernet_received_drops_total"+ofEth0+"9")
	checkEthernet(t, roce(nic("bnxt_en", "rx_total_ring_discards", 5, "rx_total_discard_pkts", 4)), "ethernet_out_of_buffer_total"+ofEth0+"5")
}

// Damaged frames have one metric, whatever the driver calls them.
func TestCRCErrors(t *testing.T) {
	for driver, name := range map[string]string{
		"mlx5_core": "rx_crc_errors_phy", "mlx4_core": "rx_crc_errors", "bnxt_en": "rx_fcs_err_frames", "ice": "rx_crc_errors.nic", "i40e": "port.rx_crc_errors",
		"ionic": "frames_rx_bad_fcs", "hns3": "mac_rx_fcs_err_pkt_num",
	} {
		checkEthernet(t, roce(nic(driver, name, 3)), "ethernet_received_crc_errors_total"+ofEth0+"3")
	}
}
