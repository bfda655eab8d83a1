// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	// settled is how long a port must have had a link before its absence is a fault: somebody may only have tried a cable.
	settled  = 10 * time.Minute
	maxPorts = 256
	// portsRenewal is how often the file gets the time at which ports had a link last.
	portsRenewal = time.Hour
)

// port is the link that a port had. Ports are known by place and GUID: the names of devices follow from the order in which they appear.
type port struct {
	PCI    string  `json:"pci"`
	GUID   string  `json:"guid"`
	Number int     `json:"port"`
	Since  int64   `json:"since"` // seconds since 1970
	Last   int64   `json:"last"`
	Rate   float64 `json:"rate"` // the highest, in bytes per second
}

func (p *port) is(o port) bool { return p.PCI == o.PCI && p.GUID == o.GUID && p.Number == o.Number }

func (p *port) counts() bool {
	return time.Unix(p.Last, 0).Sub(time.Unix(p.Since, 0)) >= settled
}

// key is the entry of a port without what it had; false where place or GUID are not known.
func key(h *fabric.HCA, p *fabric.Port) (port, bool) {
	pci, placed := h.PCI.Get()
	guid, named := h.NodeGUID.Get()
	return port{PCI: pci, GUID: guid, Number: p.Number}, placed && named
}

// updatePorts takes in which ports have a link now, and reports whether the file should have it at once.
func (h *hardware) updatePorts(n *fabric.Node) (save bool) {
	h.Ports = slices.Clone(h.Ports) // the file may be written meanwhile
	now := n.At.Unix()
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			p := &n.HCAs[i].Ports[k]
			of, known := key(&n.HCAs[i], p)
			if !known || p.State.Or("") != fabric.PortActive {
				continue
			}
			at := slices.IndexFunc(h.Ports, func(o port) bool { return o.is(of) })
			if at < 0 {
				if len(h.Ports) == maxPorts {
					continue
				}
				of.Since, of.Last = now, now
				at, h.Ports = len(h.Ports), append(h.Ports, of)
			}
			had := &h.Ports[at]
			before := had.counts()
			had.Since, had.Last = min(had.Since, now), now // the clock may have been set back
			rate := p.Rate.Or(fabric.Rate{}).BytesPerSecond
			save = save || had.counts() && (!before || rate > had.Rate)
			had.Rate = max(had.Rate, rate)
		}
	}
	return save
}

// recall returns the node with what its ports had before this process saw them; the same one where nothing changes.
func (h *hardware) recall(n *fabric.Node) *fabric.Node {
	var with *fabric.Node
	news := false // something that roles and expectations follow from
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			p := &n.HCAs[i].Ports[k]
			of, known := key(&n.HCAs[i], p)
			at := slices.IndexFunc(h.Ports, func(o port) bool { return o.is(of) })
			if !known || at < 0 || !h.Ports[at].counts() {
				continue
			}
			had := h.Ports[at]
			since, more := time.Unix(had.Since, 0), !p.Seen.Active || p.Seen.Rate < had.Rate
			if !more && !since.Before(p.Seen.Since) {
				continue
			}
			news = news || more
			if with == nil {
				with = n.Copy()
			}
			seen := &with.HCAs[i].Ports[k].Seen
			if !seen.Active {
				seen.Last = time.Unix(had.Last, 0)
			}
			seen.Active, seen.Since, seen.Rate = true, since, max(seen.Rate, had.Rate)
		}
	}
	if with == nil {
		return n
	}
	if news {
		with.DerivePorts()
		with.DeriveRoCE()
	}
	return with
}
