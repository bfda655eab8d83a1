// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// answersOfNVML adds what NVML would answer as if that were files, one for each field.
func (f files) answersOfNVML(n *Node) {
	d := n.nvml(then)
	f.text("nvml/driver", fmt.Sprint(d.Loaded.Value, d.Version.Value, d.CUDA.Value, d.Released))
	for _, g := range d.GPUs {
		v := reflect.ValueOf(g)
		for i := range v.NumField() {
			name := "nvml/" + strconv.Itoa(g.Index) + "/" + v.Type().Field(i).Name
			if links, ok := reflect.TypeAssert[fabric.Fact[[]fabric.NVLink]](v.Field(i)); ok && links.State == fabric.OK {
				for _, l := range links.Value {
					f.text(name+"/"+strconv.Itoa(l.Number), fmt.Sprint(l))
				}
				continue
			}
			f.text(name, fmt.Sprint(v.Field(i).Interface()))
		}
	}
	for _, p := range d.P2P {
		f.text(fmt.Sprintf("nvml/pairs/%d-%d", p.A, p.B), fmt.Sprint(p))
	}
}

// checkGPULabels: whatever a label names exists, every node with GPUs has labels of GPUDirect RDMA, and one that says
// that something is blocked says so of a healthy machine only where no finding is needed to explain it.
func checkGPULabels(t *testing.T, all []Scenario, what *regexp.Regexp) {
	t.Helper()
	blocks := map[fabric.GDRBlock]bool{}
	for _, s := range all {
		n := s.platform.build()
		for _, f := range s.GPUs {
			if !what.MatchString(f.What) || (f.GPU != "" && n.GPU(f.GPU) == nil) {
				t.Errorf("%s: finding %+v", s.Name, f)
			}
		}
		if (len(s.GDR) > 0) != (len(n.GPUs) > 0) {
			t.Errorf("%s: %d labels of GPUDirect RDMA for %d GPUs", s.Name, len(s.GDR), len(n.GPUs))
		}
		for _, l := range s.GDR {
			if l.GPU != "" && n.GPU(l.GPU) == nil || l.Path != "" && l.Block != "" || l.NoNIC && (l.Path != "" || l.Block != "") {
				t.Errorf("%s: label %+v", s.Name, l)
			}
			blocks[l.Block] = true
		}
		for _, g := range n.GPUs {
			if _, ok := s.GDROf(g.PCI); !ok {
				t.Errorf("%s: no label of GPUDirect RDMA for GPU %s", s.Name, g.PCI)
			}
		}
	}
	for _, b := range []fabric.GDRBlock{
		fabric.GDRNoDriver, fabric.GDRModule, "override", fabric.GDRDistance, fabric.GDRLevel, fabric.GDRACS, fabric.GDRIOMMU,
	} {
		if !blocks[b] {
			t.Errorf("no scenario is blocked by %q", b)
		}
	}
}

