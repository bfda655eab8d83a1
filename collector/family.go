// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"
	"unicode/utf8"

	"gpufabric_exporter/internal/exposition"
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

// Cadences, see package observer.
const (
	Fast   Cadence = "fast"   // read for the scrape, shared for 5 s
	Medium Cadence = "medium" // at most once in 10 s
	Slow   Cadence = "slow"   // at most once a minute
	Rare   Cadence = "rare"   // once an hour, and when a device comes or goes
	Probed Cadence = "probe"  // of the last probe, see its timestamps
	Config Cadence = "config" // set by the exporter's configuration
	Self   Cadence = "self"   // about the exporter itself
)

// Stability tells what may change between releases.
type Stability string

// Stabilities. Experimental is what shows names that drivers choose, what is off by default and, unless alerts of severity
// critical read it, what follows from how the exporter models other software: NCCL's choices, the RoCE chain, GPUDirect.
const (
	Stable       Stability = "stable"
	Experimental Stability = "experimental"
)

// Promise is a sentence on what may change.
func (s Stability) Promise() string {
	if s == Stable {
		return "Name, type, unit, labels and meaning stay the same until the next major version. Labels can get further values. Alerts of severity critical use stable metrics only."
	}
	return "The metric can change or disappear with any release; CHANGELOG says so."
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
	Collector string // whose flag switches it; empty: always on

	place int              // among all families, in the order of their names
	head  *exposition.Head // what scrapers see of it
}

// rows is how many families there are. It numbers them, by name.
var rows = func() int {
	all := Catalogue()
	slices.SortFunc(all, func(a, b *Family) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range all {
		f.place = i
		f.head = &exposition.Head{Name: f.FullName(), Help: f.Help, Unit: f.Unit, Counter: f.Type == Counter, Labels: f.Labels, Optional: trainingJob}
	}
	return len(all)
}()

// FullName is the name as it is exposed.
func (f *Family) FullName() string { return Prefix + f.Name }

// series returns a series of the family. Label values come from the kernel and from users: what is not UTF-8 is
// replaced, because Prometheus refuses a whole scrape for one bad byte.
func (f *Family) series(v float64, labels []string) exposition.Series {
	if len(labels) != len(f.Labels) {
		panic("collector: " + f.Name + " wants labels " + strings.Join(f.Labels, ","))
	}
	for i, l := range labels {
		if !utf8.ValidString(l) {
			labels[i] = strings.ToValidUTF8(l, "\uFFFD")
		}
	}
	return exposition.Series{Value: v, Labels: labels}
}
