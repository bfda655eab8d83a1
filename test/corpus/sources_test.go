// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
	"gpufabric_exporter/internal/verdict"
)

// TestSources judges every scenario by each source alone: the configuration of the site, nothing, a list in
// NCCL_IB_HCA that names the ports for training, and what the exporter saw of the healthy node before. No
// healthy node has a critical finding, whoever states what. What is critical by the configuration is critical
// by list or record in nearly all scenarios, and never an all-clear where
// nothing is stated, unless it left no trace. Machines of public documents are judged the same way (judgePlatforms).
// Without FULL=1, as make corpus does, of scenarios with the same faults on a platform the first one stands for all.
func TestSources(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	var mu sync.Mutex
	results := map[string]map[string]outcome{} // by scenario and way
	t.Run("nodes", func(t *testing.T) {
		kinds := simulatortest.Kinds(simulatortest.Fault)
		for platform, samples := range scenarioSamples() {
			t.Run(platform, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.wants = settings | fabric.WantLogs
				good := samples[slices.IndexFunc(samples, func(o sample) bool { return o.healthy() && strings.HasPrefix(o.name, "healthy") })]
				train := training(s.observe(t, good, 0)[0])
				for _, one := range samples {
					if !slices.ContainsFunc(kinds, func(k simulator.Scenario) bool { return k.Name == one.name }) {
						continue
					}
					of := map[string]outcome{byConfiguration: outcomeOf(s.observe(t, one, 0)[0])}
					if len(one.labels) > 0 && len(of[byConfiguration].critical) == 0 {
						continue // nothing hard
					}
					bare := s.observe(t, unstated(one), 0)[0]
					of[byNothing] = outcomeOf(bare)
					of[byList] = outcomeOf(s.observe(t, listing(one, train), 0)[0])
					of[byRecord] = outcomeOf(s.observeAfter(t, unstated(good), unstated(one)))
					if bare.Profile != nil {
						of[byProfile] = of[byNothing]
						delete(of, byNothing)
					}
					mu.Lock()
					results[one.name] = of
					mu.Unlock()
				}
			})
		}
	})
	platforms := judgePlatforms(t)
	reportPlatforms(t, platforms)
	judgeSources(t, results, platforms)
}

// ownWords are faults by the words of the configuration alone: the number that it has, and a rate that the
// kernel misreports.
func ownWords() []string { return []string{"nccl-hca-short", "rate-mismatch"} }

// byRole are faults only of ports for training, which a record does not say of any.
func byRole(o outcome) bool {
	return !slices.ContainsFunc(o.critical, func(what string) bool {
		id, _, _ := strings.Cut(what, " ")
		return diagnose.Find(id).Rests != verdict.OnRole
	})
}

// tally counts what each source makes of hard faults: codes of check, and criticals on healthy nodes.
type tally map[string]*struct{ faults, healthy, critical, unknown, clear, false int }

func (c tally) add(way string, healthy bool, o outcome) {
	t := c[way]
	switch {
	case healthy:
		t.healthy++
		if len(o.critical) > 0 {
			t.false++
		}
		return
	case o.code() == 1:
		t.critical++
	case o.code() == 2:
		t.unknown++
	default:
		t.clear++
	}
	t.faults++
}

