// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// gpuNode is a node with that many GPUs of an H100 board, all of them in use.
func gpuNode(count int) *fabric.Node {
	n := nodeOf()
	n.Sources = append(n.Sources, fabric.Source{Name: fabric.SourceGPU, Up: true})
	n.GPUDriver = fabric.GPUDriver{Loaded: known(true), Version: known("580.65.06"), CUDA: known("13.0")}
	for i := range count {
		g := fabric.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Address: fmt.Sprintf("0000:%02x:00.0", i),
			Lost: known(false), Name: known("NVIDIA H100 80GB HBM3"), NUMANode: fabric.AbsentFact[int]("test", now), ComputeCap: known(90),
			Processes:   known([]fabric.GPUProcess{{PID: 7, Kind: fabric.GPUCompute}, {PID: 7, Kind: fabric.GPUGraphics}, {PID: 8, Kind: fabric.GPUMPS}, {}, {}}),
			Utilization: known(0.93), Memory: known(fabric.GPUMemory{Total: 80 << 30, Used: 70 << 30}), BAR1: known(fabric.GPUMemory{Total: 128 << 30, Used: 1 << 20}),
			ComputeMode: known(fabric.ComputeDefault), MIG: known(false), Persistence: known(true), ClockReasons: known(fabric.ClockReasons(0)),
			PCIeGeneration: known(5), PCIeMaxGen: known(5), PCIeWidth: known(16), PCIeMaxWidth: known(16), PCIeReplays: known(uint64(3)),
			Fabric: known(fabric.GPUFabric{State: fabric.GPUFabricCompleted, Status: "success"}),
		}
		var links []fabric.NVLink
		for k := range 18 {
			l := fabric.NVLink{Number: k, Active: known(true), Remote: known("0000:c0:00.0"), RemoteKind: known(fabric.NVLinkToSwitch), Speed: known(26.562e9)}
			for _, kind := range []fabric.NVLinkError{fabric.NVLinkReplay, fabric.NVLinkRecovery, fabric.NVLinkCRC} {
				l.Errors = append(l.Errors, fabric.NVLinkErrors{Kind: kind, Count: known(uint64(k))})
			}
			links = append(links, l)
		}
		g.NVLinks = known(links)
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, g)
	}
	return n
}

// linesOf is what collectors emit of a node, without what they report about themselves.
func linesOf(t *testing.T, n *fabric.Node, collectors ...string) []string {
	t.Helper()
	s, err := NewSet(collectors)
	if err != nil {
		t.Fatal(err)
	}
	families := s.Gather(n, ConfigState{})
	checkCatalogue(t, families, map[string]bool{})
	scrape(t, n) // for its lint
	var lines []string
	for line := range strings.Lines(text(t, families)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, Prefix), " ")
		name, _, _ = strings.Cut(name, "{")
		i := slices.IndexFunc(Catalogue(), func(f *Family) bool { return f.Name == name })
		if !strings.HasPrefix(line, "#") && (Catalogue()[i].Collector != "" || name == factsUnknown.Name) {
			lines = append(lines, strings.TrimSuffix(strings.TrimPrefix(line, Prefix), "\n"))
		}
	}
	return lines
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestGPU(t *testing.T) {
	equal(t, linesOf(t, gpuNode(1), "gpu"),
		`gpu_driver_loaded 1`, `gpu_driver_info{cuda="13.0",version="580.65.06"} 1`, `gpu_released 0`,
		`gpu_info{compute_mode="default",index="0",name="NVIDIA H100 80GB HBM3",pci_address="0000:00:00.0",uuid="GPU-0"} 1`,
		`gpu_lost{index="0",uuid="GPU-0"} 0`, `gpu_utilization_ratio{uuid="GPU-0"} 0.93`,
		`gpu_memory_used_bytes{uuid="GPU-0"} 7.516192768e+10`, `gpu_memory_total_bytes{uuid="GPU-0"} 8.589934592e+10`,
		`gpu_bar1_used_bytes{uuid="GPU-0"} 1.048576e+06`, `gpu_bar1_total_bytes{uuid="GPU-0"} 1.37438953472e+11`,
		`gpu_processes{uuid="GPU-0"} 4`, `gpu_mig_enabled{uuid="GPU-0"} 0`, `gpu_persistence_enabled{uuid="GPU-0"} 1`, `gpu_pcie_replays_total{uuid="GPU-0"} 3`,
		`gpu_fabric_state{state="not_started",uuid="GPU-0"} 0`, `gpu_fabric_state{state="in_progress",uuid="GPU-0"} 0`, `gpu_fabric_state{state="completed",uuid="GPU-0"} 1`)
}

