// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// GPU is a GPU.
type GPU struct {
	Part
	Presence  string        `json:"presence"` // Presence*
	UUID      string        `json:"uuid,omitempty"`
	Model     Fact[string]  `json:"model"`
	PCI       string        `json:"pci_address,omitempty"`
	Group     string        `json:"pcie_group,omitempty"` // ID; empty: not on the visible bus
	NUMA      Fact[int]     `json:"numa_node"`
	Width     Fact[int]     `json:"pcie_lanes"`
	Gen       Fact[int]     `json:"pcie_generation"`
	MaxGen    Fact[int]     `json:"pcie_generation_maximum"`
	Processes Fact[int]     `json:"processes"`
	Busy      Fact[float64] `json:"utilization"` // 0 to 1
	MIG       Fact[bool]    `json:"mig"`
	NVLinks   Fact[int]     `json:"nvlinks_active"`
	NVLinksOf int           `json:"nvlinks"`
	NVLinkOK  string        `json:"nvlink_status"` // Status*
	Fabric    Fact[string]  `json:"nvlink_fabric"`
	Path      Path          `json:"path"`

	Foreign bool `json:"-"` // of another vendor than NVIDIA
	OnBus   bool `json:"-"` // the visible one
}

// Listed reports whether the driver lists the GPU, maybe as lost.
func (g *GPU) Listed() bool { return g.Presence == PresenceListed || g.Presence == PresenceLost }

// Whether a GPU is there for its driver.
const (
	PresenceListed   = "listed"          // by NVML
	PresenceLost     = "lost"            // by its driver
	PresenceUnlisted = "not_listed"      // its driver should list it and does not
	PresenceVM       = "virtual_machine" // assigned to one
	PresenceUnknown  = "unknown"         // the driver was not queried, or does not answer
)

// Path is the way from a GPU to the NIC that it is to use.
type Path struct {
	Device   string       `json:"device,omitempty"`
	DeviceID string       `json:"device_id,omitempty"`
	Rail     *int         `json:"rail"` // null without a NIC
	Shared   bool         `json:"shared"`
	Distance Fact[string] `json:"distance"`           // LOC, PIX, PXB, P2C, PHB, NODE or SYS
	Status   string       `json:"status"`             // of GPUDirect RDMA: Status*; none: by design not used
	Severity string       `json:"severity,omitempty"` // of the finding, if the status is failed
	Usable   Fact[bool]   `json:"gpudirect_usable"`
	By       string       `json:"gpudirect_path,omitempty"` // dmabuf or peermem
	Blocked  string       `json:"gpudirect_blocked_by,omitempty"`
	Evidence string       `json:"gpudirect_evidence,omitempty"`

	Placed bool `json:"-"` // where the GPU is among NICs is known
	Judged bool `json:"-"` // GPUDirect RDMA was looked at
}

// Device is an RDMA device.
type Device struct {
	Part
	Board      Fact[string]  `json:"board"`
	Firmware   Fact[string]  `json:"firmware"`
	Driver     Fact[string]  `json:"driver"`
	PCI        Fact[string]  `json:"pci_address"`
	Group      string        `json:"pcie_group,omitempty"` // ID; empty: not on the visible bus
	NUMA       Fact[int]     `json:"numa_node"`
	Width      Fact[int]     `json:"pcie_lanes"`
	Speed      Fact[float64] `json:"pcie_transfers_per_second"` // of a lane
	Moved      bool          `json:"moved"`                     // to another network namespace
	Restricted bool          `json:"restricted"`
	Ports      []Port        `json:"ports"`
}

// Port is a port of an RDMA device.
type Port struct {
	Part
	Number    int           `json:"port"`
	Role      Fact[string]  `json:"role"`
	Layer     Fact[string]  `json:"link_layer"`
	Interface Fact[string]  `json:"interface"`
	State     Fact[string]  `json:"state"`
	Physical  Fact[string]  `json:"physical_state"`
	Rate      Fact[float64] `json:"rate_bytes_per_second"`
	Expected  Fact[float64] `json:"expected_rate_bytes_per_second"`
	GIDs      Fact[[]GID]   `json:"gids"`
	Choice    Fact[Choice]  `json:"gid_of_nccl"`
	RoCE      []Chain       `json:"roce"` // the worst first

	Fabric Fact[string] `json:"-"` // Fabric*, or another kind
	MTU    Fact[int]    `json:"-"` // of the interface
	Shared string       `json:"-"` // physical port that another device has, too: their rates do not add up; only of Whole
}

// Fabrics of ports.
const (
	FabricRoCE       = "RoCE"
	FabricInfiniBand = "InfiniBand"
	FabricEFA        = "EFA"
)

// GID is an entry of the GID table.
type GID struct {
	Index     int    `json:"index"`
	GID       string `json:"gid"`
	Type      string `json:"type"`
	Interface string `json:"interface,omitempty"`
}

// Choice is the GID that NCCL selects.
type Choice struct {
	Index int    `json:"index"`
	GID   string `json:"gid"` // empty: the entry is
	Rule  string `json:"rule"`
	Why   string `json:"why"`
	Type  string `json:"-"` // of the GID
}

// Text is the GID, or that the entry is empty.
func (c Choice) Text() string {
	if c.GID == "" {
		return "entry " + strconv.Itoa(c.Index) + ", empty"
	}
	return c.GID
}

// Chain is how one interface treats RoCE.
type Chain struct {
	Interface    string    `json:"interface"`
	Status       string    `json:"status"`         // ok, failed or unknown
	Step         string    `json:"step,omitempty"` // the first broken one, else the first unknown one
	Why          string    `json:"why,omitempty"`
	Mode         string    `json:"mode"`
	TrafficClass Fact[int] `json:"traffic_class"`
	DSCP         Fact[int] `json:"dscp"`
	Priority     Fact[int] `json:"priority"`
	Steps        []Step    `json:"steps"`
	Observed     []Step    `json:"observed"`

	Settings fabric.Status `json:"-"` // of the steps alone
	From     string        `json:"-"` // who chose the traffic class
}

// Step is one setting of a chain, or what its traffic shows.
type Step struct {
	Step     string `json:"step"`
	Name     string `json:"name"`
	Status   string `json:"status"` // ok, failed, unknown or not_applicable
	Evidence string `json:"evidence"`
	Source   string `json:"source,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// NVLink is how NVLinks join the GPUs.
type NVLink struct {
	Kind  string `json:"kind"` // NVLink*
	Links []Link `json:"links"`
}

// Kinds of NVLink topologies.
const (
	NVLinkNone    = "none"
	NVLinkUnknown = "unknown"
	NVLinkSwitch  = "nvswitch"   // each GPU into switches
	NVLinkMesh    = "all_to_all" // each GPU with each other one
	NVLinkSome    = "some"       // pairs or groups
)

// Link joins two GPUs with NVLinks, without a switch.
type Link struct {
	A      string `json:"a"` // IDs of GPUs
	B      string `json:"b"`
	Active int    `json:"active"`
}
