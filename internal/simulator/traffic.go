// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
)

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
	case "rx_bytes", "rx_roce_only_bytes", "rx_roce_good_bytes", "rx_rdma_ucast_bytes", "ip4InOctets",
		"rdma_write_recv_bytes":
		return t.received.times(bytesPerPacket)

	case "port_xmit_packets", "unicast_xmit_packets", "tx_pkts", "tx_packets", "tx_roce_only_pkts", "tx_rdma_ucast_pkts",
		"ip4OutPkts", "TxUDP":
		return t.sent
	case "port_rcv_packets", "unicast_rcv_packets", "rx_pkts", "rx_packets", "rx_roce_only_pkts", "rx_roce_good_pkts",
		"rx_rdma_ucast_pkts", "ip4InPkts", "RxUDP":
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

// Counter grows with the steps of a tree, while the link it counts on is up.
type Counter struct {
	Start, PerStep uint64
	Every          int  // steps in which it grows by PerStep; 0: one
	Bits           int  // its width; 0: 64
	Sticks         bool // at the greatest value, as PMA counters do; others wrap
}

// Statistic is a counter of an RDMA device or port, under the name that its driver gives it.
type Statistic struct {
	Name string
	Counter
}

// Statistic returns the PMA or hardware counter of that name, or nil.
func (p *Port) Statistic(name string) *Statistic {
	is := func(s Statistic) bool { return s.Name == name }
	if s := lookup(p.PMA, is); s != nil {
		return s
	}
	return lookup(p.HW, is)
}

// at returns the counter after that many steps with a link.
func (c Counter) at(steps int) Counter {
	c.Start += uint64(steps/max(1, c.Every)) * c.PerStep
	return c
}

// plus adds counters.
func (c Counter) plus(o Counter) Counter {
	return Counter{Start: c.Start + o.Start, PerStep: c.PerStep + o.PerStep}
}

// times returns a counter of parts, each of which this one counts as a whole.
func (c Counter) times(parts uint64) Counter {
	return Counter{Start: c.Start * parts, PerStep: c.PerStep * parts}
}

// per returns a counter of what consists of that many of these.
func (c Counter) per(parts uint64) Counter {
	return Counter{Start: c.Start / parts, PerStep: c.PerStep / parts}
}

// weighing returns a counter of the bytes of what this one counts, at that many each.
func (c Counter) weighing(bytes uint64) Counter {
	c.Start, c.PerStep = c.Start*bytes, c.PerStep*bytes
	return c
}

// value is what a driver prints.
func (c Counter) value() uint64 {
	if c.Bits == 0 {
		return c.Start
	}
	greatest := uint64(1)<<c.Bits - 1
	if c.Sticks {
		return min(c.Start, greatest)
	}
	return c.Start & greatest
}

// at returns the node as it is at a step. It depends on nothing but the node and the step.
func (n *Node) at(step int) *Node {
	c := n.Clone()
	c.Logs = written(n.Logs, step)
	down := map[string]int{} // steps without a link so far, by interface
	for _, f := range n.Flaps {
		for _, p := range n.HCA(f.Device).Ports {
			down[p.NetDev] = n.downs(f.Device, step)
		}
		if f.down(step) {
			c.LinkDown(f.Device)
		}
	}
	delete(down, "") // a port without an interface; "" is no master either
	for i := range c.NetDevs {
		if d := &c.NetDevs[i]; n.NetDevs[i].Carrier {
			up := step - down[d.Name] - down[d.Master] - down[d.VLAN.Lower]
			d.Received, d.Sent = d.Received.at(up), d.Sent.at(up)
			move(d.Stats, min(up, n.carriedBy(d, step)))
			fec := &d.QoS.FEC
			fec.Corrected, fec.Uncorrectable = fec.Corrected.at(up), fec.Uncorrectable.at(up)
		}
	}
	for i := range c.HCAs {
		h := &c.HCAs[i]
		step := n.carried(step)
		move(h.HW, step)
		for k := range h.Ports {
			if n.HCAs[i].Ports[k].State == active {
				h.Ports[k].at(step, func(step int) int { return step - n.downs(h.Name, step) })
			}
		}
	}
	c.idle(step)
	for i := range c.GPUs {
		c.GPUs[i].at(i, step)
	}
	for i := range c.Functions {
		e := &c.Functions[i].AER
		e.Correctable, e.NonFatal, e.Fatal = e.Correctable.at(step), e.NonFatal.at(step), e.Fatal.at(step)
	}
	peers := &c.Driver.Peermem.Allocated
	*peers = peers.at(step)
	return c
}

// downs counts the steps up to this one at which the links of the device were down.
func (n *Node) downs(device string, step int) int {
	for _, f := range n.Flaps {
		if f.Device == device {
			return f.downs(step)
		}
	}
	return 0
}

// at moves the counters of a port to a step; up counts the steps with a link until then.
func (p *Port) at(step int, up func(step int) int) {
	move(p.HW, up(step))
	move(p.CM, up(step))
	if p.ClearEvery == 0 || step < p.ClearEvery {
		move(p.PMA, up(step))
		return
	}
	for i := range p.PMA {
		p.PMA[i].Start = 0
	}
	move(p.PMA, up(step)-up(step-step%p.ClearEvery))
}

func move(all []Statistic, steps int) {
	for i := range all {
		all[i].Counter = all[i].at(steps)
	}
}

// down reports whether the link is down at a step.
func (f Flap) down(step int) bool { return step%f.Period >= f.Period-f.Down }

// downs counts the steps up to this one at which the link was down.
func (f Flap) downs(step int) int {
	return step/f.Period*f.Down + max(0, step%f.Period-(f.Period-f.Down)+1)
}
