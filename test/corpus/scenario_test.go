// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/roce"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// eachScenario observes the chosen scenarios at these seconds, those of one platform in one tree after the other.
func eachScenario(t *testing.T, chosen func(s simulator.Scenario) bool, f func(t *testing.T, s simulator.Scenario, nodes []*fabric.Node), seconds ...int) {
	t.Helper()
	for platform, samples := range scenarioSamples() {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			tree := newStage(t)
			for _, one := range samples {
				s, err := simulator.Find(one.name)
				if err != nil {
					t.Fatal(err)
				}
				if chosen(s) {
					t.Run(s.Name, func(t *testing.T) { f(t, s, tree.observe(t, one, seconds...)) })
				}
			}
		})
	}
}

// shown is where the chain of RoCE shows what a label of a scenario says, if it does, and the check that fails for it.
type shown struct {
	step  fabric.RoCEStep
	check string
	says  string // of the verdict
}

// findings maps the labels of scenarios to the checks that find them. What is not in it alert rules find: it takes
// longer than two readings.
func findings() map[string]shown {
	const chain = "roce_pfc"
	return map[string]shown{
		"pfc_off_on_used_priority":    {fabric.RoCEPFC, chain, "PFC"},
		"trust_not_dscp":              {fabric.RoCEPriority, "roce_priority", "trusts the VLAN tag"},
		"dscp_maps_to_other_priority": {fabric.RoCEPriority, "roce_priority", "goes to priority 2"},
		"traffic_class_wrong":         {fabric.RoCEDSCP, "roce_dscp", "traffic class 5"},
		"ecn_off_on_used_priority":    {fabric.RoCENotification, "roce_ecn", "do not notify"},
		"lossless_buffer_missing":     {fabric.RoCEBuffer, "roce_buffer", "shares receive buffer 0"},
		"no_bandwidth_share":          {fabric.RoCEETS, "roce_ets", "0 % of the bandwidth"},
		"notifications_with_data":     {fabric.RoCECNP, "roce_cnp", "congestion notifications use priority 3"},
		// The site wants PFC; that 802.3x pause is on instead is how it comes to be off.
		"global_pause_on": {fabric.RoCEPFC, chain, "802.3x flow control is on instead"},
		// Without expectations of the site, only the contradiction shows: PFC is on for a priority that RoCE does not use.
		"traffic_class_overridden": {fabric.RoCEPFC, chain, "PFC is on for priority 3, but RoCE uses priority 0"},
		"service_level_wrong":      {fabric.RoCEPFC, chain, "PFC is on for priority 3, but RoCE uses priority 2"},
		// What is left of the GIDs is RoCE v1, whose packets have no DSCP. The chain begins with the GID; that
		// packets are priority 0 follows, and is no finding.
		"no_routable_gid": {fabric.RoCEGID, verdict.CheckGID, "is RoCE v1"},
		"gid_index_wrong": {fabric.RoCEGID, verdict.CheckGID, "is RoCE v1"},
		"gid_not_matched": {fabric.RoCEGID, verdict.CheckGID, "is RoCE v1"},

		"traffic_on_wrong_priority": {fabric.RoCEObservedPriority, "roce_traffic_priority", "none of it with priority 3"},
		"marked_without_cnp":        {fabric.RoCEObservedCNP, "roce_congestion_answered", "and 0 notifications went out"},
		"pfc_storm":                 {fabric.RoCEObservedPauseSent, "roce_pause_sent", "this host paused priority 3 of the network for 90.0 % of the time"},
		"paused_by_network":         {fabric.RoCEObservedPauseReceived, "roce_pause_received", "the network paused priority 3 of this host for 35.0 % of the time"},
		"lossless_priority_drops":   {fabric.RoCEObservedLoss, "roce_lossless", "dropped 9300 packets of the lossless priority 3"},
	}
}

// command is what remedies are made of: a program to run, or what to change in which setting.
var command = regexp.MustCompile(`\b(check --write-manifest|dcb|dmesg|echo|ethtool|gpufabric_exporter|ibportstate|ip|lspci|mlnx_qos|mlxfwmanager|mlxlink|` +
	`modprobe|nvidia-smi|perfquery|rdma|setpci|sminfo|systemctl|tr) |\biommu=pt\b|\bNCCL_[A-Z_]+|\bGrdmaPciTopoCheckOverride=|remove the line\b`)

