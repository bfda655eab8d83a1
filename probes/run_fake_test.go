// SPDX-License-Identifier: Apache-2.0

package probes

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

	"gpufabric_exporter/internal/fabric"
)

// crew starts ranks that live in this process and do what their faults say. Without faults they answer as ranks of a
// healthy node would.
type crew struct {
	plan  *Plan
	speed func(q *MeasureRequest) time.Duration // of one iteration; nil: 400 GB/s of bus bandwidth
	log   string
	// fault may answer instead of a rank, if it returns true. It may wait for ctx, which ends when the rank is killed.
	fault     func(ctx context.Context, rank int, q *Request) (reply any, err error, done bool)
	failStart func(number int) error
	reap      time.Duration // that the kernel takes
	held      int           // number of the process that it never lets go; 0: none

	mu    sync.Mutex
	ranks []*crewRank
}

const crewPID = 1000

type crewRank struct {
	crew   *crew
	number int // in the order of starts, from 1
	env    []string
	ctx    context.Context // ends when it is killed
	kill   context.CancelFunc
	mu     sync.Mutex
	rank   int // known from the first request on
	killed time.Time
	closed int
	clean  bool // it was asked to close
}

var errKilled = errors.New("crashed: signal: killed")

func (c *crew) Start(_ context.Context, env []string) (RankProcess, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := len(c.ranks) + 1
	if c.failStart != nil {
		if err := c.failStart(number); err != nil {
			return nil, err
		}
	}
	r := &crewRank{crew: c, number: number, env: env, rank: -1}
	r.ctx, r.kill = context.WithCancel(context.Background())
	c.ranks = append(c.ranks, r)
	return r, nil
}

func (r *crewRank) PID() int { return crewPID + r.number }

func (r *crewRank) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed.IsZero() {
		r.killed = time.Now()
	}
	r.kill()
}

func (r *crewRank) Close() error {
	r.mu.Lock()
	r.closed++
	r.mu.Unlock()
	r.kill()
	time.Sleep(r.crew.reap)
	if r.number == r.crew.held {
		return errors.New("the kernel holds it")
	}
	return nil
}

func (r *crewRank) Log() (head, tail []byte, dropped int64) { return []byte(r.crew.log), nil, 0 }

// who finds out which rank this is: the first without a process that has the GPU.
func (r *crewRank) who(q *Request) int {
	r.crew.mu.Lock()
	defer r.crew.mu.Unlock()
	if r.rank >= 0 || q.Open == nil {
		return r.rank
	}
	for i, p := range r.crew.plan.Ranks {
		taken := slices.ContainsFunc(r.crew.ranks, func(o *crewRank) bool { return o.rank == i })
		if p.Address == q.Open.GPU && slices.Equal(p.Env, r.env) && !taken {
			r.rank = i
			break
		}
	}
	return r.rank
}

