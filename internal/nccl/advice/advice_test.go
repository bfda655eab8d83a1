// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/simulator/stage"
	"gpufabric_exporter/internal/verdict"
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

// Lint finds no fault with the advice for any simulated node and release, in any format. Everything has a
// reason and a source.
func TestAdviceIsClean(t *testing.T) {
	seen, on := map[string]bool{}, stage.New(t)
	for i, scenario := range simulator.Scenarios() {
		if testing.Short() && i%4 > 0 { // the race detector is slow
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			node := simulatortest.WatchOn(t, on, scenario, 0)[0]
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
					t.Fatalf("NCCL %s", version)
				}
			}
		})
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
		if slices.ContainsFunc(a.Settings, func(s Setting) bool { return s.Name == o.Name }) {
			t.Errorf("%s is both set and not decided", o.Name)
		}
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
			if f.Severity.AtLeast(verdict.Warning) {
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
		"nccl-tc-5":               {"replace NCCL_IB_TC=106"},
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
		"vlan-sl-wrong":           {"replace NCCL_IB_SL=3"},
		"no-rdma":                 {"open NCCL_IB_HCA", "open fabric"},
		"healthy-gb200":           {"open NVLink between nodes"},
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

// The words about a present traffic class are about its own lower bits.
func TestClassThatStays(t *testing.T) {
	for value, want := range map[int64]string{105: "DSCP 26 × 4, plus 1,", 104: "DSCP 26 × 4. Switches cannot mark"} {
		node := *observed(t, "healthy")
		text := strconv.FormatInt(value, 10)
		node.NCCL.Variables = []fabric.NCCLVariable{{Name: classVariable, Value: text, Number: value, IsNumber: true, Source: "/etc/nccl.conf:1"}}
		for _, s := range For(&node, Workload{NCCL: lint.Newest()}).Settings {
			if s.Name == classVariable && (s.Value != text || !strings.Contains(s.Reason, want)) {
				t.Errorf("%s: %+v", text, s)
			}
		}
	}
}

// A node that lost its RDMA ports is to be repaired, and not advised to use TCP; what the workload states holds.
func TestMissingRDMA(t *testing.T) {
	node := observed(t, "no-rdma")
	for what, c := range map[string]struct {
		policy  fabric.Policy
		devices string
		want    string // of the reason; empty: TCP is the fabric
	}{
		"both":      {*node.Policy, "=mlx5_0,mlx5_1", "expects 8 (expected.compute_ports), and NCCL_IB_HCA names mlx5_0, mlx5_1 (/etc/nccl.conf:2)"},
		"devices":   {fabric.Policy{}, "mlx5", "NCCL_IB_HCA names mlx5 (/etc/nccl.conf:2)"},
		"exclusion": {fabric.Policy{}, "^mlx5_9", ""},
		"nothing":   {fabric.Policy{}, "", ""},
	} {
		one := *node
		one.Policy = &c.policy
		one.NCCL.Variables = []fabric.NCCLVariable{{Name: devicesVariable, Value: c.devices, Source: "/etc/nccl.conf:2"}}
		a := For(&one, Workload{NCCL: lint.Newest()})
		reason := ""
		for _, o := range a.Unknown {
			if o.Name == "fabric" {
				reason = o.Reason
			}
		}
		if !strings.Contains(reason, c.want) || (c.want == "") != (a.Workload.Fabric == TCP) || strings.Contains(lines(a), "NCCL_NET=") {
			t.Errorf("%s: fabric %s, %q\n%s", what, a.Workload.Fabric, reason, lines(a))
		}
		if a := For(&one, Workload{NCCL: lint.Newest(), Fabric: TCP}); a.Workload.Fabric != TCP || strings.Contains(lines(a), "open fabric") {
			t.Errorf("%s: TCP is stated: %s", what, lines(a))
		}
	}
}

// On a node without GPUs, nothing is set, kept or removed.
func TestNoGPU(t *testing.T) {
	a := For(observed(t, "healthy-cpu-node"), Workload{NCCL: lint.Newest()})
	whole(t, a)
	if got := lines(a); got != "open GPUs\n" || len(a.Leave)+len(a.Estimates) > 0 {
		t.Errorf("%s%+v", got, a)
	}
}

// The advice in place of the host's configuration ends what was wrong with it.
func TestAdviceEndsFindings(t *testing.T) {
	for scenario, check := range map[string]string{
		"nccl-tc-5": "roce_dscp", "nccl-rdma-off": "nccl_rdma_off", "gid-index-pinned": verdict.CheckGID, "socket-interface-down": "nccl_socket_interface",
		"socket-interface-missing": "nccl_socket_interface", "ipv6-only-family-unset": verdict.CheckGID, "nccl-algo-unknown": "nccl_refused", "nccl-rdma-off-efa": "",
	} {
		node := observed(t, scenario)
		var list []fabric.NCCLVariable
		for _, s := range For(node, Workload{NCCL: lint.Newest()}).Settings {
			v, _ := settings.Describe(s.Name)
			n, isNumber := v.Number(s.Value)
			list = append(list, fabric.NCCLVariable{Name: s.Name, Value: s.Value, Source: "/etc/nccl.conf:1", Number: n, IsNumber: isNumber})
		}
		slices.SortFunc(list, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
		after := lint.WithVariables(node, list)
		after.NCCL.Findings = nil // of lines that are gone
		if before := failing(node); check != "" && !slices.Contains(before, check) {
			t.Fatalf("%s: %s does not fail before: %q", scenario, check, before)
		}
		if left := failing(after); slices.ContainsFunc(left, func(id string) bool { return strings.HasPrefix(id, "nccl_") || id == check }) {
			t.Errorf("%s: %q fail with %+v", scenario, left, list)
		}
	}
}

// failing are the checks that fail on a node.
func failing(node *fabric.Node) []string {
	var ids []string
	for _, v := range diagnose.Run(node, diagnose.Catalogue()) {
		if v.Status == verdict.Failed && v.Check.Severity != verdict.Info && !v.Check.Rate {
			ids = append(ids, v.Check.ID)
		}
	}
	return ids
}

// If nothing of a node could be read, the advice does not guess.
func TestNothingIsGuessed(t *testing.T) {
	empty := &fabric.Node{Policy: new(fabric.Policy)}
	a := For(empty, Workload{})
	whole(t, a)
	if got := lines(a); got != "add NCCL_DEBUG=WARN\nopen NCCL version\nopen fabric\nopen NCCL_NET\nopen NCCL_SOCKET_IFNAME\nopen time over the network\n" {
		t.Errorf("%s", got)
	}
	known := observed(t, "healthy-mixed-nics-roce")
	known.NCCL.Variables = nil
	known.HCA("mlx5_0").Ports[0].Role = fabric.UnknownFact[fabric.Role](fabric.ReasonNotRead, "", known.At)
	if got := lines(For(known, Workload{NCCL: lint.Newest()})); strings.Contains(got, "add NCCL_IB_HCA=") || !strings.Contains(got, "open NCCL_IB_HCA") {
		t.Errorf("a port whose role is not known is left out:\n%s", got)
	}
	const scenario = "healthy-mixed-nics-roce" // whose configuration lacks what the advice adds
	for hidden, c := range map[string]struct {
		hide   func(n *fabric.Node, p *fabric.Port)
		absent string
	}{
		"roles":      {func(_ *fabric.Node, p *fabric.Port) { p.Role = fabric.Fact[fabric.Role]{} }, "NCCL_IB_HCA="},
		"interfaces": {func(n *fabric.Node, _ *fabric.Port) { n.Interfaces = fabric.Fact[[]fabric.Interface]{} }, "NCCL_SOCKET_IFNAME="},
		"chain":      {func(_ *fabric.Node, p *fabric.Port) { p.RoCE = fabric.Fact[[]fabric.RoCEChain]{} }, "NCCL_IB_TC="},
		"link layer": {func(_ *fabric.Node, p *fabric.Port) { p.LinkLayer = fabric.Fact[fabric.LinkLayer]{} }, "NCCL_NET="},
		"rates":      {func(_ *fabric.Node, p *fabric.Port) { p.Rate = fabric.Fact[fabric.Rate]{} }, ""},
	} {
		node := observed(t, scenario)
		node.NCCL.Variables = nil
		node.Policy = new(fabric.Policy)
		all := For(node, Workload{NCCL: lint.Newest()})
		for i := range node.HCAs {
			for k := range node.HCAs[i].Ports {
				c.hide(node, &node.HCAs[i].Ports[k])
			}
		}
		a := For(node, Workload{NCCL: lint.Newest()})
		whole(t, a)
		if c.absent != "" && (!strings.Contains(lines(all), "add "+c.absent) || strings.Contains(lines(a), c.absent)) {
			t.Errorf("without %s:\n%swith it:\n%s", hidden, lines(a), lines(all))
		}
		if hidden == "rates" && slices.ContainsFunc(a.Estimates, func(e Estimate) bool { return e.Link == LinkRoCE }) {
			t.Errorf("there is an estimate without rates")
		}
		if len(a.Unknown) == 0 {
			t.Errorf("without %s nothing is unknown", hidden)
		}
	}
}

// Names that NCCL's lists cannot have are in no value, and those of which there are many do not make the advice long.
func TestHostileNames(t *testing.T) {
	node := observed(t, "healthy-mixed-nics-roce")
	node.NCCL.Variables = nil
	for i := range node.HCAs {
		node.HCAs[i].Name += ",$(reboot)\n^="
	}
	node.Interfaces = fabric.Known([]fabric.Interface{{Name: "$(reboot)", OperState: fabric.Known("up", "", node.At)}, {Name: "rail0", OperState: fabric.Known("up", "", node.At)}}, "", node.At)
	a := For(node, Workload{NCCL: lint.Newest()})
	for _, s := range a.Settings {
		if strings.Contains(s.Value, "reboot") {
			t.Errorf("%+v", s)
		}
	}
	if got := lines(a); !strings.Contains(got, "open NCCL_IB_HCA\n") || !strings.Contains(got, "open NCCL_SOCKET_IFNAME\n") {
		t.Errorf("%s", got)
	}
	many := For(observed(t, "healthy-128-ports"), Workload{NCCL: lint.Newest()})
	size := 0
	for _, s := range many.Settings {
		size += len(s.Reason) + len(s.Value)
	}
	if size > 4000 || !strings.Contains(lines(many), "NCCL_IB_HCA==mlx5_0") {
		t.Errorf("%d bytes:\n%s", size, lines(many))
	}
}

// Invalid statements are refused.
func TestWorkload(t *testing.T) {
	good := Workload{Nodes: 4, GPUsPerNode: 8, MessageBytes: 1, IterationBytes: 1, Iteration: 1, Measured: []Measured{{Ranks: 2, Bytes: 1, Seconds: 1, BusBW: 1}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, spoil := range []func(*Workload){
		func(w *Workload) { w.Nodes = -1 }, func(w *Workload) { w.Nodes = MaxNodes + 1 }, func(w *Workload) { w.GPUsPerNode = MaxGPUsPerNode + 1 },
		func(w *Workload) { w.MessageBytes = -1 }, func(w *Workload) { w.IterationBytes = MaxBytes + 1 }, func(w *Workload) { w.Iteration = -1 },
		func(w *Workload) { w.Measured = []Measured{{Ranks: 1, Bytes: 1, Seconds: 1, BusBW: 1}} }, func(w *Workload) { w.Measured = []Measured{{}} },
		func(w *Workload) { w.Measured = []Measured{{Ranks: 2, Bytes: 1, Seconds: 1, BusBW: 1e-300}} },
		func(w *Workload) { w.Measured = []Measured{{Ranks: 2, Bytes: MaxBytes + 1, Seconds: 1, BusBW: 1}} },
		func(w *Workload) { w.Measured = slices.Repeat(good.Measured, MaxMeasured+1) },
	} {
		bad := good
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	node := observed(t, "healthy")
	for fabric, want := range map[Fabric]string{InfiniBand: "open fabric", EFA: "open fabric", TCP: "open fabric"} {
		a := For(node, Workload{Fabric: fabric, NCCL: lint.Newest(), GPUsPerNode: 16})
		if got := lines(a); !strings.Contains(got, want) || strings.Contains(got, "NCCL_NET=") || !strings.Contains(got, "open GPUs per node") {
			t.Errorf("%s: %s", fabric, got)
		}
	}
	for version, want := range map[string]bool{"2.99": true, lint.Newest().String(): false, "2.21": false} { // releases that are not known yet are said to be so
		if got := lines(For(node, Workload{NCCL: release(t, version)})); strings.Contains(got, "open NCCL version") != want {
			t.Errorf("NCCL %s: %s", version, got)
		}
	}
	if got := lines(For(node, Workload{Nodes: 1, NCCL: lint.Newest()})); strings.Contains(got, "add NCCL_NET") {
		t.Errorf("one node: %s", got)
	}
}

// The time after which a dead link ends a job is that of the release.
func TestDeadLink(t *testing.T) {
	for version, want := range map[string]string{"2.13.4": "about 470 ms", "2.14": "about 7.52 s", "2.21": "about 7.52 s", "2.22.3": "about 7.52 s", "2.23": "about 30.1 s", settings.NewestNCCL: "about 30.1 s"} {
		if got := deadLink(release(t, version)); !strings.Contains(got, "defaults of "+version) || !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", version, got, want)
		}
	}
}

// The DSCP that the site expects is set where the hosts look at the VLAN tag, too: switches may look at it.
func TestClassBehindVLANTag(t *testing.T) {
	node := *observed(t, "healthy-roce-vlan")
	if got := lines(For(&node, Workload{NCCL: lint.Newest()})); !strings.Contains(got, "open NCCL_IB_TC\n") || strings.Contains(got, "NCCL_IB_TC=") {
		t.Errorf("no DSCP is known: %s", got)
	}
	policy, dscp := *node.Policy, 26
	policy.RoCE.DSCP = &dscp
	node.Policy = &policy
	a := For(&node, Workload{NCCL: lint.Newest()})
	i := slices.IndexFunc(a.Settings, func(s Setting) bool { return s.Name == classVariable })
	if i < 0 || a.Settings[i].Value != "106" || !strings.Contains(a.Settings[i].Reason, "takes the priority from the VLAN tag") {
		t.Errorf("DSCP 26 is expected: %s", lines(a))
	}
}
