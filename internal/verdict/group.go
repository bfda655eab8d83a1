// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Group is a verdict that several subjects share.
type Group struct {
	Verdict
	Subjects  []string
	Evidences []string  // of each of them
	Members   []Verdict // of each of them, the first
}

// Together makes one of verdicts that differ only in their subject and in what was seen of it: the first
// stands for all. Unknown verdicts are grouped only where the reason is the same.
func Together(list []Verdict) []Group {
	type place struct {
		check  *Check
		status Status
	}
	order := map[place]int{}
	for _, v := range list {
		if at := (place{v.Check, v.Status}); order[at] == 0 {
			order[at] = len(order) + 1
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Verdict) int { // mlx5_3 before mlx5_10
		return cmp.Or(order[place{a.Check, a.Status}]-order[place{b.Check, b.Status}],
			fabric.NaturalOrder(a.Subject.Device, b.Subject.Device))
	})
	var all []Group
	for _, v := range list {
		i := slices.IndexFunc(all, func(g Group) bool {
			return alike(&g.Verdict, &v) && (g.Cause == v.Cause || g.Cause != nil && v.Cause != nil && alike(g.Cause, v.Cause))
		})
		if i < 0 {
			all, i = append(all, Group{Verdict: v}), len(all)
		}
		g := &all[i]
		if g.Evidence != v.Evidence && len(g.Subjects) == 1 {
			g.Evidence = g.Subjects[0] + ", for example: " + g.Evidence
		}
		if s := v.Subject.String(); !slices.Contains(g.Subjects, s) {
			g.Subjects, g.Evidences, g.Members = append(g.Subjects, s), append(g.Evidences, v.Evidence), append(g.Members, v)
		}
	}
	return all
}

// alike reports whether two verdicts differ only in their subject and in what was seen of it.
func alike(a, b *Verdict) bool {
	return a.Check == b.Check && a.Status == b.Status && a.What == b.What && a.Consequence == b.Consequence &&
		a.Remedy == b.Remedy &&
		(a.Status == Failed || a.Evidence == b.Evidence)
}

// Seen are the lines of evidence: one where it is the same of all subjects.
func (g Group) Seen() []string {
	return g.lines(g.Evidences)
}

// Remedies are the lines of what to do on this node, with names in place of placeholders: one where it is the
// same for all subjects, or a loop over the bridges of all.
func (g Group) Remedies(n *fabric.Node) []string {
	if all := g.bridges(); len(all) > 0 {
		v := g.Verdict
		v.Names = map[string][]string{BridgesWord: all}
		return []string{FilledRemedy(n, &v)}
	}
	filled := make([]string, len(g.Members))
	for i := range g.Members {
		filled[i] = FilledRemedy(n, &g.Members[i])
	}
	return g.lines(filled)
}

// bridges are those that the verdicts name, each once; none if a verdict names none.
func (g Group) bridges() (all []string) {
	for i := range g.Members {
		names := g.Members[i].Names[BridgesWord]
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// lines are texts of the subjects, in their order: one where all are the same.
func (g Group) lines(of []string) []string {
	if len(slices.Compact(slices.Clone(of))) == 1 {
		return of[:1]
	}
	lines := make([]string, len(of))
	for i, text := range of {
		lines[i] = g.Subjects[i] + ": " + text
	}
	return lines
}
