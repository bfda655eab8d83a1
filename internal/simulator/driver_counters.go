// SPDX-License-Identifier: Apache-2.0

package simulator

// The PMA counters: those of the link, in the widths that the InfiniBand specification gives them, and those of
// the traffic (drivers/infiniband/core/sysfs.c in the kernel).
var (
	pmaLink = []counterSet{
		{16, "symbol_error"},
		{8, "link_error_recovery link_downed"},
		{16, "port_rcv_errors port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_discards"},
		{8, "port_xmit_constraint_errors port_rcv_constraint_errors"},
		{4, "local_link_integrity_errors excessive_buffer_overrun_errors"},
		{16, "VL15_dropped"},
		{32, "port_xmit_wait"},
	}
	pmaTraffic = []counterSet{{0, `
		port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets
		unicast_xmit_packets unicast_rcv_packets multicast_xmit_packets multicast_rcv_packets`}}
)

// The messages of the connection manager, in each of its directories (drivers/infiniband/core/cm.c).
const (
	cmDirectories = "cm_tx_msgs cm_tx_retries cm_rx_msgs cm_rx_duplicates"
	cmMessages    = "req mra rej rep rtu dreq drep sidr_req sidr_rep lap apr"
)

// The hardware counters, in the order in which drivers have them.
var (
	mlx5Queue = counterSet{32, `
		rx_write_requests rx_read_requests rx_atomic_requests rx_dct_connect out_of_buffer
		out_of_sequence
		duplicate_request rnr_nak_retry_err packet_seq_err implied_nak_seq_err local_ack_timeout_err
		resp_local_length_error resp_cqe_error req_cqe_error req_remote_invalid_request req_remote_access_errors
		resp_remote_access_errors resp_cqe_flush_error req_cqe_flush_error req_transport_retries_exceeded
		req_rnr_retries_exceeded
		roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans`}
	mlx5Congestion = counterSet{0, `rp_cnp_ignored rp_cnp_handled np_ecn_marked_roce_packets np_cnp_sent`}
	mlx5Physical   = counterSet{0, `rx_icrc_encapsulated`}

	mlx4Diagnostic = counterSet{32, `
		rq_num_lle sq_num_lle rq_num_lqpoe sq_num_lqpoe rq_num_lpe sq_num_lpe rq_num_wrfe sq_num_wrfe sq_num_mwbe
		sq_num_bre sq_num_rire rq_num_rire sq_num_rae rq_num_rae sq_num_roe sq_num_tree sq_num_rree rq_num_rnr
		sq_num_rnr rq_num_oos sq_num_oos rq_num_dup sq_num_to num_cqovf rq_num_udsdprd`}

	bnxtCounters = counterSet{0, `
		active_pds active_ahs active_qps active_rc_qps active_ud_qps active_srqs active_cqs active_mrs active_mws
		watermark_pds watermark_ahs watermark_qps watermark_rc_qps watermark_ud_qps watermark_srqs watermark_cqs
		watermark_mrs watermark_mws resize_cq_cnt
		rx_pkts rx_bytes tx_pkts tx_bytes recoverable_errors
		tx_roce_errors tx_roce_discards rx_roce_errors rx_roce_discards
		to_retransmits seq_err_naks_rcvd max_retry_exceeded rnr_naks_rcvd missing_resp unrecoverable_err bad_resp_err
		local_qp_op_err local_protection_err mem_mgmt_op_err remote_invalid_req_err remote_access_err remote_op_err
		dup_req
		res_exceed_max res_length_mismatch res_exceeds_wqe res_opcode_err res_rx_invalid_rkey res_rx_domain_err
		res_rx_no_perm res_rx_range_err res_tx_invalid_rkey res_tx_domain_err res_tx_no_perm res_tx_range_err
		res_irrq_oflow res_unsup_opcode res_unaligned_atomic res_rem_inv_err res_mem_err res_srq_err res_cmp_err
		res_invalid_dup_rkey res_wqe_format_err res_cq_load_err res_srq_load_err res_tx_pci_err res_rx_pci_err
		oos_drop_count
		tx_atomic_req tx_read_req tx_read_resp tx_write_req tx_send_req
		rx_atomic_req rx_read_req rx_read_resp rx_write_req rx_send_req
		tx_roce_only_pkts tx_roce_only_bytes rx_roce_only_pkts rx_roce_only_bytes
		rx_roce_good_pkts rx_roce_good_bytes rx_out_of_buffer
		tx_cnp_pkts rx_cnp_pkts rx_ecn_marked_pkts
		pacing_reschedule pacing_complete pacing_alerts db_fifo_register`}

	irdmaCounters = counterSet{0, `
		ip4InDiscards ip4InTruncatedPkts ip4OutNoRoutes ip6InDiscards ip6InTruncatedPkts ip6OutNoRoutes
		tcpRetransSegs tcpInOptErrors tcpInProtoErrors rxVlanErrors
		ip4InOctets ip4InPkts ip4InReasmRqd ip4InMcastPkts ip4OutOctets ip4OutPkts ip4OutSegRqd ip4OutMcastPkts
		ip6InOctets ip6InPkts ip6InReasmRqd ip6InMcastPkts ip6OutOctets ip6OutPkts ip6OutSegRqd ip6OutMcastPkts
		tcpInSegs tcpOutSegs iwInRdmaReads iwInRdmaSends iwInRdmaWrites iwOutRdmaReads iwOutRdmaSends iwOutRdmaWrites
		iwRdmaBnd iwRdmaInv
		cnpHandled cnpIgnored cnpSent
		ip4InMcastOctets ip4OutMcastOctets ip6InMcastOctets ip6OutMcastOctets RxUDP TxUDP RxECNMrkd`}

	efaPort = counterSet{0, `
		tx_bytes tx_pkts rx_bytes rx_pkts rx_drops send_bytes send_wrs recv_bytes recv_wrs
		rdma_read_wrs rdma_read_bytes rdma_read_wr_err rdma_read_resp_bytes
		rdma_write_wrs rdma_write_bytes rdma_write_wr_err rdma_write_recv_bytes`}
	efaDevice = counterSet{0, `
		submitted_cmds completed_cmds cmds_err no_completion_cmds keep_alive_rcvd
		alloc_pd_err create_qp_err create_cq_err reg_mr_err alloc_ucontext_err create_ah_err mmap_err`}

	// The names come from the firmware. These are of a Pollara 400 in use, with its spelling of "outouf".
	ionicCounters = counterSet{0, `
		tx_rdma_ucast_bytes tx_rdma_ucast_pkts tx_rdma_mcast_bytes tx_rdma_mcast_pkts tx_rdma_cnp_pkts
		rx_rdma_ucast_bytes rx_rdma_ucast_pkts rx_rdma_mcast_bytes rx_rdma_mcast_pkts rx_rdma_cnp_pkts rx_rdma_ecn_pkts
		req_rx_pkt_seq_err req_rx_rnr_retry_err req_rx_rmt_acc_err req_rx_rmt_req_err req_rx_oper_err
		req_rx_impl_nak_seq_err req_rx_cqe_err req_rx_cqe_flush req_rx_dup_response req_rx_inval_pkts
		req_tx_loc_acc_err req_tx_loc_oper_err req_tx_mem_mgmt_err req_tx_retry_excd_err req_tx_loc_sgl_inv_err
		resp_rx_dup_request resp_rx_outof_buf resp_rx_outouf_seq resp_rx_cqe_err resp_rx_cqe_flush resp_rx_loc_len_err
		resp_rx_inval_request resp_rx_loc_oper_err resp_rx_outof_atomic resp_rx_s0_table_err
		resp_tx_pkt_seq_err resp_tx_rmt_inval_req_err resp_tx_rmt_acc_err resp_tx_rmt_oper_err resp_tx_rnr_retry_err
		resp_tx_loc_sgl_inv_err`}

	manaPort = counterSet{0, `
		requester_timeout requester_oos_nak requester_rnr_nak responder_rnr_nak responder_oos responder_dup_request
		requester_implicit_nak requester_readresp_psn_mismatch nak_inv_req nak_access_error nak_opp_error nak_inv_read
		responder_local_len_error requestor_local_prot_error responder_rem_access_error responder_local_qp_error
		responder_malformed_wqe general_hw_error requester_rnr_nak_retries_exceeded requester_retries_exceeded
		total_fatal_error received_cnps num_qps_congested rate_inc_events num_qps_recovered current_rate
		dup_rx_requests tx_bytes rx_bytes rx_send_requests rx_write_requests rx_read_requests tx_packets rx_packets`}
	manaDevice = counterSet{0, `
		sent_cnps received_ecns received_cnp_count qp_congested_events qp_recovered_events rate_inc_events`}
)
