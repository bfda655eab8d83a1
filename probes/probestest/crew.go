// SPDX-License-Identifier: Apache-2.0

// Package probestest has ranks, nodes and a disk for tests of probes.
package probestest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/probes"
)

// Crew starts ranks that live in this process and do what their faults say. Without faults they answer as ranks of a
// healthy node would.
type Crew struct {
	Plan  []probes.Rank
	Speed func(q *probes.MeasureRequest) time.Duration // of one iteration; nil: 400 GB/s of bus bandwidth
	Log   string
	// fault may answer instead of a rank, if it returns true. It may wait for ctx, which ends when the rank is killed.
	Fault     func(ctx context.Context, rank int, q *probes.Request) (reply any, err error, done bool)
	FailStart func(number int) error
	Reap      time.Duration // that the kernel takes
	Held      int           // number of the process that it never lets go; 0: none

	mu      sync.Mutex
	Started []*crewRank
}

// CrewPID comes before that of the first rank.
const CrewPID = 1000

type crewRank struct {
	crew   *Crew
	Number int // in the order of starts, from 1
	env    []string
	ctx    context.Context // ends when it is killed
	kill   context.CancelFunc
	mu     sync.Mutex
	Rank   int // known from the first request on
	Killed time.Time
	closed int
	Clean  bool // it was asked to close
}

var errKilled = errors.New("crashed: signal: killed")

// Start is a probes.StartRank.
func (c *Crew) Start(_ context.Context, rank probes.Rank) (probes.RankProcess, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := len(c.Started) + 1
	if c.FailStart != nil {
		if err := c.FailStart(number); err != nil {
			return nil, err
		}
	}
	r := &crewRank{crew: c, Number: number, env: rank.Env, Rank: -1}
	r.ctx, r.kill = context.WithCancel(context.Background())
	c.Started = append(c.Started, r)
	return r, nil
}

func (r *crewRank) PID() int { return CrewPID + r.Number }

func (r *crewRank) Kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Killed.IsZero() {
		r.Killed = time.Now()
	}
	r.kill()
}

func (r *crewRank) Close() error {
	r.mu.Lock()
	r.closed++
	r.mu.Unlock()
	r.kill()
	time.Sleep(r.crew.Reap)
	if r.Number == r.crew.Held {
		return errors.New("the kernel holds it")
	}
	return nil
}

func (r *crewRank) Log() (head, tail []byte, dropped int64) { return []byte(r.crew.Log), nil, 0 }

// who finds out which rank this is: the first without a process that has the GPU.
func (r *crewRank) who(q *probes.Request) int {
	r.crew.mu.Lock()
	defer r.crew.mu.Unlock()
	if r.Rank >= 0 || q.Open == nil {
		return r.Rank
	}
	for i, p := range r.crew.Plan {
		taken := slices.ContainsFunc(r.crew.Started, func(o *crewRank) bool { return o.Rank == i })
		if p.Address == q.Open.GPU && slices.Equal(p.Env, r.env) && !taken {
			r.Rank = i
			break
		}
	}
	return r.Rank
}

func (r *crewRank) Call(ctx context.Context, data []byte) ([]byte, error) {
	var q probes.Request
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
	if r.crew.Fault != nil {
		reply, err, done = r.crew.Fault(ctx, rank, &q)
	}
	if !done {
		reply = r.crew.answer(ctx, rank, &q)
	}
	r.mu.Lock()
	r.Clean = r.Clean || q.Close != nil
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
func (c *Crew) answer(ctx context.Context, rank int, q *probes.Request) probes.Reply {
	switch {
	case q.Open != nil:
		Nap(ctx, 300*time.Millisecond)
		return probes.Reply{Open: &probes.OpenReply{
			NCCLPath: "/usr/lib/libnccl.so.2", NCCL: 22703, CUDA: 13000,
			GPU: c.Plan[rank].UUID, Memory: 80 << 30,
		}}
	case q.NewID != nil:
		return probes.Reply{ID: make([]byte, probes.IDSize)}
	case q.Connect != nil:
		Nap(ctx, time.Second)
		return probes.Reply{Connect: &probes.ConnectReply{Took: time.Second - time.Duration(rank)}}
	case q.Measure != nil:
		one := time.Duration(float64(q.Measure.Bytes) * q.Measure.Op.BusFactor(len(c.Plan)) / 400e9 * 1e9)
		if c.Speed != nil {
			one = c.Speed(q.Measure)
		}
		took := max(one, time.Microsecond)*time.Duration(q.Measure.Iterations) - time.Duration(rank)
		Nap(ctx, took)
		return probes.Reply{Measure: &probes.MeasureReply{Bytes: q.Measure.Bytes, Time: took, DeviceTime: took / 2}}
	}
	return probes.Reply{}
}

// Nap waits, or until ctx ends.
func Nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// All returns how many processes were killed, and fails the test if one was not closed.
func (c *Crew) All(t *testing.T) (killed int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.Started {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed == 0 {
			t.Errorf("process %d was not closed", r.Number)
		}
		if !r.Killed.IsZero() {
			killed++
		}
	}
	return killed
}
