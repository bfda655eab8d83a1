// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// findingsOf are the rules that a job of two ranks breaks after that many readings ten seconds apart.
func findingsOf(readings int, edit func(reading int, n *fabric.Node, a, b *fabric.RankCandidate)) string {
	var tr Tracker
	var rules []string
	for i := range readings {
		list := []fabric.RankCandidate{rankOf(100, 0, 0), rankOf(200, 0, 0)}
		n := nodeOf(epoch.Add(time.Duration(i)*10*time.Second), list...)
		edit(i, n, &n.Ranks.Value[0], &n.Ranks.Value[1])
		rules = nil
		for _, f := range tr.Update(n).List[0].Findings {
			rules = append(rules, string(f.Rule))
		}
	}
	slices.Sort(rules)
	return strings.Join(rules, " ")
}

// What only a job shows is found, and what merely looks like it is not.
func TestFindings(t *testing.T) {
	type edit = func(reading int, n *fabric.Node, a, b *fabric.RankCandidate)
	bar1 := func(used uint64, known bool) edit {
		return func(_ int, n *fabric.Node, _, _ *fabric.RankCandidate) {
			if known {
				n.GPUDriver.GPUs[0].BAR1 = fabric.Known(fabric.GPUMemory{Used: used, Total: 1000}, "nvml", epoch)
			}
		}
	}
	set := func(name, value string) fabric.Fact[[]fabric.NCCLVariable] {
		return fabric.Known([]fabric.NCCLVariable{{Name: name, Value: value}}, "environ", epoch)
	}
	verbs := func(of func(reading int) int) edit {
		return func(i int, _ *fabric.Node, a, _ *fabric.RankCandidate) {
			a.Verbs = fabric.Known(fabric.VerbsUse{Devices: []string{"mlx5_0"}, Contexts: of(i), Regions: 100}, "netlink", epoch)
		}
	}
	cpus := func(gpuNode int, distances ...int) edit { // as seen from the CPUs of the rank, to nodes 0 and 1
		return func(_ int, n *fabric.Node, a, b *fabric.RankCandidate) {
			n.GPUDriver.GPUs[0].Address = "0000:1B:00.0"
			f := fabric.PCIFunction{Address: "0000:1b:00.0", Kind: fabric.PCIGPU}
			if gpuNode >= 0 {
				f.NUMANode = fabric.Known(gpuNode, "numa_node", epoch)
			}
			n.PCI.Functions = []fabric.PCIFunction{f}
			a.Limits = fabric.Known(fabric.ProcessLimits{Memlock: 1 << 40, CPUs: "0-55", Distances: distances}, "limits", epoch)
			b.Limits = fabric.Known(fabric.ProcessLimits{Memlock: 1 << 40}, "limits", epoch)
		}
	}
	device := func(state fabric.Fact[fabric.PortState], uverbs int) edit {
		return func(_ int, n *fabric.Node, a, _ *fabric.RankCandidate) {
			n.HCAs = []fabric.HCA{{Name: "rdmap0", Ports: []fabric.Port{{Number: 1, State: state, Role: fabric.Known(fabric.RoleCompute, "", epoch)}}}}
			a.Devices = fabric.Known(fabric.ProcessDevices{Uverbs: uverbs}, "/dev", epoch)
		}
	}
	stateless := fabric.UnknownFact[fabric.PortState](fabric.ReasonDriverConstant, "", epoch)
	for name, c := range map[string]struct {
		readings int
		edit     edit
		want     string
	}{
		"no device nodes":               {2, device(fabric.Known(fabric.PortActive, "", epoch), 0), "no_rdma_devices_in_container"},
		"no device nodes of EFA":        {2, device(stateless, 0), "no_rdma_devices_in_container"},
		"device nodes of EFA":           {2, device(stateless, 1), ""},
		"no device nodes, port down":    {2, device(fabric.Known(fabric.PortDown, "", epoch), 0), ""},
		"no device nodes, state unread": {2, device(fabric.UnknownFact[fabric.PortState](fabric.ReasonStuck, "", epoch), 0), ""},
		"nothing":                       {2, func(int, *fabric.Node, *fabric.RankCandidate, *fabric.RankCandidate) {}, ""},
		"BAR1 full":                     {2, bar1(950, true), "bar1_full"},
		"BAR1 in use":                   {2, bar1(949, true), ""},
		"BAR1 unknown":                  {2, bar1(0, false), ""},
		"releases differ":               {2, func(_ int, _ *fabric.Node, _, b *fabric.RankCandidate) { b.Maps.Value.Version = "2.26.2" }, "nccl_versions_differ"},
		"a release is unknown":          {2, func(_ int, _ *fabric.Node, _, b *fabric.RankCandidate) { b.Maps.Value.Version = "" }, ""},
		"settings differ": {2, func(_ int, _ *fabric.Node, a, b *fabric.RankCandidate) {
			a.Settings, b.Settings = set("NCCL_ALGO", "Ring"), set("NCCL_ALGO", "Tree")
		}, "settings_differ"},
		"a setting that differs by rank": {2, func(_ int, _ *fabric.Node, a, b *fabric.RankCandidate) {
			a.Settings, b.Settings = set("NCCL_DEBUG", "INFO"), set("NCCL_DEBUG", "WARN")
		}, ""},
		"settings of one are not read": {2, func(_ int, _ *fabric.Node, a, b *fabric.RankCandidate) {
			a.Settings = set("NCCL_ALGO", "Ring")
			b.Settings = fabric.UnknownFact[[]fabric.NCCLVariable](fabric.ReasonPrivilege, "environ", epoch)
		}, ""},
		"CPUs of the other socket":           {2, cpus(1, 10, 21), "cpu_affinity"},
		"CPUs of both sockets":               {2, cpus(1, 10, 10), ""},
		"another node of the socket":         {2, cpus(1, 10, 12), ""},
		"one NUMA node":                      {2, cpus(0, 10), ""},
		"NUMA of the GPU unknown":            {2, cpus(-1, 10, 21), ""},
		"a node that is not there":           {2, cpus(5, 10, 21), ""},
		"CPUs not known":                     {2, cpus(1), ""},
		"contexts grow":                      {stepsToLeak + 2, verbs(func(i int) int { return 8 + i }), "resources_grow"},
		"contexts are made and destroyed":    {3 * stepsToLeak, verbs(func(i int) int { return 8 + i%5 }), ""},
		"contexts stay":                      {3 * stepsToLeak, verbs(func(int) int { return 8 }), ""},
		"contexts are made at the beginning": {3 * stepsToLeak, verbs(func(i int) int { return min(8+i, 12) }), ""},
	} {
		if got := findingsOf(c.readings, c.edit); got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
