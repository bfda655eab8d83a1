// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"maps"
	"slices"
	"time"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

// netDevs is one reading of all network interfaces. They are read one after the other in one lane, because they
// share the kernel's rtnl lock. It is replaced, never changed.
type netDevs struct {
	asked    netNames
	devs     []fabric.NetDev                 // what was asked for, and what is below it
	began    time.Time                       // when the interfaces themselves were read
	detailed bool                            // with their MTU and driver, for callers that ask for physical interfaces
	err      error                           // of that read: the source is down until the next one succeeds
	all      fabric.Fact[[]fabric.Interface] // for who asks for NCCL, which chooses from them
	listed   time.Time
	parts    [numPhysicalKinds]physicalPart
	commands fabric.Commands
}

// netNames are interfaces that RDMA ports and their GIDs name.
type netNames struct {
	all      []string
	ethernet []string // those of Ethernet ports that may be asked about
}

func (a netNames) equal(b netNames) bool {
	return slices.Equal(a.all, b.all) && slices.Equal(a.ethernet, b.ethernet)
}

// physicalPart is the state of one kind of facts of the physical interfaces.
type physicalPart struct {
	began time.Time       // zero: not read yet
	of    map[string]part // by interface
}

// physicalReader reads facts of physical interfaces. It is used in the lane of the interfaces only.
type physicalReader struct {
	ethernet Ethernet         // nil: the drivers cannot be asked
	meters   map[string]meter // by interface
}

// meter has what continues the counters of one interface.
type meter struct {
	instance uint32 // Ethernet.Instance
	turns    wrapTrackers
}

const numPhysicalKinds = 3

// physicalKinds are the kinds of facts that the driver of a physical interface is asked for.
var physicalKinds = [numPhysicalKinds]struct {
	want   fabric.Want
	source string
	medium bool // else slow
	read   func(ob *Observer, d *fabric.NetDev, now time.Time) error
}{
	{fabric.WantQoS, fabric.SourceQoS, false, (*Observer).readQoS},
	{fabric.WantNetStats, fabric.SourceNetStats, true, (*Observer).readStatistics},
	{fabric.WantDCQCN, fabric.SourceDCQCN, false, (*Observer).readParameters},
}

const wantPhysical = fabric.WantQoS | fabric.WantNetStats | fabric.WantDCQCN

// observeNetDevs reads the network interfaces that the ports and GIDs of n name. They are read again with
// every rate, so that the two that are compared are of one age.
func (l *look) observeNetDevs() {
	ob, n, now, want := l.Observer, l.n, l.now, l.want
	asked, newest := netDevNames(n)
	same := func(v netDevs) bool {
		return ob.young(v.began, now, false) && !v.began.Before(newest) && v.asked.equal(asked) &&
			(v.detailed || want&wantPhysical == 0)
	}
	fresh := func(v netDevs, _ time.Time) bool {
		if want&fabric.WantNCCL != 0 && !ob.young(v.listed, now, false) {
			return false
		}
		for i, k := range physicalKinds {
			if want&k.want != 0 && !ob.young(v.parts[i].began, now, k.medium) {
				return false
			}
		}
		return same(v)
	}
	ob.netdevs.refresh(l.ctx, fresh, func(last netDevs, at time.Time) (netDevs, error) {
		return ob.readNetDevs(last, same(last), asked, want, at)
	})
	v, src := ob.netdevs.get(fabric.SourceNetDev, "", fresh)
	if src.Reason == fabric.ReasonStuck {
		src.Reason = fabric.ReasonRTNLStuck
	}
	n.Sources = append(n.Sources, src)
	n.Commands.Add(v.commands)
	failed := !src.Since.IsZero() || src.Reason == fabric.ReasonPanic
	if failed {
		for _, name := range asked.all {
			n.NetDevs = append(n.NetDevs, fabric.UnknownNetDev(name, src.Reason, now))
		}
		n.Interfaces = fabric.UnknownFact[[]fabric.Interface](src.Reason, "", now)
	} else {
		n.NetDevs, n.Interfaces = v.devs, v.all
	}
	below := asked.ethernet
	if !failed {
		below = physicalBelow(asked.ethernet, v.devs)
	}
	for i, k := range physicalKinds {
		if want&k.want == 0 {
			continue
		}
		for _, name := range below {
			p := v.parts[i].of[name]
			s := fabric.Source{Name: k.source, Device: name, Up: true, Duration: p.took}
			if failed {
				s.Up, s.Reason, s.Err, s.Since = false, src.Reason, src.Err, src.Since
			} else if p.err != nil {
				s.Up, s.Reason, s.Err = false, fabric.ReasonOf(p.err), p.err
			}
			n.Sources = append(n.Sources, s)
		}
	}
}

