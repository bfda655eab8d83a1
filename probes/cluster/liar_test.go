// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/plan"
)

// A node with a rail more, which it has or says that it has, accuses nobody: the others were to be drained.
func TestMoreRails(t *testing.T) {
	for _, with := range []int{1, 2, 4} {
		b := &bench{world: &world{}, nodes: 8, change: func(rank int, a *Agent) {
			if rank < with {
				g := a.Hello.GPUs[0]
				a.Hello.Rails = append(a.Hello.Rails, wire.Rail{Device: "mlx5_9", Port: 1, GPU: g})
				a.Member.ByRail = append(a.Member.ByRail, probes.Rank{UUID: g.UUID, Address: g.Address, Env: []string{"RAIL=2"}})
			}
		}}
		r, _, err := b.run(t, t.Context())
		if err != nil || texts(r) != "" || len(r.Drain()) > 0 || len(r.Differences) == 0 {
			t.Errorf("%d of 8: %v; %q, to drain %v, %d differences", with, err, texts(r), r.Drain(), len(r.Differences))
		}
	}
}

// A node that lacks a rail which most have is named.
func TestFewerRails(t *testing.T) {
	b := &bench{world: &world{}, nodes: 8, change: func(rank int, a *Agent) {
		if rank < 2 {
			a.Hello.Rails, a.Member.ByRail = a.Hello.Rails[:1], a.Member.ByRail[:1]
		}
	}}
	if r, _, err := b.run(t, t.Context()); err != nil || fmt.Sprint(r.Drain()) != "[n00 n01]" {
		t.Errorf("%v; %q", err, texts(r))
	}
}

// Nodes that have no GPUs, and say nothing of why, are refused: with two of them the leader had nobody to ask.
func TestNoGPUs(t *testing.T) {
	b := &bench{world: &world{}, nodes: 2, change: func(_ int, a *Agent) {
		a.Hello.GPUs, a.Hello.Rails, a.Member = nil, nil, &plan.Member{}
	}, leader: &Leader{Options: Options{Wait: 300 * time.Millisecond}}}
	if r, _, err := b.run(t, t.Context()); err == nil || r.Refused[wire.ReasonField] != 2 {
		t.Errorf("%v, refused %v", err, r.Refused)
	}
}

// What a node says of itself stays on its line, and has no controls of a terminal.
func TestForgedLines(t *testing.T) {
	const forged = "x\nnode failed: n00: hang; \x1b[2J"
	h := wire.Hello{Skipped: forged}
	if p := newPeer(nil, &h); p.Skipped != "x node failed: n00: hang;  [2J" {
		t.Errorf("skipped: %q", p.Skipped)
	}
	var liar *Agent
	b := &bench{world: &world{}, nodes: 3, change: func(rank int, a *Agent) {
		if rank == 2 {
			liar = a
		}
	}}
	b.fault = func(_ context.Context, node string, _ int, q *probes.Request) (*probes.Reply, error) {
		if node == "n02" && q.Open != nil {
			liar.stop(forged)
		}
		return nil, nil
	}
	r, _, err := b.run(t, t.Context())
	if err != nil || !slices.ContainsFunc(r.Results, func(d Result) bool { return strings.HasSuffix(d.Error, "hang;  [2J") }) {
		t.Errorf("%v; %+v", err, r.Results)
	}
}

// Where the scheduler tells who is in the allocation, no other name is taken: what drains nodes is told them.
func TestOtherName(t *testing.T) {
	b := &bench{world: &world{}, nodes: 3, change: func(rank int, a *Agent) {
		if rank == 2 {
			a.Hello.Node = "ALL"
		}
	}, leader: &Leader{Names: []string{"n00", "n01", "n02"}, Options: Options{Wait: 300 * time.Millisecond, Partial: true}}}
	if r, _, _ := b.run(t, t.Context()); r.Refused[wire.ReasonField] != 1 || r.MissingText() != "n02" {
		t.Errorf("refused %v, missing %s", r.Refused, r.MissingText())
	}
}
