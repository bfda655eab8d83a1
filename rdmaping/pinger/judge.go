// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/locate"
)

// spans are the windows that are judged: of what is dead, of what loses much, and of what loses little.
var spans = [...]struct {
	length time.Duration
	least  float64 // share of bad messages that is looked at
}{{10 * time.Second, 0.3}, {30 * time.Second, 0.01}, {10 * time.Minute, 0.002}, {time.Hour, 0.0003}}

const (
	grace    = time.Second // until a window is closed
	badPeers = 3
)

// judge sums up what all rails saw, and judges each window when it is closed: what of it is this host or a rail of it.
// Who else is at fault, a node cannot tell alone.
type judge struct{ windows [len(spans)]locate.Windows }

func newJudge() *judge {
	j := &judge{}
	for i, s := range spans {
		j.windows[i] = locate.Windows{Length: s.length, Grace: grace}
	}
	return j
}

// add takes messages whose fate became known now.
func (j *judge) add(p locate.Pair) {
	now := time.Now()
	for i := range j.windows {
		j.windows[i].Add(now, now, p)
	}
}

// judgement is what the last window of a length says of a rail.
type judgement struct {
	fault rdmaping.Fault // empty: none
	until time.Time      // how long it holds
	bad   []rdmaping.BadPeer
}

// close judges the windows that have closed.
func (j *judge) close(rails map[string]*rail, now time.Time) {
	for i, s := range spans {
		for _, pairs := range j.windows[i].Close(now) {
			verdicts := locate.Judge(pairs, s.least)
			for _, r := range rails {
				if one, seen := r.judge(pairs, verdicts, s.least); seen {
					one.until = now.Add(s.length + s.length/2)
					r.judged[i] = one
				}
			}
		}
	}
}

// judge is what a window says of the rail, if it has seen it.
func (r *rail) judge(pairs []locate.Pair, verdicts []locate.Verdict, least float64) (j judgement, seen bool) {
	for _, p := range pairs {
		if p.From.Number != r.Rail {
			continue
		}
		seen = true
		ratio := float64(p.Bad) / float64(max(1, p.Sent))
		if p.To.Node != p.From.Node && p.Bad > 1 && ratio > least {
			j.bad = append(j.bad, rdmaping.BadPeer{Address: p.To.Node, Ratio: ratio})
			j.fault = rdmaping.Elsewhere
		}
	}
	for _, v := range verdicts {
		switch own := v.Node == r.self.Address; {
		case own && v.Kind == locate.Host && v.Rail == r.Rail: // the loopback of another one says nothing of this one
			j.fault = rdmaping.OfHost
		case own && (v.Kind == locate.Node || v.Kind == locate.OwnRail && v.Rail == r.Rail):
			j.fault = rdmaping.OfRail
		}
	}
	return j, seen
}

// judgement is what the last windows say together, as of now.
func (r *rail) judgement(now time.Time) (fault rdmaping.Fault, known bool, bad []rdmaping.BadPeer) {
	worst := map[string]float64{}
	for _, j := range r.judged {
		if !now.Before(j.until) {
			continue
		}
		known = true
		if j.fault != "" && (fault == "" || fault == rdmaping.Elsewhere) {
			fault = j.fault
		}
		for _, b := range j.bad {
			worst[b.Address] = max(worst[b.Address], b.Ratio)
		}
	}
	for address, ratio := range worst {
		bad = append(bad, rdmaping.BadPeer{Address: address, Ratio: ratio})
	}
	slices.SortFunc(bad, func(a, b rdmaping.BadPeer) int {
		return cmp.Or(cmp.Compare(b.Ratio, a.Ratio), cmp.Compare(r.turnOf(a.Address), r.turnOf(b.Address)))
	})
	return fault, known, bad[:min(len(bad), badPeers)]
}

// turnOf orders peers that are equally bad, differently on each node: where many are dead, all are told by someone.
func (r *rail) turnOf(address string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.self.Address + " " + address))
	return h.Sum64()
}
