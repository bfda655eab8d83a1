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
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/plan"
)

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
	dying   sync.Once
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
