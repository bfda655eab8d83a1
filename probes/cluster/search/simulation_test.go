// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
)

// fabric is nodes whose true speed is known: what a pair reaches is that of the slower node, with noise, and now and then
// less because others use the fabric.
type fabric struct {
	Search
	random *rand.Rand
	factor []float64
	// What is planted: of a node, a rail of it, and a path.
	node map[int]float64
	rail map[spot]float64
	path map[Pair]float64
	dead map[int]string // failure of a node
	gone map[int]bool   // where it is not known which node fails
}

const (
	lineRate  = 48e9
	nodeNoise = 0.003 // of nodes
	noise     = 0.004 // of measurements
	crowded   = 0.005 // how many of them meet traffic of others
	crowding  = 0.15  // which takes up to that
)

func newFabric(seed uint64, nodes, rails int) *fabric {
	f := &fabric{
		Search: Search{Seed: seed, Rails: []int{All}}, random: rand.New(rand.NewPCG(seed, 1)),
		node: map[int]float64{}, rail: map[spot]float64{}, path: map[Pair]float64{}, dead: map[int]string{}, gone: map[int]bool{},
	}
	for i := range nodes {
		f.Nodes = append(f.Nodes, Node{Name: fmt.Sprint("n", i), Leaf: fmt.Sprint("leaf", i/32)})
		f.factor = append(f.factor, 1+nodeNoise*f.random.NormFloat64())
	}
	if rails > 0 {
		f.Rails = nil
		for i := range rails {
			f.Rails = append(f.Rails, i)
		}
	}
	return f
}

// measure is what a pair reaches over a rail.
func (f *fabric) measure(task Task, rail int) Sample {
	s := Sample{Round: task.Round, Pair: task.Pair, Rail: rail, Culprit: -1}
	speed := lineRate
	for _, node := range []int{task.A, task.B} {
		if why := f.dead[node]; why != "" {
			s.Failure, s.Culprit = why, node
			if f.gone[node] {
				s.Culprit = -1
			}
			return s
		}
		speed = min(speed, lineRate*f.factor[node]*(1-f.node[node])*(1-f.rail[spot{node, rail}]))
	}
	speed *= (1 - f.path[task.Pair]) * (1 + noise*f.random.NormFloat64())
	if f.random.Float64() < crowded {
		speed *= 1 - crowding*f.random.Float64()
	}
	s.BusBW = speed
	return s
}

// run searches to the end, and counts the rounds and the measurements of the busiest node.
func (f *fabric) run(t *testing.T) (all []Verdict, rounds, most int) {
	t.Helper()
	var done []Sample
	count := map[int]int{}
	for tasks := f.Next(nil); len(tasks) > 0; tasks = f.Next(done) {
		busy := map[int]bool{}
		for _, task := range tasks {
			if busy[task.A] || busy[task.B] || task.A >= task.B || len(task.Rails) == 0 {
				t.Fatalf("round %d has a node twice, or a task without rails: %+v", task.Round, task)
			}
			busy[task.A], busy[task.B] = true, true
			count[task.A]++
			count[task.B]++
			rounds = task.Round
			for _, rail := range task.Rails {
				done = append(done, f.measure(task, rail))
			}
		}
	}
	for _, n := range count {
		most = max(most, n)
	}
	return f.Judge(done), rounds, most
}

// planted is a kind of fault, and what must be found of it.
type planted struct {
	name  string
	rails int
	plant func(f *fabric, node int)
	found func(v Verdict, f *fabric, node int) bool
}