func judgeSources(t *testing.T, results map[string]map[string]outcome, platforms []platformOutcome) {
	t.Helper()
	count := tally{}
	for _, w := range ways() {
		count[w] = &struct{ faults, healthy, critical, unknown, clear, false int }{}
	}
	hard, roles := 0, 0
	for _, name := range slices.Sorted(maps.Keys(results)) {
		of := results[name]
		s, err := simulator.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		// The storage port is down for who saw its link.
		healthy, critical := len(labelled(s)) == 0 && name != "storage-port-down", len(of[byConfiguration].critical) > 0
		if slices.Contains(ownWords(), name) {
			continue
		}
		if critical {
			hard++
			if byRole(of[byConfiguration]) {
				roles++
			}
		}
		for w, o := range of {
			if healthy || critical {
				count.add(w, healthy, o)
			}
			if healthy && len(o.critical) > 0 {
				t.Errorf("%s is healthy, but by %s: %v", name, w, o.critical)
			}
			if critical && o.code() != 1 {
				t.Logf("%s by %s: %d %v, by configuration %v", name, w, o.code(), o.unstated, of[byConfiguration].critical)
			}
		}
		if o, ok := of[byNothing]; ok && critical && o.code() == 0 {
			t.Errorf("%s: all-clear where nothing is stated, but by the configuration %v", name, of[byConfiguration].critical)
		}
	}
	for w, of := range map[string]int{byList: hard, byRecord: hard - roles} { // of a rate, a list says nothing
		if 100*count[w].critical < 92*of && of-count[w].critical > 1 {
			t.Errorf("%s: %d of %d hard faults are critical", w, count[w].critical, of)
		}
	}
	for _, o := range platforms {
		count.add(o.way, o.fault == "", o.outcome)
	}
	t.Logf("%-13s %6s %8s %7s %9s %7s %s", "source", "faults", "critical", "unknown", "all-clear", "healthy", "of them critical")
	for _, w := range ways() {
		c := count[w]
		t.Logf("%-13s %6d %8d %7d %9d %7d %d", w, c.faults, c.critical, c.unknown, c.clear, c.healthy, c.false)
	}
}

// outcome is what check says of a node at --severity=critical.
type outcome struct{ critical, unstated []string }

func (o outcome) code() int {
	switch {
	case len(o.critical) > 0:
		return 1
	case len(o.unstated) > 0:
		return 2
	}
	return 0
}

func outcomeOf(n *fabric.Node) (o outcome) {
	list := diagnose.Run(n, nil)
	for i := range list {
		v := &list[i]
		switch what := fmt.Sprint(v.Check.ID, " ", v.Subject); {
		case v.Check.Severity != verdict.Critical || v.Check.Rate:
		case v.Status == verdict.Failed:
			o.critical = append(o.critical, what)
		case v.Status == verdict.Unknown:
			o.unstated = append(o.unstated, what)
		}
	}
	return o
}

// training names the devices with a port of role compute.
func training(n *fabric.Node) (names []string) {
	for i := range n.HCAs {
		up := func(p fabric.Port) bool { return p.Role.Or("") == fabric.RoleCompute && p.Carries() }
		if slices.ContainsFunc(n.HCAs[i].Ports, up) {
			names = append(names, n.HCAs[i].Name)
		}
	}
	return names
}

// unstated is a node of which nobody states anything.
func unstated(of sample) sample { return listing(of, nil) }

// listing is a node of which NCCL_IB_HCA of the host alone says which devices are for training, if any.
func listing(of sample, devices []string) sample {
	build := of.node
	config := of.config
	of.config = func(t *simulator.Tree) string { // what the fabric should carry is not about ports
		roce := slices.DeleteFunc(strings.SplitAfter(config(t), "\n"), func(l string) bool { return !strings.HasPrefix(l, "  roce:") })
		if len(roce) == 0 {
			return ""
		}
		return "expected:\n" + strings.Join(roce, "")
	}
	of.node = func() *simulator.Node {
		const file = "etc/nccl.conf"
		n := build()
		lines := slices.DeleteFunc(strings.Split(n.Files[file], "\n"), func(l string) bool { return strings.HasPrefix(l, "NCCL_IB_HCA=") })
		if len(devices) > 0 {
			lines = append(lines[:max(0, len(lines)-1)], "NCCL_IB_HCA=="+strings.Join(devices, ","), "")
		}
		n.Files = maps.Clone(n.Files)
		if n.Files == nil {
			n.Files = map[string]string{}
		}
		n.Files[file] = strings.Join(lines, "\n")
		return n
	}
	return of
}
