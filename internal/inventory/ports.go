// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"gpufabric_exporter/internal/fabric"
)

const (
	// settled is how long a port must have had a link or an address before its absence is a fault: somebody may
	// only have tried a cable.
	settled = 10 * time.Minute
	// gap is how long what has not settled may be unseen. A clock that is set late jumps by years.
	gap      = 24 * time.Hour
	maxPorts = 256
	// portsRenewal is how often the file gets the time at which ports had a link last.
	portsRenewal = time.Hour
)

// port is what a port had. It is known by place and GUID, which virtual functions share. The place follows
// the card (relocate).
type port struct {
	PCI    string   `json:"pci"`
	GUID   string   `json:"guid"`
	Number int      `json:"port"`
	span            // of its link
	Rate   float64  `json:"rate"`             // the highest, in bytes per second
	Bonded bool     `json:"bonded,omitempty"` // Rate is that of a bond
	Rated  int64    `json:"rated,omitempty"`
	IPv4   *address `json:"ipv4,omitempty"`
	IPv6   *address `json:"ipv6,omitempty"`
}

// address is one of RoCE v2 that a port had. The span is that of any address of its family: networks are renumbered.
type address struct {
	Addr netip.Addr `json:"address"`
	span
}

// span is when something was there, in seconds since 1970.
type span struct {
	Since int64 `json:"since"`
	Last  int64 `json:"last"`
}

func (s *span) counts() bool {
	return s != nil && time.Unix(s.Last, 0).Sub(time.Unix(s.Since, 0)) >= settled
}

// extend has the span last until now.
func (s *span) extend(now int64) {
	switch {
	case now < s.Last: // the clock was set back
		s.Since = max(0, now-(s.Last-s.Since))
	case !s.counts() && now-s.Last > int64(gap/time.Second):
		s.Since = now
	}
	s.Last = now
}

// join has the span include another.
func (s *span) join(o span) { s.Since, s.Last = min(s.Since, o.Since), max(s.Last, o.Last) }

func (s *span) possible() bool { return s.Since >= 0 && s.Last >= s.Since }

func (p *port) is(o port) bool { return p.PCI == o.PCI && p.GUID == o.GUID && p.Number == o.Number }

func indexOf(list []port, of port) int {
	return slices.IndexFunc(list, func(o port) bool { return o.is(of) })
}

// newest drops those that had no link for longest, if there are too many: virtual functions may have another
// GUID with each start.
func newest(list []port) []port {
	if len(list) > maxPorts {
		slices.SortStableFunc(list, func(a, b port) int { return cmp.Compare(b.Last, a.Last) })
	}
	return list[:min(len(list), maxPorts)]
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
	for d, p := range n.Ports {
		of, known := key(d, p)
		unused := (d.Part() || p.Representor) && p.Serves(fabric.RoleUnused) // pods get others, with other GUIDs, each time
		at := indexOf(h.Ports, of)
		if !known || unused || p.State.Or("") != fabric.PortActive {
			continue
		}
		if at < 0 {
			of.span = span{now, now}
			h.Ports = newest(append(h.Ports, of))
			at = indexOf(h.Ports, of)
		}
		if at < 0 { // the clock was set back
			continue
		}
		had := &h.Ports[at]
		if bonded := had.bondedNow(n, d); bonded != had.Bonded {
			had.Bonded, had.Rate, had.Rated = bonded, 0, 0
		}
		save = had.update(p, now) || save
	}
	return save
}

// bondedNow reports whether a device is that of several functions, whose rates it has. Where that is not
// known, it is as it was.
func (p *port) bondedNow(n *fabric.Node, h *fabric.HCA) bool {
	others := n.Bonded(h)
	return len(others.Value) > 0 || others.State == fabric.Unknown && p.Bonded
}

