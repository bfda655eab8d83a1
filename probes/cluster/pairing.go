// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// pairing is two nodes that measure over a rail, or with all their GPUs.
type pairing struct {
	leader *Leader
	a, b   *peer
	rail   int
	turn   chan struct{}
	rails  int
}

// Failures of a pair that are none of a probe.
const (
	failureNoRail = "no_rail"
	failureLost   = "lost"
	failureTCP    = "tcp" // although both nodes have rails
)

// measure runs it, and notes what came of it.
func (p *pairing) measure(ctx context.Context, task search.Task) search.Sample {
	s := search.Sample{Round: task.Round, Pair: task.Pair, Rail: p.rail, Culprit: -1}
	for i, node := range []*peer{p.a, p.b} {
		culprit := []int{task.A, task.B}[i]
		stopped, lost := node.state()
		switch {
		case stopped != "": // and then left
			s.Unknown = true
		case lost != nil:
			s.Failure, s.Culprit = failureLost, culprit
		case p.rail >= len(node.Rails):
			s.Failure, s.Culprit = failureNoRail, culprit
		}
	}
	if s.Unknown {
		s.Failure, s.Culprit = "", -1
	}
	if s.Failure != "" || s.Unknown {
		p.leader.note(p.result(s, nil))
		return s
	}
	r := run.Run(ctx, p.plan(), p.start, nil)
	p.judge(&s, &r, task)
	p.leader.note(p.result(s, &r))
	return s
}

// plan is what the run of both nodes is like.
func (p *pairing) plan() *plan.Plan {
	bound := time.Duration(p.rails) * measureBound
	made := &plan.Plan{
		Key: probes.Key{Kind: probes.Calibrate}, Turn: p.turn, Driver: p.a.Driver,
		Settings: plan.Settings{Wants: []plan.Want{p.leader.want(p.rail)}, Budget: bound, Deadline: bound + measureBound},
	}
	for _, node := range []*peer{p.a, p.b} {
		if p.rail >= 0 {
			made.Key = probes.Key{Kind: probes.Rail, Device: p.a.Rails[p.rail].Device, Port: p.a.Rails[p.rail].Port}
			gpu := node.Rails[p.rail].GPU
			made.Ranks = append(made.Ranks, probes.Rank{Node: node.Node, UUID: gpu.UUID, Address: gpu.Address})
			continue
		}
		made.Ranks = append(made.Ranks, node.all()...)
	}
	return made
}

// start is a probes.StartRank.
func (p *pairing) start(ctx context.Context, r probes.Rank) (probes.RankProcess, error) {
	node := p.a
	if r.Node == p.b.Node {
		node = p.b
	}
	if p.rail >= 0 {
		return node.start(ctx, p.rail, 0)
	}
	return node.startGPU(ctx, r.UUID)
}

// judge makes a sample of the result of a run.
func (p *pairing) judge(s *search.Sample, r *probes.Result, task search.Task) {
	culprit := slices.Index([]string{p.a.Node, p.b.Node}, r.Node)
	for i, node := range []*peer{p.a, p.b} {
		stopped, lost := node.state()
		if stopped != "" {
			s.Unknown = true
		}
		if lost != nil {
			culprit = i
		}
	}
	path := r.Path.Or("")
	switch {
	case s.Unknown || r.Outcome == probes.Aborted:
		s.Unknown = true
	case r.Outcome != probes.OK:
		s.Failure = string(r.Failure)
		// who has a wrong sum need not be who made it, nor is it known which version is the right one
		if culprit >= 0 && r.Failure != probes.FailureWrong && r.Failure != probes.FailureVersions {
			s.Culprit = []int{task.A, task.B}[culprit]
			if _, lost := []*peer{p.a, p.b}[culprit].state(); lost != nil {
				s.Failure = failureLost
			}
		}
	case path == probes.PathSocket && len(p.a.Rails) > 0 && len(p.b.Rails) > 0:
		s.Failure = failureTCP
	default:
		if busBW, ok := probes.Judged(*r); ok {
			s.BusBW = busBW
		} else {
			s.Unknown = true
		}
	}
}

// result is a sample for people, with what is known of the run.
func (p *pairing) result(s search.Sample, r *probes.Result) Result {
	out := Result{Round: s.Round, A: p.a.Node, B: p.b.Node, Rail: s.Rail, BusBW: s.BusBW, Failure: s.Failure}
	if s.Unknown {
		out.Failure = "aborted"
	}
	for _, node := range []*peer{p.a, p.b} {
		if stopped, _ := node.state(); stopped != "" {
			out.Error = node.Node + ": " + stopped
		}
	}
	if r == nil {
		return out
	}
	out.Path, out.NCCL, out.Wall = string(r.Path.Or("")), r.NCCL, float64(r.Wall)
	if out.Error == "" {
		out.Error = r.Error
	}
	if s.Failure != "" {
		out.Log = r.Log
	}
	return out
}

func (l *Leader) note(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results = append(l.results, r)
}
