// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strings"
)

// Profile is what a platform has, from public documents or from the site: data, of which checks take what to
// expect. What it states is never used to recognize it, so that a lost device does not silence it. Package
// profiles reads it.
type Profile struct {
	Name    string          `yaml:"name" json:"name"`
	Title   string          `yaml:"title" json:"title"`
	File    string          `yaml:"-" json:"file,omitempty"` // of the site; empty: it is compiled in
	Match   []ProfileMatch  `yaml:"match" json:"-"`          // it fits a node if one of them does
	GPUs    *ProfileGPUs    `yaml:"gpus" json:"gpus"`        // nil: not stated
	Rails   []ProfileNIC    `yaml:"rails" json:"rails"`      // all of role compute
	Others  []ProfileNIC    `yaml:"other" json:"other"`      // of other roles
	Cabling ProfileCabling  `yaml:"cabling" json:"cabling"`
	Normal  []ProfileNormal `yaml:"normal" json:"normal"`
	Sources ProfileSources  `yaml:"sources" json:"sources"`
}

// ProfileRails is how many ports for training the profile of the platform states.
func (n *Node) ProfileRails() (ports int) {
	if n.Profile == nil {
		return 0
	}
	for _, e := range n.Profile.Rails {
		if !e.Optional {
			ports += e.Number
		}
	}
	return ports
}

// ProfileGPUs are the GPUs of a platform.
type ProfileGPUs struct {
	IDs     OneOrMore[PCIID]  `yaml:"ids" json:"ids"`
	Number  int               `yaml:"number" json:"number"`
	Sources OneOrMore[string] `yaml:"source" json:"source"` // names of Profile.Sources, as everywhere
}

// ProfileNIC states NICs of one kind. No two entries of a profile fit the same port.
type ProfileNIC struct {
	Chips OneOrMore[PCIID] `yaml:"chips" json:"chips"`
	// Number counts ports: a function of mlx5 is one. Optional says that who creates the machine decides how
	// many of them there are, up to Number.
	Number   int  `yaml:"number" json:"number"`
	Optional bool `yaml:"optional" json:"optional"`
	Role     Role `yaml:"role" json:"role"`
	// PortsPerCard distinguishes cards with the same chip; 0: not stated.
	PortsPerCard int `yaml:"ports_per_card" json:"ports_per_card,omitempty"`
	// VirtualFunctions says that these are virtual functions, and in use nevertheless.
	VirtualFunctions bool `yaml:"virtual_functions" json:"virtual_functions,omitempty"`
	// LinkLayer is empty and Gigabits, per second, 0 where they are not stated: always where the site cables.
	LinkLayer LinkLayer         `yaml:"link_layer" json:"link_layer,omitempty"`
	Gigabits  float64           `yaml:"rate_gigabits_per_second" json:"rate_gigabits_per_second,omitempty"`
	Near      Nearness          `yaml:"near" json:"near,omitempty"`
	Sources   OneOrMore[string] `yaml:"source" json:"source"`
}

// ProfileCabling says who fixes the cabling. Where the provider does, a port without a link or with another
// rate is a fault. Elsewhere a profile states neither.
type ProfileCabling struct {
	By      string            `yaml:"by" json:"by"`
	Sources OneOrMore[string] `yaml:"source" json:"source"`
}

// Who fixes the cabling.
const (
	CabledByProvider = "provider"
	CabledBySite     = "site"
)

// Nearness is where NICs of a profile are.
type Nearness string

// Nearness of NICs. Empty: not stated.
const (
	NearGPUs Nearness = "gpus" // spread evenly over the GPUs: half as many as GPUs serve two each
	NearNone Nearness = "none" // near no GPU in particular
)

// Nearnesses returns all that can be stated.
func Nearnesses() []Nearness { return []Nearness{NearGPUs, NearNone} }

