// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

// traffic is what RDMA sends and receives through a port, in packets of 4096 bytes, the largest payload that
// InfiniBand and RoCE have.
type traffic struct {
	sent, received Counter
	waits          Counter // ticks in which data waits for credits, on InfiniBand
}

const (
	bytesPerPacket    = 4096
	wordsPerPacket    = bytesPerPacket / 4 // the unit of port_xmit_data and port_rcv_data
	packetsPerMessage = 128                // NCCL writes 512 KiB at a time
)

// of returns the traffic of the k-th device of a node: no two rails carry quite the same.
func (t traffic) of(k int) traffic {
	less := func(c Counter) Counter {
		share := func(v uint64) uint64 { return v - v/512*uint64(k%16) }
		return Counter{Start: share(c.Start), PerStep: share(c.PerStep)}
	}
	return traffic{less(t.sent), less(t.received), less(t.waits)}
}

// per returns the traffic of one of that many equal parts.
func (t traffic) per(parts uint64) traffic {
	return traffic{t.sent.per(parts), t.received.per(parts), t.waits.per(parts)}
}

// congested is how often a healthy fabric asks a port that sends or receives this much to slow down: now and
// then, when several senders meet at one receiver.
func congested(c Counter) Counter {
	if c.PerStep == 0 {
		return Counter{}
	}
	return Counter{Start: c.Start >> 20, PerStep: 3, Every: 5}
}

// count returns the counter of that name, of any driver, on a healthy node. What it does not list are errors
// and operations that collectives do not use: they stand still at zero.
func (t traffic) count(name string) Counter {
	switch name {
	case "port_xmit_data":
		return t.sent.times(wordsPerPacket)
	case "port_rcv_data":
		return t.received.times(wordsPerPacket)
	case "port_xmit_wait":
		return t.waits

	case "tx_bytes", "tx_roce_only_bytes", "tx_rdma_ucast_bytes", "ip4OutOctets", "rdma_write_bytes":
		return t.sent.times(bytesPerPacket)
	case "rx_bytes", "rx_roce_only_bytes", "rx_roce_good_bytes", "rx_rdma_ucast_bytes", "ip4InOctets", "rdma_write_recv_bytes":
		return t.received.times(bytesPerPacket)

	case "port_xmit_packets", "unicast_xmit_packets", "tx_pkts", "tx_packets", "tx_roce_only_pkts", "tx_rdma_ucast_pkts", "ip4OutPkts", "TxUDP":
		return t.sent
	case "port_rcv_packets", "unicast_rcv_packets", "rx_pkts", "rx_packets", "rx_roce_only_pkts", "rx_roce_good_pkts", "rx_rdma_ucast_pkts", "ip4InPkts", "RxUDP":
		return t.received

	case "tx_write_req", "iwOutRdmaWrites", "rdma_write_wrs":
		return t.sent.per(packetsPerMessage)
	case "rx_write_requests", "rx_write_req", "iwInRdmaWrites":
		return t.received.per(packetsPerMessage)

	// The receiver of marked packets notifies the sender (CNP), which slows down.
	case "np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd", "rx_rdma_ecn_pkts", "received_ecns",
		"np_cnp_sent", "tx_cnp_pkts", "cnpSent", "tx_rdma_cnp_pkts", "sent_cnps":
		return congested(t.received)
	case "rp_cnp_handled", "rx_cnp_pkts", "cnpHandled", "rx_rdma_cnp_pkts", "received_cnps", "received_cnp_count":
		return congested(t.sent)

	case "cm_tx_msgs/req", "cm_rx_msgs/rep", "cm_tx_msgs/rtu": // connections that this side opened
		return Counter{Start: t.sent.Start >> 32}
	case "recoverable_errors": // of bnxt_re, which puts tx_bcast_pkts there: ARP
		return Counter{Start: 417, PerStep: 1, Every: 30}
	case "submitted_cmds", "completed_cmds", "keep_alive_rcvd": // of the device
		return Counter{Start: 1_209_600, PerStep: 1}

	// Gauges: the objects of a training job.
	case "active_pds", "active_cqs", "watermark_pds", "watermark_cqs":
		return Counter{Start: 18}
	case "active_qps", "active_rc_qps", "watermark_qps", "watermark_rc_qps":
		return Counter{Start: 258}
	case "active_mrs", "watermark_mrs":
		return Counter{Start: 1042}
	case "current_rate":
		return Counter{Start: 200}
	}
	return Counter{}
}

// counterSet is a group of counters of one width, by name.
type counterSet struct {
	bits  int
	names string // separated by spaces
}

// statistics returns the counters of these sets, in their order.
func (t traffic) statistics(sticks bool, sets []counterSet) []Statistic {
	var all []Statistic
	for _, set := range sets {
		for name := range strings.FieldsSeq(set.names) {
			c := t.count(name)
			c.Bits, c.Sticks = set.bits, sticks
			all = append(all, Statistic{name, c})
		}
	}
	return all
}

// cmSets are the counters of the connection manager, named after directory and file.
func cmSets() []counterSet {
	var all []counterSet
	for dir := range strings.FieldsSeq(cmDirectories) {
		all = append(all, counterSet{0, dir + "/" + strings.ReplaceAll(cmMessages, " ", " "+dir+"/")})
	}
	return all
}
