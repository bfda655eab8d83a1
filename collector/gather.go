// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"fmt"

	dto "github.com/prometheus/client_model/go"

	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
)

// Gather returns the families of the set for a node, sorted by name. Families without series are left out.
//
// A Set is no prometheus.Collector: that has no context, and a registry would call it at a time and in a
// goroutine that the deadline of the scrape does not reach. The registry serves the Go runtime's own metrics
// only.
func (s *Set) Gather(n *fabric.Node, c ConfigState) []exposition.Family {
	return s.GatherAgain(new(Gathered), n, c)
}

// Gathered is the memory of a Gather. It belongs to one goroutine at a time.
type Gathered struct {
	rows     []exposition.Family // each family at its place
	families []exposition.Family
	errs     []error
}

// Err is what collectors did wrong in the last Gather: a mistake in this program. Their series are missing.
func (g *Gathered) Err() error { return errors.Join(g.errs...) }

// GatherAgain is Gather in memory that an earlier one used: what that returned is overwritten.
func (s *Set) GatherAgain(g *Gathered, n *fabric.Node, c ConfigState) []exposition.Family {
	if g.rows == nil {
		g.rows = make([]exposition.Family, len(catalogue))
	}
	for i := range g.rows {
		g.rows[i].Series, g.rows[i].Histograms = g.rows[i].Series[:0], g.rows[i].Histograms[:0]
	}
	out := sink{families: g.rows}
	g.errs = g.errs[:0]
	for _, c := range s.collectors {
		health := c.health(n)
		if err := out.run(&c, n); err != nil {
			g.errs = append(g.errs, fmt.Errorf("collector %s: %w", c.Name, err))
			health.Success = false
		}
		emitHealth(health, out.emit)
	}
	collectNode(n, out.emit)
	s.collectSources(n, out.emit)
	collectConfig(c, out.emit)
	if out.wrong != nil {
		g.errs = append(g.errs, out.wrong)
	}
	g.families = g.families[:0]
	for _, f := range g.rows {
		if len(f.Series) > 0 {
			g.families = append(g.families, f)
		}
	}
	return g.families
}

// sink keeps what is emitted in one Gather.
type sink struct {
	families []exposition.Family // each at its place
	begun    []*Family           // those that the collector in question has series of
	wrong    error               // what it emitted that is no series of a row
}

func (s *sink) emit(f *Family, v float64, labels ...string) {
	if f.head == nil || len(labels) != len(f.Labels) {
		s.wrong = f.mistake(labels)
		return
	}
	m := &s.families[f.place]
	if len(m.Series) == 0 {
		m.Head = f.head
		s.begun = append(s.begun, f)
	}
	if m.Series == nil {
		m.Series = make([]exposition.Series, 0, 8) // a usual number of ports
	}
	m.Series = append(m.Series, f.series(v, labels))
}

// run runs a collector. If it panics, or emits something that is not a series, none of its series are kept.
func (s *sink) run(c *collector, n *fabric.Node) (err error) {
	s.begun, s.wrong = s.begun[:0], nil
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err == nil {
			err = s.wrong
		}
		if s.wrong = nil; err == nil {
			return
		}
		for _, f := range s.begun {
			m := &s.families[f.place]
			m.Series, m.Histograms = m.Series[:0], m.Histograms[:0]
		}
	}()
	c.collect(n, s.emit)
	if c.histograms != nil {
		c.histograms(func(f *Family, h *dto.Histogram, labels ...string) {
			s.emit(f, 0, labels...)
			m := &s.families[f.place]
			m.Histograms = append(m.Histograms, h)
		})
	}
	return nil
}

// state emits a state set.
func state[S ~string](emit emit, f *Family, current S, all []S, labels ...string) {
	values := make([]string, 0, len(all)*(len(labels)+1))
	for _, s := range all {
		from := len(values)
		values = append(append(values, labels...), string(s))
		emit(f, bit(s == current), values[from:]...)
	}
}

// number emits a fact that is a number, if it is known.
func number[N int | uint64 | float64](emit emit, f *Family, fact fabric.Fact[N], labels ...string) {
	if v, ok := fact.Get(); ok {
		emit(f, float64(v), labels...)
	}
}

// boolean emits a fact that is true or false, if it is known.
func boolean(emit emit, f *Family, fact fabric.Fact[bool], labels ...string) {
	if v, ok := fact.Get(); ok {
		emit(f, bit(v), labels...)
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
