// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
)

// Bus reads the PCI bus. It is called by one goroutine at a time and may block for ever, as a link does that is being
// reset. What it returns beside an error is to be used.
type Bus interface {
	// Read reads as much as what says. The rest it takes from last, unless the functions or these NICs are not the same.
	Read(last fabric.PCI, what fabric.PCIFacts, nics []pci.NIC, now time.Time) (fabric.PCI, error)
	Close() error
}

// pciFacts is one reading of the bus. It is replaced, never changed.
type pciFacts struct {
	pci   fabric.PCI
	links time.Time // when links and errors were read
	rare  time.Time // when everything was
}

// startPCI starts a read of the bus if one is due. No driver is asked, and nothing needs the rtnl lock: the
// bus has a lane of its own.
func (l *look) startPCI() {
	if l.bus == nil {
		return
	}
	nics, rare := l.nics(l.site), l.rareInterval(l.want)
	l.pciDone = l.pci.startIfStale(l.freshPCI(l.now, l.want), func(last pciFacts, now time.Time) (pciFacts, error) {
		next, what := last, fabric.PCIPlaces
		if l.want&fabric.WantPCI != 0 {
			next.links, what = now, fabric.PCILinks
		}
		if last.rare.IsZero() || now.Sub(last.rare) >= rare {
			next.links, next.rare, what = now, now, fabric.PCIEverything
		}
		var err error
		next.pci, err = l.bus.Read(last.pci, what, nics, now)
		return next, err
	})
}

// rareInterval is how old settings may be: an hour, but a minute for a caller with a reason to ask.
func (ob *Observer) rareInterval(want fabric.Want) time.Duration {
	if want&fabric.WantFreshPCI != 0 {
		return ob.o.SlowInterval
	}
	return ob.o.RareInterval
}

// freshPCI reports whether what is wanted is known well enough. The places of devices decide their roles; links are
// read for callers that ask for them, and so are settings.
func (ob *Observer) freshPCI(now time.Time, want fabric.Want) func(pciFacts, time.Time) bool {
	return func(v pciFacts, began time.Time) bool {
		return now.Sub(began) < ob.o.SlowInterval && now.Sub(v.rare) < ob.rareInterval(want) &&
			(want&fabric.WantPCI == 0 || now.Sub(v.links) < ob.o.SlowInterval)
	}
}

// assemblePCI waits for a read that startPCI started. While it hangs, where everything is stays known, and
// nothing else.
func (l *look) assemblePCI() {
	if l.bus == nil {
		return
	}
	l.pci.lane.wait(l.ctx, l.pciDone)
	v, src := sourced(l, l.pci, fabric.SourcePCI, l.freshPCI(l.now, l.want))
	l.n.PCI.Functions = v.pci.Functions
	if src.Since.IsZero() && src.Reason != fabric.ReasonPanic {
		return
	}
	l.n.PCI.Functions = make([]fabric.PCIFunction, 0, len(v.pci.Functions))
	for i := range v.pci.Functions {
		l.n.PCI.Functions = append(l.n.PCI.Functions, v.pci.Functions[i].WithoutFacts(src.Reason, l.now))
	}
}
