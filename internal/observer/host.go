// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/sysfs"
)

// classReader and hostReader fit the readers of host/ to the interfaces above.
type classReader struct {
	*sysfs.FS
	dial dialer
}

func (r classReader) Open(name string) (Device, error) {
	dev, err := r.Device(name)
	if err != nil {
		return nil, err
	}
	return &rdmaDevice{Device: dev, name: name, dial: r.dial, asked: fabric.Commands{}, netdevs: map[int]string{}}, nil
}

type hostReader struct {
	*sysfs.FS
	prc  *proc.FS
	jobs *proc.Daemons // used in the lane of the node only
	dial dialer
	// drivers answers for the speed of interfaces of a kernel or in a recording; nil for those of a copy.
	drivers *ethernetReader
}

func (r hostReader) Host(last fabric.Host, now time.Time) fabric.Host {
	h := r.prc.Host(last, now)
	h.RDMANetNS, h.DMI = r.netNSMode(now), r.DMI(last.DMI, now)
	return h
}

func (r hostReader) Daemons(now time.Time) fabric.Fact[[]fabric.Daemon] { return r.jobs.Read(now) }

// GPUDirect puts together what the driver of the GPUs shows in /proc, and the RDMA core in /sys.
func (r hostReader) GPUDirect(now time.Time) fabric.GPUDirect {
	d := fabric.GPUDirect{Peermem: r.Peermem(now)}
	d.Driver, d.OpenModule, d.TopologyOverride = r.prc.GPUDriver(now)
	return d
}

func (r hostReader) NetDevs(names []string, detailed bool, now time.Time) ([]fabric.NetDev, error) {
	var speed func(string) fabric.Fact[float64]
	if r.drivers != nil && r.drivers.answers() {
		speed = func(netdev string) fabric.Fact[float64] { return r.drivers.tool.Speed(netdev, now) }
	}
	routes, err := r.prc.DefaultRoutes() // nil beside an error
	return r.FS.NetDevs(names, routes, speed, detailed, now), err
}

// Interfaces does not know them where sysfs shows those of another network namespace than the one that the
// node's routes are of, as in a container.
func (r hostReader) Interfaces(now time.Time) fabric.Fact[[]fabric.Interface] {
	list := r.FS.Interfaces(now)
	if list.State != fabric.OK {
		return list
	}
	routes, err := r.prc.DefaultRoutes()
	if err != nil {
		return fabric.UnknownFact[[]fabric.Interface](fabric.ReasonOf(err), "net/route", now)
	}
	for name := range routes {
		if !slices.ContainsFunc(list.Value, func(i fabric.Interface) bool { return i.Name == name }) {
			return fabric.UnknownFact[[]fabric.Interface](fabric.ReasonNotRead, list.Source, now)
		}
	}
	return list
}

func (r hostReader) ReadCongestionParameters(netdev string, q *fabric.QoS, now time.Time) error {
	return r.FS.ReadCongestionParameters(netdev, r.FunctionOf(netdev), q, now)
}

// netNSMode asks the RDMA core, where there is one: opening its socket elsewhere would load it.
func (r hostReader) netNSMode(now time.Time) fabric.Fact[fabric.NetNSMode] {
	const source = "RDMA_NLDEV_SYS_ATTR_NETNS_MODE"
	unknown := func(why fabric.Reason) fabric.Fact[fabric.NetNSMode] {
		return fabric.UnknownFact[fabric.NetNSMode](why, source, now)
	}
	if r.dial == nil {
		return unknown(fabric.ReasonMissing)
	}
	if _, err := r.Devices(); err != nil {
		return unknown(fabric.ReasonMissing)
	}
	c, err := r.dial()
	if err != nil {
		return unknown(fabric.ReasonOf(err))
	}
	defer c.Close()
	switch v, err := c.System(); {
	case err != nil:
		return unknown(fabric.ReasonOf(err))
	case v.SharedNetNS:
		return fabric.Known(fabric.NetNSShared, source, now)
	default:
		return fabric.Known(fabric.NetNSExclusive, source, now)
	}
}
