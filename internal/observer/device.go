// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
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
	// These are used in the reading's lane only.
	reader Device // nil until the first read
	turns  wrapTrackers
	next   deviceFacts // what a read fills in before it is published
}

// deviceFacts is one reading of a device. It is replaced, never changed.
type deviceFacts struct {
	hca      fabric.HCA
	parts    [numKinds]part
	commands fabric.Commands // what the driver was asked since the device was opened
	was      *fabric.HCA     // of a device that is gone, as it was before
}

// part is how one kind of facts was read.
type part struct {
	began time.Time // zero: not read yet
	slow  time.Time // when the slow facts were asked for
	rare  time.Time // when the rare ones were
	took  time.Duration
	err   error
}

const numKinds = 5

// due says what is to be read beside the fast facts. Rare facts are due with slow ones only, and of a restricted device
// nothing but its identity is.
type due struct{ slow, rare, restricted bool }

// kinds are the kinds of facts of a device, in the order in which they are read: each may need those before.
// One without a source of its own belongs to that of the device.
var kinds = [numKinds]struct {
	want   fabric.Want
	source string
	read   func(d *device, h *fabric.HCA, due due, now time.Time) error
}{
	{fabric.WantHCA, fabric.SourceHCA, (*device).readHCA},
	{fabric.WantQoS | fabric.WantTrafficClass, "", (*device).readTrafficClass},
	{fabric.WantGID, fabric.SourceGID, (*device).readGIDs},
	{fabric.WantCounters, fabric.SourceCounters, (*device).readCounters},
	{fabric.WantCM, fabric.SourceCM, (*device).readCM},
}

// readDevices brings all listed devices up to date, each in its own lane.
func (l *look) readDevices() {
	devices := l.listed(l.now)
	for range 2 { // the read in flight may have begun for a caller that wanted less
		done := map[*device]<-chan struct{}{}
		for _, d := range devices {
			if c := d.reading.startIfStale(l.fresh(l.now, l.want), l.readDevice(d, l.want, l.site, l.now)); c != nil {
				done[d] = c
			}
		}
		for d, c := range done {
			d.reading.lane.wait(l.half, c)
		}
		if len(done) == 0 {
			return
		}
	}
}

// listed returns the devices the kernel lists and the user allows. Devices that left are let go once their
// lane is idle: a device that comes back while a read of its predecessor hangs must wait for it.
func (ob *Observer) listed(now time.Time) []*device {
	class, _ := ob.class.get(fabric.SourceClass, "", since[classList](now, ob.o.FastInterval))
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if !ob.closed {
		for name, d := range ob.devices {
			if !slices.Contains(class.names, name) && d.reading.lane.retireIdle() {
				f, _ := d.reading.peek(func(deviceFacts, time.Time) bool { return true })
				ob.asked.Add(f.commands)
				ob.left = append(ob.left, *cmp.Or(f.was, &f.hca))
				delete(ob.devices, name)
			}
		}
		for _, name := range class.names {
			if ob.o.Devices.Allows(name) && ob.devices[name] == nil && len(ob.devices) < maxDevices {
				ob.devices[name] = ob.newDevice(name)
			}
		}
		ob.forgetLeft(class.moved)
	}
	return slices.Collect(maps.Values(ob.devices))
}

func (ob *Observer) newDevice(name string) *device {
	d := &device{name: name}
	d.reading = &reading[deviceFacts]{
		lane: lane{stuckAfter: stuckAfter, starved: ob.o.starved, closes: d.closeReader}, err: errPending,
	}
	return d
}

// countAsked adds what drivers of devices that left were asked.
func (l *look) countAsked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n.Commands.Add(l.asked)
}

// closeReader is called in the device's own lane.
func (d *device) closeReader() {
	if d.reader != nil {
		d.reader.Close()
		d.reader = nil
	}
}

func (ob *Observer) fresh(now time.Time, want fabric.Want) func(deviceFacts, time.Time) bool {
	return func(f deviceFacts, _ time.Time) bool {
		for i, k := range kinds {
			if want&k.want != 0 && (f.parts[i].began.IsZero() || now.Sub(f.parts[i].began) >= ob.o.FastInterval) {
				return false
			}
		}
		return true
	}
}

