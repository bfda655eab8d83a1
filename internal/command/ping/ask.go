// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/pinger"
)

// count is messages of one kind.
type count struct {
	asked   int
	answers []rdmaping.Pong
}

func (n *count) lost() int { return n.asked - len(n.answers) }

func (n *count) add(p rdmaping.Pong) {
	n.asked++
	if !p.Lost {
		n.answers = append(n.answers, p)
	}
}

// tally is what came of all messages.
type tally struct {
	loop, peer, large count
	largest           int               // bytes of a large message; 0: none were sent
	flows             map[uint32]*count // of the messages to the peer
}

// ask sends the messages and prints what comes of each.
func (p *pinging) ask(ctx context.Context, c *command.Call, s pinger.Session, from pinger.Own,
	peer rdmaping.Endpoint,
) int {
	self, err := s.Open(ctx, from)
	if err != nil {
		return p.unasked(c, err)
	}
	mtu, to := min(self.MTU, peer.MTU), p.named(peer, self)
	fmt.Fprintf(c.Stdout, "%s\nto %s of %s: %s, MTU %d\n", describe(from, self), peer.Device, p.peer, peer.GID, peer.MTU)
	if self.MTU != peer.MTU {
		fmt.Fprintf(c.Stdout, "The MTUs differ: %d here, %d there. RDMA connections use %d.\n", self.MTU, peer.MTU, mtu)
	}
	fmt.Fprintln(c.Stdout, clocks(self, peer))
	if why := whyNot(self, peer); why != "" {
		return p.fails(c, fmt.Errorf("to %s: %s", to, why))
	}
	if p.size > mtu {
		return p.fails(c, fmt.Errorf("to %s: --size=%d: a message has to fit into the MTU: choose at most %d", to, p.size, mtu))
	}
	t, err := p.exchange(ctx, c.Stdout, s, self, peer, mtu)
	if err != nil && ctx.Err() == nil {
		if _, ok := errors.AsType[*rdmaping.Failure](err); ok {
			return p.fails(c, err)
		}
		return p.unasked(c, err)
	}
	t.print(c.Stdout)
	if why := t.verdict(self, peer); why != "" {
		return p.fails(c, fmt.Errorf("to %s: %s", to, why))
	}
	if t.peer.asked == 0 {
		return exitUnasked
	}
	return command.OK
}

func (p *pinging) fails(c *command.Call, err error) int {
	c.Complain(err)
	return exitLost
}

// named is an end as complaints name it.
func (p *pinging) named(e, self rdmaping.Endpoint) string {
	if e == self {
		return fmt.Sprintf("itself, %s (%s)", e.Device, address(e.GID))
	}
	return fmt.Sprintf("%s of %s (%s)", e.Device, p.peer, address(e.GID))
}

// exchange sends what was asked for, and at the end more of the flows that lost some, and some of the path MTU.
func (p *pinging) exchange(ctx context.Context, to io.Writer, s pinger.Session, self, peer rdmaping.Endpoint,
	mtu int,
) (*tally, error) {
	t := &tally{flows: map[uint32]*count{}}
	send := func(e rdmaping.Endpoint, size int, flow uint32) (rdmaping.Pong, error) {
		for begun := time.Now(); ; {
			pongs, err := s.Round(ctx, &rdmaping.Round{Timeout: p.timeout, Asks: []rdmaping.Ask{{
				Device: self.Device, To: e, Size: size, Flow: flow, ByHand: true,
			}}})
			if err != nil {
				return rdmaping.Pong{}, err
			}
			f := pongs[0].Failure
			if f == nil {
				return pongs[0], nil
			}
			if f.Step != rdmaping.Unmade || time.Since(begun) > wayFor || !sleep(ctx, again) {
				return rdmaping.Pong{}, fmt.Errorf("to %s: %w: %s", p.named(e, self), f, hintOfSend(f, e))
			}
		}
	}
	for n := 1; n <= p.count; n++ {
		flow := uint32(1 + n%flows) // 0 would be any
		back := ""
		if !self.Limited() {
			loop, err := send(self, p.size, flow)
			if err != nil {
				return t, err
			}
			t.loop.add(loop)
			back = "  loopback " + p.told(loop)
		}
		pong, err := send(peer, p.size, flow)
		if err != nil {
			return t, err
		}
		t.peer.add(pong)
		t.flow(flow).add(pong)
		fmt.Fprintf(to, "%d bytes seq=%d %s%s\n", p.size, n, p.told(pong), back)
		if n < p.count && !sleep(ctx, p.interval) {
			return t, ctx.Err()
		}
	}
	return t, p.more(ctx, t, mtu, func(size int, flow uint32) (rdmaping.Pong, error) {
		if !sleep(ctx, min(p.interval, 100*time.Millisecond)) {
			return rdmaping.Pong{}, ctx.Err()
		}
		return send(peer, size, flow)
	})
}

func (t *tally) flow(label uint32) *count {
	if t.flows[label] == nil {
		t.flows[label] = &count{}
	}
	return t.flows[label]
}

