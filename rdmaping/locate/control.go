// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"slices"
)

// end is a rail of a node, wherever it is connected to.
type end struct {
	node   string
	number int
}

func (r Rail) end() end { return end{r.Node, r.Number} }

// count is messages.
type count struct{ sent, bad int }

// loopback is what rails saw of themselves.
func loopback(window []Pair) map[end]count {
	loops := map[end]count{}
	for _, p := range window {
		if p.From.Node == p.To.Node {
			c := loops[p.From.end()]
			loops[p.From.end()] = count{c.sent + p.Sent, c.bad + p.Bad}
		}
	}
	return loops
}

// judgeHosts returns the rails of which the loopback is bad, and the pairs that no such rail has a part in. A rail
// whose loopback loses less than a host at fault does, but more than the ratio least, is left out without a word.
func judgeHosts(window []Pair, loops map[end]count, least float64) (faults []Verdict, rest []Pair) {
	noisy := map[end]bool{}
	for e, c := range loops {
		r := ratio(c.bad, c.sent)
		noisy[e] = c.bad >= 2 && r >= min(least, badLoopback)
		if c.bad >= 2 && r >= badLoopback {
			faults = append(faults, Verdict{Kind: Host, Node: e.node, Rail: e.number, Ratio: r, Observed: 1})
		}
	}
	slices.SortFunc(faults, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Rail, b.Rail))
	})
	for _, p := range window {
		if p.From.Node != p.To.Node && !noisy[p.From.end()] && !noisy[p.To.end()] && p.Sent > 0 {
			rest = append(rest, p)
		}
	}
	return faults, rest
}

// controlled reports whether loopback would have shown that the host of an accused rail or node loses the messages. A
// node that says nothing has none.
func (e *evidence) controlled(loops map[end]count) bool {
	if e.kind != OwnRail && e.kind != Node {
		return true
	}
	var loop count
	for i, c := range loops {
		if i.node == e.a.Node && (e.kind == Node || i.number == e.a.Number) {
			loop = count{loop.sent + c.sent, loop.bad + c.bad}
		}
	}
	return loop.sent == 0 || loop.bad <= 1 && ratio(e.bad, e.sent)*float64(loop.sent) >= control
}

// quiet is the ratio of bad messages that the quietest tenth of the paths between leaves do not exceed.
func quiet(pairs []Pair) float64 {
	paths := map[[2]string]count{}
	for _, p := range pairs {
		if p.From.Leaf == "" || p.To.Leaf == "" || p.From.Leaf == p.To.Leaf {
			continue
		}
		between := [2]string{min(p.From.Leaf, p.To.Leaf), max(p.From.Leaf, p.To.Leaf)}
		c := paths[between]
		paths[between] = count{c.sent + p.Sent, c.bad + p.Bad}
	}
	if len(paths) < 2 { // there is nothing to compare with
		return 0
	}
	ratios := make([]float64, 0, len(paths))
	for _, c := range paths {
		ratios = append(ratios, ratio(c.bad, c.sent))
	}
	slices.Sort(ratios)
	return ratios[int(quietest*float64(len(ratios)))]
}

// standsOut reports whether a leaf or a path is well above what the fleet shows.
func (e *evidence) standsOut(quiet float64) bool {
	return e.kind != Leaf && e.kind != Path || ratio(e.bad, e.sent) > above*quiet
}

// together tells many paths as one, and many leaves: spines, or links of them.
func together(verdicts []Verdict) []Verdict {
	var one Verdict
	var of []Kind
	for _, k := range []Kind{Path, Leaf} {
		n := 0
		for _, v := range verdicts {
			if v.Kind == k {
				n++
			}
		}
		if n >= many {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		return verdicts
	}
	var out []Verdict
	for _, v := range verdicts {
		switch {
		case slices.Contains(of, v.Kind):
			one.Between = append(one.Between, v.Leaves)
			fallthrough
		case v.Kind == Fabric:
			one.Ratio, one.Pairs = max(one.Ratio, v.Ratio), one.Pairs+v.Pairs
			one.Observed = max(one.Observed, v.Observed)
		default:
			out = append(out, v)
		}
	}
	one.Kind = Fabric
	return append(out, one)
}