// readDevice returns the read of one device: fast facts always, slow ones when they are due. A device that
// is gone is forgotten, so that it is opened anew when it is listed again.
func (ob *Observer) readDevice(d *device, want fabric.Want, policy *fabric.Policy, asked time.Time) func(deviceFacts,
	time.Time) (deviceFacts, error) {
	return func(last deviceFacts, now time.Time) (deviceFacts, error) {
		next := &d.next
		*next = last
		next.was = nil
		next.hca.Name = d.name
		next.hca.Ports = slices.Clone(last.hca.Ports)
		err := d.open(ob.rdma)
		if err == nil {
			err = ob.readParts(d, next, want, policy, asked, now)
			d.reader.End()
			next.commands = d.reader.Commands()
		}
		if gone(err) {
			d.closeReader()
			was := last.was
			if was == nil && !last.parts[0].began.IsZero() {
				h := last.hca
				was = &h
			}
			return deviceFacts{was: was}, errGone
		}
		return *next, err
	}
}

// readParts reads all kinds that are wanted. It returns an error when nothing can be known of the device; a
// kind that fails keeps its error to itself.
//
// What is due is decided by when it was asked for: devices are read one after the other, and would drift
// apart, so that slow facts were due with one scrape of this device and with the next one of that, and
// everything that follows from both read twice.
func (ob *Observer) readParts(d *device, next *deviceFacts, want fabric.Want, policy *fabric.Policy, asked,
	now time.Time,
) error {
	for i, k := range kinds {
		if want&k.want == 0 {
			continue
		}
		p := &next.parts[i]
		due := due{restricted: policy.IsRestricted(d.name)}
		due.slow = p.slow.IsZero() || asked.Sub(p.slow) >= ob.o.SlowInterval
		due.rare = due.slow && (p.rare.IsZero() || asked.Sub(p.rare) >= ob.o.RareInterval)
		begin := time.Now()
		p.began = now
		p.err = k.read(d, &next.hca, due, now)
		p.took = time.Since(begin)
		d.reading.lane.progress()
		if gone(p.err) || p.err != nil && (k.source == "" || k.source == fabric.SourceHCA) {
			return p.err
		}
		if p.err == nil && due.slow {
			p.slow = asked
		}
		if p.err == nil && due.rare {
			p.rare = asked
		}
	}
	return nil
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
		d.reader, d.turns = reader, wrapTrackers{}
	}
	return err
}

func (d *device) readHCA(h *fabric.HCA, due due, now time.Time) error {
	if due.slow {
		if err := d.reader.Identify(h, due.restricted, now); err != nil {
			return err
		}
	}
	d.reader.Begin(h, now)
	if err := d.reader.ReadPorts(h, now); err != nil {
		return err
	}
	if due.slow {
		if err := d.reader.ReadPortDetails(h, now); err != nil {
			return err
		}
	}
	for i := range h.Ports {
		h.Ports[i].Remember()
	}
	return nil
}

func (d *device) readTrafficClass(h *fabric.HCA, due due, now time.Time) error {
	if !due.slow {
		return nil
	}
	return d.reader.ReadTrafficClass(h, now)
}

func (d *device) readGIDs(h *fabric.HCA, due due, now time.Time) error {
	before := make([]fabric.GIDTable, len(h.Ports))
	for i := range h.Ports {
		before[i] = h.Ports[i].GIDs
	}
	read := d.reader.ReadGIDs
	switch {
	case due.rare:
		read = d.reader.ScanGIDs
	case due.slow:
		read = d.reader.FindGIDs
	}
	if err := read(h, now); err != nil {
		r := fabric.ReasonOf(err)
		for i := range h.Ports {
			h.Ports[i].GIDs.Size, h.Ports[i].GIDs.Entries = fabric.UnknownFact[int](r, "", now),
				fabric.UnknownFact[[]fabric.GID](r, "", now)
		}
		return err
	}
	for i := range h.Ports {
		t := &h.Ports[i].GIDs
		t.Changes = before[i].Changes
		was, known := before[i].Entries.Get()
		if is, ok := t.Entries.Get(); ok && known {
			t.Changes += fabric.CountChanges(was, is)
		}
	}
	return nil
}

