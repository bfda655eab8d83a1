// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"net/netip"
	"time"

	"gpufabric_exporter/internal/counters"
)

// HCA is one RDMA device of /sys/class/infiniband: an InfiniBand HCA, a RoCE NIC, EFA, or a software device.
type HCA struct {
	Name string
	// Moved says that the kernel has the device in another network namespace, as after "rdma dev set DEV netns POD":
	// its driver has it still. Nothing is known of it but what it is, and that only if it was seen before.
	Moved bool

	NodeType Fact[NodeType] `fact:"identity"`
	Driver   Fact[string]   `fact:"identity"` // kernel driver bound to the parent PCI device; absent for software devices
	Firmware Fact[string]   `fact:"identity"`
	BoardID  Fact[string]   `fact:"identity"` // PSID
	// hca_type, "MT4129"; of some drivers the node description: only to be shown
	Type      Fact[string]   `fact:"identity"`
	Revision  Fact[string]   `fact:"identity"` // hw_rev
	NodeGUID  Fact[string]   `fact:"identity"`
	ImageGUID Fact[string]   `fact:"identity"` // equal on all functions of one physical card
	PCI       Fact[string]   `fact:"identity"` // "0000:1a:00.0"; absent for software devices
	NUMANode  Fact[int]      `fact:"identity"` // unknown when the firmware does not say (-1)
	Function  Fact[Function] `fact:"identity"`

	// Restricted devices belong to the platform (NVSwitch management bridges of HGX boards). Reading their
	// counters makes the driver log errors without end, so nothing but their identity is read.
	Restricted Fact[bool] `fact:"identity"`

	// Netlink reports whether NETLINK_RDMA shows the device. Where it does not (a container with a network
	// namespace of its own, an old kernel) everything is read from sysfs, at a higher price for the driver.
	Netlink Fact[bool]

	HWCounters Fact[[]Counter] // of the device as a whole: efa, mana, mlx5 in switchdev mode

	Ports []Port // sorted by number

	Listed string `fact:"derived"` // the name that the manifest has it by; empty: none
}

// NodeType is node_type of the ABI: what kind of RDMA device this is.
type NodeType string

// Node types, Documentation/ABI/stable/sysfs-class-infiniband.
const (
	NodeCA          NodeType = "ca"
	NodeSwitch      NodeType = "switch"
	NodeRouter      NodeType = "router"
	NodeRNIC        NodeType = "rnic" // iWARP
	NodeUSNIC       NodeType = "usnic"
	NodeUSNICUDP    NodeType = "usnic_udp"
	NodeUnspecified NodeType = "unspecified" // EFA
)

// Function is what kind of PCI function a device is.
type Function string

// A VF in a guest looks like a physical function without SR-IOV: that is unknown, not FunctionPF.
const (
	FunctionPF Function = "pf"
	FunctionVF Function = "vf"
	FunctionSF Function = "sf" // a part of a physical function, below it on the auxiliary bus
	// FunctionSMI is a device for subnet management of a multi-plane device (RDMA_DEVICE_TYPE_SMI): it has no verbs.
	FunctionSMI Function = "smi"
)

// Traits are what sets the driver of the device apart; none where the driver is not known.
func (h *HCA) Traits() counters.Traits { return counters.TraitsOf(h.Driver.Or("")) }

// Lent reports whether the device is a virtual function or a subfunction: the host has it for containers and guests.
func (h *HCA) Lent() bool {
	f := h.Function.Or("")
	return f == FunctionVF || f == FunctionSF
}

// PortsHidden reports whether it is unknown which ports the device has: each has one, and those of restricted
// devices are not read.
func (h *HCA) PortsHidden() bool { return len(h.Ports) == 0 && !h.Restricted.Or(false) }

// Port is one port of an HCA.
type Port struct {
	Number int

	State     Fact[PortState]
	PhysState Fact[PhysState]
	LinkLayer Fact[LinkLayer] `fact:"identity"`
	Rate      Fact[Rate]      // absent unless the physical link is up: drivers invent one otherwise
	LID       Fact[int]       // InfiniBand only, absent elsewhere
	SMLID     Fact[int]       // InfiniBand only, absent elsewhere
	PKeys     Fact[int]       // entries of the P_Key table, InfiniBand only; reading one costs a firmware command
	NetDev    Fact[string]    // unknown(moved) while the interface is in another network namespace than the device
	// Representor says that it is known to stand for another function in the switch of the card (switchdev). It
	// is down while that one is not in use.
	Representor bool
	GIDs        GIDTable
	Counters    PortCounters
	// TrafficClass is what MLNX_OFED sets for all queue pairs of the port; absent when unset, unknown(missing)
	// without MLNX_OFED.
	TrafficClass Fact[TrafficClass]
	// DefaultToS is what connections of the connection manager get (configfs rdma_cm, default_roce_tos). NCCL's
	// queue pairs do not use it. Absent on InfiniBand; unknown(missing) without a folder of the device in configfs,
	// which does not say that nothing was set: the tool that sets it removes the folder again.
	DefaultToS Fact[int]

	// Seen is what the exporter saw of the port before, for what a port without a link no longer shows.
	Seen PortHistory

	// Derived by Node.Derive. Role is always known; RoleBy says who states it.
	Role         Fact[Role]          `fact:"derived"`
	RoleBy       Authority           `fact:"derived"`
	Link         Expected[bool]      `fact:"derived"` // whether it should have one
	Address      Expected[GIDFamily] `fact:"derived"` // of RoCE v2 that it should have; empty: none
	ExpectedRate Fact[float64]       `fact:"derived"` // bytes per second
	RateBy       Authority           `fact:"derived"` // who expects it
	RateMismatch Fact[bool]          `fact:"derived"`
	GIDChoice    Fact[GIDChoice]     `fact:"derived"`
	// RoCE judges each physical interface below the port, the worst first: its verdict is the port's. Absent without
	// RoCE.
	RoCE Fact[[]RoCEChain] `fact:"derived"`
}

