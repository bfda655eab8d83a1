// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Prefix begins the name of every family.
const Prefix = "gpufabric_"

// Type is the type of a family.
type Type string

// Types. A state set is a gauge per state, 1 for the current one, with all states present; info is a gauge
// that is always 1.
const (
	Gauge    Type = "gauge"
	Counter  Type = "counter"
	Info     Type = "info"
	StateSet Type = "stateset"
)

// Cadence tells how old a value can be.
type Cadence string

// Cadences, see docs/DESIGN.md.
const (
	Fast   Cadence = "fast"   // read for the scrape, shared for 5 s
	Slow   Cadence = "slow"   // at most once a minute
	Config Cadence = "config" // set by the exporter's configuration
	Self   Cadence = "self"   // about the exporter itself
)

// Stability tells what may change between releases.
type Stability string

// Stabilities.
const (
	Stable       Stability = "stable"
	Experimental Stability = "experimental"
)

// Family is a row of the catalogue: everything there is to say about a metric but its values.
type Family struct {
	Name      string // without Prefix
	Type      Type
	Unit      string // base unit, the suffix of the name; empty: none
	Labels    []string
	Help      string
	Source    string // kernel file, netlink attribute or flag that it comes from
	Cadence   Cadence
	Privilege string // empty: none
	Stability Stability
	Collector string // whose flag switches it; empty: always on
}

// FullName is the name as it is exposed.
func (f *Family) FullName() string { return Prefix + f.Name }

// metrics gathers the metrics of one family.
type metrics struct {
	family *Family
	proto  *dto.MetricFamily
	names  []*string // of the labels, sorted
	order  []int     // names[i] is the name of label order[i] of the family
}

func newMetrics(f *Family) *metrics {
	m := &metrics{family: f, proto: &dto.MetricFamily{}}
	name, help, typ := f.FullName(), f.Help, dto.MetricType_GAUGE
	if f.Type == Counter {
		typ = dto.MetricType_COUNTER
	}
	m.proto.Name, m.proto.Help, m.proto.Type = &name, &help, &typ
	if f.Unit != "" {
		unit := f.Unit
		m.proto.Unit = &unit
	}
	for i := range f.Labels {
		m.order = append(m.order, i)
	}
	slices.SortFunc(m.order, func(a, b int) int { return strings.Compare(f.Labels[a], f.Labels[b]) })
	for _, i := range m.order {
		m.names = append(m.names, &f.Labels[i])
	}
	return m
}

// add appends a series. Label values come from the kernel and from users: what is not UTF-8 is replaced,
// because Prometheus refuses a whole scrape for one bad byte.
func (m *metrics) add(mem *memory, v float64, labels []string) {
	if len(labels) != len(m.order) {
		panic("collector: " + m.family.Name + " wants labels " + strings.Join(m.family.Labels, ","))
	}
	s := mem.metrics.new()
	s.Label = mem.lists.take(len(labels))
	for i, at := range m.order {
		value := mem.strings.new()
		*value = strings.ToValidUTF8(labels[at], "\uFFFD")
		pair := mem.pairs.new()
		pair.Name, pair.Value = m.names[i], value
		s.Label[i] = pair
	}
	number := mem.numbers.new()
	*number = v
	if m.family.Type == Counter {
		s.Counter = mem.counters.new()
		s.Counter.Value = number
	} else {
		s.Gauge = mem.gauges.new()
		s.Gauge.Value = number
	}
	m.proto.Metric = append(m.proto.Metric, s)
}

// memory gives out what the series of one scrape are made of. A series is nine small objects; taken one by one
// from the heap they would cost more than everything else a collector does.
type memory struct {
	metrics  slab[dto.Metric]
	lists    slab[*dto.LabelPair]
	pairs    slab[dto.LabelPair]
	strings  slab[string]
	numbers  slab[float64]
	gauges   slab[dto.Gauge]
	counters slab[dto.Counter]
}

// slab takes objects from the heap many at a time.
type slab[T any] struct{ free []T }

const slabSize = 256

func (s *slab[T]) take(n int) []T {
	if len(s.free) < n {
		s.free = make([]T, max(n, slabSize))
	}
	list := s.free[:n:n]
	s.free = s.free[n:]
	return list
}

func (s *slab[T]) new() *T { return &s.take(1)[0] }
