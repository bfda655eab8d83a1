// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// EthernetDrivers answers for the drivers of a tree's interfaces what they do not say in files: what is set for the
// classes of traffic (dcbnl), flow control and FEC (ethtool netlink), and the statistics. It always speaks of the node
// as it is laid out at that moment, and may be used by any number of goroutines.
//
// An interface that is not there is fs.ErrNotExist, and an interface without statistics errors.ErrUnsupported.
type EthernetDrivers struct {
	tree *Tree

	// Both are guarded by the lock of the tree.
	commands fabric.Commands
	paused   map[string]pauses // as of the last statistics, by interface
}

// pauses are frames of priority flow control.
type pauses struct{ sent, received [fabric.NumPriorities]uint64 }

// Ethernet returns a source for the interfaces of the tree.
func (t *Tree) Ethernet() *EthernetDrivers {
	return &EthernetDrivers{tree: t, commands: fabric.Commands{}, paused: map[string]pauses{}}
}

// Close does nothing.
func (e *EthernetDrivers) Close() {}

// Commands returns what drivers were asked so far.
func (e *EthernetDrivers) Commands() fabric.Commands {
	e.tree.mu.Lock()
	defer e.tree.mu.Unlock()
	return maps.Clone(e.commands)
}

// ReadQoS fills in PFC, ETS, Apps, Buffers, DCBX, Pause and FEC of an interface.
func (e *EthernetDrivers) ReadQoS(netdev string, q *fabric.QoS, now time.Time) error {
	e.tree.mu.Lock()
	defer e.tree.mu.Unlock()
	d := e.tree.now.NetDev(netdev)
	if d == nil {
		return fmt.Errorf("QoS of %s: %w", netdev, fs.ErrNotExist)
	}
	e.readDCB(d, q, now)
	e.readPause(d, q, now)
	e.readFEC(d, q, now)
	return nil
}

func (e *EthernetDrivers) readDCB(d *NetDev, q *fabric.QoS, now time.Time) {
	const (
		pfc, ets, apps = "DCB_ATTR_IEEE_PFC", "DCB_ATTR_IEEE_ETS", "DCB_ATTR_IEEE_APP_TABLE"
		buffers, dcbx  = "DCB_ATTR_DCB_BUFFER", "DCB_ATTR_DCBX"
	)
	set := &d.QoS
	q.PFC, q.ETS, q.Apps = unsupported[fabric.PFC](pfc, now), unsupported[fabric.ETS](ets, now),
		unsupported[[]fabric.App](apps, now)
	q.Buffers, q.DCBX = unsupported[fabric.Buffers](buffers, now), unsupported[fabric.DCBX](dcbx, now)
	if !set.DCB {
		return
	}
	e.commands[fabric.CommandDCB]++
	counts := d.pauses()
	if e.isMlx5(d) {
		counts = e.paused[d.Name]
	}
	q.PFC = fabric.Known(fabric.PFC{
		Enabled: set.PFC, Classes: fabric.NumPriorities, Delay: set.Delay, Sent: counts.sent, Received: counts.received,
	}, pfc, now)
	q.ETS = fabric.Known(set.ETS, ets, now)
	q.Apps = fabric.Known(slices.Clone(set.Apps), apps, now)
	q.DCBX = fabric.Known(set.DCBX, dcbx, now)
	// the kernel leaves the attribute out
	q.Buffers = fabric.UnknownFact[fabric.Buffers](fabric.ReasonMissing, buffers, now)
	if set.Buffers.Total > 0 {
		q.Buffers = fabric.Known(set.Buffers, buffers, now)
	}
}

func (e *EthernetDrivers) readPause(d *NetDev, q *fabric.QoS, now time.Time) {
	const source = "ETHTOOL_MSG_PAUSE_GET"
	set := d.QoS.Pause
	if !set.Answers {
		q.Pause = unsupported[fabric.Pause](source, now)
		return
	}
	e.commands[fabric.CommandPause]++
	q.Pause = fabric.Known(fabric.Pause{
		Autonegotiated: set.Autonegotiated, Receive: set.Receive, Transmit: set.Transmit,
		Received:    d.firstOf(source, now, "rx_pause_ctrl_phy", "rx_pause_frames"),
		Transmitted: d.firstOf(source, now, "tx_pause_ctrl_phy", "tx_pause_frames"),
	}, source, now)
}

