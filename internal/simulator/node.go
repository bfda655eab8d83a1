// SPDX-License-Identifier: Apache-2.0

// Package simulator holds whole GPU training nodes as data, scenarios that break them, and a way to lay them
// out as directory trees that look like /sys, /proc and / to whoever reads those. It serves the demo
// sub-command and tests; nothing in it touches the machine it runs on.
//
// A Node is plain data without locks: whoever built it may edit it. A Tree may be used by any number of
// goroutines, and its files may be read, through descriptors kept open too, while it moves.
//
// Errors name what was asked for and wrap the cause. A node whose parts refer to parts it does not have is an
// error of Materialise.
package simulator

import (
	"maps"
	"net/netip"
	"path"
	"slices"
	"time"
)

// Node is one node. Texts are written as the kernel prints them.
type Node struct {
	Host      Host
	Functions []Function
	GPUs      []GPU
	HCAs      []HCA
	NetDevs   []NetDev
	Routes    []Route           // those that do not follow from an address of an interface
	Files     map[string]string // other files, by path below the root file system
	Flaps     []Flap
}

// Host is the machine itself.
type Host struct {
	Name    string
	Kernel  string // release
	Version string // first line of /proc/version
	Cmdline string
	Boot    time.Time
}

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
	Link Link // as trained
	VFs  int  // sriov_totalvfs; 0: no SR-IOV capability
}

// Address returns the PCI address.
func (f Function) Address() string { return path.Base(f.Path) }

// GPU is an NVIDIA GPU, in the order of the driver's indices.
type GPU struct {
	PCI  string // address
	Name string // product name, as the driver gives it
}

// HCA is an RDMA device.
type HCA struct {
	Name      string
	PCI       string // address
	Type      string // hca_type
	Board     string // PSID
	Firmware  string
	Revision  string
	GUID      GUID
	ImageGUID GUID // the GUID of the first function of the card
	Ports     []Port
}

// Link layers.
const (
	Ethernet   = "Ethernet"
	InfiniBand = "InfiniBand"
)

// Port is one port of an HCA.
type Port struct {
	Number    int
	LinkLayer string
	State     string
	PhysState string
	Rate      string
	CapMask   uint32
	LID       int // InfiniBand
	SMLID     int // InfiniBand
	PKeySlots int // the first slot holds the default key, the others none
	GIDSlots  int
	GIDs      []GID  // the occupied slots
	NetDev    string // the interface that shares the port
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
	Address  string // link-layer address
	MTU      int
	Speed    int  // Mb/s as negotiated; 0: the interface has none
	Carrier  bool // without one the kernel prints speed -1
	Master   string
	Addrs    []netip.Prefix
	Received Counter
	Sent     Counter
}

// Route is an IP route; a zero Gateway means on link.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
	NetDev  string
}

// Counter grows by PerStep with each step of a tree, while the link it counts on is up.
type Counter struct{ Start, PerStep uint64 }

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
	c.Routes = slices.Clone(n.Routes)
	c.Files = maps.Clone(n.Files)
	c.Flaps = slices.Clone(n.Flaps)
	c.HCAs = slices.Clone(n.HCAs)
	for i := range c.HCAs {
		h := &c.HCAs[i]
		h.Ports = slices.Clone(h.Ports)
		for k := range h.Ports {
			h.Ports[k].GIDs = slices.Clone(h.Ports[k].GIDs)
		}
	}
	c.NetDevs = slices.Clone(n.NetDevs)
	for i := range c.NetDevs {
		c.NetDevs[i].Addrs = slices.Clone(c.NetDevs[i].Addrs)
	}
	return &c
}