// PortHistory is what was seen of a port, by this process since its device appeared, or by its record
// (package inventory).
type PortHistory struct {
	Active bool      // it was active
	Since  time.Time // when it was seen active first; zero: not known
	Last   time.Time // when it was seen active last; zero: not known
	Rate   float64   // the highest rate in bytes per second while it was; 0 if none was known
	// RateLast is when it had that rate last; zero: not known.
	RateLast time.Time
	// IPv4 and IPv6 are the addresses for RoCE v2 that it had and lacks, by its record only; invalid: none.
	IPv4, IPv6 PastAddress
}

// PastAddress is an address that a port had until Last.
type PastAddress struct {
	Addr netip.Addr
	Last time.Time
}

// Remember adds what the port is now to its history.
func (p *Port) Remember() {
	if p.State.Or("") != PortActive {
		return
	}
	if !p.Seen.Active {
		p.Seen.Active, p.Seen.Since = true, p.State.At
	}
	p.Seen.Last = p.State.At
	if rate := p.Rate.Or(Rate{}).BytesPerSecond; rate > 0 && rate >= p.Seen.Rate {
		p.Seen.Rate, p.Seen.RateLast = rate, p.State.At
	}
}

// AddressesOf returns the addresses of a family by which a router reaches the port (RoCE v2).
func (p *Port) AddressesOf(family GIDFamily) (list []netip.Addr) {
	for _, g := range p.GIDs.Entries.Or(nil) {
		if g.Routable() && g.Family == family {
			list = append(list, g.Addr.Unmap())
		}
	}
	return list
}

// PortState is the logical state of a port.
type PortState string

// Port states, IB_PORT_* of rdma/ib_verbs.h.
const (
	PortNop         PortState = "nop"
	PortDown        PortState = "down"
	PortInit        PortState = "init"
	PortArmed       PortState = "armed"
	PortActive      PortState = "active"
	PortActiveDefer PortState = "active_defer"
)

// PortStates returns the full state set, in the kernel's numbering from 0.
func PortStates() []PortState {
	return []PortState{PortNop, PortDown, PortInit, PortArmed, PortActive, PortActiveDefer}
}

// PhysState is the state of the physical link.
type PhysState string

// Physical states, IB_PORT_PHYS_STATE_* of rdma/ib_verbs.h.
const (
	PhysSleep    PhysState = "sleep"
	PhysPolling  PhysState = "polling"
	PhysDisabled PhysState = "disabled"
	PhysTraining PhysState = "port_configuration_training"
	PhysLinkUp   PhysState = "link_up"
	PhysRecovery PhysState = "link_error_recovery"
	PhysPhyTest  PhysState = "phy_test"
)

// PhysStates returns the full state set, in the kernel's numbering from 1.
func PhysStates() []PhysState {
	return []PhysState{PhysSleep, PhysPolling, PhysDisabled, PhysTraining, PhysLinkUp, PhysRecovery, PhysPhyTest}
}

// LinkLayer is the link layer of a port.
type LinkLayer string

// Link layers. EFA has none of the first two.
const (
	LinkInfiniBand  LinkLayer = "infiniband"
	LinkEthernet    LinkLayer = "ethernet"
	LinkUnspecified LinkLayer = "unspecified"
)

// Rate is the signalling rate of a port as the kernel prints it ("400 Gb/sec (4X NDR)").
type Rate struct {
	BytesPerSecond float64
	Lanes          int
	Generation     string // SDR ... XDR; empty when the kernel prints none
}

// NetDevMoved reports whether the interface of the port is in another network namespace, or the whole device
// is. InfiniBand ports do without theirs.
func (p *Port) NetDevMoved() bool {
	return p.NetDev.Meta().Reason == ReasonMoved && p.LinkLayer.Or("") != LinkInfiniBand
}

// GIDTable is the GID table of a port.
type GIDTable struct {
	Size    Fact[int]   // entries, occupied or not
	Entries Fact[[]GID] // the occupied ones, sorted by index
	// Changes counts entries that appeared, vanished or changed since the exporter first read the table.
	// The first reading is not a change.
	Changes uint64
}

// GID is one occupied entry of a GID table.
type GID struct {
	Index  int
	Addr   netip.Addr
	Type   GIDType
	Family GIDFamily
	NetDev string // empty when the kernel names none (InfiniBand)
}
