// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ManifestNone stands for what a node conclusively does not have.
const ManifestNone = "none"

// By these a manifest knows which device is meant. They may change without harm.
const (
	ManifestAddress  = "pci_address"
	ManifestGUID     = "node_guid" // not of virtual functions, which may get another with each start
	ManifestFunction = "function"
)

// PortKey is the name of what a manifest has of a port.
func PortKey(p *Port, what string) string { return fmt.Sprintf("port_%d_%s", p.Number, what) }

// Listing says which devices of a node are which of its manifest.
type Listing struct {
	Entry map[string]string // by the name of a device: the name that the manifest has it by
	// Gone are devices for training or storage that the node does not have. Whether it has those of Doubtful is not known.
	Gone, Doubtful []string
}

// listing is a Listing in the making.
type listing struct {
	Listing
	n    *Node
	m    *Manifest
	left []string // of the manifest, in order
	own  bool     // GUIDs show that the manifest is that of this node
}

// Listing compares the devices with those of the manifest. A card is known by its GUID at any place and by
// any name, else by its place. Names and boards tell only where no GUID does: in a manifest of another node
// of the kind, without GUIDs, or in a guest.
func (n *Node) Listing() Listing {
	m := n.Policy.Manifest
	if m == nil {
		return Listing{}
	}
	l := &listing{Listing{Entry: map[string]string{}}, n, m, slices.SortedFunc(maps.Keys(m.Devices), NaturalOrder), false}
	l.take(func(h *HCA, _ string, e map[string]string) bool {
		guid := strings.Trim(e[ManifestGUID], "0:")
		return guid != "" && !h.Part() && h.NodeGUID.Or("") == e[ManifestGUID]
	})
	l.own = l.trusted() && !n.Host.Hypervisor.Or(true)
	if l.own {
		l.take(func(h *HCA, _ string, e map[string]string) bool {
			return e[ManifestAddress] != "" && h.PCI.Or("") == e[ManifestAddress]
		})
	}
	l.take(func(h *HCA, name string, e map[string]string) bool {
		another := l.own && e[ManifestGUID] != "" && h.NodeGUID.State == OK && h.PCI.State == OK // in another place
		return h.Name == name && !another
	})
	l.left = slices.DeleteFunc(l.left, func(name string) bool {
		return !serves(m.Devices[name]) ||
			slices.Contains(n.Excluded, name)
	})
	if l.own {
		l.missCards()
	} else {
		l.missNames()
	}
	return l.Listing
}

// trusted reports whether as many cards are known by their GUIDs as there are others.
func (l *listing) trusted() bool {
	others := 0
	for i := range l.n.HCAs {
		h := &l.n.HCAs[i]
		if guid := h.NodeGUID.Or(""); l.Entry[h.Name] == "" && !h.Part() && strings.Trim(guid, "0:") != "" {
			others++
		}
	}
	return len(l.Entry) > 0 && len(l.Entry) >= others
}

// take gives each entry the first device that fits and has none. No virtual function is a physical one.
func (l *listing) take(fits func(h *HCA, name string, e map[string]string) bool) {
	l.left = slices.DeleteFunc(l.left, func(name string) bool {
		e := l.m.Devices[name]
		i := slices.IndexFunc(l.n.HCAs, func(h HCA) bool {
			return l.Entry[h.Name] == "" && kindFits(&h, e) &&
				fits(&h, name, e)
		})
		if i >= 0 {
			l.Entry[l.n.HCAs[i].Name] = name
		}
		return i >= 0
	})
}

func kindFits(h *HCA, e map[string]string) bool {
	return e[ManifestFunction] == "" || h.Function.State == Unknown || isPart(e) == h.Part()
}

func isPart(e map[string]string) bool {
	h := HCA{Function: Fact[Function]{State: OK, Value: Function(e[ManifestFunction])}}
	return h.Part()
}

// boardFits reports whether a device may be one of the board that an entry has.
func boardFits(h *HCA, e map[string]string) bool {
	board, known := h.BoardID.Get()
	return kindFits(h, e) && (!known || e["board"] == "" || board == e["board"])
}

// missCards names cards that are gone, by GUIDs and places: not functions in the bond of their card. A new
// card of the board may have been put in the place of one.
func (l *listing) missCards() {
	strange := slices.DeleteFunc(l.strangers(), func(h *HCA) bool {
		return h.PCI.State == OK && slices.ContainsFunc(l.n.HCAs,
			func(o HCA) bool { return l.Entry[o.Name] != "" && slotOf(o.PCI.Or("")) == slotOf(h.PCI.Value) })
	})
	for _, name := range l.left {
		e := l.m.Devices[name]
		bonded := l.bonded(e)
		i := slices.IndexFunc(strange, func(h *HCA) bool { return boardFits(h, e) })
		switch {
		case bonded.Or(false):
		case i >= 0:
			strange = slices.Delete(strange, i, i+1)
			l.Doubtful = append(l.Doubtful, name)
		case bonded.State == Unknown:
			l.Doubtful = append(l.Doubtful, name)
		default:
			l.Gone = append(l.Gone, name)
		}
	}
}

