// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// rdmaDriver is what a driver of the kernel makes of its ports: constants, the GID table, which attributes exist,
// and the names of its counters (drivers/infiniband/hw in the kernel). What it only knows of some devices, as the
// rate, is part of the adapter.
type rdmaDriver struct {
	nodeType    string
	linkLayer   string
	aux         Aux                         // the name still without the number
	guid        func(net.HardwareAddr) GUID // nil: zero
	onePerCard  bool                        // the functions of a card have the same sys_image_guid
	description string                      // node_desc, until rdma-ndd changes it; empty: it has
	capMask     uint32
	lid, lmc    int // unless a subnet manager says otherwise
	pkeySlots   int
	gidSlots    int
	gidTypes    []string
	noLink      string

	pma    []counterSet // counters/ of a port
	hw     []counterSet // hw_counters/ of a port
	device []counterSet // hw_counters/ of the device
	cm     bool         // the connection manager serves it
}

// Node types.
const (
	nodeCA          = "1: CA"
	nodeUnspecified = "7: unspecified"
)

// The rates that drivers make up for a port without a link: mlx5 and mlx4 their default, others what the core
// makes of an interface without a speed (ib_get_eth_speed of drivers/infiniband/core/verbs.c).
const (
	mellanoxNoLink = "40 Gb/sec (4X QDR)"
	subnetNoLink   = "10 Gb/sec (4X SDR)"
	coreNoLink     = "2.5 Gb/sec (1X SDR)"
)

// The drivers. Nothing writes to them.
var (
	mlx5Ethernet = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf, onePerCard: true,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), hw: []counterSet{mlx5Queue, mlx5Congestion, mlx5Physical}, cm: true,
	}
	mlx5InfiniBand = rdmaDriver{
		nodeType: nodeCA, linkLayer: InfiniBand, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf, onePerCard: true,
		capMask: 0xa651e848, pkeySlots: 128, gidSlots: 8, noLink: subnetNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), hw: []counterSet{mlx5Queue, mlx5Physical}, cm: true,
	}
	// A virtual function may not ask for the counters of the physical port: reading those is EINVAL, which no plain
	// file can do. They are left out.
	mlx5Virtual = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mlx5_core.rdma", "mlx5_ib.rdma"}, guid: guidOf,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: pmaTraffic, hw: []counterSet{mlx5Queue}, cm: true,
	}
	// Its hardware counters are those of the device, unless the firmware counts by port.
	mlx4 = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, guid: guidOf, onePerCard: true,
		capMask: 0x04010000, pkeySlots: 1, gidSlots: 128, gidTypes: []string{RoCEv1, RoCEv2}, noLink: mellanoxNoLink,
		pma: slices.Concat(pmaLink, pmaTraffic), device: []counterSet{mlx4Diagnostic}, cm: true,
	}
	bnxtRE = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"bnxt_en.rdma", "bnxt_re.rdma"}, guid: eui48,
		description: "Broadcom NetXtreme-C/E RoCE Driver HCA",
		capMask:     0x001d0000, pkeySlots: 1, gidSlots: 256, gidTypes: []string{RoCEv1, RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{bnxtCounters}, cm: true,
	}
	irdma = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"ice.roce", "irdma.gen_2"}, guid: eui48,
		capMask: 0x00050000, lid: 1, pkeySlots: 1, gidSlots: 32, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{irdmaCounters}, cm: true,
	}
	// It has no links, subnet or Ethernet: what it prints about them are constants (efa_query_port). It is
	// the driver of the PCI function itself, and the connection manager does not serve it.
	efa = rdmaDriver{
		nodeType: nodeUnspecified, linkLayer: Unspecified, lmc: 1, pkeySlots: 1, gidSlots: 1,
		hw: []counterSet{efaPort}, device: []counterSet{efaDevice},
	}
	ionic = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"ionic.rdma", "ionic_rdma.rdma"}, guid: eui48,
		description: "AMD Pensando RoCE HCA",
		pkeySlots:   1, gidSlots: 256, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{ionicCounters}, cm: true,
	}
	mana = rdmaDriver{
		nodeType: nodeCA, linkLayer: Ethernet, aux: Aux{"mana.rdma", "mana_ib.rdma"}, guid: eui48,
		pkeySlots: 1, gidSlots: 16, gidTypes: []string{RoCEv2}, noLink: coreNoLink,
		hw: []counterSet{manaPort}, device: []counterSet{manaDevice}, cm: true,
	}
)

