// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"regexp"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// The tables of what is an enumeration. The order is that of the wire.
var (
	computeModes = []fabric.ComputeMode{
		fabric.ComputeDefault, fabric.ComputeExclusiveThread, fabric.ComputeProhibited, fabric.ComputeExclusiveProcess,
	}
	processKinds = []fabric.GPUProcessKind{fabric.GPUCompute, fabric.GPUGraphics, fabric.GPUMPS}
	linkEnds     = []fabric.NVLinkEnd{fabric.NVLinkToGPU, fabric.NVLinkToCPU, fabric.NVLinkToSwitch}
	linkErrors   = fabric.NVLinkErrorKinds()
	fabricStates = fabric.GPUFabricStates()
	p2pStatuses  = []fabric.P2PStatus{
		fabric.P2POK, fabric.P2PChipsetNotSupported, fabric.P2PGPUNotSupported, fabric.P2PIOHNotSupported,
		fabric.P2PDisabledByRegkey, fabric.P2PNotSupported,
	}
	distances = fabric.Distances()
)

// The forms of what identifies something. UUIDs of MIG devices are those of driver 470 and later.
var (
	instances = regexp.MustCompile(`^MIG-[0-9A-Fa-f-]{8,48}$`)
	uuids     = regexp.MustCompile(`^GPU-[0-9A-Fa-f-]{8,48}$`)
	addresses = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	clusters  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

func (w *wire) driver(d *fabric.GPUDriver) {
	if w.tier == all {
		fact(w, &d.Version, "nvmlSystemGetDriverVersion", name)
		fact(w, &d.CUDA, "nvmlSystemGetCudaDriverVersion", name)
	}
	n := w.count(len(d.GPUs), maxGPUs)
	if w.decode && w.err == nil {
		switch {
		case w.tier == all:
			d.GPUs = make([]fabric.GPU, n)
		case n == len(d.GPUs):
			d.GPUs = slices.Clone(d.GPUs) // the last reading belongs to others
		default:
			w.fail("%d GPUs, expected the %d of the last reading", n, len(d.GPUs))
		}
	}
	for i := range d.GPUs {
		if w.err != nil {
			return
		}
		w.gpu(&d.GPUs[i], i)
	}
	if w.tier != all {
		return
	}
	list(w, &d.P2P, len(d.GPUs)*(len(d.GPUs)-1)/2, func(i int, p *fabric.GPUPair) {
		if !w.int(&p.A, len(d.GPUs)-1) || !w.int(&p.B, len(d.GPUs)-1) || w.decode &&
			(p.A >= p.B || i > 0 && !ascends(d.P2P[i-1], *p)) {
			w.fail("pair %d of GPUs", i)
		}
		fact(w, &p.Write, "nvmlDeviceGetP2PStatus", enumOf(p2pStatuses))
		fact(w, &p.Ancestor, "nvmlDeviceGetTopologyCommonAncestor", enumOf(distances))
	})
}

// list walks each of a list, which it makes when it decodes.
func list[T any](w *wire, v *[]T, limit int, each func(i int, v *T)) {
	n := w.count(len(*v), limit)
	if w.decode && w.err == nil {
		*v = make([]T, n)
	}
	for i := range *v {
		if w.err != nil {
			return
		}
		each(i, &(*v)[i])
	}
}

// running are the processes of all GPUs, with the identity of each GPU.
func (w *wire) running(d *fabric.GPUDriver) {
	list(w, &d.GPUs, maxGPUs, func(i int, g *fabric.GPU) {
		if w.decode {
			g.Index = i
		}
		w.identity(&g.UUID, uuids)
		fact(w, &g.Lost, "NVML_ERROR_GPU_IS_LOST", (*wire).bool)
		fact(w, &g.Processes, "nvmlDeviceGet*RunningProcesses", processes)
	})
}

func ascends(a, b fabric.GPUPair) bool { return a.A < b.A || a.A == b.A && a.B < b.B }

// enumOf returns the value of an enumeration for fact.
func enumOf[T comparable](table []T) func(*wire, *T) bool {
	return func(w *wire, v *T) bool { return enum(w, v, table) }
}

func (w *wire) gpu(g *fabric.GPU, index int) {
	if w.tier == all {
		g.Index = index
		w.identity(&g.UUID, uuids)
		w.identity(&g.Address, addresses)
		fact(w, &g.Name, "nvmlDeviceGetName", name)
		fact(w, &g.NUMANode, "nvmlDeviceGetNumaNodeId", small)
		fact(w, &g.ComputeCap, "nvmlDeviceGetCudaComputeCapability", small)
		fact(w, &g.PCIeMaxGen, "nvmlDeviceGetMaxPcieLinkGeneration", generation)
		fact(w, &g.PCIeMaxWidth, "nvmlDeviceGetMaxPcieLinkWidth", lanes)
	}
	if w.tier >= slow {
		fact(w, &g.ComputeMode, "nvmlDeviceGetComputeMode", enumOf(computeModes))
		fact(w, &g.MIG, "nvmlDeviceGetMigMode", (*wire).bool)
		fact(w, &g.Persistence, "nvmlDeviceGetPersistenceMode", (*wire).bool)
		fact(w, &g.PCIeReplays, "nvmlDeviceGetPcieReplayCounter", (*wire).uint)
		fact(w, &g.Fabric, "nvmlDeviceGetGpuFabricInfo", fabricInfo)
	}
	fact(w, &g.Lost, "NVML_ERROR_GPU_IS_LOST", (*wire).bool)
	fact(w, &g.Utilization, "nvmlDeviceGetUtilizationRates", percent)
	fact(w, &g.Memory, "nvmlDeviceGetMemoryInfo", memory)
	fact(w, &g.BAR1, "nvmlDeviceGetBAR1MemoryInfo", memory)
	fact(w, &g.ClockReasons, "nvmlDeviceGetCurrentClocksEventReasons", clockReasons)
	fact(w, &g.PCIeGeneration, "nvmlDeviceGetCurrPcieLinkGeneration", generation)
	fact(w, &g.PCIeWidth, "nvmlDeviceGetCurrPcieLinkWidth", lanes)
	fact(w, &g.Processes, "nvmlDeviceGet*RunningProcesses", processes)
	last := g.NVLinks.Value
	fact(w, &g.NVLinks, "nvmlDeviceGetFieldValues", func(w *wire, v *[]fabric.NVLink) bool { return w.links(v, last) })
}

// identity is a text that is either of that form or empty.
func (w *wire) identity(v *string, form *regexp.Regexp) {
	if !w.text(v, maxText) || w.decode && !form.MatchString(*v) {
		*v = ""
	}
}

func name(w *wire, v *string) bool { return w.text(v, maxText) }

func small(w *wire, v *int) bool { return w.int(v, 1<<16) }

// generation is that of a PCIe link. There is no generation 0; 9 leaves room.
func generation(w *wire, v *int) bool { return w.int(v, 9) && *v > 0 }

func lanes(w *wire, v *int) bool { return w.int(v, 32) && *v > 0 }

// percent goes over the wire in hundredths, as NVML counts.
func percent(w *wire, v *float64) bool {
	n := int(*v*100 + 0.5)
	ok := w.int(&n, 100)
	*v = float64(n) / 100
	return ok
}

func memory(w *wire, v *fabric.GPUMemory) bool {
	return w.uint(&v.Total) && w.uint(&v.Used) && v.Used <= v.Total
}

func clockReasons(w *wire, v *fabric.ClockReasons) bool { return w.uint((*uint64)(v)) }

func processes(w *wire, v *[]fabric.GPUProcess) bool {
	ok := true
	list(w, v, 3*maxProcesses, func(_ int, p *fabric.GPUProcess) {
		pid := w.int(&p.PID, 1<<22) // PID_MAX_LIMIT of the kernel
		kind := enum(w, &p.Kind, processKinds)
		fact(w, &p.Memory, "nvmlDeviceGet*RunningProcesses", (*wire).uint)
		w.identity(&p.Instance, instances)
		ok = ok && pid && kind
	})
	return ok && w.err == nil
}

func fabricInfo(w *wire, v *fabric.GPUFabric) bool {
	ok := enum(w, &v.State, fabricStates)
	clique := w.int(&v.Clique, 1<<32-1)
	status := w.text(&v.Status, maxText)
	cluster := w.text(&v.Cluster, maxText)
	list(w, &v.Unhealthy, len(healthNames), func(_ int, name *string) { ok = enum(w, name, healthNames) && ok })
	if w.decode && len(v.Unhealthy) == 0 {
		v.Unhealthy = nil
	}
	if w.decode && v.State != fabric.GPUFabricCompleted {
		v.Status, status = "", true
	}
	return ok && clique && status && cluster && (!w.decode || clusters.MatchString(v.Cluster)) && w.err == nil
}

// links are the NVLinks of a GPU. Those of the last reading have what this one does not bring; there are as many.
func (w *wire) links(v *[]fabric.NVLink, last []fabric.NVLink) bool {
	n := w.count(len(*v), maxLinks)
	if w.decode {
		switch {
		case w.tier == all:
			*v = make([]fabric.NVLink, n)
		case n == len(last):
			*v = slices.Clone(last)
		default:
			w.fail("%d NVLinks, expected the %d of the last reading", n, len(last))
		}
	}
	ok := true
	for i := range *v {
		if w.err != nil {
			return false
		}
		l := &(*v)[i]
		if w.tier == all {
			ok = w.int(&l.Number, maxLinks-1) && (!w.decode || i == 0 || (*v)[i-1].Number < l.Number) && ok
			fact(w, &l.Remote, "nvmlDeviceGetNvLinkRemotePciInfo", address)
			fact(w, &l.RemoteKind, "nvmlDeviceGetNvLinkRemoteDeviceType", enumOf(linkEnds))
		}
		fact(w, &l.Active, "NVML_FI_DEV_NVLINK_GET_STATE", (*wire).bool)
		if w.tier >= slow {
			fact(w, &l.Speed, "NVML_FI_DEV_NVLINK_GET_SPEED", megabytes)
			w.linkErrors(l)
		}
	}
	return ok && w.err == nil
}

func (w *wire) linkErrors(l *fabric.NVLink) {
	list(w, &l.Errors, len(linkErrors), func(i int, e *fabric.NVLinkErrors) {
		if !enum(w, &e.Kind, linkErrors) || w.decode && slices.ContainsFunc(l.Errors[:i],
			func(o fabric.NVLinkErrors) bool { return o.Kind == e.Kind }) {
			w.fail("kind of NVLink errors")
			return
		}
		fact(w, &e.Count, "nvmlDeviceGetFieldValues", (*wire).uint)
	})
}

func address(w *wire, v *string) bool {
	w.identity(v, addresses)
	return *v != "" || !w.decode
}

// megabytes is a speed in bytes per second. NVML counts in millions of bytes. No link has a terabyte per second.
func megabytes(w *wire, v *float64) bool {
	n := int(*v / 1e6)
	ok := w.int(&n, 1e6)
	*v = float64(n) * 1e6
	return ok && n > 0
}
