// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"time"
)

// Metas iterates over everything that is read of the function, by name, without values.
func (f *PCIFunction) Metas() iter.Seq2[string, Meta] {
	return func(yield func(string, Meta) bool) {
		for _, m := range []struct {
			name string
			meta Meta
		}{
			{"vendor", f.Vendor.Meta()},
			{"device", f.Device.Meta()},
			{"class", f.Class.Meta()},
			{"subsystem_vendor", f.SubsystemVendor.Meta()},
			{"subsystem_device", f.SubsystemDevice.Meta()},
			{"driver", f.Driver.Meta()},
			{"physfn", f.PF.Meta()},
			{"numa_node", f.NUMANode.Meta()},
			{"iommu_group", f.IOMMUGroup.Meta()},
			{"iommu_type", f.IOMMUType.Meta()},
			{"runtime_status", f.Asleep.Meta()},
			{"current_link_speed", f.Link.Speed.Meta()},
			{"max_link_speed", f.Link.MaxSpeed.Meta()},
			{"current_link_width", f.Link.Width.Meta()},
			{"max_link_width", f.Link.MaxWidth.Meta()},
			{"aer_dev_correctable", f.AER.Correctable.Meta()},
			{"aer_dev_nonfatal", f.AER.NonFatal.Meta()},
			{"aer_dev_fatal", f.AER.Fatal.Meta()},
			{"max_payload", f.Config.MaxPayload.Meta()},
			{"max_read_request", f.Config.MaxReadRequest.Meta()},
			{"relaxed_ordering", f.Config.RelaxedOrdering.Meta()},
			{"no_snoop", f.Config.NoSnoop.Meta()},
			{"acs", f.Config.ACS.Meta()},
		} {
			if !yield(m.name, m.meta) {
				return
			}
		}
	}
}

// WithoutFacts returns a function at the same place of which nothing is known, for the given reason.
func (f *PCIFunction) WithoutFacts(r Reason, at time.Time) PCIFunction {
	const src = ""
	number, text, flag, count := NotKnown[int](r, src, at), NotKnown[string](r, src, at), NotKnown[bool](r, src, at), NotKnown[uint64](r, src, at)
	speed := NotKnown[float64](r, src, at)
	return PCIFunction{
		Address: f.Address, Kind: f.Kind, HCAs: f.HCAs, Root: f.Root, Bridges: f.Bridges,
		Vendor: number, Device: number, Class: number, SubsystemVendor: number, SubsystemDevice: number,
		Driver: text, PF: text, NUMANode: number, IOMMUGroup: number, IOMMUType: text, Asleep: flag,
		Link:   PCILink{Speed: speed, MaxSpeed: speed, Width: number, MaxWidth: number},
		AER:    PCIErrors{Correctable: count, NonFatal: count, Fatal: count},
		Config: UnknownPCIConfig(r, src, at),
	}
}

// UnknownPCIConfig is configuration space of which nothing is known.
func UnknownPCIConfig(r Reason, source string, at time.Time) PCIConfig {
	number, flag := NotKnown[int](r, source, at), NotKnown[bool](r, source, at)
	return PCIConfig{MaxPayload: number, MaxReadRequest: number, RelaxedOrdering: flag, NoSnoop: flag, ACS: NotKnown[ACS](r, source, at)}
}
