// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"fmt"
	"slices"
)

// Subject is what a Verdict is about.
type Subject string

// Subjects.
const (
	OfNode Subject = "node" // most of its rails, or all its GPUs together
	OfRail Subject = "rail" // of a node
	OfPath Subject = "path" // between two nodes, each of which is good with others
	OfRun  Subject = "run"  // all nodes
)

// Level is how bad it is.
type Level string

// Levels.
const (
	Slow    Level = "slow"    // 2 % beyond noise
	Bad     Level = "bad"     // 5 %
	Failed  Level = "failed"  // not even half, or nothing at all
	Unknown Level = "unknown" // too little could be measured
)

// Verdict is what the search found of one subject. Of what is healthy there is none.
type Verdict struct {
	Subject Subject
	Level   Level
	Node    int // -1: of OfRun
	Partner int // of OfPath; else -1
	Rail    int // of OfRail and OfPath, or All
	Loss    float64
	Failure string // of Failed
	Why     string
}

// Explains reports whether a verdict on all GPUs together only shows what this one says of the same nodes: that they
// are as bad over most rails, or of a rail, which all together use, too.
func (d Verdict) Explains(v Verdict) bool {
	switch {
	case v.Rail != All || d.Node != v.Node || d.Partner != v.Partner:
		return false
	case v.Level == Unknown:
		return true
	case d.Level == Unknown:
		return false
	case d.Rail == All && worse(d.Level) >= worse(v.Level):
		return true
	case v.Level == Failed:
		return d.Level == Failed && d.Failure == v.Failure
	}
	return d.Loss+slowLoss >= v.Loss
}

// worse orders levels.
func worse(l Level) int { return slices.Index([]Level{Unknown, Slow, Bad, Failed}, l) }

// Judge says what the samples of a search mean.
func (s *Search) Judge(done []Sample) []Verdict {
	if len(done) == 0 {
		return nil
	}
	v := s.view(done)
	var all []Verdict
	for node := range s.Nodes {
		all = append(all, v.judge(node)...)
	}
	all = append(all, v.paths()...)
	for _, rail := range s.Rails {
		if r := v.references[rail]; 1-r.past >= slowLoss+r.pastNoise {
			all = append(all, Verdict{
				Subject: OfRun, Level: Slow, Node: -1, Partner: -1, Rail: rail, Loss: 1 - r.past,
				Why: "half of all pairs lost that of what they reached before",
			})
		}
	}
	return all
}

// judge says what is wrong with a node: of most of its rails, it is the node.
func (v *view) judge(node int) []Verdict {
	var accused, open []Verdict
	for _, rail := range v.search.Rails {
		switch at := v.at(node, rail); {
		case at.accused():
			accused = append(accused, v.blame(node, rail))
		case at.silent:
			open = append(open, unclear(node, rail, "nothing could be measured that can be compared"))
		case at.suspect && at.goods == 0:
			open = append(open, unclear(node, rail, fmt.Sprintf("it is slow with all that it met, and %d of %d healthy nodes confirm it",
				at.against, partnersWanted)))
		}
	}
	return append(merge(accused, len(v.search.Rails)), merge(open, len(v.search.Rails))...)
}

func unclear(node, rail int, why string) Verdict {
	return Verdict{Subject: OfRail, Level: Unknown, Node: node, Partner: -1, Rail: rail, Why: why}
}

// merge makes one verdict on a node, or a path, of those on most of its rails.
func merge(rails []Verdict, of int) []Verdict {
	if len(rails) == 0 || len(rails)*2 <= of {
		return rails
	}
	worst := slices.MaxFunc(rails, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(worse(a.Level), worse(b.Level)), cmp.Compare(a.Loss, b.Loss))
	})
	if worst.Subject == OfRail {
		worst.Subject = OfNode
	}
	if worst.Rail != All {
		worst.Why += fmt.Sprintf("; so are %d of %d rails", len(rails), of)
	}
	worst.Rail = All
	return []Verdict{worst}
}

// blame is the verdict on an accused spot, by the median of the samples that show it bad.
func (v *view) blame(node, rail int) Verdict {
	at := v.at(node, rail)
	d := Verdict{Subject: OfRail, Node: node, Partner: -1, Rail: rail}
	d.Level, d.Loss, d.Failure = v.weigh(at.samples, node)
	d.Why = fmt.Sprintf("confirmed by %d nodes that are healthy with others", at.against)
	return d
}

// weigh is how bad the samples of a node are; -1: of a path.
func (v *view) weigh(list []int, node int) (Level, float64, string) {
	var losses []float64
	var failures []string
	noise := leastNoise
	for _, i := range list {
		g := &v.samples[i]
		if node >= 0 && !g.against(node) || g.grade == unknown || g.grade == good {
			continue
		}
		losses, noise = append(losses, g.loss), max(noise, g.noise)
		if g.grade == failed {
			failures = append(failures, g.Failure)
		}
	}
	loss, _ := MedianAndMAD(losses)
	switch {
	case 2*len(failures) > len(losses):
		return Failed, loss, failures[0]
	case loss >= badLoss-noise:
		return Bad, loss, ""
	}
	return Slow, loss, ""
}

// paths are the pairs that are slow each time, although both nodes are good with others. A node with several of them
// is unknown: it may come and go.
func (v *view) paths() []Verdict {
	var pairs [][]Verdict
	count := map[spot]int{}
	for _, p := range v.unexplained() {
		var slowed []Verdict
		for _, rail := range p.rails {
			list := v.ofPair(p.Pair, rail)
			if len(list) < pathTimes || slices.ContainsFunc(list, func(i int) bool { return v.samples[i].grade < slow }) {
				continue
			}
			d := Verdict{Subject: OfPath, Node: p.A, Partner: p.B, Rail: rail, Why: "slow each time, and both nodes are good with others"}
			d.Level, d.Loss, d.Failure = v.weigh(list, -1)
			slowed = append(slowed, d)
			count[spot{p.A, rail}]++
			count[spot{p.B, rail}]++
		}
		pairs = append(pairs, slowed)
	}
	var all []Verdict
	for _, slowed := range pairs {
		var clear []Verdict
		for _, d := range slowed {
			node := d.Node
			if count[spot{node, d.Rail}] < 2 {
				node = d.Partner
			}
			if count[spot{node, d.Rail}] < 2 {
				clear = append(clear, d)
				continue
			}
			all = append(all, unclear(node, d.Rail, "it is slow with some nodes and good with others"))
		}
		all = append(all, merge(clear, len(v.search.Rails))...)
	}
	return slices.CompactFunc(all, func(a, b Verdict) bool { return a == b })
}