func (d *device) readCounters(h *fabric.HCA, due due, now time.Time) error {
	before := make([]fabric.Fact[[]fabric.Counter], len(h.Ports))
	for i := range h.Ports {
		before[i] = h.Ports[i].Counters.HW
	}
	err := errors.Join(d.reader.ReadPMA(h, due.slow, now), d.reader.ReadHWCounters(h, now))
	if err != nil {
		unknown := fabric.UnknownFact[[]fabric.Counter](fabric.ReasonOf(err), "", now)
		h.HWCounters = unknown
		for i := range h.Ports {
			h.Ports[i].Counters.PMA, h.Ports[i].Counters.HW = unknown, unknown
		}
		return err
	}
	d.turns.advance(h)
	for i := range h.Ports {
		if before[i].State == fabric.OK {
			h.Ports[i].Counters.BeforeHW = before[i]
		}
	}
	return nil
}

func (d *device) readCM(h *fabric.HCA, _ due, now time.Time) error {
	err := d.reader.ReadCM(h, now)
	if err != nil {
		for i := range h.Ports {
			h.Ports[i].Counters.CM = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonOf(err), "", now)
		}
	}
	return err
}

// assembleDevices makes a node of what was read of the devices.
func (l *look) assembleDevices() {
	n, fresh := l.n, since[classList](l.now, l.o.FastInterval)
	class, src := l.class.get(fabric.SourceClass, "", fresh)
	const path = "class/infiniband"
	n.ClassPresent = fabric.Known(class.present, path, l.now)
	switch {
	case !src.Up:
		n.ClassPresent = fabric.UnknownFact[bool](src.Reason, path, l.now)
	case class.odd != nil:
		src.Up, src.Reason, src.Err = false, fabric.ReasonOf(class.odd), class.odd
	}
	n.Sources = append(n.Sources, src)
	for _, name := range class.names {
		if !l.o.Devices.Allows(name) {
			n.Excluded = append(n.Excluded, name)
		}
	}
	devices := l.listed(l.now)
	n.HCAs = make([]fabric.HCA, 0, len(devices))
	n.Sources = slices.Grow(n.Sources, numKinds*len(devices))
	for _, d := range devices {
		l.asOf(d.assemble(n, l.want, l.fresh(l.now, l.want)))
	}
	n.HCAs = append(n.HCAs, l.elsewhere(class, l.site, l.now)...)
	slices.SortFunc(n.HCAs, func(a, b fabric.HCA) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(n.Sources, func(a, b fabric.Source) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Device, b.Device))
	})
}

// assemble adds the device to n and returns when the oldest read of what is wanted began.
func (d *device) assemble(n *fabric.Node, want fabric.Want,
	fresh func(deviceFacts, time.Time) bool,
) (oldest time.Time) {
	f, src := d.reading.get(fabric.SourceHCA, d.name, fresh)
	if errors.Is(src.Err, errGone) {
		return n.At // it left; the next listing will not have it
	}
	h := f.hca
	h.Name = d.name
	h.Ports = slices.Clone(h.Ports) // Derive writes into them
	if !src.Up {
		h = h.WithoutFacts(src.Reason, n.At)
	}
	n.HCAs = append(n.HCAs, h)
	n.Commands.Add(f.commands)
	for i, k := range kinds {
		if want&k.want == 0 {
			continue
		}
		s, p := src, f.parts[i]
		if oldest.IsZero() || p.began.Before(oldest) {
			oldest = p.began
		}
		if k.source == "" {
			continue
		}
		s.Name, s.Duration = k.source, p.took
		if s.Up && p.err != nil {
			s.Up, s.Reason, s.Err = false, fabric.ReasonOf(p.err), p.err
		}
		n.Sources = append(n.Sources, s)
	}
	return oldest
}
