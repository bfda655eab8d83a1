// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// at is when everything is read.
func at() time.Time { return time.Unix(1, 0) }

// What a real kernel said, as lab_test.go made it.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		name, netdev string
		cmd          command
		want         fabric.QoS
	}{
		{"ieee_get_hca0", "hca0", cmdIEEEGet, fabric.QoS{
			PFC: fabric.Known(fabric.PFC{
				Enabled: 1<<3 | 1<<4, Classes: 8, Delay: 32767,
				Sent: [8]uint64{3: 6}, Received: [8]uint64{3: 1<<64 - 1},
			}, "DCB_ATTR_IEEE_PFC", at()),
			ETS: fabric.Known(fabric.ETS{
				Willing: true, Classes: 8, PriorityClass: [8]int{0, 0, 2, 3, 4, 5, 6, 7},
				Algorithm: [8]fabric.TSA{2, 2, 2, 2, 2, 2, 0, 0}, Bandwidth: [8]int{0: 50, 3: 40, 4: 10},
			}, "DCB_ATTR_IEEE_ETS", at()),
			Apps: fabric.Known([]fabric.App{
				{Selector: fabric.AppEtherType, Protocol: 0, Priority: 1},
				{Selector: fabric.AppEtherType, Protocol: 0x8915, Priority: 3},
				{Selector: fabric.AppUDP, Protocol: 4791, Priority: 3},
				{Selector: fabric.AppDSCP, Protocol: 26, Priority: 3},
				{Selector: fabric.AppDSCP, Protocol: 46, Priority: 6},
				{Selector: fabric.AppDSCP, Protocol: 48, Priority: 6},
			}, "DCB_ATTR_IEEE_APP_TABLE", at()),
			Buffers: fabric.Known(fabric.Buffers{
				OfPriority: [8]int{3: 1, 4: 2}, Bytes: [8]int{100000, 262144, 65536}, Total: 524288,
			}, "DCB_ATTR_DCB_BUFFER", at()),
			DCBX: fabric.Known(fabric.DCBX{Host: true, IEEE: true, StaticModes: true}, "DCB_ATTR_DCBX", at()),
		}},
		{"cee_get_hca1", "hca1", cmdCEEGet, fabric.QoS{
			PFC: fabric.Known(fabric.PFC{Enabled: 1 << 3}, "DCB_ATTR_CEE_PFC", at()),
			ETS: fabric.UnknownFact[fabric.ETS](fabric.ReasonUnsupported, "DCB_ATTR_CEE_TX_PG", at()),
			Apps: fabric.Known([]fabric.App{ // and not the IEEE entry for DSCP 26, which the kernel reports here, too
				{Selector: fabric.AppEtherType, Protocol: 0x8915, Priority: 3},
				{Selector: fabric.AppAny, Protocol: 4791, Priority: 3},
				{Selector: fabric.AppAny, Protocol: 4791, Priority: 4},
			}, "DCB_ATTR_CEE_APP_TABLE", at()),
		}},
	} {
		var got fabric.QoS
		err := decode(c.cmd, recording(t, c.name).Data, c.netdev, &got, at())
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", c.name, err, got, c.want)
		}
	}
}

// message returns an answer about hca0, with what is in its nest and what is beside that.
func message(cmd command, nest []byte, beside ...[]byte) []byte {
	b := put([]byte{0, byte(cmd), 0, 0}, attrIfName, "hca0")
	kind, _ := cmd.nest()
	return append(put(b, kind, nest), slices.Concat(beside...)...)
}

// The structs as the kernel's compiler lays them out, with nothing set.
func emptyPFC() []byte     { return make([]byte, 136) }
func emptyETS() []byte     { return make([]byte, 59) }
func emptyBuffers() []byte { return make([]byte, 44) }

func with(b []byte, offset int, v ...byte) []byte {
	copy(b[offset:], v)
	return b
}

func app(selector, priority uint8, protocol uint16) []byte {
	return binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol)
}

func ceeEntry(idType uint8, id uint16, priorities uint8) []byte {
	return put(nil, attrApp, put(put(put(nil, appIDType, idType), appID, id), appPriority, priorities))
}

