// SPDX-License-Identifier: Apache-2.0

// Package locate says where a fabric loses or delays RDMA pings, from what several rails saw in the same windows.
//
// A cause is a set of pairs of rails that have it in common: all pairs of a rail, of a node, of a leaf, between two
// leaves, or between any leaves. What fits is the largest set of which the loss is even: a set that is larger than the
// cause has pairs without loss, and a smaller one explains less. What no set explains stays unlocated, and nobody is
// accused without several witnesses. Messages of a pair take many paths (flow labels), so the loss of a link that
// only some paths have is even too.
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
	Fabric    Kind = "fabric"    // between all leaves, and not inside of them: spines
	Unlocated Kind = "unlocated" // pairs are bad, and nothing that they have in common is
)

// Verdict is a fault.
type Verdict struct {
	Kind     Kind
	Node     string    // of Host, OwnRail and Node
	Rail     int       // of OwnRail
	Leaves   [2]string // the first one of Leaf, both of Path
	Ratio    float64   // of messages that were bad in what is at fault
	Pairs    int       // that had bad messages
	Observed int       // nodes that reported them
}

const (
	// leastBad is how many messages must be bad before anything is said.
	leastBad = 5
	// sure is by how many standard deviations the bad messages must exceed the least ratio, and the pairs without one
	// what an even loss leaves: there are thousands of sets, some of which would otherwise mislead by chance.
	sure = 4
	// witnesses is how many other nodes must be in what is accused, and pathWitnesses how many must report a path.
	witnesses, pathWitnesses = 3, 2
	// badLoopback is the share of bad loopback messages from which on a host itself is at fault.
	badLoopback = 0.01
)

// Judge returns the faults in a window that is closed, the largest first. What is bad in fewer messages than the
// ratio least is not looked at: a loss of 0.1 % needs a window of an hour.
func Judge(window []Pair, least float64) []Verdict {
	hosts, rest := judgeHosts(window)
	out := hosts
	for {
		best, ok := strongest(rest, least)
		if !ok {
			break
		}
		out = append(out, best.verdict())
		rest = slices.DeleteFunc(rest, best.covers)
	}
	left := Verdict{Kind: Unlocated}
	reporters := map[string]bool{}
	var sent, bad int
	for _, p := range rest {
		if clearly(p.Bad, p.Sent, least) {
			left.Pairs++
			reporters[p.From.Node] = true
			sent, bad = sent+p.Sent, bad+p.Bad
		}
	}
	if left.Pairs > 0 {
		left.Ratio, left.Observed = ratio(bad, sent), len(reporters)
		out = append(out, left)
	}
	return out
}

// judgeHosts returns the nodes of which the loopback is bad, and the pairs that they have no part in.
func judgeHosts(window []Pair) (faults []Verdict, rest []Pair) {
	type count struct{ sent, bad int }
	loops := map[string]count{}
	for _, p := range window {
		if p.From.Node == p.To.Node {
			c := loops[p.From.Node]
			loops[p.From.Node] = count{c.sent + p.Sent, c.bad + p.Bad}
		}
	}
	bad := map[string]bool{}
	for node, c := range loops {
		if r := ratio(c.bad, c.sent); c.bad >= 2 && r >= badLoopback {
			bad[node] = true
			faults = append(faults, Verdict{Kind: Host, Node: node, Ratio: r, Observed: 1})
		}
	}
	slices.SortFunc(faults, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	for _, p := range window {
		if p.From.Node != p.To.Node && !bad[p.From.Node] && !bad[p.To.Node] && p.Sent > 0 {
			rest = append(rest, p)
		}
	}
	return faults, rest
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

// strongest returns the cause that explains most of what is bad.
func strongest(pairs []Pair, least float64) (*evidence, bool) {
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
	var best *evidence
	for _, e := range suspects {
		if clearly(e.bad, e.sent, least) && (best == nil || e.before(best)) && e.even() && e.witnessed() {
			best = e
		}
	}
	return best, best != nil
}

// before reports whether e explains more than f; the narrower one where both explain the same.
func (e *evidence) before(f *evidence) bool {
	order := []Kind{OwnRail, Node, Path, Leaf, Fabric}
	return cmp.Or(cmp.Compare(f.bad, e.bad), cmp.Compare(e.sent, f.sent),
		cmp.Compare(slices.Index(order, e.kind), slices.Index(order, f.kind)),
		cmp.Compare(e.a.Leaf+e.a.Node, f.a.Leaf+f.a.Node), cmp.Compare(e.a.Number, f.a.Number),
		cmp.Compare(e.b, f.b)) < 0
}

// even reports whether no more pairs are without a bad message than chance allows, if the ratio is the same for all.
func (e *evidence) even() bool {
	p := ratio(e.bad, e.sent)
	var clean, expected, variance float64
	for _, pair := range e.pairs {
		if pair.Bad == 0 {
			clean++
		}
		q := math.Pow(1-p, float64(pair.Sent))
		expected, variance = expected+q, variance+q*(1-q)
	}
	return clean <= expected+sure*math.Sqrt(variance)+0.5
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
