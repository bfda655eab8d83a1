// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"gpufabric_exporter/probes"
)

// decoded is an element as a number, by the definition of its format.
func decoded(t probes.DType, raw []byte) float64 {
	ieee := func(bits uint32, exponentBits, fractionBits int) float64 {
		exponent := int(bits>>fractionBits) & (1<<exponentBits - 1)
		fraction := float64(bits&(1<<fractionBits-1)) / float64(uint32(1)<<fractionBits)
		return math.Ldexp(1+fraction, exponent-(1<<(exponentBits-1)-1)) // normal and positive
	}
	switch t {
	case probes.Float16:
		return ieee(uint32(binary.NativeEndian.Uint16(raw)), 5, 10)
	case probes.BFloat16:
		return ieee(uint32(binary.NativeEndian.Uint16(raw)), 8, 7)
	case probes.Float32:
		return ieee(binary.NativeEndian.Uint32(raw), 8, 23)
	}
	return float64(int32(binary.NativeEndian.Uint32(raw)))
}

// TestFormats encodes every number that a type may be asked for.
func TestFormats(t *testing.T) {
	for _, dtype := range probes.DTypes() {
		step := max(exact(dtype)/period, 1)
		p := encode(dtype, func(i int) uint32 { return min(1+uint32(i)*step, exact(dtype)) })
		for i := range period {
			want := float64(min(1+uint32(i)*step, exact(dtype)))
			if got := decoded(dtype, p.raw[i*p.size:]); got != want {
				t.Fatalf("%s: %v, expected %v", dtype, got, want)
			}
		}
	}
}

// TestSums adds in the type itself, in two orders, with a rounding that would show.
func TestSums(t *testing.T) {
	for _, dtype := range probes.DTypes() {
		for _, ranks := range []int{1, 2, 3, 8, int(min(exact(dtype)/2, maxRanks))} {
			want := sum(dtype, ranks)
			inputs := make([]pattern, ranks)
			for rank := range ranks {
				inputs[rank] = input(dtype, ranks, rank)
			}
			for i := 0; i < period; i += 1 + ranks/8 {
				var total float64
				for rank := range ranks {
					v := decoded(dtype, inputs[rank].raw[i*want.size:])
					if total += v; v < 1 {
						t.Fatalf("%s, %d ranks: rank %d sends %v", dtype, ranks, rank, v)
					}
				}
				// All numbers up to exact have a format of their own, so no sum on the way is rounded either.
				if total > float64(exact(dtype)) || decoded(dtype, want.raw[i*want.size:]) != total {
					t.Fatalf("%s, %d ranks: element %d is %v, expected %v", dtype, ranks, i, decoded(dtype, want.raw[i*want.size:]), total)
				}
			}
		}
	}
}

// TestInputsDiffer requires that the data of a rank or a place is not equal to that of another.
func TestInputsDiffer(t *testing.T) {
	for _, dtype := range probes.DTypes() {
		a, b := input(dtype, 8, 0), input(dtype, 8, 1)
		buffer := make([]byte, 3*period*a.size)
		a.fill(buffer, 0)
		equal := func(p pattern, start uint64) float64 { return 1 - float64(p.wrong(buffer, start))/(3*period) }
		for name, share := range map[string]float64{"another rank": equal(b, 0), "one further": equal(a, 1), "4096 further": equal(a, 4096), "all": equal(sum(dtype, 8), 0)} {
			if share > 0.06 { // bfloat16 has but 32 numbers for each of 8 ranks
				t.Errorf("%s: %s: %.3f of the elements are the same", dtype, name, share)
			}
		}
	}
}

// TestWrongCounts changes elements of buffers at odd places.
func TestWrongCounts(t *testing.T) {
	for _, dtype := range probes.DTypes() {
		p := input(dtype, 2, 1)
		for _, start := range []uint64{0, 1, period - 1, period, 12345678901} {
			for _, elements := range []int{1, 7, period, 2*period + 5} {
				buffer := make([]byte, elements*p.size)
				p.fill(buffer, start)
				if n := p.wrong(buffer, start); n != 0 {
					t.Fatalf("%s: %d of %d are wrong", dtype, n, elements)
				}
				if got := decoded(dtype, buffer); got != float64(number(most(dtype, 2), 1, int(start%period))) {
					t.Fatalf("%s: begins with %v", dtype, got)
				}
				places := slices.Compact([]int{0, elements / 2, elements - 1})
				for _, i := range places {
					buffer[i*p.size] ^= 1
				}
				if n := p.wrong(buffer, start); n != uint64(len(places)) {
					t.Fatalf("%s: %d of %d are wrong, expected %d", dtype, n, elements, len(places))
				}
			}
		}
	}
}

// TestPoison is nothing that could be received.
func TestPoison(t *testing.T) {
	buffer := binary.NativeEndian.AppendUint32(nil, poison)
	for _, dtype := range probes.DTypes() {
		for _, p := range []pattern{input(dtype, 2, 0), sum(dtype, 2)} {
			for i := range uint64(period) {
				if n := p.wrong(buffer, i); int(n) != len(buffer)/p.size {
					t.Fatalf("%s: element %d could be poison", dtype, i)
				}
			}
		}
	}
}

func TestLayout(t *testing.T) {
	for _, tt := range []struct {
		op    probes.Op
		dtype probes.DType
		bytes uint64
		want  layout
	}{
		// count, bytes sent, bytes received, message
		{probes.AllReduce, probes.Float32, 1000, layout{250, 1000, 1000, 1000}},
		{probes.AllReduce, probes.Float32, 1003, layout{250, 1000, 1000, 1000}},
		{probes.SendRecv, probes.Float16, 1003, layout{501, 1002, 1002, 1002}},
		{probes.Broadcast, probes.Int32, 3, layout{}},
		{probes.AllGather, probes.Float32, 1000, layout{31, 124, 992, 992}},
		{probes.ReduceScatter, probes.BFloat16, 1000, layout{62, 992, 124, 992}},
		{probes.ReduceScatter, probes.BFloat16, 16, layout{1, 16, 2, 16}},
		{probes.ReduceScatter, probes.BFloat16, 15, layout{}},
		{probes.AllToAll, probes.Float32, 1000, layout{31, 992, 992, 992}},
		{probes.AllGather, probes.Float32, maxMessage, layout{maxMessage / 32, maxMessage / 8, maxMessage, maxMessage}},
	} {
		got := layoutOf(&probes.MeasureRequest{Op: tt.op, Type: tt.dtype, Bytes: tt.bytes}, 8)
		if got != tt.want {
			t.Errorf("%s of %d bytes of %s: %+v, expected %+v", tt.op, tt.bytes, tt.dtype, got, tt.want)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p := sum(probes.BFloat16, 8)
	buffer := make([]byte, chunkSize)
	p.fill(buffer, 0)
	b.SetBytes(chunkSize)
	for b.Loop() {
		if p.wrong(buffer, 0) != 0 {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkFill(b *testing.B) {
	p := input(probes.BFloat16, 8, 1)
	buffer := make([]byte, chunkSize)
	b.SetBytes(chunkSize)
	for b.Loop() {
		p.fill(buffer, 1)
	}
}

func BenchmarkPattern(b *testing.B) {
	for b.Loop() {
		sum(probes.BFloat16, 8)
	}
}
