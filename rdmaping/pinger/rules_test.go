// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/locate"
	"gpufabric_exporter/rdmaping/locate/locatetest"
	"gpufabric_exporter/rdmaping/peers"
)

// scrape is how often Prometheus asks, in seconds.
const scrape = 15

// fleet is the nodes of a simulated fleet, each judging what its rails see, and what Prometheus scrapes of them.
type fleet struct {
	judges  map[string]*judge
	rails   map[string]map[string]*rail // by node and device
	counts  map[string]uint64           // by series
	series  map[string][]string         // values by series, one for each scrape
	scrapes int
}

func newFleet(c locatetest.Clos) *fleet {
	f := &fleet{
		judges: map[string]*judge{}, rails: map[string]map[string]*rail{}, counts: map[string]uint64{}, series: map[string][]string{},
	}
	for n := range c.Nodes {
		for i := range c.Rails {
			r := c.Rail(n, i)
			if f.judges[r.Node] == nil {
				f.judges[r.Node], f.rails[r.Node] = newJudge(), map[string]*rail{}
			}
			f.rails[r.Node][device(i)] = &rail{planned: planned{
				Own: Own{Open: rdmaping.Open{Device: device(i)}, Rail: i}, self: peers.Target{Address: r.Node, Leaf: r.Leaf, Rail: i},
			}}
		}
	}
	return f
}

func device(rail int) string { return fmt.Sprintf("mlx5_%d", rail) }

func name(metric string, r locate.Rail, more string) string {
	return fmt.Sprintf(`gpufabric_ping_%s{cluster="c",job="j",instance="%s",device="%s",port="1"%s}`, metric, r.Node, device(r.Number), more)
}

// add is what came of messages.
func (f *fleet) add(pairs []locate.Pair) {
	for _, p := range pairs {
		f.judges[p.From.Node].add(p)
		sent, lost, more := "loopback_messages_total", "loopback_lost_total", ""
		if p.From.Node != p.To.Node {
			sent, lost = "messages_total", "lost_total"
			more = fmt.Sprintf(`,leaf="%s",peer_leaf="%s",peers="fabric"`, p.From.Leaf, p.To.Leaf)
			if p.From.Leaf == p.To.Leaf {
				more = strings.Replace(more, "fabric", "leaf", 1)
			}
		}
		f.counts[name(sent, p.From, more)] += uint64(p.Sent)
		f.counts[name(lost, p.From, more)] += uint64(p.Bad)
	}
}

// scrape takes all series of nodes that are not off.
func (f *fleet) scrape(off []string) {
	for node, rails := range f.rails {
		if slices.Contains(off, node) {
			f.put(fmt.Sprintf(`up{cluster="c",job="j",instance="%s"}`, node), 0)
			continue
		}
		f.put(fmt.Sprintf(`up{cluster="c",job="j",instance="%s"}`, node), 1)
		for _, r := range rails {
			own := locate.Rail{Node: node, Number: r.Rail}
			f.put(name("info", own, fmt.Sprintf(`,rail="%d",leaf="%s",address="%s"`, r.Rail, r.self.Leaf, node)), 1)
			fault, known, bad := r.judgement(time.Now())
			for _, one := range rdmaping.Faults() {
				if value := 0.; known {
					if one == fault {
						value = 1
					}
					f.put(name("fault", own, fmt.Sprintf(`,fault="%s"`, one)), value)
				}
			}
			for _, b := range bad {
				f.put(name("peer_loss_ratio", own, fmt.Sprintf(`,rail="%d",leaf="%s",peer="%s"`, r.Rail, r.self.Leaf, b.Address)), b.Ratio)
			}
		}
	}
	for series, n := range f.counts {
		if !slices.ContainsFunc(off, func(node string) bool { return strings.Contains(series, `instance="`+node+`"`) }) {
			f.put(series, float64(n))
		}
	}
	f.scrapes++
}

func (f *fleet) put(series string, value float64) {
	f.series[series] = append(f.until(series), strconv.FormatFloat(value, 'g', 6, 64))
}

