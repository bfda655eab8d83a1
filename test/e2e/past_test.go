// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// remember writes two hours of history into Prometheus for each job that an alert compares with its own past: the bus
// bandwidth that the node shows when its fault begins, and the rule that the alert reads. Prometheus does not run yet.
func remember(t *testing.T, programs, dir string, nodes []*node) {
	t.Helper()
	now := time.Now()
	var text strings.Builder
	since := func(age, step time.Duration, series string, value float64) {
		for ; age > 0; age -= step {
			fmt.Fprintf(&text, "%s %g %d\n", series, value, now.Add(-age).Unix())
		}
	}
	for _, n := range nodes {
		if n.fault == nil || !n.fault.past {
			continue
		}
		ruled := map[string]bool{}
		for _, s := range shown(t, n.fault.scenario) {
			labels := fmt.Sprintf("instance=%q,job=\"gpufabric\"", n.instance)
			since(15*time.Minute, scrape, fmt.Sprintf("gpufabric_job_bus_bandwidth_bytes_per_second{%s,%s,%s}", s.labels, s.uuid, labels), s.value)
			if !ruled[s.labels] {
				ruled[s.labels] = true
				since(2*time.Hour, 2*time.Minute, fmt.Sprintf("instance:gpufabric_job_bus_bandwidth:min10m{%s,%s}", s.labels, labels), s.value)
			}
		}
	}
	if text.Len() == 0 {
		return
	}
	file := write(t, filepath.Join(dir, "past"), text.String()+"# EOF\n")
	out, err := exec.Command(filepath.Join(programs, "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, filepath.Join(dir, "data")).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool tsdb create-blocks-from openmetrics: %v\n%s", err, out)
	}
}

// bandwidth is what an exporter shows of one GPU of a job.
type bandwidth struct {
	labels, uuid string
	value        float64
}

// shown returns the bus bandwidths that the golden metrics of a scenario have, which are those of its first second.
func shown(t *testing.T, scenario string) []bandwidth {
	t.Helper()
	golden := filepath.Join("../../collector/testdata", scenario+".diff")
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var all []bandwidth
	for _, m := range regexp.MustCompile(`(?m)^\+ gpufabric_job_bus_bandwidth_bytes_per_second\{(.*),(uuid=".*?")\} (.*)$`).FindAllStringSubmatch(string(raw), -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
		all = append(all, bandwidth{m[1], m[2], value})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no bus bandwidth of a job", golden)
	}
	return all
}
