// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"strings"
)

// openPort is a port whose role nothing has settled: it is for training unless it stands beside the rails.
type openPort struct {
	h *HCA
	p *Port
}

// railside is what the evidence against open ports is looked for in.
type railside struct {
	n    *Node
	open []openPort
	list NameFilter // NCCL_IB_HCA of the host; takes everything where it is not set
	// rails are NICs near a GPU of which NCCL takes a port. One that hangs is among them.
	rails []*HCA
	nics  map[*HCA]nicPlace // those on the PCI bus
	flat  bool              // there are GPUs, and no NIC is near one
}

// nicPlace is where a NIC is.
type nicPlace struct {
	f    *PCIFunction
	near bool // it shares a switch with a GPU
}

// standBeside returns the open ports that training traffic has no reason to take although their NIC may be near GPUs, with
// the source of the evidence against them. Boards and link layers carry the evidence, because they stay what they are
// when a link fails: a rail that is degraded has the board of its peers, and stays a rail.
func (n *Node) standBeside(open []openPort) map[*Port]string {
	gpus := n.PCI.GPUs()
	b := railside{n: n, open: open, nics: make(map[*HCA]nicPlace, len(n.HCAs)), flat: len(gpus) > 0}
	var listed bool
	b.list, listed = n.NCCL.Devices()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		if f == nil {
			continue
		}
		place := nicPlace{f, n.nearAny(gpus, f)}
		b.nics[h], b.flat = place, b.flat && !place.near
		if place.near && n.mayCompute(h, f) && b.takes(h) {
			b.rails = append(b.rails, h)
		}
	}
	found := map[*Port]string{}
	for _, o := range open {
		near := b.nics[o.h].near
		switch {
		case listed && b.leftOut(o):
			v, _ := n.NCCL.Lookup("NCCL_IB_HCA")
			found[o.p] = v.Source
		case near && b.otherFabric(o), b.flat && b.outnumbered(o):
			found[o.p] = o.p.LinkLayer.Source
		case b.flat && b.outpaced(o, listed):
			found[o.p] = o.p.Rate.Source
		case near && (b.slower(o.h) || b.siblingOfDefaultRoute(o)):
			found[o.p] = "bus/pci/devices"
		}
	}
	return found
}

func (b *railside) takes(h *HCA) bool {
	return len(h.Ports) == 0 || slices.ContainsFunc(h.Ports, func(p Port) bool { return b.list.Takes(h.Name, p.Number) })
}

// leftOut reports whether NCCL_IB_HCA leaves the port out and takes at least as many that are of another kind and no slower. A
// list that forgets a rail, or names the wrong NICs, makes no storage of rails.
func (b *railside) leftOut(o openPort) bool {
	if b.list.Takes(o.h.Name, o.p.Number) {
		return false
	}
	own, taken, alike := b.n.speed(o.h), 0, 0 // ports
	for _, q := range b.open {
		other := b.otherBoard(o.h, q.h) || q.p.LinkLayer.Or("") != o.p.LinkLayer.Or("")
		switch takes := b.list.Takes(q.h.Name, q.p.Number); {
		case takes && other && b.n.speed(q.h) >= own:
			taken++
		case !takes && !other:
			alike++
		}
	}
	return taken >= alike
}

// otherFabric reports whether the port is Ethernet while the rails are InfiniBand, no slower and not much fewer, and near most GPUs. One
// that left the bus makes no rail of a port for storage on each of the same cards.
func (b *railside) otherFabric(o openPort) bool {
	if o.p.LinkLayer.Or("") != LinkEthernet {
		return false
	}
	if !slices.ContainsFunc(b.rails, func(h *HCA) bool { return h.hasLink(LinkInfiniBand) }) {
		return false
	}
	var subnet []*HCA
	ethernet, own := 0, b.n.speed(o.h)
	for _, h := range b.rails {
		if h.hasLink(LinkInfiniBand) && b.n.speed(h) >= own {
			subnet = append(subnet, h)
		}
		if h.hasLink(LinkEthernet) {
			ethernet++
		}
	}
	return 3*len(subnet) > 2*ethernet && b.serve(subnet, 0, false)
}

