// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Gone is an RDMA device that the node should have and lacks. Device is its last name, or its PCI address if
// the node has another device of that name.
type Gone struct {
	Device string
	By     fabric.Authority // who says that it should be there
}

// GoneDevices returns the RDMA devices whose absence check hardware calls critical. All says that they are
// all: the record says so, or the manifest where there is none, and neither leaves another in doubt.
func GoneDevices(n *fabric.Node) (list []Gone, all bool) {
	doubtful := false
	for _, r := range n.Remembered {
		switch {
		case r.Kind != fabric.PCINIC:
		case r.Doubtful: // they may be in a bond
			doubtful = true
		default:
			list = append(list, recordedGone(n, r)...)
		}
	}
	listing, read := listed(n)
	for _, name := range listedNames(n, listing.Gone) {
		if !slices.ContainsFunc(list, func(o Gone) bool { return o.Device == name }) {
			list = append(list, Gone{name, fabric.ByManifest})
		}
	}
	doubtful = doubtful || n.DevicesUnread || len(listing.Doubtful) > 0
	return list, !doubtful && (n.DevicesCompared || read)
}

// listed compares the devices with those of the manifest, if there is one and they could be read.
func listed(n *fabric.Node) (l fabric.Listing, read bool) {
	if n.Policy.Manifest == nil || n.ClassPresent.State == fabric.Unknown || !n.SourceUp(fabric.SourceClass) {
		return l, false
	}
	return n.Listing(), true
}

// recordedGone names as many devices as the node lacks: places may have been counted anew, and devices that
// are there by another place or name are not gone.
func recordedGone(n *fabric.Node, r fabric.Remembered) (list []Gone) {
	surplus := len(r.Missing) - (r.Then - r.Now + r.New)
	for _, item := range r.Missing {
		address, name := item.Address(), item.Device()
		place := slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return h.PCI.Or("") == address })
		if surplus > 0 && (place || n.HCA(name) != nil) {
			surplus--
			continue
		}
		if name == "" || n.HCA(name) != nil {
			name = address
		}
		list = append(list, Gone{name, fabric.ByRecord})
	}
	return list
}

// listedNames names devices of the manifest, by their PCI addresses where other devices have their names.
func listedNames(n *fabric.Node, entries []string) (names []string) {
	for _, name := range entries {
		if address := n.Policy.Manifest.Devices[name][fabric.ManifestAddress]; n.HCA(name) != nil && address != "" {
			name = address
		}
		names = append(names, name)
	}
	return names
}
