// SPDX-License-Identifier: Apache-2.0

package counters

// ice drives the interfaces of the Intel E810. Names are those of Linux 6.12.
//
// Intel counts the frames that begin a pause (xoff) and those that end it early (xon) apart. Others count
// frames, which is their sum.
var ice = driver{
	names:  []string{"ice"},
	traits: Traits{DMABuf: Linux{6, 4}},
	statistics: &StatTable{
		Name:   "ice",
		Source: "drivers/net/ethernet/intel/ice/ice_ethtool.c",
		Note:   "The interface of irdma. The driver counts neither the time of pauses nor RDMA traffic here.",
		rows: []row{
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
	},
}
