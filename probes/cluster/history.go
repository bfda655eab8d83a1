// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"

	"gpufabric_exporter/probes/cluster/search"
)

// History is what nodes reached in earlier runs, by name and rail.
type History struct {
	Version int                          `json:"version"`
	Nodes   map[string]map[int][]float64 `json:"nodes"` // bytes per second, the oldest first
}

// Limits of a History.
const (
	historyVersion = 1
	runsKept       = 30
	nodesKept      = 16384
	railsKept      = 65
	// HistoryMost is how many bytes the file may have.
	HistoryMost = 256 << 20
)

// ParseHistory reads the file of a History. Nothing is an empty one.
func ParseHistory(data []byte) (*History, error) {
	h := &History{Version: historyVersion, Nodes: map[string]map[int][]float64{}}
	if len(data) == 0 {
		return h, nil
	}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, err
	}
	if h.Version != historyVersion || len(h.Nodes) > nodesKept {
		return nil, fmt.Errorf("version %d with %d nodes, expected version %d", h.Version, len(h.Nodes), historyVersion)
	}
	for name, rails := range h.Nodes {
		for rail, list := range rails {
			if len(rails) > railsKept || rail < search.All || len(list) > runsKept {
				return nil, fmt.Errorf("%.40q has %d rails, rail %d with %d runs", name, len(rails), rail, len(list))
			}
		}
	}
	return h, nil
}

// Of is what a node reached.
func (h *History) Of(node string) map[int]search.Past {
	past := map[int]search.Past{}
	for rail, list := range h.Nodes[node] {
		median, mad := search.MedianAndMAD(list)
		past[rail] = search.Past{Median: median, MAD: mad, Runs: len(list)}
	}
	return past
}

// Add remembers a run. What is slow is none of it, or it would become what is expected.
func (h *History) Add(r *Report) {
	accused := map[string]bool{}
	for _, v := range r.Verdicts {
		accused[v.Node], accused[v.Partner] = true, true
		if v.Subject == search.OfRun {
			return
		}
	}
	for _, n := range r.Nodes {
		if accused[n.Name] {
			continue
		}
		rails := h.Nodes[n.Name]
		if rails == nil {
			rails = map[int][]float64{}
			h.Nodes[n.Name] = rails
		}
		for rail, s := range n.Shares {
			list := append(rails[rail], s.BusBW)
			rails[rail] = list[max(0, len(list)-runsKept):]
		}
	}
}
