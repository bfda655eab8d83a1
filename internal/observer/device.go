// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
)

// device is one RDMA device with its reader and what was read last.
type device struct {
	name    string
	reading *reading[deviceFacts]
	reader  Device // used in the reading's lane only; nil until the first read
}

// deviceFacts is one reading of a device. It is replaced, never changed.
type deviceFacts struct {
	hca  fabric.HCA
	read map[fabric.Want]part
}

// part is how one kind of facts was read.
type part struct {
	began time.Time // zero: not read yet
	slow  time.Time // when the slow facts were read
	took  time.Duration
	err   error
}

// observeDevices brings all listed devices up to date, each in its own lane.
func (ob *Observer) observeDevices(ctx context.Context, now time.Time, want fabric.Want, policy *fabric.Policy) {
	devices := ob.listed(now)
	for range 2 { // the read in flight may have begun for somebody who wanted less
		var done []<-chan struct{}
		var of []*device
		for _, d := range devices {
			if c := d.reading.kick(ob.fresh(now, want), ob.readDevice(d, want, policy)); c != nil {
				done, of = append(done, c), append(of, d)
			}
		}
		for i, c := range done {
			of[i].reading.lane.wait(ctx, c)
		}
		if len(done) == 0 {
			return
		}
	}
}

// listed returns the devices the kernel lists and the user allows. Devices that left are let go once their
// lane is idle: a device that comes back while a read of its predecessor hangs must wait for it.
func (ob *Observer) listed(now time.Time) []*device {
	class, src := ob.class.get(fabric.SourceClass, "", since[classList](now, ob.o.FastInterval))
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if src.Up && !ob.closed {
		for name, d := range ob.devices {
			busy, _ := d.reading.lane.busy()
			if busy == "" && !slices.Contains(class.names, name) {
				d.retire()
				delete(ob.devices, name)
			}
		}
		for _, name := range class.names {
			if ob.o.Devices.Allows(name) && ob.devices[name] == nil && len(ob.devices) < maxDevices {
				ob.devices[name] = &device{name: name, reading: newReading[deviceFacts](stuckAfter)}
			}
		}
	}
	var list []*device
	for _, d := range ob.devices {
		list = append(list, d)
	}
	return list
}

// retire closes the reader in the device's own lane, as soon as that is idle.
func (d *device) retire() {
	d.reading.kick(func(deviceFacts, time.Time) bool { return false }, func(last deviceFacts, _ time.Time) (deviceFacts, error) {
		d.closeReader()
		return last, nil
	})
}

func (d *device) closeReader() {
	if d.reader != nil {
		d.reader.Close()
		d.reader = nil
	}
}

func (ob *Observer) fresh(now time.Time, want fabric.Want) func(deviceFacts, time.Time) bool {
	return func(f deviceFacts, _ time.Time) bool {
		for _, w := range []fabric.Want{fabric.WantHCA, fabric.WantGID} {
			if want&w != 0 && (f.read[w].began.IsZero() || now.Sub(f.read[w].began) >= ob.o.FastInterval) {
				return false
			}
		}
		return true
	}
}

// readDevice returns the read of one device: fast facts always, slow ones when they are due. A device that
// is gone is forgotten, so that it is opened anew when it is listed again.
func (ob *Observer) readDevice(d *device, want fabric.Want, policy *fabric.Policy) func(deviceFacts, time.Time) (deviceFacts, error) {
	return func(last deviceFacts, now time.Time) (deviceFacts, error) {
		h := last.hca
		h.Name = d.name
		h.Ports = slices.Clone(h.Ports)
		next := deviceFacts{read: map[fabric.Want]part{fabric.WantHCA: last.read[fabric.WantHCA], fabric.WantGID: last.read[fabric.WantGID]}}
		err := d.open(ob.rdma)
		if err == nil {
			p := next.read[fabric.WantHCA]
			p.err = ob.readHCA(d, &h, &p, policy, now)
			next.read[fabric.WantHCA], err = p, p.err
		}
		if err == nil && want&fabric.WantGID != 0 {
			p := next.read[fabric.WantGID]
			p.err = ob.readGIDs(d, &h, &p, now)
			next.read[fabric.WantGID] = p
		}
		if gone(err) || gone(next.read[fabric.WantGID].err) {
			d.closeReader()
			return deviceFacts{}, errGone
		}
		next.hca = h
		return next, err
	}
}

// errGone stands for a device that left while it was read.
var errGone = errors.New("device is gone")