// update takes in what an active port has now, and reports whether that is more than before.
func (p *port) update(now *fabric.Port, at int64) (more bool) {
	before := p.counts()
	p.extend(at)
	if rate := now.Rate.Or(fabric.Rate{}).BytesPerSecond; rate >= p.Rate {
		more = rate > p.Rate
		p.Rate, p.Rated = rate, at
	}
	for family, had := range map[fabric.GIDFamily]**address{fabric.FamilyIPv4: &p.IPv4, fabric.FamilyIPv6: &p.IPv6} {
		more = keep(had, now.AddressesOf(family), at) || more
	}
	return p.counts() && (more || !before)
}

// keep takes in the addresses of a family, and reports whether the file should have it.
func keep(had **address, now []netip.Addr, at int64) (save bool) {
	if len(now) == 0 {
		return false
	}
	a := address{Addr: now[0], span: span{at, at}}
	if old := *had; old != nil {
		a.span = old.span
		if slices.Contains(now, old.Addr) {
			a.Addr = old.Addr
		}
	}
	before := a.counts()
	a.extend(at)
	save = a.counts() && (!before || (*had).Addr != a.Addr)
	*had = &a // which may be being written
	return save
}

// recall returns the node with what its ports had before this process saw them, and without what no longer
// counts: what this process saw until anew does not.
func (h *hardware) recall(n *fabric.Node, anew time.Time) *fabric.Node {
	with := n.Copy()
	changed, news := false, false // news is what roles and expectations follow from
	for d, p := range with.Ports {
		seen := h.seenOf(n, d, p, anew)
		changed, news = changed || seen != p.Seen, news || timeless(seen) != timeless(p.Seen)
		p.Seen = seen
	}
	if !changed {
		return n
	}
	if news {
		with.DerivePorts()
		with.DeriveRoCE()
	}
	return with
}

// timeless is what roles and expectations follow from.
func timeless(seen fabric.PortHistory) fabric.PortHistory {
	seen.Since, seen.Last = time.Time{}, time.Time{}
	return seen
}

// seenOf is what was seen of a port.
func (h *hardware) seenOf(n *fabric.Node, d *fabric.HCA, p *fabric.Port, anew time.Time) fabric.PortHistory {
	of, known := key(d, p)
	if !known {
		return p.Seen
	}
	seen, had, now := p.Seen, port{}, n.At
	if at := indexOf(h.Ports, of); at >= 0 {
		had = h.Ports[at]
	}
	if had.Bonded != had.bondedNow(n, d) {
		had.Rate = 0
	}
	if cut := h.accepted(of, anew); !cut.IsZero() {
		late := seen.Last.After(cut)
		seen = fabric.PortHistory{}
		if late && had.PCI != "" {
			seen = fabric.PortHistory{
				Active: true, Since: when(had.Since, now), Last: when(had.Last, now), Rate: had.Rate,
				RateLast: when(had.Rated, now),
			}
		}
	}
	if !had.counts() {
		return seen
	}
	if since := when(had.Since, now); !seen.Active || !since.IsZero() && since.Before(seen.Since) {
		seen.Since = since
	}
	if !seen.Active {
		seen.Active, seen.Last = true, when(had.Last, now)
	}
	if had.Rate > seen.Rate {
		seen.Rate, seen.RateLast = had.Rate, when(had.Rated, now)
	}
	if p.GIDs.Entries.State == fabric.OK && p.State.Or("") == fabric.PortActive {
		if len(p.AddressesOf(fabric.FamilyIPv4)) == 0 {
			seen.IPv4 = had.IPv4.past(now)
		}
		if len(p.AddressesOf(fabric.FamilyIPv6)) == 0 {
			seen.IPv6 = had.IPv6.past(now)
		}
	}
	return seen
}

func (a *address) past(now time.Time) fabric.PastAddress {
	if a == nil || !a.counts() {
		return fabric.PastAddress{}
	}
	return fabric.PastAddress{Addr: a.Addr, Last: when(a.Last, now)}
}