// outnumbered reports whether the port is Ethernet while more of the open ports are InfiniBand and no slower. It is used where
// distances say nothing: in guests, on boxes without PCIe switches, and where GPUs are on NVLink-C2C.
func (b *railside) outnumbered(o openPort) bool {
	if o.p.LinkLayer.Or("") != LinkEthernet {
		return false
	}
	own, more := b.n.speed(o.h), 0
	for _, q := range b.open {
		switch layer := q.p.LinkLayer.Or(""); {
		case !b.list.Takes(q.h.Name, q.p.Number):
		case layer == LinkEthernet:
			more--
		case layer == LinkInfiniBand && b.n.speed(q.h) >= own:
			more++
		}
	}
	return more > 0
}

// outpaced reports whether ports of other boards have at least twice the speed of an Ethernet port, and together at least the bandwidth of
// the ports of its board. NCCL_IB_HCA leaves the port out, or its interface has no address. One port alone with the chip of the
// others may be a spare part, and stays a rail unless the list leaves it out.
func (b *railside) outpaced(o openPort, listed bool) bool {
	out := !b.list.Takes(o.h.Name, o.p.Number)
	if o.p.LinkLayer.Or("") != LinkEthernet || !out && (listed || !b.n.withoutAddress(o.p)) {
		return false
	}
	own, spare := b.n.speed(o.h), !out
	faster, alike := 0.0, 0
	for _, q := range b.open {
		switch takes, speed := b.list.Takes(q.h.Name, q.p.Number), b.n.speed(q.h); {
		case !b.otherBoard(o.h, q.h):
			alike++
		case takes && speed >= 2*own:
			faster, spare = faster+speed, spare && !b.otherChip(o.h, q.h)
		}
	}
	return own > 0 && faster >= own*float64(alike) && (!spare || alike > 1)
}

// withoutAddress reports whether the port is known to have no address, nor to be in a bond or bridge that may have one.
func (n *Node) withoutAddress(p *Port) bool {
	gids, known := p.GIDs.Entries.Get()
	d := n.NetDev(p.NetDev.Or(""))
	return known && d != nil && d.Upper.State == Absent && !slices.ContainsFunc(gids, func(g GID) bool { return g.Family != FamilyLinkLocal })
}

func (h *HCA) hasLink(l LinkLayer) bool {
	for i := range h.Ports { // without copies of what is large
		if h.Ports[i].LinkLayer.Or("") == l {
			return true
		}
	}
	return false
}

// slower reports whether rails of other boards give GPUs at least twice what the NIC could. Where these have another chip, most
// GPUs are enough: that a rail left the bus must not make one of what stood beside it. Where the chip is the same the NIC may be a
// spare part, and is a rail unless each GPU has one. One that never had a link has no rate to compare: it is beside the rails if
// each GPU has one with another chip to itself.
func (b *railside) slower(h *HCA) bool {
	own, spare := -1.0, false // looked up when a rail is of another board
	var faster, others []*HCA
	for _, r := range b.rails {
		if !b.otherBoard(h, r) {
			continue
		}
		if own < 0 {
			own = b.n.speed(h)
		}
		chip := b.otherChip(h, r)
		if chip && b.n.railSpeed(r) > 0 {
			others = append(others, r)
		}
		if own > 0 && b.n.railSpeed(r) >= 2*own {
			faster, spare = append(faster, r), spare || !chip
		}
	}
	if own == 0 {
		return len(others) > 0 && b.n.eachHasItsOwn(others)
	}
	return b.serve(faster, 2*own, spare)
}

