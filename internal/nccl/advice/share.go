// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// Share is how much of the stated iteration its AllReduce takes over a link.
type Share struct {
	Link    Link    `json:"link"`
	Seconds float64 `json:"seconds"`
	Share   float64 `json:"share"` // of the iteration; above 1: the figures contradict each other
	From    string  `json:"from"`  // what the bandwidth is, and where it comes from
	Text    string  `json:"text"`  // what follows from it, in words
}

// Below littleShare the network is not what limits a job; from largeShare on it is the first thing to check.
const (
	littleShare = 0.1
	largeShare  = 0.4
)

// shares says how much of the iteration is communication, over the link that is crossed last: between nodes,
// else inside the node.
func (k *adviser) shares() {
	w := &k.Workload
	switch {
	case w.Iteration <= 0:
		return
	case w.IterationBytes <= 0:
		k.open("communication share", "How many bytes one iteration reduces is not stated.",
			"state it (--iteration-size): with data parallelism it is the size of the gradients, such as 14000000000 for a 7B model in bf16 (2 bytes a parameter)")
		return
	}
	inside, l := k.inside()
	s := shape{1, w.GPUsPerNode, inside}
	if w.Nodes != 1 {
		s, l = shape{max(w.Nodes, 2), max(w.GPUsPerNode, 1), inside}, k.between()
	}
	if s.ranks() < 2 {
		return
	}
	if l.rate != nil {
		k.share(l.link, min(s.ring(w.IterationBytes, *l.rate), s.tree(w.IterationBytes, *l.rate)), l.basis, false)
	}
	n := float64(s.ranks())
	if w.Nodes == 1 {
		if m := k.largest(l.link, s.ranks()); m != nil {
			k.share(l.link, float64(w.IterationBytes)*2*(n-1)/n/m.BusBW, "measured by "+m.From, true)
		}
	} else {
		for _, m := range k.measuredBetween(l.link) {
			k.share(m.link, s.ring(w.IterationBytes, *m.rate), m.basis, true)
		}
	}
	if len(k.Shares) == 0 {
		k.open("communication share", "The bandwidth of the link is not known.", "gpufabric_exporter probe")
	}
}

// largest is the measured AllReduce of the largest message over a link by that many ranks.
func (k *adviser) largest(link Link, ranks int) *Measured {
	var found *Measured
	for i := range k.Workload.Measured {
		if m := &k.Workload.Measured[i]; m.Link == link && m.Port == "" && m.Ranks == ranks &&
			(found == nil || m.Bytes > found.Bytes) {
			found = m
		}
	}
	return found
}

func (k *adviser) share(link Link, seconds float64, from string, measured bool) {
	whole := k.Workload.Iteration.Seconds()
	iteration := Duration(whole)
	s := Share{Link: link, Seconds: seconds, Share: seconds / whole, From: from}
	took := Duration(seconds)
	switch {
	case s.Share >= 1:
		s.Text = fmt.Sprintf("The AllReduce takes %s, longer than the iteration of %s: the stated figures contradict each other, or the iteration reduces fewer bytes over this link, as with sharded or accumulated gradients.", took, iteration)
	case s.Share < littleShare:
		s.Text = fmt.Sprintf("The AllReduce takes %s, %s of the iteration of %s. %s", took, percent(s.Share), iteration,
			k.little(link, measured))
	default:
		s.Text = fmt.Sprintf("The AllReduce takes %s, %s of the iteration of %s if no computation overlaps with it. Twice the bandwidth saves at most %s of the iteration; overlap with the backward pass can save up to all of the time.", took, percent(s.Share), iteration, percent(s.Share/2))
		if s.Share >= largeShare {
			s.Text += " Communication limits this job: compare the measured bandwidth with the line rate, and reduce fewer bytes (lower precision, accumulated gradients)."
		}
	}
	k.Shares = append(k.Shares, s)
}

// little is the conclusion from a small share: the line rate is what a network without faults reaches at
// most, and what was measured over one transport holds for jobs that use it.
func (k *adviser) little(link Link, measured bool) string {
	const next, unknown = "look at data loading, computation and stragglers first.",
		"Whether the network limits this job is not known: "
	var found []string
	for _, f := range verdict.Findings(diagnose.Run(k.node, nil)) {
		if id := f.Check.ID; f.Check.Severity.AtLeast(verdict.Warning) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	rdma := 0
	for range k.node.ActiveCompute {
		rdma++
	}
	switch {
	case len(found) > 0:
		return unknown + "`gpufabric_exporter check` finds faults of this node (" + spelling.Few(found, few) +
			"). Repair them, then measure with `gpufabric_exporter probe`."
	case len(k.Workload.Impaired) > 0:
		return unknown + "running jobs have findings (" + spelling.Few(k.Workload.Impaired, few) +
			"). See `gpufabric_exporter jobs`, and repair what it shows."
	case link == LinkTCP && rdma > 0:
		return fmt.Sprintf("The transport of this measurement is TCP sockets, although RDMA ports of role compute are active on this node (%d). A job that uses TCP here has fallen back without an error, or its settings select TCP: see its transport and findings with `gpufabric_exporter jobs`.", rdma)
	case !measured:
		return "This is the time at line rate, and the least that it can take. A network that reaches it does not limit this job: measure with `gpufabric_exporter probe`, then " + next
	case rdma > 0 && k.Workload.Nodes != 1:
		return "The network does not limit this job if the job uses RDMA (`gpufabric_exporter jobs` shows the transport of a running job): " + next
	}
	return "The network does not limit this job: " + next
}

// Duration is a time in seconds as people read it, in three digits.
func Duration(seconds float64) string {
	switch {
	case seconds < 1e-3:
		return strconv.FormatFloat(seconds*1e6, 'f', 0, 64) + " µs"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1e3, 'g', 3, 64) + " ms"
	case seconds < 1000:
		return strconv.FormatFloat(seconds, 'g', 3, 64) + " s"
	}
	return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
}

// percent rounds a share below 1, but neither up to all of it nor across the bound of a small one.
func percent(share float64) string {
	if share < littleShare {
		return strconv.FormatFloat(min(100*share, 9.9), 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(min(100*share, 99), 'f', 0, 64) + " %"
}
