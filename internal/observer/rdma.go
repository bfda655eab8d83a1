// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sysfs"
)

// rdmaDevice reads one device: over netlink what costs the driver less there, from sysfs the rest and whatever
// netlink does not report. In a container netlink may not show a device that sysfs shows; then all comes from
// sysfs. Nothing is remembered of netlink but the index: a socket that stays open would keep ib_core loaded, so
// it lives for one round of reads.
type rdmaDevice struct {
	*sysfs.Device
	name   string
	dial   dialer
	client rdmaClient // nil between rounds and when netlink is of no use
	index  uint32     // RDMA_NLDEV_ATTR_DEV_INDEX
	seen   bool       // index is that of an earlier round
	// replaced says that the name has gone to a device that was registered since.
	replaced bool
	// netdevs are the interfaces that netlink named, by port: of siw sysfs names none.
	netdevs map[int]string
	asked   fabric.Commands
}

// rdmaClient is what is used of a rdmanl.Client.
type rdmaClient interface {
	System() (rdmanl.System, error)
	Devices() ([]rdmanl.Device, error)
	Port(device, port uint32) (rdmanl.Port, error)
	Counters(device, port uint32) ([]rdmanl.Counter, error)
	Close() error
}

// dialer opens a connection to netlink; nil where there is none to ask.
type dialer func() (rdmaClient, error)

// dialerOf returns what answers for a sysfs: its kernel, a recording in a folder, or nil. A copy of some sysfs has
// nothing to do with this kernel's netlink.
func dialerOf(recordings string, sys *sysfs.FS) (dialer, error) {
	switch {
	case recordings != "":
		exchanges, err := recorded(recordings, rdmanl.File)
		if exchanges == nil {
			return nil, err
		}
		return func() (rdmaClient, error) { return rdmanl.Replay(exchanges), nil }, err
	case sys.IsKernel():
		return func() (rdmaClient, error) { return rdmanl.Dial() }, nil
	}
	return nil, nil
}

// Begin begins a round of reads. It looks for the device among those that netlink shows: one of the same name
// and node GUID, because a network namespace may have another device of that name.
func (d *rdmaDevice) Begin(h *fabric.HCA, now time.Time) {
	const source = "RDMA_NLDEV_CMD_GET"
	guid, known := h.NodeGUID.Get()
	if d.dial == nil || !known || h.Traits().ConstantPorts { // for every caller
		h.Netlink = fabric.UnknownFact[bool](fabric.ReasonNotRead, source, now)
		return
	}
	client, err := d.dial()
	if err != nil {
		h.Netlink = fabric.UnknownFact[bool](fabric.ReasonOf(err), source, now)
		return
	}
	devices, _ := client.Devices() // those that could be decoded
	for _, v := range devices {
		if v.Name == d.name && v.NodeGUID == guid {
			d.replaced = d.seen && v.Index != d.index
			d.client, d.index, d.seen = client, v.Index, true
			h.Netlink = fabric.Known(true, source, now)
			if v.SMI {
				h.Function = fabric.Known(fabric.FunctionSMI, "RDMA_NLDEV_ATTR_DEV_TYPE", now)
			}
			return
		}
	}
	client.Close()
	h.Netlink = fabric.Known(false, source, now)
}

// End ends a round.
func (d *rdmaDevice) End() {
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
}

// Close releases everything.
func (d *rdmaDevice) Close() {
	d.End()
	d.Device.Close()
}

// Commands counts what the driver was asked over both ways.
func (d *rdmaDevice) Commands() fabric.Commands {
	c := d.Device.Commands()
	if c == nil {
		c = fabric.Commands{}
	}
	c.Add(d.asked)
	return c
}

const (
	sourcePort = "RDMA_NLDEV_CMD_PORT_GET"
	sourceStat = "RDMA_NLDEV_CMD_STAT_GET"
)

// ReadPorts asks each port once (RDMA_NLDEV_CMD_PORT_GET), where sysfs asks for each of its files.
func (d *rdmaDevice) ReadPorts(h *fabric.HCA, now time.Time) error {
	if d.replaced {
		return fmt.Errorf("%w: %s was registered again", sysfs.ErrGone, d.name)
	}
	if d.client == nil {
		return d.Device.ReadPorts(h, now)
	}
	answers := make([]rdmanl.Port, len(h.Ports))
	for i := range h.Ports {
		d.asked[fabric.CommandQueryPort]++
		v, err := d.client.Port(d.index, uint32(h.Ports[i].Number))
		if err != nil || v.State == "" || v.PhysState == "" {
			return d.Device.ReadPorts(h, now) // sysfs shows each port by itself, and whether the device is gone
		}
		answers[i] = v
	}
	for i, v := range answers {
		p := &h.Ports[i]
		changed := p.PhysState.State != fabric.OK || p.PhysState.Value != v.PhysState
		p.State, p.PhysState = fabric.Known(v.State, sourcePort, now), fabric.Known(v.PhysState, sourcePort, now)
		if changed {
			d.ReadRate(h, p, now)
		}
		// it went to another network namespace
		if was := d.netdevs[p.Number]; was != v.NetDev && p.NetDev.State == fabric.OK {
			d.ReadNetDev(p, now)
		}
		d.netdevs[p.Number] = v.NetDev
		d.nameNetDev(p, now)
	}
	return nil
}

// ReadPortDetails reads the rest from sysfs.
func (d *rdmaDevice) ReadPortDetails(h *fabric.HCA, now time.Time) error {
	if err := d.Device.ReadPortDetails(h, now); err != nil {
		return err
	}
	for i := range h.Ports {
		d.nameNetDev(&h.Ports[i], now)
	}
	return nil
}

// nameNetDev names the interface of a port of which sysfs knows none.
func (d *rdmaDevice) nameNetDev(p *fabric.Port, now time.Time) {
	if name := d.netdevs[p.Number]; name != "" && d.client != nil && p.NetDev.State == fabric.Unknown {
		p.NetDev = fabric.Known(name, sourcePort, now)
	}
}

// ReadHWCounters asks each port once for all counters (RDMA_NLDEV_CMD_STAT_GET). A port that netlink cannot
// report (too many counters for one message, none at all) is read from sysfs, as are the device's own.
func (d *rdmaDevice) ReadHWCounters(h *fabric.HCA, now time.Time) error {
	if d.client == nil {
		return d.Device.ReadHWCounters(h, now)
	}
	if err := d.ReadDeviceHWCounters(h, now); err != nil {
		return err
	}
	for i := range h.Ports {
		p := &h.Ports[i]
		if !d.HasHWCounters(p, now) { // sysfs knows without asking the driver
			continue
		}
		d.asked[fabric.CommandHWStats]++
		list, err := d.client.Counters(d.index, uint32(p.Number))
		if err != nil {
			d.ReadPortHWCounters(p, now)
			continue
		}
		counters := make([]fabric.Counter, len(list))
		for k, c := range list {
			counters[k] = fabric.Counter{Name: c.Name, Value: fabric.Known(c.Value, sourceStat, now)}
		}
		p.Counters.HW = fabric.Known(counters, sourceStat, now)
	}
	return nil
}
