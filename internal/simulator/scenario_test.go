// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	s, err := Find("port-down")
	if err != nil || s.Name != "port-down" || s.Build() == nil {
		t.Fatalf("%v, %v", s, err)
	}
	for asked, want := range map[string]string{
		"port-donw":    `unknown scenario "port-donw"; did you mean port-down?`,
		"flapping":     `unknown scenario "flapping"; did you mean link-flapping?`,
		"Healthy":      `unknown scenario "Healthy"; did you mean healthy?`,
		"pfc_storm":    `unknown scenario "pfc_storm"; did you mean pfc-storm?`,
		"":             `unknown scenario ""`,
		"quux-quux-ax": `unknown scenario "quux-quux-ax"`,
	} {
		if _, err := Find(asked); err == nil || err.Error() != want {
			t.Errorf("Find(%q): %v", asked, err)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	all := Scenarios()
	for _, s := range scenarios() {
		if !slices.ContainsFunc(platforms(), func(p platform) bool { return p.name == s.Platform }) {
			t.Errorf("scenario %s: there is no platform %q: name one of those in internal/simulator/platforms_*.go", s.Name, s.Platform)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	unique(t, "scenario", all, func(s Scenario) string { return s.Name })
	name, what := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, s := range all {
		if !name.MatchString(s.Name) || s.Summary == "" || strings.ContainsAny(s.Summary, "\n.") || s.Truth == "" {
			t.Errorf("scenario %q: the name is words in lower case with hyphens, Summary one line without a full stop, and Truth says what a user should see and why", s.Name)
		}
		if !strings.Contains(s.Config(), "compute_ports: ") {
			t.Errorf("%s: config %q", s.Name, s.Config())
		}
		if s.OverTime && len(s.Expect)+len(s.GPUs) == 0 {
			t.Errorf("%s: nothing to find over time", s.Name)
		}
		healthy := s.platform.build()
		for _, f := range s.Expect {
			if !what.MatchString(f.What) || (f.Device != "" && healthy.HCA(f.Device) == nil) || (f.Device == "") != (f.Port == 0) {
				t.Errorf("%s: finding %+v", s.Name, f)
			}
		}
	}
	checkGPULabels(t, all, what)
	all[0].Expect, all[0].Name = append(all[0].Expect[:0], Finding{What: "scribble"}), "scribble"
	if fresh := Scenarios()[0]; fresh.Name == "scribble" || (len(fresh.Expect) > 0 && fresh.Expect[0].What == "scribble") {
		t.Error("Scenarios does not return copies")
	}
}

// differing are the words of Scenario.differs that stand for patterns of paths; $1 and $2 are what follows the colon.
var differing = map[string]string{
	"port":      `sys/devices/.*/infiniband/$1`, // port:DEVICE/FILE
	"net":       `sys/devices/.*/net/$1`,
	"eth":       `ethernet/$1`,
	"nccl":      `root/etc/nccl\.conf`,
	"v4":        `proc/(1/)?net/route`,
	"v6":        `proc/(1/)?net/ipv6_route`,
	"kmsg":      `root/dev(/kmsg)?`,
	"logs":      `root/var(/log(/jobs(/.*)?)?)? kmsg`,
	"inspector": `root/run(/nccl_inspector(/.*)?)? kmsg`,
	"stopped":   `ethernet/.*/stats/.* sys/devices/.*/(counters|hw_counters)/.*`,
	// down:DEVICE,INTERFACE is a port without a link.
	"down": `port:$1/(state|phys_state|rate) net:$2/(carrier|operstate|speed) port:$1/<moving> eth:$2/(carrier|stats/.*|fec)`,
	// What PFC changes: itself, the buffers and the names of what is counted.
	"pfc": `net:$1/qos/(prio2buffer|buffer_size) eth:$1/(dcb/(pfc|buffers)|stats/[rt]x_prio3_pause.*)`,
	// moved:DEVICES,INTERFACES have been given to a pod.
	"moved": `sys/class/infiniband/$1 sys/devices/.*/infiniband/$1(/.*)? sys/class/net/$2 net:$2(/.*)? eth:$2(/.*)? v4`,
}

// within are abbreviations in patterns.
var within = strings.NewReplacer(
	"<moving>", `(hw_)?counters/(port_(xmit|rcv)_(data|packets)|unicast_(xmit|rcv)_packets|rx_write_requests|[rn]p_.*)`,
	"<marks>", `hw_counters/(np_ecn_marked_roce_packets|np_cnp_sent|rp_cnp_handled)`,
	"<rdma>", `[rt]x_(vport_rdma_unicast_(packets|bytes)|prio3_(packets|bytes)|(packets|bytes)_phy)`,
	"<cnps>", `[rt]x_prio6_(packets|bytes)`,
	"<carried>", `stats/[rt]x_prio[03]_(packets|bytes)`,
	"<rails>", `en(p24|p64|p79|p94|p154|p192|p206|p220)s0np0`,
)

// patterns are those that Scenario.differs states.
func patterns(differs string) (all []*regexp.Regexp) {
	for word := range strings.FieldsSeq(differs) {
		name, of, _ := strings.Cut(word, ":")
		text, ok := differing[name]
		if !ok {
			all = append(all, regexp.MustCompile("^"+within.Replace(word)+"$"))
			continue
		}
		first, second, _ := strings.Cut(of, ",")
		if device, file, ok := strings.Cut(of, "/"); ok && name == "port" {
			first = device + "/ports/1/" + file
		}
		all = append(all, patterns(strings.NewReplacer("$1", first, "$2", second).Replace(text))...)
	}
	return all
}

// TestScenariosDifferWhereTheySay compares every scenario with the healthy node of its platform: each path
// that differs must match one of the patterns, and each pattern must match some path.
func TestScenariosDifferWhereTheySay(t *testing.T) {
	const step = 105 // a flapping link is down, and counters that are cleared each minute were
	healthy := map[string]files{}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if healthy[s.Platform] == nil {
				healthy[s.Platform] = layoutAndAnswers(s.platform.build().at(step))
			}
			ch := healthy[s.Platform].to(layoutAndAnswers(built(t, s).at(step)))
			want := patterns(s.differs)
			unused := slices.Clone(want)
			for _, name := range slices.Concat(ch.removed, ch.added, ch.changed) {
				match := func(p *regexp.Regexp) bool { return p.MatchString(name) }
				// The counters of an interface stop with its link.
				if !slices.ContainsFunc(want, match) && path.Base(path.Dir(name)) != "statistics" {
					t.Errorf("differs at %s: say so in differs of the scenario, in internal/simulator/scenarios_*.go", name)
				}
				unused = slices.DeleteFunc(unused, match)
			}
			if len(unused) > 0 {
				t.Errorf("does not differ at %q", unused)
			}
			t.Log(summary(ch))
		})
	}
}

// built is the node of a scenario.
func built(t *testing.T, s Scenario) (n *Node) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("scenario %s: its edit ends with %v: has platform %s what it changes?", s.Name, p, s.Platform)
		}
	}()
	return s.Build()
}

func summary(ch changes) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "%d removed, %d added, %d changed\n", len(ch.removed), len(ch.added), len(ch.changed))
	for _, part := range []struct {
		sign  string
		names []string
	}{{"-", ch.removed}, {"+", ch.added}, {"~", ch.changed}} {
		for i, name := range part.names {
			if i == 8 {
				fmt.Fprintf(&b, "%s … %d more\n", part.sign, len(part.names)-i)
				break
			}
			fmt.Fprintln(&b, part.sign, name)
		}
	}
	return b.String()
}