// bonded reports whether a physical function has the device of another one of its card, wherever that is now.
func (l *listing) bonded(e map[string]string) Fact[bool] {
	is := Known(false, "", l.n.At)
	_, function, _ := strings.Cut(e[ManifestAddress], ".")
	for i := range l.n.HCAs {
		h := &l.n.HCAs[i]
		if o := l.m.Devices[l.Entry[h.Name]]; o == nil || isPart(e) ||
			slotOf(o[ManifestAddress]) != slotOf(e[ManifestAddress]) {
			continue
		}
		others := l.n.Bonded(h)
		switch {
		case slices.ContainsFunc(others.Value, func(a string) bool { return strings.HasSuffix(a, "."+function) }):
			return Known(true, others.Source, l.n.At)
		case others.State == Unknown:
			is = unknownLike[bool](others.Meta())
		}
	}
	return is
}

// missNames names as many as there are too few, by names and boards: a device that is not listed, and each
// function in a bond, may be one that is by another name.
func (l *listing) missNames() {
	strange, unsure := l.strangers(), 0
	for _, h := range strange {
		if l.n.Bonded(h).State == Unknown {
			unsure++
		}
	}
	foreign := false
	for i := range l.n.HCAs {
		h := &l.n.HCAs[i]
		foreign = foreign || l.m.Foreign(l.Entry[h.Name], h)
		for range l.n.Bonded(h).Value {
			strange = append(strange, h)
		}
	}
	for _, name := range l.left {
		i := slices.IndexFunc(strange, func(h *HCA) bool { return boardFits(h, l.m.Devices[name]) })
		if i < 0 {
			l.Gone = append(l.Gone, name)
			continue
		}
		strange = slices.Delete(strange, i, i+1)
	}
	unseen := func(name string) bool { return l.n.MayBeElsewhere(l.m.Devices[name][ManifestAddress]) }
	if foreign || len(l.Gone) <= unsure || slices.ContainsFunc(l.Gone, unseen) {
		l.Gone, l.Doubtful = nil, l.Gone
	}
}

// strangers are the devices that the manifest does not list. Unused virtual functions stand in for none.
func (l *listing) strangers() (list []*HCA) {
	for i := range l.n.HCAs {
		h := &l.n.HCAs[i]
		unused := h.Part() && !slices.ContainsFunc(h.Ports, func(p Port) bool { return !p.Serves(RoleUnused) })
		if l.Entry[h.Name] == "" && !unused {
			list = append(list, h)
		}
	}
	return list
}

// serves reports whether a device of a manifest has a port for training or storage.
func serves(e map[string]string) bool {
	for what, role := range e {
		if strings.HasPrefix(what, "port_") && strings.HasSuffix(what, "_role") &&
			(role == string(RoleCompute) || role == string(RoleStorage)) {
			return true
		}
	}
	return false
}

// Foreign reports whether a manifest has another board by an entry than the device has: it is that of another
// node, or older than the board. What it states of the device is not used.
func (m *Manifest) Foreign(entry string, h *HCA) bool {
	board, listed := m.Devices[entry]["board"]
	return listed && h.BoardID.State != Unknown && h.BoardID.Or(ManifestNone) != board
}

func (m *Manifest) ofPort(h *HCA, p *Port, what string) (value string, ok bool) {
	if m == nil || m.Foreign(h.Listed, h) {
		return "", false
	}
	value, ok = m.Devices[h.Listed][PortKey(p, what)]
	return value, ok && value != ""
}

func (m *Manifest) roleOf(h *HCA, p *Port) (Role, bool) {
	r, ok := m.ofPort(h, p, "role")
	return Role(r), ok && slices.Contains(Roles(), Role(r))
}

// rateOf is in bytes per second. A manifest has it as people write it: "400 Gb/s".
func (m *Manifest) rateOf(h *HCA, p *Port) (float64, bool) {
	text, ok := m.ofPort(h, p, "rate")
	number, isRate := strings.CutSuffix(text, " Gb/s")
	gigabits, err := strconv.ParseFloat(number, 64)
	return gigabits * 1e9 / 8, ok && isRate && err == nil && gigabits > 0
}
