// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// gpus iterates over the GPUs that say who they are, each UUID once: a second series of one name would cost the scrape.
func gpus(n *fabric.Node) iter.Seq[*fabric.GPU] {
	return func(yield func(*fabric.GPU) bool) {
		list := n.GPUDriver.GPUs
		for i := range list {
			g := &list[i]
			twice := slices.ContainsFunc(list[:i], func(o fabric.GPU) bool { return o.UUID == g.UUID })
			if g.UUID != "" && !twice && !yield(g) {
				return
			}
		}
	}
}

func hasGPUDriver(n *fabric.Node) (bool, string) {
	d := &n.GPUDriver
	switch loaded, known := d.Loaded.Get(); {
	case d.Released != "":
		return true, ""
	case known && !loaded:
		return false, "no NVIDIA driver is loaded (" + d.Loaded.Source + ")"
	case d.Loaded.Meta().Reason == fabric.ReasonNotRead:
		return false, "nobody asks NVIDIA's driver"
	}
	return true, ""
}

func collectGPU(n *fabric.Node, emit emit) {
	d := &n.GPUDriver
	loaded, known := d.Loaded.Get()
	if known {
		emit(gpuDriverLoaded, bit(loaded))
	}
	if known || d.Released != "" {
		emit(gpuReleased, bit(d.Released != ""))
	}
	version, cuda := d.Version.Or(""), d.CUDA.Or("")
	if version != "" || cuda != "" {
		emit(gpuDriverInfo, 1, label(version), label(cuda))
	}
	for i := range d.GPUs {
		g := &d.GPUs[i]
		lost, ok := g.Lost.Get()
		if ok && !slices.ContainsFunc(d.GPUs[:i], func(o fabric.GPU) bool { return o.Index == g.Index }) {
			emit(gpuLost, bit(lost), label(g.UUID), strconv.Itoa(g.Index))
		}
	}
	for g := range gpus(n) {
		if !g.Lost.Or(false) {
			collectOneGPU(g, emit)
		}
	}
}

func collectOneGPU(g *fabric.GPU, emit emit) {
	uuid := label(g.UUID)
	emit(gpuInfo, 1, uuid, strconv.Itoa(g.Index), label(g.Address), label(g.Name.Or("")), label(string(g.ComputeMode.Or(""))))
	number(emit, gpuUtilization, g.Utilization, uuid)
	if m, ok := g.Memory.Get(); ok {
		emit(gpuMemoryUsed, float64(m.Used), uuid)
		emit(gpuMemoryTotal, float64(m.Total), uuid)
	}
	if m, ok := g.BAR1.Get(); ok {
		emit(gpuBAR1Used, float64(m.Used), uuid)
		emit(gpuBAR1Total, float64(m.Total), uuid)
	}
	if list, ok := g.Processes.Get(); ok {
		emit(gpuProcesses, float64(processes(list)), uuid)
	}
	boolean(emit, gpuMIGEnabled, g.MIG, uuid)
	boolean(emit, gpuPersistence, g.Persistence, uuid)
	for _, reason := range g.ClockReasons.Or(0).Throttles() {
		emit(gpuThrottled, 1, uuid, reason)
	}
	number(emit, gpuPCIeReplays, g.PCIeReplays, uuid)
	if f, ok := g.Fabric.Get(); ok {
		collectGPUFabric(&f, uuid, emit)
	}
}

func collectGPUFabric(f *fabric.GPUFabric, uuid string, emit emit) {
	state(emit, gpuFabricState, f.State, fabric.GPUFabricStates(), uuid)
	var reasons []string
	if f.State == fabric.GPUFabricCompleted && f.Status != "" && f.Status != "success" {
		reasons = append(reasons, "registration")
	}
	for _, r := range f.Unhealthy {
		reasons = append(reasons, label(r))
	}
	slices.Sort(reasons)
	for _, r := range slices.Compact(reasons) {
		emit(gpuFabricUnhealthy, 1, uuid, r)
	}
}

// processes counts them. One may use a GPU in several ways; of another namespace's the PID may be 0.
func processes(list []fabric.GPUProcess) int {
	seen, hidden := map[int]bool{}, 0
	for _, p := range list {
		if p.PID == 0 {
			hidden++
		} else {
			seen[p.PID] = true
		}
	}
	return len(seen) + hidden
}
