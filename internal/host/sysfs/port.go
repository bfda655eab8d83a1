// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lazyregexp"
)

// port is what is kept open of a port.
type port struct {
	number int
	dir    *dir
	gids   gidTable

	linkLayer attr
	asked     []*question // what ask has been asked for

	pma counterDir
	ext counterDir // of kernels whose counters/ has no 64 bits
	hw  hwCounters
	cm  []*counterDir

	tc           []*dir // from the device down to trafficClass
	trafficClass question
}

func newPort(device *dir, n int) *port {
	d := &dir{fs: device.fs, path: device.path + "/ports/" + strconv.Itoa(n), spare: true}
	tc := device.sub("tc")
	tcPort := tc.sub(strconv.Itoa(n))
	return &port{
		number: n,
		dir:    d,
		gids:   newGIDTable(d),

		linkLayer: newAttr(d, "link_layer"),

		pma: newCounterDir(d, "counters", "", fabric.CommandProcessMAD),
		ext: newCounterDir(d, "counters_ext", "", fabric.CommandProcessMAD),
		hw:  newHWCounters(d),
		cm:  newCMDirs(d),

		tc:           []*dir{tc, tcPort},
		trafficClass: newQuestion(tcPort, "traffic_class", ""),
	}
}

// ask returns the attribute of that name, which the driver answers: the same one each time.
func (p *port) ask(name string) *question {
	for _, q := range p.asked {
		if q.name == name {
			return q
		}
	}
	q := newQuestion(p.dir, name, fabric.CommandQueryPort)
	p.asked = append(p.asked, &q)
	return &q
}

func (p *port) close() {
	for _, q := range p.asked {
		q.close()
	}
	p.linkLayer.close()
	p.gids.close()
	p.pma.close()
	p.ext.close()
	p.hw.close()
	for _, c := range p.cm {
		c.close()
	}
	p.closeTrafficClass()
	p.dir.close()
}

// ReadPorts reads the logical and the physical state of every port of h, and the rate of those whose physical
// state is not the one in h. On mlx5 each attribute costs two firmware commands on Ethernet, five on InfiniBand.
func (d *Device) ReadPorts(h *fabric.HCA, now time.Time) error {
	for i := range h.Ports {
		q := &h.Ports[i]
		p := d.port(q.Number)
		if driverConstants(h) {
			q.State = driverConstant[fabric.PortState](p.ask("state"), now)
			q.PhysState = driverConstant[fabric.PhysState](p.ask("phys_state"), now)
			continue
		}
		q.State = ask(d.reader, p.ask("state"), now, parsePortState)
		before := q.PhysState
		q.PhysState = ask(d.reader, p.ask("phys_state"), now, parsePhysState)
		if q.PhysState.State != before.State || q.PhysState.Value != before.Value {
			q.Rate = d.rate(h, q, p, now)
		}
	}
	return d.verdict()
}

// ReadPortDetails reads what changes rarely. It needs what Identify and ReadPorts found out: the link layer, and
// whether the link is up.
func (d *Device) ReadPortDetails(h *fabric.HCA, now time.Time) error {
	if err := d.checkAgain(); err != nil {
		return err
	}
	for i := range h.Ports {
		q := &h.Ports[i]
		p := d.port(q.Number)
		q.Rate = d.rate(h, q, p, now)
		q.LID = d.lid(q, p.ask("lid"), now)
		q.SMLID = d.lid(q, p.ask("sm_lid"), now)
		q.PKeys = d.pkeys(q, p, now)
		q.NetDev = d.netDev(p, now)
		q.Representor = len(h.Ports) > 1 && q.LinkLayer.Or("") == fabric.LinkEthernet && d.represents(q.NetDev.Or(""))
	}
	return d.verdict()
}

func (d *Device) readLinkLayers(ports []fabric.Port, now time.Time) {
	for i := range ports {
		p := d.port(ports[i].Number)
		ports[i].LinkLayer = factOf(d.read(&p.linkLayer), now, parseLinkLayer)
	}
}

// rate is only meaningful while the link is up: mlx5 prints "40 Gb/sec (4X QDR)" for a port without one
// (mlx5_query_port_roce of drivers/infiniband/hw/mlx5/main.c).
func (d *Device) rate(h *fabric.HCA, q *fabric.Port, p *port, now time.Time) fabric.Fact[fabric.Rate] {
	if driverConstants(h) {
		return driverConstant[fabric.Rate](p.ask("rate"), now)
	}
	switch s, ok := q.PhysState.Get(); {
	case !ok:
		return fabric.UnknownFact[fabric.Rate](q.PhysState.Meta().Reason, p.ask("phys_state").source, now)
	case s != fabric.PhysLinkUp:
		return fabric.AbsentFact[fabric.Rate](p.ask("phys_state").source, now)
	}
	return ask(d.reader, p.ask("rate"), now, parseRate)
}

// lid reads lid or sm_lid. Other link layers than InfiniBand print a constant.
func (d *Device) lid(q *fabric.Port, lid *question, now time.Time) fabric.Fact[int] {
	if fact, ok := infiniBandOnly[int](q, now); !ok {
		return fact
	}
	const widest = 1<<32 - 1 // more than 16 bits on Omni-Path
	return askOnce(d.reader, lid, now, parseInt(0, widest))
}

