// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// watch observes a simulated node through the real readers at each of these seconds, on a clock that waits for
// nobody: the node is a step further for each second.
func watch(t *testing.T, s simulator.Scenario, seconds ...int) (nodes []*fabric.Node) {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	dir := t.TempDir()
	c, err := parseConfig(s.Name, []byte(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, about := range collector.Collectors() {
		if about.Default {
			names = append(names, about.Name)
		}
	}
	set, err := collector.NewSet(names)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tree, err := s.Build().Materialise(dir)
		if err != nil {
			t.Fatal(err)
		}
		ob, err := observer.New(observer.Options{
			Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), GPUs: tree.GPUs(),
			Policy: c.policy, NCCL: c.nccl, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer ob.Close()
		begin := time.Now()
		for _, at := range seconds {
			time.Sleep(time.Until(begin.Add(time.Duration(at) * time.Second)))
			if err := tree.Step(at); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			nodes = append(nodes, ob.Observe(ctx, set.Want()))
			cancel()
		}
	})
	return nodes
}

// findings maps what the labels of scenarios call a thing to where the chain of RoCE shows it, if it does.
var findings = map[string]struct {
	step fabric.RoCEStep
	says string // of the link or the trouble
}{
	"pfc_off_on_used_priority":    {fabric.RoCEPFC, "PFC"},
	"trust_not_dscp":              {fabric.RoCEPriority, "trusts the VLAN tag"},
	"dscp_maps_to_other_priority": {fabric.RoCEPriority, "goes to priority 2"},
	"traffic_class_wrong":         {fabric.RoCEDSCP, "traffic class 5"},
	"ecn_off_on_used_priority":    {fabric.RoCENotification, "do not notify"},
	// The site wants PFC; that 802.3x pause is on instead is how it comes to be off.
	"global_pause_on": {fabric.RoCEPFC, "802.3x flow control is on instead"},
	// Without a word of the site only the contradiction shows: RoCE is not where PFC is.
	"traffic_class_overridden": {fabric.RoCEPFC, "PFC is on for priority 3, but RoCE uses priority 0"},
	"service_level_wrong":      {fabric.RoCEPFC, "PFC is on for priority 3, but RoCE uses priority 2"},
	// What is left of the GIDs is RoCE v1, whose packets have no DSCP. They are priority 0.
	"no_routable_gid": {fabric.RoCEPFC, "RoCE uses priority 0"},
	"gid_index_wrong": {fabric.RoCEPFC, "RoCE uses priority 0"},
	"gid_not_matched": {fabric.RoCEPFC, "RoCE uses priority 0"},

	"traffic_on_wrong_priority": {fabric.RoCEObservedPriority, "none of it with priority 3"},
	"marked_without_cnp":        {fabric.RoCEObservedCNP, "and 0 notifications went out"},
	"pfc_storm":                 {fabric.RoCEObservedPauseSent, "stop priority 3 for 90.0 % of the time"},
	"paused_by_network":         {fabric.RoCEObservedPauseReceived, "stop priority 3 for 35.0 % of the time"},
	"lossless_priority_drops":   {fabric.RoCEObservedLoss, "dropped 9300 packets of the lossless priority 3"},
}

// TestVerdictsMatchLabels holds what the chain of RoCE says of every scenario against what is true of it: the step
// of the label is broken on the ports of the label, and nothing else is on any other. Settings show at once,
// traffic after half a minute.
func TestVerdictsMatchLabels(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	for _, s := range simulator.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			nodes := watch(t, s, 0, 30)
			for i, n := range nodes {
				later := i > 0
				want := map[string]string{} // broken step, by device
				for _, f := range s.Expect {
					if about, isRoCE := findings[f.What]; isRoCE && (later || !s.OverTime) {
						want[f.Device] = string(about.step)
						if told := tell(troubles(diagnose.Run(n, nil))); !strings.Contains(strings.ToLower(told), strings.ToLower(about.says)) {
							t.Errorf("no trouble says %q: %s", about.says, told)
						}
					}
				}
				got := brokenSteps(n)
				if !maps.Equal(got, want) {
					t.Errorf("after %d s broken: %v, want %v", 30*i, got, want)
				}
				checkGPULabels(t, s, n, later)
				if told := troubles(diagnose.Run(n, nil)); len(s.Expect)+len(s.GPUs) == 0 && len(told) > 0 {
					t.Errorf("nothing is wrong, but %s", tell(told))
				}
				for _, trouble := range troubles(diagnose.Run(n, nil)) {
					for _, where := range trouble.Where {
						device, _, _ := strings.Cut(where, " port ")
						if n.HCA(device) == nil { // a file, or the node
							continue
						}
						if !slices.ContainsFunc(s.Expect, func(f simulator.Finding) bool { return device == f.Device }) {
							t.Errorf("nothing is wrong with %s, but %s", where, trouble.What)
						}
					}
				}
			}
		})
	}
}

