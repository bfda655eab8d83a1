// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

// Whole is what all nodes reached in one communicator. There is nothing to compare it with, so it is judged only by
// whether it worked.
type Whole struct {
	Nodes   []string       `json:"nodes"`             // that took part, in the order of their ranks
	Skipped string         `json:"skipped,omitempty"` // why nothing was measured
	Result  *probes.Result `json:"result,omitempty"`
}

// WholeBound is how long all nodes together may take.
const WholeBound = 5 * time.Minute

// wholeMost is how many ranks one communicator may have, see ncclprobe.
const wholeMost = 4096

// wants are the operations of nccl-tests that training uses, with messages of four sizes.
func (o *Options) wants() []plan.Want {
	var all []plan.Want
	for _, op := range []probes.Op{probes.AllReduce, probes.AllGather, probes.ReduceScatter, probes.AllToAll} {
		for shift := 12; shift >= 0; shift -= 4 {
			all = append(all, plan.Want{
				Op: op, Type: probes.Float32, Bytes: o.AllBytes >> shift, Iterations: iterations, Warmups: warmups,
			})
		}
	}
	return all
}

// WholeBytes is what each GPU sends at most with all nodes together: a message, and that of an all_reduce twice.
func (o *Options) WholeBytes() uint64 {
	var sum uint64
	for _, w := range o.wants() {
		if sum += Messages * w.Bytes; w.Op == probes.AllReduce {
			sum += Messages * w.Bytes
		}
	}
	return sum
}

// whole has all nodes measure together that are neither bad nor gone.
func (l *Leader) whole(ctx context.Context, r *Report, nodes []*peer, began time.Time) error {
	bad := r.Drain()
	made := &plan.Plan{
		Key: probes.Key{Kind: probes.Calibrate}, Driver: nodes[0].Driver,
		Settings: plan.Settings{Wants: l.wants(), Budget: WholeBound, Deadline: WholeBound + measureBound},
	}
	at := map[string]*peer{}
	w := &Whole{Nodes: []string{}}
	r.AllNodes = w
	for _, p := range nodes {
		if stopped, lost := p.state(); stopped != "" || lost != nil || slices.Contains(bad, p.Node) {
			continue
		}
		at[p.Node] = p
		w.Nodes = append(w.Nodes, p.Node)
		made.Ranks = append(made.Ranks, p.all()...)
	}
	made.Settings.Wants = slices.DeleteFunc(made.Settings.Wants,
		func(want plan.Want) bool { return want.Bytes < want.Least(len(made.Ranks)) })
	switch spent := time.Since(began); {
	case len(at) < 2:
		w.Skipped = probes.Counted(len(at), "node") + " could be measured and not bad, expected at least 2"
	case len(made.Ranks) > wholeMost:
		w.Skipped = fmt.Sprintf("%d GPUs, expected at most %d", len(made.Ranks), wholeMost)
	case len(made.Settings.Wants) == 0:
		w.Skipped = fmt.Sprintf("messages of %d bytes are too small for %d GPUs", l.AllBytes, len(made.Ranks))
	case spent > l.Bound:
		w.Skipped = fmt.Sprintf("%s after the start, expected at most %s", spent.Round(time.Second), l.Bound)
	}
	if w.Skipped != "" {
		l.say("all nodes together are not measured: %s", w.Skipped)
		return nil
	}
	l.say("all nodes together: %s, %s", probes.Counted(len(at), "node"), probes.Counted(len(made.Ranks), "rank"))
	result := run.Run(ctx, made, func(ctx context.Context, rank probes.Rank) (probes.RankProcess, error) {
		return at[rank.Node].startGPU(ctx, rank.UUID)
	}, nil)
	w.Result = &result
	if ctx.Err() != nil { // what ended with it says nothing of nodes
		return context.Cause(ctx)
	}
	if result.Outcome != probes.OK {
		r.Verdicts = append(r.Verdicts, wholeVerdict(&result, at))
	}
	return nil
}

// wholeVerdict names the rank that failed. No node is bad for it: nobody has confirmed it with others.
func wholeVerdict(r *probes.Result, at map[string]*peer) Verdict {
	v := Verdict{
		Subject: search.OfRun, Level: search.Failed, Node: r.Node, Rail: search.All, Loss: 1, Failure: string(r.Failure),
		Why: "all nodes together: " + r.Error,
	}
	if r.Failure == probes.FailureHang && r.Node == "" {
		v.Why = "all nodes together: no rank shows why; " + r.Error
	}
	for name, p := range at {
		switch stopped, lost := p.state(); {
		case stopped != "": // and then left
			v.Level, v.Why = search.Unknown, fmt.Sprintf("all nodes together: %s: %s", name, stopped)
		case lost != nil:
			v.Node, v.Failure, v.Why = name, failureLost, fmt.Sprintf("all nodes together: %s: %v", name, lost)
		}
	}
	if r.Outcome == probes.Aborted || r.Failure == probes.FailureHang && r.Wall >= probes.SecondsOf(WholeBound) {
		v.Level = search.Unknown // a network may be slower than there is time
	}
	if v.Level == search.Unknown {
		v.Failure, v.Loss = "", 0
	}
	return v
}