// siblingOfDefaultRoute reports whether the default route leaves through another port of the card, and there are more such devices
// than GPUs without a rail to themselves that is on no such card: one rail that left the bus makes none of a pair for storage.
func (b *railside) siblingOfDefaultRoute(o openPort) bool {
	if !b.besideDefaultRoute(o.h) {
		return false
	}
	var others, beside []*HCA
	own := b.n.speed(o.h)
	for _, r := range b.rails {
		if !b.besideDefaultRoute(r) && b.n.railSpeed(r) >= own {
			others = append(others, r)
		}
	}
	for _, q := range b.open {
		if b.nics[q.h].near && b.besideDefaultRoute(q.h) && !slices.Contains(beside, q.h) {
			beside = append(beside, q.h)
		}
	}
	return b.n.withoutOwn(others) < len(beside)
}

// besideDefaultRoute reports whether the default route leaves through a port of the card.
func (b *railside) besideDefaultRoute(h *HCA) bool {
	for i := range b.n.HCAs {
		o := &b.n.HCAs[i]
		if sameCard(o, h) && slices.ContainsFunc(o.Ports, func(p Port) bool {
			d := b.n.NetDev(p.NetDev.Or(""))
			return d != nil && d.DefaultRoute.Or(false)
		}) {
			return true
		}
	}
	return false
}

// serve reports whether most of the GPUs, or all, have one of these NICs near, and so much of its speed when they share it.
func (b *railside) serve(nics []*HCA, bytesPerSecond float64, all bool) bool {
	if len(nics) == 0 {
		return false
	}
	dealt := b.n.dealOnBus(nics)
	users := map[string]int{}
	for _, r := range dealt {
		users[r.NIC]++
	}
	served := 0
	for _, r := range dealt {
		h := b.n.HCA(r.NIC)
		if h != nil && r.Distance.Or(DistanceSYS) <= DistancePXB && b.n.railSpeed(h) >= bytesPerSecond*float64(users[r.NIC]) {
			served++
		}
	}
	return served == len(dealt) || !all && 2*served > len(dealt)
}

// speed is the highest rate at which ports of the device or of its board ran since they appeared, in bytes per second; 0
// while none is known.
func (n *Node) speed(h *HCA) (best float64) {
	for i := range n.HCAs {
		o := &n.HCAs[i]
		if o != h && !sameBoard(o, h) {
			continue
		}
		for k := range o.Ports {
			p := &o.Ports[k]
			best = max(best, p.Seen.Rate, p.Rate.Or(Rate{}).BytesPerSecond)
		}
	}
	return best
}

// railSpeed is speed, or what the site expects of rails while none is known.
func (n *Node) railSpeed(h *HCA) float64 {
	if s := n.speed(h); s > 0 {
		return s
	}
	return n.Policy.PortRates[RoleCompute]
}

// otherBoard reports whether two devices are known to be of different boards; otherChip that their chips differ.
func (b *railside) otherBoard(x, y *HCA) bool {
	board, known := x.BoardID.Get()
	other, otherKnown := y.BoardID.Get()
	software := (x.PCI.State == Absent) != (y.PCI.State == Absent) // one is a device in software, as soft-RoCE
	return software || known && otherKnown && board != other || b.otherChip(x, y)
}

func (b *railside) otherChip(x, y *HCA) bool {
	kind, known := x.Type.Get()
	other, otherKnown := y.Type.Get()
	if known && otherKnown && kind != other {
		return true
	}
	f, g := b.nics[x].f, b.nics[y].f
	if f == nil || g == nil || f.PF.State == OK || g.PF.State == OK { // virtual functions have ids of their own
		return false
	}
	differ := func(a, b Fact[int]) bool { return a.State == OK && b.State == OK && a.Value != b.Value }
	return differ(f.Vendor, g.Vendor) || differ(f.Device, g.Device)
}

// sameCard reports whether two devices are ports of one card: by its GUID or, of drivers that give each function one of its own, by
// its place on the bus.
func sameCard(a, b *HCA) bool {
	if a == b {
		return true
	}
	guid, slot := a.ImageGUID.Or(""), slotOf(a)
	return strings.Trim(guid, "0:") != "" && guid == b.ImageGUID.Or("") || slot != "" && slot == slotOf(b)
}

// slotOf is the PCI address without the function.
func slotOf(h *HCA) string {
	slot, _, _ := strings.Cut(h.PCI.Or(""), ".")
	return slot
}
