// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/lint"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

func observed(t *testing.T, scenario string) *fabric.Node {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return simulatortest.Watch(t, s, 0)[0]
}

func release(t testing.TB, s string) lint.Version {
	t.Helper()
	v, err := fabric.ParseNCCLVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// suggestions are the settings as lint writes them.
func suggestions(a Advice) []lint.Suggestion {
	var list []lint.Suggestion
	for _, s := range a.Settings {
		list = append(list, lint.Suggestion{Name: s.Name, Value: s.Value, Reason: s.Reason, Source: s.Source})
	}
	return list
}

// Lint finds no fault with the advice for any simulated node and release, in any format. Everything has a reason and a source.
func TestAdviceIsClean(t *testing.T) {
	seen := map[string]bool{}
	for _, scenario := range simulator.Scenarios() {
		node := simulatortest.Watch(t, scenario, 0)[0]
		for _, version := range []string{"2.18.1", "2.21.5", lint.Newest().String()} {
			a := For(node, Workload{NCCL: release(t, version)})
			whole(t, a)
			formats := []lint.Format{lint.FormatConf}
			if key := version + lines(a); !seen[key] {
				seen[key], formats = true, lint.Formats()[1:]
			}
			for _, format := range formats {
				clean(t, a, format, node)
			}
			if t.Failed() {
				t.Fatalf("scenario %s, NCCL %s", scenario.Name, version)
			}
		}
	}
}

// whole tests that nothing in the advice lacks its words.
func whole(t *testing.T, a Advice) {
	t.Helper()
	for _, s := range a.Settings {
		if s.Reason == "" || s.Source == "" || s.Value == "" || s.Change == "" {
			t.Errorf("%+v: something is empty", s)
		}
	}
	for _, l := range a.Leave {
		if l.Reason == "" || l.Source == "" {
			t.Errorf("%+v: no reason or no source", l)
		}
	}
	for _, o := range a.Unknown {
		if o.Name == "" || o.Reason == "" || o.Ask == "" {
			t.Errorf("%+v: something is empty", o)
		}
	}
	for _, e := range a.Estimates {
		if e.Basis == "" || e.Ring == nil || e.Tree == nil || !(*e.Ring > 0) || !(*e.Tree > 0) {
			t.Errorf("%+v: no basis or no time", e)
		}
	}
}

func clean(t *testing.T, a Advice, format lint.Format, node *fabric.Node) {
	t.Helper()
	var b bytes.Buffer
	if err := lint.WriteSuggestions(&b, suggestions(a), format); err != nil {
		t.Fatal(err)
	}
	in, err := lint.Parse("advice", b.Bytes(), format)
	if err != nil {
		t.Fatalf("%s: %v:\n%s", format, err, &b)
	}
	result := lint.Judge([]lint.Input{in}, release(t, a.NCCL), lint.WithVariables(node, nil))
	var read []string
	for _, l := range result.Lines {
		if l.Name != "" {
			read = append(read, l.Name+"="+l.Value)
		}
		for _, f := range l.Findings {
			if f.Severity.AtLeast(diagnose.Warning) {
				t.Errorf("%s: %s=%s: %+v", format, l.Name, l.Value, f)
			}
		}
	}
	var want []string
	for _, s := range a.Settings {
		want = append(want, s.Name+"="+s.Value)
	}
	if !slices.Equal(read, want) {
		t.Errorf("%s: lint reads %q of %q:\n%s", format, read, want, &b)
	}
}

func lines(a Advice) string {
	var b strings.Builder
	for _, s := range a.Settings {
		b.WriteString(string(s.Change) + " " + s.Name + "=" + s.Value + "\n")
	}
	for _, r := range a.Remove {
		b.WriteString("remove " + r.Name + "=" + r.Value + "\n")
	}
	for _, o := range a.Unknown {
		b.WriteString("open " + o.Name + "\n")
	}
	return b.String()
}

// What is wrong with the settings of a broken node is removed or replaced, and what is right is kept.
func TestAdviceMendsSettings(t *testing.T) {
	for scenario, want := range map[string][]string{
		"nccl-tc-5":               {"replace NCCL_IB_TC=106", "remove NCCL_IB_TC=5"},
		"nccl-rdma-off":           {"add NCCL_NET=IB", "remove NCCL_IB_DISABLE=1"},
		"gdr-level-loc":           {"remove NCCL_NET_GDR_LEVEL=LOC"},
		"gid-index-pinned":        {"remove NCCL_IB_GID_INDEX=3"},
		"ipv6-only-family-unset":  {"add NCCL_IB_ADDR_FAMILY=AF_INET6", "keep NCCL_IB_TC=106"},
		"socket-interface-down":   {"remove NCCL_SOCKET_IFNAME==eno2"},
		"healthy-mixed-nics-roce": {"add NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1"},
		"healthy-efa":             {"add NCCL_NET=AWS Libfabric"},
		"device-gone":             {"open NCCL_IB_HCA"},
		"pfc-other-priority":      {"open NCCL_IB_TC"},
		"healthy-roce-vlan":       {"keep NCCL_IB_SL=3"},
		"no-rdma":                 {"open NCCL_IB_HCA"},
	} {
		a := For(observed(t, scenario), Workload{NCCL: lint.Newest()})
		got := strings.Split(lines(a), "\n")
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s: no line %q in\n%s", scenario, line, lines(a))
			}
		}
	}
}