// PAD, attributes that are not known, nests with and without their flag, structs that grew, and attributes that come
// twice, of which the last counts.
func TestVariations(t *testing.T) {
	const nested = 1 << 15
	pad, unknown := put(nil, 0, []byte{}), put(nil, 0x3fff, []byte{1, 2, 3})
	table := slices.Concat(
		put(nil, ieeeApp, append(app(5, 3, 26), 1, 2, 3, 4)), pad, unknown,
		put(nil, 3, app(5, 255, 255)), put(nil, ieeeApp, app(6, 200, 65535)), // another type and another selector
		put(nil, dcbApp, app(255, 7, 15)), put(nil, ieeeApp, app(1, 0, 0)), put(nil, ieeeApp, app(1, 0, 0)),
	)
	inner := slices.Concat(
		put(nil, ieeePFC, []byte("too short, and replaced")), pad,
		put(nil, ieeePFC, append(with(emptyPFC(), 1, 8), make([]byte, 64)...)), unknown,
		put(nil, ieeeETS, append(emptyETS(), 255, 255)), put(nil, 7, make([]byte, 64)), // IEEE_MAXRATE
		put(nil, 4, with(emptyETS(), 27, 255)), put(nil, 5, []byte{1}), put(nil, 6, []byte{1}), // the link partner's
		put(nil, ieeeAppTable|nested, table), put(nil, ieeeBuffer, append(emptyBuffers(), 255)),
	)
	b := put([]byte{0, byte(cmdIEEEGet), 0, 0}, attrIfName, "hca1")
	b = slices.Concat(b, pad, unknown, put(nil, attrIEEE, []byte{1}), put(nil, attrIfName, "hca0"))
	b = slices.Concat(put(b, attrIEEE|nested, inner), put(nil, attrDCBX, uint8(0xff)), unknown)
	var q fabric.QoS
	if err := decode(cmdIEEEGet, b, "hca0", &q, at()); err != nil {
		t.Fatal(err)
	}
	want := fabric.QoS{
		PFC:     fabric.Known(fabric.PFC{Enabled: 8}, sourcePFC, at()),
		ETS:     fabric.Known(fabric.ETS{}, sourceETS, at()),
		Apps:    fabric.Known([]fabric.App{{Selector: 1}, {Selector: 1}, {Selector: 5, Protocol: 26, Priority: 3}, {Selector: 255, Protocol: 15, Priority: 7}}, sourceApps, at()),
		Buffers: fabric.Known(fabric.Buffers{}, sourceBuffers, at()),
		DCBX:    fabric.Known(fabric.DCBX{Host: true, LLDManaged: true, CEE: true, IEEE: true, StaticModes: true}, sourceDCBX, at()),
	}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, want\n%+v", q, want)
	}
}

// What the driver leaves out is unknown, and an empty table is known to be empty.
func TestNothing(t *testing.T) {
	for cmd, kind := range map[command]int{cmdIEEEGet: ieeeAppTable, cmdCEEGet: ceeAppTable} {
		var q fabric.QoS
		if err := decode(cmd, message(cmd, nil), "hca0", &q, at()); err != nil {
			t.Error(err)
		}
		for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta()} {
			if m.State != fabric.Unknown || m.Reason != fabric.ReasonUnsupported || m.Source == "" || !m.At.Equal(at()) {
				t.Errorf("%v: %+v", cmd, m)
			}
		}
		err := decode(cmd, message(cmd, put(nil, kind, []byte{})), "hca0", &q, at())
		if apps, ok := q.Apps.Get(); err != nil || !ok || apps == nil || len(apps) != 0 {
			t.Errorf("%v: %v, %+v", cmd, err, q.Apps)
		}
	}
}

// Each setting of CEE's PFC: off, both ways, sending, receiving.
func TestCEEPFC(t *testing.T) {
	var nest []byte
	for p, setting := range []uint8{0, 1, 2, 3, 0, 0, 0, 1} {
		nest = put(nest, pfcPriority0+p, setting)
	}
	if v, err := decodeCEEPFC(nest); err != nil || v != (fabric.PFC{Enabled: 0b10001110}) {
		t.Errorf("%+v, %v", v, err)
	}
}

