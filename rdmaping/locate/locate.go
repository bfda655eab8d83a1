// SPDX-License-Identifier: Apache-2.0

// Package locate says where a fabric loses or delays RDMA pings, from what several rails saw in the same windows.
//
// A cause is a set of pairs of rails that have it in common: all pairs of a rail, of a node, of a leaf, between two
// leaves, or between any leaves. What fits is the set of which the loss is even, and least likely without a fault: a
// set that is larger than the cause has pairs that hardly lose any, and a smaller one explains less. What it explains
// is not looked at again. What no set explains stays unlocated, and nobody is accused without several witnesses.
// Messages of a pair take many paths (flow labels), so the loss of a link that only some paths have is even too.
//
// The functions are pure and may be called from any goroutine.
package locate

import (
	"cmp"
	"math"
	"slices"
)

// Rail is a NIC that takes part.
type Rail struct {
	Node   string
	Number int
	Leaf   string // empty: not known
}

// Pair is what one rail saw of another in a window, or of itself by loopback.
type Pair struct {
	From, To Rail
	Sent     int // messages of which the answer came or is lost for certain
	Bad      int // of these: without an answer in time, or too slow
}

// Kind is what is at fault.
type Kind string

// The kinds of verdicts.
const (
	Host      Kind = "host"      // loopback is bad: what this node reports says nothing of the fabric
	OwnRail   Kind = "rail"      // bad with all peers while its loopback is clean
	Node      Kind = "node"      // everyone has trouble with all rails of it
	Leaf      Kind = "leaf"      // all that crosses the leaf or its uplinks
	Path      Kind = "path"      // between two leaves
	Fabric    Kind = "fabric"    // between all leaves or many of them, and not inside of them: spines
	Unlocated Kind = "unlocated" // pairs are bad, and nothing that they have in common is
)

// Verdict is a fault.
type Verdict struct {
	Kind     Kind
	Node     string      // of Host, OwnRail and Node
	Rail     int         // of OwnRail
	Leaves   [2]string   // the first one of Leaf, both of Path
	Between  [][2]string // of Fabric: what was told as leaves and paths each, of a leaf the first one only
	Ratio    float64     // of messages that were bad in what is at fault
	Pairs    int         // that had bad messages
	Observed int         // nodes that reported them
	// Controlled is whether loopback would have shown that the host loses the messages of an OwnRail or a Node.
	Controlled bool
}

const (
	// leastBad is how many messages must be bad before anything is said.
	leastBad = 5
	// sure is by how many standard deviations the bad messages must exceed the least ratio, and the pairs without one
	// what an even loss leaves: there are thousands of sets, some of which would otherwise mislead by chance.
	sure = 4
	// nearly is by which part the ratios of pairs may differ, and unlike by how many standard deviations more they do if
	// the loss is not even.
	nearly, unlike = 0.3, 3
	// likelier is the logarithm of by how much.
	likelier = 2
	// witnesses is how many other nodes must be in what is accused, and pathWitnesses how many must report a path.
	witnesses, pathWitnesses = 3, 2
	// badLoopback is the share of bad loopback messages from which on a host itself is at fault. Hosts that are busy
	// lose a little less.
	badLoopback = 0.01
	// control is how many loopback messages would be bad if a small loss were of the host, at least: with one of them
	// or none it is not.
	control = 7
	// above is how often worse a leaf or a path is than the quietest tenth of paths.
	above, quietest = 3, 0.1
	// many paths or leaves at once are told as one.
	many = 3
)

// Judge returns the faults in a window that is closed, the largest first. What is bad in fewer messages than the
// ratio least is not looked at: a loss of 0.1 % needs a window of an hour.
func Judge(window []Pair, least float64) []Verdict {
	loops := loopback(window)
	out, rest := judgeHosts(window, loops, least)
	q := quiet(rest)
	var left []Pair
	for {
		best, proven := strongest(rest, loops, q, least)
		if best == nil {
			break
		}
		if proven {
			v := best.verdict()
			v.Controlled = best.controlled(loops)
			out = append(out, v)
		} else {
			left = append(left, best.pairs...)
		}
		rest = slices.DeleteFunc(rest, best.covers)
	}
	return append(together(out), unlocated(append(left, rest...), least)...)
}

