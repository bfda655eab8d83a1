// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// Seen is how often and where a finding was seen: line, host, rank, peer. What follows from the connections has no
// line, and is seen nowhere.
func (f *Finding) Seen() string {
	if f.Line == 0 {
		return ""
	}
	at := fmt.Sprintf("line %d", f.Line)
	if f.File != "" {
		at = f.File + " " + at
	}
	parts := []string{at}
	if f.Count > 1 {
		parts[0] = fmt.Sprintf("%s and %d more", at, f.Count-1)
	}
	if f.Host != "" {
		parts = append(parts, "host "+f.Host)
	}
	if f.Rank != Unknown {
		parts = append(parts, fmt.Sprintf("rank %d", f.Rank))
	}
	switch {
	case len(f.Peers) > 1:
		parts = append(parts, "peers "+spelling.Few(f.Peers, 4))
	case f.Peer != "":
		parts = append(parts, "peer "+f.Peer)
	}
	if len(f.Hosts) > 1 {
		parts = append(parts, "logged by "+spelling.Few(f.Hosts, 8))
	}
	return strings.Join(parts, ", ")
}

// Steps are what to do: what tells the reasons apart, and what helps with the first; at most three.
func (f *Finding) Steps() []string {
	const most = 3
	top := &f.Reasons[0]
	var list []string
	if top.Certainty != Certain && top.Test != "" {
		list = append(list, "To be sure: "+top.Test)
	}
	list = append(list, top.Remedy)
	next := "If it is not that: "
	if top.Certainty == Certain {
		next = "To find why: "
	}
	for _, other := range f.Reasons[1:] {
		if other.Test != "" && other.Test != top.Test && len(list) < most {
			list = append(list, next+other.Test)
		}
	}
	return list
}

// Counted explains what was only counted in the tails of logs, by the IDs of signatures: a cause comes before what
// follows. A tail has no first and is not trusted, so that nothing of it is certain. nil: nothing failed.
func Counted(ids []string) *Finding {
	var best *Finding
	all := signature.All()
	for i := range all {
		s := &all[i]
		if class(s) < 0 || !slices.Contains(ids, s.ID) || best != nil && class(best.Signature) <= class(s) {
			continue
		}
		best = &Finding{Signature: s, Count: 1, Rank: Unknown, Code: signature.NoCode}
	}
	if best == nil {
		return nil
	}
	best.Reasons = newReading().result().reasons(best)
	for i := range best.Reasons {
		if best.Reasons[i].Certainty == Certain {
			best.Reasons[i].Certainty = Likely
		}
	}
	return best
}