func gone(err error) bool {
	return errors.Is(err, sysfs.ErrGone) || errors.Is(err, fs.ErrNotExist)
}

func (d *device) open(r RDMA) error {
	if d.reader != nil {
		return nil
	}
	reader, err := r.Open(d.name)
	if err == nil {
		d.reader = reader
	}
	return err
}

func (ob *Observer) readHCA(d *device, h *fabric.HCA, p *part, policy *fabric.Policy, now time.Time) error {
	slow := p.slow.IsZero() || now.Sub(p.slow) >= ob.o.SlowInterval
	p.began = now
	defer func() { p.took = time.Since(now) }()
	if slow {
		if err := d.reader.Identify(h, policy.IsRestricted(d.name), now); err != nil {
			return err
		}
	}
	if err := d.reader.ReadPorts(h, now); err != nil {
		return err
	}
	if !slow {
		return nil
	}
	p.slow = now
	return d.reader.ReadPortDetails(h, now)
}

func (ob *Observer) readGIDs(d *device, h *fabric.HCA, p *part, now time.Time) error {
	begin := time.Now()
	p.began = now
	defer func() { p.took = time.Since(begin) }()
	before := make([]fabric.GIDTable, len(h.Ports))
	for i := range h.Ports {
		before[i] = h.Ports[i].GIDs
	}
	read := d.reader.ReadGIDs
	if p.slow.IsZero() || now.Sub(p.slow) >= ob.o.SlowInterval {
		p.slow, read = now, d.reader.ScanGIDs
	}
	if err := read(h, now); err != nil {
		for i := range h.Ports {
			h.Ports[i].GIDs.Size = fabric.NotKnown[int](fabric.ReasonIO, "", now)
			h.Ports[i].GIDs.Entries = fabric.NotKnown[[]fabric.GID](fabric.ReasonIO, "", now)
		}
		return err
	}
	for i := range h.Ports {
		t := &h.Ports[i].GIDs
		t.Changes = 0
		if i < len(before) {
			was, ok := before[i].Entries.Get()
			is, now := t.Entries.Get()
			t.Changes = before[i].Changes
			if ok && now {
				t.Changes += fabric.CountChanges(was, is)
			}
		}
	}
	return nil
}

// assembleDevices makes a node of what was read of the devices.
func (ob *Observer) assembleDevices(now time.Time, want fabric.Want, policy *fabric.Policy) *fabric.Node {
	n := &fabric.Node{At: now, Policy: policy}
	if want&fabric.WantHCA == 0 {
		return n
	}
	class, src := ob.class.get(fabric.SourceClass, "", since[classList](now, ob.o.FastInterval))
	const path = "class/infiniband"
	n.ClassPresent = fabric.Known(class.present, path, now)
	if !src.Up {
		n.ClassPresent = fabric.NotKnown[bool](src.Reason, path, now)
	}
	n.Sources = append(n.Sources, src)
	for _, name := range class.names {
		if !ob.o.Devices.Allows(name) {
			n.Excluded = append(n.Excluded, name)
		}
	}
	for _, d := range ob.listed(now) {
		d.assemble(n, want, ob.fresh(now, want))
	}
	slices.SortFunc(n.HCAs, func(a, b fabric.HCA) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(n.Sources, func(a, b fabric.Source) int {
		return strings.Compare(a.Name+"\x00"+a.Device, b.Name+"\x00"+b.Device)
	})
	return n
}

func (d *device) assemble(n *fabric.Node, want fabric.Want, fresh func(deviceFacts, time.Time) bool) {
	f, src := d.reading.get(fabric.SourceHCA, d.name, fresh)
	if errors.Is(src.Err, errGone) {
		return // it left; the next listing will not have it
	}
	h := f.hca
	h.Name = d.name
	h.Ports = slices.Clone(h.Ports) // Derive writes into them
	if !src.Up {
		h = h.WithoutFacts(src.Reason, n.At)
	}
	n.HCAs = append(n.HCAs, h)
	for _, w := range []struct {
		want fabric.Want
		name string
	}{{fabric.WantHCA, fabric.SourceHCA}, {fabric.WantGID, fabric.SourceGID}} {
		if want&w.want == 0 {
			continue
		}
		s, p := src, f.read[w.want]
		s.Name, s.Duration = w.name, p.took
		if s.Up && p.err != nil {
			s.Up, s.Reason, s.Err = false, sysfs.ReasonOf(p.err), p.err
		}
		n.Sources = append(n.Sources, s)
	}
}
