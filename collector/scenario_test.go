// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/stage"
)

const (
	maxSeries   = 2000 // budget of a healthy node with 8 HCAs and 8 GPUs without jobs
	maxPerPort  = 150  // and of each port beyond those
	manyDevices = 8
)

// observeScenario runs a simulated node through the real readers.
func observeScenario(t testing.TB, s simulator.Scenario) *fabric.Node {
	t.Helper()
	return observeDevices(t, stage.New(t), s, fabric.Filter{})
}

func observeDevices(t testing.TB, on *stage.Stage, s simulator.Scenario, devices fabric.Filter) *fabric.Node {
	t.Helper()
	tree := on.Show(t, s)
	ob, err := observer.New(observer.Options{
		Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(), Ranks: tree.Ranks(), Devices: devices, Log: slog.New(slog.DiscardHandler),
		NCCL: observer.NCCLFiles{Inspector: inspectorOf(s, tree)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ob.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return ob.Observe(ctx, everything(t).Want())
}

// inspectorOf is the folder of Inspector of the scenario's site; empty: it names none.
func inspectorOf(s simulator.Scenario, tree *simulator.Tree) string {
	_, folder, _ := strings.Cut(s.ConfigOf(tree), "inspector_folder: ")
	folder, _, _ = strings.Cut(folder, "\n")
	return folder
}

// steadyScenario is a simulated node without what differs from run to run.
func steadyScenario(t *testing.T, on *stage.Stage, s simulator.Scenario) *fabric.Node {
	t.Helper()
	n := observeDevices(t, on, s, fabric.Filter{})
	for i := range n.Sources {
		n.Sources[i].Duration = 0
	}
	n.Commands = nil // how often the kernel's cache ran out depends on how busy the machine is
	return n
}

// defaultText is what a scrape of a node looks like that runs without flags.
func defaultText(t *testing.T, n *fabric.Node) string {
	t.Helper()
	out := withoutHelp(text(t, byDefault(t).Gather(n, ConfigState{LoadedAt: now, LastOK: true})))
	return strings.ReplaceAll(out, fmt.Sprintf(`user="%d"`, os.Getuid()), `user="1000"`) // who writes files of Inspector is who tests
}

// Every scenario of the simulator through the real readers: the healthy nodes byte for byte, what breaks them
// as the lines that differ.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	on := stage.New(t)
	base := map[string]string{}  // what the last healthy node of a platform has
	emitted := map[string]bool{} // family names
	ran := 0
	healthy := func(s simulator.Scenario) bool { return strings.HasPrefix(s.Name, "healthy") }
	all := simulator.Scenarios()
	slices.SortStableFunc(all, func(a, b simulator.Scenario) int { return int(bit(healthy(b)) - bit(healthy(a))) })
	run := func(s simulator.Scenario) {
		t.Run(s.Name, func(t *testing.T) {
			ran++
			n := steadyScenario(t, on, s)
			gathered := new(Gathered)
			families := everything(t).GatherAgain(gathered, n, ConfigState{LoadedAt: now, LastOK: true})
			if err := gathered.Err(); err != nil {
				t.Error(err)
			}
			checkCatalogue(t, families, emitted)
			checkIdentities(t, n, families)
			checkFormats(t, families)
			out := defaultText(t, n)
			if healthy(s) {
				checkBudget(t, s, n)
				base[s.Platform] = out
				golden(t, filepath.Join("testdata", s.Name+".metrics"), []byte(out))
				return
			}
			if base[s.Platform] == "" { // -run left it out
				for _, h := range all {
					if h.Platform == s.Platform && healthy(h) {
						base[s.Platform] = defaultText(t, steadyScenario(t, on, h))
					}
				}
			}
			golden(t, filepath.Join("testdata", s.Name+".diff"), []byte(diff(base[s.Platform], out)))
		})
	}
	for _, s := range all {
		run(s)
	}
	if ran < len(all) {
		return
	}
	conditional := conditionalFamilies()
	for _, f := range countFamilies {
		conditional = append(conditional, f.Name) // TestSeriesOfEachDriver
	}
	for _, f := range Catalogue() {
		if !emitted[f.FullName()] && !slices.Contains(conditional, f.Name) && f.Collector != probeName && f.Collector != pingName { // none is probed or pinged
			t.Errorf("%s is emitted for no simulated node: emit it in collector/%s.go, let the nodes of internal/simulator have what it needs, "+
				"or add it to conditionalFamilies in collector/scenario_test.go, with a test of its own", f.FullName(), cmp.Or(f.Collector, "node"))
		}
	}
}

// conditionalFamilies are emitted for no simulated node: configuration, findings, failures, netlink, health
// of NVSwitches. Each has a test of its own.
func conditionalFamilies() []string {
	return []string{
		"hca_gone", "node_compute_ports_expected", "nccl_config_findings", "exporter_facts_unknown", "exporter_source_unknown", "node_rdma_netns_mode", "hca_netlink_visible",
		"gpu_fabric_unhealthy", "node_profile_info", // profiles come with the configuration: TestProfileSeries
		"job_transport_confirmed", "job_transport_last_seen_timestamp_seconds", "job_device_info", "job_processes_dropped", // TestJobs
		"log_failures_total", "log_failure_last_seen_timestamp_seconds", "log_files", "log_communicator_setup_seconds", "log_files_refused", "log_skipped_bytes_total", "log_kernel_messages_lost_total", // TestLog
		"job_ras_suspicion", "job_ras_not_asked", "job_ras_state", "job_ras_state_confirmed", "job_ras_ranks", "job_ras_operations_apart", "job_ras_last_answer_timestamp_seconds", "job_ras_questions_total", "job_ras_stopped", // TestRAS
		"check_unknown", "check_timestamp_seconds", "check_error", "check_run_timestamp_seconds", // checks do not judge what is not expected; in files of verdicts only
		"hca_hw_counters_dropped",
		"cluster_probe_last_run_timestamp_seconds", "cluster_probe_coverage_ratio", "cluster_probe_measured_timestamp_seconds", // TestClusterFamilies
		"cluster_probe_bandwidth_ratio", "cluster_probe_fault_ratio",
		"ethernet_statistic_total", "ethernet_statistics_dropped", // what flags ask for, and more than fits
	}
}

// A metric with one value for each device or port has it on some simulated node.
func TestValuesAreEmitted(t *testing.T) {
	emitted := map[string]bool{}
	for _, name := range []string{"healthy", "healthy-ib"} {
		s, err := simulator.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		gathered := new(Gathered)
		checkCatalogue(t, everything(t).GatherAgain(gathered, observeScenario(t, s), ConfigState{}), emitted)
		if err := gathered.Err(); err != nil {
			t.Fatalf("%v: mend it in collector; its metrics are missing until then", err)
		}
	}
	for _, f := range append(familiesOf(deviceValues), familiesOf(portValues)...) {
		if !emitted[f.FullName()] && !slices.Contains(conditionalFamilies(), f.Name) {
			t.Errorf("%s has a value on no simulated node: read its fact in internal/host/sysfs/*.go, where internal/observer asks for it, and "+
				"let the nodes have the file in internal/simulator/files_net.go", f.FullName())
		}
	}
}

// withoutHelp leaves out HELP texts: docs/METRICS.md has them once, and a changed one would change a golden
// file for each node.
func withoutHelp(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "# HELP ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// diff lists the lines that only a or only b has.
func diff(a, b string) string {
	var out strings.Builder
	only := func(mark, x, y string) {
		in := map[string]bool{}
		for line := range strings.Lines(y) {
			in[line] = true
		}
		for line := range strings.Lines(x) {
			if !in[line] {
				out.WriteString(mark + line)
			}
		}
	}
	only("- ", a, b)
	only("+ ", b, a)
	return out.String()
}

// byDefault is the set that runs without flags.
func byDefault(t *testing.T) *Set {
	t.Helper()
	var names []string
	for _, c := range Collectors() {
		if c.Default {
			names = append(names, c.Name)
		}
	}
	s, err := NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkBudget prints the series of each family, and compares their sum with the budget: that of the whole
// node, or where it has more devices than the budget is about, that of eight compute NICs, and that of each
// port of all.
func checkBudget(t *testing.T, s simulator.Scenario, n *fabric.Node) {
	t.Helper()
	count := func(n *fabric.Node) (total int, table string) {
		var b strings.Builder
		for _, f := range byDefault(t).Gather(n, ConfigState{LoadedAt: now, LastOK: true}) {
			total += len(f.Series)
			fmt.Fprintf(&b, "%6d %s\n", len(f.Series), f.Name)
		}
		return total, b.String()
	}
	total, table := count(n)
	if len(n.HCAs) > manyDevices {
		ports := 0
		for i := range n.HCAs {
			ports += len(n.HCAs[i].Ports)
		}
		t.Logf("%d series of all %d devices with %d ports", total, len(n.HCAs), ports)
		if most := maxSeries + maxPerPort*(ports-manyDevices); total > most {
			t.Errorf("%d series of %d ports, the budget is %d\n%s", total, ports, most, table)
		}
		var names []string
		for i := range n.HCAs {
			if h := &n.HCAs[i]; h.Serves(fabric.RoleCompute) && len(names) < manyDevices {
				names = append(names, regexp.QuoteMeta(h.Name))
			}
		}
		n = observeDevices(t, stage.New(t), s, fabric.Filter{Include: regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")})
		total, table = count(n)
	}
	t.Logf("%d series of %d devices, of %d at most\n%s", total, len(n.HCAs), maxSeries, table)
	if total > maxSeries {
		t.Errorf("%d series, the budget is %d", total, maxSeries)
	}
}

// checkCatalogue: whatever is emitted is a row of the catalogue, and no series is there twice.
func checkCatalogue(t *testing.T, families []exposition.Family, emitted map[string]bool) {
	t.Helper()
	for _, f := range families {
		emitted[f.Name] = true
		if !slices.ContainsFunc(Catalogue(), func(row *Family) bool { return row.FullName() == f.Name }) {
			t.Errorf("%s is not in the catalogue", f.Name)
		}
		seen := map[string]bool{}
		for _, series := range f.Series {
			key := fmt.Sprintf("%q", series.Labels)
			if seen[key] {
				t.Errorf("%s%q%s is there twice: Prometheus refuses the whole scrape", f.Name, f.Labels, key)
			}
			seen[key] = true
		}
	}
}

// checkIdentities: a label that names a thing names nothing else.
func checkIdentities(t *testing.T, n *fabric.Node, families []exposition.Family) {
	t.Helper()
	address := regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`).MatchString
	names := map[string]func(value string) bool{
		"device": func(v string) bool { return n.HCA(v) != nil },
		"netdev": func(v string) bool { return n.HCA(v) == nil && !address(v) }, // perhaps one of a pod
		"uuid": func(v string) bool {
			return slices.ContainsFunc(n.GPUDriver.GPUs, func(g fabric.GPU) bool { return g.UUID == v })
		},
		"pci_address": address,
	}
	for _, f := range families {
		for at, label := range f.Labels {
			for _, s := range f.Series {
				if v := s.Labels[at]; v != "" && names[label] != nil && !names[label](v) {
					t.Errorf("%s: the label %s is %q", f.Name, label, v)
				}
			}
		}
	}
}

// checkFormats compares the output with that of the Prometheus client library.
func checkFormats(t *testing.T, families []exposition.Family) {
	t.Helper()
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0} {
		var got, want bytes.Buffer
		if err := exposition.Encode(&got, format, families, nil); err != nil {
			t.Fatal(err)
		}
		if err := exposition.Encode(&want, format, nil, protos(families)); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%s is not what expfmt writes:\n%s", format, diff(want.String(), got.String()))
		}
	}
}