func (e *EthernetDrivers) readFEC(d *NetDev, q *fabric.QoS, now time.Time) {
	const source = "ETHTOOL_MSG_FEC_GET"
	set := d.QoS.FEC
	if set.Active == "" {
		q.FEC = unsupported[fabric.FEC](source, now)
		return
	}
	e.commands[fabric.CommandFEC]++
	if !d.Carrier { // there is none, and mlx5 refuses the read
		q.FEC = unsupported[fabric.FEC](source, now)
		return
	}
	missing := fabric.UnknownFact[uint64](fabric.ReasonMissing, source, now)
	fec := fabric.FEC{Active: set.Active, CorrectedBlocks: missing, UncorrectableBlocks: missing, CorrectedBits: missing}
	if set.Counted {
		fec.CorrectedBlocks = fabric.Known(set.Corrected.value(), source, now)
		fec.UncorrectableBlocks = fabric.Known(set.Uncorrectable.value(), source, now)
		fec.CorrectedBits = d.firstOf(source, now, "rx_corrected_bits_phy", "rx_corrected_bits")
	}
	q.FEC = fabric.Known(fec, source, now)
}

// Statistics returns the statistics of an interface whose names are wanted.
func (e *EthernetDrivers) Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter,
	error,
) {
	e.tree.mu.Lock()
	defer e.tree.mu.Unlock()
	d := e.tree.now.NetDev(netdev)
	switch {
	case d == nil:
		return nil, fmt.Errorf("statistics of %s: %w", netdev, fs.ErrNotExist)
	case len(d.Stats) == 0:
		return nil, fmt.Errorf("statistics of %s: %w", netdev, errors.ErrUnsupported)
	case d.StatsErr != nil:
		return nil, fmt.Errorf("statistics of %s: %w", netdev, d.StatsErr)
	}
	e.commands[fabric.CommandNetStats]++
	e.paused[netdev] = d.pauses()
	var list []fabric.Counter
	for _, s := range d.shown() {
		if wanted(s.Name) {
			list = append(list, fabric.Counter{Name: s.Name, Value: fabric.Known(s.value(), "ETHTOOL_GSTATS", now)})
		}
	}
	return list, nil
}

// Instance returns the number of an interface.
func (e *EthernetDrivers) Instance(netdev string) uint32 {
	e.tree.mu.Lock()
	defer e.tree.mu.Unlock()
	if d := e.tree.now.NetDev(netdev); d != nil {
		return uint32(d.Index)
	}
	return 0
}

// isMlx5 reports whether the driver updates its counts by priority only when statistics are requested.
func (e *EthernetDrivers) isMlx5(d *NetDev) bool {
	f := e.tree.now.Function(d.PCI)
	return f != nil && f.Chip.Driver == "mlx5_core"
}

// pauses returns the frames of priority flow control.
func (d *NetDev) pauses() pauses {
	var all pauses
	for p := range fabric.NumPriorities {
		for _, names := range [][2]string{
			{"tx_prio%d_pause", "rx_prio%d_pause"},
			{"tx_pfc_ena_frames_pri%d", "rx_pfc_ena_frames_pri%d"},
			{"tx_priority_%d_xoff.nic", "rx_priority_%d_xoff.nic"},
		} {
			if s := d.Statistic(fmt.Sprintf(names[0], p)); s != nil {
				all.sent[p] = s.value()
			}
			if s := d.Statistic(fmt.Sprintf(names[1], p)); s != nil {
				all.received[p] = s.value()
			}
		}
	}
	return all
}

