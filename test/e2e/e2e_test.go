// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e proves the shipped alerts on real programs: processes of the exporter on simulated nodes, Prometheus with
// the shipped rules, and Alertmanager with the shipped example, which notifies a webhook. Faults come at known times.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/test/prometheus"
)

const (
	scrape  = 15 * time.Second
	warmUp  = 100 * time.Second // from the start of a node to its fault: rules compare with what was
	longest = 25 * time.Minute  // from the start of Prometheus to the table
	calm    = 45 * time.Second  // how long nodes are watched after a fault without a notification
)

// node is an exporter on a simulated node.
type node struct {
	*prometheus.Program
	instance string
	address  string
	fault    *fault // nil: it is healthy and stays so

	// Of outages: when the next one comes, when the first one came, when the one that lasts came, and when the
	// last one went.
	due, broke, silent, mended time.Time
	returned                   int // outages that are over
	start                      func(listen string) *prometheus.Program
}

// named is the instance in the alert of the fault; empty: the alert is about a job, and none is named.
func (n *node) named() string {
	if n.fault.ofJob {
		return ""
	}
	return n.instance
}

func TestAlerts(t *testing.T) {
	programs, dir := prometheus.Fetch(t), t.TempDir()
	exporter := build(t, dir)
	hook := listen(t)
	manager := manage(t, programs, dir, hook.URL)
	nodes := startNodes(t, exporter, dir)
	remember(t, programs, dir, nodes)
	server := prometheus.Serve(t, programs, dir, configure(t, dir, manager, nodes))
	begin := time.Now()
	fmt.Fprintf(os.Stdout, "%d nodes are scraped every 15 s; faults come in about a minute, the table within %s\n", len(nodes), longest.Round(time.Minute))

	outages := 0
	for _, n := range nodes {
		if n.start != nil {
			n.due = begin.Add(warmUp)
			outages++
		}
	}
	for (!settled(t, server, hook, nodes) || !quiet(t, server, nodes)) && time.Since(begin) < longest {
		for _, n := range nodes {
			n.switchOff(t)
		}
		time.Sleep(time.Second)
	}
	lasted := time.Since(begin).Round(time.Second)
	// On a busy machine one scrape may fail; a node with more failed scrapes is not watched.
	if up := server.Query(t, fmt.Sprintf("avg_over_time(up[%s]) > 0.9", lasted)); len(up) < len(nodes)-outages {
		t.Errorf("%d of %d nodes answered nine of ten scrapes: silence says nothing about the others", len(up), len(nodes)-outages)
	}
	server.Groups(t) // that no rule has an error
	firing := server.Query(t, fmt.Sprintf(`max by (alertname, instance, device, check) (max_over_time(ALERTS{alertstate="firing"}[%s]))`, lasted))
	report(t, server, hook, nodes, firing)
	count(t, hook, nodes)
	dashboards(t, server, nodes, begin)
}

// build builds the exporter.
func build(t *testing.T, dir string) string {
	t.Helper()
	exporter := filepath.Join(dir, "gpufabric_exporter")
	if out, err := exec.Command("go", "build", "-o", exporter, "../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exporter
}

// settled reports whether all expected notifications have arrived.
func settled(t *testing.T, server *prometheus.Server, hook *webhook, nodes []*node) bool {
	for _, n := range nodes {
		if n.fault == nil {
			continue
		}
		mended, ok := n.said(t, "mended")
		if !ok || (n.fault.alert == "" && time.Since(mended) < calm) {
			return false
		}
		if n.fault.alert == "" {
			continue
		}
		if _, ok := hook.first("firing", n.named(), n.fault.alert, n.fault.device); !ok {
			return false
		}
		if _, ok := hook.first("resolved", n.named(), n.fault.alert, n.fault.device); !ok && n.fault.stays == "" {
			return false
		}
		if n.fault.watched && !n.gone(t, server).After(mended) {
			return false
		}
	}
	return true
}

// gone returns when the alert of the fault was gone from Prometheus; zero: it has not come, or is there.
func (n *node) gone(t *testing.T, server *prometheus.Server) time.Time {
	t.Helper()
	const is = `ALERTS{alertstate="firing",alertname=%q,instance=%q,device=%q}`
	alert := fmt.Sprintf(is, n.fault.alert, n.named(), n.fault.device)
	var last float64
	for _, s := range server.Query(t, fmt.Sprintf("max_over_time(timestamp(%s)[%s:5s])", alert, longest)) {
		last = max(last, s.Value)
	}
	if last == 0 || len(server.Query(t, alert)) > 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(last * 1000)).Add(scrape) // the evaluation after the last with it
}

