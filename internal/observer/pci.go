// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Bus reads the PCI bus. It is called by one goroutine at a time and may block for ever, as a link does that is being
// reset. What it returns beside an error is to be used.
type Bus interface {
	// Read reads what changes. The rest it takes from last, unless all is set or the functions are not the same.
	Read(last fabric.PCI, all bool, allowed func(device string) bool, now time.Time) (fabric.PCI, error)
	Close() error
}

// pciFacts is one reading of the bus. It is replaced, never changed.
type pciFacts struct {
	pci  fabric.PCI
	rare time.Time // when everything was read
}

// kickPCI starts a read of the bus if one is due, and returns what to wait for. No driver is asked, and nothing needs
// the rtnl lock: the bus has a lane of its own.
func (ob *Observer) kickPCI(now time.Time, want fabric.Want, policy *fabric.Policy) <-chan struct{} {
	if want&fabric.WantPCI == 0 || ob.bus == nil {
		return nil
	}
	allowed := func(device string) bool { return ob.o.Devices.Allows(device) && !policy.IsRestricted(device) }
	return ob.pci.kick(since[pciFacts](now, ob.o.SlowInterval), func(last pciFacts, now time.Time) (pciFacts, error) {
		next := last
		all := last.rare.IsZero() || now.Sub(last.rare) >= ob.o.RareInterval
		if all {
			next.rare = now
		}
		var err error
		next.pci, err = ob.bus.Read(last.pci, all, allowed, now)
		return next, err
	})
}

// assemblePCI waits for a read that kickPCI started. While it hangs, where everything is stays known, and nothing else.
func (ob *Observer) assemblePCI(ctx context.Context, n *fabric.Node, want fabric.Want, done <-chan struct{}) {
	if want&fabric.WantPCI == 0 || ob.bus == nil {
		return
	}
	if done != nil {
		ob.pci.lane.wait(ctx, done)
	}
	v, src := ob.pci.get(fabric.SourcePCI, "", since[pciFacts](n.At, ob.o.SlowInterval))
	n.Sources = append(n.Sources, src)
	n.PCI.Functions = v.pci.Functions
	if src.Since.IsZero() && src.Reason != fabric.ReasonPanic {
		return
	}
	n.PCI.Functions = make([]fabric.PCIFunction, 0, len(v.pci.Functions))
	for i := range v.pci.Functions {
		n.PCI.Functions = append(n.PCI.Functions, v.pci.Functions[i].WithoutFacts(src.Reason, n.At))
	}
}
