// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gpufabric_exporter/internal/simulator"
)

// seed makes the compositions; another one makes others.
const seed = 6

// sample is a node of which is known what is wrong with it.
type sample struct {
	name   string
	config func(*simulator.Tree) string
	node   func() *simulator.Node
	labels []finding
}

func (s sample) healthy() bool { return len(s.labels) == 0 }

// scenarioSamples returns every scenario, by platform: those of one can share a tree.
func scenarioSamples() map[string][]sample {
	all := map[string][]sample{}
	for _, s := range simulator.Scenarios() {
		all[s.Platform] = append(all[s.Platform], sample{name: s.Name, config: s.ConfigOf, node: s.Build, labels: labelled(s)})
	}
	return all
}

// composed is a mutation somewhere.
type composed struct {
	mutation
	at place
}

func (c composed) String() string {
	if where := c.at.device + c.at.gpu; where != "" {
		return c.name + "@" + where
	}
	return c.name
}

// compositions returns the first so many compositions, by base. Each depends on seed and its number alone.
func compositions(count int) (map[string][]sample, error) {
	all := map[string][]sample{}
	var machines []machine
	for _, b := range bases() {
		m, err := b.machine()
		if err != nil {
			return nil, err
		}
		machines = append(machines, m)
	}
	for i := range count {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		m := machines[i%len(machines)]
		parts := m.pick(r, 2+r.IntN(2))
		var names []string
		for _, p := range parts {
			names = append(names, p.String())
		}
		key := m.key()
		all[key] = append(all[key], sample{
			name: fmt.Sprintf("#%d %s + %s", i, m.scenario, strings.Join(names, " + ")), config: func(*simulator.Tree) string { return m.config }, labels: m.expect(parts),
			node: func() *simulator.Node {
				n := m.Clone()
				for _, p := range parts {
					p.edit(n, p.at)
				}
				return n
			},
		})
	}
	return all, nil
}

// pick draws different mutations that do not undo each other, in the order in which they can be applied.
func (m machine) pick(r *rand.Rand, count int) []composed {
	var parts []composed
	table := mutations()
	for _, i := range r.Perm(len(table)) {
		mu := table[i]
		places := mu.places(m)
		if len(places) == 0 || len(parts) == count {
			continue
		}
		c := composed{mu, places[r.IntN(len(places))]}
		if !slices.ContainsFunc(parts, func(p composed) bool {
			return slices.ContainsFunc(c.touches, func(t string) bool { // what configures NCCL is of the whole node
				return (p.at == c.at || strings.HasPrefix(t, "nccl")) && slices.Contains(p.touches, t)
			})
		}) {
			parts = append(parts, c)
		}
	}
	slices.SortStableFunc(parts, func(a, b composed) int { return rank(a) - rank(b) })
	return parts
}

func rank(c composed) int {
	if c.last {
		return 1
	}
	return 0
}

// expect derives what is wrong with a node after these mutations.
func (m machine) expect(parts []composed) []finding {
	var all []finding
	for i, p := range parts {
		mine := []finding{{what: p.what, device: p.at.device, gpu: p.at.gpu, mode: p.mode}}
		switch {
		case p.everywhere:
			mine = nil
			for _, h := range m.compute() {
				if ethernet(m, h) {
					mine = append(mine, finding{what: p.what, device: h.Name})
				}
			}
		case p.ofNode:
			mine[0].device = ""
		}
		if p.more != nil {
			mine = append(mine, p.more(m, p.at)...)
		}
		for _, f := range mine {
			f.at = place{device: f.device, gpu: f.gpu}
			if p.ofNode {
				f.at = p.at
			}
			f.optional = slices.ContainsFunc(slices.Delete(slices.Clone(parts), i, i+1), func(o composed) bool { return o.hidesThe(f) })
			all = append(all, f)
		}
	}
	return all
}

// hidesThe reports whether a finding cannot be seen while this is wrong.
func (c composed) hidesThe(f finding) bool {
	return slices.Contains(c.hides, f.what) && (c.at == place{} || c.at == f.at)
}