// Errors name the attribute, what was read and what was expected; the facts beside it are read.
func TestMalformed(t *testing.T) {
	entries := func(n int, entry []byte) []byte { return slices.Repeat(entry, n) }
	beside := put(put(nil, ieeePFC, emptyPFC()), ieeeETS, emptyETS())
	for _, c := range []struct {
		name string
		nest []byte
		want string
	}{
		{"short PFC", put(nil, ieeePFC, make([]byte, 135)), "DCB_ATTR_IEEE_PFC: 135 bytes, expected 136 or more"},
		{"empty PFC", put(nil, ieeePFC, []byte{}), "DCB_ATTR_IEEE_PFC: 0 bytes, expected 136 or more"},
		{"short ETS", put(nil, ieeeETS, make([]byte, 58)), "DCB_ATTR_IEEE_ETS: 58 bytes, expected 59 or more"},
		{"bandwidth", put(nil, ieeeETS, with(emptyETS(), 3+7, 101)), "DCB_ATTR_IEEE_ETS: bandwidth 101 of class 7, expected at most 100"},
		{"class", put(nil, ieeeETS, with(emptyETS(), 27, 8)), "DCB_ATTR_IEEE_ETS: class 8 of priority 0, expected at most 7"},
		{"short buffers", put(nil, ieeeBuffer, make([]byte, 43)), "DCB_ATTR_DCB_BUFFER: 43 bytes, expected 44 or more"},
		{"buffer", put(nil, ieeeBuffer, with(emptyBuffers(), 2, 8)), "DCB_ATTR_DCB_BUFFER: buffer 8 of priority 2, expected at most 7"},
		{"short app", put(nil, ieeeAppTable, put(nil, ieeeApp, []byte{5, 3, 26})), "DCB_ATTR_IEEE_APP_TABLE: entry 0: 3 bytes, expected 4 or more"},
		{"app that is no nest", put(nil, ieeeAppTable, app(5, 3, 26)), "DCB_ATTR_IEEE_APP_TABLE: attribute 26: a length of 773, expected 4 to 4"},
		{"app table cut short", put(nil, ieeeAppTable, []byte{8, 0, 1}), "DCB_ATTR_IEEE_APP_TABLE: attribute 0: followed by 3 bytes, expected another attribute or none"},
		{"priority", put(nil, ieeeAppTable, put(put(nil, ieeeApp, app(1, 7, 0)), ieeeApp, app(1, 8, 0))), "DCB_ATTR_IEEE_APP_TABLE: entry 1: priority 8, expected at most 7"},
		{"dscp", put(nil, ieeeAppTable, put(nil, ieeeApp, app(5, 0, 64))), "DCB_ATTR_IEEE_APP_TABLE: entry 0: dscp 64, expected at most 63"},
		{"too many apps", put(nil, ieeeAppTable, entries(1025, put(nil, ieeeApp, app(5, 0, 1)))), "DCB_ATTR_IEEE_APP_TABLE: more than 1024 entries"},
	} {
		var q fabric.QoS
		err := decode(cmdIEEEGet, message(cmdIEEEGet, c.nest), "hca0", &q, at())
		if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), c.want+": ") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		q = fabric.QoS{}
		if decode(cmdIEEEGet, message(cmdIEEEGet, slices.Concat(beside, c.nest)), "hca0", &q, at()) == nil {
			t.Errorf("%s: no error", c.name)
		}
		malformed, known := 0, 0
		for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta(), q.Buffers.Meta()} {
			switch {
			case m.Reason == fabric.ReasonMalformed:
				malformed++
			case m.State == fabric.OK:
				known++
			}
		}
		if malformed != 1 || known == 0 {
			t.Errorf("%s: %d malformed, %d known: %+v", c.name, malformed, known, q)
		}
	}
}

func TestMalformedCEE(t *testing.T) {
	for _, c := range []struct {
		name string
		nest []byte
		want string
	}{
		{"no priorities", put(nil, ceePFC, []byte{}), "DCB_ATTR_CEE_PFC: priority 0: 0 bytes, expected 1"},
		{"setting", put(nil, ceePFC, put(nil, 1, uint8(255))), "DCB_ATTR_CEE_PFC: 255 for priority 0, expected at most 3"},
		{"wide setting", put(nil, ceePFC, put(nil, 1, uint16(1))), "DCB_ATTR_CEE_PFC: priority 0: 2 bytes, expected 1"},
		{"PFC that is no nest", put(nil, ceePFC, []byte{1, 2, 3}), "DCB_ATTR_CEE_PFC: attribute 0: followed by 3 bytes, expected another attribute or none"},
		{"empty app", put(nil, ceeAppTable, put(nil, attrApp, []byte{})), "DCB_ATTR_CEE_APP_TABLE: DCB_ATTR_APP: DCB_APP_ATTR_IDTYPE: 0 bytes, expected 1"},
		{"narrow id", put(nil, ceeAppTable, put(nil, attrApp, put(put(nil, appIDType, uint8(0)), appID, uint8(1)))), "DCB_ATTR_CEE_APP_TABLE: DCB_ATTR_APP: DCB_APP_ATTR_ID: 1 bytes, expected 2"},
		{"no priority", put(nil, ceeAppTable, put(nil, attrApp, put(put(nil, appIDType, uint8(0)), appID, uint16(1)))), "DCB_ATTR_CEE_APP_TABLE: DCB_ATTR_APP: DCB_APP_ATTR_PRIORITY: 0 bytes, expected 1"},
		{"too many apps", put(nil, ceeAppTable, slices.Repeat(ceeEntry(0, 1, 255), 129)), "DCB_ATTR_CEE_APP_TABLE: more than 1024 entries"},
	} {
		var q fabric.QoS
		err := decode(cmdCEEGet, message(cmdCEEGet, c.nest), "hca0", &q, at())
		if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), c.want+": ") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// A message that is no answer leaves everything unknown.
