// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
	"gpufabric_exporter/probes/plan"
)

// Leader has the nodes of a run measure.
type Leader struct {
	Listener net.Listener
	Secret   []byte
	Size     int      // nodes that are expected
	Names    []string // of them, by rank; nil: they are not known before they come
	Options
	// Progress is told what begins, in words; nil: nobody is.
	Progress func(format string, args ...any)
	History  *History // what nodes reached before; nil: nothing is known

	mu        sync.Mutex
	refused   map[wire.Reason]int
	strangers []net.Conn    // in their handshake, who came first
	peers     map[int]*peer // by rank
	results   []Result
}

// Options are what a run is like.
type Options struct {
	Seed      uint64
	RailBytes uint64 // of a message between two GPUs
	AllBytes  uint64 // of one between all GPUs of two nodes
	// Wait is how long nodes may take to come. With Partial those that came are measured then.
	Wait    time.Duration
	Partial bool
	// AllNodes has all nodes measure together when the pairs have.
	AllNodes bool
	// Bound is after how long no round begins any more.
	Bound time.Duration
}

// Defaults of Options.
const (
	DefaultRailBytes = 256 << 20
	DefaultAllBytes  = 1 << 30
	DefaultWait      = 2 * time.Minute
	DefaultBound     = 15 * time.Minute
)

// What a measurement is, and how long one may take with all that belongs to it.
const (
	iterations = 5
	warmups    = 2
	// Messages is how many of its size a measurement moves, with the one that connects.
	Messages     = 1 + warmups + iterations
	measureBound = 60 * time.Second
)

// strangersMost is how many connections may be in their handshake at a time, beyond the nodes. refusedTold is how many
// are told that are refused for a reason.
const (
	strangersMost = 64
	refusedTold   = 10
)

// ErrNotAll is the error where nodes did not come.
var ErrNotAll = errors.New("not all nodes have come")

// Run gathers the nodes, searches and judges. What can be said is in the Report, also with an error.
func (l *Leader) Run(ctx context.Context) (*Report, error) {
	began := time.Now()
	r := &Report{Started: began, Size: l.Size, Options: l.Options}
	ctx, cancel := context.WithCancel(ctx)
	var accepting sync.WaitGroup
	defer accepting.Wait()
	defer cancel()
	all := l.gather(ctx, &accepting)
	defer l.end(r)
	err := l.await(ctx, all)
	nodes := l.present()
	r.note(l, nodes)
	if err != nil {
		return r, err
	}
	if len(nodes) < 2 {
		return r, fmt.Errorf("%w: %d of %d can be measured, expected at least 2", ErrNotAll, len(nodes), l.Size)
	}
	for _, phase := range phases(nodes) {
		s := &search.Search{Seed: l.Seed, Rails: phase, Nodes: l.nodes(nodes)}
		done, err := l.search(ctx, s, nodes, began)
		r.add(s, done)
		if err != nil {
			r.finish(l, began)
			return r, err
		}
	}
	if l.AllNodes {
		err = l.whole(ctx, r, nodes, began)
	}
	r.finish(l, began)
	return r, err
}

// phases are the rails one by one, and then all GPUs together. The rails are those that more than half of the nodes
// have: who lacks one of these has a fault, and who has more accuses nobody.
func phases(nodes []*peer) [][]int {
	var counts, rails []int
	for _, p := range nodes {
		counts = append(counts, len(p.Rails))
	}
	slices.Sort(counts)
	for i := range counts[(len(counts)-1)/2] {
		rails = append(rails, i)
	}
	if len(rails) == 0 {
		return [][]int{{search.All}}
	}
	return [][]int{rails, {search.All}}
}

func (l *Leader) nodes(peers []*peer) []search.Node {
	list := make([]search.Node, len(peers))
	for i, p := range peers {
		list[i] = search.Node{Name: p.Node, Leaf: p.Leaf}
		if l.History != nil {
			list[i].Past = l.History.Of(p.Node)
		}
	}
	return list
}

// gather accepts nodes until all are there, which closes the channel, or ctx ends.
func (l *Leader) gather(ctx context.Context, accepting *sync.WaitGroup) <-chan struct{} {
	l.refused, l.peers = map[wire.Reason]int{}, map[int]*peer{}
	all := make(chan struct{})
	complete := sync.OnceFunc(func() { close(all) })
	accepting.Go(func() {
		select {
		case <-all:
		case <-ctx.Done():
		}
		l.Listener.Close()
	})
	accepting.Go(func() {
		for {
			conn, err := l.Listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				select {
				case <-time.After(100 * time.Millisecond): // out of descriptors, for one
				case <-ctx.Done():
				}
				continue
			}
			l.enter(conn)
			accepting.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				if l.accept(ctx, conn) == l.Size {
					complete()
				}
			})
		}
	})
	return all
}

// enter notes who begins a handshake. Where there are too many, who began first makes room: a node takes no time.
func (l *Leader) enter(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.strangers) >= l.Size+strangersMost {
		l.strangers[0].Close()
		l.strangers = l.strangers[1:]
	}
	l.strangers = append(l.strangers, conn)
}

