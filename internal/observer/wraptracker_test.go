// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func TestWrapTracker(t *testing.T) {
	const turn = 1 << 32
	for _, c := range []struct {
		name       string
		every      time.Duration
		raw, wants []uint64
	}{
		{"grows", 15 * time.Second, []uint64{1, 5, 9}, []uint64{1, 5, 9}},
		{"wraps", 15 * time.Second, []uint64{turn - 10, 5, 7}, []uint64{turn - 10, turn + 5, turn + 7}},
		{"wraps twice", 15 * time.Second, []uint64{turn - 1, 1, turn - 1, 1}, []uint64{turn - 1, turn + 1, 2*turn - 1, 2*turn + 1}},
		{"is reset", 15 * time.Second, []uint64{100, 3, 8}, []uint64{100, 3, 8}},
		{"is reset after a wrap", 15 * time.Second, []uint64{turn - 6, 5, 1_000_000, 3, 8}, []uint64{turn - 6, turn + 5, turn + 1_000_000, 3, 8}},
		{"is reset in its upper half", 15 * time.Second, []uint64{3e9, 3e9 + 20, 100, 120}, []uint64{3e9, 3e9 + 20, 100, 120}},
		{"is reset in its upper half before any growth", 15 * time.Second, []uint64{3e9, 100}, []uint64{3e9, 100}},
		{"counts 20 million a second", 15 * time.Second, []uint64{turn - 4e8, turn - 1e8, 2e8}, []uint64{turn - 4e8, turn - 1e8, turn + 2e8}},
		{"wraps faster than before", 15 * time.Second, []uint64{turn - 1e8 - 5e5, turn - 1e8, 2e8}, []uint64{turn - 1e8 - 5e5, turn - 1e8, 2e8}},
		{"was read an hour ago, and may have come round twice", time.Hour, []uint64{0, turn - 1, turn / 2}, []uint64{0, turn - 1, turn / 2}},
		{"has 64 bits after all", 15 * time.Second, []uint64{turn * 3, turn*3 + 1}, []uint64{turn * 3, turn*3 + 1}},
		{"has 64 bits after all, and is reset", 15 * time.Second, []uint64{turn - 1, turn + 1, 5, 9}, []uint64{turn - 1, turn + 1, 5, 9}},
	} {
		var o wrapTracker
		at := time.Unix(0, 0)
		for i, raw := range c.raw {
			var got uint64
			at = at.Add(c.every)
			if got, o = o.read(raw, at); got != c.wants[i] {
				t.Errorf("%s: reading %d of %v is %d, want %d", c.name, i, c.raw, got, c.wants[i])
			}
		}
	}
}

// event is what happens to a counter between two readings.
type event struct {
	after time.Duration
	adds  uint64
	reset bool // before it counts adds
}

// count plays events on a register of 32 bits. It returns what Prometheus makes of the wrapTracker (increase), what was
// really counted, how often the series fell, and by how much increase may be too high: for each reset, what may have
// been taken for the rest of a turn.
func count(start uint64, events []event) (increase, truth uint64, falls int, allowed float64) {
	var o wrapTracker
	at, counted, fastest := time.Unix(0, 0), start, 0.0
	last, o := o.read(counted%register, at)
	for _, e := range events {
		at = at.Add(e.after)
		if e.reset {
			counted = 0
			allowed += max(alwaysPlausible, speedMargin*fastest*e.after.Seconds())
		}
		counted += e.adds
		truth += e.adds
		fastest = max(fastest, float64(e.adds)/e.after.Seconds())
		var v uint64
		v, o = o.read(counted%register, at)
		if v < last {
			falls++
			increase += v
		} else {
			increase += v - last
		}
		last = v
	}
	return increase, truth, falls, allowed
}

// FuzzWrapTracker: whatever happens to a counter, Prometheus sees no more events than there were, except what
// a reset may pass for.
func FuzzWrapTracker(f *testing.F) {
	f.Add(uint64(4294967290), []byte{1, 11, 0, 1, 20, 0, 1, 3, 1})
	f.Add(uint64(3_000_000_000), []byte{15, 4, 0, 15, 6, 1})
	f.Add(uint64(0), []byte{255, 31, 0, 255, 31, 1, 255, 31, 0, 1, 31, 1})
	f.Fuzz(func(t *testing.T, start uint64, script []byte) {
		var events []event
		for ; len(script) >= 3; script = script[3:] {
			events = append(events, event{
				after: time.Duration(script[0])*time.Second + time.Second, adds: uint64(script[2]>>1) << (script[1] % 32), reset: script[2]&1 == 1,
			})
		}
		increase, truth, _, allowed := count(start%register, events)
		if float64(increase) > float64(truth)+allowed {
			t.Errorf("%d events became %d, %.0f more are allowed: %+v", truth, increase, allowed, events)
		}
	})
}

// A counter whose speed varies up to threefold, as those of training traffic do, loses and gains nothing: it falls only
// when it is reset, and without resets increase is exact.
func TestWrapTrackerIsExactAtSteadyRate(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		speed := math.Pow(10, r.Float64()*7.5) // to 30 million a second
		var events []event
		resets := 0
		for i := range 200 {
			e := event{after: 5*time.Second + time.Duration(r.IntN(10))*time.Second}
			e.adds = uint64(speed * e.after.Seconds() * (0.5 + r.Float64()))
			if e.reset = r.IntN(100) == 0 && i > 0; e.reset {
				resets++
			}
			events = append(events, e)
		}
		increase, truth, falls, allowed := count(r.Uint64N(register/2), events) // of a wrap before the first growth the speed is not known
		if falls > resets || float64(increase) > float64(truth)+allowed {
			t.Fatalf("at %.0f a second: %d events became %d, with %d resets and %d falls", speed, truth, increase, resets, falls)
		}
		if resets == 0 && increase != truth {
			t.Fatalf("at %.0f a second without a reset: %d events became %d", speed, truth, increase)
		}
	}
}

func TestWrapTrackersContinueOnlyWrappingCounters(t *testing.T) {
	o := wrapTrackers{}
	read := func(value uint64) []fabric.Counter {
		at := time.Unix(0, 0)
		h := fabric.HCA{Driver: fabric.Known("mlx5_core", "", at), Ports: []fabric.Port{{Number: 1}}}
		h.Ports[0].Counters.HW = fabric.Known([]fabric.Counter{
			{Name: "out_of_sequence", Value: fabric.Known(value, "", at)},
			{Name: "np_cnp_sent", Value: fabric.Known(value, "", at)},
			{Name: "packet_seq_err", Value: fabric.UnknownFact[uint64](fabric.ReasonIO, "", at)},
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

func TestWrapTrackersFollowTheList(t *testing.T) {
	o := wrapTrackers{}
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
