// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
)

func TestCountersDocument(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCounters(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "../docs/COUNTERS.md", b.Bytes())
}

func TestEveryMeaningHasItsFamily(t *testing.T) {
	names := map[string]counters.Meaning{}
	rows := map[counters.Meaning]bool{}
	for _, row := range countRows() {
		if m, ok := names[row.name]; ok || rows[row.meaning] {
			t.Errorf("countRows() in collector/counters_families.go has %s twice, for %q and %q", row.name, m, row.meaning)
		}
		names[row.name], rows[row.meaning] = row.meaning, true
		unit := string(row.meaning.Unit())
		if unit != "events" && unit != "packets" && !strings.HasSuffix(row.name, "_"+unit+"_total") {
			t.Errorf("%s does not say that it counts %s", row.name, unit)
		}
		if strings.Contains(row.name, "_packets_") && unit != "packets" || strings.Contains(row.name, "_bytes_") && unit != "bytes" {
			t.Errorf("%s counts %s", row.name, unit)
		}
	}
	counted := counters.Meanings()
	for _, m := range counted {
		if !rows[m] {
			t.Errorf("counters have the meaning %q, which has no metric: add its row to countRows() in collector/counters_families.go", m)
		}
	}
	for m := range rows {
		if !slices.Contains(counted, m) {
			t.Errorf("no driver counts %q: give a counter that meaning in internal/counters/<driver>.go, or remove its row from countRows() in collector/counters_families.go", m)
		}
	}
}

// Every kernel name of a family is in its help: that is what people search for.
func TestHelpHasTheKernelNames(t *testing.T) {
	for _, table := range counters.Tables() {
		for name, spec := range table.Counters() {
			if f := countFamilies[spec.Meaning]; f != nil && !strings.Contains(f.Help, name) {
				t.Errorf("%s: no %s of %s in %q", f.Name, name, table.Name, f.Help)
			}
		}
	}
}

// table returns a counter for each row of a driver's table, with values 1, 2, 3, ...
func table(place counters.Place, driver string) []fabric.Counter {
	var list []fabric.Counter
	for _, t := range counters.Tables() {
		if t.Place != place || !slices.Contains(t.Drivers, driver) {
			continue
		}
		for name := range t.Counters() {
			list = append(list, fabric.Counter{Name: name, Value: known(uint64(len(list) + 1))})
		}
	}
	return list
}

func counted(values ...any) fabric.Fact[[]fabric.Counter] {
	var list []fabric.Counter
	for i := 0; i < len(values); i += 2 {
		c := fabric.Counter{Name: values[i].(string), Value: fabric.UnknownFact[uint64](fabric.ReasonIO, "test", now)}
		if n, ok := values[i+1].(int); ok {
			c.Value = known(uint64(n))
		}
		list = append(list, c)
	}
	return known(list)
}

// port1 is a device of a driver with one port that counts this.
func port1(driver string, pma, hw fabric.Fact[[]fabric.Counter]) *fabric.Node {
	h := device("dev0")
	h.Driver = known(driver)
	if driver == "" {
		h.Driver = fabric.AbsentFact[string]("test", now)
	}
	h.HWCounters = fabric.AbsentFact[[]fabric.Counter]("test", now)
	h.Ports[0].Counters.PMA, h.Ports[0].Counters.HW = pma, hw
	return nodeOf(h)
}

var noCounters = fabric.AbsentFact[[]fabric.Counter]("test", now)

// series returns what the collectors emit of counters, without what the other collectors emit.
func series(t *testing.T, n *fabric.Node) []string {
	t.Helper()
	s, err := NewSet([]string{"counters", "cm"})
	if err != nil {
		t.Fatal(err)
	}
	families := s.Gather(n, ConfigState{})
	checkCatalogue(t, families, map[string]bool{})
	scrape(t, n) // for its lint
	var lines []string
	for line := range strings.Lines(text(t, families)) {
		f, _, _ := strings.Cut(strings.TrimPrefix(line, Prefix), "{")
		if slices.ContainsFunc(append(countersFamilies(), cmFamilies()...), func(row *Family) bool { return row.Name == f }) {
			lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(line, Prefix), "\n"))
		}
	}
	return lines
}