// What is known of one fact has no influence on the others: each in turn is unknown, absent, or says something special.
func TestGPUFacts(t *testing.T) {
	all := linesOf(t, gpuNode(1), "gpu")
	lost := func(edit func(g *fabric.GPU)) []string {
		n := gpuNode(1)
		edit(&n.GPUDriver.GPUs[0])
		now := linesOf(t, n, "gpu")
		var changed []string
		for _, line := range all {
			if !slices.Contains(now, line) {
				name, _, _ := strings.Cut(line, "{")
				changed = append(changed, "-"+name)
			}
		}
		for _, line := range now {
			if !slices.Contains(all, line) {
				changed = append(changed, "+"+line)
			}
		}
		slices.Sort(changed)
		return slices.Compact(changed)
	}
	const unknown = `+exporter_facts_unknown{device="",reason="io_error",uuid="GPU-0"} 1`
	for _, c := range []struct {
		name string
		edit func(g *fabric.GPU)
		want []string
	}{
		{"utilization", func(g *fabric.GPU) { g.Utilization = no[float64]() }, []string{unknown, "-gpu_utilization_ratio"}},
		{"utilization with MIG", func(g *fabric.GPU) { g.Utilization = fabric.AbsentFact[float64]("test", now) }, []string{"-gpu_utilization_ratio"}},
		{"memory", func(g *fabric.GPU) { g.Memory = no[fabric.GPUMemory]() }, []string{unknown, "-gpu_memory_total_bytes", "-gpu_memory_used_bytes"}},
		{"window", func(g *fabric.GPU) { g.BAR1 = no[fabric.GPUMemory]() }, []string{unknown, "-gpu_bar1_total_bytes", "-gpu_bar1_used_bytes"}},
		{"processes", func(g *fabric.GPU) { g.Processes = no[[]fabric.GPUProcess]() }, []string{unknown, "-gpu_processes"}},
		{"no process", func(g *fabric.GPU) { g.Processes = known([]fabric.GPUProcess{}) }, []string{`+gpu_processes{uuid="GPU-0"} 0`, "-gpu_processes"}},
		{"MIG", func(g *fabric.GPU) { g.MIG = known(true) }, []string{`+gpu_mig_enabled{uuid="GPU-0"} 1`, "-gpu_mig_enabled"}},
		{"MIG that cannot be", func(g *fabric.GPU) { g.MIG = fabric.AbsentFact[bool]("test", now) }, []string{"-gpu_mig_enabled"}},
		{"persistence", func(g *fabric.GPU) { g.Persistence = no[bool]() }, []string{unknown, "-gpu_persistence_enabled"}},
		{"clocks", func(g *fabric.GPU) { g.ClockReasons = no[fabric.ClockReasons]() }, []string{unknown}},
		{"idle clocks", func(g *fabric.GPU) { g.ClockReasons = known(fabric.ClockReasons(0x01)) }, nil},
		{"hot", func(g *fabric.GPU) { g.ClockReasons = known(fabric.ClockReasons(0x48)) }, []string{
			`+gpu_throttled{reason="hardware_slowdown",uuid="GPU-0"} 1`, `+gpu_throttled{reason="hardware_thermal",uuid="GPU-0"} 1`,
		}},
		{"replays", func(g *fabric.GPU) { g.PCIeReplays = no[uint64]() }, []string{unknown, "-gpu_pcie_replays_total"}},
		{"fabric", func(g *fabric.GPU) { g.Fabric = no[fabric.GPUFabric]() }, []string{unknown, "-gpu_fabric_state"}},
		{"no fabric", func(g *fabric.GPU) { g.Fabric = fabric.AbsentFact[fabric.GPUFabric]("test", now) }, []string{"-gpu_fabric_state"}},
		{"fabric manager not there", func(g *fabric.GPU) { g.Fabric.Value = fabric.GPUFabric{State: fabric.GPUFabricNotStarted} }, []string{
			`+gpu_fabric_state{state="completed",uuid="GPU-0"} 0`, `+gpu_fabric_state{state="not_started",uuid="GPU-0"} 1`, "-gpu_fabric_state",
		}},
		{"registration failed", func(g *fabric.GPU) { g.Fabric.Value.Status = "NVML_ERROR_UNKNOWN" }, []string{`+gpu_fabric_unhealthy{reason="registration",uuid="GPU-0"} 1`}},
		{"degraded, reported twice", func(g *fabric.GPU) { g.Fabric.Value.Unhealthy = []string{"degraded_bandwidth", "degraded_bandwidth"} }, []string{
			`+gpu_fabric_unhealthy{reason="degraded_bandwidth",uuid="GPU-0"} 1`,
		}},
		{"lost is unknown", func(g *fabric.GPU) { g.Lost = no[bool]() }, []string{unknown, "-gpu_lost"}},
		{"name and mode", func(g *fabric.GPU) { g.Name, g.ComputeMode = no[string](), no[fabric.ComputeMode]() }, []string{
			`+exporter_facts_unknown{device="",reason="io_error",uuid="GPU-0"} 2`, `+gpu_info{compute_mode="",index="0",name="",pci_address="0000:00:00.0",uuid="GPU-0"} 1`, "-gpu_info",
		}},
	} {
		if got := lost(c.edit); !slices.Equal(got, c.want) {
			t.Errorf("%s changes\n\t%s\nwant\n\t%s", c.name, strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}

func no[T any]() fabric.Fact[T] { return fabric.UnknownFact[T](fabric.ReasonIO, "test", now) }

func TestGPUDriverStates(t *testing.T) {
	about := func(n *fabric.Node) (lines []string, h Health) {
		for _, line := range linesOf(t, n, "gpu") {
			if !strings.Contains(line, `uuid="GPU-`) {
				lines = append(lines, line)
			}
		}
		s, err := NewSet([]string{"gpu"})
		if err != nil {
			t.Fatal(err)
		}
		return lines, s.Health(n)[0]
	}
	n := nodeOf()
	n.GPUDriver.Loaded = fabric.Known(false, "/proc/driver/nvidia/version", now)
	lines, h := about(n)
	equal(t, lines, "gpu_driver_loaded 0", "gpu_released 0")
	if h.Supported || !h.Success || !strings.Contains(h.Why, "/proc/driver/nvidia/version") {
		t.Errorf("no driver is no failure: %+v", h)
	}
	n.GPUDriver.Loaded = fabric.UnknownFact[bool](fabric.ReasonMissing, "libnvidia-ml.so.1", now)
	lines, h = about(n)
	equal(t, lines, `exporter_facts_unknown{device="",reason="missing",uuid=""} 1`)
	if h.Supported || !h.Success || !strings.Contains(h.Why, "libnvidia-ml.so.1") {
		t.Errorf("no library is no failure: %+v", h)
	}
	n.GPUDirect.Driver = known("580.65.06")
	if lines, _ = about(n); len(lines) == 0 || lines[len(lines)-1] != "gpu_driver_loaded 1" {
		t.Errorf("the kernel has the driver: %v", lines)
	}
	lines, h = about(nodeOf())
	if equal(t, lines); h.Supported || !h.Success || !strings.Contains(h.Why, "is not queried") {
		t.Errorf("the driver is not queried: %+v", h)
	}
	n = gpuNode(0)
	n.GPUDriver = fabric.GPUDriver{Released: "a maintenance file is there"}
	lines, h = about(n)
	if equal(t, lines, "gpu_released 1"); !h.Supported || !h.Success {
		t.Errorf("released: %+v", h)
	}
	n = gpuNode(2)
	n.Sources = []fabric.Source{{Name: fabric.SourceGPU, Reason: fabric.ReasonStuck, Since: now}}
	n.GPUDriver = n.GPUDriver.WithoutFacts(fabric.ReasonStuck, now)
	lines, h = about(n)
	if equal(t, lines, `exporter_facts_unknown{device="",reason="stuck",uuid=""} 3`); !h.Supported || h.Success || !h.Timeout {
		t.Errorf("stuck: %+v", h)
	}
	// Who was there is known while the driver hangs, and nothing else.
	of := linesOf(t, n, "gpu", "nvlink", "nvlink_links")
	equal(t, slices.DeleteFunc(of, func(line string) bool { return strings.HasPrefix(line, "exporter_facts_unknown") }),
		`gpu_info{compute_mode="",index="0",name="",pci_address="0000:00:00.0",uuid="GPU-0"} 1`, `gpu_info{compute_mode="",index="1",name="",pci_address="0000:01:00.0",uuid="GPU-1"} 1`)
}

// GPUs that are lost have an index and perhaps no more; wrong values of a library affect only the series of those.
func TestGPUsThatCannotBeNamed(t *testing.T) {
	n := gpuNode(5)
	for _, i := range []int{1, 2} {
		n.GPUDriver.GPUs[i] = fabric.GPU{Index: i}
		n.GPUDriver.GPUs[i] = n.GPUDriver.WithoutFacts(fabric.ReasonGone, now).GPUs[i]
		n.GPUDriver.GPUs[i].Lost = known(true)
	}
	n.GPUDriver.GPUs[3].Lost = known(true) // and still says who it is
	n.GPUDriver.GPUs[4].UUID = "GPU-0"     // as another one does
	n.GPUDriver.GPUs[4].Index = 3          // likewise
	n.GPUDriver.GPUs[0].Name = known("a\xff\n" + strings.Repeat("x", 1000))
	lines := linesOf(t, n, "gpu", "nvlink", "nvlink_links")
	for _, want := range []string{
		`gpu_lost{index="0",uuid="GPU-0"} 0`, `gpu_lost{index="1",uuid=""} 1`, `gpu_lost{index="2",uuid=""} 1`, `gpu_lost{index="3",uuid="GPU-3"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing %s", want)
		}
	}
	count := map[string]int{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "{")
		count[name]++
		if len(line) > 300 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if count["gpu_lost"] != 4 || count["gpu_info"] != 1 || count["gpu_utilization_ratio"] != 1 {
		t.Errorf("%v", count)
	}
	if !slices.ContainsFunc(lines, func(s string) bool {
		return strings.HasPrefix(s, `exporter_facts_unknown{device="",reason="gone",uuid=""} `)
	}) {
		t.Errorf("unknown facts of lost GPUs are not counted:\n%s", strings.Join(lines, "\n"))
	}
}

// maxGPUSeries is how many series a GPU has at most while it is well.
const maxGPUSeries = 20

func TestGPUBudget(t *testing.T) {
	per := map[string]int{}
	for _, line := range linesOf(t, gpuNode(8), "gpu", "nvlink") {
		if strings.Contains(line, "uuid=") {
			name, _, _ := strings.Cut(line, "{")
			per[name]++
		}
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(per)) {
		t.Logf("%3d %s", per[name], name)
		total += per[name]
	}
	if total != 8*maxGPUSeries {
		t.Errorf("%d series of 8 GPUs, want %d", total, 8*maxGPUSeries)
	}
}