// more sends what tells why messages were lost, if the peer answered any.
func (p *pinging) more(ctx context.Context, t *tally, mtu int, send func(int, uint32) (rdmaping.Pong, error)) error {
	if len(t.peer.answers) == 0 {
		return nil
	}
	mute := t.those(func(c *count) bool { return len(c.answers) == 0 })
	for _, flow := range mute[:min(len(mute), mostFlows)] {
		for c := t.flows[flow]; len(c.answers) == 0 && c.asked < min(t.ofFlow(), mostOfFlow); {
			pong, err := send(p.size, flow)
			if err != nil {
				return err
			}
			c.add(pong)
		}
	}
	if p.size >= mtu {
		return nil
	}
	t.largest = mtu
	alive := t.alive()
	for n := range ofMTU {
		pong, err := send(mtu, alive[n%len(alive)])
		if err != nil {
			return err
		}
		t.large.add(pong)
	}
	return nil
}

// alive are the flows that got an answer, and dead those that had messages enough and got none.
func (t *tally) alive() []uint32 {
	return t.those(func(c *count) bool { return len(c.answers) > 0 })
}

func (t *tally) dead() []uint32 {
	return t.those(func(c *count) bool { return len(c.answers) == 0 && c.asked >= t.ofFlow() })
}

// ofFlow is how many messages of a flow without an answer show that it is dead: by what the flows lose that got
// answers, chance would do that to one of all flows in less than one of 10,000 calls.
func (t *tally) ofFlow() int {
	asked, lost := 2.0, 1.0
	for _, flow := range t.alive() {
		asked, lost = asked+float64(t.flows[flow].asked), lost+float64(t.flows[flow].lost())
	}
	return max(leastOfFlow, int(math.Ceil(math.Log(1e-4/flows)/math.Log(lost/asked))))
}

func (t *tally) those(are func(*count) bool) (list []uint32) {
	for _, flow := range slices.Sorted(maps.Keys(t.flows)) {
		if are(t.flows[flow]) {
			list = append(list, flow)
		}
	}
	return list
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pinging) told(pong rdmaping.Pong) string {
	switch {
	case pong.Lost:
		return fmt.Sprintf("no answer within %s", p.timeout)
	case pong.Timed:
		return fmt.Sprintf("time=%s (network %s, responder %s, initiator %s)", microseconds(pong.RTT),
			microseconds(pong.Network), microseconds(pong.Remote), microseconds(pong.Initiator()))
	case pong.Doubtful:
		return "time=" + microseconds(pong.RTT) + " (what the responder tells of it cannot be)"
	}
	return "time=" + microseconds(pong.RTT)
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

func (t *tally) print(to io.Writer) {
	rtt := func(p rdmaping.Pong) time.Duration { return p.RTT }
	fmt.Fprintf(to, "%d sent, %d answered, %.1f %% lost%s\n", t.peer.asked, len(t.peer.answers),
		100*float64(t.peer.lost())/float64(max(1, t.peer.asked)), spread(", time", t.peer.answers, rtt))
	timed := slices.DeleteFunc(slices.Clone(t.peer.answers), func(p rdmaping.Pong) bool { return !p.Timed })
	fmt.Fprint(to,
		spread("of it, by the clocks of the NICs: network", timed, func(p rdmaping.Pong) time.Duration { return p.Network }),
		spread("; responder", timed, func(p rdmaping.Pong) time.Duration { return p.Remote }),
		spread("; initiator", timed, func(p rdmaping.Pong) time.Duration { return p.Initiator() }))
	if len(timed) > 0 {
		fmt.Fprintln(to)
	}
	reordered := slices.DeleteFunc(slices.Clone(t.peer.answers), func(p rdmaping.Pong) bool { return !p.Reordered })
	if len(reordered) > 0 {
		fmt.Fprintf(to, "%d answers were overtaken by later ones of the same flow\n", len(reordered))
	}
	if t.loop.asked > 0 {
		fmt.Fprintf(to, "loopback: %d sent, %d answered%s\n", t.loop.asked, len(t.loop.answers),
			spread(", time", t.loop.answers, rtt))
	} else if t.peer.asked > 0 {
		fmt.Fprintln(to, "loopback: a limited member of a partition does not reach itself")
	}
	if t.largest > 0 {
		fmt.Fprintf(to, "path MTU %d: %d of %d messages of that size answered%s\n", t.largest, len(t.large.answers),
			t.large.asked, spread(", time", t.large.answers, rtt))
	}
}

// spread is the smallest, the median and the largest of some times; empty if there are none.
func spread(what string, of []rdmaping.Pong, part func(rdmaping.Pong) time.Duration) string {
	if len(of) == 0 {
		return ""
	}
	times := make([]time.Duration, 0, len(of))
	for _, p := range of {
		times = append(times, part(p))
	}
	slices.Sort(times)
	return fmt.Sprintf("%s min %s, median %s, max %s", what, microseconds(times[0]), microseconds(times[len(times)/2]),
		microseconds(times[len(times)-1]))
}
