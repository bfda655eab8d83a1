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
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
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

// Who is wrong is named; what is right has one 0 for each check.
func TestCheckSeries(t *testing.T) {
	n := scenarioNode(t, "port-down")
	lines := checkLines(t, n)
	for _, want := range []string{
		`check_failed{check="port_active",device="mlx5_3",pci_address="",port="1",severity="critical",uuid=""} 1`,
		`check_failed{check="reads_return",device="",pci_address="",port="",severity="critical",uuid=""} 0`,
		`check_failed{check="pcie_link",device="",pci_address="",port="",severity="warning",uuid=""} 0`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing %s in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for _, l := range lines {
		if c := diagnose.Find(strings.Split(l, `"`)[1]); c == nil || c.Rate {
			t.Errorf("%s: no check of state", l)
		}
		if strings.HasPrefix(l, `check_failed{check="port_active"`) && !strings.HasSuffix(l, " 1") {
			t.Errorf("%s: the check fails", l)
		}
	}
	n = scenarioNode(t, "gpu-x8")
	if !slices.ContainsFunc(checkLines(t, n), func(l string) bool {
		return strings.HasPrefix(l, `check_failed{check="pcie_link",device="",pci_address="",port="",severity="warning",uuid="GPU-`) && strings.HasSuffix(l, " 1")
	}) {
		t.Error("no check of a GPU has its UUID")
	}
}

// Whatever the node is like: each subject for which a check fails or is unknown has its series and no other, and a
// check has a 0 exactly when it passes for a subject and fails for none.
func TestCheckSeriesShowTheWorst(t *testing.T) {
	for _, name := range []string{"healthy", "pfc-off", "device-gone", "gpu-lost", "gpu-driver-missing", "healthy-mana", "no-rdma"} {
		n := scenarioNode(t, name)
		n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Source: "/etc/nccl.conf:7", Name: "NCCL_X", Text: "it is ignored"})
		var got []string
		for _, f := range CheckFamilies(diagnose.Run(n, nil), now) {
			for _, s := range f.Series {
				if f.Name == Prefix+"check_failed" || f.Name == Prefix+"check_unknown" {
					got = append(got, fmt.Sprintf("%s %s %v", strings.TrimPrefix(f.Name, Prefix), strings.Join(s.Labels[:6], "|"), s.Value))
				}
			}
		}
		type subject struct{ check, labels string }
		worst := map[subject]verdict.Status{}
		for _, v := range diagnose.Run(n, nil) {
			port := ""
			if v.Subject.Port != 0 {
				port = strconv.Itoa(v.Subject.Port)
			}
			uuid, address := v.Subject.GPU, ""
			if !strings.HasPrefix(uuid, "GPU-") {
				uuid, address = "", v.Subject.GPU
			}
			check := v.Check.ID + "|" + string(v.Check.Severity)
			of := subject{check, check + "|" + strings.Join([]string{v.Subject.Device, port, uuid, address}, "|")}
			if s := worst[of]; !v.Check.Rate && (s == "" || s == verdict.OK || v.Status == verdict.Failed) {
				worst[of] = v.Status
			}
		}
		var want []string
		passes, fails := map[string]bool{}, map[string]bool{}
		for of, s := range worst {
			switch s {
			case verdict.Failed:
				fails[of.check] = true
				want = append(want, "check_failed "+of.labels+" 1")
			case verdict.Unknown:
				want = append(want, "check_unknown "+of.labels+" 1")
			case verdict.OK:
				passes[of.check] = true
			}
		}
		for check := range passes {
			if !fails[check] {
				want = append(want, "check_failed "+check+"|||| 0")
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the series are\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A check that is unknown for all subjects has no series with the value 0.
func TestChecksThatKnowNothingHaveNoZero(t *testing.T) {
	check := &verdict.Check{ID: "x", Severity: verdict.Warning}
	about := func(device string, s verdict.Status) verdict.Verdict {
		return verdict.Verdict{Check: check, Subject: verdict.Subject{Device: device}, Status: s, Reason: fabric.ReasonStuck}
	}
	of := func(list ...verdict.Verdict) (lines []string) {
		for line := range strings.Lines(text(t, CheckFamilies(list, now))) {
			if strings.Contains(line, "_failed{") {
				lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, Prefix)))
			}
		}
		return lines
	}
	equal(t, of(about("a", verdict.Unknown), about("b", verdict.Unknown)))
	equal(t, of(about("a", verdict.Unknown), about("b", verdict.OK), about("c", verdict.OK)), `check_failed{check="x",device="",pci_address="",port="",severity="warning",uuid=""} 0`)
	equal(t, of(about("", verdict.Failed), about("a", verdict.Unknown), about("b", verdict.OK)), `check_failed{check="x",device="",pci_address="",port="",severity="warning",uuid=""} 1`)
	equal(t, of(about("a", verdict.Unknown), about("a", verdict.OK))) // of two verdicts about one subject the worse one counts
}

