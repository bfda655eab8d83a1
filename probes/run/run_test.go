// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// nodeLog is what NCCL logs of 8 GPUs with NVLink, on a node with a network.
const nodeLog = `gpu1:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.9
gpu1:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 1048576.
gpu1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
gpu1:1:2 [0] NCCL INFO Using network IB
gpu1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
gpu1:1:2 [0] NCCL INFO 4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer
gpu1:1:2 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE
gpu1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
`

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks, Log: nodeLog, Reap: 50 * time.Millisecond}
		samples := 0
		r := Run(t.Context(), p, c.Start, guardFunc(func(_ context.Context, own []int) (string, error) {
			samples++
			if len(own) != 8 || slices.Min(own) != probestest.CrewPID+1 || slices.Max(own) != probestest.CrewPID+8 {
				return "", fmt.Errorf("own processes are %v", own)
			}
			return "", nil
		}))
		if r.Outcome != probes.OK || r.Failure != "" || r.Error != "" {
			t.Fatalf("%s %s: %s", r.Outcome, r.Failure, r.Error)
		}
		if killed := c.All(t); killed > 0 || len(c.Started) != 8 {
			t.Errorf("%d of %d processes were killed, expected none of 8", killed, len(c.Started))
		}
		for _, rank := range c.Started {
			if !rank.Clean {
				t.Errorf("rank %d was not asked to release its GPU", rank.Rank)
			}
		}
		if r.NCCL != "2.27.3" || r.CUDA != "13.0" || r.Driver != "580.65.06" || len(r.GPUs) != 8 || r.GPUs[7] != "GPU-7" {
			t.Errorf("NCCL %s, CUDA %s, driver %s, GPUs %v", r.NCCL, r.CUDA, r.Driver, r.GPUs)
		}
		if r.Init != 1 || r.Connect <= 0 || r.Connect > 0.001 || r.Wall < 1.3 || r.Wall > 2 {
			t.Errorf("init %s, connect %s, wall %s", r.Init, r.Connect, r.Wall)
		}
		if held := r.Wall.Duration() - guardInterval; r.GPUTime.Duration() < 8*(held-time.Millisecond) || r.GPUTime.Duration() > 8*held { // after two looks
			t.Errorf("GPU time %s, expected that of 8 GPUs for %s", r.GPUTime, held)
		}
		if len(r.Measurements) != 2 {
			t.Fatalf("%d measurements, expected latency and bandwidth", len(r.Measurements))
		}
		m := r.Measurements[1]
		if m.Op != probes.AllReduce || m.Bytes != 64<<20 || m.Ranks != 8 || m.Iterations != mostIterations || math.Abs(m.BusBW/400e9-1) > 0.001 ||
			math.Abs(m.AlgBW*1.75/m.BusBW-1) > 1e-9 || m.DeviceTime.Value < m.Time/2-1e-6 || m.DeviceTime.Value > m.Time/2 {
			t.Errorf("%+v", m)
		}
		if r.Path.Value != probes.PathP2P || r.Network != "IB" || !r.GPUDirect.Or(false) || r.NVLS.Or(true) || r.SHARP.Or(true) || r.Channels.Value != 4 {
			t.Errorf("path %v, network %s, GPUDirect %v, NVLS %v, SHARP %v, channels %v", r.Path, r.Network, r.GPUDirect, r.NVLS, r.SHARP, r.Channels)
		}
		if !slices.Equal(r.Settings, []string{"NCCL_BUFFSIZE=1048576"}) || r.Log != nodeLog {
			t.Errorf("settings %q, log:\n%s", r.Settings, r.Log)
		}
		if want := int(r.Wall.Duration() / guardInterval); samples < want-1 || samples > want+1 {
			t.Errorf("%d samples of the guard in %s", samples, r.Wall)
		}
	})
}