// guids returns the GUIDs of a device with that MAC address on a card with that one.
func (d rdmaDriver) guids(mac, card string) (device, image GUID) {
	switch {
	case d.guid == nil:
		return 0, 0
	case d.onePerCard:
		return d.guid(macOf(mac)), d.guid(macOf(card))
	default:
		return d.guid(macOf(mac)), d.guid(macOf(mac))
	}
}

// port returns a port of this driver with that MAC address, a link and that traffic. The interface is the one
// that shares it, or nil.
func (d rdmaDriver) port(mac string, netdev *NetDev, t traffic) Port {
	p := Port{
		LinkLayer: d.linkLayer, State: active, PhysState: "5: LinkUp", NoLink: d.noLink, CapMask: d.capMask,
		LID: d.lid, LMC: d.lmc, PKeySlots: d.pkeySlots, GIDSlots: d.gidSlots, GIDTypes: slices.Clone(d.gidTypes),
		PMA: t.statistics(true, d.pma), HW: t.statistics(false, d.hw),
	}
	if netdev != nil {
		p.NetDev = netdev.Name
	}
	switch d.linkLayer {
	case Ethernet:
		p.GIDs = roceGIDs(netdev, d.gidTypes)
	case InfiniBand:
		p.GIDs = subnetGIDs(d.guid(macOf(mac)))
	default:
		p.GIDs = subnetGIDs(eui48(macOf(mac)))
	}
	if d.cm {
		p.CM = t.statistics(false, cmSets())
	}
	return p
}

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

// GUID is an EUI-64.
type GUID uint64

// String returns the GUID as sysfs prints it.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// guidOf returns the GUID that NVIDIA burns into a card with that MAC address.
func guidOf(mac net.HardwareAddr) GUID {
	return GUID(binary.BigEndian.Uint64([]byte{mac[0], mac[1], mac[2], 3, 0, mac[3], mac[4], mac[5]}))
}

// eui48 returns the GUID that other drivers make of the MAC address, as IPv6 does: with ff:fe in the middle and
// the bit of universal addresses turned over.
func eui48(mac net.HardwareAddr) GUID {
	return GUID(binary.BigEndian.Uint64([]byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}))
}

// gidText returns the GID as sysfs prints it: always eight groups of four digits.
func gidText(a netip.Addr) string {
	b := a.As16()
	const digits = "0123456789abcdef"
	text := make([]byte, 0, 39)
	for i, v := range b {
		if i > 0 && i%2 == 0 {
			text = append(text, ':')
		}
		text = append(text, digits[v>>4], digits[v&15])
	}
	return string(text)
}

// linkLocal returns fe80::/64 with that interface identifier.
func linkLocal(id GUID) netip.Addr {
	b := [16]byte{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	return netip.AddrFrom16(b)
}

// subnetGIDs is the GID table of a port that has nothing to do with Ethernet: the default prefix with the GUID
// of the port.
func subnetGIDs(g GUID) []GID { return []GID{{Addr: linkLocal(g), Type: RoCEv1}} }

// roceGIDs is the GID table that the kernel fills for an interface: the link-local default, then its addresses,
// each as every type that the driver supports.
func roceGIDs(d *NetDev, types []string) []GID {
	addrs := []netip.Addr{linkLocal(eui48(macOf(d.Address)))}
	for _, p := range d.Addrs {
		addrs = append(addrs, p.Addr())
	}
	var gids []GID
	for _, a := range addrs {
		for _, t := range types {
			gids = append(gids, GID{Index: len(gids), Addr: netip.AddrFrom16(a.As16()), Type: t, NetDev: d.Name})
		}
	}
	return gids
}

// macOf parses a MAC address of a table in this package or of a node built from one. It is zero where it is
// malformed, which Node.check reports with its entry.
func macOf(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 {
		return make(net.HardwareAddr, 6)
	}
	return m
}
