// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
)

var now = time.Unix(1_700_000_000, 0)

func known[T any](v T) fabric.Fact[T] { return fabric.Known(v, "test", now) }

// device is an HCA all of whose facts are unknown, with one port.
func device(name string) fabric.HCA {
	h := fabric.HCA{Name: name, Ports: []fabric.Port{{Number: 1}}}
	return h.WithoutFacts(fabric.ReasonIO, now)
}

func nodeOf(devices ...fabric.HCA) *fabric.Node {
	n := &fabric.Node{At: now, HCAs: devices, Policy: &fabric.Policy{}, ClassPresent: known(true)}
	for _, d := range devices {
		n.Sources = append(n.Sources, fabric.Source{Name: fabric.SourceHCA, Device: d.Name, Up: true}, fabric.Source{Name: fabric.SourceGID, Device: d.Name, Up: true})
	}
	return n
}

func everything(t testing.TB) *Set {
	t.Helper()
	var names []string
	for _, c := range Collectors() {
		names = append(names, c.Name)
	}
	s, err := NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// text is what a scrape of the node looks like.
func text(t *testing.T, families []exposition.Family) string {
	t.Helper()
	var b bytes.Buffer
	if err := exposition.Encode(&b, expfmt.FmtText, families, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// protos returns the families as the libraries of Prometheus want them.
func protos(families []exposition.Family) []*dto.MetricFamily {
	var list []*dto.MetricFamily
	for i := range families {
		list = append(list, families[i].Proto())
	}
	return list
}

func scrape(t *testing.T, n *fabric.Node) string {
	t.Helper()
	gathered := new(Gathered)
	families := everything(t).GatherAgain(gathered, n, ConfigState{LoadedAt: now, LastOK: true})
	if err := gathered.Err(); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return protos(families), nil }))
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	return text(t, families)
}

func TestUnknownFactsHaveNoSeries(t *testing.T) {
	h := device("mlx5_0")
	facts := 0
	for range h.Unknowns() {
		facts++
	}
	out := scrape(t, nodeOf(h))
	for _, name := range []string{"hca_port_state", "hca_port_rate", "hca_port_lid", "hca_numa_node", "hca_restricted", "gid_", "rate_mismatch"} {
		if strings.Contains(out, "\n"+Prefix+name) {
			t.Errorf("a series of %s though nothing is known:\n%s", name, out)
		}
	}
	for _, line := range []string{
		fmt.Sprintf(`gpufabric_exporter_facts_unknown{device="mlx5_0",reason="io_error",uuid=""} %d`, facts),
		`gpufabric_hca_port_info{device="mlx5_0",link_layer="",netdev="",port="1",role=""} 1`,
	} {
		if !strings.Contains(out, line) {
			t.Errorf("missing %s in:\n%s", line, out)
		}
	}
}

func TestStateSetsAreComplete(t *testing.T) {
	h := device("mlx5_0")
	h.Ports[0].State, h.Ports[0].PhysState = known(fabric.PortActive), known(fabric.PhysLinkUp)
	out := scrape(t, nodeOf(h))
	if got := strings.Count(out, Prefix+"hca_port_state{"); got != 6 {
		t.Errorf("%d port states, want 6", got)
	}
	for _, line := range []string{`state="active"} 1`, `state="down"} 0`, `state="link_up"} 1`, `state="sleep"} 0`} {
		if !strings.Contains(out, line) {
			t.Errorf("missing %s in:\n%s", line, out)
		}
	}
}

// A hostile device name must change nothing but its own label value.
func TestHostileLabelValues(t *testing.T) {
	out := scrape(t, nodeOf(device("a\"b\\c\nd"), device("bad\xffutf8")))
	for _, want := range []string{`device="a\"b\\c\nd"`, "device=\"bad\uFFFDutf8\""} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %s in:\n%s", want, out)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(out)); err != nil {
		t.Errorf("the scrape does not parse: %v", err)
	}
}

func TestGIDEntriesArePresentAsZero(t *testing.T) {
	h := device("mlx5_0")
	h.Ports[0].LinkLayer = known(fabric.LinkEthernet)
	h.Ports[0].GIDs = fabric.GIDTable{Size: known(256), Entries: known([]fabric.GID{})}
	if out := scrape(t, nodeOf(h)); !strings.Contains(out, `gpufabric_gid_entries{device="mlx5_0",family="ipv4",port="1",type="roce_v2"} 0`) {
		t.Errorf("a port without RoCE v2 GIDs has no series that says so:\n%s", out)
	}
	h.Ports[0].GIDs.Entries = known([]fabric.GID{{Index: 0, Addr: netip.MustParseAddr("da15:83a8:6f99::"), Type: fabric.GIDiWARP, Family: fabric.FamilyOther}})
	if out := scrape(t, nodeOf(h)); strings.Contains(out, "roce_v2") {
		t.Errorf("an iWARP device is asked for RoCE v2 GIDs:\n%s", out)
	}
}