func (r *crewRank) Call(ctx context.Context, data []byte) ([]byte, error) {
	var q Request
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, err
	}
	rank := r.who(&q)
	if rank < 0 {
		return nil, errors.New("asked before it was opened, or with the GPU or environment of no rank")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	var reply any
	var err error
	done := false
	if r.crew.fault != nil {
		reply, err, done = r.crew.fault(ctx, rank, &q)
	}
	if !done {
		reply = r.crew.answer(ctx, rank, &q)
	}
	r.mu.Lock()
	r.clean = r.clean || q.Close != nil
	r.mu.Unlock()
	switch {
	case r.ctx.Err() != nil:
		return nil, errKilled
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	if text, ok := reply.(string); ok {
		return []byte(text), nil
	}
	return json.Marshal(reply)
}

// answer is what a healthy rank says.
func (c *crew) answer(ctx context.Context, rank int, q *Request) Reply {
	switch {
	case q.Open != nil:
		nap(ctx, 300*time.Millisecond)
		return Reply{Open: &OpenReply{NCCLPath: "/usr/lib/libnccl.so.2", NCCL: 22703, CUDA: 13000, GPU: c.plan.Ranks[rank].UUID, Memory: 80 << 30}}
	case q.NewID != nil:
		return Reply{ID: make([]byte, IDSize)}
	case q.Connect != nil:
		nap(ctx, time.Second)
		return Reply{Connect: &ConnectReply{Took: time.Second - time.Duration(rank)}}
	case q.Measure != nil:
		one := time.Duration(float64(q.Measure.Bytes) * q.Measure.Op.BusFactor(len(c.plan.Ranks)) / 400e9 * 1e9)
		if c.speed != nil {
			one = c.speed(q.Measure)
		}
		took := max(one, time.Microsecond)*time.Duration(q.Measure.Iterations) - time.Duration(rank)
		nap(ctx, took)
		return Reply{Measure: &MeasureReply{Bytes: q.Measure.Bytes, Time: took, DeviceTime: took / 2}}
	}
	return Reply{}
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// all returns how many processes were killed, and fails the test if one was not closed.
func (c *crew) all(t *testing.T) (killed int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.ranks {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed == 0 {
			t.Errorf("process %d was not closed", r.number)
		}
		if !r.killed.IsZero() {
			killed++
		}
	}
	return killed
}

// guardFunc is a Guard.
type guardFunc func(ctx context.Context, own []int) (string, error)

func (f guardFunc) Intruder(ctx context.Context, own []int) (string, error) { return f(ctx, own) }

func (f guardFunc) Freed(context.Context, []int) error { return nil }

// noIntruder is a guard that finds no other process.
var noIntruder = guardFunc(func(context.Context, []int) (string, error) { return "", nil })

// gpuNode is a node with GPUs below two switches each, and an HCA for every switch: GPU 0 and 1 with mlx5_0, and so on.
func gpuNode(gpus int) *fabric.Node {
	at := time.Now()
	n := &fabric.Node{At: at, Policy: &fabric.Policy{}}
	n.GPUDriver.Loaded = fabric.Known(true, "test", at)
	n.GPUDriver.Version = fabric.Known("580.65.06", "test", at)
	n.Host.Hypervisor = fabric.Known(false, "test", at)
	function := func(kind fabric.PCIKind, bus int, hcas ...string) {
		n.PCI.Functions = append(n.PCI.Functions, fabric.PCIFunction{
			Address: fmt.Sprintf("0000:%02x:00.0", bus), Kind: kind, HCAs: hcas, Root: "pci0000:00",
			Bridges:  []string{fmt.Sprintf("0000:%02x:01.0", bus/16*16), fmt.Sprintf("0000:%02x:02.%d", bus/16*16, bus%16)},
			NUMANode: fabric.Known(0, "test", at),
		})
	}
	for i := range gpus {
		bus := 16*(1+i/2) + i%2
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, fabric.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Address: fmt.Sprintf("0000:%02x:00.0", bus), Lost: fabric.Known(false, "test", at),
		})
		function(fabric.PCIGPU, bus)
		if i%2 == 0 {
			name := fmt.Sprintf("mlx5_%d", i/2)
			function(fabric.PCINIC, bus+8, name)
			n.HCAs = append(n.HCAs, fabric.HCA{Name: name, Restricted: fabric.Known(false, "test", at), Ports: []fabric.Port{{
				Number: 1, State: fabric.Known(fabric.PortActive, "test", at), LinkLayer: fabric.Known(fabric.LinkEthernet, "test", at),
				Role: fabric.Known(fabric.RoleCompute, "test", at), Rate: fabric.Known(fabric.Rate{BytesPerSecond: 50e9}, "test", at),
			}}})
		}
	}
	slices.SortFunc(n.PCI.Functions, func(a, b fabric.PCIFunction) int { return strings.Compare(a.Address, b.Address) })
	return n
}

// planFor is a plan on a node with 8 GPUs.
func planFor(t *testing.T, key Key, s Settings) *Plan {
	t.Helper()
	p, skip := NewPlan(key, gpuNode(8), s)
	if skip != nil {
		t.Fatalf("%v: %+v, expected a plan", key, skip)
	}
	return p
}
