// SPDX-License-Identifier: Apache-2.0

// Package search decides which nodes measure with which, and what follows from the results. It has pure functions over
// plain data: the same seed and samples give the same pairs and verdicts.
//
// First disjoint pairs cover all nodes, those below one leaf first. A node of a slow pair is a suspect: it measures
// with two healthy partners. Slow with both, the node or its rail is slow. Good with both, the pair measures twice
// more: if it is slow each time, it is the path between them. All pairs of a round measure at the same time, so the
// time that a search takes does not grow with the number of nodes.
//
// A sample is compared with the median of the run, and with what the nodes reached before. Nothing is said of a node
// that two healthy partners did not confirm: it is unknown.
package search

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// All is the rail of a measurement with all GPUs of two nodes.
const All = -1

// Node is one of the nodes of a run.
type Node struct {
	Name string
	Leaf string // the switch that it is below; empty: unknown
	// Past is what it reached before, by rail.
	Past map[int]Past
}

// Past is what a node reached in earlier runs.
type Past struct {
	Median float64 // bytes per second
	MAD    float64
	Runs   int
}

// Pair are two nodes by their index, A before B.
type Pair struct{ A, B int }

func pairOf(a, b int) Pair { return Pair{min(a, b), max(a, b)} }

func (p Pair) other(node int) int { return p.A + p.B - node }

// Task is a pair that is to measure over these rails. No two tasks of a round have a node in common.
type Task struct {
	Round int // from 1 on
	Pair
	Rails []int
}

// Sample is what came of a Task for one of its rails.
type Sample struct {
	Round int
	Pair
	Rail  int
	BusBW float64 // bytes per second; 0 where nothing was measured
	// Failure is why nothing was measured that counts; empty: BusBW was.
	Failure string
	// Culprit is the node where the failure is; -1: either of them.
	Culprit int
	// Unknown says that nothing was learned: the GPUs were taken, or the run ended.
	Unknown bool
}

// Search is the nodes of a run, and the rails that each of them has.
type Search struct {
	Nodes []Node
	Rails []int
	Seed  uint64
}

// RoundsMost bounds a search whose samples contradict each other.
const RoundsMost = 8

// How many healthy partners a suspect measures with, and how many partners a node has at most.
const (
	partnersWanted = 2
	partnersMost   = 4
	pathTimes      = 3 // that a pair is slow before it is the path: others may use the fabric now and then
)

// Next returns the tasks of the next round; none: the search is over.
func (s *Search) Next(done []Sample) []Task {
	if len(s.Nodes) < 2 || len(s.Rails) == 0 {
		return nil
	}
	if len(done) == 0 {
		return s.first()
	}
	v := s.view(done)
	r := round{view: v, busy: map[int]bool{}, number: 1 + slices.MaxFunc(done, func(a, b Sample) int {
		return cmp.Compare(a.Round, b.Round)
	}).Round}
	if r.number > RoundsMost {
		return nil
	}
	for node := range s.Nodes {
		if rails := v.open(node); len(rails) > 0 {
			r.partner(node, rails)
		}
	}
	if len(r.tasks) == 0 {
		r.again()
	}
	return r.tasks
}

// first pairs nodes below the same leaf, and then those that are left.
func (s *Search) first() []Task {
	order := s.order(0)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Nodes[a].Leaf, s.Nodes[b].Leaf) })
	var tasks []Task
	var left []int
	pair := func(a, b int) { tasks = append(tasks, Task{1, pairOf(a, b), s.Rails}) }
	for i := 0; i < len(order); i++ {
		if i+1 < len(order) && s.Nodes[order[i]].Leaf == s.Nodes[order[i+1]].Leaf {
			pair(order[i], order[i+1])
			i++
			continue
		}
		left = append(left, order[i])
	}
	for i := 0; i+1 < len(left); i += 2 {
		pair(left[i], left[i+1])
	}
	return tasks
}

// order is that in which nodes are considered in a round.
func (s *Search) order(round int) []int {
	return rand.New(rand.NewPCG(s.Seed, uint64(round))).Perm(len(s.Nodes))
}

// round is one that is being made.
type round struct {
	*view
	number int
	busy   map[int]bool
	order  []int
	tasks  []Task
}

// partner has a node measure with one that is healthy over these rails, which is not of a pair with it or with another
// partner if there is a choice. While nobody is known to be healthy, another one may show who is.
func (r *round) partner(node int, rails []int) {
	if r.busy[node] {
		return
	}
	if r.order == nil {
		r.order = r.search.order(r.number)
	}
	best, bestRank, someHealthy := -1, 0, r.anyHealthy(rails)
	for i, candidate := range r.order {
		if candidate == node || r.busy[candidate] || r.met(node, candidate) || r.blamed(candidate, rails) {
			continue
		}
		rank := len(r.order) - i
		if r.healthy(candidate, rails) {
			rank += 4 * len(r.order)
		} else if someHealthy {
			continue
		}
		if r.ofOtherPair(node, candidate) {
			rank += 2 * len(r.order)
		}
		if leaf := r.search.Nodes[node].Leaf; leaf != "" && r.search.Nodes[candidate].Leaf == leaf {
			rank += len(r.order)
		}
		if best < 0 || rank > bestRank {
			best, bestRank = candidate, rank
		}
	}
	if best >= 0 {
		r.add(pairOf(node, best), rails)
	}
}

// ofOtherPair reports whether no node that this one met has met the candidate.
func (r *round) ofOtherPair(node, candidate int) bool {
	return !slices.ContainsFunc(r.partners[node], func(p int) bool { return r.met(p, candidate) })
}

// again has pairs measure again that were slow each time although both nodes are good with others.
func (r *round) again() {
	for _, p := range r.unexplained() {
		rails := slices.DeleteFunc(p.rails, func(rail int) bool {
			list := r.ofPair(p.Pair, rail)
			return len(list) >= pathTimes || slices.ContainsFunc(list, func(i int) bool { return r.samples[i].grade == good })
		})
		if len(rails) > 0 && !r.busy[p.A] && !r.busy[p.B] {
			r.add(p.Pair, rails)
		}
	}
}

func (r *round) add(p Pair, rails []int) {
	r.busy[p.A], r.busy[p.B] = true, true
	r.tasks = append(r.tasks, Task{r.number, p, rails})
}