// unlocated is a verdict on pairs that are bad, if there are any.
func unlocated(pairs []Pair, least float64) []Verdict {
	v := Verdict{Kind: Unlocated}
	reporters := map[string]bool{}
	var sent, bad int
	for _, p := range pairs {
		if clearly(p.Bad, p.Sent, least) {
			v.Pairs++
			reporters[p.From.Node] = true
			sent, bad = sent+p.Sent, bad+p.Bad
		}
	}
	if v.Pairs == 0 {
		return nil
	}
	v.Ratio, v.Observed = ratio(bad, sent), len(reporters)
	return []Verdict{v}
}

// cause is a set of pairs, by what they have in common.
type cause struct {
	kind   Kind
	a      Rail   // what is accused: as much of a rail as the kind has
	b      string // the other leaf of a path
	inside bool   // of a leaf: pairs inside it too
}

// of returns the causes that a pair may suffer from, each once.
func of(p Pair) []cause {
	from, to := p.From, p.To
	out := make([]cause, 0, 10)
	out = append(out,
		cause{kind: OwnRail, a: Rail{Node: from.Node, Number: from.Number}}, cause{kind: Node, a: Rail{Node: from.Node}},
		cause{kind: OwnRail, a: Rail{Node: to.Node, Number: to.Number}}, cause{kind: Node, a: Rail{Node: to.Node}})
	if from.Leaf == "" || to.Leaf == "" {
		return out
	}
	out = append(out, cause{kind: Leaf, a: Rail{Leaf: from.Leaf}, inside: true})
	if from.Leaf == to.Leaf {
		return out
	}
	return append(out, cause{kind: Leaf, a: Rail{Leaf: to.Leaf}, inside: true},
		cause{kind: Leaf, a: Rail{Leaf: from.Leaf}}, cause{kind: Leaf, a: Rail{Leaf: to.Leaf}},
		cause{kind: Path, a: Rail{Leaf: min(from.Leaf, to.Leaf)}, b: max(from.Leaf, to.Leaf)}, cause{kind: Fabric})
}

// evidence is what was seen of a cause.
type evidence struct {
	cause
	pairs     []Pair
	sent, bad int
}

func (e *evidence) covers(p Pair) bool { return slices.Contains(of(p), e.cause) }

// strongest returns the cause that explains best what is bad, and whether it is proven. One that is not stands in the
// way of others that are much less likely: a node that loses messages to one leaf only has no bad rail. Nil: none.
func strongest(pairs []Pair, loops map[end]count, quiet, least float64) (e *evidence, isProven bool) {
	suspects := map[cause]*evidence{}
	for _, p := range pairs {
		if p.Bad == 0 {
			continue
		}
		for _, c := range of(p) {
			suspects[c] = &evidence{cause: c}
		}
	}
	for _, p := range pairs {
		for _, c := range of(p) {
			if e := suspects[c]; e != nil {
				e.pairs = append(e.pairs, p)
				e.sent, e.bad = e.sent+p.Sent, e.bad+p.Bad
			}
		}
	}
	var best, proven *evidence
	for _, e := range suspects {
		if !clearly(e.bad, e.sent, least) || !e.even() || !e.standsOut(quiet) {
			continue
		}
		if best == nil || e.before(best, least) {
			best = e
		}
		if (proven == nil || e.before(proven, least)) && e.witnessed() && (least >= badLoopback || e.controlled(loops)) {
			proven = e
		}
	}
	if proven != nil && proven.gain(least) >= best.gain(least)-likelier {
		return proven, true
	}
	return best, false
}

