// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// These errors end the library's hold on the driver.
var (
	errNoDriver = errors.New("nvml: the driver has gone")
	errReleased = answers("NVML", nvml.ERROR_UNINITIALIZED)
)

// reader reads GPUs through a library that is initialised, and has what it read last. Facts in it have neither source
// nor time: the client knows both.
type reader struct {
	lib nvml.Interface
	has func(symbols ...string) bool
	// device and processes go past go-nvml, see object.
	device    func(index int) unsafe.Pointer
	processes func(device unsafe.Pointer, kind fabric.GPUProcessKind, names []string, parts map[instance]string,
		to []fabric.GPUProcess) ([]fabric.GPUProcess, nvml.Return, error)

	d     fabric.GPUDriver
	gpus  []*gpu
	again bool  // something that is read once failed in a way that may pass
	gone  error // errNoDriver or errReleased
}

// gpu is one GPU and how it is asked.
type gpu struct {
	r      *reader
	f      *fabric.GPU // where its facts are
	dev    nvml.Device // nil: it cannot be opened
	handle unsafe.Pointer

	lost     bool
	answered bool          // it gave some answer in this reading
	trouble  fabric.Reason // why it gave none

	links     linkPlan
	instances map[instance]string // UUIDs of its MIG devices
}

func newReader(lib nvml.Interface, has func(...string) bool) *reader {
	return &reader{lib: lib, has: has}
}

// read reads the facts of a tier and of those below. It reports whether GPUs came, went, were lost or found:
// then facts of other tiers are out of date too.
func (r *reader) read(ctx context.Context, t tier) (changed bool, err error) {
	if t >= slow || r.gpus == nil {
		if changed, err = r.enumerate(); err != nil {
			return false, err
		}
		if t == slow && (changed || r.again) {
			return true, nil
		}
	}
	if t == all {
		r.again = false
		r.readSystem()
	}
	for _, g := range r.gpus {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		was := g.lost
		g.read(t)
		changed = changed || g.lost != was
	}
	if t == all {
		r.readPairs()
	}
	return changed, r.gone
}

// readProcesses reads the processes of the GPUs that are open, and nothing else.
func (r *reader) readProcesses(ctx context.Context) error {
	for _, g := range r.gpus {
		if err := ctx.Err(); err != nil {
			return err
		}
		if g.dev == nil {
			g.f.Processes = unknown[[]fabric.GPUProcess](g.trouble)
			continue
		}
		was := g.lost
		g.lost, g.trouble = false, ""
		g.f.Processes = g.processes(g.f.Processes.Value[:0])
		g.f.Lost = fabric.Fact[bool]{State: fabric.OK, Value: g.lost}
		if g.lost {
			g.f.Processes = unknown[[]fabric.GPUProcess](fabric.ReasonGone)
		}
		g.lost = was // so that the next reading sees the change
	}
	return r.gone
}

// enumerate opens the GPUs. Those that are open stay so.
func (r *reader) enumerate() (changed bool, err error) {
	if !r.has("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") ||
		!r.has("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return false, fabric.Because(fabric.ReasonMissing, "the library cannot list GPUs")
	}
	n, ret := r.lib.DeviceGetCount()
	switch {
	case ret == nvml.ERROR_DRIVER_NOT_LOADED:
		return false, errNoDriver
	case ret == nvml.ERROR_UNINITIALIZED:
		return false, errReleased
	case ret != nvml.SUCCESS:
		return false, answers("nvmlDeviceGetCount", ret)
	case n < 0 || n > maxGPUs:
		return false, fabric.Because(fabric.ReasonMalformed,
			fmt.Sprintf("nvmlDeviceGetCount says %d GPUs, expected %d at most", n, maxGPUs))
	}
	if changed = n != len(r.gpus); changed || r.gpus == nil {
		r.gpus = make([]*gpu, n)
		r.d.GPUs = make([]fabric.GPU, n)
		for i := range r.gpus {
			r.gpus[i] = &gpu{r: r, f: &r.d.GPUs[i]}
			r.d.GPUs[i].Index = i
		}
	}
	for i, g := range r.gpus {
		if g.dev == nil {
			changed = g.open(i) || changed
		}
	}
	return changed, nil
}

// open takes hold of a GPU, which only has an identity then.
func (g *gpu) open(index int) bool {
	dev, ret := g.r.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		g.lost, g.trouble = ret == nvml.ERROR_GPU_IS_LOST, reasonOf(ret)
		return false
	}
	g.dev, g.lost = dev, false
	if g.r.device != nil {
		g.handle = g.r.device(index)
	}
	return true
}

// identify reads the identity of the GPU.
func (g *gpu) identify() {
	g.f.UUID = get(g, unsupported, g.dev.GetUUID, "nvmlDeviceGetUUID").Or(g.f.UUID)
	pci := get(g, unsupported, g.dev.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2",
		"nvmlDeviceGetPciInfo")
	if p, ok := pci.Get(); ok {
		g.f.Address = addressOf(&p)
	}
	if !g.lost && (g.f.UUID == "" || g.f.Address == "") {
		g.r.again = true
	}
}

// addressOf is the address as the kernel writes it. NVML's own text has a domain of eight digits, in capitals; GPUs are
// function 0.
func addressOf(p *nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device)
}

