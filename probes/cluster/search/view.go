// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"slices"
)

// When a sample is slow, beyond what is noise, and when what is slow is bad. A node whose loss is bad within the noise
// is bad: one that is 5 % slow would be found half of the time only.
const (
	slowLoss   = 0.02
	badLoss    = 0.05
	leastNoise = 0.005
	brokenLoss = 0.5
	sigma      = 1.4826 // of the MAD
	pastLeast  = 5      // runs
	railLeast  = 5      // samples; below them all rails are compared with one value
)

// grade is what a sample says of its pair.
type grade int

const (
	unknown grade = iota
	good
	slow
	failed
)

// reference is what samples of a rail are compared with.
type reference struct {
	median, noise float64 // noise is relative
	// past is the median of what pairs reach of their past: what all lose is of no node
	past, pastNoise float64
}

// spot is a rail of a node.
type spot struct{ node, rail int }

// standing is what all samples of a spot say together.
type standing struct {
	samples []int // by number
	goods   int
	silent  bool // none of them says anything
	suspect bool // the first sample that says anything is bad
	// healthy partners that it met, and how many of these samples are bad
	total, against int
}

// healthy reports whether a spot is good with someone, and nothing spoke against it first.
func (s *standing) healthy() bool { return s.goods > 0 && !s.suspect }

// accused reports whether a spot is slow, or fails, with everyone, among them enough healthy partners.
func (s *standing) accused() bool {
	return s.suspect && s.goods == 0 && s.against >= partnersWanted && s.against == s.total
}

// graded is a sample, and what it says.
type graded struct {
	Sample
	grade grade
	loss  float64
	noise float64
}

// view is what all samples say together.
type view struct {
	search     *Search
	references map[int]reference
	samples    []graded
	column     []int // of a rail among those of the search, by its number + 1: All is -1
	spots      []standing
	partners   [][]int // of each node
}

// at is the standing of a spot.
func (v *view) at(node, rail int) *standing {
	return &v.spots[node*len(v.search.Rails)+v.column[rail+1]]
}

// met reports whether two nodes measured together.
func (v *view) met(a, b int) bool { return slices.Contains(v.partners[a], b) }

func (s *Search) view(done []Sample) *view {
	v := &view{
		search: s, references: s.references(done), samples: make([]graded, len(done)),
		column: make([]int, slices.Max(s.Rails)+2), spots: make([]standing, len(s.Nodes)*len(s.Rails)),
		partners: make([][]int, len(s.Nodes)),
	}
	for i, rail := range s.Rails {
		v.column[rail+1] = i
	}
	room := make([]int, 0, 2*len(done)) // of all lists of samples
	for i, d := range done {
		v.samples[i] = v.grade(d)
		for _, node := range []int{d.A, d.B} {
			at := v.at(node, d.Rail)
			if at.samples == nil && cap(room) > len(room) { // most have one
				room = append(room, i)
				at.samples = room[len(room)-1 : len(room) : len(room)]
			} else {
				at.samples = append(at.samples, i)
			}
			if other := d.other(node); !v.met(node, other) {
				v.partners[node] = append(v.partners[node], other)
			}
		}
	}
	v.stand()
	return v
}

// stand makes up what samples say of spots: first who is a suspect, and then what partners that are none say.
func (v *view) stand() {
	for node := range v.search.Nodes {
		for _, rail := range v.search.Rails {
			at := v.at(node, rail)
			at.silent = true
			for _, i := range at.samples {
				g := &v.samples[i]
				if at.silent && (g.grade == good || g.against(node)) {
					at.silent, at.suspect = false, g.grade != good
				}
				if g.grade == good {
					at.goods++
				}
			}
		}
	}
	for node := range v.search.Nodes {
		for _, rail := range v.search.Rails {
			at := v.at(node, rail)
			for _, i := range at.samples {
				g := &v.samples[i]
				partner := v.at(g.other(node), rail)
				if g.grade == unknown || partner.suspect || !v.goodBeside(g, partner) {
					continue
				}
				if at.total++; g.against(node) {
					at.against++
				}
			}
		}
	}
}

// goodBeside reports whether a spot is good with another one than in that sample.
func (v *view) goodBeside(g *graded, at *standing) bool {
	return slices.ContainsFunc(at.samples, func(i int) bool {
		return v.samples[i].grade == good && v.samples[i].Pair != g.Pair
	})
}

// expected is what a pair reached before; 0: not known.
func (s *Search) expected(d Sample) (median, noise float64) {
	a, b := s.Nodes[d.A].Past[d.Rail], s.Nodes[d.B].Past[d.Rail]
	if a.Runs < pastLeast || b.Runs < pastLeast || !(a.Median > 0) || !(b.Median > 0) {
		return 0, 0
	}
	return min(a.Median, b.Median), sigma * max(a.MAD/a.Median, b.MAD/b.Median)
}

