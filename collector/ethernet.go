// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

// maxEthernet is how many series a network interface has at most of statistics with a meaning. A worst case of mlx5
// would have twice as many. Rows of priorities give way, those without PFC first and otherwise from the end of
// ethernetRows: pauses and losses come before amounts of traffic.
const maxEthernet = 59 // and one with the number of dropped ones

func hasEthernetPort(n *fabric.Node) (bool, string) {
	if ok, why := hasRDMA(n); !ok {
		return false, why
	}
	for i := range n.HCAs {
		for k := range n.HCAs[i].Ports {
			if _, ok := ethernetInterface(&n.HCAs[i].Ports[k]); ok {
				return true, ""
			}
		}
	}
	return false, "no RDMA port is Ethernet and has a network interface"
}

// ethernetInterface names the interface of a RoCE or iWARP port.
func ethernetInterface(p *fabric.Port) (string, bool) {
	name, ok := p.NetDev.Get()
	return name, ok && name != "" && p.LinkLayer.Or("") == fabric.LinkEthernet
}

func collectEthernet(n *fabric.Node, emit emit) {
	s := stats{emit: emit, rows: ethernetRows(), tallies: map[stat]tally{}, seen: map[string]bool{}}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		for k := range h.Ports {
			name, ok := ethernetInterface(&h.Ports[k])
			if !ok {
				continue
			}
			for _, d := range n.Physical(name) {
				s.labels = []string{h.Name, strconv.Itoa(h.Ports[k].Number), d.Name}
				s.compute = h.Ports[k].MayServe(fabric.RoleCompute)
				s.collect(d)
			}
		}
	}
}

// stats turns the statistics of one interface into series.
type stats struct {
	emit   emit
	rows   []ethernetRow
	labels []string // device, port, netdev
	// compute says that the port is for training, or may be.
	compute bool

	tallies map[stat]tally
	rest    []count             // without a meaning
	pfc     fabric.PriorityMask // priorities that have PFC
	used    fabric.PriorityMask // priorities that count anything
	series  int
	dropped int
	// Scratch of tally.
	seen  map[string]bool
	known []knownStat
}

// knownStat is a statistic with a meaning.
type knownStat struct {
	count
	stat
}

// stat is a meaning, of one priority if it is per priority.
type stat struct {
	meaning  counters.Meaning
	priority int
	older    bool // under the names of former drivers
}

// tally is what a list has of one stat.
type tally struct {
	names, known int
	sum          float64
	done         bool
}

func (s *stats) collect(d *fabric.NetDev) {
	s.pfc, s.used, s.series, s.dropped = d.QoS.PFC.Or(fabric.PFC{}).Enabled, 0, 0, 0
	s.tally(d.Driver.Or(""), &d.QoS)
	s.facts(d)
	for _, row := range s.rows {
		if !row.meaning.PerPriority() {
			s.row(row, counters.NoPriority)
		}
	}
	s.priorities(s.lossless)
	s.priorities(s.lossy)
	s.emitOthers()
	if s.dropped > 0 {
		s.emit(ethernetStatisticsDropped, float64(s.dropped), s.labels...)
	}
}

// tally adds up what means the same. Kernel names that add up do so only if all of the driver's table are there, and to
// nothing while one of them is unknown. What is about several priorities is left out.
func (s *stats) tally(driver string, q *fabric.QoS) {
	clear(s.tallies)
	clear(s.seen)
	s.rest, s.known = s.rest[:0], s.known[:0]
	list := q.Counters.Or(nil)
	for i := range list {
		v := &list[i]
		c := count{name: label(v.Name)}
		if s.seen[c.name] {
			continue
		}
		s.seen[c.name] = true
		c.value, c.known = reading(v)
		spec, ok := counters.StatSpecOf(driver, v.Name)
		if !ok {
			s.rest = append(s.rest, c)
			continue
		}
		if spec.OfClass && !q.OwnClass(spec.Priority) {
			continue
		}
		c.spec = spec.Spec
		key := stat{spec.Meaning, spec.Priority, spec.Older}
		s.known = append(s.known, knownStat{c, key})
		t := s.tallies[key]
		t.names++
		if c.known {
			t.known++
			t.sum += spec.InUnit(c.value)
		}
		s.tallies[key] = t
	}
	for _, m := range s.known {
		switch t := s.tallies[m.stat]; {
		case t.names != m.spec.Parts:
			s.rest = append(s.rest, m.count)
		case t.known == t.names:
			t.done = true
			s.tallies[m.stat] = t
			if t.sum > 0 && m.priority != counters.NoPriority {
				s.used |= 1 << m.priority
			}
		}
	}
}

