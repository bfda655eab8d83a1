// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	usualFrom = 8 // readings in a row with data that make a device one that the process uses
	lostFrom  = 8 // readings in a row without, while others carry about as much as before
)

// nics follows which RDMA devices carry the data of a process. What it had is a fact: that a process uses fewer
// devices than the node has may be by design.
type nics struct {
	usual map[string]nic
	rate  float64 // bytes per second of all of them together, at the last reading at which each carried data
}

type nic struct {
	carried, silent int // readings in a row
	last            time.Time
}

// take takes a reading. One at which it is not certain that the process moved data says nothing, nor one with
// much less of it than usual: small collectives use fewer devices.
func (m *nics) take(u *rdmaUse, verbs []string, rates traffic, at time.Time) {
	if !u.carried || u.shared || u.moved || u.estimated {
		return
	}
	if m.usual == nil {
		m.usual = map[string]nic{}
	}
	total := 0.0
	for _, device := range u.devices {
		n := m.usual[device]
		m.usual[device] = nic{carried: n.carried + 1, last: at}
		total += rates[device]
	}
	all := true
	for device, n := range m.usual {
		_, counted := rates[device]
		switch {
		case slices.Contains(u.devices, device):
			continue
		case !counted && slices.Contains(verbs, device): // its counters could not be read
		case n.carried < usualFrom:
			delete(m.usual, device)
			continue
		case total >= m.rate/2:
			n.silent++
			m.usual[device] = n
		}
		all = false
	}
	if all {
		m.rate = total
	}
}

// lost says which devices no longer carry data; empty: none.
func (m *nics) lost() string {
	var gone []string
	var last time.Time
	for _, device := range slices.SortedFunc(maps.Keys(m.usual), fabric.NaturalOrder) {
		if n := m.usual[device]; n.silent >= lostFrom {
			gone = append(gone, device)
			last = n.last
		}
	}
	others := len(m.usual) - len(gone)
	if len(gone) == 0 || others == 0 {
		return ""
	}
	return fmt.Sprintf("%s carried its data until %s and no longer does, while %d other RDMA devices carry about as much as before together",
		deviceNames(gone), last.UTC().Format(time.DateTime), others)
}
