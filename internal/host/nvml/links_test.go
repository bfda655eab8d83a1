// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// Each field answers for itself, in a type of its own. What is not of that type's bytes is left over from others.
func TestNumberOfAField(t *testing.T) {
	const leftover = 0x1111_2222_0000_0000
	minus := func(n int64) uint64 { return uint64(-n) }
	for _, c := range []struct {
		name string
		raw  uint64
		kind nvml.ValueType
		ret  nvml.Return
		want fabric.Fact[uint64]
	}{
		{"unsigned int", leftover | 7, nvml.VALUE_TYPE_UNSIGNED_INT, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: 7}},
		{"unsigned long", math.MaxUint64, nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: math.MaxUint64}},
		{"unsigned long long", leftover, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: leftover}},
		{"signed", 7, nvml.VALUE_TYPE_SIGNED_LONG_LONG, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: 7}},
		{"negative", minus(1), nvml.VALUE_TYPE_SIGNED_LONG_LONG, nvml.SUCCESS, fabric.Fact[uint64]{Reason: fabric.ReasonMalformed}},
		{"signed int", leftover | 7, nvml.VALUE_TYPE_SIGNED_INT, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: 7}},
		{"negative int", leftover | 0xffff_ffff, nvml.VALUE_TYPE_SIGNED_INT, nvml.SUCCESS, fabric.Fact[uint64]{Reason: fabric.ReasonMalformed}},
		{"unsigned short", leftover | 0xffff_0007, nvml.VALUE_TYPE_UNSIGNED_SHORT, nvml.SUCCESS, fabric.Fact[uint64]{State: fabric.OK, Value: 7}},
		{"double", math.Float64bits(7), nvml.VALUE_TYPE_DOUBLE, nvml.SUCCESS, fabric.Fact[uint64]{Reason: fabric.ReasonMalformed}},
		{"no such type", 7, 77, nvml.SUCCESS, fabric.Fact[uint64]{Reason: fabric.ReasonMalformed}},
		{"not answered", 0, nvml.VALUE_TYPE_UNSIGNED_INT, nvml.ERROR_UNKNOWN, fabric.Fact[uint64]{Reason: fabric.ReasonIO}},
		{"no such field", 0, nvml.VALUE_TYPE_UNSIGNED_INT, nvml.ERROR_INVALID_ARGUMENT, fabric.Fact[uint64]{Reason: fabric.ReasonUnsupported}},
		{"lost meanwhile", 7, nvml.VALUE_TYPE_UNSIGNED_INT, nvml.ERROR_GPU_IS_LOST, fabric.Fact[uint64]{Reason: fabric.ReasonGone}},
	} {
		v := nvml.FieldValue{ValueType: uint32(c.kind), NvmlReturn: uint32(c.ret)}
		binary.NativeEndian.PutUint64(v.Value[:], c.raw)
		if got := number(&v); got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
}
