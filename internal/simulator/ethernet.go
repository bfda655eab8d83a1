// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
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
	q.PFC, q.ETS, q.Apps = unsupported[fabric.PFC](pfc, now), unsupported[fabric.ETS](ets, now), unsupported[[]fabric.App](apps, now)
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
	q.Buffers = fabric.UnknownFact[fabric.Buffers](fabric.ReasonMissing, buffers, now) // the kernel leaves the attribute out
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
func (e *EthernetDrivers) Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter, error) {
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
