// SPDX-License-Identifier: Apache-2.0

package diagnose

import "gpufabric_exporter/internal/fabric"

// boardOf is what cards of one kind have in common: their board_id or, where the driver reports none, driver and hca_type.
// It is absent of what has neither, as software devices.
func boardOf(h *fabric.HCA) fabric.Fact[string] {
	if id, known := h.BoardID.Get(); h.BoardID.State == fabric.Unknown || known && id != "" {
		return h.BoardID
	}
	if h.Driver.State != fabric.OK {
		return h.Driver
	}
	if h.Type.State == fabric.Unknown {
		return h.Type
	}
	return fabric.Known(h.Driver.Value+" "+h.Type.Value, h.Driver.Source, h.Driver.At)
}

// sameBoard reports whether two devices are cards of one board. What has no board is of none.
func sameBoard(a, b *fabric.HCA) fabric.Fact[bool] {
	of, and := boardOf(a), boardOf(b)
	if a != b && (of.State == fabric.Absent || and.State == fabric.Absent) { // whatever the other is
		return fabric.Known(false, of.Source, of.At)
	}
	for _, f := range []fabric.Fact[string]{of, and} {
		if f.State == fabric.Unknown && a != b {
			return fabric.UnknownFact[bool](f.Meta().Reason, f.Source, f.At)
		}
	}
	return fabric.Known(a == b || of.State == fabric.OK && of.Value == and.Value, of.Source, of.At)
}