// until is the values of a series until now: one that is no longer scraped ends.
func (f *fleet) until(series string) []string {
	list := f.series[series]
	if missing := f.scrapes - len(list); missing > 0 && len(list) > 0 {
		list = append(list, "stale")
	}
	for len(list) < f.scrapes {
		list = append(list, "_")
	}
	return list
}

// write writes a test for promtool, which says what fires after each scrape.
func (f *fleet) write(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	alerts, err := filepath.Abs("../../alerts")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "rule_files: [%[1]s/hard.rules.yml, %[1]s/ping.rules.yml, %[1]s/ping_small.rules.yml]\n", alerts)
	step := scrape
	if f.scrapes > 100 { // hours
		step = 60
	}
	fmt.Fprintf(&b, "evaluation_interval: %ds\ntests:\n  - interval: %ds\n    input_series:\n", step, scrape)
	for _, series := range slices.Sorted(maps.Keys(f.series)) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", series, strings.Join(f.until(series), " "))
	}
	b.WriteString("    promql_expr_test:\n")
	for at := 0; at < f.scrapes*scrape; at += step {
		fmt.Fprintf(&b, "      - {expr: 'ALERTS{alertstate=\"firing\"} or vector(0)', eval_time: %ds, exp_samples: []}\n", at)
	}
	file := filepath.Join(t.TempDir(), "fleet.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// fired is when which alerts began to fire, in seconds, as locatetest names faults.
func fired(t *testing.T, file string) map[string]int {
	t.Helper()
	tool, err := exec.Command("../../alerts/promtool.sh").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(string(tool))
	}
	out, err := exec.Command(strings.TrimSpace(string(tool)), "test", "rules", file).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "got:") {
		t.Fatalf("promtool: %v\n%.2000s", err, out)
	}
	at, seen := 0, map[string]int{}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for line := range strings.Lines(string(out)) {
		if _, when, ok := strings.Cut(line, ", time: "); ok {
			d, err := time.ParseDuration(strings.Trim(when, ", \n"))
			if err != nil {
				t.Fatal(err)
			}
			at = int(d.Seconds())
		}
		for _, one := range regexp.MustCompile(`\{__name__="ALERTS"[^}]*\}`).FindAllString(line, -1) {
			l := map[string]string{}
			for _, m := range label.FindAllStringSubmatch(one, -1) {
				l[m[1]] = m[2]
			}
			if word := alertWord(l); seen[word] == 0 {
				seen[word] = at
			}
		}
	}
	return seen
}

func alertWord(l map[string]string) string {
	switch kind := strings.TrimPrefix(l["alertname"], "GpuFabricPing"); kind {
	case "Rail":
		return "rail " + l["instance"] + " " + l["rail"]
	case "Node":
		return "node " + l["instance"]
	case "Leaf":
		return "leaf " + l["leaf"]
	case "Path":
		return "path " + min(l["leaf"], l["peer_leaf"]) + " " + max(l["leaf"], l["peer_leaf"])
	case "Spine":
		return string(locate.Fabric)
	case "RailSlow":
		return kind + " " + l["instance"] + " " + l["rail"]
	case "LeafSlow":
		return kind + " " + l["leaf"]
	default:
		return kind
	}
}

// begins is when a fault does.
const begins = 134

// simulate has a fleet ping for some seconds after a fault began, and returns what the rules say.
func simulate(t *testing.T, c locatetest.Clos, fault locatetest.Fault, seed uint64, lasts int) map[string]int {
	f := newFleet(c)
	synctest.Test(t, func(*testing.T) {
		c.Run(fault, begins, begins+lasts, seed, func(second int, pairs []locate.Pair) {
			f.add(pairs)
			var off []string
			if second >= begins {
				off = fault.Off
			}
			for node, rails := range f.rails {
				f.judges[node].close(rails, time.Now())
			}
			if second%scrape == 0 {
				f.scrape(off)
			}
			time.Sleep(time.Second)
		})
	})
	file, start := f.write(t), time.Now()
	defer func() {
		t.Logf("%d series, %d samples a scrape of a node, promtool took %s", len(f.series), len(f.series)/c.Nodes, time.Since(start).Round(time.Second))
	}()
	return fired(t, file)
}

