// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/rdmanl"
	"gpufabric_exporter/internal/host/sysfs"
)

// classReader and hostReader fit the readers of host/ to the interfaces above.
type classReader struct{ fs *sysfs.FS }

func (r classReader) Devices() ([]string, error) { return r.fs.Devices() }

func (r classReader) Open(name string) (Device, error) {
	dev, err := r.fs.Device(name)
	if err != nil {
		return nil, err
	}
	d := &rdmaDevice{Device: dev, name: name, asked: fabric.Commands{}, netdevs: map[int]string{}}
	if r.fs.IsKernel() { // a copy of some sysfs has nothing to do with this kernel's netlink
		d.dial = dialRDMA
	}
	return d, nil
}

type hostReader struct {
	sys *sysfs.FS
	prc *proc.FS
}

func (r hostReader) Host(now time.Time) fabric.Host {
	h := r.prc.Host(now)
	h.RDMANetNS = r.netNSMode(now)
	return h
}
func (r hostReader) GPUs(now time.Time) fabric.Fact[int] { return r.sys.GPUs(now) }
func (r hostReader) NetDevs(names []string, now time.Time) ([]fabric.NetDev, error) {
	routes, err := r.prc.DefaultRoutes()
	if err != nil {
		return r.sys.NetDevs(names, nil, now), err
	}
	return r.sys.NetDevs(names, routes, now), nil
}

// netNSMode asks the RDMA core, where there is one: opening its socket elsewhere would load it.
func (r hostReader) netNSMode(now time.Time) fabric.Fact[fabric.NetNSMode] {
	const source = "RDMA_NLDEV_SYS_ATTR_NETNS_MODE"
	if _, err := r.sys.Devices(); err != nil || !r.sys.IsKernel() {
		return fabric.NotKnown[fabric.NetNSMode](fabric.ReasonMissing, source, now)
	}
	c, err := rdmanl.Dial()
	if err != nil {
		return fabric.NotKnown[fabric.NetNSMode](sysfs.ReasonOf(err), source, now)
	}
	defer c.Close()
	switch v, err := c.System(); {
	case err != nil:
		return fabric.NotKnown[fabric.NetNSMode](sysfs.ReasonOf(err), source, now)
	case v.SharedNetNS:
		return fabric.Known(fabric.NetNSShared, source, now)
	default:
		return fabric.Known(fabric.NetNSExclusive, source, now)
	}
}
