// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// The rows of the collector gpu. A GPU is named by its UUID, which stays its own in whatever order GPUs are found; only
// gpu_lost also goes by the index, because a GPU that is lost no longer says who it is.
var (
	gpuDriverLoaded = &Family{
		Name: "gpu_driver_loaded", Type: Gauge,
		Help: "1 if NVIDIA's driver is loaded; 0 without a driver, which is not an error. Absent while it is unknown. " +
			"A driver that is loaded and cannot be queried, as in a container without its library, has scrape_collector_supported 0 for the collector gpu.",
		Source: "nvmlInit_v2, /proc/driver/nvidia/version", Cadence: Fast, Stability: Stable,
	}
	gpuDriverInfo = &Family{
		Name: "gpu_driver_info", Type: Info, Labels: []string{"version", "cuda"},
		Help:   "NVIDIA's driver, with the newest CUDA that it supports; constant 1.",
		Source: "nvmlSystemGetDriverVersion, nvmlSystemGetCudaDriverVersion", Cadence: Rare, Stability: Stable,
	}
	gpuReleased = &Family{
		Name: "gpu_released", Type: Gauge,
		Help: "1 while all GPUs are released for maintenance, because of the maintenance file or SIGUSR1; 0 otherwise. Their facts are unknown during that time, " +
			"and rules that expect GPUs should not fire.",
		Source: "exporter", Cadence: Fast, Stability: Stable,
	}
	gpuInfo = &Family{
		Name: "gpu_info", Type: Info, Labels: []string{"uuid", "index", "pci_address", "name", "compute_mode"},
		Help: "A GPU; constant 1. index is the index in NVML, and in CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID. pcie_*, gpudirect_* and gpu_nic_distance name the GPU by its pci_address. " +
			"compute_mode: default, prohibited, exclusive_process, exclusive_thread. Unknown labels are empty.",
		Source: "nvmlDeviceGetUUID, nvmlDeviceGetPciInfo_v3, nvmlDeviceGetName, nvmlDeviceGetComputeMode", Cadence: Slow,
		Stability: Stable,
	}
	gpuLost = &Family{
		Name: "gpu_lost", Type: Gauge, Labels: []string{"uuid", "index"},
		Help:   "1 if the driver has lost the GPU (it fell off the bus, Xid 79), which needs a reboot; 0 otherwise. A lost GPU may have an empty uuid, and has no other series.",
		Source: "NVML_ERROR_GPU_IS_LOST", Cadence: Fast, Stability: Stable,
	}
	gpuUtilization = &Family{
		Name: "gpu_utilization_ratio", Type: Gauge, Unit: "ratio", Labels: []string{"uuid"},
		Help:   "Share of the driver's last sample period (1/6 s to 1 s) in which a kernel ran, regardless of how much of the GPU it used. Absent with MIG.",
		Source: "nvmlDeviceGetUtilizationRates", Cadence: Fast, Stability: Stable,
	}
	gpuMemoryUsed = &Family{
		Name: "gpu_memory_used_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Allocated memory of the GPU, including the driver's own.",
		Source: "nvmlDeviceGetMemoryInfo", Cadence: Fast, Stability: Stable,
	}
	gpuMemoryTotal = &Family{
		Name: "gpu_memory_total_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Total memory of the GPU.",
		Source: "nvmlDeviceGetMemoryInfo", Cadence: Fast, Stability: Stable,
	}
	gpuBAR1Used = &Family{
		Name: "gpu_bar1_used_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Used part of BAR1, the window through which other devices access the memory of the GPU. GPUDirect RDMA with a peer-memory module pins memory in it; registrations fail when it is full.",
		Source: "nvmlDeviceGetBAR1MemoryInfo", Cadence: Fast, Stability: Stable,
	}
	gpuBAR1Total = &Family{
		Name: "gpu_bar1_total_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"uuid"},
		Help:   "Size of BAR1, the window through which other devices access the memory of the GPU.",
		Source: "nvmlDeviceGetBAR1MemoryInfo", Cadence: Fast, Stability: Stable,
	}
	gpuProcesses = &Family{
		Name: "gpu_processes", Type: Gauge, Labels: []string{"uuid"},
		Help: "Number of processes that have a context on the GPU: compute, graphics and clients of the Multi-Process Service, each process once. " +
			"A job between two steps counts, although the GPU is idle.",
		Source:  "nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3",
		Cadence: Fast, Stability: Stable,
	}
	gpuMIGEnabled = &Family{
		Name: "gpu_mig_enabled", Type: Gauge, Labels: []string{"uuid"},
		Help:   "1 if the GPU is divided into instances (MIG), which NCCL cannot connect over NVLink. Absent if the GPU does not support MIG.",
		Source: "nvmlDeviceGetMigMode", Cadence: Slow, Stability: Stable,
	}
	gpuPersistence = &Family{
		Name: "gpu_persistence_enabled", Type: Gauge, Labels: []string{"uuid"},
		Help:   "1 if the driver keeps the GPU initialized while no process uses it.",
		Source: "nvmlDeviceGetPersistenceMode", Cadence: Slow, Stability: Stable,
	}
	gpuThrottled = &Family{
		Name: "gpu_throttled", Type: Gauge, Labels: []string{"uuid", "reason"},
		Help: "1 while the clocks of the GPU are reduced, by reason: power_cap (the GPU's own limit; normal under full load), hardware_slowdown, software_thermal, hardware_thermal, " +
			"power_brake (asserted by the server). Absent otherwise. One slow GPU slows down its whole job.",
		Source: "nvmlDeviceGetCurrentClocksEventReasons", Cadence: Fast, Stability: Stable,
	}
	gpuPCIeReplays = &Family{
		Name: "gpu_pcie_replays_total", Type: Counter, Labels: []string{"uuid"},
		Help:   "Packets that were resent on the PCIe link of the GPU. Likely causes: slot, riser or cable.",
		Source: "nvmlDeviceGetPcieReplayCounter", Cadence: Slow, Stability: Stable,
	}
	gpuFabricState = &Family{
		Name: "gpu_fabric_state", Type: StateSet, Labels: []string{"uuid", "state"},
		Help: "Progress of the registration of the GPU with its NVSwitches by fabric manager or IMEX: not_started, in_progress, completed; 1 for the current state. " +
			"CUDA does not initialize before it is completed. Absent without NVSwitches, before Hopper, and on PCIe cards.",
		Source: "nvmlDeviceGetGpuFabricInfoV", Cadence: Slow, Stability: Experimental,
	}
	gpuFabricUnhealthy = &Family{
		Name: "gpu_fabric_unhealthy", Type: Gauge, Labels: []string{"uuid", "reason"},
		Help: "1 for each problem of the NVLink fabric of the GPU: those in its health mask (degraded_bandwidth, ...), or registration if that ended with an error. " +
			"Absent otherwise.",
		Source: "nvmlDeviceGetGpuFabricInfoV", Cadence: Slow, Stability: Experimental,
	}
)

