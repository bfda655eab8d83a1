// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

func goodResult() Result {
	at := time.Unix(1_700_000_000, 0)
	return Result{
		Key: Key{Kind: Node}, At: at, Outcome: OK, NCCL: "2.27.3", Driver: "580.65.06", CUDA: "13.0", GPUs: []string{gpuA, gpuB},
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

// What a probe was like before it changed is kept for as long as it stays changed.
func TestBeforeTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, node := newBench(t), Key{Kind: Node}
		busBW, over := 100e9, PathP2P
		b.run = func(_ context.Context, r *Result) {
			if b.mu.Lock(); r.Kind == Node {
				r.Measurements[0].BusBW, r.Path = busBW, Known(over, "", r.At)
			}
			b.mu.Unlock()
		}
		p := b.prober(nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Run(ctx)
		time.Sleep(3 * day)
		if s := b.status(p, node); s.LastGood == nil || s.Before != nil {
			t.Fatalf("before anything changed: %+v", s.Before)
		}
		if s := p.Status(); s.GPUs != 8 || s.Since.IsZero() || time.Since(s.Since) != 3*day {
			t.Errorf("%d GPUs since %v", s.GPUs, s.Since)
		}
		b.change(func() { busBW = 50e9 })
		time.Sleep(day)
		want := []Change{{"bus bandwidth", "100 GB/s", "50 GB/s (-50 %)"}}
		if s := b.status(p, node); s.Before == nil || !reflect.DeepEqual(Changes(*s.Before, *s.LastGood), want) {
			t.Errorf("slower: %+v", s.Before)
		}
		b.change(func() { busBW, over = 5e9, PathSocket })
		time.Sleep(2 * day)
		want = []Change{{"path", "p2p", "socket"}, {"bus bandwidth", "50 GB/s", "5 GB/s (-90 %)"}}
		if s := b.status(p, node); s.Before == nil || !reflect.DeepEqual(Changes(*s.Before, *s.LastGood), want) {
			t.Errorf("over TCP: %+v", s.Before)
		}
	})
}