// manage starts an Alertmanager with the shipped example, whose receivers are the webhook, and returns its address.
func manage(t *testing.T, programs, dir, hook string) string {
	t.Helper()
	example, err := os.ReadFile("../../alerts/alertmanager.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(example), "http://127.0.0.1:9095", hook)
	if text == string(example) {
		t.Fatal("the example for Alertmanager has other receivers than this test knows")
	}
	config := write(t, filepath.Join(dir, "alertmanager.yml"), text)
	address := prometheus.FreeAddress(t)
	p := prometheus.Start(t, filepath.Join(dir, "alertmanager.log"), nil, filepath.Join(programs, "alertmanager"),
		"--config.file="+config, "--storage.path="+filepath.Join(dir, "alertmanager"), "--web.listen-address="+address, "--cluster.listen-address=")
	p.Ready(t, address)
	return address
}

// startNodes starts all exporters. Their faults begin at any time within the scrape interval.
func startNodes(t *testing.T, exporter, dir string) []*node {
	t.Helper()
	var all []*node
	add := func(instance string, f *fault, args ...string) {
		n := &node{instance: instance, fault: f}
		start := func(listen string) *prometheus.Program {
			return prometheus.Start(t, filepath.Join(dir, instance+".log"), demoEnv(), exporter, append([]string{"demo", "--web.listen-address=" + listen}, args...)...)
		}
		if f != nil && f.outages > 0 {
			n.start = start
		}
		n.Program = start("127.0.0.1:0")
		all = append(all, n)
	}
	for _, name := range healthy() {
		add(name, nil, "--scenario="+name)
	}
	list := faults()
	slices.SortStableFunc(list, func(a, b fault) int { return int(b.mend - a.mend) }) // those that last longest first
	for i := range list {
		f := &list[i]
		for k := range f.nodes {
			if f.outages > 0 {
				add(fmt.Sprintf("%s-%d", f.scenario, k+1), f, "--scenario=healthy")
				continue
			}
			add(fmt.Sprintf("%s-%d", f.scenario, k+1), f, "--scenario="+f.scenario,
				fmt.Sprintf("--break-after=%s", warmUp+time.Duration(k)*2300*time.Millisecond), fmt.Sprintf("--mend-after=%s", f.mend))
		}
	}
	for _, n := range all {
		n.listening(t)
	}
	return all
}

func demoEnv() []string {
	env := []string{"GOMAXPROCS=2"}
	if _, err := os.Stat("/dev/shm"); err == nil {
		env = append(env, "TMPDIR=/dev/shm") // a simulated node is thousands of small files that change each second
	}
	return env
}

// listening waits until the exporter listens, and notes where.
func (n *node) listening(t *testing.T) {
	t.Helper()
	listening := regexp.MustCompile(`msg=listening address=(\S+)`)
	for deadline := time.Now().Add(time.Minute); n.address == ""; time.Sleep(50 * time.Millisecond) {
		if m := listening.FindStringSubmatch(n.Wrote(t)); m != nil {
			n.address = m[1]
		} else if time.Now().After(deadline) {
			t.Fatalf("%s does not listen:\n%s", n.instance, n.Wrote(t))
		}
	}
}

// switchOff stops and starts the exporter at the times of the test.
func (n *node) switchOff(t *testing.T) {
	t.Helper()
	now := time.Now()
	switch {
	case n.start == nil || now.Before(n.due) || !n.mended.IsZero():
	case n.silent.IsZero():
		n.Stop(t)
		if n.silent = now; n.broke.IsZero() {
			n.broke = now
		}
	case now.Sub(n.silent) >= n.fault.mend:
		n.Program = n.start(n.address)
		n.Ready(t, n.address)
		n.silent, n.due = time.Time{}, now.Add(between)
		if n.returned++; n.returned == n.fault.outages {
			n.mended = now
		}
	}
}

// said returns when the node said that it "breaks" or is "mended".
func (n *node) said(t *testing.T, what string) (time.Time, bool) {
	t.Helper()
	if n.start != nil {
		at := map[string]time.Time{"breaks": n.broke, "mended": n.mended}[what]
		return at, !at.IsZero()
	}
	m := regexp.MustCompile(`ts=(\S+) .*msg="the simulated node (?:is )?` + what).FindStringSubmatch(n.Wrote(t))
	if m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, m[1])
	if err != nil {
		t.Fatal(err)
	}
	return at, true
}

// configure writes the configuration of Prometheus.
func configure(t *testing.T, dir, manager string, nodes []*node) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("global: {scrape_interval: " + scrape.String() + ", scrape_timeout: 10s, evaluation_interval: 15s, external_labels: {cluster: e2e}}\nrule_files:\n")
	for _, f := range prometheus.Rules(t) {
		fmt.Fprintf(&b, "  - %q\n", f)
	}
	fmt.Fprintf(&b, "alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}\n", manager)
	b.WriteString("scrape_configs:\n  - job_name: gpufabric\n    static_configs:\n")
	for _, n := range nodes {
		fmt.Fprintf(&b, "      - {targets: [%q], labels: {instance: %q}}\n", n.address, n.instance)
	}
	return write(t, filepath.Join(dir, "prometheus.yml"), b.String())
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
