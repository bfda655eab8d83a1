// SPDX-License-Identifier: Apache-2.0

package simulator

// Counter grows with the steps of a tree, while the link it counts on is up.
type Counter struct {
	Start, PerStep uint64
	Every          int  // steps in which it grows by PerStep; 0: one
	Bits           int  // its width; 0: 64
	Sticks         bool // at the greatest value, as PMA counters do; others wrap
}

// Statistic is a counter of an RDMA device or port, under the name that its driver gives it.
type Statistic struct {
	Name string
	Counter
}

// Statistic returns the PMA or hardware counter of that name, or nil.
func (p *Port) Statistic(name string) *Statistic {
	is := func(s Statistic) bool { return s.Name == name }
	if s := lookup(p.PMA, is); s != nil {
		return s
	}
	return lookup(p.HW, is)
}

// at returns the counter after that many steps with a link.
func (c Counter) at(steps int) Counter {
	c.Start += uint64(steps/max(1, c.Every)) * c.PerStep
	return c
}

// plus adds counters.
func (c Counter) plus(o Counter) Counter {
	return Counter{Start: c.Start + o.Start, PerStep: c.PerStep + o.PerStep}
}

// times returns a counter of parts, each of which this one counts as a whole.
func (c Counter) times(parts uint64) Counter {
	return Counter{Start: c.Start * parts, PerStep: c.PerStep * parts}
}

// per returns a counter of what consists of that many of these.
func (c Counter) per(parts uint64) Counter {
	return Counter{Start: c.Start / parts, PerStep: c.PerStep / parts}
}

// weighing returns a counter of the bytes of what this one counts, at that many each.
func (c Counter) weighing(bytes uint64) Counter {
	c.Start, c.PerStep = c.Start*bytes, c.PerStep*bytes
	return c
}

// value is what a driver prints.
func (c Counter) value() uint64 {
	if c.Bits == 0 {
		return c.Start
	}
	greatest := uint64(1)<<c.Bits - 1
	if c.Sticks {
		return min(c.Start, greatest)
	}
	return c.Start & greatest
}
