// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/peers"
)

// look sees whether anything is to be pinged, from which rails, and which peers.
func (p *Pinger) look(ctx context.Context) {
	pl := p.current()
	was := pl.paused
	pl.paused = ""
	if why, err := p.o.Maintenance(); err != nil || why != "" {
		pl.paused = why
		if err != nil {
			pl.paused = err.Error()
		}
	}
	if pl.paused != was {
		p.o.Log.Info("RDMA ping", "paused", pl.paused)
	}
	if pl.paused == "" {
		p.lookAt(ctx, &pl)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = pl
}

// lookAt reads node and targets. What cannot be read stays as it was.
func (p *Pinger) lookAt(ctx context.Context, pl *plan) {
	observing, cancel := context.WithTimeout(ctx, lookFor)
	n := p.o.Observe(observing)
	cancel()
	list, errs := p.source.Targets(ctx)
	pl.targets, pl.leftOut = len(list), len(errs)
	owns, err := railsOf(n, "", p.ports)
	if err != nil {
		owns, errs = p.owns, append(errs, err)
	} else {
		p.keepPorts(owns, n)
		p.keepNumbers(owns, n)
	}
	listed := !slices.Equal(list, p.seen)
	renamed, err := p.findSelf(ctx, list, listed)
	if err != nil {
		errs = append(errs, err)
		pl.leftOut++
	}
	if p.names == nil && p.o.Config.Self == "" { // it would ask itself as a peer
		p.complain(errs)
		return
	}
	changed := listed || renamed || !slices.Equal(owns, p.owns)
	p.missing = len(p.own) == 0 && len(list) > 0 && len(owns) > 0
	switch self := p.self().Address; {
	case !p.missing:
	case p.o.Config.Self != "":
		errs = append(errs, fmt.Errorf("rdma_ping.self: %s is not among the targets: it has to be one of them, as they have it", self))
	default:
		errs = append(errs, fmt.Errorf("no target is this node (%s): rdma_ping.self has to say which one is", self))
	}
	if p.missing {
		pl.leftOut++
	}
	p.complain(errs)
	if !changed {
		return
	}
	p.seen, p.owns = list, owns
	own := map[string]bool{}
	for _, t := range p.own {
		own[t.Address] = true
	}
	others := slices.DeleteFunc(slices.Clone(list), func(t peers.Target) bool { return own[t.Address] })
	pl.rails = nil
	beyond := excess(owns)
	for _, own := range owns {
		one := planned{Own: own, excess: beyond[own.Device], self: p.selfOf(own.Rail)}
		one.Library = p.o.Config.Library
		if !own.Moved && !one.excess {
			one.peers = peers.Choose(one.self, others, p.o.Config.Peers)
		}
		pl.rails = append(pl.rails, one)
	}
}

// keepPorts has devices keep the ports that had a link. Another port has another number, so it has no peers, and would
// be opened each time that a link flaps. Only a port before it takes its place: links come up in any order at boot.
func (p *Pinger) keepPorts(owns []Own, n *fabric.Node) {
	for h, port := range n.Ports {
		same := func(own Own) bool { return own.Device == h.Name && own.Port == port.Number }
		if port.State.Or("") == fabric.PortActive && slices.ContainsFunc(owns, same) {
			p.ports[h.Name] = port.Number
		}
	}
}

// keepNumbers gives rails the numbers that their devices had while another device is gone, because they say which leaf
// a rail is connected to. A new device, or another role, has them counted anew, as a restart has.
func (p *Pinger) keepNumbers(owns []Own, n *fabric.Node) {
	gone, added := false, false
	for device := range p.numbers {
		gone = gone || n.HCA(device) == nil
	}
	for _, device := range p.unseen {
		gone = gone || n.HCA(device) == nil
	}
	for _, own := range owns {
		_, known := p.numbers[own.Device]
		added = added || !known
	}
	if gone && !added {
		for i := range owns {
			owns[i].Rail = p.numbers[owns[i].Device]
		}
		return
	}
	p.numbers, p.unseen = map[string]int{}, nil
	for _, own := range owns {
		p.numbers[own.Device] = own.Rail
	}
	for _, h := range n.LikelyMoved() {
		p.unseen = append(p.unseen, h.Name)
	}
}

// complain logs what it did not when it last looked.
func (p *Pinger) complain(errs []error) {
	now := map[string]bool{}
	for _, err := range errs {
		if now[err.Error()] = true; !p.trouble[err.Error()] {
			p.o.Log.Warn("RDMA ping: not all is pinged", "err", err)
		}
	}
	p.trouble = now
}

// told is what the exporter of a peer said of its rails.
type told struct {
	ends         []rdmaping.Endpoint
	known        bool      // it answered, once at least
	tried        time.Time // when it was last asked
	again        time.Duration
	begun, ended uint64 // questions, one at a time
	silent       bool   // an answer is wanted soon
	refused      int    // times in a row that it answered, and told no rails
	reason       string // of the last time; other peers may have the same
}

// asked reports whether a question is under way.
func (t *told) asked() bool { return t.begun != t.ended }

const (
	askFor    = 3 * time.Second
	askAgain  = time.Minute
	askSoon   = 2 * time.Second // of one that does not answer pings
	askAtOnce = 16              // peers

	maxReasons = 8                // that are logged at a time
	reasonFor  = 10 * time.Minute // one that came back sooner is not logged again
)

// inquire asks peers over HTTP where their rails answer: new ones, silent ones, and each once a minute. It waits for
// none, so that one that does not answer delays no other.
func (p *Pinger) inquire(ctx context.Context) {
	for _, address := range p.due(time.Now()) {
		p.asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askFor)
			defer cancel()
			ends, err := exchange.Ask(ctx, p.o.Client, p.o.Config.Scheme, address)
			p.answered(address, ends, err)
		})
	}
}

