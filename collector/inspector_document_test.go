// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/simulator"
)

// The example of docs/JOBS.md is what a simulated rank writes, and what its golden file shows of it.
func TestInspectorExample(t *testing.T) {
	const name = "job-inspector"
	s, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for _, l := range s.Build().Logs {
		if strings.Contains(l.Path, "nccl_inspector") {
			line = l.Lines[0].Text
			break
		}
	}
	for _, part := range []string{`"metadata"`, `"coll_perf"`} {
		line = strings.ReplaceAll(line, part, "\n "+part)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", name+".diff"))
	if err != nil {
		t.Fatal(err)
	}
	var metrics strings.Builder
	uuid := ""
	for l := range strings.Lines(string(golden)) {
		l = strings.TrimPrefix(l, "+ ")
		if _, of, found := strings.Cut(l, `uuid="`); found && uuid == "" {
			uuid, _, _ = strings.Cut(of, `"`)
		}
		about := strings.HasPrefix(l, "gpufabric_job_collective") || strings.HasPrefix(l, "gpufabric_job_bus_bandwidth")
		if about && strings.Contains(l, uuid) {
			metrics.WriteString(l)
		}
	}
	document, err := os.ReadFile("../docs/JOBS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"```json\n" + line + "\n```\n", "```\n" + metrics.String() + "```\n"} {
		if !strings.Contains(string(document), want) {
			t.Errorf("docs/JOBS.md lacks this:\n%s", want)
		}
	}
}
