// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

// count is messages of one kind.
type count struct {
	asked, answered int
	times           []time.Duration // of those that were answered
}

func (n *count) lost() int { return n.asked - n.answered }

func (n *count) add(p rdmaping.Pong) {
	n.asked++
	if !p.Lost {
		n.answered++
		n.times = append(n.times, p.RTT)
	}
}

// tally is what came of all messages.
type tally struct {
	loop, peer, large count
	largest           int // bytes of a large message; 0: none were sent
}

// askPeer asks another node for its rails: without proxies and redirects, and not for long.
func askPeer(ctx context.Context, address string) ([]rdmaping.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rails, err := exchange.Ask(ctx, exchange.Client(nil), "http", address)
	if err == nil && len(rails) == 0 {
		err = fmt.Errorf("%s answers on no rail", address)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (does \"%s ping --answer=:%s\" run there?)", err, command.Name, defaultPort)
	}
	return rails, nil
}

// pair chooses a rail of this node and one of the peer: that of the GID, else those of one name, else the first ones.
func pair(rails []pinger.Own, peers []rdmaping.Endpoint, gid rdmaping.GID) (pinger.Own, rdmaping.Endpoint) {
	to := slices.IndexFunc(peers, func(e rdmaping.Endpoint) bool { return e.GID == gid })
	for i, r := range rails {
		same := slices.IndexFunc(peers, func(e rdmaping.Endpoint) bool { return e.Device == r.Device })
		if same >= 0 && (to < 0 || to == same) {
			return rails[i], peers[same]
		}
	}
	return rails[0], peers[max(to, 0)]
}

// ask sends the messages and prints what comes of each.
func (p *pinging) ask(ctx context.Context, c *command.Call, s pinger.Session, from pinger.Own,
	peer rdmaping.Endpoint,
) int {
	self, err := s.Open(ctx, from)
	if err != nil {
		return p.unasked(c, err)
	}
	mtu := min(self.MTU, peer.MTU)
	fmt.Fprintf(c.Stdout, "%s\nto %s of %s: %s, MTU %d\n", describe(from, self), peer.Device, p.peer, peer.GID, peer.MTU)
	if self.MTU != peer.MTU {
		fmt.Fprintf(c.Stdout, "The MTUs differ: %d here, %d there. RDMA connections use %d.\n", self.MTU, peer.MTU, mtu)
	}
	if why := whyNot(self, peer); why != "" {
		return p.fails(c, errors.New(why))
	}
	if p.size > mtu {
		return p.fails(c, fmt.Errorf("--size=%d: a message of UD fits into the MTU, which is %d", p.size, mtu))
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
		return p.fails(c, errors.New(why))
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

// exchange sends what was asked for, and at the end some messages of the path MTU.
func (p *pinging) exchange(ctx context.Context, to io.Writer, s pinger.Session, self, peer rdmaping.Endpoint,
	mtu int,
) (*tally, error) {
	t := &tally{}
	send := func(e rdmaping.Endpoint, size, n int) (rdmaping.Pong, error) {
		pongs, err := s.Round(ctx, &rdmaping.Round{Timeout: p.timeout, Asks: []rdmaping.Ask{{
			Device: self.Device, To: e, Size: size, Flow: uint32(n % 16), // 16 of equal paths
		}}})
		if err != nil {
			return rdmaping.Pong{}, err
		}
		if f := pongs[0].Failure; f != nil {
			return rdmaping.Pong{}, fmt.Errorf("%w%s", f, hintOfSend(f, e))
		}
		return pongs[0], nil
	}
	for n := 1; n <= p.count; n++ {
		loop, err := send(self, p.size, 0)
		if err != nil {
			return t, err
		}
		t.loop.add(loop)
		pong, err := send(peer, p.size, n)
		if err != nil {
			return t, err
		}
		t.peer.add(pong)
		fmt.Fprintf(to, "%d bytes seq=%d %s  loopback %s\n", p.size, n, p.told(pong), p.told(loop))
		if n < p.count && !sleep(ctx, p.interval) {
			return t, ctx.Err()
		}
	}
	if p.size >= mtu || t.peer.answered == 0 {
		return t, nil
	}
	t.largest = mtu
	for n := range ofMTU {
		if !sleep(ctx, min(p.interval, 100*time.Millisecond)) {
			return t, ctx.Err()
		}
		pong, err := send(peer, mtu, n)
		if err != nil {
			return t, err
		}
		t.large.add(pong)
	}
	return t, nil
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
	if pong.Lost {
		return fmt.Sprintf("no answer within %s", p.timeout)
	}
	return "time=" + microseconds(pong.RTT)
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

func (t *tally) print(to io.Writer) {
	fmt.Fprintf(to, "%d sent, %d answered, %.1f %% lost%s\n", t.peer.asked, t.peer.answered,
		100*float64(t.peer.lost())/float64(max(1, t.peer.asked)), t.peer.spread())
	fmt.Fprintf(to, "loopback: %d sent, %d answered%s\n", t.loop.asked, t.loop.answered, t.loop.spread())
	if t.largest > 0 {
		fmt.Fprintf(to, "path MTU %d: %d of %d messages of that size answered%s\n", t.largest, t.large.answered, t.large.asked, t.large.spread())
	}
}

// spread is the smallest, the median and the largest time.
func (n *count) spread() string {
	if len(n.times) == 0 {
		return ""
	}
	slices.SortFunc(n.times, cmp.Compare)
	return fmt.Sprintf(", time min %s, median %s, max %s", microseconds(n.times[0]),
		microseconds(n.times[len(n.times)/2]), microseconds(n.times[len(n.times)-1]))
}
