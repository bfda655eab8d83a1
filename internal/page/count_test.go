// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/report"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/simulator/stage"
	"gpufabric_exporter/internal/verdict"
)

// The page and the report of one observation count the same problems: of the node, of probes and of jobs.
func TestPageAndReportCountTheSame(t *testing.T) {
	on := stage.New(t)
	for name, want := range map[string]string{
		"healthy":            "No problems found",
		"healthy-efa":        "No problems found; the state of 32 ports is unknown",
		"job-tcp":            "1 problem found",
		"job-tcp-hidden":     "Possible problem in 1 job",
		"job-misaligned":     "3 problems found",
		"no-rdma":            "1 problem found",
		"peermem-missing":    "1 problem found",
		"probe-gdr-lost":     "1 problem found",
		"probe-slow":         "1 problem found",
		"probe-tcp-fallback": "1 problem found",
		"probe-wrong-result": "1 problem found",
		"pfc-off":            "1 problem found",
		"nccl-rdma-off":      "1 problem found",
		"device-gone":        "1 problem found",
		"fabric-manager-off": "1 problem found",
		"gid-index-pinned":   "1 problem found",
		"job-mixed":          "Possible problem in 1 job",
		"job-tcp-no-devices": "2 problems found",
		"nccl-deprecated":    "2 problems found",
		"nvlink-down":        "1 problem found",
		"pcie-acs-on":        "1 problem found",
		"pfc-storm":          "1 problem found",
		"probe-failing":      "1 problem found",
		"rate-mismatch":      "1 problem found",
		"statistics-refused": "No problems found in the facts that could be read",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := simulator.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			nodes := simulatortest.WatchOn(t, on, s, 0, 15)
			n := nodes[1]
			l := pageFrom(t, t, s, n)
			l.Collectors.Jobs(nodes[0]) // jobs are judged by two readings
			d, _ := l.read(n)
			if got := d.Verdict.Text; !strings.HasPrefix(got, want) {
				t.Errorf("the page says %q, expected %q", got, want)
			}
			jobs, _ := l.Collectors.Jobs(n)
			history := past(t, s, n)
			f := report.Collect(&report.Input{Node: n, Config: config.Config{}, Verdicts: diagnose.Run(n, nil), Jobs: jobs, Results: history.Results()})
			counted := 0
			for i := range f.Findings {
				if f.Findings[i].Cause == "" {
					counted++
				}
				if f.Findings[i].ID == "probe_slow" && name == "probe-gdr-lost" {
					t.Error("the report lists the collapse beside the loss of GPUDirect RDMA that makes it")
				}
			}
			if name == "probe-gdr-lost" && (d.Troubles[0].Severity != string(verdict.Critical) || f.Findings[0].Severity != string(verdict.Critical)) {
				t.Errorf("%s on the page, %s in the report: the bandwidth has collapsed", d.Troubles[0].Severity, f.Findings[0].Severity)
			}
			number, _, _ := strings.Cut(want, " ")
			if shown := map[string]int{"No": 0, "Possible": 1, "1": 1, "2": 2, "3": 3}[number]; counted != shown {
				t.Errorf("the report has %d issues, the page %q", counted, want)
			}
		})
	}
}
