// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

func scenarioNode(t testing.TB, name string) *fabric.Node {
	t.Helper()
	s, err := simulator.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return observeScenario(t, s)
}

// checkLines are the series of checks that a scrape of the node has, without the prefix.
func checkLines(t *testing.T, n *fabric.Node) []string {
	t.Helper()
	return slices.DeleteFunc(linesOf(t, n, "check"), func(line string) bool { return !strings.HasPrefix(line, "check_") })
}

func TestCheckSeries(t *testing.T) {
	n := scenarioNode(t, "port-down")
	lines := checkLines(t, n)
	for _, want := range []string{
		`check_failed{check="port_active",device="mlx5_3",job="",port="1",severity="critical",uuid=""} 1`,
		`check_failed{check="port_active",device="mlx5_2",job="",port="1",severity="critical",uuid=""} 0`,
		`check_failed{check="reads_return",device="mlx5_3",job="",port="",severity="critical",uuid=""} 0`, // the whole device
		`check_failed{check="reads_return",device="",job="",port="",severity="critical",uuid=""} 0`,       // the node
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing %s in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, `check_failed{check="pcie_link",device="",job="",port="",severity="warning",uuid="GPU-`)
	}) {
		t.Error("no check of a GPU has its UUID")
	}
	for _, l := range lines {
		if c := diagnose.Find(strings.Split(l, `"`)[1]); c == nil || c.Rate {
			t.Errorf("%s: no check of state", l)
		}
	}
}

// Every verdict is in the series of its subject, whatever the node is like: what failed is never 0, and what is unknown
// is neither 0 nor 1.
func TestCheckSeriesTellTheWorst(t *testing.T) {
	for _, name := range []string{"healthy", "pfc-off", "device-gone", "gpu-lost", "gpu-driver-missing", "healthy-mana", "no-rdma"} {
		n := scenarioNode(t, name)
		n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Source: "/etc/nccl.conf:7", Name: "NCCL_X", Text: "it is ignored"})
		failed, unknown := map[string]float64{}, map[string]string{}
		for _, f := range CheckFamilies(diagnose.Run(n, nil), now) {
			for _, s := range f.Series {
				switch f.Name {
				case Prefix + "check_failed":
					failed[strings.Join(s.Labels, "|")] = s.Value
				case Prefix + "check_unknown":
					unknown[strings.Join(s.Labels[:6], "|")] = s.Labels[6]
				}
			}
		}
		worst := map[string]diagnose.Status{}
		for _, v := range diagnose.Run(n, nil) {
			port := ""
			if v.Subject.Port != 0 {
				port = strconv.Itoa(v.Subject.Port)
			}
			key := strings.Join([]string{v.Check.ID, string(v.Check.Severity), v.Subject.Device, port, v.Subject.GPU, ""}, "|")
			if s := worst[key]; !v.Check.Rate && (s == "" || s == diagnose.OK || v.Status == diagnose.Failed) {
				worst[key] = v.Status
			}
		}
		if len(worst) != len(failed)+len(unknown) {
			t.Errorf("%s: %d subjects of checks, %d + %d series", name, len(worst), len(failed), len(unknown))
		}
		for key, s := range worst {
			value, told := failed[key]
			switch {
			case s == diagnose.Unknown && (told || unknown[key] == ""),
				s != diagnose.Unknown && (!told || value != bit(s == diagnose.Failed) || unknown[key] != ""):
				t.Errorf("%s: %s is %s, and the series say %v (%v) and %q", name, key, s, value, told, unknown[key])
			}
		}
	}
}

// Files are named by users, and may have many lines that are wrong.
func TestFilesDoNotMultiplySeries(t *testing.T) {
	n := nodeOf()
	for i := range 500 {
		n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Source: fmt.Sprintf("/etc/nccl.conf:%d", i), Name: "NCCL_X", Text: "it is ignored"})
	}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/other", Exists: known(true)}, {Path: "/hidden", Exists: fabric.NotKnown[bool](fabric.ReasonPrivilege, "/hidden", now)}}
	lines := checkLines(t, n)
	lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "nccl_configuration") })
	equal(t, lines, `check_failed{check="nccl_configuration",device="",job="",port="",severity="warning",uuid=""} 1`)
	n.NCCL.Findings = nil
	lines = slices.DeleteFunc(checkLines(t, n), func(l string) bool { return !strings.Contains(l, "nccl_configuration") })
	equal(t, lines, `check_unknown{check="nccl_configuration",device="",job="",port="",reason="privilege",severity="warning",uuid=""} 1`)
}

func TestCheckFamilies(t *testing.T) {
	families := CheckFamilies(diagnose.Run(scenarioNode(t, "pfc-off"), nil), now)
	if !slices.IsSortedFunc(families, func(a, b exposition.Family) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted by name")
	}
	if out := text(t, families); !strings.Contains(out, "\ngpufabric_check_timestamp_seconds 1.7e+09\n") || !strings.Contains(out, `gpufabric_check_failed{check="roce_pfc",device="mlx5_2"`) {
		t.Errorf("got\n%s", out)
	}
	if got := CheckFamilies(nil, now); len(got) != 1 {
		t.Errorf("no verdicts make %d families, want the time alone", len(got))
	}
}

// BenchmarkChecks is what verdicts cost a scrape of a simulated H100 node of 11 devices and 8 GPUs: what gives them, and
// what makes series of them.
func BenchmarkChecks(b *testing.B) {
	n := scenarioNode(b, "healthy")
	set, err := NewSet([]string{"check"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("run", func(b *testing.B) {
		checks := diagnose.Catalogue()
		b.ReportAllocs()
		for b.Loop() {
			diagnose.Run(n, checks)
		}
	})
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			set.Gather(n, ConfigState{})
		}
	})
}
