// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Identify reads what the device is and which ports it has. It keeps what h knows of these ports. Restricted
// says that the site wants the device is gone alone: then, as when the device itself says so, it gets no ports and
// nothing below ports/ is read. None of this costs a firmware command.
func (d *Device) Identify(h *fabric.HCA, restricted bool, now time.Time) error {
	if err := d.check(); err != nil {
		return err
	}
	next, l := *h, &d.lasting
	next.Name = d.name
	next.Firmware = textFact(d.read(&d.firmware), now)
	text := func(name string) func() fabric.Fact[string] {
		return func() fabric.Fact[string] { return optional(textFact(d.readOnce(d.dir, name), now)) }
	}
	guid := func(name string) func() fabric.Fact[string] {
		return func() fabric.Fact[string] { return factOf(d.readOnce(d.dir, name), now, parseGUID) }
	}
	next.BoardID = once(&l.board, text("board_id"))
	next.Type = once(&l.model, text("hca_type"))
	next.Revision = once(&l.revision, text("hw_rev"))
	next.NodeGUID = once(&l.node, guid("node_guid"))
	next.ImageGUID = once(&l.image, guid("sys_image_guid"))
	next.NodeType = once(&l.kind, func() fabric.Fact[fabric.NodeType] {
		return factOf(d.readOnce(d.dir, "node_type"),
			now, parseNodeType)
	})

	if l.location == nil || l.location.err != nil {
		at := d.locate()
		l.location = &at
	}
	at := *l.location
	next.PCI = at.address(now)
	next.Driver = once(&l.driver, func() fabric.Fact[string] { return d.driver(at, now) })
	next.NUMANode = once(&l.numa, func() fabric.Fact[int] { return d.numaNode(at, now) })
	next.Function = once(&l.function, func() fabric.Fact[fabric.Function] { return d.function(at, now) })

	switch {
	case restricted:
		next.Restricted = fabric.Known(true, "config restricted", now)
	default:
		next.Restricted = d.selfRestricted(at, now)
	}
	if next.Restricted.Or(false) {
		d.keepPorts(nil)
		next.Ports = nil
	} else {
		next.Ports = d.listPorts(h.Ports)
		d.readLinkLayers(next.Ports, now)
	}
	if err := d.verdict(); err != nil {
		return err
	}
	*h = next
	return nil
}

// lasting is what cannot change while the device exists.
type lasting struct {
	kind                           fabric.Fact[fabric.NodeType]
	board, model, revision, driver fabric.Fact[string]
	node, image                    fabric.Fact[string] // GUIDs
	numa                           fabric.Fact[int]
	function                       fabric.Fact[fabric.Function]
	restricted                     *fabric.Fact[bool] // what the vital product data say: asked once, it takes milliseconds
	location                       *location
}

// once reads a fact until it is known: what is not there may come while the kernel still makes the device.
func once[T any](kept *fabric.Fact[T], read func() fabric.Fact[T]) fabric.Fact[T] {
	if kept.State != fabric.OK {
		*kept = read()
	}
	return *kept
}

// location is where a device sits in the tree of devices.
type location struct {
	link   string // where it was looked up
	parent string // real path of the parent device; empty for software devices
	pci    string // real path of the PCI function at or above the parent; empty if there is none
	err    error
}

// locate follows the device link. Software devices have none and lie below devices/virtual. The parent need not
// be a PCI function: it may be a virtio device or one on the auxiliary bus below it.
func (d *Device) locate() location {
	l := location{link: d.dir.path + "/device"}
	l.parent, l.err = d.fs.realPath(l.link)
	if errors.Is(l.err, fs.ErrNotExist) {
		var real string
		l.link = d.dir.path
		real, l.err = d.fs.realPath(l.link)
		if l.err != nil || strings.HasPrefix(real, "devices/virtual/") {
			return l
		}
		l.parent = path.Dir(path.Dir(real)) // PARENT/infiniband/NAME
	}
	l.pci = functionAbove(l.parent)
	return l
}

// functionAbove returns the PCI function at or above a place; empty if there is none.
func functionAbove(p string) string {
	for ; len(p) > 1; p = path.Dir(p) {
		if isPCIAddress(path.Base(p)) {
			return p
		}
	}
	return ""
}

func (l location) address(now time.Time) fabric.Fact[string] {
	switch {
	case l.err != nil:
		return fabric.UnknownFact[string](fabric.ReasonOf(l.err), l.link, now)
	case l.pci == "":
		return fabric.AbsentFact[string](l.link, now)
	}
	return fabric.Known(path.Base(l.pci), l.link, now)
}

