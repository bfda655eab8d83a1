// SPDX-License-Identifier: Apache-2.0

//go:build scale

// Package scale measures what the shipped rules cost a real Prometheus, by the number of nodes.
//
// One exporter on a simulated node is asked once in a while, and what it says is served as that of all nodes: only the
// families that rules mention, and of the HCAs only the eight for training. A last measurement has the three
// for storage and management, too: a DGX H100 as it is. Each Prometheus first scrapes fast, without rules,
// until every range of ten minutes would hold as many samples as it does at the usual interval of 15 s: those
// of five minutes hold twice as many as in real life, and only the one rule that reads 12 hours has less.
// Then it scrapes every 15 s, a while without rules and a while with them, so that the processor time of
// rules can be separated from that of scrapes.
//
// The time by the clock is what is judged. On a machine that does other work it is longer than the processor time.
//
// Prometheus is Debian's unless PROMETHEUS_PROGRAMS names a folder with another one; make scale takes bin/prometheus if
// make prometheus has built it. That of Debian 12 is 2.42 and needs half more time.
package scale

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

const (
	samples     = 40 // of a series in ten minutes, at a scrape interval of 15 s
	evaluations = 5  // of each group that count, after a first one; their median
	cadence     = 15 * time.Second
	dearest     = 8 // rules that are printed
	// perNode is the share of one processor that all rules may have for a node, each group at its own interval.
	perNode = 0.0005
	// bend is by how much a node may cost more among many nodes than among few.
	bend         = 1.5
	largest      = 2048 // nodes that are extrapolated to
	trainingHCAs = 8    // of a simulated node
)

// result is what was measured with a number of nodes.
type result struct {
	nodes, series, window int
	hcas                  int           // of a node
	all                   time.Duration // one evaluation of all groups, by the clock
	cpu                   time.Duration // and of the processor
	share                 float64       // of one processor, by the clock, with each group at its own interval
	groups                []cost        // what a second has of them, dearest first
	slowest               string
	slowestTook           time.Duration
	rules                 []cost // by what they cost, dearest first
}

// cost is what one evaluation of a rule takes.
type cost struct {
	name string
	took time.Duration
}

func dearestFirst(a, b cost) int {
	return cmp.Or(cmp.Compare(b.took, a.took), cmp.Compare(a.name, b.name))
}

func (r result) each(d time.Duration) time.Duration { return d / time.Duration(r.nodes) }

func TestScale(t *testing.T) {
	sizes := []int{128, 256, 512}
	if testing.Short() {
		sizes = []int{32, 64}
	}
	programs, dir := prometheus.Fetch(t), t.TempDir()
	fmt.Fprintln(os.Stdout, prometheus.Version(t, programs))
	exporter := startExporter(t, dir)
	training, whole := serveAs(t, exporter, mentioned(t), "compute"), serveAs(t, exporter, mentioned(t), ".+")
	var all []result
	of := func(name, source string, size int) {
		if !t.Failed() {
			t.Run(name, func(t *testing.T) { all = append(all, measure(t, programs, source, size)) })
		}
	}
	for _, size := range sizes {
		of(strconv.Itoa(size), training, size)
	}
	of("all HCAs", whole, sizes[0])
	if t.Failed() {
		return
	}
	report(all)
	for _, r := range all[:len(sizes)] {
		if each := r.share / float64(r.nodes); each > perNode {
			t.Errorf("%d nodes: rules have %.3f%% of a processor per node, limit %.3f%%", r.nodes, 100*each, 100*perNode)
		}
		if ratio := float64(r.each(r.all)) / float64(all[0].each(all[0].all)); ratio > bend {
			t.Errorf("a node costs %.2f times as much among %d nodes as among %d, limit %.1f", ratio, r.nodes, all[0].nodes, bend)
		}
	}
}

