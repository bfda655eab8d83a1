// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/probes/cluster/search"
	"gpufabric_exporter/probes/cluster/wire"
)

// Report is what came of a run. Its JSON is the same in all versions: names and meanings stay, new ones may come.
type Report struct {
	Started time.Time `json:"started"`
	Wall    float64   `json:"wall_seconds"`
	By      string    `json:"started_by"` // how the nodes met
	Size    int       `json:"size"`       // nodes that were expected
	Options Options   `json:"-"`
	// Missing are the ranks of nodes that did not come, and MissingNodes their names, where the scheduler tells them.
	Missing      []int               `json:"missing"`
	MissingNodes []string            `json:"missing_nodes,omitempty"`
	Refused      map[wire.Reason]int `json:"refused"` // connections, by reason
	Nodes        []Node              `json:"nodes"`
	Differences  []Difference        `json:"differences"`
	Results      []Result            `json:"results"`
	Verdicts     []Verdict           `json:"verdicts"`
	AllNodes     *Whole              `json:"all_nodes,omitempty"` // nil: that was not asked for
	Rounds       int                 `json:"rounds"`
	Error        string              `json:"error,omitempty"` // why it ended early

	found []search.Verdict // in the searches before
}

// Node is one that came.
type Node struct {
	Rank    int           `json:"rank"`
	Name    string        `json:"name"`
	Leaf    string        `json:"leaf,omitempty"`
	Rails   []string      `json:"rails"` // devices
	GPUs    int           `json:"gpus"`
	Skipped string        `json:"skipped,omitempty"` // why it could not be measured
	Lost    string        `json:"lost,omitempty"`    // why it is gone
	Shares  map[int]Share `json:"-"`                 // by rail
}

// Share is the best that a node reached over a rail.
type Share struct {
	BusBW float64
	Ratio float64 // over the median of the nodes; 0: unknown
}

// Result is what a pair reached.
type Result struct {
	Round   int     `json:"round"`
	A       string  `json:"a"`
	B       string  `json:"b"`
	Rail    int     `json:"rail"` // -1: all GPUs
	BusBW   float64 `json:"busbw_bytes_per_second"`
	Failure string  `json:"failure,omitempty"`
	Error   string  `json:"error,omitempty"`
	Path    string  `json:"path,omitempty"`
	NCCL    string  `json:"nccl_version,omitempty"`
	Wall    float64 `json:"wall_seconds"`
	Log     string  `json:"log,omitempty"` // of a failure
}

// Verdict is what the search found, with names.
type Verdict struct {
	Subject search.Subject `json:"subject"`
	Level   search.Level   `json:"level"`
	Node    string         `json:"node"`
	Partner string         `json:"partner,omitempty"`
	Rail    int            `json:"rail"` // -1: all
	Device  string         `json:"device,omitempty"`
	Loss    float64        `json:"loss"`
	Failure string         `json:"failure,omitempty"`
	Why     string         `json:"why"`
}

// Text is a verdict in a sentence.
func (v Verdict) Text() string {
	at := v.Node
	switch v.Subject {
	case search.OfRun:
		at = "all nodes"
	case search.OfPath:
		at += " and " + v.Partner
	case search.OfNode, search.OfRail:
	}
	if v.Rail >= 0 {
		at += fmt.Sprintf(", rail %d", v.Rail)
		if v.Device != "" {
			at += " (" + v.Device + ")"
		}
	}
	switch what := fmt.Sprintf("%s %s: %s", v.Subject, v.Level, at); {
	case v.Failure != "":
		return fmt.Sprintf("%s: %s; %s", what, v.Failure, v.Why)
	case v.Level == search.Unknown:
		return what + ": " + v.Why
	default:
		return fmt.Sprintf("%s: %.1f %% below others; %s", what, 100*v.Loss, v.Why)
	}
}

// note has what is known before anything is measured.
func (r *Report) note(l *Leader, measured []*peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Missing, r.Refused = []int{}, maps.Clone(l.refused)
	for rank := range l.Size {
		p := l.peers[rank]
		if p == nil {
			r.Missing = append(r.Missing, rank)
			if rank < len(l.Names) {
				r.MissingNodes = append(r.MissingNodes, l.Names[rank])
			}
			continue
		}
		n := Node{Rank: rank, Name: p.Node, Leaf: p.Leaf, GPUs: len(p.GPUs), Skipped: p.Skipped, Rails: []string{}}
		for _, rail := range p.Rails {
			n.Rails = append(n.Rails, rail.Device)
		}
		r.Nodes = append(r.Nodes, n)
	}
	var hellos []wire.Hello
	for _, p := range measured {
		hellos = append(hellos, p.Hello)
	}
	r.Differences = compare(hellos)
}

