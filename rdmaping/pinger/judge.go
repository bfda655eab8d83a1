// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/locate"
)

// span is windows of one length. What one of them says holds for a while, so that a scrape sees it.
type span struct {
	step  time.Duration
	steps int
	least float64 // share of bad messages that is looked at
	holds time.Duration
}

// spans are the windows that are judged: of what is dead, of what loses much, and of what loses little.
var spans = [...]span{
	{time.Second, 5, 0.3, 15 * time.Second},
	{3 * time.Second, 10, 0.01, 45 * time.Second},
	{10 * time.Minute, 1, 0.002, 15 * time.Minute},
	{time.Hour, 1, 0.0003, 90 * time.Minute},
}

const (
	badPeers = 3
	// wellAfter is how many messages a peer would have lost meanwhile if it still lost as many as in a long window.
	wellAfter = 7
)

// judge sums up what all rails saw, and judges each window when it is over: what of it is this host or a rail of it.
// Who else is at fault, a node cannot tell alone.
type judge struct {
	windows [len(spans)]locate.Windows
	clean   map[asked]int // messages that were answered since one was lost
}

// asked is a peer of a rail.
type asked struct {
	rail int
	peer string
}

func newJudge() *judge {
	j := &judge{clean: map[asked]int{}}
	for i, s := range spans {
		j.windows[i] = locate.Windows{Step: s.step, Steps: s.steps}
	}
	return j
}

// add takes messages whose fate became known now.
func (j *judge) add(p locate.Pair) {
	now := time.Now()
	for i := range j.windows {
		j.windows[i].Add(now, p)
	}
	of := asked{p.From.Number, p.To.Node}
	if p.Bad > 0 {
		j.clean[of] = 0
	} else {
		j.clean[of] += p.Sent
	}
}

// well reports whether a peer that lost a share of the messages has stopped to.
func (j *judge) well(rail int, peer string, ratio float64) bool {
	return ratio*float64(j.clean[asked{rail, peer}]) >= wellAfter
}

// judgement is what the last windows of a span say of a rail. Where they overlap, a fault is what two in a row say: of
// one that has just begun, the first one sees too little to tell whose it is.
type judgement struct {
	known time.Time      // until when anything is
	last  rdmaping.Fault // of the last window
	fault rdmaping.Fault // empty: none
	until time.Time      // the fault holds
	sure  bool           // it is the rail: its loopback would have shown that it is the host
	bad   map[string]badPeer
}

// badPeer is how much a window lost to a peer, and until when that holds.
type badPeer struct {
	ratio float64
	until time.Time
}

// expire forgets what no longer holds.
func (j *judgement) expire(now time.Time) {
	if !now.Before(j.until) {
		j.fault = ""
	}
	maps.DeleteFunc(j.bad, func(_ string, b badPeer) bool { return !now.Before(b.until) })
}

// close judges the windows that are over.
func (j *judge) close(rails map[string]*rail, now time.Time) {
	for i, s := range spans {
		pairs := j.windows[i].Close(now)
		if len(pairs) == 0 {
			continue
		}
		verdicts := locate.Judge(pairs, s.least)
		for _, r := range rails {
			r.judged[i].expire(now)
			r.judge(&r.judged[i], pairs, verdicts, s, now.Add(s.holds))
		}
		if i == len(spans)-1 { // what is not asked any more is forgotten
			maps.DeleteFunc(j.clean, func(of asked, _ int) bool {
				return !slices.ContainsFunc(pairs, func(p locate.Pair) bool { return of == asked{p.From.Number, p.To.Node} })
			})
		}
	}
	for _, r := range rails {
		for i, s := range spans {
			maps.DeleteFunc(r.judged[i].bad, func(peer string, b badPeer) bool {
				return s.steps == 1 && j.well(r.Rail, peer, b.ratio) // windows that slide do so soon
			})
		}
	}
}

// judge takes what a window says of the rail, if it has seen it.
func (r *rail) judge(j *judgement, pairs []locate.Pair, verdicts []locate.Verdict, s span, until time.Time) {
	fault, sure := rdmaping.Fault(""), false
	for _, p := range pairs {
		if p.From.Number != r.Rail {
			continue
		}
		j.known = until
		ratio := float64(p.Bad) / float64(max(1, p.Sent))
		if p.To.Node != p.From.Node && float64(p.Bad) > 1+s.least*float64(p.Sent) {
			if j.bad == nil {
				j.bad = map[string]badPeer{}
			}
			j.bad[p.To.Node] = badPeer{ratio, until}
			fault = rdmaping.Elsewhere
		}
	}
	for _, v := range verdicts {
		switch own := v.Node == r.self.Address; {
		case own && v.Kind == locate.Host && v.Rail == r.Rail: // the loopback of another one says nothing of this one
			fault = rdmaping.OfHost
		case own && (v.Kind == locate.Node || v.Kind == locate.OwnRail && v.Rail == r.Rail) && !r.nearIsClean(pairs):
			fault, sure = rdmaping.OfRail, v.Controlled
		}
	}
	unsure := fault == rdmaping.Elsewhere && j.fault != "" && len(verdicts) == 0 // too little is lost to tell where
	if fault != "" && (fault == j.last || s.steps == 1) && !unsure {
		j.fault, j.until, j.sure = fault, until, sure || j.sure && j.fault == fault
	}
	j.last = fault
}

// nearIsClean reports whether the rail asked others on its leaf and lost none of it: then the uplinks of the leaf would
// look the same, where so few are on it that chance may spare them.
func (r *rail) nearIsClean(pairs []locate.Pair) bool {
	asked := false
	for _, p := range pairs {
		if p.From.Number != r.Rail || p.To.Node == p.From.Node || p.To.Leaf != p.From.Leaf || p.From.Leaf == "" {
			continue
		}
		if p.Bad > 0 {
			return false
		}
		asked = asked || p.Sent > 0
	}
	return asked
}

// judgement is what the last windows say together, as of now.
func (r *rail) judgement(now time.Time) (fault rdmaping.Fault, known bool, bad []rdmaping.BadPeer) {
	worst := map[string]float64{}
	for i := range r.judged {
		j := &r.judged[i]
		known = known || now.Before(j.known)
		j.expire(now)
		switch {
		case j.fault == rdmaping.OfHost && r.spared(i-1):
			fault = rdmaping.OfHost
		case j.fault != "" && (fault == "" || fault == rdmaping.Elsewhere):
			fault = j.fault
		}
		for address, b := range j.bad {
			worst[address] = max(worst[address], b.ratio)
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

// spared reports whether chance may have spared the few messages of loopback in windows of a span that say it is the
// rail: one that is not sure, while shorter windows do not say so, too.
func (r *rail) spared(span int) bool {
	says := func(span int) bool { return span >= 0 && r.judged[span].fault == rdmaping.OfRail }
	return says(span) && !r.judged[span].sure && !says(span-1)
}

// turnOf orders peers that are equally bad, differently on each node: where many are dead, all are told by someone.
func (r *rail) turnOf(address string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.self.Address + " " + address))
	return h.Sum64()
}
