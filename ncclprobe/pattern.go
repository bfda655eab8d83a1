// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"gpufabric_exporter/probes"
)

// period is after how many elements the numbers of a rank repeat. It is a prime, so that a piece of a message
// that lands in the wrong place, which NCCL cuts in powers of two, does not look right. Thanks to it, whole
// buffers are filled and compared with few operations on memory: what is expected fits into a processor's
// cache.
const period = 16381

// A pattern is the numbers of period elements, encoded as on the GPU.
//
// They are whole numbers from 1 on and so small that the sum over all ranks is exact in any order of adding, and so is
// each sum on the way. A rank that is left out or counted twice always changes the sum, because none gives 0.
type pattern struct {
	raw  []byte
	size int // of an element
}

// input is the numbers that a rank sends.
func input(t probes.DType, ranks, rank int) pattern {
	most := most(t, ranks)
	return encode(t, func(i int) uint32 { return number(most, rank, i) })
}

// sum is the sum over all ranks.
func sum(t probes.DType, ranks int) pattern {
	most := most(t, ranks)
	return encode(t, func(i int) uint32 {
		var s uint32
		for rank := range ranks {
			s += number(most, rank, i)
		}
		return s
	})
}

// exact is up to which whole number a type has all of them.
func exact(t probes.DType) uint32 {
	switch t {
	case probes.BFloat16:
		return 1 << 8
	case probes.Float16:
		return 1 << 11
	default:
		return 1 << 24 // of float32; enough for int32
	}
}

// most is the largest number that a rank sends.
func most(t probes.DType, ranks int) uint32 { return exact(t) / uint32(ranks) }

// number is the element i of a rank. The mixing is that of Murmur's last step.
func number(most uint32, rank, i int) uint32 {
	h := uint32(i)*0x9e3779b1 + uint32(rank+1)*0x85ebca6b
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return 1 + h%most
}

func encode(t probes.DType, number func(i int) uint32) pattern {
	p := pattern{size: t.Size()}
	p.raw = make([]byte, 0, period*p.size)
	for i := range period {
		switch v := number(i); t {
		case probes.Float32:
			p.raw = binary.NativeEndian.AppendUint32(p.raw, math.Float32bits(float32(v)))
		case probes.Float16:
			p.raw = binary.NativeEndian.AppendUint16(p.raw, float16(v))
		case probes.BFloat16:
			p.raw = binary.NativeEndian.AppendUint16(p.raw, uint16(math.Float32bits(float32(v))>>16))
		default:
			p.raw = binary.NativeEndian.AppendUint32(p.raw, v)
		}
	}
	return p
}

// float16 is the IEEE binary16 of a whole number from 1 to 2048.
func float16(v uint32) uint16 {
	exponent := bits.Len32(v) - 1
	fraction := (v<<11>>exponent)>>1 - 1<<10 // without the leading one
	return uint16(exponent+15)<<10 | uint16(fraction)
}

// fill writes the numbers from element start on. dst is whole elements.
func (p pattern) fill(dst []byte, start uint64) {
	for at := p.at(start); len(dst) > 0; at = 0 {
		dst = dst[copy(dst, p.raw[at:]):]
	}
}

// wrong counts the elements that are not the numbers from element start on. got is whole elements.
func (p pattern) wrong(got []byte, start uint64) uint64 {
	var n uint64
	for at := p.at(start); len(got) > 0; at = 0 {
		want := p.raw[at:min(len(p.raw), at+len(got))]
		if !bytes.Equal(got[:len(want)], want) {
			for i := 0; i < len(want); i += p.size {
				if !bytes.Equal(got[i:i+p.size], want[i:i+p.size]) {
					n++
				}
			}
		}
		got = got[len(want):]
	}
	return n
}

func (p pattern) at(start uint64) int { return int(start%period) * p.size }

// A part is a piece of the result, and what it must be.
type part struct {
	offset, size uint64 // bytes in the buffer that received
	want         pattern
	start        uint64 // element of want
}

// root is that of Broadcast and Reduce.
const root = 0

// expected calls yield for each part of what a rank has received, until it returns an error.
func expected(q *probes.MeasureRequest, l layout, rank, ranks int, yield func(part) error) error {
	size := l.count * uint64(q.Type.Size())
	switch q.Op {
	case probes.AllReduce:
		return yield(part{size: size, want: sum(q.Type, ranks)})
	case probes.ReduceScatter:
		return yield(part{size: size, want: sum(q.Type, ranks), start: uint64(rank) * l.count})
	case probes.Reduce:
		if rank != root {
			return nil
		}
		return yield(part{size: size, want: sum(q.Type, ranks)})
	case probes.Broadcast:
		return yield(part{size: size, want: input(q.Type, ranks, root)})
	case probes.SendRecv:
		return yield(part{size: size, want: input(q.Type, ranks, before(rank, ranks))})
	}
	var start uint64 // AllGather: each rank has one part
	if q.Op == probes.AllToAll {
		start = uint64(rank) * l.count
	}
	for from := range ranks {
		if err := yield(part{uint64(from) * size, size, input(q.Type, ranks, from), start}); err != nil {
			return err
		}
	}
	return nil
}

// before and after are the neighbours in the ring of SendRecv.
func before(rank, ranks int) int { return (rank + ranks - 1) % ranks }
func after(rank, ranks int) int  { return (rank + 1) % ranks }
