// SPDX-License-Identifier: Apache-2.0

//go:build scale

// Package scale measures what the shipped rules cost a real Prometheus, by the number of nodes.
//
// One exporter on a simulated node is asked once in a while, and what it says is served as that of all nodes: only the
// families that rules mention. Each Prometheus first scrapes fast, without rules, until every range of ten minutes
// would hold as many samples as it does at the usual interval of 15 s. Only the one rule that reads 12 hours has less
// than in real life.
package scale

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gpufabric_exporter/test/prometheus"
)

const (
	samples     = 40 // of a series in ten minutes, at a scrape interval of 15 s
	evaluations = 5  // of each group that count, after a first one
	perNode     = 5 * time.Millisecond
	// bend is by how much a node may cost more among many nodes than among few.
	bend    = 1.5
	largest = 2048 // nodes that are extrapolated to
)

// result is what was measured with a number of nodes.
type result struct {
	nodes, series, window int
	all                   time.Duration // one evaluation of all groups
	slowest               string
	slowestTook           time.Duration
}

func (r result) perNode() time.Duration { return r.all / time.Duration(r.nodes) }

func TestScale(t *testing.T) {
	sizes := []int{128, 256, 512}
	if testing.Short() {
		sizes = []int{32, 64}
	}
	programs, dir := prometheus.Fetch(t), t.TempDir()
	source := serveAs(t, startExporter(t, dir))
	var all []result
	for _, size := range sizes {
		var r result
		t.Run(strconv.Itoa(size), func(t *testing.T) { r = measure(t, programs, source, size) })
		if t.Failed() {
			return
		}
		all = append(all, r)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nnodes\tseries\tsamples in 10 min\tall groups\tper node\tslowest group")
	for _, r := range all {
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\t%s %s\n", r.nodes, r.series, r.window, round(r.all), round(r.perNode()), r.slowest, round(r.slowestTook))
	}
	last := all[len(all)-1]
	scaled := func(d time.Duration) time.Duration { return d * largest / time.Duration(last.nodes) }
	fmt.Fprintf(table, "%d\t%d\textrapolated\t%s\t%s\t%s %s of its 15 s\n", largest, last.series*largest/last.nodes, round(scaled(last.all)), round(last.perNode()),
		last.slowest, round(scaled(last.slowestTook)))
	table.Flush()
	for _, r := range all {
		if r.perNode() > perNode {
			t.Errorf("%d nodes: an evaluation takes %s per node, limit %s", r.nodes, round(r.perNode()), perNode)
		}
		if ratio := float64(r.perNode()) / float64(all[0].perNode()); ratio > bend {
			t.Errorf("a node costs %.2f times as much among %d nodes as among %d, limit %.1f", ratio, r.nodes, all[0].nodes, bend)
		}
	}
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

	write(t, config, configuration(source, nodes, 15*time.Second, rules(t, dir)))
	server.Reload(t)
	took := map[string][]time.Duration{}
	seen := map[string]time.Time{}
	for deadline := time.Now().Add(5 * time.Minute); !enough(took); time.Sleep(time.Second) {
		for _, g := range server.Groups(t) {
			if g.LastEvaluation.IsZero() || g.LastEvaluation.Equal(seen[g.Name]) {
				if took[g.Name] == nil {
					took[g.Name] = []time.Duration{}
				}
				continue
			}
			first := seen[g.Name].IsZero()
			seen[g.Name] = g.LastEvaluation
			if took[g.Name] = append([]time.Duration{}, took[g.Name]...); !first {
				took[g.Name] = append(took[g.Name], time.Duration(g.EvaluationTime*float64(time.Second)))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("evaluations so far: %v", took)
		}
	}
	for name, all := range took {
		var sum time.Duration
		for _, d := range all {
			sum += d
		}
		mean := sum / time.Duration(len(all))
		r.all += mean
		if mean > r.slowestTook {
			r.slowest, r.slowestTook = name, mean
		}
	}
	r.series = count(t, server, `count({job="gpufabric",__name__=~"gpufabric_.+"})`)
	if up := count(t, server, "count(up == 1)"); up != nodes {
		t.Errorf("%d of %d nodes answer", up, nodes)
	}
	if ports := count(t, server, "count(port:gpufabric_hca_port_info:compute)"); ports != 8*nodes {
		t.Errorf("rules see %d compute ports on %d nodes", ports, nodes)
	}
	if firing := server.Query(t, `count by (alertname) (ALERTS{alertstate="firing"})`); len(firing) > 0 {
		t.Errorf("healthy nodes, and alerts fire: %v", firing)
	}
	return r
}

// enough tells whether each group was evaluated often enough.
func enough(took map[string][]time.Duration) bool {
	for _, all := range took {
		if len(all) < evaluations {
			return false
		}
	}
	return len(took) > 0
}

func count(t *testing.T, s *prometheus.Server, expr string) int {
	t.Helper()
	v := s.Query(t, expr)
	if len(v) != 1 {
		return 0
	}
	return int(v[0].Value)
}

// rules copies the shipped rule files, with all groups evaluated each 15 s: nobody waits for the slow ones here.
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

// startExporter starts an exporter on a simulated node and returns where its metrics are.
func startExporter(t *testing.T, dir string) string {
	t.Helper()
	exporter := filepath.Join(dir, "gpufabric_exporter")
	if out, err := exec.Command("go", "build", "-o", exporter, "../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	env := []string{"GOMAXPROCS=2"}
	if _, err := os.Stat("/dev/shm"); err == nil {
		env = append(env, "TMPDIR=/dev/shm") // a simulated node is thousands of small files that change each second
	}
	address := prometheus.FreeAddress(t)
	p := prometheus.Start(t, filepath.Join(dir, "exporter.log"), env, exporter, "demo", "--scenario=healthy", "--web.listen-address="+address)
	p.Ready(t, address)
	return "http://" + address + "/metrics"
}

// serveAs serves what the exporter says, as far as rules mention it, below any path, and returns the address.
func serveAs(t *testing.T, exporter string) string {
	t.Helper()
	mentioned := map[string]bool{}
	for _, f := range prometheus.Rules(t) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`gpufabric_[a-z0-9_]+`).FindAllString(string(text), -1) {
			mentioned[name] = true
		}
	}
	type answer struct {
		at   time.Time
		body []byte
	}
	last := make(chan answer, 1)
	last <- answer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := <-last
		if time.Since(a.at) > 5*time.Second {
			body, err := ask(exporter, mentioned)
			if err != nil {
				t.Error(err)
			}
			a = answer{time.Now(), body}
		}
		last <- a
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(a.body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// ask scrapes the exporter for the families that are mentioned.
func ask(exporter string, mentioned map[string]bool) ([]byte, error) {
	answer, err := http.Get(exporter)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var b bytes.Buffer
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for keep := false; lines.Scan(); {
		line := lines.Text()
		if f := strings.Fields(line); len(f) > 2 && f[0] == "#" {
			keep = mentioned[f[2]]
		}
		if keep {
			b.WriteString(line + "\n")
		}
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("%s: no family that rules mention", exporter)
	}
	return b.Bytes(), lines.Err()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
