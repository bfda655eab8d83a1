// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/demo"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/document"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/status"
	"gpufabric_exporter/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files")

// input is that of a simulated node, at a time that is always the same.
func input(t *testing.T, scenario string) *Input {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	n := simulatortest.Watch(t, s, 0)[0]
	c, err := config.Parse("scenario "+scenario, []byte(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	built := s.Build()
	in := &Input{Program: "gpufabric_exporter test", Name: built.Host.Name, Simulated: scenario, Node: n, Config: c, ResultsFrom: "simulated", Jobs: job.Jobs{Known: true}}
	if len(built.GPUs) > 0 {
		r, err := demo.NewRehearsal(func() simulator.NCCL { return built.NCCL }, s.Healthy())
		if err != nil {
			t.Fatal(err)
		}
		status := r.Past(n, n.At)
		in.Results = status.Results()
	}
	in.judged()
	return in
}

func (in *Input) judged() {
	var checks []*verdict.Check
	for _, c := range diagnose.Catalogue() {
		if !c.Rate {
			checks = append(checks, c)
		}
	}
	in.Verdicts = diagnose.Run(in.Node, checks)
}

func markdownOf(t *testing.T, d *document.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := document.WriteMarkdown(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func htmlOf(t *testing.T, d *document.Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := document.WriteHTML(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The full reports of a broken RoCE node and of a broken InfiniBand node.
func TestGoldenReports(t *testing.T) {
	for _, scenario := range []string{"pfc-off", "ib-rate-degraded"} {
		t.Run(scenario, func(t *testing.T) {
			in := input(t, scenario)
			in.Iteration = &Iteration{812500 * time.Microsecond, 640 * time.Millisecond}
			got := markdownOf(t, Collect(in).Document(nil))
			file := filepath.Join("testdata", scenario+".md")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || string(want) != got {
				t.Errorf("%s differs (go test -update), %v:\n%s", file, err, got)
			}
		})
	}
}

// Every report has all sections, and no placeholder of a value that is missing.
func TestSections(t *testing.T) {
	for _, scenario := range []string{
		"healthy-ib", "healthy-efa", "healthy-cpu-node", "gpu-driver-missing", "moved-to-pod", "healthy-vm-flat", "probe-failing", "healthy-roce-bond",
	} {
		t.Run(scenario, func(t *testing.T) {
			d := Collect(input(t, scenario)).Document(nil)
			md, page := markdownOf(t, d), htmlOf(t, d)
			for _, want := range []string{
				"Executive summary", "Issues found", "Baseline", "Environment", "Optimisations", "Results", "Training iteration", "Log evidence", "What was learned", "References",
			} {
				if !strings.Contains(md, "\n## "+want+"\n") || !strings.Contains(page, ">"+want+"</h2>") {
					t.Errorf("lacks the section %q", want)
				}
			}
			for i := range d.Sections {
				if s := &d.Sections[i]; len(s.Blocks) == 0 && s.Title != "Optimisations" {
					t.Errorf("section %q is empty", s.Title)
				}
			}
			for _, bad := range []string{"%!", "<nil>", "0001-01-01", "NaN", "+Inf", "  unknown: .", ".."} {
				if strings.Contains(strings.ReplaceAll(md, "0..", ""), bad) {
					t.Errorf("has %q:\n%s", bad, md)
				}
			}
		})
	}
}

// What was measured is in the report, and what was not says so with the command that measures it.
func TestResults(t *testing.T) {
	for scenario, want := range map[string][]string{
		"healthy":            {"No issue was found", "RoCE v2 with GPUDirect RDMA", "| InfiniBand | not on this node |", "No step is needed"},
		"healthy-ib":         {"| RoCE v2 | not on this node |", "In a probe, NCCL used InfiniBand with GPUDirect RDMA", "NCCL\\_IB\\_GID\\_INDEX", "Differences from RoCE"},
		"probe-slow":         {"`probe_slow` was measured on `rail mlx5_6 port 1`, and no check explains it", "the worst: `rail mlx5_6 port 1`"},
		"probe-tcp-fallback": {"The NCCL probe goes over TCP (critical)", "In a probe, NCCL used TCP", "`rail mlx5_1 port 1` and 6 more: [the NCCL probe", "| RoCE v2 | not measured |  | the rail probes went over TCP |"},
		"rate-degraded":      {"**Measured:** rail mlx5_6 port 1: 2", "The port runs at 200 Gb/s, but 400 Gb/s is expected"},
		"no-rdma":            {"no visible RDMA port for training", "GPUDirect RDMA"},
		"healthy-cpu-node":   {"no visible GPU", "| Bandwidth over TCP | not measured | no probe runs here: it has no GPU |", "NCCL does not run on this node: it has no GPU"},
		"healthy-efa":        {"| Transport between nodes | network plugin AWS Libfabric with GPUDirect RDMA |", "NCCL selects no GID of EFA ports"},
	} {
		t.Run(scenario, func(t *testing.T) {
			md := markdownOf(t, Collect(input(t, scenario)).Document(nil))
			for _, w := range want {
				if !strings.Contains(md, w) && !strings.Contains(md, strings.ReplaceAll(w, `\_`, "_")) {
					t.Errorf("lacks %q:\n%s", w, md)
				}
			}
		})
	}
	in := input(t, "pfc-off")
	in.Results, in.ResultsNote = nil, "The exporter keeps no results"
	md := markdownOf(t, Collect(in).Document(nil))
	for _, w := range []string{
		"Which transport NCCL uses was not measured (`gpufabric_exporter probe transport`).", "No bandwidth was measured.", "The exporter keeps no results.",
		"| TCP | not measured | measure it: `gpufabric_exporter probe socket` |", "| RoCE v2 | not measured | measure it: `gpufabric_exporter probe rail` |",
		"| NVLink | not measured | measure it: `gpufabric_exporter probe node` |", "**Measured:** not yet: `gpufabric_exporter probe rail` shows the effect.",
	} {
		if !strings.Contains(md, w) {
			t.Errorf("without results it lacks %q:\n%s", w, md)
		}
	}
	if strings.Contains(md, "GB/s (") || strings.Contains(md, " 0.00 GB/s") {
		t.Errorf("has a bandwidth that was not measured:\n%s", md)
	}
}

// A report has no step that cannot be taken on the node, and no column, table or sentence about what the node lacks.
func TestOnlyWhatApplies(t *testing.T) {
	for scenario, without := range map[string][]string{
		"healthy-cpu-node": {"gpufabric_exporter probe", "Traffic class", "The section RoCE v2", "| Slowest |", "No setting does better"},
		"healthy-ib":       {"The section RoCE v2", "remedies for what is blocked", "worst verdict", "NCCL version` is not decided"},
		"healthy-efa":      {"| Selected |", "| other |", "NCCL's network: AWS"},
		"healthy":          {"worst verdict", "13.0. |"},
	} {
		md := markdownOf(t, Collect(input(t, scenario)).Document(nil))
		for _, w := range without {
			if strings.Contains(md, w) {
				t.Errorf("%s has %q:\n%s", scenario, w, md)
			}
		}
	}
}

// Nothing of a node that could not be read counts as right, or as a number.
func TestUnreadableNode(t *testing.T) {
	in := input(t, "healthy")
	unread := *in.Node
	unread.HCAs, unread.PCI, unread.GPUDriver, unread.GDR = slices.Clone(unread.HCAs), fabric.PCI{}, fabric.GPUDriver{}, nil
	for i := range unread.HCAs {
		h := &unread.HCAs[i]
		*h = fabric.HCA{Name: h.Name, Ports: []fabric.Port{{Number: 1}}}
	}
	in.Node = &unread
	in.Results = nil
	in.judged()
	f := Collect(in)
	md := markdownOf(t, f.Document(nil))
	if strings.Contains(md, "No step is needed") || strings.Contains(md, "not on this node |") || !strings.Contains(md, "no all-clear") {
		t.Errorf("an unreadable node has %d gaps:\n%s", len(f.Unknown), md)
	}
	for i := range f.Ports {
		if p := &f.Ports[i]; p.Rate != nil || !isUnknown(p.State) || !isUnknown(p.Role) {
			t.Errorf("port %+v", p)
		}
	}
}

func TestOfManyDevices(t *testing.T) {
	in := input(t, "healthy-128-ports")
	f := Collect(in)
	d := f.Document(f)
	md, page := markdownOf(t, d), htmlOf(t, d)
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ports: Markdown %d bytes, HTML %d, JSON %d", len(f.Ports), len(md), len(page), len(data))
	if len(md) > 64<<10 || len(page) > 128<<10 || len(data) > 1<<20 {
		t.Errorf("too large: Markdown %d bytes, HTML %d, JSON %d", len(md), len(page), len(data))
	}
	if len(f.Ports) < 128 || !strings.Contains(md, "more rows") {
		t.Errorf("%d ports, of which not all are shown:\n%s", len(f.Ports), md)
	}
}

func TestHostileNames(t *testing.T) {
	plain := input(t, "pcie-nic-gen3")
	plain.Log, plain.LogFile = nil, ""
	build := func(name string) (md, page string) {
		f := Collect(plain)
		for i := range f.Ports {
			p := &f.Ports[i]
			p.Device, p.Interface, p.Firmware, p.GIDWhy, p.GID = name, name, name, name, name
			if p.RoCE != nil {
				p.RoCE.Interface, p.RoCE.Class = name, name
			}
		}
		for i := range f.GPUs {
			f.GPUs[i].Name, f.GPUs[i].Model = name, name
		}
		for i := range f.Settings {
			f.Settings[i] = status.Variable{Name: name, Value: name, Source: name}
		}
		for i := range f.GIDs {
			f.GIDs[i].Device, f.GIDs[i].Interface = name, name
		}
		for i := range f.Findings {
			v := &f.Findings[i]
			v.Subjects, v.What, v.Causes, v.Seen, v.Evidence, v.Remedy, v.Runbook, v.Devices = []string{name}, name, []string{name}, []string{name}, name, name, name, []string{name}
			v.Remedies = []string{name, name}
		}
		for i := range f.Results {
			r := &f.Results[i]
			r.Device, r.Network, r.Error, r.Source, r.NCCL = name, name, name, name, name
		}
		f.Node.Name, f.Note, f.Configuration, f.ResultsNote = name, name, name, name
		f.Log = &Log{File: name, Connections: name, Undecided: name}
		d := f.Document(f)
		return markdownOf(t, d), htmlOf(t, d)
	}
	md, page := build("x")
	lines, tags := strings.Count(md, "\n"), strings.Count(page, "<")
	for _, name := range []string{"a|b", "a\nb\n# c", "<script>alert(1)</script>", "](javascript:alert(1))", "\x1b[31mx", "\xff|\u2028", "`|`", strings.Repeat("A", 1<<16)} {
		md, page := build(name)
		if l, n := strings.Count(md, "\n"), strings.Count(page, "<"); l != lines || n != tags {
			t.Errorf("%.20q: %d lines of Markdown and %d tags of HTML, expected %d and %d", name, l, n, lines, tags)
		}
		if strings.Contains(md, "\x1b") || strings.Contains(page, "\x1b") || len(md) > 1<<20 || len(page) > 2<<20 {
			t.Errorf("%.20q: an escape sequence is left, or %d and %d bytes are too many", name, len(md), len(page))
		}
	}
}

// A measured loss without GPUDirect RDMA has the cause that the node itself shows, and is none where the distance is by design.
func TestBlockedGPUDirectExplainsProbes(t *testing.T) {
	for scenario, want := range map[string][]string{
		"gdr-level-loc": {"NCCL_NET_GDR_LEVEL of the host", "cause: gpudirect_usable"},
		"healthy-l40s":  nil,
	} {
		t.Run(scenario, func(t *testing.T) {
			f := Collect(input(t, scenario))
			found := 0
			for i := range f.Findings {
				v := &f.Findings[i]
				if v.From != fromProbe {
					continue
				}
				found++
				for _, w := range want {
					if got := strings.Join(v.Causes, " ") + " cause: " + v.Cause; !strings.Contains(got, w) {
						t.Errorf("%s: got %q, want %q in it", v.ID, got, w)
					}
				}
			}
			if (found > 0) != (want != nil) {
				t.Errorf("%d findings of probes", found)
			}
			if page := markdownOf(t, f.Document(nil)); strings.Contains(page, "no check explains it") {
				t.Error("the report says that nothing on the node explains the probes")
			}
		})
	}
}

func TestLower(t *testing.T) {
	for s, want := range map[string]string{
		"The port is down": "the port is down", "RoCE packets": "RoCE packets", "NVLink 3": "NVLink 3", "InfiniBand": "InfiniBand",
		"Xid 79": "Xid 79", "GPU0 is lost": "GPU0 is lost", "A GPU": "a GPU", "": "",
	} {
		if got := document.Lower(s); got != want {
			t.Errorf("document.Lower(%q) is %q, want %q", s, got, want)
		}
	}
}

func TestMarked(t *testing.T) {
	d := Collect(input(t, "gid-roce-v1-only")).Document(nil)
	contains := "To find out: run `gpufabric_exporter check --only=gid_usable`."
	if page := markdownOf(t, d); !strings.Contains(page, contains) || strings.Contains(page, "\\`") {
		t.Errorf("want %q and no escaped backtick in:\n%s", contains, page)
	}
}

// The root cause is the one that the verdict shows, where the check has several.
func TestRootCause(t *testing.T) {
	for scenario, want := range map[string]string{
		"gdr-level-loc":     "NCCL_NET_GDR_LEVEL or an option",
		"gdr-override":      "NCCL_NET_GDR_LEVEL or an option",
		"iommu-translating": "An IOMMU translates",
		"pfc-off":           "PFC is off on the priority of RoCE",
		"nccl-tc-5":         "NCCL ignores or misreads a line",
		"gid-missing":       "A RoCE port has no routable RoCE v2 address",
		"gid-roce-v1-only":  "A RoCE port has no routable RoCE v2 address",
		"gid-index-pinned":  "NCCL_IB_GID_INDEX selects an entry by its place",
	} {
		t.Run(scenario, func(t *testing.T) {
			f := Collect(input(t, scenario))
			if len(f.Findings) == 0 || len(f.Findings[0].Causes) != 1 || !strings.HasPrefix(f.Findings[0].Causes[0], want) {
				t.Errorf("expected the root cause %q: %+v", want, f.Findings)
			}
		})
	}
}

// What no check judges keeps a report from being an all-clear: ports for training that are not there, and
// GPUDirect RDMA in a virtual machine.
func TestUnprovenIsNoAllClear(t *testing.T) {
	in := input(t, "healthy")
	in.Node.Policy.ComputePorts = nil
	for i := range in.Node.HCAs {
		in.Node.HCAs[i].Ports[0].Role = fabric.Known(fabric.RoleStorage, "", in.Node.At)
	}
	for i := range in.Node.GDR {
		in.Node.GDR[i].Usable = fabric.AbsentFact[bool]("", in.Node.At)
	}
	in.Verdicts, in.Results = nil, nil
	md := markdownOf(t, Collect(in).Document(nil))
	for _, want := range []string{"this is no all-clear", "No port for training was found. A job over several nodes would use TCP", "state expected.compute_ports", "0 passed, 1 unknown"} {
		if !strings.Contains(md, want) {
			t.Errorf("lacks %q:\n%.3000s", want, md)
		}
	}
	if strings.Contains(md, "No step is needed") {
		t.Error("no step is needed")
	}
}

// A cell that a finding is about has its colour; one that is down by design has none, and what is known of PFC is said.
func TestCellsOfFindings(t *testing.T) {
	in := input(t, "port-down")
	page := htmlOf(t, Collect(in).Document(nil))
	for _, want := range []string{`<td class="bad">down</td>`, `not judged: port down`, `<td class="bad">critical: `, `<h3 id="issue-1">`, `href="#issue-1"`} {
		if !strings.Contains(page, want) {
			t.Errorf("lacks %s", want)
		}
	}
	in.Verdicts, in.Results = nil, nil
	if page := htmlOf(t, Collect(in).Document(nil)); strings.Contains(page, `class="bad"`) {
		t.Error("what no finding is about is red")
	}
	r := RoCE{Mode: "unknown", Steps: []Step{{Name: "pfc", Status: "ok"}, {Name: "ecn notification", Status: "unknown"}}}
	if got := r.modeText(); got != "ECN unknown" {
		t.Errorf("mode %q", got)
	}
}
