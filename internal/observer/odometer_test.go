// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"
	"testing"
	"testing/synctest"
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

func TestCountersKeepTheReadingBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		ob := start(t, k, nil)
		read := func(counted uint64) fabric.PortCounters {
			k.mu.Lock()
			k.counted = counted
			k.mu.Unlock()
			return observe(t, ob, all|fabric.WantCounters).HCAs[0].Ports[0].Counters
		}
		first := read(3)
		if first.BeforeHW.State == fabric.OK {
			t.Errorf("there is a reading before the first: %+v", first.BeforeHW)
		}
		time.Sleep(DefaultFastInterval)
		second := read(8)
		if c := second.BeforeHW; c.State != fabric.OK || c.Value[0].Value.Value != 3 || second.HW.At.Sub(c.At) != DefaultFastInterval {
			t.Errorf("reading before the second: %+v", c)
		}
		if &second.BeforeHW.Value[0] != &first.HW.Value[0] {
			t.Error("the list was copied")
		}
		if again := read(9); again.HW.Value[0].Value.Value != 8 || again.BeforeHW.Value[0].Value.Value != 3 {
			t.Errorf("shared readings differ: %+v", again)
		}
		time.Sleep(DefaultFastInterval)
		if third := read(10); third.BeforeHW.Value[0].Value.Value != 8 {
			t.Errorf("reading before the third: %+v", third.BeforeHW)
		}
	})
}

func TestOdometersFollowTheList(t *testing.T) {
	o := odometers{}
	read := func(driver string, values ...any) (got []uint64) {
		var list []fabric.Counter
		for i := 0; i < len(values); i += 2 {
			list = append(list, fabric.Counter{Name: values[i].(string), Value: fabric.Known(uint64(values[i+1].(int)), "", time.Unix(0, 0))})
		}
		h := fabric.HCA{Driver: fabric.Known(driver, "", time.Unix(0, 0)), Ports: []fabric.Port{{Number: 1}}}
		h.Ports[0].Counters.HW = fabric.Known(list, "", time.Unix(0, 0))
		o.advance(&h)
		for _, c := range list {
			got = append(got, c.Value.Value)
		}
		return got
	}
	const most, turn = 1<<32 - 1, 1 << 32
	for _, c := range []struct {
		what      string
		got, want []uint64
	}{
		{"first", read("mlx5_core", "out_of_sequence", most, "out_of_buffer", most), []uint64{most, most}},
		{"another order, and one more", read("mlx5_core", "out_of_buffer", 1, "np_cnp_sent", 5, "out_of_sequence", 2), []uint64{turn + 1, 5, turn + 2}},
		{"one missing", read("mlx5_core", "out_of_sequence", 3), []uint64{turn + 3}},
		{"none", read("mlx5_core"), nil},
		{"another driver", read("efa", "out_of_sequence", 7), []uint64{7}},
		{"all again", read("mlx5_core", "out_of_sequence", 4, "out_of_buffer", 6), []uint64{turn + 4, turn + 6}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
