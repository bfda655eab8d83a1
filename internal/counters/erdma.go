// SPDX-License-Identifier: Apache-2.0

package counters

// erdma drives the elastic RDMA adapter of Alibaba Cloud. Names are those of Linux 6.12.
var erdma = driver{
	names: []string{"erdma"},
	counters: []Table{
		{
			Name: "erdma", Place: PlacePort,
			Source: "drivers/infiniband/hw/erdma/erdma_verbs.c",
			rows: []row{
				{"tx_reqs_cnt", passed, bits64},
				{"tx_packets_cnt", TransmittedPackets, bits64},
				{"tx_bytes_cnt", TransmittedBytes, bits64},
				{"tx_disable_drop_cnt", passed, bits64},
				{"tx_bps_limit_drop_cnt", passed, bits64},
				{"tx_pps_limit_drop_cnt", passed, bits64},
				{"rx_packets_cnt", ReceivedPackets, bits64},
				{"rx_bytes_cnt", ReceivedBytes, bits64},
				{"rx_disable_drop_cnt", passed, bits64},
				{"rx_bps_limit_drop_cnt", passed, bits64},
				{"rx_pps_limit_drop_cnt", passed, bits64},
			},
		},
	},
}