// rulesScore is how many of the alerts are right, what of the planted is named, and after how long.
type rulesScore struct {
	right, wrong, missed int
	after                []int
}

func (s *rulesScore) add(t *testing.T, c locatetest.Clos, f locatetest.Fault, said map[string]int) {
	t.Helper()
	rest := maps.Clone(said)
	var named []int
	for _, want := range f.Want {
		if at, ok := rest[want]; ok {
			named = append(named, at-begins)
			delete(rest, want)
		}
	}
	switch {
	case len(f.Want) == 0 || strings.HasPrefix(f.Want[0], "host "): // it accuses nobody
	case len(f.Off) > 1 && 4*len(named) > 3*len(f.Want): // of many at once each rail tells three
		s.right++
		s.after = append(s.after, slices.Max(named))
	case len(f.Off) > 1:
		s.missed++
	default:
		s.right, s.missed, s.after = s.right+len(named), s.missed+len(f.Want)-len(named), append(s.after, named...)
	}
	delete(rest, "Unlocated") // it accuses nobody
	for _, node := range f.Off {
		delete(rest, "node "+node) // also one that few ask
	}
	s.wrong += len(rest)
	t.Logf("%4d nodes  %-52s %.300s", c.Nodes, f.Name, fmt.Sprint(said))
}

func (s *rulesScore) log(t *testing.T, c locatetest.Clos) {
	t.Helper()
	slices.Sort(s.after)
	t.Logf("%4d nodes: precision %.3f, recall %.3f, seconds %v", c.Nodes, float64(s.right)/float64(max(1, s.right+s.wrong)),
		float64(s.right)/float64(max(1, s.right+s.missed)), s.after)
}

// TestRules plants faults in fleets of which a quarter of the hosts lose messages, and has Prometheus' rules judge.
func TestRules(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: promtool takes a minute (make rules)")
	}
	fleets := []locatetest.Clos{{Nodes: 9, PerLeaf: 3, Rails: 1, Spines: 2, Noise: true}}
	if os.Getenv("FULL") != "" {
		fleets = append(fleets, locatetest.Clos{Nodes: 16, PerLeaf: 4, Rails: 2, Spines: 4, Noise: true},
			locatetest.Clos{Nodes: 64, PerLeaf: 8, Rails: 1, Spines: 4, Noise: true},
			locatetest.Clos{Nodes: 256, PerLeaf: 16, Rails: 1, Spines: 8, Noise: true},
			locatetest.Clos{Nodes: 512, PerLeaf: 128, Rails: 1, Spines: 8, Noise: true}) // promtool takes no more samples
	}
	seeds := 1
	if n, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv("ONLY")); err == nil {
		fleets = slices.DeleteFunc(fleets, func(c locatetest.Clos) bool { return c.Nodes != n })
	}
	for _, c := range fleets {
		var s rulesScore
		for i, f := range c.Faults() {
			for n := range seeds {
				if c.Asks(f) {
					s.add(t, c, f, simulate(t, c, f, uint64(i+100*n), 180))
				}
			}
		}
		s.log(t, c)
		if s.wrong > 0 || s.missed > 0 {
			t.Errorf("%d nodes: %+v", c.Nodes, s)
		}
	}
}

// TestRulesSmall plants small losses, which the rules name within two hours.
func TestRulesSmall(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("skipped: it takes minutes (FULL=1)")
	}
	c := locatetest.Clos{Nodes: 64, PerLeaf: 8, Rails: 1, Spines: 4, Noise: true}
	var s rulesScore
	for i, f := range c.SmallFaults() {
		s.add(t, c, f, simulate(t, c, f, uint64(i), 4200))
	}
	s.log(t, c)
	if s.wrong > 0 || s.missed > 0 {
		t.Errorf("%+v", s)
	}
}