// facts adds what ethtool has messages of its own for, if the driver has no statistic of it. The two are read at
// different times: a series that changed from one to the other could fall, which Prometheus takes for a reset.
func (s *stats) facts(d *fabric.NetDev) {
	pause, fec := d.QoS.Pause.Or(fabric.Pause{}), d.QoS.FEC.Or(fabric.FEC{})
	for m, fact := range map[counters.Meaning]fabric.Fact[uint64]{
		counters.StatLinkReceivedPauseFrames:    pause.Received,
		counters.StatLinkTransmittedPauseFrames: pause.Transmitted,
		counters.StatFECCorrectedBits:           fec.CorrectedBits,
		counters.StatFECCorrectedBlocks:         fec.CorrectedBlocks,
		counters.StatFECUncorrectableBlocks:     fec.UncorrectableBlocks,
	} {
		v, ok := fact.Get()
		if ok && d.Driver.State != fabric.Unknown && !counters.StatMeans(d.Driver.Value, m) {
			s.tallies[stat{m, counters.NoPriority, false}] = tally{sum: float64(v), done: true}
		}
	}
	if fec.Active != "" {
		s.series++
		s.emit(ethernetFECInfo, 1, append(slices.Clip(s.labels), fec.Active)...)
	}
}

// of returns the statistics with a meaning. Its former names count where the current ones are missing.
func (s *stats) of(m counters.Meaning, priority int) tally {
	if t := s.tallies[stat{m, priority, false}]; t.names > 0 || t.done {
		return t
	}
	return s.tallies[stat{m, priority, true}]
}

// row emits a row of the port, or of one priority of it.
func (s *stats) row(row ethernetRow, priority int) {
	t := s.of(row.meaning, priority)
	if !t.done || !s.compute && ofCompute(row.meaning) {
		return
	}
	if s.series == maxEthernet {
		s.dropped++
		return
	}
	labels := s.labels
	if priority != counters.NoPriority {
		labels = append(slices.Clip(labels), strconv.Itoa(priority))
	}
	s.series++
	s.emit(statFamilies[row.meaning], t.sum, labels...)
}

// priorities emits the rows of priorities that are wanted, the most interesting ones first.
func (s *stats) priorities(want func(m counters.Meaning, priority int) bool) {
	for _, row := range s.rows {
		for p := range fabric.NumPriorities {
			if row.meaning.PerPriority() && want(row.meaning, p) {
				s.row(row, p)
			}
		}
	}
}

// lossless wants all rows of the priorities that have PFC.
func (s *stats) lossless(_ counters.Meaning, priority int) bool { return s.pfc.Has(priority) }

// lossy wants of the other priorities what is not 0. Discards start from 0 for every priority that carries anything,
// because Prometheus does not see a counter that appears as an increase.
func (s *stats) lossy(m counters.Meaning, priority int) bool {
	worth := s.of(m, priority).sum > 0 || m == counters.StatPriorityDiscards && s.used.Has(priority)
	return worth && !s.pfc.Has(priority)
}

// emitOthers emits statistics under their own names: those that the user asked for.
func (s *stats) emitOthers() {
	passed := 0
	for _, c := range s.rest {
		switch {
		case !c.known:
		case passed == maxRaw:
			s.dropped++
		default:
			passed++
			s.emit(ethernetStatisticTotal, float64(c.value), append(slices.Clip(s.labels), c.name)...)
		}
	}
}