func check(t *testing.T, n *fabric.Node, want ...string) {
	t.Helper()
	got := series(t, n)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

const of = `{device="dev0",port="1"} `

func TestScale(t *testing.T) {
	check(t, port1("mlx5_core", counted("port_xmit_data", 1000, "port_xmit_packets", 7), noCounters),
		"hca_port_transmitted_data_bytes_total"+of+"4000", "hca_port_transmitted_packets_total"+of+"7")
	check(t, port1("efa", noCounters, counted("tx_bytes", 1000)), "hca_port_transmitted_data_bytes_total"+of+"1000")
	check(t, port1("hfi1", counted("port_xmit_data", 1000, "port_xmit_packets", 7), noCounters), // flits of eight octets
		"hca_port_transmitted_data_bytes_total"+of+"8000", "hca_port_transmitted_packets_total"+of+"7")
	check(t, port1("mlx4_core", counted("link_downed", 1, "port_rcv_data_64", 1000, "port_rcv_packets_64", 7, "port_unicast_rcv_packets", 6), noCounters), // counters_ext
		"hca_port_received_data_bytes_total"+of+"4000", "hca_port_received_packets_total"+of+"7", "hca_port_received_unicast_packets_total"+of+"6", "hca_port_link_downed_total"+of+"1")
}

func TestDriversDiffer(t *testing.T) {
	list := counted("duplicate_request", 1, "dup_req", 2, "tx_cnp_pkts", 3)
	check(t, port1("mlx5_core", noCounters, list), "hca_duplicate_requests_total"+of+"1",
		`hca_hw_counters_total{counter="dup_req",device="dev0",port="1"} 2`, `hca_hw_counters_total{counter="tx_cnp_pkts",device="dev0",port="1"} 3`)
	check(t, port1("bnxt_en", noCounters, list), "hca_duplicate_requests_total"+of+"2", "hca_cnp_sent_total"+of+"3",
		`hca_hw_counters_total{counter="duplicate_request",device="dev0",port="1"} 1`)
	check(t, port1("", noCounters, counted("rcvd_pkts", 5)), "hca_port_received_packets_total"+of+"5")
	unknown := port1("mlx5_core", noCounters, list)
	unknown.HCAs[0].Driver = fabric.UnknownFact[string](fabric.ReasonIO, "test", now)
	check(t, unknown)
}

func TestRepresentors(t *testing.T) {
	check(t, port1("mlx5_core", noCounters, counted("vport_out_of_buffer", 3)), "hca_out_of_buffer_total"+of+"3")
	check(t, port1("mlx5_core", noCounters, counted("vport_out_of_buffer", 3, "out_of_buffer", 4)), // whatever that is
		`hca_hw_counters_total{counter="out_of_buffer",device="dev0",port="1"} 4`, `hca_hw_counters_total{counter="vport_out_of_buffer",device="dev0",port="1"} 3`)
}

func TestSaturation(t *testing.T) {
	check(t, port1("mlx5_core", counted("symbol_error", 65534, "link_downed", 255, "excessive_buffer_overrun_errors", 15, "port_xmit_wait", math.MaxUint32), noCounters),
		"hca_port_symbol_errors_total"+of+"65534", "hca_port_link_downed_total"+of+"255", "hca_port_excessive_buffer_overrun_errors_total"+of+"15",
		"hca_port_transmit_wait_ticks_total"+of+"4.294967295e+09",
		`hca_counter_saturated{counter="link_downed",device="dev0",port="1"} 1`,
		`hca_counter_saturated{counter="excessive_buffer_overrun_errors",device="dev0",port="1"} 1`,
		`hca_counter_saturated{counter="port_xmit_wait",device="dev0",port="1"} 1`)
	check(t, port1("mlx5_core", noCounters, counted("out_of_buffer", math.MaxUint32)), "hca_out_of_buffer_total"+of+"4.294967295e+09") // wraps
}

func TestAbsentAndUnknown(t *testing.T) {
	unknown := fabric.UnknownFact[[]fabric.Counter](fabric.ReasonStuck, "test", now)
	check(t, port1("mlx5_core", noCounters, noCounters))
	check(t, port1("mlx5_core", unknown, unknown))
	check(t, port1("mlx5_core", counted("symbol_error", 1, "VL15_dropped", nil), counted("out_of_buffer", nil, "nosuch", nil)), "hca_port_symbol_errors_total"+of+"1")
	check(t, port1("ionic", noCounters, known([]fabric.Counter{{Name: "resp_rx_outof_buf", Value: known(uint64(math.MaxUint64))}})))
}

// What only InfiniBand links have is not shown of an Ethernet port while it is 0.
func TestCountersOfInfiniBand(t *testing.T) {
	n := port1("mlx5_core", counted("symbol_error", 0, "VL15_dropped", 7, "link_downed", 0, "port_xmit_wait", nil), noCounters)
	zero := "hca_port_symbol_errors_total" + of + "0"
	rest := []string{"hca_port_vl15_dropped_total" + of + "7", "hca_port_link_downed_total" + of + "0"}
	check(t, n, append(rest, zero)...) // the link layer is not known
	n.HCAs[0].Ports[0].LinkLayer = known(fabric.LinkInfiniBand)
	check(t, n, append(rest, zero)...)
	n.HCAs[0].Ports[0].LinkLayer = known(fabric.LinkEthernet)
	check(t, n, rest...)
}

func TestSums(t *testing.T) {
	check(t, port1("ice", noCounters, counted("ip4OutOctets", 1, "ip6OutOctets", 20)), "hca_port_transmitted_data_bytes_total"+of+"21")
	check(t, port1("ice", noCounters, counted("ip4OutOctets", 1, "ip6OutOctets", nil))) // half of it would be a lie
	check(t, port1("ice", noCounters, counted("ip4OutOctets", 1)), `hca_hw_counters_total{counter="ip4OutOctets",device="dev0",port="1"} 1`)
	check(t, port1("ice", noCounters, counted("ip4OutOctets", 1, "ip6OutOctets", 20, "ip4OutOctets", 300)), "hca_port_transmitted_data_bytes_total"+of+"21")
}

// No driver has a meaning in both places; if one did, two series of one name would cost the scrape.
func TestMeaningInTwoPlaces(t *testing.T) {
	check(t, port1("efa", counted("port_xmit_data", 1), counted("tx_bytes", 9)),
		"hca_port_transmitted_data_bytes_total"+of+"4", `hca_hw_counters_total{counter="tx_bytes",device="dev0",port="1"} 9`)
	check(t, port1("efa", counted("port_xmit_data", nil), counted("tx_bytes", 9)), "hca_port_transmitted_data_bytes_total"+of+"9")
}

func TestGauges(t *testing.T) {
	check(t, port1("bnxt_en", noCounters, counted("active_qps", 8, "watermark_qps", 9)),
		`hca_hw_counters_value{counter="active_qps",device="dev0",port="1"} 8`, `hca_hw_counters_value{counter="watermark_qps",device="dev0",port="1"} 9`)
	check(t, port1("mana", noCounters, counted("current_rate", 8)), `hca_hw_counters_value{counter="current_rate",device="dev0",port="1"} 8`)
}

func TestDeviceCounters(t *testing.T) {
	n := port1("mana", noCounters, counted("received_cnps", 1))
	n.HCAs[0].HWCounters = counted("sent_cnps", 2, "received_cnp_count", 3)
	check(t, n, "hca_cnp_received_total"+of+"1", `hca_cnp_sent_total{device="dev0",port=""} 2`, `hca_hw_counters_total{counter="received_cnp_count",device="dev0",port=""} 3`)
}

func TestLifespan(t *testing.T) {
	n := port1("mlx5_core", noCounters, noCounters)
	n.HCAs[0].Ports[0].Counters.Lifespan = known(12 * time.Millisecond)
	check(t, n, "hca_hw_counters_lifespan_seconds"+of+"0.012")
}

func TestCM(t *testing.T) {
	n := port1("mlx5_core", noCounters, noCounters)
	n.HCAs[0].Ports[0].Counters.CM = counted("cm_rx_msgs/req", 1, "cm_tx_msgs/rep", 2, "cm_tx_retries/req", 3, "cm_rx_duplicates/dreq", 4, "cm_rx_msgs/rej", nil, "nosuch/req", 5)
	check(t, n,
		`cm_received_messages_total{device="dev0",message="req",port="1"} 1`, `cm_transmitted_messages_total{device="dev0",message="rep",port="1"} 2`,
		`cm_transmit_retries_total{device="dev0",message="req",port="1"} 3`, `cm_received_duplicates_total{device="dev0",message="dreq",port="1"} 4`)
}

func TestHostileCounters(t *testing.T) {
	long := strings.Repeat("ü", 1000)
	list := counted(`a"b\c`, 1, "x\ny", 2, "bad\xff", 3, "bad\xfe", 4, "", 5, long, 6, long+"2", 7, "out_of\xffbuffer", 8, "out_of_buffer", 9)
	out := series(t, port1("mlx5_core", list, list))
	for _, want := range []string{
		"hca_out_of_buffer_total" + of + "9",
		`counter="a\"b\\c"`, "counter=\"x y\"", "counter=\"bad?\",device=\"dev0\",port=\"1\"} 3", `counter="out_of?buffer"`,
		`counter="` + strings.Repeat("ü", maxRawName/2) + `"`,
	} {
		if !slices.ContainsFunc(out, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("missing %s in\n%s", want, strings.Join(out, "\n"))
		}
	}
	if len(out) != 7 {
		t.Errorf("%d series:\n%s", len(out), strings.Join(out, "\n"))
	}

	var many []any
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("c%d", i), i)
	}
	n := port1("ionic", counted(many...), counted(many...))
	n.HCAs[0].HWCounters = counted(many...)
	n.HCAs[0].Ports[0].Counters.CM = counted(many...)
	out = series(t, n)
	if len(out) != 2*maxRaw+2 || !slices.Contains(out, "hca_hw_counters_dropped"+of+"9936") {
		t.Errorf("%d series, the last: %s", len(out), out[len(out)-1])
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, n))); err != nil {
		t.Errorf("the scrape does not parse: %v", err)
	}
}

