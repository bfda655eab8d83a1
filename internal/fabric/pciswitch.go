// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// OneSwitch reports whether two functions that are PXB from each other are below one switch to NCCL. Large switches of
// Broadcom show themselves as one switch above others, which NCCL takes together (ncclTopoFlattenBcmSwitches of
// graph/topo.cc). It is unknown while the ids of a switch are.
func (p *PCI) OneSwitch(a, b *PCIFunction, at time.Time) Fact[bool] {
	const source = "bus/pci/devices/*/subsystem_device"
	above, why := p.switchAbove(a)
	other, whyOther := p.switchAbove(b)
	if why := either(why, whyOther); why != "" {
		return UnknownFact[bool](why, source, at)
	}
	return Known(above == other && above != "", source, at)
}

// switchAbove returns the address of the switch that a function is directly below to NCCL, or the reason why
// that is unknown. NCCL goes up two bridges at a time, which are the ports of a switch.
func (p *PCI) switchAbove(f *PCIFunction) (address string, why Reason) {
	var takes broadcomSwitch // what the switch at address still takes in
	for i := len(f.Bridges) % 2; i < len(f.Bridges); i += 2 {
		top, below, reason := p.broadcom(f.Bridges[i])
		why = either(why, reason)
		if takes != 0 && below == takes {
			takes = 0 // one level of them
			continue
		}
		address, takes = f.Bridges[i], top
	}
	return address, why
}

// broadcomSwitch is a generation of PCIe; zero is no such switch.
type broadcomSwitch int

// broadcom returns of which switches a bridge may be the top, and of which a part (getBcmGen of graph/topo.cc).
func (p *PCI) broadcom(address string) (top, part broadcomSwitch, unknown Reason) {
	const lsi, pex88000, pex89000 = 0x1000, 0xc010, 0xc030
	f := p.Function(address)
	if f == nil {
		return 0, 0, ReasonNotRead
	}
	for _, id := range []Fact[int]{f.Vendor, f.SubsystemVendor} {
		if v, ok := id.Get(); ok && v != lsi {
			return 0, 0, ""
		}
	}
	for _, id := range []Fact[int]{f.Vendor, f.Device, f.SubsystemVendor, f.SubsystemDevice} {
		if id.State != OK {
			return 0, 0, either(id.Meta().Reason, ReasonMissing)
		}
	}
	switch model := f.SubsystemDevice.Value >> 12; {
	case f.Device.Value == pex88000 && model == 0xa:
		return 4, 4, ""
	case f.Device.Value == pex89000 && model == 0:
		return 5, 0, ""
	case f.Device.Value == pex89000 && model == 1:
		return 0, 5, ""
	}
	return 0, 0, ""
}