// young reports whether what was read at began need not be read again.
func (ob *Observer) young(began, now time.Time, medium bool) bool {
	age := ob.o.SlowInterval
	if medium {
		age = ob.o.MediumInterval
	}
	return !began.IsZero() && now.Sub(began) < age
}

// netDevNames names the interfaces of n, and returns when the newest rate was read. Of a restricted device
// nothing but its identity is read, which goes for its interfaces too.
func netDevNames(n *fabric.Node) (names netNames, newestRate time.Time) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			p := &h.Ports[k]
			if p.Rate.At.After(newestRate) {
				newestRate = p.Rate.At
			}
			if p.NetDevMoved() { // its GIDs name interfaces as they are called elsewhere
				continue
			}
			name, ok := p.NetDev.Get()
			if ok {
				names.all = append(names.all, name)
			}
			if ok && p.LinkLayer.Or("") == fabric.LinkEthernet && !h.Restricted.Or(false) {
				names.ethernet = append(names.ethernet, name)
			}
			for _, g := range p.GIDs.Entries.Or(nil) {
				if g.NetDev != "" {
					names.all = append(names.all, g.NetDev)
				}
			}
		}
	}
	slices.Sort(names.all)
	slices.Sort(names.ethernet)
	names.all, names.ethernet = slices.Compact(names.all), slices.Compact(names.ethernet)
	return names, newestRate
}

// physicalBelow returns the physical interfaces at the bottom of these, sorted. A bond or VLAN has no queues of its
// own; what its members do counts.
func physicalBelow(names []string, devs []fabric.NetDev) []string {
	var physical []string
	n := fabric.Node{NetDevs: devs}
	for _, name := range names {
		for _, d := range n.Physical(name) {
			physical = append(physical, d.Name)
		}
	}
	slices.Sort(physical)
	return slices.Compact(physical)
}

// readNetDevs reads the interfaces, unless their last reading is still good, and those kinds of facts of
// physical interfaces that are due.
func (ob *Observer) readNetDevs(last netDevs, good bool, asked netNames, want fabric.Want, now time.Time) (netDevs,
	error,
) {
	next := last
	if good {
		next.devs = slices.Clone(last.devs)
	} else {
		next.asked, next.began, next.detailed = asked, now, want&wantPhysical != 0 || ob.physicalWanted(last, now)
		next.devs, next.err = ob.host.NetDevs(asked.all, next.detailed, now)
		ob.netdevs.lane.progress()
		if !inherit(next.devs, last.devs) {
			next.parts = [numPhysicalKinds]physicalPart{} // an interface is new
		}
	}
	if want&fabric.WantNCCL != 0 && !ob.young(last.listed, now, false) {
		next.all, next.listed = ob.host.Interfaces(now), now
	}
	names := physicalBelow(asked.ethernet, next.devs)
	for i, k := range physicalKinds {
		if want&k.want == 0 || ob.young(next.parts[i].began, now, k.medium) {
			continue
		}
		p := physicalPart{began: now, of: map[string]part{}}
		for j := range next.devs {
			if d := &next.devs[j]; slices.Contains(names, d.Name) {
				begin := time.Now()
				err := k.read(ob, d, now)
				p.of[d.Name] = part{took: time.Since(begin), err: err}
				ob.netdevs.lane.progress()
			}
		}
		next.parts[i] = p
	}
	maps.DeleteFunc(ob.physical.meters, func(name string, _ meter) bool { return !slices.Contains(names, name) })
	next.commands = maps.Clone(ob.host.Commands())
	if ob.physical.ethernet != nil {
		next.commands.Add(ob.physical.ethernet.Commands())
	}
	return next, next.err
}

