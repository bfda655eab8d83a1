// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// scrape is how often Prometheus asks a node, and evaluates how often it does rules, in seconds.
const scrape, evaluates = 15, 5

// fleet is the nodes of a simulated fleet, each judging what its rails see, and what Prometheus scrapes of them.
type fleet struct {
	judges map[string]*judge
	rails  map[string]map[string]*rail    // by node and device
	counts map[string]map[string]uint64   // by node and series
	series map[string]map[string][]sample // by node
	phase  map[string]int                 // of scrapes, in seconds
	held   map[[2]locate.Rail]int         // messages of which it is not known yet whether they were lost
	lasts  int
}

// sample is a value that Prometheus got at a second.
type sample struct {
	at    int
	value string
}

func newFleet(c locatetest.Clos, seed uint64) *fleet {
	f := &fleet{
		judges: map[string]*judge{}, rails: map[string]map[string]*rail{}, counts: map[string]map[string]uint64{},
		series: map[string]map[string][]sample{}, phase: map[string]int{}, held: map[[2]locate.Rail]int{},
	}
	random := rand.New(rand.NewPCG(seed, 11))
	for n := range c.Nodes {
		for i := range c.Rails {
			r := c.Rail(n, i)
			if f.judges[r.Node] == nil {
				f.judges[r.Node], f.rails[r.Node] = newJudge(), map[string]*rail{}
				f.counts[r.Node], f.series[r.Node] = map[string]uint64{}, map[string][]sample{}
				f.phase[r.Node] = random.IntN(scrape)
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

// asks is how many messages a peer leaves unanswered until its exporter said that it lives, or did not answer either.
const asks, asksOff = 3, 6

// add is what came of messages.
func (f *fleet) add(pairs []locate.Pair, off []string) {
	for _, p := range pairs {
		sent, lost, more := "loopback_messages_total", "loopback_lost_total", ""
		if p.From.Node != p.To.Node {
			held, most := f.held[[2]locate.Rail{p.From, p.To}]+p.Bad, asks
			if slices.Contains(off, p.To.Node) {
				most = asksOff
			}
			if p.Bad > 0 && held < most {
				f.held[[2]locate.Rail{p.From, p.To}] = held
				continue
			}
			p.Sent, p.Bad = held+1-p.Bad, held
			delete(f.held, [2]locate.Rail{p.From, p.To})
			sent, lost = "messages_total", "lost_total"
			more = fmt.Sprintf(`,leaf="%s",peer_leaf="%s",peers="fabric"`, p.From.Leaf, p.To.Leaf)
			if p.From.Leaf == p.To.Leaf {
				more = strings.Replace(more, "fabric", "leaf", 1)
			}
		}
		f.judges[p.From.Node].add(p)
		f.counts[p.From.Node][name(sent, p.From, more)] += uint64(p.Sent)
		f.counts[p.From.Node][name(lost, p.From, more)] += uint64(p.Bad)
	}
}

// scrape takes all series of the nodes whose turn it is.
func (f *fleet) scrape(second int, off []string) {
	f.lasts = second + 1
	for node := range f.rails {
		if second%scrape != f.phase[node] {
			continue
		}
		now := f.exposed(node, slices.Contains(off, node))
		for series, value := range now {
			f.series[node][series] = append(f.series[node][series], sample{second, strconv.FormatFloat(value, 'g', 6, 64)})
		}
		for series, list := range f.series[node] { // one that is no longer there ends
			if _, there := now[series]; !there && list[len(list)-1].value != "stale" {
				f.series[node][series] = append(list, sample{second, "stale"})
			}
		}
	}
}

// exposed is all series of a node.
func (f *fleet) exposed(node string, off bool) map[string]float64 {
	up := fmt.Sprintf(`up{cluster="c",job="j",instance="%s"}`, node)
	if off {
		return map[string]float64{up: 0}
	}
	now := map[string]float64{up: 1}
	for _, r := range f.rails[node] {
		own := locate.Rail{Node: node, Number: r.Rail}
		now[name("info", own, fmt.Sprintf(`,rail="%d",leaf="%s",address="%s"`, r.Rail, r.self.Leaf, node))] = 1
		fault, known, bad := r.judgement(time.Now())
		for _, one := range rdmaping.Faults() {
			if value := 0.; known {
				if one == fault {
					value = 1
				}
				now[name("fault", own, fmt.Sprintf(`,fault="%s"`, one))] = value
			}
		}
		for _, b := range bad {
			now[name("peer_loss_ratio", own, fmt.Sprintf(`,rail="%d",leaf="%s",peer="%s"`, r.Rail, r.self.Leaf, b.Address))] = b.Ratio
		}
	}
	for series, n := range f.counts[node] {
		now[series] = float64(n)
	}
	return now
}

// write writes a test for promtool, which says what fires at each evaluation.
func (f *fleet) write(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	alerts, err := filepath.Abs("../../alerts")
	if err != nil {
		t.Fatal(err)
	}
	step, rules := evaluates, alerts+"/ping.rules.yml"
	if f.lasts > 1000 { // others wait for minutes
		step, rules = 60, fmt.Sprintf("%[1]s/hard.rules.yml, %[1]s/ping.rules.yml, %[1]s/ping_small.rules.yml", alerts)
	}
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: %ds\ntests:\n  - interval: 1s\n    input_series:\n", rules, step)
	for _, of := range f.series {
		for series, list := range of {
			fmt.Fprintf(&b, "      - {series: '%s', values: '", series)
			next := 0
			for _, s := range list {
				if s.at > next {
					fmt.Fprintf(&b, "_x%d ", s.at-next)
				}
				fmt.Fprintf(&b, "%s ", s.value)
				next = s.at + 1
			}
			b.WriteString("'}\n")
		}
	}
	b.WriteString("    promql_expr_test:\n")
	for at := 0; at < f.lasts; at += step {
		fmt.Fprintf(&b, "      - {expr: 'ALERTS{alertstate=\"firing\"} or vector(0)', eval_time: %ds, exp_samples: []}\n", at)
	}
	file := filepath.Join(t.TempDir(), "fleet.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// fired is how many seconds after a fault began which alerts fired first.
func fired(t *testing.T, file string, begins int) map[string]int {
	t.Helper()
	first := map[string]int{}
	for word, at := range firing(t, file) {
		first[word] = at[0] - begins
	}
	return first
}

// firing is at which seconds which alerts fire, as locatetest names faults.
func firing(t *testing.T, file string) map[string][]int {
	t.Helper()
	tool, err := exec.Command("../../alerts/promtool.sh").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(string(tool))
	}
	out, err := exec.Command(strings.TrimSpace(string(tool)), "test", "rules", file).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "got:") {
		t.Fatalf("promtool: %v\n%.2000s", err, out)
	}
	at, seen := 0, map[string][]int{}
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
			seen[alertWord(l)] = append(seen[alertWord(l)], at)
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

// begins is when a fault does, or some seconds later.
const begins = 75

// simulate has a fleet ping for some seconds after a fault began, and returns what the rules say since then.
func simulate(t *testing.T, c locatetest.Clos, fault locatetest.Fault, seed uint64, lasts int) map[string]int {
	f := newFleet(c, seed)
	begins := begins + int(seed/100+7*seed)%scrape
	synctest.Test(t, func(*testing.T) {
		c.Run(fault, begins, begins+lasts, seed, func(second int, pairs []locate.Pair) {
			var off []string
			if second >= begins {
				off = fault.Off
			}
			f.add(pairs, off)
			for node, rails := range f.rails {
				f.judges[node].close(rails, time.Now())
			}
			f.scrape(second, off)
			time.Sleep(time.Second)
		})
	})
	file, start := f.write(t), time.Now()
	said := fired(t, file, begins)
	t.Logf("promtool took %s", time.Since(start).Round(time.Second))
	return said
}

// rulesScore is how many of the alerts are right, what of the planted is named, and after how long.
type rulesScore struct {
	right, wrong, missed int
	after                map[string][]int // by fault
}

func (s *rulesScore) add(t *testing.T, c locatetest.Clos, f locatetest.Fault, said map[string]int) {
	t.Helper()
	rest := maps.Clone(said)
	var named []int
	for _, want := range f.Want {
		if at, ok := rest[want]; ok {
			named = append(named, at)
			delete(rest, want)
		}
	}
	switch {
	case len(f.Want) == 0 || strings.HasPrefix(f.Want[0], "host "): // it accuses nobody
	case len(f.Off) > 1 && 4*len(named) > 3*len(f.Want): // of many at once each rail tells three
		s.right++
		s.named(f, slices.Max(named))
	case len(f.Off) > 1:
		s.missed++
	default:
		s.right, s.missed = s.right+len(named), s.missed+len(f.Want)-len(named)
		s.named(f, named...)
	}
	delete(rest, "Unlocated") // it accuses nobody
	for _, node := range f.Off {
		delete(rest, "node "+node) // also one that few ask
	}
	s.wrong += len(rest)
	t.Logf("%4d nodes  %-52s %.300s", c.Nodes, f.Name, fmt.Sprint(said))
}

func (s *rulesScore) named(f locatetest.Fault, after ...int) {
	if s.after == nil {
		s.after = map[string][]int{}
	}
	s.after[f.Name] = append(s.after[f.Name], after...)
}

func (s *rulesScore) log(t *testing.T, c locatetest.Clos) {
	t.Helper()
	t.Logf("%4d nodes: precision %.3f, recall %.3f", c.Nodes, float64(s.right)/float64(max(1, s.right+s.wrong)),
		float64(s.right)/float64(max(1, s.right+s.missed)))
	for _, fault := range slices.Sorted(maps.Keys(s.after)) {
		sum, after := 0, s.after[fault]
		for _, a := range after {
			sum += a
		}
		t.Logf("%4d nodes: %-52s mean %3d s, worst %3d s, of %d", c.Nodes, fault, sum/max(1, len(after)), slices.Max(append(after, 0)), len(after))
	}
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
			locatetest.Clos{Nodes: 256, PerLeaf: 16, Rails: 1, Spines: 8, Noise: true}) // of 512, promtool takes not all samples
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
					s.add(t, c, f, simulate(t, c, f, uint64(i+100*n), 120))
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
