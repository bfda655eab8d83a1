// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

var now = time.Unix(1_700_000_000, 0)

// space is configuration space with a PCI Express capability behind another one, and ACS behind another extended one.
func space(deviceControl, acs uint16) []byte {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint16(b, 0x15b3)
	b[statusRegister] = hasCapList
	b[firstCap] = 0x40
	b[0x40], b[0x41] = 0x05, 0x60 // MSI
	b[0x60] = capExpress
	binary.LittleEndian.PutUint16(b[0x60+expressDevCtl:], deviceControl)
	binary.LittleEndian.PutUint32(b[0x100:], 0x150<<20|1<<16|0x01) // AER
	binary.LittleEndian.PutUint32(b[0x150:], 1<<16|extendedACS)
	binary.LittleEndian.PutUint16(b[0x150+acsControl:], acs)
	return b
}

func TestParseConfig(t *testing.T) {
	edited := func(edit func(b []byte)) []byte {
		b := space(0x5936, 0x1d)
		edit(b)
		return b
	}
	const unknown = fabric.Unknown
	type want struct {
		express, acs             fabric.State
		expressReason, acsReason fabric.Reason
	}
	for name, c := range map[string]struct {
		b []byte
		want
	}{
		"all":                    {space(0x5936, 0x1d), want{fabric.OK, fabric.OK, "", ""}},
		"unprivileged":           {space(0, 0)[:64], want{unknown, unknown, fabric.ReasonPrivilege, fabric.ReasonPrivilege}},
		"legacy access":          {space(0, 0)[:256], want{fabric.OK, unknown, "", fabric.ReasonMissing}},
		"truncated header":       {space(0, 0)[:63], want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"empty":                  {nil, want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"truncated":              {space(0, 0)[:0x152], want{fabric.OK, unknown, "", fabric.ReasonMalformed}},
		"truncated ACS":          {space(0, 0)[:0x156], want{fabric.OK, unknown, "", fabric.ReasonMalformed}},
		"no capabilities":        {edited(func(b []byte) { b[statusRegister] = 0 }), want{fabric.Absent, fabric.Absent, "", ""}},
		"no PCI Express":         {edited(func(b []byte) { b[0x60] = 0x11 }), want{fabric.Absent, fabric.Absent, "", ""}},
		"no ACS":                 {edited(func(b []byte) { b[0x150] = 0x19 }), want{fabric.OK, fabric.Absent, "", ""}},
		"nothing extended":       {edited(func(b []byte) { clear(b[0x100:0x104]) }), want{fabric.OK, fabric.Absent, "", ""}},
		"loop":                   {edited(func(b []byte) { b[0x60], b[0x61] = 0x11, 0x40 }), want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"points at itself":       {edited(func(b []byte) { b[0x41] = 0x40 }), want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"points into the header": {edited(func(b []byte) { b[0x41] = 0x10 }), want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"ends outside":           {edited(func(b []byte) { b[0x41], b[0xfc] = 0xfc, capExpress })[:256], want{unknown, unknown, fabric.ReasonMalformed, fabric.ReasonMalformed}},
		"extended loop":          {edited(func(b []byte) { binary.LittleEndian.PutUint32(b[0x150:], 0x100<<20|0x19) }), want{fabric.OK, unknown, "", fabric.ReasonMalformed}},
		"extended points back":   {edited(func(b []byte) { binary.LittleEndian.PutUint32(b[0x150:], 0x040<<20|0x19) }), want{fabric.OK, unknown, "", fabric.ReasonMalformed}},
		"gone": {edited(func(b []byte) {
			for i := range b {
				b[i] = 0xff
			}
		}), want{unknown, unknown, fabric.ReasonGone, fabric.ReasonGone}},
	} {
		got := parseConfig(c.b, "config", now)
		if g := (want{got.RelaxedOrdering.State, got.ACS.State, got.RelaxedOrdering.Reason, got.ACS.Reason}); g != c.want {
			t.Errorf("%s: %+v, want %+v", name, g, c.want)
		}
	}

	got := parseConfig(space(0x5936, 0x1d), "config", now) // what lspci calls MaxPayload 256, MaxReadReq 4096, RlxdOrd+ NoSnoop+
	if got.MaxPayload.Value != 256 || got.MaxReadRequest.Value != 4096 || !got.RelaxedOrdering.Value || !got.NoSnoop.Value || got.ACS.Value != 0x1d {
		t.Errorf("%+v", got)
	}
	if got := parseConfig(space(0xf0e0, 0), "config", now); got.MaxPayload.Reason != fabric.ReasonMalformed || got.MaxReadRequest.Reason != fabric.ReasonMalformed {
		t.Errorf("reserved sizes: %+v", got)
	}
}

// What a function shows of itself must cost nothing but its own facts.
func FuzzParseConfig(f *testing.F) {
	whole := space(0x5936, 0x1d)
	for _, n := range []int{0, 63, 64, 255, 256, 257, 0x153, 4096} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > pageSize {
			return
		}
		c := parseConfig(b, "config", now)
		if len(b) < legacySize && (c.MaxPayload.State == fabric.OK || c.ACS.State == fabric.OK) {
			t.Errorf("%d bytes: %+v", len(b), c)
		}
		if len(b) <= legacySize && c.ACS.State == fabric.OK {
			t.Errorf("ACS in %d bytes", len(b))
		}
	})
}
