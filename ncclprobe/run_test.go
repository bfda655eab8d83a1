// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// process is a child as a run sees it.
type process struct{ *child }

func (p process) Call(_ context.Context, request []byte) ([]byte, error) {
	l, err := p.exchange(request)
	if err == nil && l.Error != "" {
		err = fmt.Errorf("%w: %s", probes.ErrRankRefused, l.Error)
	}
	return l.Reply, err
}

func (p process) Kill()                             { p.cmd.Process.Kill() }
func (p process) Close() error                      { p.end(); return nil }
func (p process) Log() (head, tail []byte, n int64) { return nil, nil, 0 }
func (p process) PID() int                          { return p.cmd.Process.Pid }

// TestRun has a run ask the ranks: both sides of the protocol mean the same.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name     string
		machine  []string
		deadline time.Duration
		want     probes.Failure
	}{
		{name: "good", machine: []string{"busbw 1e9", "latency 1e-3"}},
		{name: "wrong", machine: []string{"lie sum"}, want: probes.FailureWrong},
		{name: "init fails", machine: []string{"rank 1 error init 2"}, want: probes.FailureInit},
		{name: "crash", machine: []string{"rank 1 crash collective"}, want: probes.FailureCrash},
		{name: "hang", machine: []string{"rank 1 hang collective"}, deadline: 3 * time.Second, want: probes.FailureHang},
		{name: "error", machine: []string{"error ncclAllReduce 5"}, want: probes.FailureNCCL},
		{name: "no driver", machine: []string{"gpus 0"}, want: probes.FailureCUDA},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := standin(t, tt.machine)
			q := (&child{dir: dir}).open(0).Open
			p := &plan.Plan{Key: probes.Key{Kind: probes.Node}, Settings: plan.Settings{
				NCCL: q.NCCL, CUDA: q.CUDA, MaxCTAs: 2, Budget: patient, Deadline: max(tt.deadline, patient), Collective: 10 * time.Millisecond,
				Wants: []plan.Want{{Op: probes.AllReduce, Type: probes.BFloat16, Bytes: 1 << 20}, {Op: probes.AllGather, Type: probes.Float32, Bytes: 1 << 10, Iterations: 5}},
			}}
			if tt.deadline != 0 {
				p.Settings.Deadline = tt.deadline
			}
			for gpu := range 2 {
				p.Ranks = append(p.Ranks, probes.Rank{UUID: fmt.Sprintf("GPU-%08x-1111-2222-3333-444444444444", gpu), Address: fmt.Sprintf("0000:%02x:00.0", 0x1b+gpu)})
			}
			got := run.Run(t.Context(), p, func(_ context.Context, rank probes.Rank) (probes.RankProcess, error) {
				return process{start(t, dir, rank.Env...)}, nil
			}, nil)
			if got.Failure != tt.want {
				t.Fatalf("%s: %s, expected %q", got.Failure, got.Error, tt.want)
			}
			if tt.want != "" {
				return
			}
			if len(got.Measurements) != 2 || got.NCCL != "2.30.7" || got.CUDA != "13.0" || got.Init <= 0 || got.Connect <= 0 {
				t.Fatalf("%+v", got)
			}
			// 1 MiB at 1 GB/s.
			if m := got.Measurements[0]; m.BusBW > 1e9 || m.BusBW < 1e6 || m.Iterations < 3 {
				t.Errorf("%+v", m)
			}
		})
	}
}
