// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// All nodes together measure what nccl-tests does, without those that are bad, and a rank that fails is named. For that
// no node is to be drained: nobody has confirmed it.
func TestAllNodes(t *testing.T) {
	slow := func(a, b string, _ int) float64 { return 1 + 0.08*float(involves(a, b, "n03")) }
	for name, tt := range map[string]struct {
		slow  func(a, b string, rail int) float64
		fault *probes.Reply // of a rank of n02, in an all_gather
		cut   bool          // the node dies there
		nodes string
		want  string
		rows  int
		drain string
	}{
		"healthy":       {nodes: "n00 n01 n02 n03", rows: 16},
		"slow node":     {slow: slow, nodes: "n00 n01 n02", want: "node bad n03", rows: 16, drain: "n03"},
		"error":         {fault: &probes.Reply{Failure: probes.FailureNCCL, Error: "unhandled"}, nodes: "n00 n01 n02 n03", want: "run failed n02 nccl", rows: 4},
		"wrong results": {fault: &probes.Reply{Measure: &probes.MeasureReply{Bytes: 1 << 10, Time: 1e6, Wrong: 3}}, nodes: "n00 n01 n02 n03", want: "run failed n02 wrong_result", rows: 5},
		"hang":          {fault: &probes.Reply{Failure: probes.FailureHang, Error: "not done"}, nodes: "n00 n01 n02 n03", want: "run failed  hang", rows: 4},
		"death":         {cut: true, nodes: "n00 n01 n02 n03", want: "run failed n02 lost", rows: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dies := make(chan struct{})
			b := &bench{nodes: 4, leader: &Leader{Options: Options{AllNodes: true}}, cut: map[int]chan struct{}{2: dies}, world: &world{slow: tt.slow}}
			b.fault = func(ctx context.Context, node string, _ int, q *probes.Request) (*probes.Reply, error) {
				if node != "n02" || q.Measure == nil || q.Measure.Op != probes.AllGather {
					return nil, nil
				}
				if tt.cut {
					b.dying.Do(func() { close(dies) })
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return tt.fault, nil
			}
			r, _, err := b.run(t, t.Context())
			if err != nil || r.AllNodes == nil || r.AllNodes.Result == nil {
				t.Fatalf("%v: %+v", err, r.AllNodes)
			}
			w := r.AllNodes
			if got := texts(r); got != tt.want || strings.Join(w.Nodes, " ") != tt.nodes || strings.Join(r.Drain(), " ") != tt.drain {
				t.Errorf("%q with %v, expected %q; to drain: %v", got, w.Nodes, tt.want, r.Drain())
			}
			if len(w.Result.Measurements) != tt.rows {
				t.Errorf("%d measurements, expected %d", len(w.Result.Measurements), tt.rows)
			}
			for _, m := range w.Result.Measurements {
				if m.Ranks != rails*len(w.Nodes) || m.BusBW <= 0 {
					t.Errorf("%+v", m)
				}
			}
			if strings.HasPrefix(tt.want, "run") && !strings.Contains(r.Verdicts[0].Text(), "n02") {
				t.Errorf("%s, expected the node of the rank", r.Verdicts[0].Text())
			}
			if b.closed < b.started {
				t.Errorf("%d of %d ranks were closed", b.closed, b.started)
			}
		})
	}
}

// What a GPU sends at most is printed first.
func TestWholeBytes(t *testing.T) {
	o := Options{AllBytes: 1 << 12}
	if got, want := o.WholeBytes(), uint64(5*Messages*(1+16+256+4096)); got != want {
		t.Errorf("%d, expected %d", got, want)
	}
}