// references are those of all rails, by the first round: later ones have the suspects. Where that has few samples, the
// best of all rounds counts.
func (s *Search) references(done []Sample) map[int]reference {
	all := map[int]reference{}
	values, pasts, every := map[int][]float64{}, map[int][]float64{}, map[int][]float64{}
	var pooled, everyPooled []float64
	for _, d := range done {
		if d.Failure != "" || d.Unknown || !(d.BusBW > 0) {
			continue
		}
		every[d.Rail] = append(every[d.Rail], d.BusBW)
		if d.Rail != All {
			everyPooled = append(everyPooled, d.BusBW)
		}
		if d.Round != 1 {
			continue
		}
		values[d.Rail] = append(values[d.Rail], d.BusBW)
		if d.Rail != All {
			pooled = append(pooled, d.BusBW)
		}
		if before, _ := s.expected(d); before > 0 {
			pasts[d.Rail] = append(pasts[d.Rail], d.BusBW/before)
		}
	}
	for _, rail := range s.Rails {
		list, best := values[rail], every[rail]
		if rail != All && len(list) < railLeast {
			list, best = pooled, everyPooled
		}
		r := reference{past: 1, pastNoise: leastNoise}
		if r.median, r.noise = centre(list); len(list) < railLeast {
			r.median = largest(best)
		}
		if len(pasts[rail]) >= railLeast {
			r.past, r.pastNoise = centre(pasts[rail])
		}
		all[rail] = r
	}
	return all
}

// centre is what the values of a list are compared with, and their relative noise.
func centre(list []float64) (median, noise float64) {
	if len(list) < railLeast {
		return 0, leastNoise
	}
	median, mad := MedianAndMAD(list)
	return median, max(leastNoise, sigma*mad/median)
}

// largest is what few values are compared with: half of them may be slow. With one there is nothing to compare: 0.
func largest(list []float64) float64 {
	if len(list) < 2 {
		return 0
	}
	return slices.Max(list)
}

// grade compares a sample with the run and with the past of its nodes, and takes the worse.
func (v *view) grade(d Sample) graded {
	g := graded{Sample: d, noise: leastNoise}
	r := v.references[d.Rail]
	switch {
	case d.Unknown:
		return g
	case d.Failure != "" || !(d.BusBW > 0):
		g.grade, g.loss = failed, 1
		return g
	}
	compared := r.median > 0
	if compared {
		g.loss, g.noise = 1-d.BusBW/r.median, r.noise
	}
	if before, noise := v.search.expected(d); before > 0 {
		noise = max(noise, r.pastNoise)
		if loss := 1 - d.BusBW/before/r.past; !compared || loss-noise > g.loss-g.noise {
			g.loss, g.noise = loss, noise
		}
		compared = true
	}
	switch {
	case !compared:
	case g.loss > brokenLoss:
		g.grade, g.Failure = failed, FailureHalf
	case g.loss >= slowLoss+g.noise:
		g.grade = slow
	default:
		g.grade = good
	}
	return g
}

// FailureHalf is the failure of a pair that reaches less than half of what others do.
const FailureHalf = "below half"

// MedianAndMAD returns the median and the median absolute deviation; 0 of nothing.
func MedianAndMAD(list []float64) (median, mad float64) {
	if len(list) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(list))
	median = middle(sorted)
	for i, x := range sorted {
		sorted[i] = math.Abs(x - median)
	}
	slices.Sort(sorted)
	return median, middle(sorted)
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// against reports whether a sample may count against a node.
func (g *graded) against(node int) bool {
	return (g.grade == slow || g.grade == failed) && (g.grade != failed || g.Culprit < 0 || g.Culprit == node)
}

// healthy reports whether a node is, on each of these rails.
func (v *view) healthy(node int, rails []int) bool {
	return !slices.ContainsFunc(rails, func(rail int) bool { return !v.at(node, rail).healthy() })
}

// anyHealthy reports whether there is such a node.
func (v *view) anyHealthy(rails []int) bool {
	for node := range v.search.Nodes {
		if v.healthy(node, rails) {
			return true
		}
	}
	return false
}

// blamed reports whether a node is accused on one of these rails.
func (v *view) blamed(node int, rails []int) bool {
	return slices.ContainsFunc(rails, func(rail int) bool { return v.at(node, rail).accused() })
}

// open are the rails of a node of which too little is known.
func (v *view) open(node int) []int {
	if len(v.partners[node]) >= partnersMost {
		return nil
	}
	var rails []int
	for _, rail := range v.search.Rails {
		if at := v.at(node, rail); at.silent || at.suspect && at.total < partnersWanted {
			rails = append(rails, rail)
		}
	}
	return rails
}

// crossed is a pair that is slow over rails on which both nodes are good with others.
type crossed struct {
	Pair
	rails []int
}

func (v *view) unexplained() []crossed {
	var list []crossed
	for i := range v.samples {
		g := &v.samples[i]
		if g.grade != slow && g.grade != failed || v.at(g.A, g.Rail).goods == 0 || v.at(g.B, g.Rail).goods == 0 {
			continue
		}
		at := slices.IndexFunc(list, func(c crossed) bool { return c.Pair == g.Pair })
		if at < 0 {
			at = len(list)
			list = append(list, crossed{Pair: g.Pair})
		}
		if !slices.Contains(list[at].rails, g.Rail) {
			list[at].rails = append(list[at].rails, g.Rail)
		}
	}
	return list
}

// ofPair are the samples of a pair over a rail.
func (v *view) ofPair(p Pair, rail int) []int {
	return slices.DeleteFunc(slices.Clone(v.at(p.A, rail).samples), func(i int) bool { return v.samples[i].Pair != p })
}
