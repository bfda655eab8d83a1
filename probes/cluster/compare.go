// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/probes/cluster/wire"
)

// Difference is what some nodes have that most do not: NCCL may hang on it, or be slow.
type Difference struct {
	What  string   `json:"what"`
	Most  string   `json:"most"` // what most nodes have
	Other string   `json:"other"`
	Nodes []string `json:"nodes"` // that have Other
}

// compare finds them, in the order of what they are about.
func compare(nodes []wire.Hello) []Difference {
	each := func(h *wire.Hello, of func(wire.Rail) string) string {
		var words []string
		for _, r := range h.Rails {
			words = append(words, of(r))
		}
		return strings.Join(slices.Compact(words), ", ")
	}
	facts := []struct {
		what string
		of   func(*wire.Hello) string
	}{
		{"version of gpufabric_exporter", func(h *wire.Hello) string { return h.Program }},
		{"NCCL", func(h *wire.Hello) string { return h.NCCL }},
		{"GPU driver", func(h *wire.Hello) string { return h.Driver }},
		{"GPUs", func(h *wire.Hello) string { return strconv.Itoa(len(h.GPUs)) }},
		{"rails", func(h *wire.Hello) string { return strconv.Itoa(len(h.Rails)) }},
		{"names of rails", func(h *wire.Hello) string { return each(h, func(r wire.Rail) string { return r.Device }) }},
		{"link layer", func(h *wire.Hello) string { return each(h, func(r wire.Rail) string { return r.Link }) }},
		{"rate", func(h *wire.Hello) string {
			return each(h, func(r wire.Rail) string { return fmt.Sprintf("%.0f Gb/s", r.Rate*8/1e9) })
		}},
		{"type of GIDs", func(h *wire.Hello) string { return each(h, func(r wire.Rail) string { return r.GID }) }},
		{"MTU", func(h *wire.Hello) string { return each(h, func(r wire.Rail) string { return strconv.Itoa(r.MTU) }) }},
	}
	all := []Difference{}
	for _, f := range facts {
		having := map[string][]string{}
		for i := range nodes {
			value := cmp.Or(f.of(&nodes[i]), "unknown")
			having[value] = append(having[value], nodes[i].Node)
		}
		values := slices.SortedFunc(maps.Keys(having), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(having[b]), len(having[a])), cmp.Compare(a, b))
		})
		for _, other := range values[min(1, len(values)):] {
			all = append(all, Difference{f.what, values[0], other, having[other]})
		}
	}
	return all
}
