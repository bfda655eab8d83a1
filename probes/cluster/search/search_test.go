// SPDX-License-Identifier: Apache-2.0

package search

import (
	"reflect"
	"slices"
	"testing"
)

// plain is a search of nodes without a topology.
func plain(nodes int, rails ...int) *Search {
	s := &Search{Rails: rails, Seed: 7}
	for range nodes {
		s.Nodes = append(s.Nodes, Node{})
	}
	return s
}

// play searches with speeds by pair, rail and round, and returns the samples.
func play(s *Search, speed func(p Pair, rail, round int) Sample) []Sample {
	var done []Sample
	for tasks := s.Next(nil); len(tasks) > 0; tasks = s.Next(done) {
		for _, task := range tasks {
			for _, rail := range task.Rails {
				d := speed(task.Pair, rail, task.Round)
				d.Round, d.Pair, d.Rail = task.Round, task.Pair, rail
				if d.Failure == "" {
					d.Culprit = -1
				}
				done = append(done, d)
			}
		}
	}
	return done
}

func has(p Pair, node int) bool { return p.A == node || p.B == node }

func TestPairsOfTheFirstRound(t *testing.T) {
	s := plain(9, All)
	for i := range s.Nodes {
		s.Nodes[i].Leaf = []string{"a", "b", "c"}[i%3]
	}
	tasks := s.Next(nil)
	if !reflect.DeepEqual(tasks, s.Next(nil)) || len(tasks) != 4 {
		t.Fatalf("%+v, expected the same 4 pairs each time", tasks)
	}
	same := 0
	for _, task := range tasks {
		if s.Nodes[task.A].Leaf == s.Nodes[task.B].Leaf {
			same++
		}
	}
	if same != 3 {
		t.Errorf("%d pairs below one leaf, expected 3", same)
	}
	if s.Seed = 8; reflect.DeepEqual(tasks, s.Next(nil)) {
		t.Error("another seed has the same pairs")
	}
	for _, n := range []int{0, 1} {
		if tasks := plain(n, All).Next(nil); tasks != nil {
			t.Errorf("%d nodes: %+v", n, tasks)
		}
	}
}

// Every node is measured, the one that is left over, too.
func TestOddNodes(t *testing.T) {
	for n := 2; n < 12; n++ {
		seen := map[int]bool{}
		for _, d := range play(plain(n, 0, 1), func(Pair, int, int) Sample { return Sample{BusBW: 10} }) {
			seen[d.A], seen[d.B] = true, true
		}
		if len(seen) != n {
			t.Errorf("%d of %d nodes were measured", len(seen), n)
		}
	}
}

