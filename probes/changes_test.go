// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"reflect"
	"testing"
	"time"
)

func goodResult() Result {
	at := time.Unix(1_700_000_000, 0)
	return Result{
		Key: Key{Kind: Node}, At: at, Outcome: OK, NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0", GPUs: []string{"GPU-a", "GPU-b"},
		Path: Known(PathP2P, "", at), Network: "IB", GPUDirect: Known(true, "", at), Channels: Known(4, "", at),
		Settings:     []string{"NCCL_DEBUG=INFO", "NCCL_IB_TC=106", "NCCL_MIN_NCHANNELS="},
		Measurements: []Measurement{{Op: AllReduce, Type: Float32, Bytes: 64 << 20, Ranks: 2, BusBW: 200e9}},
	}
}

func TestChanges(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for name, test := range map[string]struct {
		edit func(*Result)
		want []Change
	}{
		"nothing":  {func(*Result) {}, nil},
		"versions": {func(r *Result) { r.NCCL, r.Driver = "2.28.3", "590.1" }, []Change{{"NCCL", "2.27.3", "2.28.3"}, {"GPU driver", "580.65.06", "590.1"}}},
		"fallback": {func(r *Result) {
			r.Path, r.Network, r.GPUDirect = Known(PathSocket, "", at), "Socket", AbsentFact[bool]("", at)
			r.Measurements = []Measurement{{Op: AllReduce, Type: Float32, Bytes: 64 << 20, Ranks: 2, BusBW: 5e9}}
		}, []Change{{"path", "p2p", "socket"}, {"network", "IB", "Socket"}, {"GPUDirect", "yes", "none"}, {"bus bandwidth", "200 GB/s", "5 GB/s (-98 %)"}}},
		"settings": {func(r *Result) { r.Settings = []string{"NCCL_DEBUG=INFO", "NCCL_IB_TC=", "NCCL_NET=Socket"} }, []Change{
			{"NCCL_IB_TC", "106", `""`}, {"NCCL_MIN_NCHANNELS", `""`, ""}, {"NCCL_NET", "", "Socket"},
		}},
		"a failure that knows nothing": {func(r *Result) { *r = Result{Key: r.Key, Outcome: Failed, Failure: FailureCrash, NCCL: "2.27.3"} }, nil},
		"another size": {func(r *Result) {
			r.Measurements = []Measurement{{Op: AllReduce, Type: Float32, Bytes: 32 << 20, Ranks: 2, BusBW: 100e9}}
		}, nil},
		"noise": {func(r *Result) {
			r.Measurements = []Measurement{{Op: AllReduce, Type: Float32, Bytes: 64 << 20, Ranks: 2, BusBW: 195e9}}
		}, nil},
	} {
		r := goodResult()
		test.edit(&r)
		if got := Changes(goodResult(), r); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