// add judges the samples of a search: the rails first, and then all GPUs together.
func (r *Report) add(s *search.Search, done []search.Sample) {
	for _, d := range done {
		r.Rounds = max(r.Rounds, d.Round)
	}
	found := s.Judge(done)
	for _, v := range found {
		if slices.ContainsFunc(r.found, func(of search.Verdict) bool { return of.Explains(v) }) {
			continue
		}
		out := Verdict{
			Subject: v.Subject, Level: v.Level, Rail: v.Rail, Loss: v.Loss, Failure: v.Failure, Why: v.Why,
		}
		if v.Node >= 0 {
			out.Node = s.Nodes[v.Node].Name
			if n := r.node(out.Node); n != nil && v.Rail >= 0 && v.Rail < len(n.Rails) {
				out.Device = n.Rails[v.Rail]
			}
		}
		if v.Partner >= 0 {
			out.Partner = s.Nodes[v.Partner].Name
		}
		r.Verdicts = append(r.Verdicts, out)
	}
	r.found = append(r.found, found...)
}

func (r *Report) node(name string) *Node {
	if i := slices.IndexFunc(r.Nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
		return &r.Nodes[i]
	}
	return nil
}

// finish has the results, in order, and what nodes reached.
func (r *Report) finish(l *Leader, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Wall = time.Since(began).Seconds()
	r.Results = slices.SortedStableFunc(slices.Values(l.results), func(a, b Result) int {
		return cmp.Or(cmp.Compare(min(b.Rail, 0), min(a.Rail, 0)), cmp.Compare(a.Round, b.Round), cmp.Compare(a.A, b.A),
			cmp.Compare(a.Rail, b.Rail))
	})
	for rank, p := range l.peers {
		if _, lost := p.state(); lost != nil {
			if n := r.node(l.peers[rank].Node); n != nil {
				n.Lost = lost.Error()
			}
		}
	}
	r.share()
}

// MissingText names the nodes that did not come.
func (r *Report) MissingText() string {
	if len(r.MissingNodes) > 0 {
		return strings.Join(r.MissingNodes, ", ")
	}
	return fmt.Sprintf("processes %v", r.Missing)
}

// share fills in what each node reached at best.
func (r *Report) share() {
	best := map[int][]float64{}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.Shares = map[int]Share{}
		for _, d := range r.Results {
			if (d.A == n.Name || d.B == n.Name) && d.Failure == "" && d.BusBW > n.Shares[d.Rail].BusBW {
				n.Shares[d.Rail] = Share{BusBW: d.BusBW}
			}
		}
		for rail, s := range n.Shares {
			best[rail] = append(best[rail], s.BusBW)
		}
	}
	for i := range r.Nodes {
		for rail, s := range r.Nodes[i].Shares {
			if median, _ := search.MedianAndMAD(best[rail]); median > 0 {
				s.Ratio = s.BusBW / median
				r.Nodes[i].Shares[rail] = s
			}
		}
	}
}

// of is what a node is told about itself.
func (r *Report) of(node string) string {
	for _, v := range r.Verdicts {
		if v.Node == node {
			return v.Text()
		}
	}
	if r.Wall == 0 {
		return "the run ended early"
	}
	return ""
}

// Known reports whether it is known how fast a node is, or that it fails.
func (r *Report) Known(n *Node) bool {
	judged := func(unknown bool) bool {
		return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool {
			return v.Node == n.Name && v.Subject == search.OfNode && (v.Level == search.Unknown) == unknown
		})
	}
	return judged(false) || len(n.Shares) > 0 && !judged(true)
}

// Coverage is the share of the expected nodes that are known.
func (r *Report) Coverage() float64 {
	known := 0
	for i := range r.Nodes {
		if r.Known(&r.Nodes[i]) {
			known++
		}
	}
	return float64(known) / float64(max(r.Size, 1))
}

// Rails are those that were measured, in order; all GPUs together last.
func (r *Report) Rails() []int {
	var list []int
	for _, d := range r.Results {
		if !slices.Contains(list, d.Rail) {
			list = append(list, d.Rail)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(min(b, 0), min(a, 0)), cmp.Compare(a, b)) })
	return list
}

// Drain are the nodes that should get no jobs: those that are bad or failed themselves, and those with such a rail.
func (r *Report) Drain() []string {
	names := []string{}
	for _, v := range r.Verdicts {
		if (v.Level == search.Bad || v.Level == search.Failed) && (v.Subject == search.OfNode || v.Subject == search.OfRail) {
			names = append(names, v.Node)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
