// SPDX-License-Identifier: Apache-2.0

package collector_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/collector"
	nodechecks "gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// series are those of a node, by name: labels with their values, to the value.
type series map[string]map[string]float64

func gather(t *testing.T, n *fabric.Node) series {
	t.Helper()
	set, err := collector.NewSet([]string{"hca", "check"})
	if err != nil {
		t.Fatal(err)
	}
	all := series{}
	for _, f := range set.Gather(n, collector.ConfigState{}) {
		name := strings.TrimPrefix(f.Name, collector.Prefix)
		all[name] = map[string]float64{}
		for _, s := range f.Series {
			var labels []string
			for i, l := range f.Labels {
				labels = append(labels, l+"="+s.Labels[i])
			}
			all[name][strings.Join(labels, " ")] = s.Value
		}
	}
	return all
}

// where returns the subjects, by these labels, of series with that value that have all the words.
func (s series) where(name string, value float64, by []string, words ...string) (list []string) {
	for labels, v := range s[name] {
		all := strings.Fields(labels)
		has := func(w string) bool { return slices.Contains(all, w) }
		if v != value || slices.ContainsFunc(words, func(w string) bool { return !has(w) }) {
			continue
		}
		var of []string
		for _, l := range by {
			i := slices.IndexFunc(all, func(a string) bool { return strings.HasPrefix(a, l+"=") })
			of = append(of, strings.TrimPrefix(all[i], l+"="))
		}
		list = append(list, strings.Join(of, "/"))
	}
	slices.Sort(list)
	return list
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// judgedBy are nodes that were like healthy and became like n, as each source has them.
func judgedBy(healthy, n *fabric.Node) map[string]*fabric.Node {
	guessed := n.Copy()
	policy := *n.Policy
	guessed.NCCL, guessed.Policy = fabric.NCCLConfig{}, &policy
	for _, p := range guessed.Ports {
		p.Seen = fabric.PortHistory{}
	}
	with := func(edit func(*fabric.Node)) *fabric.Node {
		c, policy := guessed.Copy(), *guessed.Policy
		c.Policy = &policy
		edit(c)
		c.Derive()
		return c
	}
	recorded := func(c *fabric.Node) {
		for h, p := range c.Ports {
			if before := healthy.HCA(h.Name); before != nil {
				i := slices.IndexFunc(before.Ports, func(q fabric.Port) bool { return q.Number == p.Number && q.Carries() })
				p.Seen.Active = i >= 0
			}
		}
		record := inventory.Open("", "", slog.New(slog.DiscardHandler))
		defer record.Close()
		record.Update(healthy)
		c.Remembered = record.Update(c).Remembered
	}
	manifest := nodechecks.NewManifest(healthy)
	active := 0
	for range healthy.ActiveCompute {
		active++
	}
	return map[string]*fabric.Node{
		"as it is": n,
		"guesses":  with(func(*fabric.Node) {}),
		"record":   with(recorded),
		"manifest": with(func(c *fabric.Node) { c.Policy.Manifest = &manifest }),
		"record and manifest": with(func(c *fabric.Node) {
			recorded(c)
			c.Policy.Manifest, c.DevicesCompared = &manifest, true
		}),
		"number":    with(func(c *fabric.Node) { c.Policy.ComputePorts = &active }),
		"no number": with(func(c *fabric.Node) { c.Policy.ComputePorts = new(0) }),
		"record, then accepted": with(func(c *fabric.Node) {
			recorded(c)
			c.Remembered, c.DevicesCompared = nil, true
			for _, p := range c.Ports {
				p.Seen.Active = p.Carries()
			}
		}),
	}
}

// What the alerts GpuFabricPortDown, GpuFabricDeviceGone and GpuFabricComputePortsMissing read says the same
// as the checks: critical exactly where these are.
func TestAlertsAgreeWithChecks(t *testing.T) {
	healthy, seen := map[string]*fabric.Node{}, map[string]int{}
	faults := func(s simulator.Scenario) []string {
		return append(simulatortest.Fault(s), "moved "+strings.SplitN(s.Name, "-", 2)[0])
	}
	for _, s := range simulatortest.Kinds(faults) {
		t.Run(s.Name, func(t *testing.T) {
			n := simulatortest.Watch(t, s, 0)[0]
			if healthy[s.Platform] == nil {
				all := simulator.Scenarios()
				i := slices.IndexFunc(all, func(h simulator.Scenario) bool {
					return h.Platform == s.Platform && strings.HasPrefix(h.Name, "healthy")
				})
				healthy[s.Platform] = simulatortest.Watch(t, all[i], 0)[0]
			}
			for name, n := range judgedBy(healthy[s.Platform], n) {
				for fact, k := range agree(t, name, n) {
					seen[fact] += k
				}
			}
		})
	}
	for _, fact := range []string{"port down", "device gone", "ports missing", "guessed"} {
		if seen[fact] == 0 {
			t.Errorf("no scenario has: %s", fact)
		}
	}
}

func agree(t *testing.T, name string, n *fabric.Node) map[string]int {
	t.Helper()
	s, port := gather(t, n), []string{"device", "port"}
	training := s.where("hca_port_info", 1, port, "role=compute")
	moved := s.where("hca_moved", 1, []string{"device"})
	here := slices.DeleteFunc(slices.Clone(training), func(p string) bool {
		return slices.ContainsFunc(moved, func(d string) bool { return strings.HasPrefix(p, d+"/") })
	})
	down := both(here, s.where("hca_port_state", 0, port, "state=active"))
	alert := both(down, s.where("hca_port_link_expected", 1, port))
	check := both(training, s.where("check_failed", 1, port, "check=port_active"))
	if !slices.Equal(alert, check) {
		t.Errorf("%s: GpuFabricPortDown %v, check port_active %v", name, alert, check)
	}
	lostGPU := slices.ContainsFunc(n.Remembered, func(r fabric.Remembered) bool { return r.Kind == fabric.PCIGPU })
	gone := s.where("hca_gone", 1, []string{"device"})
	hardware := len(s.where("check_failed", 1, port, "check=hardware")) > 0
	if hardware != (len(gone) > 0) && !lostGPU {
		t.Errorf("%s: GpuFabricDeviceGone %v, check hardware fails: %v", name, gone, hardware)
	}
	_, all := nodechecks.GoneDevices(n)
	if _, zero := s["hca_gone"]["device= source="]; zero != all {
		t.Errorf("%s: no other device is gone: %t, and says so: %t", name, all, zero)
	}
	missing := false
	for _, expected := range s["node_compute_ports_expected"] {
		unstated := s.where("check_unknown", 1, port, "check=compute_ports", "reason=unstated")
		missing = expected > float64(len(training)-len(down)) && len(unstated) == 0 && len(s.where("hca_moved", 1, port[:1], "part=device")) == 0
	}
	short := len(s.where("check_failed", 1, port, "check=compute_ports")) > 0
	if missing && !short && len(check) == 0 {
		t.Errorf("%s: GpuFabricComputePortsMissing, and no check fails", name)
	}
	return map[string]int{
		"port down": len(alert), "device gone": len(gone), "ports missing": len(s["node_compute_ports_expected"]),
		"guessed": len(s.where("check_unknown", 1, port, "check=port_active", "reason=unstated")),
	}
}
