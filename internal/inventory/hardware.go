// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// seen is what there is of a kind.
type seen struct {
	items    []fabric.Place // nil: it is not known
	doubtful []fabric.Place // of the record: they may be in the bond of another device
	bonded   bool           // some are in the bond of another device
}

// update takes in what there is now, or returns what there was more of. Away reports whether what was at an
// address is known to be nowhere now: another device then does not count in its place. It may have been put
// there instead, though, in a slot that has another address by now: where as many are left, nothing separates
// the two. Elsewhere only numbers tell, because places may have been counted anew.
func (s *stock) update(kind fabric.PCIKind, at time.Time, now seen, away func(fabric.Place) bool) []fabric.Remembered {
	short := fabric.Remembered{
		Kind: kind, Now: len(now.items), Then: len(s.Items), Seen: when(s.Seen, at),
		Missing: now.missing(s.Items), Bonded: now.bonded || inBonds(s.Items),
	}
	gone := slices.DeleteFunc(slices.Clone(short.Missing), func(i fabric.Place) bool { return !away(i) })
	others := len(gone) + len(now.items) - len(s.Items)
	fewer := len(now.items)+len(now.doubtful) < len(s.Items)
	switch {
	case now.items == nil || len(now.items) > maxItems:
	case len(gone) > 0 && (others > 0 || !fewer):
		short.Missing, short.New, short.Doubtful = gone, max(0, others), !fewer
		return []fabric.Remembered{short}
	case fewer:
		return []fabric.Remembered{short}
	case len(now.items) < len(s.Items):
		short.Missing, short.Doubtful = now.doubtful, true
		return []fabric.Remembered{short}
	case !slices.Equal(now.items, s.Items) || at.Sub(time.Unix(s.Seen, 0)).Abs() >= renewal:
		*s = stock{Seen: at.Unix(), Items: now.items}
	}
	return nil
}

// missing returns what of the record is not there: neither by place and name nor, because names follow from
// what there is, by place.
func (s seen) missing(had []fabric.Place) []fabric.Place {
	left := slices.Clone(s.items)
	found := func(is func(fabric.Place) bool) bool {
		i := slices.IndexFunc(left, is)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		return i >= 0
	}
	list := slices.DeleteFunc(slices.Clone(had), func(i fabric.Place) bool {
		return slices.Contains(s.doubtful, i) || found(func(o fabric.Place) bool { return o == i })
	})
	return slices.DeleteFunc(list,
		func(i fabric.Place) bool {
			return found(func(o fabric.Place) bool { return o.Address() == i.Address() })
		})
}

// inBonds reports whether one device is recorded for several functions.
func inBonds(items []fabric.Place) bool {
	names := map[string]bool{}
	for _, i := range items {
		name := i.Device()
		if name != "" && names[name] {
			return true
		}
		names[name] = true
	}
	return false
}

// contains reports whether a list has what is at an address, whatever its name is.
func contains(list []fabric.Place, address string) bool {
	return slices.ContainsFunc(list, func(i fabric.Place) bool { return i.Address() == address })
}

func up(n *fabric.Node, source string) bool {
	return slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return s.Name == source && s.Up })
}

// gpusOf returns the physical GPUs on the bus.
func gpusOf(n *fabric.Node) (now seen) {
	if _, known := n.GPUs.Get(); !known || !up(n, fabric.SourcePCI) {
		return now
	}
	now.items = []fabric.Place{}
	for _, f := range n.PCI.GPUs() {
		if f.PF.State != fabric.OK {
			now.items = append(now.items, fabric.Place(f.Address))
		}
	}
	return now
}

// devicesOf returns the RDMA devices of physical functions, one that is that of several for each. They are
// not known where some are excluded, or where those that there were may be in a network namespace that is not
// seen from here.
func devicesOf(n *fabric.Node, had []fabric.Place) (now seen) {
	unseen := func(i fabric.Place) bool { return n.MayBeElsewhere(i.Address()) }
	if !up(n, fabric.SourceClass) || !up(n, fabric.SourcePCI) || len(n.Excluded) > 0 || slices.ContainsFunc(had, unseen) {
		return now
	}
	list := []fabric.Place{}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		address, known := h.PCI.Get()
		if !known && h.PCI.State != fabric.Absent {
			return seen{}
		}
		f := n.PCI.Function(address)
		part := h.Part() || f != nil && f.PF.State == fabric.OK
		if known && !part && !contains(list, address) { // software has no address, and parts of a function have that of it
			list = append(list, placeOf(address, h))
			for _, a := range n.Bonded(h).Or(nil) {
				list, now.bonded = append(list, placeOf(a, h)), true
			}
		}
	}
	for _, i := range had {
		switch h := n.MayBeBonded(i.Address()); {
		case contains(list, i.Address()):
		case h == nil:
		case i.Device() == h.Name: // it was
			list, now.bonded = append(list, i), true
		default:
			now.doubtful = append(now.doubtful, i)
		}
	}
	slices.Sort(list)
	now.items = list
	return now
}

func placeOf(address string, h *fabric.HCA) fabric.Place { return fabric.Place(address + " " + h.Name) }
