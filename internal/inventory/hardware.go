// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// update takes in what there is now, nil if that is not known, or returns what there was more of.
func (s *stock) update(kind fabric.PCIKind, at time.Time, now []string) []fabric.Remembered {
	switch {
	case now == nil || len(now) > maxItems:
	case len(now) < len(s.Items):
		present := func(i string) bool { return slices.Contains(now, i) }
		return []fabric.Remembered{{
			Kind: kind, Now: len(now), Then: len(s.Items), Seen: when(s.Seen, at),
			Missing: slices.DeleteFunc(slices.Clone(s.Items), present),
		}}
	case !slices.Equal(now, s.Items) || at.Sub(time.Unix(s.Seen, 0)).Abs() >= renewal:
		*s = stock{Seen: at.Unix(), Items: now}
	}
	return nil
}

func up(n *fabric.Node, source string) bool {
	return slices.ContainsFunc(n.Sources, func(s fabric.Source) bool { return s.Name == source && s.Up })
}

// gpusOf returns the physical GPUs on the bus, nil if they are not known.
func gpusOf(n *fabric.Node) []string {
	if _, known := n.GPUs.Get(); !known || !up(n, fabric.SourcePCI) {
		return nil
	}
	list := []string{}
	for _, f := range n.PCI.GPUs() {
		if f.PF.State != fabric.OK {
			list = append(list, f.Address)
		}
	}
	return list
}

// devicesOf returns the RDMA devices of physical functions, nil if they are not known: some are excluded, or each network
// namespace has its own.
func devicesOf(n *fabric.Node) []string {
	if !up(n, fabric.SourceClass) || !up(n, fabric.SourcePCI) || len(n.Excluded) > 0 || n.Host.RDMANetNS.Or("") == fabric.NetNSExclusive {
		return nil
	}
	list := []string{}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		address, known := h.PCI.Get()
		if !known && h.PCI.State != fabric.Absent {
			return nil
		}
		if f := n.PCI.Function(address); known && (f == nil || f.PF.State != fabric.OK) { // software has no address
			list = append(list, strings.TrimSpace(address+" "+h.Name))
		}
	}
	slices.Sort(list)
	return list
}
