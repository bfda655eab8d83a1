// SPDX-License-Identifier: Apache-2.0

package counters

// efa drives the Elastic Fabric Adapter of AWS. Names are those of Linux 6.12; those of retransmission came later.
var efa = driver{
	names:  []string{"efa"},
	traits: Traits{DMABuf: Linux{5, 16}, ConstantPorts: true, NoVerbs: true},
	counters: []Table{
		{
			Name: "efa", Place: PlacePort,
			Source: "drivers/infiniband/hw/efa/efa_verbs.c",
			Note:   "The device has no other traffic than EFA's. The last five came with Nitro v4.",
			rows: []row{
				{"tx_bytes", TransmittedBytes, bits64},
				{"tx_pkts", TransmittedPackets, bits64},
				{"rx_bytes", ReceivedBytes, bits64},
				{"rx_pkts", ReceivedPackets, bits64},
				{"rx_drops", ReceiveDiscards, bits64},
				{"send_bytes", passed, bits64},
				{"send_wrs", passed, bits64},
				{"recv_bytes", passed, bits64},
				{"recv_wrs", passed, bits64},
				{"rdma_read_wrs", passed, bits64},
				{"rdma_read_bytes", passed, bits64},
				{"rdma_read_wr_err", passed, bits64},
				{"rdma_read_resp_bytes", passed, bits64},
				{"rdma_write_wrs", passed, bits64},
				{"rdma_write_bytes", passed, bits64},
				{"rdma_write_wr_err", passed, bits64},
				{"rdma_write_recv_bytes", passed, bits64},
				{"retrans_bytes", RetransmittedBytes, bits64},
				{"retrans_pkts", RetransmittedPackets, bits64},
				{"retrans_timeout_events", passed, bits64},
				{"unresponsive_remote_events", passed, bits64},
				{"impaired_remote_conn_events", passed, bits64},
			},
		},
		{
			Name: "efa", Place: PlaceDevice,
			Source: "drivers/infiniband/hw/efa/efa_verbs.c",
			rows: []row{
				{"submitted_cmds", passed, bits64},
				{"completed_cmds", passed, bits64},
				{"cmds_err", passed, bits64},
				{"no_completion_cmds", passed, bits64},
				{"keep_alive_rcvd", passed, bits64},
				{"alloc_pd_err", passed, bits64},
				{"create_qp_err", passed, bits64},
				{"create_cq_err", passed, bits64},
				{"reg_mr_err", passed, bits64},
				{"alloc_ucontext_err", passed, bits64},
				{"create_ah_err", passed, bits64},
				{"mmap_err", passed, bits64},
			},
		},
	},
}