// gpuFamilies are the rows of the collector gpu, in the order of documentation.
func gpuFamilies() []*Family {
	return []*Family{
		gpuDriverLoaded, gpuDriverInfo, gpuReleased, gpuInfo, gpuLost, gpuUtilization, gpuMemoryUsed, gpuMemoryTotal,
		gpuBAR1Used, gpuBAR1Total,
		gpuProcesses, gpuMIGEnabled, gpuPersistence, gpuThrottled, gpuPCIeReplays, gpuFabricState, gpuFabricUnhealthy,
	}
}

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
		return false, "NVIDIA's driver is not queried"
	}
	return true, ""
}

// asksGPUDriver is for what NVML alone shows.
func asksGPUDriver(n *fabric.Node) (bool, string) {
	if supported, why := hasGPUDriver(n); !supported {
		return false, why
	}
	if why, unreached := n.GPUDriver.Unreached(); unreached {
		return false, "NVIDIA's driver is loaded, but " + why
	}
	return true, ""
}

func collectGPU(n *fabric.Node, emit emit) {
	d := &n.GPUDriver
	loaded, known := d.Loaded.Get()
	if known || n.GPUDirect.Driver.State == fabric.OK {
		emit(gpuDriverLoaded, bit(loaded || !known))
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
	emit(gpuInfo, 1, uuid, strconv.Itoa(g.Index), label(g.Address), label(g.Name.Or("")),
		label(string(g.ComputeMode.Or(""))))
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
