// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"
	"sync"

	"gpufabric_exporter/internal/diagnose/gpu"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/diagnose/roce"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// usual is how many verdicts a check gives on a node of eight devices and GPUs, about: each scrape runs all checks.
const usual = 12

// Run runs all checks, or those of the given list, and returns every verdict: what failed first, the worst before the
// rest, then what is unknown, then what is right.
func Run(n *fabric.Node, checks []*verdict.Check) []verdict.Verdict {
	if checks == nil {
		checks = catalogue()
	}
	v := verdict.Collect(n, usual*len(checks))
	for _, c := range checks {
		v.Ask(c)
	}
	temper(n, v.List)
	verdict.Sort(v.List)
	follow(n, v.List)
	return v.List
}

// Find returns the check with that ID, or nil. It is the same one each time.
func Find(id string) *verdict.Check {
	for _, c := range allChecks() {
		if strings.EqualFold(c.ID, id) {
			return c
		}
	}
	return nil
}

// Checks returns the checks with these IDs (Check*). It panics without one of them: a check that is renamed
// must not drop out.
func Checks(ids ...string) []*verdict.Check {
	list := make([]*verdict.Check, len(ids))
	for i, id := range ids {
		if list[i] = Find(id); list[i] == nil {
			panic("no check " + id)
		}
	}
	return list
}

// Catalogue returns every check, by topic: the same ones each time. The rows are read-only; the list is the caller's.
func Catalogue() []*verdict.Check { return slices.Clone(catalogue()) }

// catalogue is built once: a check is its own identity to those who remember what it found.
var catalogue = sync.OnceValue(func() []*verdict.Check {
	return slices.Concat(node.Checks(), port.Checks(), roce.Checks(), gpu.Checks(), nccl.Checks(), node.ManifestChecks())
})

// allChecks are those of the catalogue, and those of the place where a job runs.
var allChecks = sync.OnceValue(func() []*verdict.Check { return slices.Concat(catalogue(), nccl.InsideChecks()) })