// before reports whether e explains more than f; the narrower one where both explain the same.
func (e *evidence) before(f *evidence, least float64) bool {
	order := []Kind{OwnRail, Node, Path, Leaf, Fabric}
	return cmp.Or(cmp.Compare(f.gain(least), e.gain(least)), cmp.Compare(e.sent, f.sent),
		cmp.Compare(slices.Index(order, e.kind), slices.Index(order, f.kind)),
		cmp.Compare(e.a.Leaf+e.a.Node, f.a.Leaf+f.a.Node), cmp.Compare(e.a.Number, f.a.Number),
		cmp.Compare(e.b, f.b)) < 0
}

// gain is by how much likelier the bad messages are if the set has a fault than if it had the least ratio, as a
// logarithm. What only makes the set larger, and is hardly bad, makes it less.
func (e *evidence) gain(least float64) float64 {
	return float64(e.bad)*(math.Log(ratio(e.bad, e.sent)/least)-1) + least*float64(e.sent)
}

// even reports whether the ratio is the same for all pairs, or nearly so: no more of them are without a bad message
// than chance allows, and they do not differ more. To a rail or a node, its own leaf is as bad as the others are.
func (e *evidence) even() bool {
	p := ratio(e.bad, e.sent)
	var clean, expected, variance float64
	var groups [2]Pair // inside of leaves, and between them
	for _, pair := range e.pairs {
		if pair.Bad == 0 {
			clean++
		}
		q := math.Pow(1-p, float64(pair.Sent))
		expected, variance = expected+q, variance+q*(1-q)
		g := &groups[0]
		if pair.From.Leaf != pair.To.Leaf {
			g = &groups[1]
		}
		g.Sent, g.Bad = g.Sent+pair.Sent, g.Bad+pair.Bad
	}
	return clean <= expected+sure*math.Sqrt(variance)+0.5 && alike(e.pairs, p) &&
		(e.kind != OwnRail && e.kind != Node || alike(groups[:], p))
}

// alike reports whether pairs do not differ from a ratio more than chance allows.
func alike(pairs []Pair, p float64) bool {
	differ, free := 0.0, -1.0
	for _, pair := range pairs {
		if mean := p * float64(pair.Sent); mean > 0 {
			differ += (float64(pair.Bad) - mean) * (float64(pair.Bad) - mean) / (mean*(1-p) + nearly*mean*nearly*mean)
			free++
		}
	}
	return free <= 0 || differ <= free+unlike*math.Sqrt(2*free)
}

// witnessed reports whether enough nodes besides the accused one are in it.
func (e *evidence) witnessed() bool {
	others, reporters := map[string]bool{}, map[string]bool{}
	own := false // a rail or node that is accused reports itself
	rails := map[int]bool{}
	for _, p := range e.pairs {
		if p.Bad == 0 {
			continue
		}
		reporters[p.From.Node] = true
		for _, r := range []Rail{p.From, p.To} {
			if r.Node == e.a.Node {
				rails[r.Number] = true
			} else {
				others[r.Node] = true
			}
		}
		own = own || p.From.Node == e.a.Node
	}
	switch e.kind {
	case OwnRail:
		return own && len(others) >= witnesses
	case Node: // of its own word alone only where all of several rails say so
		delete(reporters, e.a.Node)
		return len(others) >= witnesses && (len(reporters) >= witnesses || own && len(rails) > 1)
	case Path:
		return len(reporters) >= pathWitnesses && len(others) > pathWitnesses
	default:
		return len(reporters) >= witnesses
	}
}

func (e *evidence) verdict() Verdict {
	v := Verdict{
		Kind: e.kind, Node: e.a.Node, Rail: e.a.Number, Leaves: [2]string{e.a.Leaf, e.b}, Ratio: ratio(e.bad, e.sent),
	}
	reporters := map[string]bool{}
	for _, p := range e.pairs {
		if p.Bad > 0 {
			v.Pairs++
			reporters[p.From.Node] = true
		}
	}
	v.Observed = len(reporters)
	return v
}

// clearly reports whether more than the ratio least is bad, and not by chance.
func clearly(bad, sent int, least float64) bool {
	expected := least * float64(sent)
	return bad >= leastBad && float64(bad) >= expected+sure*math.Sqrt(expected*(1-least))
}

func ratio(part, whole int) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
