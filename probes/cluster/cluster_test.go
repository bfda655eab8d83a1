// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/plan"
	"gpufabric_exporter/probes/run"
)

var secret = []byte("0123456789abcdef")

const rails = 2

// world is nodes whose ranks live in this process and meet by the id of their communicator.
type world struct {
	slow  func(a, b string, rail int) float64 // factor to the time of an iteration
	fault func(ctx context.Context, node string, rail int, q *probes.Request) (*probes.Reply, error)

	newer string // the node with another version of NCCL

	mu      sync.Mutex
	members map[string][]string // nodes, by id
	killed  int
	closed  int
	started int
}

type fakeRank struct {
	world *world
	node  string
	rail  int
	uuid  string
	ctx   context.Context
	kill  context.CancelFunc
	once  sync.Once
	id    string
	pid   int
}

func (w *world) start(node string) probes.StartRank {
	return func(_ context.Context, r probes.Rank) (probes.RankProcess, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.started++
		f := &fakeRank{world: w, node: node, uuid: r.UUID, rail: search.All, pid: 1000 + w.started}
		if len(r.Env) > 0 {
			if _, err := fmt.Sscanf(r.Env[0], "RAIL=%d", &f.rail); err != nil {
				return nil, err
			}
		}
		f.ctx, f.kill = context.WithCancel(context.Background())
		return f, nil
	}
}

func (f *fakeRank) PID() int { return f.pid }

func (f *fakeRank) Kill() {
	f.once.Do(func() {
		f.world.mu.Lock()
		f.world.killed++
		f.world.mu.Unlock()
	})
	f.kill()
}

func (f *fakeRank) Close() error {
	f.world.mu.Lock()
	f.world.closed++
	f.world.mu.Unlock()
	f.kill()
	return nil
}

func (f *fakeRank) Log() (head, tail []byte, dropped int64) {
	return []byte("n:1:1 [0] NCCL INFO Using network IB\nn:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n" +
		"n:1:1 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE\n"), nil, 0
}

func (f *fakeRank) Call(ctx context.Context, request []byte) ([]byte, error) {
	var q probes.Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, err
	}
	w := f.world
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	if w.fault != nil {
		if reply, err := w.fault(ctx, f.node, f.rail, &q); reply != nil || err != nil {
			if f.ctx.Err() != nil {
				return nil, errors.New("killed")
			}
			data, _ := json.Marshal(reply)
			return data, err
		}
	}
	var r probes.Reply
	switch {
	case q.Open != nil:
		r.Open = &probes.OpenReply{NCCLPath: q.Open.NCCL, NCCL: 22703, CUDA: 13000, GPU: f.uuid, Memory: 80 << 30}
		if f.node == w.newer {
			r.Open.NCCL = 23007
		}
		if q.Open.NCCL != "/its/own/libnccl.so.2" {
			return nil, fmt.Errorf("opens %s", q.Open.NCCL)
		}
	case q.NewID != nil:
		r.ID = make([]byte, probes.IDSize)
		_, _ = rand.Read(r.ID)
	case q.Connect != nil:
		f.id = string(q.Connect.ID)
		w.mu.Lock()
		w.members[f.id] = append(w.members[f.id], f.node)
		w.mu.Unlock()
		r.Connect = &probes.ConnectReply{Took: time.Microsecond}
	case q.Measure != nil:
		w.mu.Lock()
		nodes := slices.Clone(w.members[f.id])
		w.mu.Unlock()
		slices.Sort(nodes)
		factor := 1.0
		if w.slow != nil {
			factor = w.slow(nodes[0], nodes[len(nodes)-1], f.rail)
		}
		one := time.Duration(float64(200*time.Microsecond) * factor)
		beside := 5 * one // is taken by others of the node, in all iterations but one
		r.Measure = &probes.MeasureReply{Bytes: q.Measure.Bytes}
		for i := range q.Measure.Iterations {
			d := one
			if f.node == "n01" && i != 3 {
				d += beside
			}
			r.Measure.Time += d
			if q.Measure.Each {
				r.Measure.Each = append(r.Measure.Each, d)
			}
		}
		r.Measure.DeviceTime = r.Measure.Time
	}
	return json.Marshal(r)
}

// agent is that of a node of the world.
func (w *world) agent(node string) *Agent {
	m := &plan.Member{Settings: plan.Settings{NCCL: "/its/own/libnccl.so.2"}}
	h := wire.Hello{Program: "1.0", Node: node, NCCL: "2.27.3"}
	for i := range rails {
		g := wire.GPU{UUID: fmt.Sprintf("GPU-%s-%d", node, i), Address: fmt.Sprintf("0000:%02x:00.0", 0x1b+i)}
		h.GPUs = append(h.GPUs, g)
		h.Rails = append(h.Rails, wire.Rail{Device: fmt.Sprintf("mlx5_%d", i), Port: 1, GPU: g, Rate: 50e9})
		m.ByGPU = append(m.ByGPU, probes.Rank{UUID: g.UUID, Address: g.Address})
		m.ByRail = append(m.ByRail, probes.Rank{UUID: g.UUID, Address: g.Address, Env: []string{fmt.Sprintf("RAIL=%d", i)}})
	}
	return &Agent{Hello: h, Member: m, Start: w.start(node)}
}

// bench is a leader with its nodes.
type bench struct {
	*world
	leader *Leader
	nodes  int
	change func(rank int, a *Agent)
	joins  func(rank int) bool // nil: all
	cut    map[int]chan struct{}
}

func (b *bench) run(t *testing.T, ctx context.Context) (*Report, []error, error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.members = map[string][]string{}
	if b.leader == nil {
		b.leader = &Leader{}
	}
	l := b.leader
	l.Listener, l.Secret, l.Size = listener, secret, b.nodes
	if l.Wait == 0 {
		l.Wait = 20 * time.Second
	}
	l.RailBytes, l.AllBytes, l.Bound, l.Seed = 1<<20, 4<<20, time.Minute, 1
	ends := make([]error, b.nodes)
	var all sync.WaitGroup
	for rank := range b.nodes {
		if b.joins != nil && !b.joins(rank) {
			continue
		}
		a := b.agent(fmt.Sprintf("n%02d", rank))
		a.Hello.Rank, a.Hello.Size = rank, b.nodes
		if b.change != nil {
			b.change(rank, a)
		}
		all.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
			if err != nil {
				ends[rank] = err
				return
			}
			defer conn.Close()
			if cut := b.cut[rank]; cut != nil {
				go func() {
					<-cut
					conn.Close()
				}()
			}
			c, err := wire.Greet(conn, secret, a.Hello)
			if err == nil {
				_, err = a.Run(t.Context(), c)
			}
			ends[rank] = err
		})
	}
	r, err := l.Run(ctx)
	all.Wait()
	return r, ends, err
}

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

// partnerOfFirst is whom n00 measures with in the first round of eight nodes.
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
		"slow path of all rails": {func(a, b string, _ int) float64 {
			return 1 + 0.5*float(involves(a, b, "n00") && involves(a, b, partnerOfFirst()))
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
		b := &bench{world: &world{}, nodes: 8, joins: even, leader: &Leader{Names: strings.Fields("a b c d e f g h"), Options: Options{Wait: 300 * time.Millisecond, Partial: partial}}}
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
