// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gpufabric_exporter/internal/host/netlink"
)

// fuzz gives a decoder what real kernels said, and what becomes of it. A decoder returns a value or
// netlink.ErrMalformed, and an attribute that it does not know changes nothing.
func fuzz[T any](f *testing.F, decode func([]byte) (T, error), check func(*testing.T, T), names ...string) {
	for _, name := range names {
		for _, m := range recording(f, name) {
			f.Add(m.Data)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		v, err := decode(b)
		if !slices.Equal(b, before) {
			t.Fatal("message was written to")
		}
		if err != nil {
			if !errors.Is(err, netlink.ErrMalformed) || !strings.HasPrefix(err.Error(), "ATTR_") && !strings.HasPrefix(err.Error(), "SYS_ATTR_") && !strings.HasPrefix(err.Error(), "attribute ") {
				t.Errorf("error %v", err)
			}
			if !reflect.ValueOf(v).IsZero() {
				t.Errorf("%+v with %v", v, err)
			}
			return
		}
		check(t, v)
		if len(b)%4 == 0 {
			more, err := decode(put(slices.Clone(b), 0x3fff, []byte("new")))
			if err != nil || !reflect.DeepEqual(v, more) {
				t.Errorf("with one attribute more %+v, %v, was %+v", more, err, v)
			}
		}
	})
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if name == "" || strings.Contains(name, "\x00") || !utf8.ValidString(name) {
		t.Errorf("name %q", name)
	}
}

func FuzzDecodeDevice(f *testing.F) {
	fuzz(f, decodeDevice, func(t *testing.T, v Device) {
		checkName(t, v.Name)
		if len(v.NodeGUID) != 19 || len(v.ImageGUID) != 19 {
			t.Errorf("%+v", v)
		}
	}, "get")
}

func FuzzDecodePort(f *testing.F) {
	fuzz(f, decodePort, func(*testing.T, Port) {}, "port_get_rxe0", "port_get_fakehca_5", "port_get_siw1", "port_get_einval")
}

// smallTable is a short message: mutations of it come further than those of a recording.
func smallTable() []byte {
	entry := put(put(nil, attrStatHWCounterName, "ecn"), attrStatHWCounterValue, uint64(1))
	entry = put(put(entry, 94, uint32(2)), 95, uint8(1)) // ..._INDEX and ..._DYNAMIC, which nothing here reads
	return put(nil, attrStatHWCounters, put(nil, attrStatHWCounterEntry, entry))
}

func FuzzDecodeCounters(f *testing.F) {
	f.Add(smallTable())
	fuzz(f, decodeCounters, func(t *testing.T, v []Counter) {
		for _, c := range v {
			checkName(t, c.Name)
		}
	}, "stat_get_rxe0", "stat_get_fakehca_0")
}

func FuzzDecodeResources(f *testing.F) {
	kinds := allKinds()
	for i, k := range kinds {
		for _, m := range recording(f, k.command.String()) {
			f.Add(byte(i), m.Data)
		}
	}
	f.Fuzz(func(t *testing.T, i byte, b []byte) {
		k := kinds[int(i)%len(kinds)]
		before, n := slices.Clone(b), 0
		err := decodeResources(b, k, func(resource) { n++ })
		if !slices.Equal(b, before) {
			t.Fatal("message was written to")
		}
		if err != nil && (!errors.Is(err, netlink.ErrMalformed) || n > 0) {
			t.Errorf("%d objects, %v", n, err)
		}
	})
}

func FuzzDecodeSystem(f *testing.F) {
	fuzz(f, decodeSystem, func(*testing.T, System) {}, "sys_get")
}
