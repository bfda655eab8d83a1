// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/run"
)

var secret = []byte("0123456789abcdef")

const rails = 2

// texts are the verdicts of a report without their numbers.
func texts(r *Report) string {
	var list []string
	for _, v := range r.Verdicts {
		s := fmt.Sprintf("%s %s %s", v.Subject, v.Level, v.Node)
		if v.Partner != "" {
			s += "-" + v.Partner
		}
		if v.Rail >= 0 {
			s += " " + v.Device
		}
		if v.Failure != "" {
			s += " " + v.Failure
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// partnerOfFirst is the node that n00 measures with in the first round of eight nodes.
func partnerOfFirst() string {
	for _, task := range (&search.Search{Nodes: make([]search.Node, 8), Rails: []int{0}, Seed: 1}).Next(nil) {
		if task.A == 0 {
			return fmt.Sprintf("n%02d", task.B)
		}
	}
	return ""
}

func float(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func involves(a, b, node string) bool { return a == node || b == node }

// What is planted is what is named.
func TestScenarios(t *testing.T) {
	for name, tt := range map[string]struct {
		slow  func(a, b string, rail int) float64
		fault func(ctx context.Context, node string, rail int, q *probes.Request) (*probes.Reply, error)
		want  string
	}{
		"healthy": {nil, nil, ""},
		"slow node": {func(a, b string, _ int) float64 {
			if involves(a, b, "n03") {
				return 1.08
			}
			return 1
		}, nil, "node bad n03"},
		"slow rail": {func(a, b string, rail int) float64 {
			if rail != 0 && involves(a, b, "n05") { // all together are as slow as that rail
				return 1.5
			}
			return 1
		}, nil, "rail bad n05 mlx5_1"},
		"slow rail, and slower together": {func(a, b string, rail int) float64 {
			return map[int]float64{1: 1.1, search.All: 1.3}[rail]*float(involves(a, b, "n05")) + float(rail == 0 || !involves(a, b, "n05"))
		}, nil, "node bad n05; rail bad n05 mlx5_1"},
		"slow path of all rails, and slower together": {func(a, b string, rail int) float64 {
			return 1 + (0.3+0.2*float(rail == search.All))*float(involves(a, b, "n00") && involves(a, b, partnerOfFirst()))
		}, nil, "path bad n00-" + partnerOfFirst()},
		"slow path": {func(a, b string, rail int) float64 {
			return 1 + 0.5*float(rail != 0 && involves(a, b, "n00") && involves(a, b, partnerOfFirst()))
		}, nil, "path bad n00-" + partnerOfFirst() + " mlx5_1"},
		"slow together, each rail clean": {func(a, b string, rail int) float64 {
			if rail == search.All && involves(a, b, "n02") {
				return 1.06
			}
			return 1
		}, nil, "node bad n02"},
		"a library is missing": {nil, func(_ context.Context, node string, _ int, q *probes.Request) (*probes.Reply, error) {
			if node == "n01" && q.Open != nil {
				return &probes.Reply{Failure: probes.FailureLibrary, Error: "no NCCL"}, nil
			}
			return nil, nil
		}, "node failed n01 library"},
		"one hangs, the other says so": {nil, func(_ context.Context, node string, rail int, q *probes.Request) (*probes.Reply, error) {
			if node == "n04" && rail == 0 && q.Connect != nil {
				return &probes.Reply{Failure: probes.FailureHang, Error: "ncclCommInitRankConfig is not done after 20s"}, nil
			}
			return nil, nil
		}, "rail failed n04 mlx5_0 hang"},
		"wrong sums": {nil, func(_ context.Context, node string, rail int, q *probes.Request) (*probes.Reply, error) {
			if node == "n00" && rail == 1 && q.Measure != nil {
				return &probes.Reply{Measure: &probes.MeasureReply{Bytes: q.Measure.Bytes, Time: time.Millisecond, Wrong: 3}}, nil
			}
			return nil, nil
		}, "rail failed n00 mlx5_1 wrong_result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{world: &world{slow: tt.slow, fault: tt.fault}, nodes: 8}
			r, ends, err := b.run(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for rank, err := range ends {
				if err != nil {
					t.Errorf("node %d: %v", rank, err)
				}
			}
			if got := texts(r); got != tt.want {
				t.Errorf("%q, expected %q", got, tt.want)
			}
			if b.closed < b.started {
				t.Errorf("%d of %d ranks were closed", b.closed, b.started)
			}
			if len(r.Nodes) != 8 || len(r.Missing) != 0 || r.Wall <= 0 || r.Coverage() != 1 || len(r.Results) < 4*3 || r.Rounds < 1 {
				t.Errorf("%d nodes, missing %v, %d results, coverage %g", len(r.Nodes), r.Missing, len(r.Results), r.Coverage())
			}
			if bad := r.Drain(); (len(bad) == 1) != (tt.want != "" && !strings.HasPrefix(tt.want, "path")) {
				t.Errorf("to drain: %v", bad)
			}
		})
	}
}

// Who has another version is who differs from two others.
func TestOtherVersion(t *testing.T) {
	b := &bench{world: &world{newer: "n06"}, nodes: 8}
	r, _, err := b.run(t, t.Context())
	if got := texts(r); err != nil || got != "node failed n06 versions" {
		t.Errorf("%v: %q", err, got)
	}
}

// A node that dies is named as lost, and the others are measured to the end.
func TestNodeDies(t *testing.T) {
	dies := make(chan struct{})
	die := sync.OnceFunc(func() { close(dies) })
	b := &bench{nodes: 6, cut: map[int]chan struct{}{3: dies}, world: &world{
		fault: func(ctx context.Context, node string, _ int, q *probes.Request) (*probes.Reply, error) {
			if node == "n03" && q.Measure != nil {
				die()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		},
	}}
	r, ends, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(r); got != "node failed n03 lost" {
		t.Error(got)
	}
	if ends[3] == nil || r.Nodes[3].Lost == "" {
		t.Errorf("%v, %+v", ends[3], r.Nodes[3])
	}
}

// guard names an intruder from some time on.
type guard func() string

func (g guard) Intruder(context.Context, []int) (string, error) { return g(), nil }
func (g guard) Freed(context.Context, []int) error              { return nil }

// Where another process comes to the GPUs, all ranks of the node are killed and nothing is said of it.
func TestIntruder(t *testing.T) {
	b := &bench{nodes: 6, world: &world{slow: func(string, string, int) float64 { return 1 }}, change: func(rank int, a *Agent) {
		if rank == 2 {
			a.Guard = guard(func() string { return "compute process 7 (python3)" })
		}
	}}
	b.fault = func(ctx context.Context, node string, _ int, q *probes.Request) (*probes.Reply, error) {
		if node == "n02" && q.Connect != nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}
	r, _, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(r); got != "node unknown n02" || b.killed == 0 || r.Coverage() == 1 || len(r.Drain()) > 0 {
		t.Errorf("%s; %d killed", got, b.killed)
	}
	if !slices.ContainsFunc(r.Results, func(d Result) bool { return strings.Contains(d.Error, "n02: compute process 7 (python3)") }) {
		t.Error("no result says why")
	}
}

// Half of the nodes never come: it says which, and measures the rest only if asked.
func TestNodesMissing(t *testing.T) {
	even := func(rank int) bool { return rank%2 == 0 }
	for _, partial := range []bool{false, true} {
		b := &bench{world: &world{}, nodes: 8, joins: even, leader: &Leader{Names: strings.Fields("n00 b n02 d n04 f n06 h"), Options: Options{Wait: 300 * time.Millisecond, Partial: partial}}}
		r, _, err := b.run(t, t.Context())
		if fmt.Sprint(r.Missing) != "[1 3 5 7]" || r.MissingText() != "b, d, f, h" || errors.Is(err, ErrNotAll) == partial || (len(r.Results) > 0) != partial {
			t.Errorf("partial %v: missing %v, %v, %d results", partial, r.Missing, err, len(r.Results))
		}
	}
}

// Strangers, doubles and nodes of other runs are counted and change nothing.
func TestRefusals(t *testing.T) {
	b := &bench{world: &world{}, nodes: 4, change: func(rank int, a *Agent) {
		switch rank {
		case 2:
			a.Hello.Size = 9
		case 3:
			a.Hello.Node = "n00"
		}
	}, leader: &Leader{Options: Options{Wait: 700 * time.Millisecond, Partial: true}}}
	r, ends, err := b.run(t, t.Context())
	if err != nil && !errors.Is(err, ErrNotAll) {
		t.Fatal(err)
	}
	if r.Refused[wire.ReasonSize] != 1 || r.Refused[wire.ReasonDuplicate] != 1 || ends[2] == nil {
		t.Errorf("%v, %v", r.Refused, ends)
	}
}

// When the run is cancelled, as for a job that is preempted, all ranks are gone within a second, and no node is blamed.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var once sync.Once
	var at time.Time
	b := &bench{nodes: 4, world: &world{fault: func(ctx context.Context, _ string, _ int, q *probes.Request) (*probes.Reply, error) {
		if q.Measure != nil {
			once.Do(func() {
				at = time.Now()
				cancel(errors.New("terminated"))
			})
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, nil
	}}}
	r, _, err := b.run(t, ctx)
	if took := time.Since(at); err == nil || !strings.Contains(err.Error(), "terminated") || took > time.Second || len(r.Verdicts) > 0 || len(r.Drain()) > 0 {
		t.Errorf("%s: %v, %+v", took, err, r.Verdicts)
	}
	if b.closed < b.started {
		t.Errorf("%d of %d ranks were closed", b.closed, b.started)
	}
}

func TestCompare(t *testing.T) {
	w := &world{}
	var nodes []wire.Hello
	for i := range 5 {
		nodes = append(nodes, w.agent(fmt.Sprint("n", i)).Hello)
	}
	if d := compare(nodes); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	nodes[2].NCCL, nodes[3].Rails = "2.21.5", nodes[3].Rails[:1]
	got := fmt.Sprint(compare(nodes))
	for _, want := range []string{"{NCCL 2.27.3 2.21.5 [n2]}", "{rails 2 1 [n3]}"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if len(compare(nil)) != 0 {
		t.Error("nothing differs from nothing")
	}
}

func TestHistory(t *testing.T) {
	h, err := ParseHistory(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Nodes: []Node{{Name: "a", Shares: map[int]Share{0: {BusBW: 10}}}, {Name: "b", Shares: map[int]Share{0: {BusBW: 10}}}}, Verdicts: []Verdict{{Node: "b"}}}
	for range runsKept + 5 {
		h.Add(r)
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if h, err = ParseHistory(data); err != nil {
		t.Fatal(err)
	}
	if past := h.Of("a")[0]; past.Runs != runsKept || past.Median != 10 || len(h.Of("b")) != 0 {
		t.Errorf("%+v, %+v", past, h.Of("b"))
	}
	for _, bad := range []string{"{", `{"version":2}`, `{"version":1,"nodes":{"a":{"-2":[1]}}}`} {
		if _, err := ParseHistory([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

var _ run.Guard = guard(nil)