// step is a request for one rank, with what its fault makes of it.
func atStep(step string, rank int, reply any, err error) func(context.Context, int, *probes.Request) (any, error, bool) {
	return func(_ context.Context, r int, q *probes.Request) (any, error, bool) {
		if r != rank || !strings.HasPrefix(q.Name(), step) {
			return nil, nil, false
		}
		return reply, err, true
	}
}

// hangs has a rank wait for its end at a step.
func hangs(step string, ranks ...int) func(context.Context, int, *probes.Request) (any, error, bool) {
	return func(ctx context.Context, r int, q *probes.Request) (any, error, bool) {
		if !slices.Contains(ranks, r) || !strings.HasPrefix(q.Name(), step) {
			return nil, nil, false
		}
		<-ctx.Done()
		return nil, ctx.Err(), true
	}
}

func TestRunFailures(t *testing.T) {
	crashed := errors.New("crashed: signal: segmentation fault (core dumped): SIGSEGV in ncclFoo")
	for _, tt := range []struct {
		name    string
		fault   func(context.Context, int, *probes.Request) (any, error, bool)
		log     string
		failure probes.Failure
		text    string
		most    time.Duration // wall
	}{
		{"no library", atStep("open", 0, probes.Reply{Failure: probes.FailureLibrary, Error: "libnccl.so.2: cannot open shared object file"}, nil), "", probes.FailureLibrary, "rank 0: open: libnccl.so.2: cannot open", time.Second},
		{"another GPU", atStep("open", 5, probes.Reply{Open: &probes.OpenReply{NCCL: 22703, GPU: "GPU-9"}}, nil), "", probes.FailureProtocol, `rank 5: opened GPU "GPU-9", expected GPU-5`, time.Second},
		{
			"versions", atStep("open", 3, probes.Reply{Open: &probes.OpenReply{NCCL: 22602, CUDA: 13000, GPU: "GPU-3", NCCLPath: "/opt/old/libnccl.so.2"}}, nil), "",
			probes.FailureVersions, "rank 3: NCCL 2.26.2 at /opt/old/libnccl.so.2, expected 2.27.3 as rank 0 has", time.Second,
		},
		{"hang in open", hangs("open", 4), "", probes.FailureHang, "rank 4: open: no answer within 11s", 12 * time.Second},
		{"hang of all in init", hangs("connect", 0, 1, 2, 3, 4, 5, 6, 7), "", probes.FailureHang, "connect: no answer within 21s", 22 * time.Second},
		{
			"init", atStep("connect", 2, probes.Reply{Failure: probes.FailureInit, Error: "ncclCommInitRankConfig: invalid usage"}, nil),
			"x:1:1 [0] init.cc:1 NCCL WARN Duplicate GPU detected : rank 2 and rank 3\n",
			probes.FailureInit, "rank 2: connect: ncclCommInitRankConfig: invalid usage; NCCL warned: Duplicate GPU detected", 3 * time.Second,
		},
		{
			"versions, by NCCL's own words", atStep("connect", 2, probes.Reply{Failure: probes.FailureInit, Error: "invalid usage: Mismatched NCCL version detected : rank 1"}, nil),
			"x:1:1 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 1\n",
			probes.FailureVersions, "rank 2: connect: invalid usage: Mismatched NCCL version detected : rank 1", 3 * time.Second,
		},
		{"worker says that it hangs", atStep("connect", 1, nil, fmt.Errorf("nccl worker: %w: no answer within 3s", probes.ErrRankHung)), "", probes.FailureHang, "rank 1: connect: nccl worker: rank does not answer", 3 * time.Second},
		{"handler fails", atStep("new id", 0, nil, fmt.Errorf("nccl worker: %w: the handler panicked: oh", probes.ErrRankRefused)), "", probes.FailureProtocol, "rank 0: new id: nccl worker: rank answers with an error: the handler panicked: oh", time.Second},
		{"crash in a collective", atStep("measure", 6, nil, crashed), "", probes.FailureCrash, "rank 6: measure all_reduce: crashed: signal: segmentation fault", 3 * time.Second},
		{
			"crash that others notice first", func(ctx context.Context, r int, q *probes.Request) (any, error, bool) {
				switch {
				case q.Measure == nil:
					return nil, nil, false
				case r != 6:
					return probes.Reply{Failure: probes.FailureNCCL, Error: "ncclRemoteError"}, nil, true
				}
				probestest.Nap(ctx, failureGrace/2)
				return nil, crashed, true
			}, "", probes.FailureCrash, "rank 6: measure all_reduce: crashed", 3 * time.Second,
		},
		{
			"others wait for a rank that hangs", func(ctx context.Context, r int, q *probes.Request) (any, error, bool) {
				if q.Connect == nil || r == 5 {
					return hangs("connect", 5)(ctx, r, q)
				}
				probestest.Nap(ctx, q.Connect.Timeout)
				return probes.Reply{Failure: probes.FailureHang, Error: "ncclCommInitRankConfig is not done"}, nil, true
			}, "", probes.FailureHang, "rank 5: connect: no answer within 21s", 30 * time.Second,
		},
		{
			"a warning that is harmless", atStep("connect", 1, probes.Reply{Failure: probes.FailureInit, Error: "internal error"}, nil),
			"x:1:1 [0] misc/ibvwrap.cc:173 NCCL WARN lib wrapper not initialized.\n", probes.FailureInit, "rank 1: connect: internal error", 3 * time.Second,
		},
		{"hang in a collective", hangs("measure", 0, 1, 2, 3, 4, 5, 6, 7), "", probes.FailureHang, "measure all_reduce: no answer", 15 * time.Second},
		{"error in a collective", atStep("measure", 1, probes.Reply{Failure: probes.FailureNCCL, Error: "ncclRemoteError"}, nil), "", probes.FailureNCCL, "rank 1: measure all_reduce: ncclRemoteError", 3 * time.Second},
		{"CUDA", atStep("measure", 1, probes.Reply{Failure: probes.FailureCUDA, Error: "CUDA_ERROR_ECC_UNCORRECTABLE"}, nil), "", probes.FailureCUDA, "ECC", 3 * time.Second},
		{
			"wrong sum", atStep("measure", 7, probes.Reply{Measure: &probes.MeasureReply{Bytes: 1024, Time: time.Microsecond, Wrong: 17}}, nil), "",
			probes.FailureWrong, "rank 7: all_reduce of 1024 bytes: 17 elements are wrong", 3 * time.Second,
		},
		{"ranks measure different messages", atStep("measure", 2, probes.Reply{Measure: &probes.MeasureReply{Bytes: 512, Time: time.Microsecond}}, nil), "", probes.FailureProtocol, "rank 2: measured a message of 512 bytes, expected 1024", 3 * time.Second},
		{"hang at the end", hangs("close", 3), "", probes.FailureHang, "rank 3: close: no answer within 6s", 9 * time.Second},
		{"crash at the end", atStep("close", 3, nil, crashed), "", probes.FailureCrash, "rank 3: close: crashed", 3 * time.Second},
		{"garbage", atStep("connect", 0, "\x00{{{", nil), "", probes.FailureProtocol, `rank 0: connect: reply "\x00{{{"`, 3 * time.Second},
		{"endless garbage", atStep("connect", 0, strings.Repeat("x", maxReply+1), nil), "", probes.FailureProtocol, "a reply of 65537 bytes, expected at most 65536", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
				c := &probestest.Crew{Plan: p.Ranks, Log: tt.log, Fault: tt.fault, Reap: 10 * time.Millisecond}
				r := Run(t.Context(), p, c.Start, noIntruder)
				if r.Outcome != probes.Failed || r.Failure != tt.failure || !strings.Contains(r.Error, tt.text) {
					t.Errorf("%s %s: %q, expected %s: %q", r.Outcome, r.Failure, r.Error, tt.failure, tt.text)
				}
				if strings.Count(r.Error, "Mismatched") > 1 || strings.Contains(r.Error, "lib wrapper") {
					t.Errorf("%q says it twice, or what is harmless", r.Error)
				}
				if r.Wall.Duration() > tt.most {
					t.Errorf("took %s, expected at most %s", r.Wall, tt.most)
				}
				if killed := c.All(t); killed != 8 {
					t.Errorf("%d processes were killed, expected 8", killed)
				}
				if held := r.Wall.Duration() - guardInterval; r.GPUTime.Duration() < 8*(held-time.Millisecond) || r.GPUTime.Duration() > 8*held { // after two looks
					t.Errorf("GPU time %s, expected that of 8 GPUs for %s, killed or not", r.GPUTime, held)
				}
				if tt.failure == probes.FailureWrong && (len(r.Measurements) != 1 || r.Measurements[0].Wrong != 17) {
					t.Errorf("%+v, expected the wrong measurement", r.Measurements)
				}
			})
		})
	}
}

