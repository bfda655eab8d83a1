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
	of         map[spot][]int // samples of a rail of a node
	met        map[Pair]bool
	partners   map[int][]int
	goods      map[spot]int
}

func (s *Search) view(done []Sample) *view {
	v := &view{
		search: s, references: s.references(done), of: map[spot][]int{}, met: map[Pair]bool{},
		partners: map[int][]int{}, goods: map[spot]int{},
	}
	for i, d := range done {
		g := v.grade(d)
		v.samples = append(v.samples, g)
		for _, node := range []int{d.A, d.B} {
			at := spot{node, d.Rail}
			v.of[at] = append(v.of[at], i)
			if g.grade == good {
				v.goods[at]++
			}
			if other := d.other(node); !v.met[d.Pair] {
				v.partners[node] = append(v.partners[node], other)
			}
		}
		v.met[d.Pair] = true
	}
	return v
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

// against reports whether a sample may speak against a node.
func (g *graded) against(node int) bool {
	return (g.grade == slow || g.grade == failed) && (g.grade != failed || g.Culprit < 0 || g.Culprit == node)
}

// healthy reports whether a node is good on each of these rails with someone, and none of its samples spoke against it
// first.
func (v *view) healthy(node int, rails []int) bool {
	return !slices.ContainsFunc(rails, func(rail int) bool {
		at := spot{node, rail}
		return v.goods[at] == 0 || v.suspect(at)
	})
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
	return slices.ContainsFunc(rails, func(rail int) bool { return v.accused(spot{node, rail}) })
}

// suspect reports whether the first sample that says anything of a spot speaks against it.
func (v *view) suspect(at spot) bool {
	for _, i := range v.of[at] {
		if g := &v.samples[i]; g.grade == good || g.against(at.node) {
			return g.grade != good
		}
	}
	return false
}

// silent reports whether no sample says anything of a spot.
func (v *view) silent(at spot) bool {
	return !slices.ContainsFunc(v.of[at], func(i int) bool {
		return v.samples[i].grade == good || v.samples[i].against(at.node)
	})
}

// confirmed counts the healthy partners that a suspect met, and how many of them speak against it.
func (v *view) confirmed(at spot) (against, total int) {
	for _, i := range v.of[at] {
		g := &v.samples[i]
		partner := spot{g.other(at.node), at.rail}
		if g.grade == unknown || v.suspect(partner) || !v.goodBeside(g, partner) {
			continue
		}
		if total++; g.against(at.node) {
			against++
		}
	}
	return against, total
}

// goodBeside reports whether a spot is good with another one than in that sample.
func (v *view) goodBeside(g *graded, at spot) bool {
	return slices.ContainsFunc(v.of[at], func(i int) bool {
		return v.samples[i].grade == good && v.samples[i].Pair != g.Pair
	})
}

// open are the rails of a node of which too little is known.
func (v *view) open(node int) []int {
	if len(v.partners[node]) >= partnersMost {
		return nil
	}
	var rails []int
	for _, rail := range v.search.Rails {
		at := spot{node, rail}
		if _, total := v.confirmed(at); v.silent(at) || v.suspect(at) && total < partnersWanted {
			rails = append(rails, rail)
		}
	}
	return rails
}

// accused reports whether a spot is slow, or fails, with everyone, among them enough healthy partners.
func (v *view) accused(at spot) bool {
	against, total := v.confirmed(at)
	return v.suspect(at) && v.goods[at] == 0 && against >= partnersWanted && against == total
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
		if g.grade != slow && g.grade != failed || v.goods[spot{g.A, g.Rail}] == 0 || v.goods[spot{g.B, g.Rail}] == 0 {
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
func (v *view) ofPair(p Pair, rail int) []*graded {
	var list []*graded
	for _, i := range v.of[spot{p.A, rail}] {
		if v.samples[i].Pair == p {
			list = append(list, &v.samples[i])
		}
	}
	return list
}