// accept shakes hands with one who connected, and returns how many nodes there are.
func (l *Leader) accept(ctx context.Context, conn net.Conn) int {
	c, h, err := wire.Accept(conn, l.Secret, l.Size)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.strangers, conn)
	if at >= 0 {
		l.strangers = slices.Delete(l.strangers, at, at+1)
	} else if err == nil {
		err = errors.New("it made room for others")
	}
	why := wire.ReasonOf(err)
	if leftBefore(err) { // a node that tries several addresses closes all but one
		conn.Close()
		return len(l.peers)
	}
	if err == nil && l.known(h) {
		why, err = wire.ReasonDuplicate, errors.New("a node of this rank or name is there")
	}
	if err == nil && len(l.Names) > 0 && !slices.Contains(l.Names, h.Node) {
		why, err = wire.ReasonField, fmt.Errorf("%q is not in the allocation", h.Node)
	}
	if err != nil {
		conn.Close()
		if l.refused[why]++; l.refused[why] <= refusedTold {
			l.say("refused a connection from %s: %v", conn.RemoteAddr(), err)
		}
		return len(l.peers)
	}
	p := newPeer(c, h)
	l.peers[h.Rank] = p
	go p.listen()
	go c.Beat(ctx)
	return len(l.peers)
}

// leftBefore reports whether who connected was gone before it said a word.
func leftBefore(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (l *Leader) known(h *wire.Hello) bool {
	for rank, p := range l.peers {
		if rank == h.Rank || p.Node == h.Node {
			return true
		}
	}
	return false
}

func (l *Leader) say(format string, args ...any) {
	if l.Progress != nil {
		l.Progress(format, args...)
	}
}

// await waits until all nodes have come, or no longer.
func (l *Leader) await(ctx context.Context, all <-chan struct{}) error {
	l.say("waiting for %s", probes.Counted(l.Size, "node"))
	late := time.NewTimer(l.Wait)
	defer late.Stop()
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
	}
	if l.Partial {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%w: %d of %d within %s", ErrNotAll, len(l.peers), l.Size, l.Wait)
}

// present are the nodes that can be measured, by rank.
func (l *Leader) present() []*peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*peer
	for _, p := range l.peers {
		if _, lost := p.state(); p.Skipped == "" && lost == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *peer) int { return a.Rank - b.Rank })
	return list
}

// end tells all nodes that the run is over, and what was found of them.
func (l *Leader) end(r *Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range l.peers {
		text := r.of(p.Node)
		all.Go(func() {
			_ = p.conn.Send(wire.Message{End: &text})
			select { // its ranks are killed then
			case <-p.gone:
			case <-time.After(endLimit):
			}
			p.conn.Close()
		})
	}
	all.Wait()
}

// search measures round after round.
func (l *Leader) search(ctx context.Context, s *search.Search, nodes []*peer, began time.Time) (
	done []search.Sample, err error,
) {
	what := "the rails, one by one"
	if s.Rails[0] == search.All {
		what = "all GPUs together"
	}
	for tasks := s.Next(nil); len(tasks) > 0; tasks = s.Next(done) {
		if spent := time.Since(began); spent > l.Bound {
			return done, fmt.Errorf("%s after the start, expected at most %s: round %d of %s is not measured",
				spent.Round(time.Second), l.Bound, tasks[0].Round, what)
		}
		l.say("%s, round %d: %s of nodes", what, tasks[0].Round, probes.Counted(len(tasks), "pair"))
		samples := make([][]search.Sample, len(tasks))
		var round sync.WaitGroup
		for i, task := range tasks {
			round.Go(func() { samples[i] = l.measure(ctx, task, nodes[task.A], nodes[task.B]) })
		}
		round.Wait()
		if ctx.Err() != nil { // what ended with it says nothing of nodes
			return done, context.Cause(ctx)
		}
		done = append(done, slices.Concat(samples...)...)
	}
	return done, nil
}

// measure has a pair measure over some rails: their ranks start at the same time, and measure one rail after the other.
func (l *Leader) measure(ctx context.Context, task search.Task, a, b *peer) []search.Sample {
	turn := make(chan struct{}, 1)
	samples := make([]search.Sample, len(task.Rails))
	var all sync.WaitGroup
	for i, rail := range task.Rails {
		all.Go(func() {
			p := &pairing{leader: l, a: a, b: b, rail: rail, turn: turn, rails: len(task.Rails)}
			samples[i] = p.measure(ctx, task)
		})
	}
	all.Wait()
	return samples
}

// want is what a rail measures.
func (l *Leader) want(rail int) plan.Want {
	size := l.RailBytes
	if rail == search.All {
		size = l.AllBytes
	}
	return plan.Want{
		Op: probes.AllReduce, Type: probes.Float32, Bytes: size, Iterations: iterations, Warmups: warmups, Best: true,
	}
}