// What is said of a few nodes: never more than their number allows.
func TestJudge(t *testing.T) {
	ok := Sample{BusBW: 100}
	bad := Sample{BusBW: 90}
	for name, tt := range map[string]struct {
		search *Search
		speed  func(p Pair, rail, round int) Sample
		want   []Verdict // without reasons and losses
	}{
		"two nodes, nothing to compare with": {
			plain(2, All), func(Pair, int, int) Sample { return ok },
			[]Verdict{{Subject: OfNode, Level: Unknown, Node: 0, Partner: -1, Rail: All}, {Subject: OfNode, Level: Unknown, Node: 1, Partner: -1, Rail: All}},
		},
		"two nodes, a slow rail of either": {
			plain(2, 0, 1, 2, 3), func(_ Pair, rail, _ int) Sample {
				if rail == 2 {
					return bad
				}
				return ok
			},
			[]Verdict{{Subject: OfRail, Level: Unknown, Node: 0, Partner: -1, Rail: 2}, {Subject: OfRail, Level: Unknown, Node: 1, Partner: -1, Rail: 2}},
		},
		"a slow node of four": {
			plain(4, 0), func(p Pair, _, _ int) Sample {
				if has(p, 2) {
					return bad
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Bad, Node: 2, Partner: -1, Rail: All}},
		},
		"two slow nodes of eight": {
			plain(8, 0), func(p Pair, _, _ int) Sample {
				if has(p, 2) || has(p, 5) {
					return bad
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Bad, Node: 2, Partner: -1, Rail: All}, {Subject: OfNode, Level: Bad, Node: 5, Partner: -1, Rail: All}},
		},
		"slow once": {
			plain(8, 0), func(p Pair, _, round int) Sample {
				if has(p, 2) && round == 1 {
					return bad
				}
				return ok
			}, nil,
		},
		"a library is missing": {
			plain(6, 0, 1, 2), func(p Pair, _, _ int) Sample {
				if has(p, 3) {
					return Sample{Failure: "library", Culprit: 3}
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Failed, Node: 3, Partner: -1, Rail: All, Failure: "library"}},
		},
		"a rank of four crashes": {
			plain(4, 0, 1), func(p Pair, _, _ int) Sample {
				if has(p, 3) {
					return Sample{Failure: "crash", Culprit: 3}
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Failed, Node: 3, Partner: -1, Rail: All, Failure: "crash"}},
		},
		"all pairs of the first round are slow, each by a node": {
			plain(4, 0), func(p Pair, _, round int) Sample {
				if has(p, 3) || round == 1 && has(p, 1) {
					return bad
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Bad, Node: 3, Partner: -1, Rail: All}},
		},
		"the GPUs of a node are taken": {
			plain(6, 0), func(p Pair, _, _ int) Sample {
				if has(p, 1) {
					return Sample{Unknown: true}
				}
				return ok
			},
			[]Verdict{{Subject: OfNode, Level: Unknown, Node: 1, Partner: -1, Rail: All}},
		},
		"nothing works": {
			plain(4, 0), func(Pair, int, int) Sample { return Sample{Failure: "hang", Culprit: -1} },
			[]Verdict{
				{Subject: OfNode, Level: Unknown, Node: 0, Partner: -1, Rail: All},
				{Subject: OfNode, Level: Unknown, Node: 1, Partner: -1, Rail: All},
				{Subject: OfNode, Level: Unknown, Node: 2, Partner: -1, Rail: All},
				{Subject: OfNode, Level: Unknown, Node: 3, Partner: -1, Rail: All},
			},
		},
	} {
		got := tt.search.Judge(play(tt.search, tt.speed))
		for i := range got {
			if got[i].Why == "" {
				t.Errorf("%s: %+v has no reason", name, got[i])
			}
			got[i].Why, got[i].Loss = "", 0
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n%+v, expected\n%+v", name, got, tt.want)
		}
	}
}

// A node that is as fast as others and slower than it was is slow. What all have lost is of the run.
func TestPast(t *testing.T) {
	past := func(s *Search, of func(node int) float64) *Search {
		for i := range s.Nodes {
			s.Nodes[i].Past = map[int]Past{0: {Median: of(i), MAD: 0.1, Runs: 10}}
		}
		return s
	}
	all := func(Pair, int, int) Sample { return Sample{BusBW: 100} }
	s := past(plain(12, 0), func(node int) float64 {
		if node == 4 {
			return 110
		}
		return 100
	})
	if got := s.Judge(play(s, all)); len(got) != 0 { // its partner limits what is expected of a pair
		t.Errorf("one that was faster than its partners: %+v", got)
	}
	s = past(plain(12, 0), func(int) float64 { return 110 })
	if got := s.Judge(play(s, all)); len(got) != 1 || got[0].Subject != OfRun || got[0].Level != Slow {
		t.Errorf("all were faster: %+v", got)
	}
	s = past(plain(12, 0), func(int) float64 { return 100 })
	slower := func(p Pair, _, _ int) Sample {
		if has(p, 4) {
			return Sample{BusBW: 97}
		}
		return Sample{BusBW: 100}
	}
	if got := s.Judge(play(s, slower)); len(got) != 1 || got[0].Node != 4 || got[0].Level != Slow {
		t.Errorf("3 %% slower: %+v", got)
	}
}

// Whatever samples say, a search ends.
func FuzzSearch(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		s, at := plain(int(data[0]%20), 0, All), 0
		done := play(s, func(p Pair, _, round int) Sample {
			if round > RoundsMost {
				t.Fatal("too many rounds")
			}
			at++
			b := data[at%len(data)]
			d := Sample{BusBW: float64(b), Unknown: b&3 == 3}
			if b&3 == 1 {
				d.Failure, d.Culprit = "crash", []int{-1, p.A, p.B}[b%3]
			}
			return d
		})
		for _, v := range s.Judge(done) {
			if v.Node >= len(s.Nodes) || v.Why == "" || v.Loss < 0 {
				t.Fatalf("%+v", v)
			}
		}
	})
}
