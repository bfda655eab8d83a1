// SPDX-License-Identifier: Apache-2.0

package simulatortest

import (
	"os"

	"gpufabric_exporter/internal/simulator"
)

// Kinds returns, in their order, the scenarios that have something which none before them has. FULL=1: all of them.
func Kinds(has func(simulator.Scenario) []string) (some []simulator.Scenario) {
	seen := map[string]bool{}
	for _, s := range simulator.Scenarios() {
		fresh := os.Getenv("FULL") != ""
		for _, what := range has(s) {
			fresh = fresh || !seen[what]
			seen[what] = true
		}
		if fresh {
			some = append(some, s)
		}
	}
	return some
}

// Layout is what the files of a scenario depend on: its platform, and whether jobs run.
func Layout(s simulator.Scenario) []string {
	of := []string{"platform " + s.Platform}
	if len(s.Jobs) > 0 {
		of = append(of, "jobs")
	}
	return of
}

// Fault is what is wrong in a scenario, and what its files depend on.
func Fault(s simulator.Scenario) []string {
	of := Layout(s)
	for _, f := range s.Expect {
		of = append(of, f.What)
	}
	for _, f := range s.GPUs {
		of = append(of, f.What)
	}
	for _, f := range s.Probed {
		of = append(of, "probe: "+f.What)
	}
	return of
}