func (d *Device) driver(l location, now time.Time) fabric.Fact[string] {
	switch {
	case l.err != nil:
		return fabric.UnknownFact[string](fabric.ReasonOf(l.err), l.link, now)
	case l.parent == "":
		return fabric.AbsentFact[string](l.link, now)
	}
	link := l.parent + "/driver"
	name, err := d.fs.linkBase(link)
	return optional(factOf(reading{source: link, data: []byte(name), err: err}, now, parseText))
}

// numaNode asks the PCI function: devices of other buses have no numa_node.
func (d *Device) numaNode(l location, now time.Time) fabric.Fact[int] {
	switch {
	case l.err != nil:
		return fabric.UnknownFact[int](fabric.ReasonOf(l.err), l.link, now)
	case l.pci == "":
		return fabric.AbsentFact[int](l.link, now)
	}
	const maxNodes = 1 << 10 // MAX_NUMNODES
	node := factOf(d.readPCI(l, "numa_node"), now, parseInt(-1, maxNodes-1))
	if n, ok := node.Get(); ok && n < 0 { // NUMA_NO_NODE: the firmware did not say
		return fabric.UnknownFact[int](fabric.ReasonMissing, node.Source, now)
	}
	return node
}

// function distinguishes physical functions, virtual functions and subfunctions; the last is a device of the
// auxiliary bus with a number (drivers/net/ethernet/mellanox/mlx5/core/sf/dev/dev.c). Other parents that are
// not a PCI function have none of these marks, like a virtual function inside a guest.
func (d *Device) function(l location, now time.Time) fabric.Fact[fabric.Function] {
	switch {
	case l.err != nil:
		return fabric.UnknownFact[fabric.Function](fabric.ReasonOf(l.err), l.link, now)
	case l.parent == "":
		return fabric.AbsentFact[fabric.Function](l.link, now)
	}
	source := ""
	for _, mark := range []struct {
		name     string
		function fabric.Function
	}{{"physfn", fabric.FunctionVF}, {"sriov_totalvfs", fabric.FunctionPF}, {"sfnum", fabric.FunctionSF}} {
		source = l.parent + "/" + mark.name
		_, err := d.fs.root.Lstat(source)
		switch {
		case err == nil:
			return fabric.Known(mark.function, source, now)
		case !errors.Is(err, fs.ErrNotExist):
			return fabric.UnknownFact[fabric.Function](fabric.ReasonOf(err), source, now)
		}
	}
	return fabric.UnknownFact[fabric.Function](fabric.ReasonMissing, source, now)
}

// selfRestricted looks for the mark of the NVSwitch management bridges of HGX boards in the vital product data
// of NVIDIA devices. The file is for root only.
func (d *Device) selfRestricted(l location, now time.Time) fabric.Fact[bool] {
	const mellanox = 0x15b3
	switch {
	case d.lasting.restricted != nil:
		return *d.lasting.restricted
	case l.err != nil:
		return fabric.UnknownFact[bool](fabric.ReasonOf(l.err), l.link, now)
	case l.pci == "":
		return fabric.Known(false, l.link, now)
	}
	vendor := factOf(d.readPCI(l, "vendor"), now, parseInt(0, 0xffff))
	if v, ok := vendor.Get(); !ok || v != mellanox {
		return fabric.Fact[bool]{State: vendor.State, Reason: vendor.Reason, Source: vendor.Source, At: now}
	}
	at := &dir{fs: d.fs, path: l.pci}
	defer at.close()
	vpd := newAttr(at, "vpd")
	defer vpd.close()
	vpd.head = true // it is binary, and up to 32 KiB long (drivers/pci/vpd.c)
	fact := factOf(d.read(&vpd), now, func(b []byte) (bool, bool) {
		return bytes.Contains(b, []byte("SW_MNG")), true
	})
	if fact.Reason == fabric.ReasonMissing { // the function has no vital product data
		fact = fabric.Known(false, fact.Source, now)
	}
	d.lasting.restricted = &fact
	return fact
}

// readPCI reads an attribute of the PCI function.
func (d *Device) readPCI(l location, name string) reading {
	at := &dir{fs: d.fs, path: l.pci}
	defer at.close()
	return d.readOnce(at, name)
}

// isPCIAddress recognises "0000:1a:00.0"; domains above 0xffff exist (Intel VMD).
func isPCIAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	if len(domain) < 4 || len(domain) > 8 || len(rest) != len("1a:00.0") || rest[2] != ':' || rest[5] != '.' {
		return false
	}
	for _, c := range []byte(domain + rest[:2] + rest[3:5]) {
		if !strings.ContainsRune("0123456789abcdef", rune(c)) {
			return false
		}
	}
	return '0' <= rest[6] && rest[6] <= '7'
}
