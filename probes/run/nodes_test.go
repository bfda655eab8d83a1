// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/probestest"
)

// ofTwoNodes is a plan whose ranks are on two nodes.
func ofTwoNodes() *plan.Plan {
	return &plan.Plan{
		Key: probes.Key{Kind: probes.Node},
		Settings: plan.Settings{
			Budget: time.Minute, Deadline: 2 * time.Minute,
			Wants: []plan.Want{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 64 << 20, Iterations: 5, Warmups: 2}},
		},
		Ranks: []probes.Rank{
			{Node: "n1", UUID: "GPU-a", Address: "0000:1b:00.0"},
			{Node: "n2", UUID: "GPU-b", Address: "0000:1c:00.0"},
		},
	}
}

// A failure names the node where it began: a peer that only misses another rank is no cause, however early it says so.
func TestNodeOfAFailure(t *testing.T) {
	remote := probes.Reply{Failure: probes.FailureNCCL, Error: "all_reduce: " + remoteError + ", no more"}
	hang := probes.Reply{Failure: probes.FailureHang, Error: "all_reduce is not done after 10s"}
	for name, tt := range map[string]struct {
		replies [2]probes.Reply
		lost    int // rank whose node is lost 5 s later; -1: none
		node    string
		failure probes.Failure
	}{
		"a node is lost":                    {[2]probes.Reply{remote, {}}, 1, "n2", probes.FailureCrash},
		"both miss the other":               {[2]probes.Reply{remote, remote}, -1, "", probes.FailureNCCL},
		"one gives up, the other sees that": {[2]probes.Reply{hang, remote}, -1, "", probes.FailureHang},
		"both wait":                         {[2]probes.Reply{hang, hang}, -1, "", probes.FailureHang},
		"a GPU fails":                       {[2]probes.Reply{remote, {Failure: probes.FailureCUDA, Error: "cuStreamQuery: 700"}}, -1, "n2", probes.FailureCUDA},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ofTwoNodes()
				c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, rank int, q *probes.Request) (any, error, bool) {
					switch {
					case q.Measure == nil:
						return nil, nil, false
					case rank == tt.lost:
						probestest.Nap(ctx, 5*time.Second)
						return nil, errors.New("connection lost"), true
					}
					return tt.replies[rank], nil, true
				}}
				r := Run(t.Context(), p, c.Start, nil)
				if r.Node != tt.node || r.Failure != tt.failure || tt.node != "" && !strings.Contains(r.Error, "rank 1 on n2: ") {
					t.Errorf("%q: %s: %s", r.Node, r.Failure, r.Error)
				}
			})
		})
	}
}

// Runs that share nodes measure one after the other, and those of ranks that are slow to open do not hold others up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{}, 1)
		var measuring, most, warmups int
		ends := make(chan probes.Result)
		for range 3 {
			p := ofTwoNodes()
			p.Turn = turn
			c := &probestest.Crew{Plan: p.Ranks, Fault: func(ctx context.Context, rank int, q *probes.Request) (any, error, bool) {
				if q.Measure != nil && rank == 0 {
					measuring++
					most = max(most, measuring)
					warmups += q.Measure.Warmups
					probestest.Nap(ctx, time.Second)
					measuring--
				}
				return nil, nil, false
			}}
			go func() { ends <- Run(t.Context(), p, c.Start, nil) }()
		}
		for range 3 {
			if r := <-ends; r.Outcome != probes.OK {
				t.Errorf("%s: %s", r.Failure, r.Error)
			}
		}
		if most != 1 || warmups != 6 {
			t.Errorf("%d measured at once, %d iterations before others", most, warmups)
		}
	})
}