// What is judged so far of what the labels of scenarios say: they are ahead of it.
const (
	judgesGDR  = true // GPUDirect RDMA, by Node.Derive
	judgesGPUs = true // GPUs, their links and GPUDirect RDMA, by troubles
)

// gpuFindings maps what the labels of scenarios call a thing that is wrong with GPUs to what a trouble says of it (a
// regular expression). What is not in it troubles do not tell: errors of NVLink are of no moment, and alert rules see
// them grow; that a GPU is divided may be meant.
var gpuFindings = map[string]string{
	"gpu_driver_missing": "no driver that CUDA could use",
	"gpu_lost":           "driver has lost the GPU",
	"nvlink_down":        "NVLinks are down",
	"fabric_not_ready":   "not joined its NVLink fabric",
	"pcie_link_degraded": "A PCIe link runs at|PCIe link of a working GPU is slow",
	"gpu_throttled":      "hardware slows the GPU down",
	"gpudirect_blocked":  "GPUDirect RDMA|IOMMU translates|RDMA core does not know it",
}

// toldOfGPUs returns the findings about GPUs of a scenario that troubles tell.
func toldOfGPUs(s simulator.Scenario, later bool) []simulator.GPUFinding {
	return slices.DeleteFunc(slices.Clone(s.GPUs), func(f simulator.GPUFinding) bool {
		width := s.Name == "gpu-x8" // troubles with PCIe tell it of any function
		return gpuFindings[f.What] == "" || s.OverTime && !later || !judgesGPUs && !width
	})
}

// checkGPULabels holds what a node says of its GPUs and of GPUDirect RDMA against the labels of its scenario.
func checkGPULabels(t *testing.T, s simulator.Scenario, n *fabric.Node, later bool) {
	t.Helper()
	named := func(where, gpu string) bool { // by address, or by index as in GPU3
		index := slices.IndexFunc(s.Build().GPUs, func(g simulator.GPU) bool { return g.PCI == gpu })
		return strings.Contains(where, gpu) || where == fmt.Sprintf("GPU%d", index)
	}
	list := troubles(diagnose.Run(n, nil))
	for _, f := range toldOfGPUs(s, later) {
		says := regexp.MustCompile(gpuFindings[f.What])
		if !slices.ContainsFunc(list, func(trouble trouble) bool {
			return says.MatchString(trouble.What) && (f.GPU == "" || slices.ContainsFunc(trouble.Where, func(where string) bool { return named(where, f.GPU) }))
		}) {
			t.Errorf("no trouble says %q of GPU %s: %s", says, f.GPU, tell(list))
		}
	}
	for _, trouble := range list {
		for _, where := range trouble.Where {
			if strings.HasPrefix(where, "GPU") && !slices.ContainsFunc(s.GPUs, func(f simulator.GPUFinding) bool { return f.GPU == "" || named(where, f.GPU) }) {
				t.Errorf("nothing is wrong with %s, but %s", where, trouble.What)
			}
		}
	}
	if !judgesGDR {
		if len(n.GDR) > 0 {
			t.Error("GPUDirect RDMA is judged: set judgesGDR, so that this test looks at it")
		}
		return
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
			for _, c := range p.RoCE.Or(nil) {
				for _, l := range append(slices.Clip(c.Links), c.Observed...) {
					if l.State == fabric.RoCEBroken && !diagnose.Explained(&c, l.Step) && broken[n.HCAs[i].Name] == "" {
						broken[n.HCAs[i].Name] = string(l.Step)
					}
				}
			}
		}
	}
	return broken
}

// A demo moves: what is read of it must stay as readable as it was.
func TestSteppedNodeIsReadable(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range watch(t, s, 0, 1, 7, 100, 1000) {
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