// firstOf returns the first of these statistics that the interface has.
func (d *NetDev) firstOf(source string, now time.Time, names ...string) fabric.Fact[uint64] {
	for _, name := range names {
		if s := d.Statistic(name); s != nil {
			return fabric.Known(s.value(), source, now)
		}
	}
	return fabric.UnknownFact[uint64](fabric.ReasonMissing, source, now)
}

func unsupported[T any](source string, now time.Time) fabric.Fact[T] {
	return fabric.UnknownFact[T](fabric.ReasonUnsupported, source, now)
}

// netStatistics is a group of statistics of an interface (ethtool -S) in the order of its driver. A word is a name
// and, behind a slash, what of flows it counts; without that it stands still at zero. A group with %d in its names
// is there once for each priority.
type netStatistics string

// flows is what passes through a port, or what passes through a virtual function of it.
type flows struct {
	received, sent Counter // bytes of everything but RDMA
	rdma           traffic
	virtual        bool // what the port as a whole counts stays zero
}

const (
	bytesPerFrame = 1000                                           // of everything but RDMA, on average
	bytesOnWire   = bytesPerPacket + 14 + 20 + 8 + 12 + 16 + 4 + 4 // with the headers of RoCE v2, the ICRC and the FCS
	bytesPerCNP   = 64 + 14                                        // congestion notification packet
)

// statistics returns the statistics of an interface with that driver.
func (f flows) statistics(driver string) []Statistic {
	var all []Statistic
	for _, group := range netDrivers[driver] {
		priorities := 1
		if strings.Contains(string(group), "%d") {
			priorities = fabric.NumPriorities
		}
		for p := range priorities {
			for word := range strings.FieldsSeq(string(group)) {
				name, what, _ := strings.Cut(word, "/")
				if priorities > 1 {
					name = fmt.Sprintf(name, p)
				}
				all = append(all, Statistic{Name: name, Counter: f.count(what, p)})
			}
		}
	}
	return all
}

// count returns one counter. What starts with "port" or "prio" belongs to the port, the rest to the function.
func (f flows) count(what string, priority int) Counter {
	if f.virtual && (strings.HasPrefix(what, "port") || strings.HasPrefix(what, "prio")) {
		return Counter{}
	}
	switch what {
	case "rx":
		return f.received
	case "tx":
		return f.sent
	case "rx_frames":
		return f.received.per(bytesPerFrame)
	case "tx_frames":
		return f.sent.per(bytesPerFrame)
	case "rdma_rx":
		return f.rdma.received.times(bytesPerPacket)
	case "rdma_tx":
		return f.rdma.sent.times(bytesPerPacket)
	case "rdma_rx_frames":
		return f.rdma.received
	case "rdma_tx_frames":
		return f.rdma.sent
	case "port_rx":
		return f.received.plus(f.rdma.received.times(bytesOnWire))
	case "port_tx":
		return f.sent.plus(f.rdma.sent.times(bytesOnWire))
	case "port_rx_frames":
		return f.received.per(bytesPerFrame).plus(f.rdma.received)
	case "port_tx_frames":
		return f.sent.per(bytesPerFrame).plus(f.rdma.sent)
	case "prio_rx":
		return f.priority(priority, f.received, f.rdma.received.times(bytesOnWire),
			congested(f.rdma.sent).weighing(bytesPerCNP))
	case "prio_tx":
		return f.priority(priority, f.sent, f.rdma.sent.times(bytesOnWire), congested(f.rdma.received).weighing(bytesPerCNP))
	case "prio_rx_frames":
		return f.priority(priority, f.received.per(bytesPerFrame), f.rdma.received, congested(f.rdma.sent))
	case "prio_tx_frames":
		return f.priority(priority, f.sent.per(bytesPerFrame), f.rdma.sent, congested(f.rdma.received))
	case "port_fec_bits":
		return Counter{Start: 8_120_334_871, PerStep: 41_200}
	case "port_fec_bits_lane":
		return Counter{Start: 8_120_334_871 / 4, PerStep: 41_200 / 4}
	}
	return Counter{}
}

