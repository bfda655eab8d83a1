// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func TestOdometer(t *testing.T) {
	const turn = 1 << 32
	for _, c := range []struct {
		name       string
		raw, wants []uint64
	}{
		{"grows", []uint64{1, 5, 9}, []uint64{1, 5, 9}},
		{"wraps", []uint64{turn - 10, 5, 7}, []uint64{turn - 10, turn + 5, turn + 7}},
		{"wraps twice", []uint64{turn - 1, 1, turn - 1, 1}, []uint64{turn - 1, turn + 1, 2*turn - 1, 2*turn + 1}},
		{"is reset", []uint64{100, 3, 8}, []uint64{100, 3, 8}},
		{"has 64 bits after all", []uint64{turn * 3, turn*3 + 1}, []uint64{turn * 3, turn*3 + 1}},
	} {
		var o odometer
		for i, raw := range c.raw {
			var got uint64
			if got, o = o.read(raw); got != c.wants[i] {
				t.Errorf("%s: reading %d of %v is %d, want %d", c.name, i, c.raw, got, c.wants[i])
			}
		}
	}
}

func TestOdometersContinueWhatWrapsOnly(t *testing.T) {
	o := odometers{}
	read := func(value uint64) []fabric.Counter {
		at := time.Unix(0, 0)
		h := fabric.HCA{Driver: fabric.Known("mlx5_core", "", at), Ports: []fabric.Port{{Number: 1}}}
		h.Ports[0].Counters.HW = fabric.Known([]fabric.Counter{
			{Name: "out_of_sequence", Value: fabric.Known(value, "", at)},
			{Name: "np_cnp_sent", Value: fabric.Known(value, "", at)},
			{Name: "packet_seq_err", Value: fabric.NotKnown[uint64](fabric.ReasonIO, "", at)},
		}, "", at)
		o.advance(&h)
		return h.Ports[0].Counters.HW.Value
	}
	read(1<<32 - 1)
	got := read(7)
	if v := got[0].Value.Value; v != 1<<32+7 {
		t.Errorf("out_of_sequence has 32 bits on mlx5 and wrapped: got %d", v)
	}
	if v := got[1].Value.Value; v != 7 {
		t.Errorf("np_cnp_sent has 64 bits and was reset: got %d", v)
	}
	if got[2].Value.State != fabric.Unknown {
		t.Error("an unknown counter became known")
	}
}