// pkeys counts the table. Its entries are not read: each costs a firmware command on mlx5.
func (d *Device) pkeys(q *fabric.Port, p *port, now time.Time) fabric.Fact[int] {
	if fact, ok := infiniBandOnly[int](q, now); !ok {
		return fact
	}
	source := p.dir.path + "/pkeys"
	numbers, err := d.fs.listNumbers(source)
	if err != nil {
		return fabric.UnknownFact[int](fabric.ReasonOf(err), source, now)
	}
	return fabric.Known(len(numbers), source, now)
}

// infiniBandOnly returns false and the fact to use on a port that is not an InfiniBand port.
func infiniBandOnly[T any](q *fabric.Port, now time.Time) (fabric.Fact[T], bool) {
	layer, ok := q.LinkLayer.Get()
	switch {
	case !ok:
		return fabric.UnknownFact[T](q.LinkLayer.Meta().Reason, q.LinkLayer.Source, now), false
	case layer != fabric.LinkInfiniBand:
		return fabric.AbsentFact[T](q.LinkLayer.Source, now), false
	}
	return fabric.Fact[T]{}, true
}

// netDev finds the network interface of a port. No single place names it on every kernel and driver: it is the
// parent of rxe, which has no parent device (parent_show of rxe_verbs.c); the interface of GID 0, on a RoCE bond
// the bond master; or one that shares the parent device. The first two answer ENOENT or EINVAL where they do
// not apply; any other error may have hidden the answer.
func (d *Device) netDev(p *port, now time.Time) fabric.Fact[string] {
	parent := factOf(d.readExtra(d.dir, "parent"), now, parseNetDev)
	if parent.State == fabric.OK {
		return parent
	}
	first := factOf(d.readOnce(p.gids.netdevs, "0"), now, parseNetDev)
	if source, is := d.netDevMoved(first); is {
		return fabric.UnknownFact[string](fabric.ReasonMoved, source, now)
	}
	if first.State == fabric.OK {
		return first
	}
	sibling := d.sibling(p, now)
	if sibling.State == fabric.OK {
		return sibling
	}
	for _, f := range []fabric.Fact[string]{parent, first} {
		if f.Reason != fabric.ReasonMissing && f.Reason != fabric.ReasonUnsupported {
			return f
		}
	}
	return sibling
}

// represents reports whether an interface is that of a port for a virtual function or subfunction: it is
// called c0pf0vf3 or pf0sf7, and that of the card itself p0 (devlink_port_phys_port_name_get of
// net/devlink/port.c).
func (d *Device) represents(netdev string) bool {
	if netdev == "" {
		return false
	}
	at := &dir{fs: d.fs, path: netClass + "/" + netdev}
	defer at.close()
	name, known := factOf(d.readOnce(at, "phys_port_name"), time.Time{}, parseText).Get()
	return known && representorName().MatchString(name)
}

var representorName = lazyregexp.New(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// netDevMoved reports whether the interface of a port is in another network namespace. The directory of the parent that
// holds interfaces stays while they are there (get_device_parent of drivers/base/core.c), and shows nothing. The GID
// table names it still, as it is called there: by a name that another interface may have here, or none.
func (d *Device) netDevMoved(first fabric.Fact[string]) (source string, is bool) {
	source = d.dir.path + "/device/net"
	names, err := d.fs.list(source)
	if err != nil {
		return source, false
	}
	name, ok := first.Get()
	if len(names) == 0 || !ok || slices.Contains(names, name) {
		return source, len(names) == 0
	}
	// A bond, or one of several interfaces.
	if _, err := d.fs.root.Lstat(netClass); err != nil {
		return source, false
	}
	_, err = d.fs.root.Lstat(netClass + "/" + name)
	return netClass + "/" + name, errors.Is(err, fs.ErrNotExist)
}

// sibling looks through the interfaces that share the parent device with the HCA. They show their port by
// dev_port; before Linux 3.15 by dev_id, as IPoIB does to this day. A device without a parent, as those of siw,
// may have an interface that sysfs does not name.
func (d *Device) sibling(p *port, now time.Time) fabric.Fact[string] {
	parent := d.dir.path + "/device"
	if _, err := d.fs.root.Lstat(parent); err != nil {
		return fabric.UnknownFact[string](fabric.ReasonOf(err), parent, now)
	}
	siblings := parent + "/net"
	names, err := d.fs.list(siblings)
	if errors.Is(err, fs.ErrNotExist) {
		return fabric.AbsentFact[string](siblings, now)
	}
	if err != nil {
		return fabric.UnknownFact[string](fabric.ReasonOf(err), siblings, now)
	}
	failed := fabric.AbsentFact[string](siblings, now)
	for _, mark := range []string{"dev_port", "dev_id"} {
		for _, name := range names {
			at := &dir{fs: d.fs, path: siblings + "/" + name}
			index := factOf(d.readOnce(at, mark), now, parseInt(0, 1<<16-1))
			at.close()
			switch n, ok := index.Get(); {
			case ok && n == p.number-1 && validNetDevName(name):
				return fabric.Known(name, index.Source, now)
			case !ok && index.Reason != fabric.ReasonMissing:
				failed = fabric.UnknownFact[string](index.Reason, index.Source, now)
			}
		}
	}
	return failed
}
