// SPDX-License-Identifier: Apache-2.0

// Package simulator holds whole GPU training nodes as data, scenarios that break them, and a way to lay them
// out as directory trees that look like /sys, /proc and / to their readers. It serves the demo
// sub-command and tests; nothing in it touches the machine it runs on.
//
// A Node is plain data without locks: the caller that built it may edit it. A Tree may be used by any number of
// goroutines, and its files may be read, through descriptors kept open too, while it moves.
//
// Errors name what was asked for and wrap the cause. A node whose parts refer to parts it does not have is an
// error of Materialise.
package simulator

import (
	"maps"
	"math"
	"net/netip"
	"path"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Node is one node. Texts are written as the kernel prints them.
type Node struct {
	Host      Host
	Functions []Function
	GPUs      []GPU
	Driver    GPUDriver
	HCAs      []HCA
	NetDevs   []NetDev
	Moved     []Moved           // what other network namespaces have
	Routes    []Route           // those that do not follow from an address of an interface
	Files     map[string]string // other files, by path below the root file system
	Logs      []Log             // that grow over time
	Daemons   []Daemon
	Flaps     []Flap
	NCCL      NCCL
	Jobs      []Job

	unsound []error // what is wrong with the tables that the node is built from
}

// Host is the machine itself.
type Host struct {
	Name    string
	Kernel  string // release
	Version string // first line of /proc/version
	Cmdline string
	Boot    time.Time
	HZ      int  // ticks per second, CONFIG_HZ
	Virtual bool // a virtual machine
	DMI     DMI
}

// DMI is what the firmware says that the machine is; what is empty it does not say.
type DMI struct{ Vendor, Product, Board, AssetTag string }

// Chip is what a PCI function is.
type Chip struct {
	Vendor, Device uint16
	Class          uint32 // base class, subclass and programming interface
	Driver         string
	Link           Link // the best it can do
}

// Link is a PCI Express link.
type Link struct {
	Speed string // "32.0 GT/s PCIe"
	Width int
}

// Function is a PCI function: an endpoint, or a bridge that leads to some.
type Function struct {
	Path string // below /sys/devices: host bridge, root port, switch ports, endpoint
	Chip Chip
	NUMA int
	Link Link   // as trained; of root ports and downstream ports that of what is below counts
	ACS  uint16 // control register of those ports
	DMA  DMA
	AER  AER
	// Asleep says that the function is suspended.
	Asleep bool
	Group  int    // IOMMU group, where the IOMMU is on
	VFs    int    // sriov_totalvfs; 0: no SR-IOV capability
	PF     string // address of the physical function; empty: it is one, or that one is outside of this guest
	VPD    string // vital product data; empty: it has none
}

// DMA is how a function may read and write memory.
type DMA struct {
	MaxPayload, MaxRead int // bytes, powers of two from 128 on
	Relaxed             bool
}

// AER are the errors that a function has reported.
type AER struct{ Correctable, NonFatal, Fatal Counter }

// Address returns the PCI address.
func (f Function) Address() string { return path.Base(f.Path) }

// HCA is an RDMA device. Attributes that its driver does not have are empty.
type HCA struct {
	Name        string
	NodeType    string
	PCI         string // address
	Aux         Aux
	Verbs       int    // N of uverbsN
	Type        string // hca_type
	Board       string // PSID
	Firmware    string
	Revision    string
	Description string // node_desc; empty: what rdma-ndd writes, the names of the host and the device
	GUID        GUID
	ImageGUID   GUID // with mlx5 and mlx4 the GUID of the first function of the card
	HW          []Statistic
	SMI         bool // a device for subnet management of a multi-plane one, which the kernel says over netlink only
	Ports       []Port
}

// Aux is the device on the auxiliary bus, below the PCI function, that an RDMA driver binds to. The RDMA device
// itself is a child of the PCI function nevertheless, whose driver is that of the interface.
type Aux struct{ Name, Driver string }

// Moved is what another network namespace has of a PCI function: its RDMA device, its interface, or both. Of neither is
// anything left in the classes infiniband and net, and their directories below the function are empty.
type Moved struct {
	PCI    string // address
	Device string // the RDMA device by its name there; empty: it is here
	Aux    Aux
	Verbs  int
	NetDev bool
}

// Link layers.
const (
	Ethernet    = "Ethernet"
	InfiniBand  = "InfiniBand"
	Unspecified = "Unknown" // EFA
)

const active = "4: ACTIVE" // the state of a port with a link

// Port is one port of an HCA.
type Port struct {
	Number    int
	LinkLayer string
	State     string
	PhysState string
	Rate      string
	NoLink    string // the rate that the driver makes up for a port without a link
	CapMask   uint32
	LID       int // InfiniBand; elsewhere a constant of the driver
	LMC       int
	SMLID     int // InfiniBand
	PKeySlots int // the first slot holds the default key, the others none
	GIDSlots  int
	GIDTypes  []string // of the entries that an address on Ethernet gets
	GIDs      []GID    // the occupied slots
	NetDev    string   // the interface that shares the port

	PMA        []Statistic // counters; empty: the driver has no process_mad, and there is no such directory
	ClearEvery int         // steps after which the PMA counters are set to zero; 0: never
	HW         []Statistic // hw_counters, in the driver's order
	CM         []Statistic // cm_*, named as in "cm_rx_msgs/req"

	// OFED says that MLNX_OFED has the file tc/<port>/traffic_class for the port. It prints lines like "Global
	// tclass=106" in it, or nothing.
	OFED         bool
	TrafficClass string

	Texts map[string]string // what files read instead of what they should, by path below the port
	Dirs  []string          // files that are directories, whose reading is an error (EISDIR)
}

// GID types, as gid_attrs/types prints them. The first is also that of InfiniBand GIDs.
const (
	RoCEv1 = "IB/RoCE v1"
	RoCEv2 = "RoCE v2"
)

// GID is an occupied slot of a GID table.
type GID struct {
	Index  int
	Addr   netip.Addr
	Type   string
	NetDev string // empty: the kernel names none
}

// Interface types, ARPHRD_* of linux/if_arp.h.
const (
	TypeEthernet   = 1
	TypeInfiniBand = 32
	TypeLoopback   = 772
)

// NetDev is a network interface.
type NetDev struct {
	Name     string
	Index    int
	Type     int
	PCI      string // address; empty: virtual
	DevPort  int    // of a function with several ports, from 0
	PhysPort string // phys_port_name; empty: the driver has none
	Address  string // link-layer address
	MTU      int
	Speed    int  // Mb/s as negotiated; 0: the interface has none
	Carrier  bool // without one the kernel prints speed -1
	Master   string
	VLAN     VLAN // zero: it is none
	Addrs    []netip.Prefix
	Received Counter
	Sent     Counter
	QoS      QoS
	Stats    []Statistic // ethtool -S, in the driver's order; empty: the driver has none
	StatsErr error       // what the driver answers instead
}

// VLAN is what makes an interface one.
type VLAN struct {
	Lower  string // the interface below
	ID     int
	Egress [fabric.NumPriorities]int // the priority in the tag, by that of the packet within the kernel
}

// Route is an IP route; a zero Gateway means on link.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
	NetDev  string
	Metric  int // 0: what the kernel gives it
}

