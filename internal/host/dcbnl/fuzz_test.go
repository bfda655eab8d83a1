// SPDX-License-Identifier: Apache-2.0

package dcbnl

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// Whatever a driver says, what is taken from it is in range, and the rest is malformed; an attribute that is not known
// changes nothing.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"ieee_get_hca0", "ieee_get_hca1", "cee_get_hca1", "ieee_get_lo"} {
		data := recording(f, name).Data
		f.Add(false, data)
		f.Add(true, data)
	}
	f.Add(false, message(cmdIEEEGet, put(nil, ieeeAppTable, put(nil, ieeeApp, app(5, 3, 26))), put(nil, attrDCBX, uint8(1))))
	f.Add(true, message(cmdCEEGet, put(nil, ceeAppTable, ceeEntry(1, 4791, 255))))
	f.Fuzz(func(t *testing.T, cee bool, b []byte) {
		cmd := cmdIEEEGet
		if cee {
			cmd = cmdCEEGet
		}
		netdev := "hca0"
		if top, err := parse(b[min(messageHeader, len(b)):]); err == nil && len(top[attrIfName]) > 0 {
			netdev = string(top[attrIfName][:len(top[attrIfName])-1])
		}
		before := slices.Clone(b)
		var q fabric.QoS
		err := decode(cmd, b, netdev, &q, at())
		if !slices.Equal(b, before) {
			t.Fatal("message was written to")
		}
		if err != nil && !errors.Is(err, netlink.ErrMalformed) {
			t.Error(err)
		}
		metas := []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta()}
		if !cee {
			metas = append(metas, q.Buffers.Meta(), q.DCBX.Meta())
		}
		malformed := slices.ContainsFunc(metas, func(m fabric.Meta) bool { return m.Reason == fabric.ReasonMalformed })
		if malformed != (err != nil) {
			t.Errorf("%v, but %+v", err, metas)
		}
		for _, m := range metas {
			if m.Source == "" || !m.At.Equal(at()) || m.Reason == fabric.ReasonNotRead {
				t.Errorf("%+v", m)
			}
		}
		checkRanges(t, q)
		if err == nil && len(b)%4 == 0 {
			var more fabric.QoS
			if err := decode(cmd, put(slices.Clone(b), 0x3fff, []byte("new")), netdev, &more, at()); err != nil || !reflect.DeepEqual(q, more) {
				t.Errorf("with one attribute more %+v, %v, was %+v", more, err, q)
			}
		}
	})
}

func checkRanges(t *testing.T, q fabric.QoS) {
	t.Helper()
	priority := func(p int) bool { return p >= 0 && p < fabric.NumPriorities }
	for i := range fabric.NumPriorities {
		if ets := q.ETS.Value; !priority(ets.PriorityClass[i]) || ets.Bandwidth[i] < 0 || ets.Bandwidth[i] > 100 {
			t.Errorf("%+v", ets)
		}
		if buffers := q.Buffers.Value; !priority(buffers.OfPriority[i]) || buffers.Bytes[i] < 0 || buffers.Total < 0 {
			t.Errorf("%+v", buffers)
		}
	}
	if len(q.Apps.Value) > maxApps {
		t.Errorf("%d apps", len(q.Apps.Value))
	}
	for _, a := range q.Apps.Value {
		if !priority(a.Priority) || !isSelector(a.Selector) || a.Protocol < 0 || a.Protocol > 65535 ||
			a.Selector == fabric.AppDSCP && a.Protocol >= fabric.NumDSCP {
			t.Errorf("%+v", a)
		}
	}
}
