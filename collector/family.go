// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
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
	// Histogram has classic and native buckets.
	Histogram Type = "histogram"
)

// Cadence returns how old a value can be.
type Cadence string

// Cadences, see package observer.
const (
	Fast   Cadence = "fast"   // read for the scrape, shared for 5 s
	Medium Cadence = "medium" // at most once in 10 s
	Slow   Cadence = "slow"   // at most once a minute
	Rare   Cadence = "rare"   // once an hour, when a device comes or goes, and after a slow probe
	Probed Cadence = "probe"  // of the last probe, see its timestamps
	Config Cadence = "config" // set by the exporter's configuration
	Self   Cadence = "self"   // about the exporter itself
)

// Stability returns what may change between releases.
type Stability string

// Stabilities. Experimental is what shows names that drivers choose, what is off by default and, unless
// alerts of severity critical read it, what follows from how the exporter models other software: NCCL's
// choices, the RoCE chain, GPUDirect.
const (
	Stable       Stability = "stable"
	Experimental Stability = "experimental"
)

// Promise is a sentence on what may change.
func (s Stability) Promise() string {
	if s == Stable {
		return "Name, type, unit, labels and meaning stay the same until the next major version. Labels can get new values. Alerts of severity critical use only stable metrics."
	}
	return "The metric can change or disappear in any release; CHANGELOG documents it."
}

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
	Collector string // whose flag switches it, of the collector that lists it; empty: always on

	place int              // among all families, in the order of their names
	head  *exposition.Head // what scrapers see of it
}

// catalogue has every row once: what is always on, and what each collector lists. It numbers the rows by name.
var catalogue = func() []*Family {
	all := slices.Concat(healthFamilies(), nodeFamilies(), clusterFamilies())
	for _, c := range collectors() {
		for _, f := range c.families {
			f.Collector = c.Name
		}
		all = append(all, c.families...)
	}
	byName := slices.SortedFunc(slices.Values(all), func(a, b *Family) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range byName {
		f.place = i
		f.head = &exposition.Head{
			Name: f.FullName(), Help: f.Help, Unit: f.Unit, Counter: f.Type == Counter, Histogram: f.Type == Histogram,
			Labels: f.Labels, Optional: trainingJob,
		}
	}
	return all
}()

// Catalogue returns every row, in the order of documentation. The rows are read-only.
func Catalogue() []*Family { return slices.Clone(catalogue) }

// FullName is the name as it is exposed.
func (f *Family) FullName() string { return Prefix + f.Name }

// series returns a series of the family. Label values come from the kernel and from users: what is not UTF-8 is
// replaced, because Prometheus refuses a whole scrape for one bad byte.
func (f *Family) series(v float64, labels []string) exposition.Series {
	for i, l := range labels {
		if !utf8.ValidString(l) {
			labels[i] = strings.ToValidUTF8(l, "\uFFFD")
		}
	}
	return exposition.Series{Value: v, Labels: labels}
}

// mistake says why values of labels make no series of the family.
func (f *Family) mistake(labels []string) error {
	if f.head == nil {
		return fmt.Errorf("%s is emitted, but is in no list of rows", f.Name)
	}
	return fmt.Errorf("%s wants the labels (%s), not %d values", f.Name, strings.Join(f.Labels, ", "), len(labels))
}

// valueOf is a metric that has one value for each T: its row, and its value with whether that is known. One
// that is not known has no series.
type valueOf[T any] struct {
	*Family
	value func(of *T) (float64, bool)
}

// emitValues emits what is known of one T.
func emitValues[T any](emit emit, metrics []valueOf[T], of *T, labels ...string) {
	for i := range metrics {
		if v, known := metrics[i].value(of); known {
			emit(metrics[i].Family, v, labels...)
		}
	}
}

// familiesOf are the rows of a table of values.
func familiesOf[T any](metrics []valueOf[T]) []*Family {
	var list []*Family
	for _, m := range metrics {
		list = append(list, m.Family)
	}
	return list
}

// amount is the value of a fact that is a number.
func amount[N int | uint64 | float64](f fabric.Fact[N]) (float64, bool) {
	v, known := f.Get()
	return float64(v), known
}

// truth is the value of a fact that is true or false.
func truth(f fabric.Fact[bool]) (float64, bool) {
	v, known := f.Get()
	return bit(v), known
}