// ask reads a node through the source of its tree.
func ask(t *testing.T, tree *Tree, last fabric.GPUDriver, slow bool, now time.Time) fabric.GPUDriver {
	t.Helper()
	d, err := tree.GPUs().Read(last, slow, now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGPUsOfPlatforms counts what NVML reports of each platform.
func TestGPUsOfPlatforms(t *testing.T) {
	for name, want := range map[string]string{
		// GPUs, compute capability; NVLinks, active ones, where to, GB/s each way, kinds of errors; PCIe; fabric;
		// pairs: P2P, ancestor
		"dgx-a100-ib":   "8 80; 12 12 switch 25 3; gen 4/4 x16/16; fabric absent; 28 ok; PXB 4 PHB 0 NODE 8 SYS 16",
		"dgx-h100-roce": "8 90; 18 18 switch 26.562 3; gen 5/5 x16/16; fabric completed; 28 ok; PXB 0 PHB 0 NODE 12 SYS 16",
		"dgx-b200-ib":   "8 100; 18 18 switch 50 6; gen 5/5 x16/16; fabric completed; 28 ok; PXB 0 PHB 0 NODE 12 SYS 16",
		"gb200":         "4 100; 18 18 switch 50 6; gen 5/5 x16/16; fabric completed; 6 ok; PXB 0 PHB 0 NODE 2 SYS 4",
		"nvlink-pairs":  "4 80; 12 12 gpu 25 3; gen 4/4 x16/16; fabric absent; 2 ok; PXB 0 PHB 0 NODE 0 SYS 4",
		"l40s-pcie":     "4 89; gen 4/4 x16/16; fabric absent; 2 ok; PXB 0 PHB 0 NODE 2 SYS 4",
		"vm-flat":       "4 90; 18 18 switch 26.562 3; gen 5/5 x16/16; fabric completed; 6 ok; PXB 0 PHB 6 NODE 0 SYS 0",
		"two-port":      "2 80; 12 0; gen 4/4 x16/16; fabric absent; 0 ok; PXB 0 PHB 0 NODE 0 SYS 1",
		"ionic-roce":    "0", // NVML does not know GPUs of AMD
		"cpu-node":      "0",
	} {
		n := healthyNode(name)
		d := n.nvml(then)
		if got := summarise(d); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		for i, g := range d.GPUs {
			if g.Index != i || g.UUID == "" || n.Function(g.Address) == nil || g.Processes.State != fabric.OK || g.Memory.Value.Used == 0 {
				t.Errorf("%s GPU %d: %+v", name, i, g)
			}
			if node, known := g.NUMANode.Get(); known != (name == "gb200") || known && node < 2 {
				t.Errorf("%s GPU %d: memory on NUMA node %v", name, i, g.NUMANode)
			}
		}
		unique(t, "UUID", d.GPUs, func(g fabric.GPU) string { return g.UUID })
	}
}

func summarise(d fabric.GPUDriver) string {
	if len(d.GPUs) == 0 {
		return "0"
	}
	g := d.GPUs[0]
	parts := []string{fmt.Sprint(len(d.GPUs), g.ComputeCap.Value)}
	if links, ok := g.NVLinks.Get(); ok {
		active := g.Active().Value
		part := fmt.Sprint(len(links), active)
		if active > 0 {
			part += fmt.Sprintf(" %s %g %d", links[0].RemoteKind.Value, links[0].Speed.Value/1e9, len(links[0].Errors))
		}
		parts = append(parts, part)
	}
	registration := "absent"
	if f, ok := g.Fabric.Get(); ok {
		registration = string(f.State)
	}
	parts = append(parts, fmt.Sprintf("gen %d/%d x%d/%d", g.PCIeGeneration.Value, g.PCIeMaxGen.Value, g.PCIeWidth.Value, g.PCIeMaxWidth.Value), "fabric "+registration)
	ok, distances := 0, map[fabric.Distance]int{}
	for _, p := range d.P2P {
		distances[p.Ancestor.Value]++
		if p.Write.Value == fabric.P2POK {
			ok++
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%d ok", ok), fmt.Sprintf("PXB %d PHB %d NODE %d SYS %d", distances[fabric.DistancePXB],
		distances[fabric.DistancePHB], distances[fabric.DistanceNODE], distances[fabric.DistanceSYS])), "; ")
}

// TestEveryFactOfNVMLIsFilledIn: a fact that a reader would have is never the zero one.
func TestEveryFactOfNVMLIsFilledIn(t *testing.T) {
	for _, name := range []string{"healthy", "healthy-l40s", "gpu-lost", "gpu-mig-on"} {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range built(t, s).nvml(then).GPUs {
			v := reflect.ValueOf(g)
			for i := range v.NumField() {
				if m, ok := reflect.TypeAssert[interface{ Meta() fabric.Meta }](v.Field(i)); ok && (m.Meta().At != then || m.Meta().Source == "") {
					t.Errorf("%s GPU %d: %s is %+v", name, g.Index, v.Type().Field(i).Name, m.Meta())
				}
			}
		}
	}
}

func TestReadOfGPUs(t *testing.T) {
	n := healthyNode(pairs)
	n.GPUs[1].Links[2].Errors[2].Counter = Counter{Start: 7, PerStep: 3}
	n.GPUs[1].Replays = Counter{PerStep: 1, Every: 10}
	tree := materialise(t, n)
	first := ask(t, tree, fabric.GPUDriver{}, false, then)
	if g := first.GPUs[1]; g.Name.At != then || len(first.P2P) != 6 || g.Utilization.Value != 0.95 {
		t.Errorf("first read: %d pairs, %v, %v", len(first.P2P), g.Name, g.Utilization)
	}
	if err := tree.Step(21); err != nil {
		t.Fatal(err)
	}
	later := then.Add(21 * time.Second)
	fast := ask(t, tree, first, false, later)
	if g := fast.GPUs[1]; g.Name.At != then || fast.Version.At != then || fast.P2P[0].Write.At != then || g.Utilization.At != later ||
		g.Utilization.Value == first.GPUs[1].Utilization.Value || g.NVLinks.Value[2].Errors[2].Count.Value != 70 || g.PCIeReplays.Value != 2 {
		t.Errorf("second read: %v, %v, %v, %v", g.Name, g.Utilization, g.NVLinks.Value[2].Errors, g.PCIeReplays)
	}
	if first.GPUs[1].NVLinks.Value[2].Errors[2].Count.Value != 7 {
		t.Error("the first answer changed")
	}
	if slow := ask(t, tree, fast, true, later); slow.GPUs[1].Name.At != later || slow.Version.At != later || slow.P2P[0].Write.At != later {
		t.Error("a slow read did not read everything")
	}
	// Another driver, and a GPU that is lost: nothing of last can be used.
	if err := tree.Edit(func(n *Node) { n.Driver.Version = "580.65.06" }); err != nil {
		t.Fatal(err)
	}
	if d := ask(t, tree, fast, false, later); d.Version.Value != "580.65.06" || d.GPUs[0].Name.At != later {
		t.Errorf("after an update: %+v", d.Version)
	}
	if err := tree.Edit(func(n *Node) { n.LoseGPU(n.GPUs[1].PCI) }); err != nil {
		t.Fatal(err)
	}
	d := ask(t, tree, fast, false, later)
	if g := d.GPUs[1]; !g.Lost.Value || g.UUID != "" || g.Address != "" || g.Name.Reason != fabric.ReasonGone || d.GPUs[0].Active().Value != 0 || len(d.P2P) != 3 {
		t.Errorf("lost: %+v", g)
	}
	if err := tree.Edit(func(n *Node) { n.Driver = GPUDriver{} }); err != nil {
		t.Fatal(err)
	}
	if d := ask(t, tree, d, false, later); d.Loaded.State != fabric.OK || d.Loaded.Value || d.Version.State != fabric.Absent || len(d.GPUs)+len(d.P2P) > 0 {
		t.Errorf("without a driver: %+v", d)
	}
}

// TestFilesOfGPUDrivers reads what NCCL and people would.
func TestFilesOfGPUDrivers(t *testing.T) {
	const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"
	const absent = "-"
	for name, want := range map[string][6]string{
		// /proc/driver/nvidia/version; GrdmaPciTopoCheckOverride; nvidia, nvidia_peermem, nv_mem: versions; regions
		// registered
		"healthy":                {open, "0", "580.65.06", absent, absent, absent},
		"healthy-ib":             {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Release Build", absent, "535.183.06", "535.183.06", "535.183.06", "1042"},
		"healthy-gb200":          {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build", "0", "580.65.06", absent, absent, absent},
		"healthy-roce-vlan":      {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Release Build", absent, "470.256.02", absent, "1.3-0", "0"},
		"peermem-missing":        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Release Build", absent, "535.183.06", absent, absent, absent},
		"peermem-unbound":        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Release Build", absent, "535.183.06", "535.183.06", absent, absent},
		"gpu-driver-proprietary": {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Release Build", absent, "580.65.06", absent, absent, absent},
		"gpu-driver-missing":     {absent, absent, absent, absent, absent, absent},
		"healthy-ionic-roce":     {absent, absent, absent, absent, absent, absent},
		"healthy-cpu-node":       {absent, absent, absent, absent, absent, absent},
	} {
		s, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		f := built(t, s).at(61).layout()
		text := func(path string) string {
			if e, ok := f[path]; ok {
				return strings.TrimSpace(e.text)
			}
			return absent
		}
		line, _, _ := strings.Cut(text("proc/driver/nvidia/version"), "  (dvs")
		override := absent
		if m := regexp.MustCompile(`GrdmaPciTopoCheckOverride: (\d)`).FindStringSubmatch(text("proc/driver/nvidia/params")); m != nil {
			override = m[1]
		}
		registered := absent
		if took := text("sys/kernel/mm/memory_peers/nv_mem/num_alloc_mrs"); took != absent {
			a, _ := strconv.Atoi(took)
			b, _ := strconv.Atoi(text("sys/kernel/mm/memory_peers/nv_mem/num_dealloc_mrs"))
			registered = strconv.Itoa(a - b)
		}
		got := [6]string{
			line, override, text("sys/module/nvidia/version"), text("sys/module/nvidia_peermem/version"), text("sys/kernel/mm/memory_peers/nv_mem/version"), registered,
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestGPUsStandWhereTheReaderOfPCISeesThem reads each tree as the exporter does: the functions and what NVML
// reports of them are of one machine.
func TestGPUsStandWhereTheReaderOfPCISeesThem(t *testing.T) {
	eachPlatform(t, func(t *testing.T, n *Node) {
		for i := range n.HCAs { // ports have thousands of files that this test does not read
			n.HCAs[i].Ports = nil
		}
		tree := materialise(t, n)
		bus, err := pci.Open(tree.Sysfs())
		if err != nil {
			t.Fatal(err)
		}
		defer bus.Close()
		p, err := bus.Read(fabric.PCI{}, fabric.PCIEverything, nil, then)
		if err != nil || len(p.GPUs()) != len(n.GPUs) {
			t.Fatalf("%d GPUs of %d, %v", len(p.GPUs()), len(n.GPUs), err)
		}
		speeds := []float64{0, 2.5e9, 5e9, 8e9, 16e9, 32e9}
		d := ask(t, tree, fabric.GPUDriver{}, true, then)
		for i, g := range d.GPUs {
			f := p.GPUs()[i]
			if f.Address != g.Address || f.Link.Width != fabric.Known(g.PCIeWidth.Value, f.Link.Width.Source, then) || f.Link.Speed.Value != speeds[g.PCIeGeneration.Value] {
				t.Errorf("GPU %d: %s x%d generation %d, PCI says %s %+v", i, g.Address, g.PCIeWidth.Value, g.PCIeGeneration.Value, f.Address, f.Link)
			}
		}
		for _, pair := range d.P2P {
			way := fabric.DistanceOf(p.GPUs()[pair.A], p.GPUs()[pair.B], fabric.Known(false, "", then), then)
			if known, ok := way.Get(); ok && known != pair.Ancestor.Value {
				t.Errorf("GPUs %d and %d: NVML reports %s, PCI %s", pair.A, pair.B, pair.Ancestor.Value, known)
			}
		}
	})
}