// Flap takes the link of an HCA down for the last Down of every Period steps.
type Flap struct {
	Device       string
	Period, Down int
}

// HCA returns the RDMA device of that name, or nil.
func (n *Node) HCA(name string) *HCA {
	return lookup(n.HCAs, func(h HCA) bool { return h.Name == name })
}

// NetDev returns the interface of that name, or nil.
func (n *Node) NetDev(name string) *NetDev {
	return lookup(n.NetDevs, func(d NetDev) bool { return d.Name == name })
}

// Function returns the PCI function at that address, or nil.
func (n *Node) Function(address string) *Function {
	return lookup(n.Functions, func(f Function) bool { return f.Address() == address })
}

// Port returns the port of that number, or nil.
func (h *HCA) Port(number int) *Port {
	return lookup(h.Ports, func(p Port) bool { return p.Number == number })
}

func lookup[T any](all []T, is func(T) bool) *T {
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Clone returns a copy that shares nothing with n.
func (n *Node) Clone() *Node {
	c := *n
	c.Functions = slices.Clone(n.Functions)
	c.GPUs = slices.Clone(n.GPUs)
	for i := range c.GPUs {
		c.GPUs[i] = c.GPUs[i].clone()
	}
	c.Routes = slices.Clone(n.Routes)
	c.Files = maps.Clone(n.Files)
	c.Logs = written(n.Logs, math.MaxInt)
	c.Flaps = slices.Clone(n.Flaps)
	c.Moved = slices.Clone(n.Moved)
	c.NCCL.Slow = slices.Clone(n.NCCL.Slow)
	c.Daemons = slices.Clone(n.Daemons)
	c.Jobs = slices.Clone(n.Jobs) // whose ranks nothing changes
	c.HCAs = slices.Clone(n.HCAs)
	for i := range c.HCAs {
		h := &c.HCAs[i]
		h.HW = slices.Clone(h.HW)
		h.Ports = slices.Clone(h.Ports)
		for k := range h.Ports {
			h.Ports[k] = h.Ports[k].clone()
		}
	}
	c.NetDevs = slices.Clone(n.NetDevs)
	for i := range c.NetDevs {
		d := &c.NetDevs[i]
		d.Addrs = slices.Clone(d.Addrs)
		d.QoS.Apps = slices.Clone(d.QoS.Apps)
		d.Stats = slices.Clone(d.Stats)
	}
	return &c
}

func (p Port) clone() Port {
	p.GIDTypes = slices.Clone(p.GIDTypes)
	p.GIDs = slices.Clone(p.GIDs)
	p.PMA = slices.Clone(p.PMA)
	p.HW = slices.Clone(p.HW)
	p.CM = slices.Clone(p.CM)
	p.Texts = maps.Clone(p.Texts)
	p.Dirs = slices.Clone(p.Dirs)
	return p
}