// maxPort is how many series the counters of a port may be: a driver that counts more is worth a second look.
const maxPort = 100

// Each driver's counters, all of them, are series: one for each meaning, and one for each name that has none;
// those of the standard that have none are left out.
func TestSeriesOfEachDriver(t *testing.T) {
	emitted := map[string]bool{}
	for _, of := range counters.Tables() {
		if of.Place != counters.PlacePort {
			continue
		}
		driver := of.Drivers[0]
		pma, hw := noCounters, known(table(counters.PlacePort, driver))
		want := map[string]bool{hwCountersLifespan.Name: true} // families, and names that pass through
		for name, spec := range of.Counters() {
			want[cmp.Or(string(spec.Meaning), name)] = true
		}
		if strings.HasPrefix(driver, "mlx") {
			pma = known(table(counters.PlacePMA, counters.AnyDriver))
			for _, c := range pma.Value {
				spec, _ := counters.PMASpec(driver, c.Name)
				want[string(spec.Meaning)] = true
			}
		}
		n := port1(driver, pma, hw)
		n.HCAs[0].Ports[0].Counters.Lifespan = known(10 * time.Millisecond)
		var out []string
		for _, line := range series(t, n) {
			if !strings.HasPrefix(line, counterSaturated.Name) { // the values are made up
				out = append(out, line)
			}
			f, _, _ := strings.Cut(line, "{")
			emitted[f] = true
		}
		t.Logf("%-20s %3d series a port", driver, len(out))
		if len(out) != len(want) || len(out) > maxPort {
			t.Errorf("%s: %d series, want %d, and at most %d:\n%s", driver, len(out), len(want), maxPort, strings.Join(out, "\n"))
		}
	}
	for m, f := range countFamilies {
		if !emitted[f.Name] {
			t.Errorf("%q: %s is emitted for no driver", m, f.Name)
		}
	}
}

func TestCounterHealth(t *testing.T) {
	why := func(n *fabric.Node) string {
		_, why := hasCounters(n)
		return why
	}
	if got := why(port1("mlx5_core", noCounters, counted("x", 1))); got != "" {
		t.Error(got)
	}
	if got := why(port1("siw", noCounters, noCounters)); !strings.Contains(got, "no driver") {
		t.Error(got)
	}
	if got := why(nodeOf()); !strings.Contains(got, "no RDMA device") {
		t.Error(got)
	}
	n := port1("siw", noCounters, noCounters)
	n.HCAs[0].Ports[0].Counters.CM = noCounters
	if ok, _ := hasCM(n); ok {
		t.Error("connection manager counters that are absent are supported")
	}
}