func faults() []planted {
	is := func(subject Subject, levels ...Level) func(Verdict, *fabric, int) bool {
		return func(v Verdict, _ *fabric, node int) bool {
			return v.Node == node && v.Subject == subject && slices.Contains(levels, v.Level)
		}
	}
	return []planted{
		{"node 5 % slow, all GPUs", 0, func(f *fabric, n int) { f.node[n] = 0.05 }, is(OfNode, Slow, Bad)},
		{"node 5 % slow, 8 rails", 8, func(f *fabric, n int) { f.node[n] = 0.05 }, is(OfNode, Slow, Bad)},
		{"node 8 % slow, all GPUs", 0, func(f *fabric, n int) { f.node[n] = 0.08 }, is(OfNode, Bad)},
		{"rail 10 % slow", 8, func(f *fabric, n int) { f.rail[spot{n, 3}] = 0.1 }, func(v Verdict, _ *fabric, n int) bool {
			return v.Node == n && v.Subject == OfRail && v.Rail == 3 && v.Level == Bad
		}},
		{"node at a third", 8, func(f *fabric, n int) { f.node[n] = 0.7 }, is(OfNode, Failed)},
		{"node fails", 8, func(f *fabric, n int) { f.dead[n] = "crash" }, is(OfNode, Failed)},
		{"pairs of a node hang", 8, func(f *fabric, n int) { f.dead[n], f.gone[n] = "hang", true }, is(OfNode, Failed)},
		{"path 20 % slow", 8, func(f *fabric, n int) {
			for _, task := range f.Next(nil) {
				if task.A == n || task.B == n {
					f.path[task.Pair] = 0.2
				}
			}
		}, func(v Verdict, _ *fabric, n int) bool {
			return v.Subject == OfPath && (v.Node == n || v.Partner == n) && v.Level == Bad
		}},
	}
}

// result is what came of many runs with one size and fault.
type result struct {
	runs, found, wrong, unknown, rounds, most int
}

func simulate(t *testing.T, p planted, nodes, runs int) (r result) {
	t.Helper()
	for seed := range runs {
		f := newFabric(uint64(seed), nodes, p.rails)
		bad := f.random.IntN(nodes)
		p.plant(f, bad)
		verdicts, rounds, most := f.run(t)
		r.runs, r.rounds, r.most = r.runs+1, max(r.rounds, rounds), max(r.most, most)
		if slices.ContainsFunc(verdicts, func(v Verdict) bool { return p.found(v, f, bad) }) {
			r.found++
		}
		for _, v := range verdicts {
			switch {
			case v.Level == Unknown:
				r.unknown++
			case v.Node != bad && v.Partner != bad:
				r.wrong++
			}
		}
	}
	return r
}

// scale is how many runs a size has: a few in all tests, all with FULL.
func scale(nodes int) int {
	if os.Getenv("FULL") == "" {
		return max(1, min(20, 512/nodes))
	}
	return max(20, min(1000, 1024*40/nodes))
}

// In healthy runs nobody is bad. A planted fault is named in at least 95 % of the runs, and hardly anyone else.
func TestSimulation(t *testing.T) {
	table := tabwriter.NewWriter(t.Output(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "planted\tnodes\truns\tfound\twrong\tunknown\trounds\tmeasurements of a node")
	sizes := []int{16, 64, 256}
	if os.Getenv("FULL") != "" {
		sizes = append(sizes, 1024, 4096)
	}
	for _, nodes := range sizes {
		for _, p := range faults() {
			r := simulate(t, p, nodes, scale(nodes))
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.name, nodes, r.runs, r.found, r.wrong, r.unknown, r.rounds, r.most)
			if r.found < (r.runs*95+99)/100 || r.wrong > r.runs/100 || r.rounds > RoundsMost {
				t.Errorf("%s, %d nodes: found in %d of %d runs, %d wrong, %d rounds", p.name, nodes, r.found, r.runs, r.wrong, r.rounds)
			}
		}
	}
	table.Flush()
}

// TestHealthy has 1,000 runs with FULL.
func TestHealthy(t *testing.T) {
	sizes, runs := []int{2, 3, 4, 5, 7, 16, 64, 256}, 10
	if os.Getenv("FULL") != "" {
		sizes, runs = append(sizes, 1024, 4096), 100
	}
	for _, rails := range []int{0, 8} {
		all, slow, unknown := 0, 0, 0
		for _, nodes := range sizes {
			for seed := range runs {
				verdicts, _, _ := newFabric(uint64(1000+seed), nodes, rails).run(t)
				all++
				for _, v := range verdicts {
					switch {
					case v.Level == Bad || v.Level == Failed:
						t.Errorf("%d nodes, seed %d: %+v", nodes, seed, v)
					case v.Level == Slow:
						slow++
					case nodes > 3:
						unknown++
					}
				}
			}
		}
		t.Logf("%d runs, %d rails: %d slow, %d unknown", all, rails, slow, unknown)
		if slow > all/20 || unknown > all/20 {
			t.Errorf("%d of %d healthy runs call something slow, %d unknown", slow, all, unknown)
		}
	}
}
