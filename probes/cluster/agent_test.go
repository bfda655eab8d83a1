// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
)

// A job that is there before them is left alone: no rank is started beside it.
func TestIntruderBefore(t *testing.T) {
	for name, answer := range map[string]error{"a job": nil, "maintenance": probes.ErrMaintenance, "the driver is gone": errors.New("no answer")} {
		a := (&world{}).agent("n00")
		a.Start = func(context.Context, probes.Rank) (probes.RankProcess, error) {
			t.Errorf("%s: a rank is started", name)
			return nil, errors.New("started")
		}
		a.Guard = looks(func([]int) (string, error) {
			if answer == nil {
				return "compute process 7 (python3)", nil
			}
			return "", answer
		})
		leader, said := serve(t.Context(), t, a)
		if _, err := leader.ask(t.Context(), wire.Message{Start: &wire.Start{ID: 1}}); err == nil {
			t.Errorf("%s: started", name)
		}
		leader.conn.Close()
		<-said
		if stopped, _ := leader.state(); stopped == "" {
			t.Errorf("%s: the leader does not know", name)
		}
	}
}

// A rank that ends while the guard looks is not taken for one of another job.
func TestEndedRank(t *testing.T) {
	w := &world{members: map[string][]string{}}
	a := w.agent("n00")
	asked, closed := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(asked)
		<-closed
	})
	a.Guard = looks(func(own []int) (string, error) {
		if len(own) == 0 {
			return "", nil
		}
		if once(); len(own) == 2 { // it was read before, and is gone now
			return "compute process 1001", nil
		}
		return "", nil
	})
	leader, said := serve(t.Context(), t, a)
	for id := range 2 {
		if _, err := leader.ask(t.Context(), wire.Message{Start: &wire.Start{ID: id, Rail: id}}); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	id := 0
	if _, err := leader.ask(t.Context(), wire.Message{Close: &id}); err != nil {
		t.Fatal(err)
	}
	close(closed)
	time.Sleep(3 * guardInterval)
	if stopped, _ := leader.state(); stopped != "" {
		t.Error(stopped)
	}
	leader.conn.Close()
	<-said
}

// A node whose process is told to end, as one pod that is evicted, is not one that died: nothing is said of it.
func TestNodeLeaves(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	leader, _ := serve(ctx, t, (&world{}).agent("n00"))
	cancel(errors.New("terminated signal received"))
	<-leader.gone
	p := &pairing{leader: &Leader{}, a: leader, b: leader}
	if s := p.measure(t.Context(), search.Task{Round: 1, Pair: search.Pair{A: 0, B: 1}}); !s.Unknown || s.Failure != "" {
		t.Errorf("%+v", s)
	}
	if why := p.leader.results[0].Error; why != "n00: terminated signal received" {
		t.Error(why)
	}
}

// looks is a guard that is told what is ours.
type looks func(own []int) (string, error)

func (l looks) Intruder(_ context.Context, own []int) (string, error) { return l(own) }
func (l looks) Freed(context.Context, []int) error                    { return nil }

// serve has an agent serve a leader. The channel is closed when it ends.
func serve(ctx context.Context, t *testing.T, a *Agent) (*peer, <-chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	a.Hello.Size = 1
	end := make(chan struct{})
	go func() {
		defer close(end)
		if c, err := wire.Greet(theirs, secret, a.Hello); err == nil {
			_, _ = a.Run(ctx, c)
		}
	}()
	c, h, err := wire.Accept(ours, secret, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(c, h)
	go p.listen()
	return p, end
}