// report prints what the sizes cost, and which rules are the dearest among most nodes.
func report(all []result) {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nnodes\tHCAs\tseries\tsamples in 10 min\tall groups\tper node\tprocessor, per node\tof one processor, as shipped\tslowest group")
	for _, r := range all {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f%%\t%s %s\n", r.nodes, r.hcas, r.series, r.window, round(r.all), round(r.each(r.all)), round(r.each(r.cpu)),
			100*r.share, r.slowest, round(r.slowestTook))
	}
	last := all[len(all)-2] // the most nodes
	scaled := func(d time.Duration) time.Duration { return d * largest / time.Duration(last.nodes) }
	fmt.Fprintf(table, "%d\t%d\t%d\textrapolated\t%s\t%s\t%s\t%.1f%%\t%s %s of its %s\n", largest, last.hcas, last.series*largest/last.nodes, round(scaled(last.all)),
		round(last.each(last.all)), round(last.each(last.cpu)), 100*last.share*largest/float64(last.nodes), last.slowest, round(scaled(last.slowestTook)), cadence)
	fmt.Fprintf(table, "\ndearest groups of %d nodes\tof a second\n", last.nodes)
	for _, c := range last.groups[:min(dearest, len(last.groups))] {
		fmt.Fprintf(table, "%s\t%s\n", c.name, round(c.took))
	}
	fmt.Fprintf(table, "\ndearest rules of %d nodes\tper node\n", last.nodes)
	for _, c := range last.rules[:min(dearest, len(last.rules))] {
		fmt.Fprintf(table, "%s\t%s\n", c.name, last.each(c.took).Round(time.Microsecond))
	}
	table.Flush()
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// measure has a Prometheus of its own evaluate the rules over so many nodes.
func measure(t *testing.T, programs, source string, nodes int) result {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	fast := max(time.Second, time.Duration(nodes)*time.Second/128) // about 100,000 samples a second
	write(t, config, configuration(source, nodes, fast, nil))
	t.Setenv("GOMAXPROCS", "2")
	server := prometheus.Serve(t, programs, dir, config)
	r := result{nodes: nodes}
	for deadline := time.Now().Add(3 * samples * fast); ; time.Sleep(fast) {
		r.window = 0
		if s := server.Query(t, "min(count_over_time(up[10m])) and count(up) == "+strconv.Itoa(nodes)); len(s) == 1 {
			r.window = int(s[0].Value)
		}
		if r.window >= samples {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d samples after %s", r.window, 3*samples*fast)
		}
	}

	write(t, config, configuration(source, nodes, cadence, nil))
	server.Reload(t)
	time.Sleep(cadence) // the new cadence has begun for all
	idle := load(t, server, 3*cadence)

	shipped := prometheus.Intervals(t)
	write(t, config, configuration(source, nodes, cadence, rules(t, dir)))
	server.Reload(t)
	watch := watchGroups(t, server)
	r.cpu = max(0, time.Duration((float64(watch.cpu)-idle*float64(watch.lasted))/watch.rounds))
	for group, all := range watch.groups {
		took := median(all)
		r.all += took
		share := float64(took) / float64(shipped[group])
		r.share += share
		r.groups = append(r.groups, cost{group, time.Duration(share * float64(time.Second))})
		if took > r.slowestTook {
			r.slowest, r.slowestTook = group, took
		}
	}
	for rule, all := range watch.rules {
		r.rules = append(r.rules, cost{rule, median(all)})
	}
	slices.SortFunc(r.rules, dearestFirst)
	slices.SortFunc(r.groups, dearestFirst)
	r.series = count(t, server, `count({job="gpufabric",__name__=~"gpufabric_.+"})`)
	if up := count(t, server, "count(up == 1)"); up != nodes {
		t.Errorf("%d of %d nodes answer", up, nodes)
	}
	r.hcas = count(t, server, "count(gpufabric_hca_info)") / nodes
	if ports := count(t, server, "count(port:gpufabric_hca_port_transmitted_data_bytes:rate2m)"); ports != trainingHCAs*nodes {
		t.Errorf("rules see %d training ports on %d nodes", ports, nodes)
	}
	if firing := server.Query(t, `count by (alertname) (ALERTS{alertstate="firing"})`); len(firing) > 0 {
		t.Errorf("healthy nodes, and alerts fire: %v", firing)
	}
	return r
}

// watched is what groups and rules took, evaluation by evaluation, and what Prometheus had of a processor meanwhile.
type watched struct {
	groups, rules map[string][]time.Duration
	cpu, lasted   time.Duration
	rounds        float64 // evaluations of a group, on average: those that come too late are left out by Prometheus
}

// watchGroups lets all groups be evaluated.
func watchGroups(t *testing.T, server *prometheus.Server) watched {
	t.Helper()
	w := watched{groups: map[string][]time.Duration{}, rules: map[string][]time.Duration{}}
	last := map[string]time.Time{}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	var began time.Time
	var had time.Duration
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		enough := true
		for _, g := range server.Groups(t) {
			before := last[g.Name]
			enough = enough && len(w.groups[g.Name]) >= evaluations
			if g.LastEvaluation.IsZero() || g.LastEvaluation.Equal(before) {
				continue
			}
			if last[g.Name] = g.LastEvaluation; before.IsZero() {
				continue // the first one warms up
			}
			if began.IsZero() {
				began, had = time.Now(), server.CPU(t)
			}
			w.groups[g.Name] = append(w.groups[g.Name], seconds(g.EvaluationTime))
			took := map[string]time.Duration{} // several rules may record one series
			for _, r := range g.Rules {
				took[r.Name] += seconds(r.EvaluationTime)
			}
			for rule, d := range took {
				w.rules[rule] = append(w.rules[rule], d)
			}
		}
		if lasted := time.Since(began); enough && len(w.groups) > 0 && lasted >= (evaluations-1)*cadence {
			w.cpu, w.lasted = server.CPU(t)-had, lasted
			for _, all := range w.groups {
				w.rounds += float64(len(all)) / float64(len(w.groups))
			}
			return w
		}
		if time.Now().After(deadline) {
			t.Fatalf("evaluations so far: %v", w.groups)
		}
	}
}

// load is what Prometheus has of one processor for a while, asked as often as it is while rules are watched.
func load(t *testing.T, server *prometheus.Server, d time.Duration) float64 {
	t.Helper()
	had := server.CPU(t)
	began := time.Now()
	for time.Since(began) < d {
		server.Groups(t)
		time.Sleep(time.Second)
	}
	return float64(server.CPU(t)-had) / float64(time.Since(began))
}

func median(all []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}

func count(t *testing.T, s *prometheus.Server, expr string) int {
	t.Helper()
	v := s.Query(t, expr)
	if len(v) != 1 {
		return 0
	}
	return int(v[0].Value)
}

// rules copies the shipped rule files, with all groups evaluated each 15 s: the test does not wait for the slow ones.
func rules(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for _, f := range prometheus.Rules(t) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(f))
		write(t, to, regexp.MustCompile(`(?m)^(\s+interval:) .*$`).ReplaceAllString(string(text), "$1 15s"))
		all = append(all, to)
	}
	return all
}

// configuration is that of Prometheus: each node is a path of the source.
func configuration(source string, nodes int, interval time.Duration, rules []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: 15s}\nrule_files: [", interval, interval)
	for _, f := range rules {
		fmt.Fprintf(&b, "%q, ", f)
	}
	b.WriteString("]\nscrape_configs:\n  - job_name: gpufabric\n    static_configs:\n")
	for i := range nodes {
		fmt.Fprintf(&b, "      - {targets: [%q], labels: {__metrics_path__: /%d/metrics, instance: node%04d}}\n", source, i, i)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
