// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/probes"
)

func TestFactsSurviveJSON(t *testing.T) {
	in := input(t, "rate-degraded")
	f := Collect(in)
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseFacts(data)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := markdownOf(t, f.Document(nil)), markdownOf(t, again.Document(nil)); a != b {
		t.Errorf("the report differs after JSON:\n%s", b)
	}
}

func TestCompared(t *testing.T) {
	before, now := Collect(input(t, "rate-degraded")), Collect(input(t, "healthy"))
	now.At = before.At.Add(time.Hour)
	for i := range now.Results {
		now.Results[i].At = now.Results[i].At.Add(time.Hour)
	}
	before.Node.Simulated, now.Node.Simulated = "", ""
	before.Iteration, now.Iteration = &Iteration{900 * time.Millisecond, 800 * time.Millisecond}, &Iteration{900 * time.Millisecond, 600 * time.Millisecond}
	section := func(of, before *Facts) string {
		md := markdownOf(t, &document.Document{Sections: []document.Section{of.compared(before)}})
		return md
	}
	contains := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("lacks %q:\n%s", w, got)
			}
		}
	}
	contains(section(now, before), "It is of the same node.", "**No longer found:** port_rate (mlx5_6)", "mlx5_6 port 1", "200 Gb/s", "-25.0 %", "slowest +99.9 %")
	contains(section(before, now), "It is newer than this one", "**New:**")
	contains(section(now, now), "the same run: it was not measured again")
	other := Collect(input(t, "healthy-ib"))
	other.Node.Simulated = ""
	contains(section(now, other), "**It is of another node**", "no RDMA device in common")
	renamed := *before
	renamed.Node.Name = "gpu-99"
	contains(section(now, &renamed), "same node under another name (`gpu-99`)")
	renamed.Node.GUIDs = nil
	contains(section(now, &renamed), "**It is of another node** (`gpu-99`), by the name")
	simulated := *before
	simulated.Node.Simulated = "rate-degraded"
	contains(section(now, &simulated), "the scenario rate-degraded")
	fewer := *before
	fewer.Results = slices.Clone(fewer.Results)
	for i := range fewer.Results {
		fewer.Results[i].Bytes = 1 << 10
	}
	contains(section(now, &fewer), "not comparable")
}

// A port of the earlier report that is gone is the first issue, unless the earlier report is of another node
// or devices only have other names.
func TestGoneSinceReport(t *testing.T) {
	without := func(f *Facts) {
		f.Ports = slices.DeleteFunc(f.Ports, func(p Port) bool { return p.Device == "mlx5_3" })
		f.Node.GUIDs = f.Node.GUIDs[1:]
		f.Results = slices.DeleteFunc(f.Results, func(r Result) bool { return r.Device == "mlx5_3" })
	}
	renamed := func(f *Facts) {
		for i := range f.Ports {
			f.Ports[i].Device = "r" + f.Ports[i].Device
		}
	}
	for name, c := range map[string]struct {
		edit func(before, now *Facts)
		gone bool
	}{
		"gone":            {func(_, now *Facts) { without(now) }, true},
		"added":           {func(before, _ *Facts) { without(before) }, false},
		"renamed":         {func(_, now *Facts) { renamed(now) }, false},
		"another node":    {func(before, now *Facts) { without(now); before.Node.GUIDs = []string{"x"} }, false},
		"newer":           {func(before, now *Facts) { without(now); before.At = now.At.Add(time.Hour) }, false},
		"moved to a pod":  {func(_, now *Facts) { at(now, "mlx5_3").Port = 0 }, false},
		"another rate":    {func(_, now *Facts) { at(now, "mlx5_3").Rate = new(25e9) }, false},
		"a tiny result":   {func(before, _ *Facts) { before.Results[0].BusBW = new(1e-300) }, false},
		"nothing changed": {func(_, _ *Facts) {}, false},
	} {
		before, now := Collect(input(t, "healthy")), Collect(input(t, "healthy"))
		c.edit(before, now)
		md := markdownOf(t, now.Document(before))
		if got := strings.Contains(md, "1 issue found (1 critical); the worst: `mlx5_3`: [RDMA ports of the earlier report are gone](#issue-1)."); got != c.gone {
			t.Errorf("%s: gone %t", name, got)
		}
		if c.gone && !strings.Contains(md, "**Measured only in the earlier report:** rail mlx5_3 port 1.") || c.gone && !strings.Contains(md, "| none | gone |") {
			t.Errorf("%s: %.4000s", name, md)
		}
		if strings.Contains(md, "+Inf") || strings.Contains(md, "-0.0 %") {
			t.Errorf("%s: a change is no number", name)
		}
		if name == "another rate" && !strings.Contains(md, "| mlx5_3 port 1 | 400 Gb/s | 200 Gb/s | changed |") {
			t.Errorf("%.4000s", md)
		}
	}
}

func at(f *Facts, device string) *Port {
	return &f.Ports[slices.IndexFunc(f.Ports, func(p Port) bool { return p.Device == device })]
}

func TestStrangeFacts(t *testing.T) {
	good, err := json.Marshal(Collect(input(t, "healthy-cpu-node")))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ in, want string }{
		"empty":         {"", "not the JSON of a report"},
		"text":          {"# NCCL report", "not the JSON of a report"},
		"of check":      {`{"verdicts": [], "failed": 0}`, "not the JSON of a report"},
		"other version": {strings.Replace(string(good), `"version":1`, `"version":7`, 1), "version 7: expected version 1"},
		"a bandwidth":   {strings.Replace(string(good), `"results":[]`, `"results":[{"busbw_bytes_per_second": -3}]`, 1), "no probe measures"},
		"a rate":        {strings.Replace(string(good), `"ports":[`, `"ports":[{"rate_bytes_per_second": 1e300},`, 1), "rate that no port has"},
		"an iteration":  {strings.Replace(string(good), `"advice":`, `"iteration":{"before_nanoseconds":0,"after_nanoseconds":1},"advice":`, 1), "not above 0"},
	} {
		if _, err := ParseFacts([]byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
}

// FuzzFacts reads earlier reports that were written by hand: what is read can be written.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(`{"report":"gpufabric_exporter report","version":1,"ports":[{"device":"a|b","roce":{"steps":[{}]}}],"results":[{"kind":"rail","busbw_bytes_per_second":1e9,"link":"TCP"}],"findings":[{"from":"probe"}],"log":{}}`))
	now := &Facts{Results: []Result{{Kind: string(probes.Rail), Link: linkTCP, BusBW: new(1e9), Outcome: string(probes.OK)}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		before, err := ParseFacts(data)
		if err != nil {
			return
		}
		for _, d := range []*document.Document{now.Document(before), before.Document(nil)} {
			markdownOf(t, d)
			htmlOf(t, d)
		}
	})
}
