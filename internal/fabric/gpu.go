// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
)

// NVMLLibrary is the library of NVIDIA's driver, by the name that the loader knows.
const NVMLLibrary = "libnvidia-ml.so.1"

// GPUDriver is what NVIDIA's driver reports about itself and its GPUs through NVML.
type GPUDriver struct {
	// Loaded says whether there is a driver to ask: known false without one, which is no error. It is unknown
	// where the kernel has one (GPUDirect.Driver) that NVML does not reach, as in a container without NVIDIA's
	// runtime: its source then is what is missing.
	Loaded  Fact[bool]
	Version Fact[string] // "580.65.06"
	CUDA    Fact[string] // the newest CUDA that the driver supports, "13.0"
	// Released says why the exporter released all GPUs (a maintenance file, a signal); empty while it may look.
	Released string
	GPUs     []GPU `fact:"apart"` // sorted by index
	// P2P is whether one GPU can write to another over PCIe or NVLink. Pairs are in ascending order of both indices.
	P2P []GPUPair
}

// GPU is one GPU as NVML shows it. What cannot be opened has its index and nothing else; what is lost after
// it was opened keeps UUID and address.
type GPU struct {
	Index   int    // of NVML, and of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID
	UUID    string // empty when NVML cannot open the GPU
	Address string // of its PCI function, "0000:1b:00.0"; empty likewise

	Lost           Fact[bool]   // the driver lost it: NVML_ERROR_GPU_IS_LOST
	Name           Fact[string] // "NVIDIA H100 80GB HBM3"
	NUMANode       Fact[int]    // of its memory, on coherent platforms; absent elsewhere
	ComputeCap     Fact[int]    // compute capability times ten: 90 is Hopper
	Processes      Fact[[]GPUProcess]
	Utilization    Fact[float64] // 0 to 1: part of the last sample period in which a kernel ran
	Memory         Fact[GPUMemory]
	BAR1           Fact[GPUMemory] // the window that other devices see; GPUDirect RDMA through it pins
	ComputeMode    Fact[ComputeMode]
	MIG            Fact[bool] // absent where the GPU cannot be divided
	Persistence    Fact[bool]
	ClockReasons   Fact[ClockReasons] // why clocks are below their maximum
	PCIeGeneration Fact[int]          // of the link now: idle GPUs slow it down
	PCIeMaxGen     Fact[int]          // that GPU and slot can do
	PCIeWidth      Fact[int]
	PCIeMaxWidth   Fact[int]
	PCIeReplays    Fact[uint64]
	NVLinks        Fact[[]NVLink]  // sorted by number; absent where the GPU has none
	Fabric         Fact[GPUFabric] // absent without NVSwitches that are driven so (before Hopper, and PCIe cards)
}

// GPUProcess is a process that has a context on a GPU. Its PID is one of the worker's namespace.
type GPUProcess struct {
	PID    int
	Kind   GPUProcessKind
	Memory Fact[uint64] // bytes; unknown where the driver does not report it
	// Instance is the UUID of the MIG device that it runs in ("MIG-..."); empty: not in one, in several, or not known.
	Instance string
}

// GPUProcessKind is how a process uses a GPU.
type GPUProcessKind string

// Kinds of processes.
const (
	GPUCompute  GPUProcessKind = "compute"
	GPUGraphics GPUProcessKind = "graphics"
	GPUMPS      GPUProcessKind = "mps" // a client of the Multi-Process Service
)

// GPUMemory is memory in bytes.
type GPUMemory struct{ Total, Used uint64 }

// ComputeMode is who may use a GPU (nvmlComputeMode_t).
type ComputeMode string

// Compute modes.
const (
	ComputeDefault          ComputeMode = "default"
	ComputeProhibited       ComputeMode = "prohibited"
	ComputeExclusiveProcess ComputeMode = "exclusive_process"
	ComputeExclusiveThread  ComputeMode = "exclusive_thread"
)

// ClockReasons is the mask of nvmlClocksEventReason*.
type ClockReasons uint64

// throttles are the bits of ClockReasons that slow a GPU down which has work to do.
var throttles = []struct {
	bit  ClockReasons
	name string
}{
	{0x04, "power_cap"}, {0x08, "hardware_slowdown"}, {0x20, "software_thermal"}, {0x40, "hardware_thermal"}, {0x80, "power_brake"},
}

// Throttles names why the GPU is slower than it could be, in the order of the bits. Idle clocks and what an
// administrator set are no reasons.
func (r ClockReasons) Throttles() []string {
	var names []string
	for _, t := range throttles {
		if r&t.bit != 0 {
			names = append(names, t.name)
		}
	}
	return names
}

// NVLink is one NVLink of a GPU.
type NVLink struct {
	Number int
	Active Fact[bool]
	// Remote is the PCI address at the other end: another GPU, or an NVSwitch.
	Remote     Fact[string]
	RemoteKind Fact[NVLinkEnd]
	Speed      Fact[float64] // signalling rate in bytes per second and direction; see Specified
	// Errors by kind; kinds that the generation of NVLink does not count are not there.
	Errors []NVLinkErrors
}

// nvlinkRates are what NVIDIA specifies for a link in bytes per second and direction: NVLink 1, 2 to 4, and
// 5. Their source: https://www.nvidia.com/en-us/data-center/nvlink/
var nvlinkRates = [...]float64{20e9, 25e9, 50e9}

// Specified returns the specified rate of a link in bytes per second and direction, and false where its speed
// is not known. NVML reports the signalling rate: 26.562 GB/s where 25 GB/s are data. A speed that is near
// none of the specified rates is returned as it is.
func (l *NVLink) Specified() (bytesPerSecond float64, known bool) {
	const overhead = 1.07 // at most, of line coding and error correction
	speed, known := l.Speed.Get()
	for _, rate := range nvlinkRates {
		if speed >= rate && speed <= rate*overhead {
			return rate, known
		}
	}
	return speed, known
}

