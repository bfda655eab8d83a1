// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// TestMeasure runs at speeds from that of a wire that is nearly dead to that of NVLink.
func TestMeasure(t *testing.T) {
	for _, tt := range []struct {
		name       string
		speed      float64 // bytes per second of the message, beside 20 µs for anything
		collective time.Duration
		want       plan.Want
		bytes      uint64
		iterations int
		fits       bool // into the time for collectives, with the two iterations before
	}{
		{"NVLink", 300e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 64 << 20, 20, true},
		{"PCIe", 10e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 64 << 20, 12, true},
		{"slow", 3e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 32 << 20, 6, true},
		{"TCP", 1e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 16 << 20, 3, true},
		{"TCP over a slow link", 1e8, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 1 << 20, 7, true},
		{"nearly dead", 1e7, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 8 << 20, Iterations: 0}, 1 << 20, 3, false},
		{"more time", 1e9, time.Second, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 0}, 64 << 20, 12, true},
		{"not a power of two", 1e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 60_000_000, Iterations: 0}, 15_000_000, 4, true},
		{"small", 300e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 4096, Iterations: 0}, 4096, 20, true},
		{"by hand", 1e9, plan.DefaultCollective, plan.Want{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 40}, 64 << 20, 40, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{Wants: []plan.Want{tt.want}, Collective: tt.collective})
				var last, total time.Duration // of the size that was measured
				c := &probestest.Crew{Plan: p.Ranks, Speed: func(q *probes.MeasureRequest) time.Duration {
					return time.Duration(float64(q.Bytes)/tt.speed*1e9) + 20*time.Microsecond
				}}
				c.Fault = func(_ context.Context, rank int, q *probes.Request) (any, error, bool) {
					if rank == 0 && q.Measure != nil && q.Measure.Bytes == tt.bytes {
						last = c.Speed(q.Measure) * time.Duration(q.Measure.Iterations)
						total += last
					}
					return nil, nil, false
				}
				r := Run(t.Context(), p, c.Start, noIntruder)
				if r.Outcome != probes.OK || len(r.Measurements) != 1 {
					t.Fatalf("%s: %s", r.Outcome, r.Error)
				}
				m := r.Measurements[0]
				if m.Bytes != tt.bytes || m.Iterations != tt.iterations {
					t.Errorf("%d iterations of %d bytes, expected %d of %d", m.Iterations, m.Bytes, tt.iterations, tt.bytes)
				}
				if total > tt.collective == tt.fits {
					t.Errorf("%s in collectives of that size, %s allowed, expected to fit: %v", total, tt.collective, tt.fits)
				}
				if got := float64(m.Bytes) / float64(m.Time); math.Abs(m.AlgBW/got-1) > 1e-9 || m.BusBW != m.AlgBW*1.75 {
					t.Errorf("%+v", m)
				}
			})
		})
	}
}

// TestBandwidths has what is reported of nccl-tests.
func TestBandwidths(t *testing.T) {
	for _, tt := range []struct {
		op         probes.Op
		ranks      int
		algo, busy float64 // GB/s
	}{
		{probes.AllReduce, 8, 131, 229},   // 8 A100 SXM, 1 GiB
		{probes.AllReduce, 8, 275, 480},   // 8 H100 SXM, peak
		{probes.AllReduce, 2, 47.7, 47.7}, // 2 GPUs: the factor is 1
		{probes.AllReduce, 1, 100, 0},
		{probes.AllGather, 8, 100, 87.5},
		{probes.ReduceScatter, 4, 100, 75},
		{probes.AllGather, 1, 100, 0},
		{probes.Broadcast, 8, 100, 100},
		{probes.Reduce, 2, 100, 100},
		{probes.SendRecv, 8, 100, 100},
		{probes.SendRecv, 1, 100, 0},
		{"all_to_none", 8, 100, 0},
	} {
		if got := tt.algo * tt.op.BusFactor(tt.ranks); math.Abs(got-tt.busy) > tt.busy/200 {
			t.Errorf("%s over %d ranks: %g GB/s are %g of bus bandwidth, expected %g", tt.op, tt.ranks, tt.algo, got, tt.busy)
		}
	}
}