// TestRunAbsurd has a rank reply what cannot be.
func TestRunAbsurd(t *testing.T) {
	for _, tt := range []struct{ step, reply string }{
		{"open", `{}`},
		{"open", `null`},
		{"open", `{"failure":"bad luck"}`},
		{"open", `{"failure":"intruder"}`},
		{"open", `{"open":{"nccl":0,"gpu":"GPU-0"}}`},
		{"open", `{"open":{"nccl":-22703,"gpu":"GPU-0"}}`},
		{"open", `{"open":{"nccl":22703,"cuda":-1,"gpu":"GPU-0"}}`},
		{"open", `{"open":{"nccl":9223372036854775807,"gpu":"GPU-0"}}`},
		{"open", `{"open":{"nccl":22703,"cuda":13000}}`},
		{"new id", `{"id":"AAAA"}`},
		{"connect", `{"connect":{"took":-1}}`},
		{"connect", `{"connect":{"took":NaN}}`},
		{"connect", `{"connect":{"took":9223372036854775808}}`},
		{"connect", `{"connect":{"took":9223372036854775807}}`},
		{"connect", `{"open":{"nccl":22703}}`},
		{"measure", `{"measure":{"bytes":1024,"time":0}}`},
		{"measure", `{"measure":{"bytes":1024,"time":-5}}`},
		{"measure", `{"measure":{"bytes":1024,"time":1e99}}`},
		{"measure", `{"measure":{"bytes":1024,"time":3600000000000}}`},
		{"measure", `{"measure":{"bytes":1024,"time":1000,"device_time":-1}}`},
		{"measure", `{"measure":{"bytes":1024,"time":1000,"wrong":257}}`},
		{"measure", `{"measure":{"bytes":1024,"time":1000,"wrong":-1}}`},
		{"measure", `{"measure":{"bytes":0,"time":1000}}`},
		{"measure", `{"measure":{"bytes":9223372036854775808,"time":1000}}`},
		{"measure", `{"measure":{"bytes":2048,"time":1000}}`},
	} {
		t.Run(tt.step+tt.reply, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
				c := &probestest.Crew{Plan: p.Ranks, Fault: atStep(tt.step, 0, tt.reply, nil)}
				r := Run(t.Context(), p, c.Start, noIntruder)
				if r.Outcome != probes.Failed || r.Failure != probes.FailureProtocol || !strings.HasPrefix(r.Error, "rank 0: ") {
					t.Errorf("%s %s: %s, expected %s of rank 0", r.Outcome, r.Failure, r.Error, probes.FailureProtocol)
				}
				c.All(t)
			})
		})
	}
}

func TestRunIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(500*time.Millisecond, func() { cancel(errors.New("maintenance")) })
		c := &probestest.Crew{Plan: p.Ranks}
		r := Run(ctx, p, c.Start, noIntruder)
		if r.Outcome != probes.Aborted || r.Failure != probes.FailureStopped || r.Error != "stopped: maintenance" || r.Wall != 0.5 || r.GPUTime.Duration() != 8*(500*time.Millisecond-guardInterval) {
			t.Errorf("%s %s after %s (%s of GPUs): %s", r.Outcome, r.Failure, r.Wall, r.GPUTime, r.Error)
		}
		if killed := c.All(t); killed != 8 {
			t.Errorf("%d processes were killed, expected 8", killed)
		}
	})
}

// TestRunDeadline has ranks that are slow in every step, each within its limit.
func TestRunDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{Budget: time.Hour})
		c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, _ int, q *probes.Request) (any, error, bool) {
			probestest.Nap(ctx, 8*time.Second)
			return nil, nil, false
		}}
		r := Run(t.Context(), p, c.Start, noIntruder)
		if r.Outcome != probes.Failed || r.Failure != probes.FailureHang || r.Wall.Duration() > plan.DefaultDeadline {
			t.Errorf("%s %s after %s: %s", r.Outcome, r.Failure, r.Wall, r.Error)
		}
		c.All(t)
	})
}

func TestRunBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, _ int, q *probes.Request) (any, error, bool) {
			if q.Connect != nil {
				probestest.Nap(ctx, 11*time.Second)
			}
			return nil, nil, false
		}}
		r := Run(t.Context(), p, c.Start, noIntruder)
		if r.Outcome != probes.Failed || r.Failure != probes.FailureHang || !strings.Contains(r.Error, "expected at most 10s") || r.Wall > 13 || len(r.Measurements) > 0 {
			t.Errorf("%s %s after %s: %s", r.Outcome, r.Failure, r.Wall, r.Error)
		}
		c.All(t)
	})
}

func TestRunStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks, FailStart: func(number int) error {
			if number == 4 {
				return errors.New("fork/exec: resource temporarily unavailable")
			}
			return nil
		}}
		r := Run(t.Context(), p, c.Start, noIntruder)
		if r.Failure != probes.FailureCrash || !strings.Contains(r.Error, "not started: fork/exec") || r.GPUTime != 0 {
			t.Errorf("%s %s, %s of GPUs: %s", r.Outcome, r.Failure, r.GPUTime, r.Error)
		}
		if killed := c.All(t); killed != len(c.Started) {
			t.Errorf("%d of %d were killed", killed, len(c.Started))
		}
	})
}

// TestRunLateStart starts processes when the run no longer waits for them.
func TestRunLateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
		c := &probestest.Crew{Plan: p.Ranks}
		r := Run(t.Context(), p, func(ctx context.Context, rank probes.Rank) (probes.RankProcess, error) {
			time.Sleep(startLimit + time.Minute)
			return c.Start(ctx, rank)
		}, noIntruder)
		if r.Failure != probes.FailureCrash || r.Wall.Duration() > startLimit+time.Second {
			t.Errorf("%s after %s: %s", r.Failure, r.Wall, r.Error)
		}
		time.Sleep(2 * time.Minute)
		if killed := c.All(t); killed != 8 {
			t.Errorf("%d of those that started late were killed, expected 8", killed)
		}
	})
}

// TestRunHeldByKernel has a process that SIGKILL does not end.
func TestRunHeldByKernel(t *testing.T) {
	for _, fault := range []func(context.Context, int, *probes.Request) (any, error, bool){nil, hangs("connect", 2)} {
		synctest.Test(t, func(t *testing.T) {
			p := planFor(t, probes.Key{Kind: probes.Node}, plan.Settings{})
			c := &probestest.Crew{Plan: p.Ranks, Fault: fault, Held: 3}
			r := Run(t.Context(), p, c.Start, noIntruder)
			if r.Outcome != probes.Failed || r.Failure != probes.FailureHang || !strings.Contains(r.Error, "process 1003 is not gone: the kernel holds it") {
				t.Errorf("%s %s: %s", r.Outcome, r.Failure, r.Error)
			}
			c.All(t)
		})
	}
}
