// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"time"
)

// LinkShortfall is a link that runs below what both of its ends can do.
type LinkShortfall struct {
	Upper, Lower    string // addresses of its ends
	Width, MaxWidth int
	Speed, MaxSpeed float64 // transfers per second and lane
	Narrow, Slow    bool
}

// Shortfalls returns the links between the root complex and a function that run below what both of their ends can
// do. A card that can do more than its slot is no shortfall. The speed is judged for NICs alone: the links of GPUs
// slow down while they are idle; GPUShortfalls has those that do not.
func (p *PCI) Shortfalls(f *PCIFunction, at time.Time) Fact[[]LinkShortfall] {
	const source = "current_link_* against max_link_*"
	var list []LinkShortfall
	var reason Reason
	path := p.path(f)
	// Ports and links alternate: root port and upstream port share a link, so do downstream port and endpoint, while
	// the inside of a switch is none.
	for i := 0; i < len(path); i += 2 {
		if i+1 == len(path) { // a hypervisor hides the other end
			reason = ReasonVirtual
			break
		}
		upper, lower := path[i], path[i+1]
		if upper == nil || lower == nil {
			reason = ReasonNotRead
			continue
		}
		s := LinkShortfall{Upper: upper.Address, Lower: lower.Address}
		var why Reason
		s.Width, s.MaxWidth, s.Narrow, why = below(lower.Link.Width, lower.Link.MaxWidth, upper.Link.MaxWidth)
		reason = either(reason, why)
		if f.Kind == PCINIC {
			s.Speed, s.MaxSpeed, s.Slow, why = below(lower.Link.Speed, lower.Link.MaxSpeed, upper.Link.MaxSpeed)
			reason = either(reason, why)
		}
		if s.Narrow || s.Slow {
			list = append(list, s)
		}
	}
	if len(list) == 0 && reason != "" {
		return UnknownFact[[]LinkShortfall](reason, source, at)
	}
	return Known(list, source, at)
}

// below compares what a link does with what its ends can do. The reason says why that is unknown.
func below[T int | float64](now, lower, upper Fact[T]) (does, can T, short bool, why Reason) {
	if now.State == Absent { // a virtual function uses the link of its physical one
		return 0, 0, false, ""
	}
	does, ok := now.Get()
	if !ok {
		return 0, 0, false, now.Meta().Reason
	}
	for _, m := range []Fact[T]{lower, upper} {
		if v, ok := m.Get(); ok && does >= v { // the other end can do no better
			return does, v, false, ""
		}
	}
	for _, m := range []Fact[T]{lower, upper} {
		if m.State != OK {
			return does, 0, false, either(m.Meta().Reason, ReasonMissing)
		}
	}
	return does, min(lower.Value, upper.Value), true, ""
}

// pcieSpeeds are the transfers per second and lane of the generations of PCIe, from the first on.
var pcieSpeeds = [...]float64{2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9, 128e9}

// GPUShortfalls adds to Shortfalls the link of a GPU that is slow though the GPU is at work, going by what its driver
// reports about it (g, nil if it says nothing). The driver's generation and utilization must be of one
// reading: the kernel's speed of the link is up to a minute old, and a GPU may have been idle then.
func (p *PCI) GPUShortfalls(f *PCIFunction, g *GPU, at time.Time) Fact[[]LinkShortfall] {
	list := p.Shortfalls(f, at)
	speed, maximum, slow := g.slowUnderLoad()
	if !slow {
		return list
	}
	s := LinkShortfall{
		Lower: f.Address, Speed: speed, MaxSpeed: maximum, Slow: true, Width: f.Link.Width.Or(0),
		MaxWidth: f.Link.MaxWidth.Or(0),
	}
	if len(f.Bridges) > 0 {
		s.Upper = f.Bridges[len(f.Bridges)-1]
	}
	found := slices.Clone(list.Or(nil))
	if i := slices.IndexFunc(found, func(o LinkShortfall) bool { return o.Lower == f.Address }); i >= 0 {
		found[i].Speed, found[i].MaxSpeed, found[i].Slow = speed, maximum, true
	} else {
		found = append(found, s)
	}
	return Known(found, "current_link_* against max_link_*; nvmlDeviceGetCurrPcieLinkGeneration", at)
}

// GPUUnderLoad is the utilization from which on a GPU counts as working. Little of it comes from monitoring too, which
// does not make the driver raise the speed of the link.
const GPUUnderLoad = 0.5

// slowUnderLoad reports whether the link of a busy GPU is of a lower generation than GPU and slot can do.
func (g *GPU) slowUnderLoad() (speed, maximum float64, slow bool) {
	if g == nil {
		return 0, 0, false
	}
	now, ok := g.PCIeGeneration.Get()
	can, known := g.PCIeMaxGen.Get()
	if !ok || !known || g.Utilization.Or(0) < GPUUnderLoad || !g.PCIeGeneration.At.Equal(g.Utilization.At) {
		return 0, 0, false
	}
	if now < 1 || now >= can || can > len(pcieSpeeds) {
		return 0, 0, false
	}
	return pcieSpeeds[now-1], pcieSpeeds[can-1], true
}

func either(a, b Reason) Reason {
	if a != "" {
		return a
	}
	return b
}

// Errors adds up what was counted at a function and at all bridges above it: errors of a link often show at its
// other end. What does not count errors at all is left out.
func (p *PCI) Errors(f *PCIFunction, at time.Time) PCIErrors {
	path := p.path(f)
	sum := func(of func(*PCIErrors) *Fact[uint64]) Fact[uint64] {
		total := *of(&f.AER)
		if total.State != OK {
			return total
		}
		for _, b := range path[:len(path)-1] {
			if b == nil {
				return UnknownFact[uint64](ReasonNotRead, total.Source, at)
			}
			c := of(&b.AER)
			switch {
			case c.State == OK:
				total.Value += c.Value
			case c.Reason != ReasonMissing: // without its share the sum would go backwards
				return *c
			}
		}
		return total
	}
	return PCIErrors{
		Correctable: sum(func(e *PCIErrors) *Fact[uint64] { return &e.Correctable }),
		NonFatal:    sum(func(e *PCIErrors) *Fact[uint64] { return &e.NonFatal }),
		Fatal:       sum(func(e *PCIErrors) *Fact[uint64] { return &e.Fatal }),
	}
}