// due are the peers that are to be asked now; what nobody pings any more is forgotten.
func (p *Pinger) due(now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted, asked := map[string]bool{}, 0
	for _, t := range p.told {
		if t.asked() {
			asked++
		}
	}
	var list []string
	for _, r := range p.plan.rails {
		for _, peer := range r.peers {
			if wanted[peer.Address] {
				continue
			}
			wanted[peer.Address] = true
			t := p.told[peer.Address]
			if t == nil {
				t = &told{}
				p.told[peer.Address] = t
			}
			wait := t.again
			if t.silent {
				wait = askSoon
			}
			if !t.asked() && now.Sub(t.tried) >= wait {
				list = append(list, peer.Address)
			}
		}
	}
	// who waits longest comes first: where many do not answer, all have their turn
	slices.SortStableFunc(list, func(a, b string) int { return p.told[a].tried.Compare(p.told[b].tried) })
	list = list[:max(0, min(len(list), askAtOnce-asked))]
	for _, address := range list {
		p.told[address].tried = now
		p.told[address].begun++
	}
	maps.DeleteFunc(p.told, func(address string, t *told) bool { return !wanted[address] && !t.asked() })
	return list
}

// answered keeps what a peer told. One that does not tell its rails has none; one that cannot be reached has those
// that it had.
func (p *Pinger) answered(address string, ends []rdmaping.Endpoint, err error) {
	alike := p.keep(address, ends, err)
	switch {
	case alike > 0:
		p.o.Log.Warn("peers tell no rails, and are not pinged: compare their rdma_ping, scheme and passwords with those here",
			"peers", alike, "example", address, "err", fmt.Sprintf("%.200s", err))
	case err != nil:
		p.o.Log.Debug("a peer does not tell where it answers", "peer", address, "err", fmt.Sprintf("%.200s", err))
	}
}

// keep returns how many peers refuse for the same reason, if that is to be logged.
func (p *Pinger) keep(address string, ends []rdmaping.Endpoint, err error) (alike int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.told[address]
	t.silent = false
	t.ended = t.begun
	t.again = askAgain
	refused := t.refused
	t.refused, t.reason = 0, ""
	switch {
	case err == nil:
		t.ends, t.known = ends, true
		if len(ends) == 0 { // it begins, or is in maintenance
			t.again = lookEvery
		}
	case exchange.Absent(err):
		t.ends, t.refused, t.reason = nil, refused+1, reasonOf(err)
		t.again = min(askAgain, lookEvery<<min(refused, 3)) // its log may have each question
		return p.alike(t, time.Now())
	case !t.known:
		t.again = lookEvery
	}
	return 0
}

// alike counts the peers that refuse for the reason of this one, and returns 0 if that was logged a short while ago. A
// restart refuses once, and is not logged.
func (p *Pinger) alike(t *told, now time.Time) (n int) {
	maps.DeleteFunc(p.reasons, func(_ string, seen time.Time) bool { return now.Sub(seen) > reasonFor })
	_, logged := p.reasons[t.reason]
	if !logged && (t.refused < 2 || len(p.reasons) >= maxReasons) {
		return 0
	}
	p.reasons[t.reason] = now
	if logged {
		return 0
	}
	for _, other := range p.told {
		if other.reason == t.reason {
			n++
		}
	}
	return n
}

// reasonOf is why a peer tells no rails, without what differs between peers or from time to time.
func reasonOf(err error) string {
	if status, ok := errors.AsType[*exchange.StatusError](err); ok {
		return strconv.Itoa(status.Code)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate"
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// untold is the number of peers whose exporters answer and tell no rails. One that does not run is told as such.
func (p *Pinger) untold() (n int) {
	for _, t := range p.told {
		if t.refused > 0 && t.reason != syscall.ECONNREFUSED.Error() {
			n++
		}
	}
	return n
}

// endOf is where a rail of a peer answers, and what was asked. A peer that is silent is asked again.
func (p *Pinger) endOf(address string, own *Own, silent bool) (end *rdmaping.Endpoint, of told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.told[address]
	if t == nil {
		return nil, told{}
	}
	t.silent = t.silent || silent
	at := slices.IndexFunc(t.ends, func(e rdmaping.Endpoint) bool { return e.Rail == own.Rail })
	if at < 0 {
		return nil, *t
	}
	// of another make, or either lacks a device: which one is connected to the same leaf is in doubt
	there := func(e rdmaping.Endpoint) bool { return e.Device == own.Device && e.Rail != own.Rail }
	here := func(r planned) bool { return r.Device == t.ends[at].Device && r.Rail != own.Rail }
	if slices.ContainsFunc(t.ends, there) || slices.ContainsFunc(p.plan.rails, here) {
		return nil, *t
	}
	return &t.ends[at], *t
}