// TestSlowestRankCounts has one rank that is slower than the others, and one that does not know the time of its GPU.
func TestSlowestRankCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, rank int, q *probes.Request) (any, error, bool) {
			if q.Measure == nil || rank != 5 {
				return nil, nil, false
			}
			took := 2 * time.Millisecond * time.Duration(q.Measure.Iterations)
			probestest.Nap(ctx, took)
			return probes.Reply{Measure: &probes.MeasureReply{Bytes: q.Measure.Bytes, Time: took}}, nil, true
		}}
		r := Run(t.Context(), p, c.Start, noIntruder)
		if len(r.Measurements) != 2 || r.Measurements[1].Time != 0.002 || r.Measurements[1].DeviceTime.Or(0) != 0 {
			t.Errorf("%s %+v", r.Error, r.Measurements)
		}
	})
}

// TestKinds runs every kind on a healthy node.
func TestKinds(t *testing.T) {
	for kind, want := range map[probes.Kind]struct{ ranks, measurements int }{probes.Transport: {1, 0}, probes.Node: {8, 2}, probes.Rail: {2, 2}, probes.Socket: {2, 2}, probes.Calibrate: {8, 1}} {
		synctest.Test(t, func(t *testing.T) {
			key := probes.Key{Kind: kind}
			if kind == probes.Rail {
				key.Device, key.Port = "mlx5_1", 1
			}
			p := planFor(t, key, plan.Settings{})
			c := &probestest.Crew{Plan: p.Ranks, Speed: func(q *probes.MeasureRequest) time.Duration { return time.Duration(float64(q.Bytes) / 40e9 * 1e9) }}
			r := Run(t.Context(), p, c.Start, noIntruder)
			if r.Outcome != probes.OK || len(r.GPUs) != want.ranks || len(r.Measurements) != want.measurements || r.Wall.Duration() > plan.DefaultBudget {
				t.Errorf("%s: %s %s after %s, %d GPUs, %d measurements", kind, r.Outcome, r.Error, r.Wall, len(r.GPUs), len(r.Measurements))
			}
			if kind == probes.Rail && math.Abs(r.Expected.Value-40/45.) > 0.001 || kind != probes.Rail && r.Expected.Value != 0 {
				t.Errorf("%s: expected ratio %v", kind, r.Expected)
			}
		})
	}
}

// TestOneGPU has two ranks on the only GPU of a node: its time counts once.
func TestOneGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, skip := plan.New(probes.Key{Kind: probes.Socket}, probestest.Node(1), plan.Settings{})
		if skip != nil {
			t.Fatal(skip)
		}
		c := &probestest.Crew{Plan: p.Ranks}
		r := Run(t.Context(), p, c.Start, noIntruder)
		if r.Outcome != probes.OK || len(c.Started) != 2 || r.GPUTime > r.Wall {
			t.Errorf("%s: %s; %d ranks, %s of GPUs within %s", r.Outcome, r.Error, len(c.Started), r.GPUTime, r.Wall)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"open":{"nccl_path":"/x","nccl":22703,"cuda":13000,"gpu":"GPU-0","memory":1}}`), 0)
	f.Add([]byte(`{"failure":"init","error":"ncclInternalError"}`), 1)
	f.Add([]byte(`{"connect":{"took":1000000}}`), 2)
	f.Add([]byte(`{"measure":{"bytes":1024,"time":1000,"device_time":900,"wrong":0}}`), 3)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		requests := []probes.Request{
			{Open: &probes.OpenRequest{}},
			{NewID: &struct{}{}},
			{Connect: &probes.ConnectRequest{}},
			{Measure: &probes.MeasureRequest{Op: probes.AllReduce, Type: probes.Float32, Bytes: 1024, Iterations: 3}},
			{Close: &struct{}{}},
		}
		q := &requests[int(uint(step)%uint(len(requests)))]
		r, why := readReply(data, q, time.Second)
		switch {
		case why != nil && (why.failure == probes.FailureIntruder || why.failure == probes.FailureStopped || len(why.text) > probes.MaxText):
			t.Errorf("%+v", why)
		case why != nil:
			return
		case q.Measure != nil && (r.Measure.Time <= 0 || r.Measure.Time > 2*time.Second || r.Measure.Bytes > 1024 || r.Measure.Wrong > 256):
			t.Errorf("%+v was believed", r.Measure)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}