// A collector that goes wrong loses its own series and no others, and says what is wrong.
func TestMistakesCostOneCollector(t *testing.T) {
	unlisted := &Family{Name: "not_listed", Type: Gauge, Labels: []string{"device"}}
	for says, mistake := range map[string]func(emit emit){
		"collector hca: panic: boom":                                      func(emit) { panic("boom") },
		"collector hca: node_gpus wants the labels (), not 1 values":      func(emit emit) { emit(nodeGPUs, 2, "mlx5_0") },
		"collector hca: not_listed is emitted, but is in no list of rows": func(emit emit) { emit(unlisted, 1, "mlx5_0") },
	} {
		s := everything(t)
		s.collectors = slices.Clone(s.collectors)
		for i := range s.collectors {
			if s.collectors[i].Name == "hca" {
				s.collectors[i].collect = func(_ *fabric.Node, emit emit) {
					emit(hcaMoved, 1, "mlx5_0", "device")
					mistake(emit)
				}
			}
		}
		g := new(Gathered)
		out := text(t, s.GatherAgain(g, nodeOf(device("mlx5_0")), ConfigState{}))
		if err := g.Err(); err == nil || err.Error() != says {
			t.Errorf("the mistake is %v, want %s", err, says)
		}
		for _, line := range []string{`scrape_collector_success{collector="hca"} 0`, `scrape_collector_success{collector="gid"} 1`, `exporter_source_up{`} {
			if !strings.Contains(out, line) {
				t.Errorf("missing %s in:\n%s", line, out)
			}
		}
		if strings.Contains(out, "hca_moved") {
			t.Error("half of a failed collector is exposed")
		}
	}
}

func TestHealth(t *testing.T) {
	stuck := nodeOf(device("mlx5_0"))
	stuck.Sources[0] = fabric.Source{Name: fabric.SourceHCA, Device: "mlx5_0", Reason: fabric.ReasonStuck, Since: now}
	bare := nodeOf()
	bare.ClassPresent = known(false)
	excluded := nodeOf()
	excluded.Excluded = []string{"mlx5_0"}
	unlisted := nodeOf()
	unlisted.ClassPresent = fabric.UnknownFact[bool](fabric.ReasonPrivilege, "class/infiniband", now)
	for _, c := range []struct {
		name                        string
		node                        *fabric.Node
		supported, success, timeout bool
		why                         string
	}{
		{"well", nodeOf(device("mlx5_0")), true, true, false, ""},
		{"stuck", stuck, true, false, true, "hca mlx5_0: stuck"},
		{"no RDMA is no failure", bare, false, true, false, "no RDMA devices"},
		{"nothing registered", nodeOf(), false, true, false, "no RDMA device is registered"},
		{"all excluded", excluded, false, true, false, "excluded by flags"},
		{"unreadable", unlisted, false, true, false, "privilege"},
	} {
		for _, h := range everything(t).Health(c.node) {
			if h.Name == "hca" && (h.Supported != c.supported || h.Success != c.success || h.Timeout != c.timeout || !strings.Contains(h.Why, c.why)) {
				t.Errorf("%s: %+v", c.name, h)
			}
		}
	}
	out := scrape(t, stuck)
	for _, line := range []string{
		`hca_stuck{device="mlx5_0"} 1`, `exporter_source_up{device="mlx5_0",netdev="",source="hca"} 0`, `exporter_source_unknown{device="mlx5_0",netdev="",reason="stuck",source="hca"} 1`,
	} {
		if !strings.Contains(out, "\n"+Prefix+line+"\n") {
			t.Errorf("missing %s in:\n%s", line, out)
		}
	}
	if strings.Count(out, "\n"+Prefix+"exporter_source_unknown{") != 1 {
		t.Errorf("sources that can be read are unknown:\n%s", out)
	}
}

func TestSelect(t *testing.T) {
	if _, err := NewSet([]string{"hca", "gdi"}); err == nil || !strings.Contains(err.Error(), `"gdi"`) || !strings.Contains(err.Error(), "hca, gid, nccl") {
		t.Errorf("an unknown collector: %v", err)
	}
	s, err := NewSet([]string{"gid", "hca"})
	if err != nil || !slices.Equal(s.Names(), []string{"hca", "gid"}) || s.Want()&fabric.WantGID == 0 {
		t.Errorf("got %v %v", s, err)
	}
	s, err = s.Select([]string{"hca"})
	if err != nil || s.Want() != fabric.WantHCA {
		t.Errorf("got %v %v", s, err)
	}
	if _, err = s.Select([]string{"gid"}); err == nil {
		t.Error("a disabled collector can be selected")
	}
}

// TestGatherAgain: memory that served another node and other collectors shows nothing of them, and holds the
// series of the next scrape without a new allocation for them.
func TestGatherAgain(t *testing.T) {
	small, large := nodeOf(device("mlx5_0")), nodeOf(device("mlx5_0"), device("mlx5_1"), device("mlx5_2"))
	set, state := everything(t), ConfigState{LoadedAt: now, LastOK: true}
	hca, err := NewSet([]string{"hca"})
	if err != nil {
		t.Fatal(err)
	}
	kept := new(Gathered)
	for _, turn := range []struct {
		set *Set
		n   *fabric.Node
	}{{set, large}, {set, small}, {hca, small}, {set, large}} {
		if got, want := text(t, turn.set.GatherAgain(kept, turn.n, state)), text(t, turn.set.Gather(turn.n, state)); got != want {
			t.Errorf("%d devices: got\n%s\nwant\n%s", len(turn.n.HCAs), got, want)
		}
	}
	families := float64(len(set.Gather(large, state)))
	fresh := testing.AllocsPerRun(20, func() { set.Gather(large, state) })
	again := testing.AllocsPerRun(20, func() { set.GatherAgain(kept, large, state) })
	if again > fresh-families {
		t.Errorf("%v allocations, %v in new memory: want one fewer for each of %v families", again, fresh, families)
	}
}