// TestVerdictsMatchLabels compares the verdicts on every scenario with what is true of it: what a label says fails on
// the device, port or GPU of the label, and nothing else fails on any other. Settings show at once, traffic
// after half a minute. Whatever fails says what was seen, what follows from it, and what to run or change.
func TestVerdictsMatchLabels(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	known := findings()
	eachScenario(t, func(simulator.Scenario) bool { return true }, func(t *testing.T, s simulator.Scenario, nodes []*fabric.Node) {
		for i, n := range nodes {
			failed := verdict.Failures(diagnose.Run(n, nil))
			want := map[string]string{} // broken step, by device
			for _, f := range s.Expect {
				about, isRoCE := known[f.What]
				if !isRoCE || s.OverTime && i == 0 {
					continue
				}
				want[f.Device] = string(about.step)
				if !slices.ContainsFunc(failed, func(v verdict.Verdict) bool {
					return v.Check.ID == about.check && v.Subject.Device == f.Device && strings.Contains(strings.ToLower(v.Evidence), strings.ToLower(about.says))
				}) {
					t.Errorf("%s does not fail for %s with %q: %s", about.check, f.Device, about.says, describe(failed))
				}
			}
			if got := brokenSteps(n); !maps.Equal(got, want) {
				t.Errorf("after %d s broken: %v, want %v", later*i, got, want)
			}
			checkGPULabels(t, s, n, failed, i > 0)
			if len(s.Expect)+len(s.GPUs) == 0 && len(failed) > 0 {
				t.Errorf("nothing is wrong, but %s", describe(failed))
			}
			for _, v := range failed {
				if v.Mode != "" && !slices.Contains(v.Check.ModeIDs(), v.Mode) {
					t.Errorf("%s of %s is of the mode %s, which the check does not declare", v.Check.ID, v.Subject, v.Mode)
				}
				if v.Evidence == "" || v.Consequence == "" || v.Cause == nil && !command.MatchString(v.Remedy) {
					t.Errorf("%s of %s: evidence %q, consequence %q, and no command in the remedy %q", v.Check.ID, v.Subject, v.Evidence, v.Consequence, v.Remedy)
				}
				device, ofNode := v.Subject.Device, v.Cause != nil && v.Cause.Subject.Device == "" // what follows from a finding about the node
				if device != "" && !ofNode && !slices.ContainsFunc(s.Expect, func(f simulator.Finding) bool { return device == f.Device }) {
					t.Errorf("nothing is wrong with %s, but %s: %s", device, v.Check.ID, v.What)
				}
			}
		}
	}, 0, later)
}

// gpuFindings maps what the labels of scenarios call a thing that is wrong with GPUs to the checks that find
// it. What is not in it they do not report: errors of NVLink are of no moment, and alert rules see them grow.
func gpuFindings() map[string][]string {
	return map[string][]string{
		"gpu_driver_missing": {"gpu_driver"},
		"gpu_lost":           {"gpu_lost"},
		"mig_on":             {"gpu_divided"},
		"nvlink_down":        {"nvlink_active"},
		"fabric_not_ready":   {"nvlink_fabric"},
		"pcie_link_degraded": {"pcie_link", "gpu_pcie_link"},
		"gpu_throttled":      {"gpu_throttled"},
		"gpudirect_blocked":  {"gpudirect_usable", "peermem_bound", "pcie_acs"},
	}
}

// toldOfGPUs returns the findings about GPUs of a scenario that checks report.
func toldOfGPUs(s simulator.Scenario, again bool) []simulator.GPUFinding {
	finds := gpuFindings()
	return slices.DeleteFunc(slices.Clone(s.GPUs), func(f simulator.GPUFinding) bool { return finds[f.What] == nil || s.OverTime && !again })
}