// What NVML_ERROR_NOT_SUPPORTED means for a fact.
const (
	unsupported = fabric.Unknown
	absent      = fabric.Absent
)

// get asks for one fact, by way of a function whose symbol may have several versions.
func get[T any](g *gpu, notSupported fabric.State, ask func() (T, nvml.Return), symbols ...string) fabric.Fact[T] {
	if g.lost {
		return fabric.Fact[T]{Reason: fabric.ReasonGone}
	}
	if !g.r.has(symbols...) {
		return fabric.Fact[T]{Reason: fabric.ReasonMissing}
	}
	v, ret := ask()
	g.heard(ret)
	switch ret {
	case nvml.SUCCESS:
		return fabric.Fact[T]{State: fabric.OK, Value: v}
	case nvml.ERROR_NOT_SUPPORTED:
		return fabric.Fact[T]{State: notSupported, Reason: fabric.ReasonUnsupported}
	default:
		return fabric.Fact[T]{Reason: reasonOf(ret)}
	}
}

// heard notes what an answer reports about the GPU itself.
func (g *gpu) heard(ret nvml.Return) {
	switch ret {
	case nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED:
		g.answered = true
	case nvml.ERROR_GPU_IS_LOST:
		g.lost = true
	case nvml.ERROR_DRIVER_NOT_LOADED:
		g.r.gone = errNoDriver
	case nvml.ERROR_UNINITIALIZED:
		g.r.gone = errReleased
	default:
		if g.trouble == "" {
			g.trouble = reasonOf(ret)
		}
	}
}

// to makes a fact of another type of the same knowledge. A value that cannot be is malformed.
func to[A, B any](f fabric.Fact[A], conv func(A) (B, bool)) fabric.Fact[B] {
	if f.State != fabric.OK {
		return fabric.Fact[B]{State: f.State, Reason: f.Reason}
	}
	v, ok := conv(f.Value)
	if !ok {
		return fabric.Fact[B]{Reason: fabric.ReasonMalformed}
	}
	return fabric.Fact[B]{State: fabric.OK, Value: v}
}

// once notes that a fact which is read once is worth another try.
func once[T any](r *reader, f fabric.Fact[T]) fabric.Fact[T] {
	if f.State == fabric.Unknown && f.Reason == fabric.ReasonIO {
		r.again = true
	}
	return f
}

func (g *gpu) read(t tier) {
	f := g.f
	if g.dev == nil {
		blank(f, g.trouble)
		f.Lost = fabric.Fact[bool]{Reason: g.trouble}
		if g.lost {
			f.Lost = fabric.Fact[bool]{State: fabric.OK, Value: true}
		}
		return
	}
	g.lost, g.answered, g.trouble = false, false, ""
	f.Utilization = to(get(g, unsupported, g.dev.GetUtilizationRates, "nvmlDeviceGetUtilizationRates"),
		func(u nvml.Utilization) (float64, bool) { return float64(u.Gpu) / 100, u.Gpu <= 100 })
	f.Memory = g.memory()
	f.BAR1 = to(get(g, unsupported, g.dev.GetBAR1MemoryInfo, "nvmlDeviceGetBAR1MemoryInfo"),
		func(m nvml.BAR1Memory) (fabric.GPUMemory, bool) { return memoryOf(m.Bar1Total, m.Bar1Used) })
	f.ClockReasons = g.clockReasons()
	f.PCIeGeneration = get(g, unsupported, g.dev.GetCurrPcieLinkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration")
	f.PCIeWidth = get(g, unsupported, g.dev.GetCurrPcieLinkWidth, "nvmlDeviceGetCurrPcieLinkWidth")
	if t >= slow {
		g.readModes()
	}
	f.Processes = g.processes(f.Processes.Value[:0])
	if t == all {
		g.readCapabilities()
	}
	g.readLinks(t)
	switch {
	case g.lost:
		blank(f, fabric.ReasonGone)
		f.Lost = fabric.Fact[bool]{State: fabric.OK, Value: true}
	case g.answered:
		f.Lost = fabric.Fact[bool]{State: fabric.OK}
	default:
		f.Lost = fabric.Fact[bool]{Reason: g.trouble}
	}
}

// blank leaves nothing of a GPU but its identity.
func blank(f *fabric.GPU, why fabric.Reason) {
	*f = fabric.GPU{
		Index: f.Index, UUID: f.UUID, Address: f.Address,
		Lost: unknown[bool](why), Name: unknown[string](why), NUMANode: unknown[int](why), ComputeCap: unknown[int](why),
		Processes: unknown[[]fabric.GPUProcess](why), Utilization: unknown[float64](why),
		Memory: unknown[fabric.GPUMemory](why),
		BAR1:   unknown[fabric.GPUMemory](why), ComputeMode: unknown[fabric.ComputeMode](why), MIG: unknown[bool](why),
		Persistence: unknown[bool](why), ClockReasons: unknown[fabric.ClockReasons](why), PCIeGeneration: unknown[int](why),
		PCIeMaxGen: unknown[int](why), PCIeWidth: unknown[int](why), PCIeMaxWidth: unknown[int](why),
		PCIeReplays: unknown[uint64](why), NVLinks: unknown[[]fabric.NVLink](why), Fabric: unknown[fabric.GPUFabric](why),
	}
}

func unknown[T any](why fabric.Reason) fabric.Fact[T] { return fabric.Fact[T]{Reason: why} }