// physicalWanted reports whether facts of physical interfaces were read recently. If another caller then
// read the interfaces without them, the next caller that needs them would read all interfaces again.
func (ob *Observer) physicalWanted(last netDevs, now time.Time) bool {
	return slices.ContainsFunc(last.parts[:], func(p physicalPart) bool { return ob.young(p.began, now, false) })
}

// inherit gives the interfaces what was read of their predecessors, and reports whether all had one.
func inherit(devs, last []fabric.NetDev) bool {
	all := true
	for i := range devs {
		k := slices.IndexFunc(last, func(d fabric.NetDev) bool { return d.Name == devs[i].Name })
		if k < 0 {
			all = false
			continue
		}
		devs[i].QoS = last[k].QoS
	}
	return all
}

// readQoS reads what files and the driver say. Files that only some drivers have are asked for whether or not the
// driver answers.
func (ob *Observer) readQoS(d *fabric.NetDev, now time.Time) error {
	fromFiles := ob.host.ReadQoS(d.Name, &d.QoS, now)
	if ob.physical.ethernet == nil {
		d.QoS.ForgetAnswers(fabric.ReasonMissing, now)
		return fromFiles
	}
	d.QoS.ForgetAnswers(fabric.ReasonNotRead, now) // what was true a minute ago must not outlive a driver that fails
	err := ob.physical.ethernet.ReadQoS(d.Name, &d.QoS, now)
	if err != nil && d.QoS.PFC.Meta().Reason == fabric.ReasonNotRead {
		d.QoS.ForgetAnswers(fabric.ReasonOf(err), now)
	}
	return errors.Join(fromFiles, err)
}

const sourceStatistics = "ETHTOOL_GSTATS"

// readStatistics reads the statistics that mean something, and those that the user asked for. Where nothing is
// wanted the driver is not asked: it would ask its firmware for all there are.
func (ob *Observer) readStatistics(d *fabric.NetDev, now time.Time) error {
	before := d.QoS.Counters
	wanted := counters.StatWanted(d.Driver.Or(""))
	if ob.physical.ethernet == nil || wanted == nil && ob.o.Statistics == nil {
		d.QoS.Counters = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonMissing, sourceStatistics, now)
		return nil
	}
	list, err := ob.physical.ethernet.Statistics(d.Name, func(name string) bool {
		return wanted != nil && wanted(name) || ob.o.Statistics != nil && ob.o.Statistics.MatchString(name)
	}, now)
	if err != nil {
		d.QoS.Counters = fabric.UnknownFact[[]fabric.Counter](fabric.ReasonOf(err), sourceStatistics, now)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	}
	m, known := ob.physical.meters[d.Name]
	if instance := ob.physical.ethernet.Instance(d.Name); !known || m.instance != instance { // the driver was loaded again
		m = meter{instance, wrapTrackers{}}
		ob.physical.meters[d.Name] = m
		before, d.QoS.Before = fabric.Fact[[]fabric.Counter]{}, fabric.Fact[[]fabric.Counter]{}
	}
	m.turns.list(list, counterListKey{driver: d.Driver.Or("")}, func(name string) (counters.Spec, bool) {
		s, ok := counters.StatSpecOf(d.Driver.Or(""), name)
		return s.Spec, ok
	})
	d.QoS.Counters = fabric.Known(list, sourceStatistics, now)
	if before.State == fabric.OK {
		d.QoS.Before = before
	}
	return nil
}

func (ob *Observer) readParameters(d *fabric.NetDev, now time.Time) error {
	return ob.host.ReadCongestionParameters(d.Name, &d.QoS, now)
}