// checkGPULabels compares what a node reports about its GPUs and GPUDirect RDMA with the labels of its scenario.
func checkGPULabels(t *testing.T, s simulator.Scenario, n *fabric.Node, failed []verdict.Verdict, again bool) {
	t.Helper()
	gpus := verdict.GPUs(n)
	named := func(v verdict.Verdict, address string) bool {
		i := slices.IndexFunc(s.Build().GPUs, func(g simulator.GPU) bool { return g.PCI == address })
		return slices.ContainsFunc(gpus, func(g verdict.GPU) bool {
			at := g.Function != nil && g.Function.Address == address || g.Name == fmt.Sprintf("GPU%d", i)
			return at && g.Subject().Key() == v.Subject.Key()
		})
	}
	finds := gpuFindings()
	for _, f := range toldOfGPUs(s, again) {
		if !slices.ContainsFunc(failed, func(v verdict.Verdict) bool {
			return slices.Contains(finds[f.What], v.Check.ID) && (f.GPU == "" || named(v, f.GPU))
		}) {
			t.Errorf("none of %v fails for GPU %s: %s", finds[f.What], f.GPU, describe(failed))
		}
	}
	for _, v := range failed {
		if v.Subject.GPU != "" && !slices.ContainsFunc(s.GPUs, func(f simulator.GPUFinding) bool { return f.GPU == "" || named(v, f.GPU) }) {
			t.Errorf("nothing is wrong with %s, but %s: %s", v.Subject, v.Check.ID, v.What)
		}
	}
	if len(n.GDR) != len(n.PCI.Rails) {
		t.Errorf("%d verdicts on GPUDirect RDMA for %d GPUs", len(n.GDR), len(n.PCI.Rails))
	}
	for _, g := range n.GDR {
		want, ok := s.GDROf(g.GPU)
		if !ok {
			t.Errorf("a verdict on %s, of which no label says anything", g.GPU)
			continue
		}
		usable, known := g.Usable.Get()
		right := false
		switch {
		case g.Usable.State == fabric.Unknown:
			right = want.Hidden || want.Path == "" && want.Block == "" && !want.NoNIC
		case !known: // absent: there is no NIC
			right = want.NoNIC
		case usable:
			right = g.Path == want.Path && g.Path != ""
		default:
			right = g.Block == want.Block && g.Block != ""
		}
		if !right {
			t.Errorf("GPU %s and %q: usable %v, path %q, block %q (%s), want %+v", g.GPU, g.NIC, g.Usable, g.Path, g.Block, g.Evidence, want)
		}
	}
}

// brokenSteps is the broken step of each device: that of the settings, else those that traffic shows and no setting
// explains.
func brokenSteps(n *fabric.Node) map[string]string {
	broken := map[string]string{}
	for i := range n.HCAs {
		for _, p := range n.HCAs[i].Ports {
			if p.State.Or(fabric.PortActive) == fabric.PortDown { // not asked for
				continue
			}
			for _, c := range p.RoCE.Or(nil) {
				for _, l := range append(slices.Clip(c.Links), c.Observed...) {
					if l.Status == fabric.StatusFailed && !roce.Explained(&c, l.Step) && broken[n.HCAs[i].Name] == "" {
						broken[n.HCAs[i].Name] = string(l.Step)
					}
				}
			}
		}
	}
	return broken
}

// describe names what failed and what was seen of it.
func describe(failed []verdict.Verdict) string {
	var b strings.Builder
	for _, v := range failed {
		fmt.Fprintf(&b, "%s of %s: %s; ", v.Check.ID, v.Subject, v.Evidence)
	}
	return b.String()
}

// A demo moves: what is read of it must stay as readable as it was.
func TestSteppedNodeIsReadable(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range newStage(t).observe(t, sample{name: s.Name, config: s.ConfigOf, node: s.Build}, 0, 1, 7, 100, 1000) {
		for _, h := range n.HCAs {
			for _, p := range h.Ports {
				for _, c := range slices.Concat(p.Counters.HW.Or(nil), p.Counters.PMA.Or(nil)) {
					if c.Value.Meta().Reason == fabric.ReasonMalformed {
						t.Errorf("%s: %s is malformed", h.Name, c.Name)
					}
				}
			}
		}
	}
}
