// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gpufabric_exporter/internal/verdict"
)

// MaxRead bounds a document that is read back, in bytes.
const MaxRead = 8 << 20

// checks lists the checks that were made, as bad as on their worst subject.
func (b *builder) checks() {
	worst := map[string]verdict.Status{}
	for i := range b.in.Verdicts {
		v := &b.in.Verdicts[i]
		if before, known := worst[v.Check.ID]; !known || v.Status == verdict.Failed || before == verdict.OK {
			worst[v.Check.ID] = v.Status
		}
	}
	for _, id := range b.NotYetJudged {
		if s, made := worst[id]; made && s == verdict.OK {
			worst[id] = verdict.Unknown
		}
	}
	for _, id := range slices.Sorted(maps.Keys(worst)) {
		word := StatusUnknown
		switch worst[id] {
		case verdict.OK:
			word = StatusOK
		case verdict.Failed:
			word = StatusFailed
		}
		b.Checks = append(b.Checks, Check{id, word})
	}
}

// Verdicts reads a document that a node served, which is not trusted: the name of the node, and what checks found
// there, of which only Check.ID, Status and What are known. Of releases without the list of checks, only failures are.
func Verdicts(document []byte) (node string, found []verdict.Verdict, err error) {
	var d struct {
		Version int `json:"version"`
		Node    struct {
			Name string `json:"name"`
		} `json:"node"`
		Findings []struct {
			Check string `json:"check"`
			What  string `json:"what"`
		} `json:"findings"`
		Checks []Check `json:"checks"`
	}
	switch err := json.Unmarshal(document, &d); {
	case err != nil:
		return "", nil, fmt.Errorf("it is no status document (curl NODE:10791/status.json): %w", err)
	case d.Version != Version || d.Findings == nil:
		return "", nil, errors.New("it is no status document of version 1 (curl NODE:10791/status.json)")
	case len(d.Findings) > maxList || len(d.Checks) > maxList:
		return "", nil, fmt.Errorf("more than %d findings or checks: expected the status document of one node", maxList)
	}
	add := func(id string, s verdict.Status, what string) {
		c := &verdict.Check{ID: clean(id, maxName)}
		found = append(found, verdict.Verdict{Check: c, Status: s, What: clean(what, maxText)})
	}
	failed := map[string]bool{}
	for _, f := range d.Findings {
		failed[f.Check] = true
		add(f.Check, verdict.Failed, f.What)
	}
	for _, c := range d.Checks {
		switch {
		case failed[c.ID]:
		case c.Status == StatusOK:
			add(c.ID, verdict.OK, "")
		default: // failed without a finding says nothing either
			add(c.ID, verdict.Unknown, "")
		}
	}
	return clean(d.Node.Name, maxName), found, nil
}
