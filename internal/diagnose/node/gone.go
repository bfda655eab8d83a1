// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Gone is an RDMA device that the node should have and lacks. Device is its last name, or its PCI address if the node has another device of
// that name.
type Gone struct {
	Device string
	By     fabric.Authority // who says that it should be there
}

// GoneDevices returns the RDMA devices whose absence check hardware calls critical. All says that they are all: the record says so, or the
// manifest where there is none, and neither leaves another in doubt.
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
	listed, ours := listedGone(n)
	for _, name := range listed {
		known := slices.ContainsFunc(list, func(g Gone) bool { return g.Device == name })
		if ours && !known {
			list = append(list, Gone{name, fabric.ByManifest})
		}
	}
	unsure := doubtful || n.DevicesUnread || !ours && (len(listed) > 0 || !n.DevicesCompared)
	return list, !unsure
}

// recordedGone names as many devices as the node lacks: places may have been counted anew, and devices that are there by another place or
// name are not gone.
func recordedGone(n *fabric.Node, r fabric.Remembered) (list []Gone) {
	surplus := len(r.Missing) - (r.Then - r.Now + r.New)
	for _, item := range r.Missing {
		address, name, _ := strings.Cut(item, " ")
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