// priority returns what of a healthy port has that priority: RDMA the lossless one, notifications of congestion
// theirs, and everything else none.
func (flows) priority(p int, other, rdma, notifications Counter) Counter {
	switch p {
	case 0:
		return other
	case losslessPriority:
		return rdma
	case cnpPriority:
		return notifications
	}
	return Counter{}
}

// netDrivers holds the statistics by driver: those of traffic, flow control, loss and the link, but not of queues
// and of offloads, of which there are thousands. The kernel has them in drivers/net/ethernet.
var netDrivers = map[string][]netStatistics{
	// mellanox/mlx5/core/en_stats.c. Which of pause there are depends on what is turned on (NetDev.shown).
	"mlx5_core": {
		`rx_packets/rx_frames rx_bytes/rx tx_packets/tx_frames tx_bytes/tx rx_ecn_mark
		rx_out_of_buffer rx_if_down_packets rx_steer_missed_packets dev_internal_queue_oob rx_oversize_pkts_buffer
		rx_vport_unicast_packets/rx_frames rx_vport_unicast_bytes/rx tx_vport_unicast_packets/tx_frames
		tx_vport_unicast_bytes/tx rx_vport_multicast_packets rx_vport_multicast_bytes tx_vport_multicast_packets
		tx_vport_multicast_bytes rx_vport_broadcast_packets rx_vport_broadcast_bytes tx_vport_broadcast_packets
		tx_vport_broadcast_bytes rx_vport_rdma_unicast_packets/rdma_rx_frames rx_vport_rdma_unicast_bytes/rdma_rx
		tx_vport_rdma_unicast_packets/rdma_tx_frames tx_vport_rdma_unicast_bytes/rdma_tx
		rx_vport_rdma_multicast_packets rx_vport_rdma_multicast_bytes tx_vport_rdma_multicast_packets
		tx_vport_rdma_multicast_bytes
		tx_packets_phy/port_tx_frames rx_packets_phy/port_rx_frames rx_crc_errors_phy tx_bytes_phy/port_tx
		rx_bytes_phy/port_rx rx_oversize_pkts_phy rx_symbol_err_phy rx_pause_ctrl_phy tx_pause_ctrl_phy
		rx_discards_phy tx_discards_phy tx_errors_phy link_down_events_phy rx_pcs_symbol_err_phy
		rx_corrected_bits_phy/port_fec_bits rx_err_lane_0_phy/port_fec_bits_lane rx_err_lane_1_phy/port_fec_bits_lane
		rx_err_lane_2_phy/port_fec_bits_lane rx_err_lane_3_phy/port_fec_bits_lane
		rx_buffer_passed_thres_phy rx_pci_signal_integrity tx_pci_signal_integrity outbound_pci_buffer_overflow
		outbound_pci_stalled_rd outbound_pci_stalled_wr outbound_pci_stalled_rd_events outbound_pci_stalled_wr_events`,
		`rx_prio%d_bytes/prio_rx rx_prio%d_packets/prio_rx_frames rx_prio%d_discards tx_prio%d_bytes/prio_tx
		tx_prio%d_packets/prio_tx_frames`,
		`rx_prio%d_pause rx_prio%d_pause_duration tx_prio%d_pause tx_prio%d_pause_duration rx_prio%d_pause_transition`,
		`rx_global_pause rx_global_pause_duration tx_global_pause tx_global_pause_duration rx_global_pause_transition
		tx_pause_storm_warning_events tx_pause_storm_error_events
		module_unplug module_bus_stuck module_high_temp module_bad_shorted`,
		`rx_prio%d_buf_discard rx_prio%d_cong_discard rx_prio%d_marked`,
	},
	// mellanox/mlx4/en_ethtool.c
	"mlx4_core": {
		`rx_packets/rx_frames tx_packets/tx_frames rx_bytes/rx tx_bytes/tx rx_dropped
		rx_pause rx_pause_duration rx_pause_transition tx_pause tx_pause_duration tx_pause_transition`,
		`rx_prio_%d_packets/prio_rx_frames rx_prio_%d_bytes/prio_rx`,
		`tx_prio_%d_packets/prio_tx_frames tx_prio_%d_bytes/prio_tx`,
	},
	// broadcom/bnxt/bnxt_ethtool.c
	"bnxt_en": {
		`rx_total_discard_pkts tx_total_discard_pkts rx_total_frames/port_rx_frames rx_fcs_err_frames rx_pause_frames rx_pfc_frames`,
		`rx_pfc_ena_frames_pri%d`,
		`rx_bytes/port_rx rx_stat_discard rx_stat_err tx_total_frames/port_tx_frames tx_pause_frames tx_pfc_frames`,
		`tx_pfc_ena_frames_pri%d`,
		`tx_bytes/port_tx tx_stat_discard tx_stat_error
		link_down_events continuous_pause_events resume_pause_events continuous_roce_pause_events resume_roce_pause_events`,
		`pfc_pri%d_rx_duration_us pfc_pri%d_rx_transitions`,
		`rx_buffer_passed_threshold rx_pcs_symbol_err rx_corrected_bits/port_fec_bits`,
		`pfc_pri%d_tx_duration_us pfc_pri%d_tx_transitions`,
		`rx_bytes_pri%d/prio_rx`, `rx_packets_pri%d/prio_rx_frames`, `tx_bytes_pri%d/prio_tx`,
		`tx_packets_pri%d/prio_tx_frames`,
	},
	// intel/ice/ice_ethtool.c
	"ice": {
		`rx_unicast/rx_frames tx_unicast/tx_frames rx_bytes/rx tx_bytes/tx rx_dropped
		rx_bytes.nic/port_rx tx_bytes.nic/port_tx rx_unicast.nic/port_rx_frames tx_unicast.nic/port_tx_frames tx_errors.nic
		link_xon_rx.nic link_xon_tx.nic link_xoff_rx.nic link_xoff_tx.nic rx_dropped.nic rx_crc_errors.nic
		mac_local_faults.nic mac_remote_faults.nic`,
		`tx_priority_%d_xon.nic tx_priority_%d_xoff.nic`,
		`rx_priority_%d_xon.nic rx_priority_%d_xoff.nic`,
	},
	// pensando/ionic/ionic_stats.c
	"ionic": {
		`tx_packets/tx_frames tx_bytes/tx rx_packets/rx_frames rx_bytes/rx hw_tx_dropped hw_rx_dropped
		hw_rx_over_errors hw_rx_missed_errors frames_rx_bad_fcs
		frames_rx_ok/port_rx_frames octets_rx_ok/port_rx frames_rx_pause frames_rx_pripause frames_rx_dropped
		frames_tx_ok/port_tx_frames octets_tx_ok/port_tx frames_tx_pause frames_tx_pripause`,
		`frames_tx_pri_%d/prio_tx_frames`, `frames_rx_pri_%d/prio_rx_frames`,
		`tx_pripause_%d_1us_count`, `rx_pripause_%d_1us_count`,
		`rx_pause_1us_count`,
	},
	// intel/igb/igb_ethtool.c
	"igb": {`rx_packets/rx_frames tx_packets/tx_frames rx_bytes/rx tx_bytes/tx rx_crc_errors rx_no_buffer_count
		rx_missed_errors rx_flow_control_xon rx_flow_control_xoff tx_flow_control_xon tx_flow_control_xoff`},
	// amazon/ena/ena_ethtool.c and microsoft/mana/mana_ethtool.c: queues and commands, hardly anything of a port
	"ena": {`tx_timeout suspend resume wd_expired interface_up interface_down admin_q_pause
		bw_in_allowance_exceeded bw_out_allowance_exceeded pps_allowance_exceeded`},
	"mana": {`stop_queue wake_queue hc_rx_discards_no_wqe tx_cq_err tx_cqe_unknown_type rx_coalesced_err rx_cqe_unknown_type`},
}