func TestNoAnswer(t *testing.T) {
	good := message(cmdIEEEGet, put(nil, ieeePFC, emptyPFC()))
	name := put([]byte{0, byte(cmdIEEEGet), 0, 0}, attrIfName, "hca0")
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "0 bytes, expected 4 or more"},
		{"no header", good[:3], "3 bytes, expected 4 or more"},
		{"another command", message(cmdCEEGet, nil), "answer to command 26, expected 21"},
		{"no name", good[:4], `DCB_ATTR_IFNAME: "", expected "hca0\x00"`},
		{"another interface", put([]byte{0, byte(cmdIEEEGet), 0, 0}, attrIfName, "hca1"), `DCB_ATTR_IFNAME: "hca1\x00", expected "hca0\x00"`},
		{"name without NUL", put([]byte{0, byte(cmdIEEEGet), 0, 0}, attrIfName, []byte("hca0")), `DCB_ATTR_IFNAME: "hca0", expected "hca0\x00"`},
		{"no nest", name, "DCB_ATTR_IEEE: missing"},
		{"CEE instead", put(name, attrCEE, []byte{}), "DCB_ATTR_IEEE: missing"},
		{"cut header", append(slices.Clone(good), 8, 0), "attribute 13: followed by 2 bytes, expected another attribute or none"},
		{"length below the header", append(slices.Clone(name), 3, 0, 13, 0), "attribute 13: a length of 3, expected 4 to 4"},
		{"length 0", append(slices.Clone(name), 0, 0, 13, 0), "attribute 13: a length of 0, expected 4 to 4"},
		{"length beyond the message", append(slices.Clone(name), 255, 255, 13, 0), "attribute 13: a length of 65535, expected 4 to 4"},
		{"nest that is none", put(name, attrIEEE, []byte{1, 2, 3}), "DCB_ATTR_IEEE: attribute 0: followed by 3 bytes, expected another attribute or none"},
		{"nest beyond itself", put(name, attrIEEE, []byte{140, 0, 2, 0}), "DCB_ATTR_IEEE: attribute 2: a length of 140, expected 4 to 4"},
	} {
		q := fabric.QoS{PFC: fabric.Known(fabric.PFC{Enabled: 8}, "before", at())}
		err := decode(cmdIEEEGet, c.b, "hca0", &q, at())
		if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), c.want+": ") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta(), q.Buffers.Meta(), q.DCBX.Meta()} {
			if m.State != fabric.Unknown || m.Reason != fabric.ReasonMalformed || m.Source == "" {
				t.Errorf("%s: %+v", c.name, m)
			}
		}
	}
}

// Every message that ends too early is an error, or whole without what was cut off; none is a panic.
func TestTruncated(t *testing.T) {
	for name, cmd := range map[string]command{"ieee_get_hca0": cmdIEEEGet, "cee_get_hca1": cmdCEEGet} {
		b := recording(t, name).Data
		netdev := name[len(name)-4:]
		for n := range len(b) - 8 { // what is left out is more than DCB_ATTR_DCBX, which comes last
			var q fabric.QoS
			if err := decode(cmd, b[:n], netdev, &q, at()); !errors.Is(err, netlink.ErrMalformed) || q.PFC.State == fabric.OK {
				t.Errorf("%s: %d of %d bytes: %v, %+v", name, n, len(b), err, q)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := recording(b, "ieee_get_hca0").Data
	b.ReportAllocs()
	for b.Loop() {
		var q fabric.QoS
		if err := decode(cmdIEEEGet, data, "hca0", &q, at()); err != nil {
			b.Fatal(err)
		}
	}
}