// ProfileNormal is something that is no fault on the platform.
type ProfileNormal struct {
	What    Normal            `yaml:"what" json:"what"`
	Sources OneOrMore[string] `yaml:"source" json:"source"`
}

// Normal is what looks like a fault, and is none where a profile says so.
type Normal string

// What can be normal.
const (
	NormalNoGPUDirect     Normal = "no_gpudirect_rdma" // the hardware has no GPUDirect RDMA
	NormalSharedPort      Normal = "shared_port"       // two devices share one physical port: their rates do not add up
	NormalEFAState        Normal = "efa_without_state" // state and rate of ports are constants of the driver
	NormalBridgeFunctions Normal = "bridge_functions"  // NVSwitches have functions that look like NICs
	NormalVFRails         Normal = "vf_rails"          // rails are virtual functions
	NormalDataDirectACS   Normal = "data_direct_acs"   // ACS bits that Data Direct needs
)

// Normals returns all of them.
func Normals() []Normal {
	return []Normal{
		NormalNoGPUDirect, NormalSharedPort, NormalEFAState, NormalBridgeFunctions, NormalVFRails,
		NormalDataDirectACS,
	}
}

// ID returns the kind of the function; absent facts and unknown ones make it unknown.
func (f *PCIFunction) ID() (PCIID, bool) {
	vendor, known := f.Vendor.Get()
	device, also := f.Device.Get()
	return PCIID{uint16(vendor), uint16(device)}, known && also //nolint:gosec // they have 16 bits
}

// IsNormal reports whether the profile says that it is normal; a nil profile says nothing.
func (p *Profile) IsNormal(what Normal) bool {
	return p != nil && slices.ContainsFunc(p.Normal, func(n ProfileNormal) bool { return n.What == what })
}

// NICs returns all entries.
func (p *Profile) NICs() []ProfileNIC { return append(slices.Clone(p.Rails), p.Others...) }

// NICOf returns the entry that a port of the node belongs to; nil: the profile says nothing about it, or what
// it is is not known. Functions of NVSwitches look like NICs and are none.
func (p *Profile) NICOf(n *Node, h *HCA, port *Port) *ProfileNIC {
	if p == nil || h.Restricted.Or(false) {
		return nil
	}
	f := n.PCI.NIC(h.Name)
	if f == nil {
		return nil
	}
	id, known := f.ID()
	if !known {
		return nil
	}
	layer := port.LinkLayer.Or("")
	for _, list := range [][]ProfileNIC{p.Rails, p.Others} {
		for i := range list {
			e := &list[i]
			if slices.Contains(e.Chips, id) && (e.LinkLayer == "" || e.LinkLayer == layer) &&
				(e.PortsPerCard == 0 || e.PortsPerCard == n.PortsOnCard(h, f)) {
				return e
			}
		}
	}
	return nil
}

// PortsOnCard counts the ports of the card of a NIC, whose function is f: those of its one function, or its functions.
func (n *Node) PortsOnCard(h *HCA, f *PCIFunction) int {
	card := cardOf(f.Address)
	functions := 0
	for i := range n.PCI.Functions {
		other := &n.PCI.Functions[i]
		if other.Kind == PCINIC && cardOf(other.Address) == card && other.PF.State != OK {
			functions++
		}
	}
	return max(functions, len(h.Ports))
}

// cardOf is a PCI address without the function.
func cardOf(address string) string {
	card, _, _ := strings.Cut(address, ".")
	return card
}

// Overlaps reports whether a port could belong to both entries.
func (e *ProfileNIC) Overlaps(other *ProfileNIC) bool {
	differ := func(a, b int) bool { return a != 0 && b != 0 && a != b }
	layers := e.LinkLayer != "" && other.LinkLayer != "" && e.LinkLayer != other.LinkLayer
	return !layers && !differ(e.PortsPerCard, other.PortsPerCard) &&
		slices.ContainsFunc(e.Chips, func(id PCIID) bool { return slices.Contains(other.Chips, id) })
}
