// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// maxOpenSlots bounds the descriptors that a port's GID table keeps: three for each slot. The slots above it
// are opened for each read.
const maxOpenSlots = 128

// maxFreeSlots bounds the descriptors of slots that are empty: of a whole table only the first ones are
// looked into again.
const maxFreeSlots = 2 * slotsBeyond

// slotsBeyond is how many empty slots behind the last occupied one FindGIDs looks into. The next address of a RoCE
// port goes into the first free slot (find_gid of drivers/infiniband/core/cache.c); what is further behind came while
// others that are gone again were before it.
const slotsBeyond = 8

// gidTable is what is kept open of a port's GID table.
type gidTable struct {
	gids, types, netdevs *dir
	scanned              bool
	size                 fabric.Fact[int]
	slots                []slot // occupied or unreadable ones, by index
	free                 []slot // the first ones that were empty, by index
}

// slot is one entry of a GID table.
type slot struct {
	index             int
	gid, kind, netdev attr
	name              string // of the interface as last read, so that an unchanged name costs no memory
}

func newGIDTable(port *dir) gidTable {
	sub := func(name string) *dir { return &dir{fs: port.fs, path: port.path + "/" + name, spare: true} }
	return gidTable{gids: sub("gids"), types: sub("gid_attrs/types"), netdevs: sub("gid_attrs/ndevs")}
}

func (t *gidTable) slot(i int) slot {
	name := strconv.Itoa(i)
	return slot{
		index:  i,
		gid:    attr{dir: t.gids, name: name, fd: -1},
		kind:   attr{dir: t.types, name: name, fd: -1},
		netdev: attr{dir: t.netdevs, name: name, fd: -1},
	}
}

func (s *slot) close() {
	s.gid.close()
	s.kind.close()
	s.netdev.close()
}

// last returns the index of the last slot, -1 without slots.
func (t *gidTable) last() int {
	if n := len(t.slots); n > 0 {
		return t.slots[n-1].index
	}
	return -1
}

func (t *gidTable) close() {
	closeSlots(t.slots)
	closeSlots(t.free)
	t.slots, t.free, t.scanned = nil, nil, false
	t.gids.close()
	t.types.close()
	t.netdevs.close()
}

// ScanGIDs reads the whole GID table of every port and remembers which entries are occupied. It costs no
// firmware command (the table is a cache of ib_core) but as many system calls as the table has entries.
func (d *Device) ScanGIDs(h *fabric.HCA, now time.Time) error {
	if err := d.checkAgain(); err != nil {
		return err
	}
	return d.readTables(h, now, func(t *gidTable, layer fabric.LinkLayer) { d.scanSlots(t, layer, now) })
}

// FindGIDs reads the entries that were occupied, and the slots that the kernel fills next. On ports that are not RoCE,
// where the hardware says what is in which slot, it is ScanGIDs.
func (d *Device) FindGIDs(h *fabric.HCA, now time.Time) error {
	if err := d.checkAgain(); err != nil {
		return err
	}
	return d.readTables(h, now, func(t *gidTable, layer fabric.LinkLayer) {
		size, ok := t.size.Get()
		if !ok || layer != fabric.LinkEthernet {
			d.scanSlots(t, layer, now)
			return
		}
		t.size.At = now // a table does not grow
		known := t.last()
		d.findSlots(t, layer, func(yield func(int) bool) {
			for k := 0; k < size && k <= max(known, t.last())+slotsBeyond && yield(k); k++ {
			}
		})
	})
}

// ReadGIDs reads the entries that were occupied when the table was last searched; new ones are found by the
// next search. A port that was never scanned is scanned. Counting changes is left to the caller.
func (d *Device) ReadGIDs(h *fabric.HCA, now time.Time) error {
	return d.readTables(h, now, func(t *gidTable, layer fabric.LinkLayer) {
		if !t.scanned {
			d.scanSlots(t, layer, now)
		}
	})
}

// readTables searches the table of every port, and reads what it remembers then.
func (d *Device) readTables(h *fabric.HCA, now time.Time, search func(*gidTable, fabric.LinkLayer)) error {
	for i := range h.Ports {
		q := &h.Ports[i]
		t := &d.port(q.Number).gids
		search(t, q.LinkLayer.Or(""))
		d.readSlots(h, q, t, now)
	}
	return d.verdict()
}

// scanSlots looks for occupied slots in all of the table.
func (d *Device) scanSlots(t *gidTable, layer fabric.LinkLayer, now time.Time) {
	indexes, err := d.fs.listNumbers(t.gids.path)
	if err != nil {
		t.size = fabric.UnknownFact[int](fabric.ReasonOf(err), t.gids.path, now)
	} else {
		t.size = fabric.Known(len(indexes), t.gids.path, now)
	}
	t.scanned = true
	d.findSlots(t, layer, slices.Values(indexes))
}

