// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
)

// RDMA lists and opens RDMA devices.
type RDMA interface {
	// Devices returns the names of all devices; errors.Is(err, fs.ErrNotExist) where the kernel has no RDMA. Names beside
	// an error are to be used: the error is about entries that could not be listed.
	Devices() ([]string, error)
	// Moved returns the devices in other network namespaces, where these are the ones in this one; those of a container
	// only if container is set. No driver is asked.
	// What it returns beside an error is to be used.
	Moved(here []string, container bool) ([]sysfs.Moved, error)
	Open(name string) (Device, error)
}

// Device reads one RDMA device. Its methods fill facts into h, are called by one goroutine at a time and may
// block for ever. An error means that nothing could be read; single facts fail for themselves.
type Device interface {
	Identify(h *fabric.HCA, restricted bool, now time.Time) error
	ReadPorts(h *fabric.HCA, now time.Time) error
	ReadPortDetails(h *fabric.HCA, now time.Time) error
	// ScanGIDs reads GID tables whole, FindGIDs where new entries appear, ReadGIDs the known entries.
	ScanGIDs(h *fabric.HCA, now time.Time) error
	FindGIDs(h *fabric.HCA, now time.Time) error
	ReadGIDs(h *fabric.HCA, now time.Time) error
	ReadPMA(h *fabric.HCA, all bool, now time.Time) error
	ReadHWCounters(h *fabric.HCA, now time.Time) error
	ReadTrafficClass(h *fabric.HCA, now time.Time) error
	ReadCM(h *fabric.HCA, now time.Time) error
	// Begin and End enclose the reads of one round; Begin comes after the first Identify.
	Begin(h *fabric.HCA, now time.Time)
	End()
	// Commands counts what the driver was asked since the device was opened.
	Commands() fabric.Commands
	Close()
}

// Host reads what belongs to the node and not to one device.
type Host interface {
	// Host reads what the node itself is, all but its daemons; what cannot change it takes from last.
	Host(last fabric.Host, now time.Time) fabric.Host
	Daemons(now time.Time) fabric.Fact[[]fabric.Daemon]
	GPUs(now time.Time) fabric.Fact[int]
	// GPUDirect reads what the kernel shows of it. No driver is asked.
	GPUDirect(now time.Time) fabric.GPUDirect
	// NetDevs reads these interfaces and those below them, their MTU and driver if detailed is set.
	NetDevs(names []string, detailed bool, now time.Time) ([]fabric.NetDev, error)
	// Interfaces lists all network interfaces. No driver is asked.
	Interfaces(now time.Time) fabric.Fact[[]fabric.Interface]
	// ReadQoS and ReadCongestionParameters fill in what files report about the interface's QoS. They may ask its driver.
	ReadQoS(netdev string, q *fabric.QoS, now time.Time) error
	ReadCongestionParameters(netdev string, q *fabric.QoS, now time.Time) error
	// Commands counts what drivers of network interfaces were asked by ReadQoS and ReadCongestionParameters.
	Commands() fabric.Commands
}

// Ethernet asks the drivers of network interfaces how they treat classes of traffic and what they count. Every
// call takes the kernel's rtnl lock, under which most drivers wait for their firmware: it may block for ever. Its
// methods are called by one goroutine at a time.
type Ethernet interface {
	// ReadQoS fills in what the driver is asked for: PFC, ETS, Apps, Buffers, DCBX, Pause and FEC; all of them, or
	// none of them with an error. An error beside facts says why some of those are unknown.
	ReadQoS(netdev string, q *fabric.QoS, now time.Time) error
	// Statistics returns the statistics of the interface whose names are wanted, each name once, in the driver's
	// order. An interface whose driver has none returns an error that is errors.ErrUnsupported.
	Statistics(netdev string, wanted func(name string) bool, now time.Time) ([]fabric.Counter, error)
	// Instance returns the number of the interface that Statistics read last under the name, which no other interface
	// ever gets (ifindex); 0: none. It makes no request.
	Instance(netdev string) uint32
	// Commands counts what drivers were asked.
	Commands() fabric.Commands
	Close()
}
