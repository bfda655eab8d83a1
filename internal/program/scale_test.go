// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"
)

// Rows of the tables of docs/SCALE.md: kind of node, scenario, series, those of probes; and number of nodes,
// scenario, series, samples per second every 15 s and every 30 s.
var (
	nodeRow  = regexp.MustCompile("(?m)^\\| [^|]+ \\| `(healthy[a-z0-9-]*)` \\| ([0-9,]+) \\| ([0-9,]+) \\| [0-9.]+ [kM]B, ")
	fleetRow = regexp.MustCompile("(?m)^\\| ([0-9,]+) \\| `(healthy[a-z0-9-]*)` \\| ([0-9,]+) \\| ([0-9,]+) \\| ([0-9,]+) \\|$")
)

// TestScaleDocument compares the numbers of series in docs/SCALE.md with what simulated nodes expose.
func TestScaleDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	text, err := os.ReadFile("../../docs/SCALE.md")
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	isNear := func(documented string, measured float64) bool {
		n := number(documented)
		return n >= 0.9*measured && n <= 1.1*measured
	}
	near := func(what, documented string, measured float64) {
		if !isNear(documented, measured) {
			t.Errorf("docs/SCALE.md: %s: %s, and it is %.0f: write what it is", what, documented, measured)
		}
	}
	series := map[string]float64{}
	for _, m := range nodeRow.FindAllStringSubmatch(string(text), -1) {
		scenario, all, ofProbes := m[1], m[2], m[3]
		p := start(t, Options{}, "demo", "--scenario="+scenario)
		p.Ready()
		var probes float64
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // the first results of probes take a while
			series[scenario], probes = count(p)
			if isNear(all, series[scenario]) && isNear(ofProbes, probes) || time.Now().After(end) {
				break
			}
		}
		p.Stop()
		near(scenario+", series", all, series[scenario])
		near(scenario+", series of probes", ofProbes, probes)
	}
	rows := fleetRow.FindAllStringSubmatch(string(text), -1)
	if len(series) < 3 || len(rows) < 15 {
		t.Fatalf("docs/SCALE.md has %d nodes and %d rows of fleets", len(series), len(rows))
	}
	for _, m := range rows {
		all := number(m[1]) * series[m[2]]
		near(m[1]+" nodes of "+m[2]+", series", m[3], all)
		near(m[1]+" nodes of "+m[2]+", samples per second every 15 s", m[4], all/15)
		near(m[1]+" nodes of "+m[2]+", samples per second every 30 s", m[5], all/30)
	}
}

// count returns the number of series that the exporter exposes, and of those of probes.
func count(p *commandtest.Serving) (all, ofProbes float64) {
	_, body, _ := p.Get("/metrics")
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			all++
		}
		if strings.HasPrefix(line, "gpufabric_probe_") {
			ofProbes++
		}
	}
	return all, ofProbes
}