// Files are named by users, and may have many lines that are wrong.
func TestFilesDoNotMultiplySeries(t *testing.T) {
	n := nodeOf()
	for i := range 500 {
		n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Source: fmt.Sprintf("/etc/nccl.conf:%d", i), Name: "NCCL_X", Text: "it is ignored"})
	}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/other", Exists: known(true)}, {Path: "/hidden", Exists: fabric.UnknownFact[bool](fabric.ReasonPrivilege, "/hidden", now)}}
	lines := checkLines(t, n)
	lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "nccl_configuration") })
	equal(t, lines, `check_failed{check="nccl_configuration",device="",pci_address="",port="",severity="warning",uuid=""} 1`,
		`check_info{check="nccl_configuration",device="",pci_address="",port="",title="NCCL_X is ignored or misread by NCCL",topic="nccl",uuid=""} 1`)
	n.NCCL.Findings = nil
	lines = slices.DeleteFunc(checkLines(t, n), func(l string) bool { return !strings.Contains(l, "nccl_configuration") })
	equal(t, lines, `check_unknown{check="nccl_configuration",device="",pci_address="",port="",reason="privilege",severity="warning",uuid=""} 1`)
}

func TestCheckFamilies(t *testing.T) {
	families := CheckFamilies(diagnose.Run(scenarioNode(t, "port-down"), nil), now)
	if !slices.IsSortedFunc(families, func(a, b exposition.Family) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted by name")
	}
	if out := text(t, families); !strings.Contains(out, "\ngpufabric_check_timestamp_seconds 1.7e+09\n") || !strings.Contains(out, `gpufabric_check_failed{check="port_active",device="mlx5_3"`) {
		t.Errorf("got\n%s", out)
	}
	if got := CheckFamilies(nil, now); len(got) != 3 {
		t.Errorf("no verdicts make %d families, want how the run went alone", len(got))
	}
}

// BenchmarkChecks is what verdicts cost a scrape of a simulated H100 node of 11 devices and 8 GPUs: what
// gives them, and what makes series of them.
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

// All sources have a number, or none has: what could not be read is not 0.
func TestJudgedBySeries(t *testing.T) {
	judged := func(n *fabric.Node) []string {
		return slices.DeleteFunc(linesOf(t, n, "check"), func(line string) bool { return !strings.HasPrefix(line, "node_judged_by") })
	}
	n := scenarioNode(t, "healthy")
	want := []string{
		`node_judged_by{source="configuration"} 0`, `node_judged_by{source="manifest"} 0`, `node_judged_by{source="nccl_ib_hca"} 8`,
		`node_judged_by{source="profile"} 0`, `node_judged_by{source="record"} 0`,
	}
	if got := judged(n); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %v", got)
	}
	hidden := n.Copy()
	hidden.HCAs[0].Ports = nil
	for name, n := range map[string]*fabric.Node{"hidden": hidden, "no port": scenarioNode(t, "no-rdma")} {
		if got := judged(n); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Alerts that call a port or a node short are critical: they get numbers that a source states and that the
// node met once, never guesses.
func TestExpectedSeries(t *testing.T) {
	expected := func(n *fabric.Node) string {
		var list []string
		for line := range strings.Lines(scrape(t, n)) {
			if strings.HasPrefix(line, Prefix) && strings.Contains(line, "_expected") && !strings.Contains(line, "link_expected") { // TestAlertsAgreeWithChecks
				list = append(list, strings.TrimSpace(strings.TrimPrefix(line, Prefix)))
			}
		}
		slices.Sort(list)
		return strings.Join(list, "\n")
	}
	rate := func(of string) string {
		return `hca_port_expected_rate_bytes_per_second{device="mlx5_0",port="1"} ` + of + "\n" + `hca_port_expected_rate_bytes_per_second{device="mlx5_1",port="1"} ` + of
	}
	const ports = "\nnode_compute_ports_expected 2"
	for name, c := range map[string]struct {
		edit func(n *fabric.Node)
		want string
	}{
		"record": {func(*fabric.Node) {}, rate("5e+10")},
		"other ports are faster": {func(n *fabric.Node) {
			n.HCAs[0].Ports[0].Seen, n.HCAs[0].Ports[0].Rate.Value.BytesPerSecond, n.NetDevs[0].Speed.Value = fabric.PortHistory{}, 25e9, 25e9
		}, rate("5e+10")[strings.Index(rate("5e+10"), "\n")+1:]},
		"configuration": {func(n *fabric.Node) {
			n.Policy.ComputePorts, n.Policy.PortRates = new(2), map[fabric.Role]float64{fabric.RoleCompute: 100e9}
		}, rate("1e+11") + ports},
		"for roles that are guesses": {func(n *fabric.Node) {
			n.Policy.Roles, n.Policy.PortRates = nil, map[fabric.Role]float64{fabric.RoleCompute: 100e9}
		}, ""},
		"never met": {func(n *fabric.Node) {
			n.Policy.ComputePorts, n.Policy.PortRates = new(2), map[fabric.Role]float64{fabric.RoleCompute: 100e9}
			n.NeverMet = n.Policy.Expectations()
		}, rate("5e+10")},
	} {
		n := fabrictest.Healthy()
		c.edit(n)
		n.DerivePorts()
		if got := expected(n); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, c.want)
		}
	}
}

func TestProfileSeries(t *testing.T) {
	n := scenarioNode(t, "healthy").Copy()
	for _, want := range []string{"", `node_profile_info{profile="rack-a"} 1`} {
		got := slices.DeleteFunc(linesOf(t, n, "check"), func(line string) bool { return !strings.HasPrefix(line, "node_profile_info") })
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %q", got, want)
		}
		n.Profile = &fabric.Profile{Name: "rack-a"}
	}
}