// NVLinkErrors counts one kind of error or recovery since the driver was loaded.
type NVLinkErrors struct {
	Kind  NVLinkError
	Count Fact[uint64]
}

// NVLinkError is a kind of NVLinkErrors.
type NVLinkError string

// Kinds of errors. The first three are those of NVLink 4 and before, the others those of NVLink 5.
const (
	NVLinkReplay           NVLinkError = "replay"            // NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY
	NVLinkRecovery         NVLinkError = "recovery"          // ..._DL_RECOVERY, on NVLink 5 ..._LINK_RECOVERY_EVENTS
	NVLinkCRC              NVLinkError = "crc"               // ..._DL_CRC
	NVLinkRecoveryFailed   NVLinkError = "recovery_failed"   // NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS
	NVLinkReceive          NVLinkError = "receive"           // ..._COUNT_RCV_ERRORS
	NVLinkLocalIntegrity   NVLinkError = "local_integrity"   // ..._COUNT_LOCAL_LINK_INTEGRITY_ERRORS
	NVLinkTransmitDiscards NVLinkError = "transmit_discards" // ..._COUNT_XMIT_DISCARDS
	NVLinkEffectiveErrors  NVLinkError = "effective"         // ..._COUNT_EFFECTIVE_ERRORS: after error correction
)

// NVLinkErrorKinds returns all kinds.
func NVLinkErrorKinds() []NVLinkError {
	return []NVLinkError{
		NVLinkReplay, NVLinkRecovery, NVLinkCRC, NVLinkRecoveryFailed, NVLinkReceive, NVLinkLocalIntegrity,
		NVLinkTransmitDiscards, NVLinkEffectiveErrors,
	}
}

// NVLinkEnd is what an NVLink leads to (nvmlIntNvLinkDeviceType_t).
type NVLinkEnd string

// Ends of an NVLink.
const (
	NVLinkToGPU    NVLinkEnd = "gpu"
	NVLinkToSwitch NVLinkEnd = "switch"
	NVLinkToCPU    NVLinkEnd = "cpu" // IBM POWER
)

// GPUFabric is how a GPU stands in the NVLink domain of its NVSwitches (nvmlGpuFabricInfoV_t).
type GPUFabric struct {
	State  GPUFabricState
	Status string // nvmlReturn_t of the registration, "success" or in NVML's words; empty unless State is completed
	// Clique and Cluster name the partition; on one HGX board the cluster is all zero.
	Clique  int
	Cluster string
	// Unhealthy names what the health mask complains of; what it does not support is not among them.
	Unhealthy []string
}

// GPUFabricState is how far the registration of a GPU with fabric manager or IMEX is.
type GPUFabricState string

// Fabric states. On a GPU in state not_started and in_progress CUDA does not initialise.
const (
	GPUFabricNotStarted GPUFabricState = "not_started"
	GPUFabricInProgress GPUFabricState = "in_progress"
	GPUFabricCompleted  GPUFabricState = "completed"
)

// GPUFabricStates returns the full state set.
func GPUFabricStates() []GPUFabricState {
	return []GPUFabricState{GPUFabricNotStarted, GPUFabricInProgress, GPUFabricCompleted}
}

// GPUPair is what NVML reports of two GPUs, by index, A below B.
type GPUPair struct {
	A, B int
	// Write says whether peer-to-peer writes work (NVML_P2P_STATUS_OK, which is 0), and if not, why not.
	Write Fact[P2PStatus]
	// Ancestor is the class that NVML gives the way over PCIe.
	Ancestor Fact[Distance]
}

// P2PStatus is nvmlGpuP2PStatus_t.
type P2PStatus string

// P2P statuses.
const (
	P2POK                  P2PStatus = "ok"
	P2PChipsetNotSupported P2PStatus = "chipset_not_supported"
	P2PGPUNotSupported     P2PStatus = "gpu_not_supported"
	P2PIOHNotSupported     P2PStatus = "ioh_topology_not_supported"
	P2PDisabledByRegkey    P2PStatus = "disabled_by_regkey"
	P2PNotSupported        P2PStatus = "not_supported"
)

// Unreached reports that the kernel has the driver and NVML does not reach it, and why. That is how a site
// gave the privileges, and no failure.
func (d *GPUDriver) Unreached() (why string, unreached bool) {
	switch {
	case d.Loaded.State != Unknown || d.Loaded.Reason != ReasonMissing:
		return "", false
	case d.Loaded.Source == NVMLLibrary:
		return "its library " + NVMLLibrary + " is not found here", true
	}
	return "NVML does not reach it: the device nodes /dev/nvidia* may be missing here", true
}

// At returns the GPU with the PCI function at that address, or nil.
func (d *GPUDriver) At(address string) *GPU {
	for i := range d.GPUs { // without copies of what is large
		if g := &d.GPUs[i]; g.Address != "" && strings.EqualFold(g.Address, address) {
			return g
		}
	}
	return nil
}

// Active counts the active links; it is unknown when the state of one is.
func (g *GPU) Active() Fact[int] {
	links, ok := g.NVLinks.Get()
	if !ok {
		return Fact[int]{State: g.NVLinks.State, Reason: g.NVLinks.Reason, Source: g.NVLinks.Source, At: g.NVLinks.At}
	}
	n := 0
	for i := range links {
		active, ok := links[i].Active.Get()
		if !ok {
			return UnknownFact[int](links[i].Active.Meta().Reason, links[i].Active.Source, links[i].Active.At)
		}
		if active {
			n++
		}
	}
	return Known(n, g.NVLinks.Source, g.NVLinks.At)
}
