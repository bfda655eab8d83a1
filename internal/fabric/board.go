// SPDX-License-Identifier: Apache-2.0

package fabric

import "fmt"

// Board is what cards of one kind have in common: board_id or, where the driver reports none, the IDs of the
// PCI function. What drivers show as hca_type does not tell: of ionic and bnxt_re it is the node description,
// which anybody who may write it can change.
type Board struct {
	ID                               string // PSID
	Vendor, Device                   int
	SubsystemVendor, SubsystemDevice int
}

// String is how people know it.
func (b Board) String() string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("%04x:%04x (%04x:%04x)", b.Vendor, b.Device, b.SubsystemVendor, b.SubsystemDevice)
}

// Board returns the board of a device. It is absent of what has none, as software devices.
func (n *Node) Board(h *HCA) Fact[Board] {
	id, known := h.BoardID.Get()
	address, onBus := h.PCI.Get()
	switch {
	case known && id != "":
		return Known(Board{ID: id}, h.BoardID.Source, h.BoardID.At)
	case h.BoardID.State == Unknown:
		return unknownLike[Board](h.BoardID.Meta())
	case h.PCI.State == Absent:
		return AbsentFact[Board](h.PCI.Source, h.PCI.At)
	case !onBus:
		return unknownLike[Board](h.PCI.Meta())
	}
	f := n.PCI.Function(address)
	if f == nil {
		return UnknownFact[Board](ReasonNotRead, "bus/pci/devices", n.At)
	}
	for _, id := range []*Fact[int]{&f.Vendor, &f.Device, &f.SubsystemVendor, &f.SubsystemDevice} {
		if id.State == Unknown {
			return unknownLike[Board](id.Meta())
		}
	}
	of := Board{
		Vendor: f.Vendor.Value, Device: f.Device.Value, SubsystemVendor: f.SubsystemVendor.Value,
		SubsystemDevice: f.SubsystemDevice.Value,
	}
	return Known(of, f.Device.Source, f.Device.At)
}

// SameBoard reports whether two devices are cards of one board. What has no board is of none.
func (n *Node) SameBoard(a, b *HCA) Fact[bool] {
	of := n.Board(a)
	if a == b {
		return Known(true, of.Source, n.At)
	}
	and := n.Board(b)
	switch {
	case of.State == Absent || and.State == Absent: // whatever the other is
		return Known(false, of.Source, n.At)
	case of.State == Unknown:
		return unknownLike[bool](of.Meta())
	case and.State == Unknown:
		return unknownLike[bool](and.Meta())
	}
	return Known(of.Value == and.Value, of.Source, n.At)
}
