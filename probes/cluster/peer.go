// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/wire"
)

// peer is a node as the leader sees it.
type peer struct {
	wire.Hello
	conn *wire.Conn

	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan wire.Answer
	ranks   int    // that were started
	stopped string // why it measures no more, in its words
	lost    error  // the connection

	gone chan struct{} // closed with lost
}

func newPeer(conn *wire.Conn, h *wire.Hello) *peer {
	p := &peer{Hello: *h, conn: conn, waiting: map[uint64]chan wire.Answer{}, gone: make(chan struct{})}
	if h.Skipped != "" {
		p.Skipped = said(h.Skipped)
	}
	return p
}

// said are the words of a node, on one line.
func said(text string) string {
	return cmp.Or(probes.Printable(text, probes.MaxText), "it does not say why")
}

// errLost is what calls to a node say that is gone.
var errLost = errors.New("the node is lost")

// listen hands answers to those who asked, until the node is lost.
func (p *peer) listen() {
	for {
		m, err := p.conn.Receive()
		if err != nil {
			p.lose(err)
			return
		}
		p.mu.Lock()
		switch {
		case m.Stop != nil:
			if p.stopped == "" {
				p.stopped = said(*m.Stop)
			}
		case m.Answer != nil:
			if to := p.waiting[m.Seq]; to != nil {
				delete(p.waiting, m.Seq)
				to <- *m.Answer // it has room for one
			}
		}
		p.mu.Unlock()
	}
}

func (p *peer) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = fmt.Errorf("%w: %w", errLost, err)
		close(p.gone)
		p.conn.Close()
	}
}

// state is why the node measures no more; empty and nil: it does.
func (p *peer) state() (stopped string, lost error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped, p.lost
}

// ask sends a question and waits for its answer.
func (p *peer) ask(ctx context.Context, m wire.Message) (wire.Answer, error) {
	to := make(chan wire.Answer, 1)
	p.mu.Lock()
	if p.lost != nil {
		defer p.mu.Unlock()
		return wire.Answer{}, p.lost
	}
	p.seq++
	m.Seq = p.seq
	p.waiting[m.Seq] = to
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, m.Seq)
		p.mu.Unlock()
	}()
	if err := p.conn.Send(m); err != nil {
		p.lose(err)
	}
	select {
	case a := <-to:
		return a, troubleOf(a)
	case <-p.gone:
		_, err := p.state()
		return wire.Answer{}, err
	case <-ctx.Done():
		return wire.Answer{}, ctx.Err()
	}
}

// troubleOf is the error that an answer reports.
func troubleOf(a wire.Answer) error {
	text := probes.Printable(a.Text, probes.MaxText)
	switch a.Trouble {
	case "":
		return nil
	case wire.TroubleHung:
		return fmt.Errorf("%w: %s", probes.ErrRankHung, text)
	case wire.TroubleRefused:
		return fmt.Errorf("%w: %s", probes.ErrRankRefused, text)
	}
	return errors.New(text)
}

// start starts one of the ranks that the node planned.
func (p *peer) start(ctx context.Context, rail, gpu int) (probes.RankProcess, error) {
	p.mu.Lock()
	p.ranks++
	r := &remote{peer: p, id: p.ranks}
	p.mu.Unlock()
	a, err := p.ask(ctx, wire.Message{Start: &wire.Start{ID: r.id, Rail: rail, GPU: gpu}})
	if err != nil {
		return nil, err
	}
	r.pid = a.PID
	return r, nil
}

// all are the ranks of all its GPUs, which startGPU starts.
func (p *peer) all() []probes.Rank {
	var ranks []probes.Rank
	for _, gpu := range p.GPUs {
		ranks = append(ranks, probes.Rank{Node: p.Node, UUID: gpu.UUID, Address: gpu.Address})
	}
	return ranks
}

func (p *peer) startGPU(ctx context.Context, uuid string) (probes.RankProcess, error) {
	i := slices.IndexFunc(p.GPUs, func(g wire.GPU) bool { return g.UUID == uuid })
	if i < 0 {
		return nil, errors.New("the node has no such GPU")
	}
	return p.start(ctx, -1, i)
}

// remote is a rank on a node.
type remote struct {
	peer *peer
	id   int
	pid  int
}

// How long a node may take for what has no time of its own.
const (
	callMost   = 10 * time.Minute
	closePeer  = 12 * time.Second
	logOfAPeer = 5 * time.Second
)

func (r *remote) PID() int { return r.pid }

func (r *remote) Call(ctx context.Context, request []byte) ([]byte, error) {
	timeout := callMost
	if at, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(at), time.Millisecond)
	}
	call := &wire.Call{ID: r.id, Request: json.RawMessage(request), Timeout: timeout}
	a, err := r.peer.ask(ctx, wire.Message{Call: call})
	return a.Reply, err
}

func (r *remote) Kill() {
	id := r.id
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePeer)
		defer cancel()
		_, _ = r.peer.ask(ctx, wire.Message{Kill: &id})
	}()
}

func (r *remote) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePeer)
	defer cancel()
	_, err := r.peer.ask(ctx, wire.Message{Close: &r.id})
	if errors.Is(err, errLost) {
		return nil // its ranks end with it
	}
	return err
}

func (r *remote) Log() (head, tail []byte, dropped int64) {
	ctx, cancel := context.WithTimeout(context.Background(), logOfAPeer)
	defer cancel()
	a, err := r.peer.ask(ctx, wire.Message{Log: &r.id})
	if err != nil || a.Log == nil {
		return nil, nil, 0
	}
	return a.Log.Head, a.Log.Tail, max(a.Log.Dropped, 0)
}