// findSlots looks which of these slots, in ascending order, are worth reading: those that were, and those
// that are not empty.
func (d *Device) findSlots(t *gidTable, layer fabric.LinkLayer, indexes iter.Seq[int]) {
	known, free := t.slots, t.free
	t.slots, t.free = nil, nil
	for i := range indexes {
		s, before := take(&known, i)
		if !before {
			var opened bool
			if s, opened = take(&free, i); !opened {
				s = t.slot(i)
			}
			if g, reason := d.readGID(&s); reason == "" && fabric.EmptyGID(layer, g) {
				if len(t.free) >= maxFreeSlots {
					s.close()
				} else {
					t.free = append(t.free, s)
				}
				continue
			}
		}
		if len(t.slots) >= maxOpenSlots {
			s.close()
		}
		t.slots = append(t.slots, s)
	}
	closeSlots(known)
	closeSlots(free)
}

// take removes the slot with that index from the list and returns it, if there is one. It also removes and
// closes all before it.
func take(list *[]slot, index int) (slot, bool) {
	n := 0
	for n < len(*list) && (*list)[n].index < index {
		n++
	}
	closeSlots((*list)[:n])
	*list = (*list)[n:]
	if len(*list) == 0 || (*list)[0].index != index {
		return slot{}, false
	}
	s := (*list)[0]
	*list = (*list)[1:]
	return s, true
}

func closeSlots(list []slot) {
	for i := range list {
		list[i].close()
	}
}

// readSlots reads the remembered slots into q. The list is complete or unknown: an entry that cannot be read
// must not look as if it were empty.
func (d *Device) readSlots(h *fabric.HCA, q *fabric.Port, t *gidTable, now time.Time) {
	q.GIDs.Size = t.size
	if t.size.State != fabric.OK {
		q.GIDs.Entries = fabric.UnknownFact[[]fabric.GID](t.size.Reason, t.size.Source, now)
		return
	}
	node, layer := h.NodeType.Or(""), q.LinkLayer.Or("")
	before := q.GIDs.Entries
	q.GIDs.Entries = fabric.Known[[]fabric.GID](nil, t.gids.path, now)
	d.entries = d.entries[:0]
	kept := t.slots[:0]
	for i := range t.slots {
		s := &t.slots[i]
		addr, reason := d.readGID(s)
		switch {
		case reason != "":
			q.GIDs.Entries = fabric.UnknownFact[[]fabric.GID](reason, t.gids.path+"/"+s.gid.name, now)
		case fabric.EmptyGID(layer, addr):
			s.close()
			continue
		default:
			g, reason := d.readEntry(s, addr, node, layer)
			if reason != "" {
				q.GIDs.Entries = fabric.UnknownFact[[]fabric.GID](reason, t.types.path+"/"+s.kind.name, now)
			}
			d.entries = append(d.entries, g)
		}
		if len(kept) >= maxOpenSlots {
			s.close()
		}
		kept = append(kept, *s)
	}
	t.slots = kept
	if q.GIDs.Entries.State != fabric.OK {
		return
	}
	// Entries that were handed out are never written again, but may be handed out again.
	if before.State == fabric.OK && slices.Equal(before.Value, d.entries) {
		q.GIDs.Entries.Value = before.Value
	} else {
		q.GIDs.Entries.Value = slices.Clone(d.entries)
	}
}

// readGID reads the address of an entry. Empty ones are all zero or, of mlx4 on InfiniBand, the prefix of the subnet
// (fabric.EmptyGID); kernels before 4.1 answered EINVAL, see the comment in show_port_gid of
// drivers/infiniband/core/sysfs.c.
func (d *Device) readGID(s *slot) (netip.Addr, fabric.Reason) {
	got := d.read(&s.gid)
	switch {
	case errors.Is(got.err, unix.EINVAL):
		return netip.IPv6Unspecified(), ""
	case got.err != nil:
		return netip.Addr{}, fabric.ReasonOf(got.err)
	}
	a, ok := parseGID(got.data)
	if !ok {
		return netip.Addr{}, fabric.ReasonMalformed
	}
	return a, ""
}

// readEntry reads what belongs to an occupied entry, and says why it cannot be told. Kernels before 4.5 have
// no types, and an entry that was removed a moment ago or that a container does not see has none (EINVAL);
// NCCL passes over the latter, and does not ask for those of link-local addresses. A type that cannot be read
// for another reason may be the one that is looked for. An interface
// is not promised.
func (d *Device) readEntry(s *slot, addr netip.Addr, node fabric.NodeType, layer fabric.LinkLayer) (g fabric.GID,
	hidden fabric.Reason,
) {
	g = fabric.GID{Index: s.index, Addr: addr}
	kind := d.read(&s.kind)
	g.Type, g.Family = fabric.ClassifyGID(node, layer, string(line(kind.data)), addr) // "RoCE v2"
	none := fabric.ReasonOf(kind.err) == fabric.ReasonMissing || errors.Is(kind.err, unix.EINVAL)
	if kind.err != nil && !none && layer == fabric.LinkEthernet && g.Type == fabric.GIDOther &&
		g.Family != fabric.FamilyLinkLocal {
		hidden = fabric.ReasonOf(kind.err)
	}
	if name := line(d.read(&s.netdev).data); string(name) != s.name {
		s.name, _ = parseNetDev(name)
	}
	g.NetDev = s.name
	return g, hidden
}
