// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"iter"
	"time"
)

var (
	hcaFacts       = walkOf[HCA]()
	functionFacts  = walkOf[PCIFunction]()
	configFacts    = walkOf[PCIConfig]()
	netDevFacts    = walkOf[NetDev]()
	qosFacts       = walkOf[QoS]()
	driverFacts    = walkOf[GPUDriver]()
	gpuFacts       = walkOf[GPU]()
	gpuDirectFacts = walkOf[GPUDirect]()
)

// Unknowns iterates over the facts of the device and its ports that are read and unknown: field and reason.
func (h *HCA) Unknowns() iter.Seq2[string, Reason] { return hcaFacts.unknowns(h) }

// Unknowns iterates over the facts of the function that are read and unknown: field and reason.
func (f *PCIFunction) Unknowns() iter.Seq2[string, Reason] { return functionFacts.unknowns(f) }

// Unknowns iterates over the facts of the driver and of pairs of its GPUs that are read and unknown: field and reason.
// GPU.Unknowns has those of each GPU.
func (d *GPUDriver) Unknowns() iter.Seq2[string, Reason] { return driverFacts.unknowns(d) }

// Unknowns iterates over the facts of the GPU, its processes and its NVLinks that are read and unknown: field
// and reason.
func (g *GPU) Unknowns() iter.Seq2[string, Reason] { return gpuFacts.unknowns(g) }

// Unknowns iterates over the facts of GPUDirect RDMA that are read and unknown: field and reason.
func (d *GPUDirect) Unknowns() iter.Seq2[string, Reason] { return gpuDirectFacts.unknowns(d) }

// WithoutFacts returns the device with the same name and ports, and no facts, for the given reason.
func (h *HCA) WithoutFacts(r Reason, at time.Time) HCA {
	return hcaFacts.without(*h, Meta{Reason: r, At: at})
}

// Elsewhere returns the device as it is known while it is in another network namespace: what cannot change
// while a driver has it, and no other facts.
func (h *HCA) Elsewhere(at time.Time) HCA {
	u := *h
	u.Moved = true
	hcaFacts.hide(&u, Meta{Reason: ReasonMoved, At: at}, func(tag string) bool { return tag != tagIdentity })
	return u
}

// WithoutFacts returns the function at the same place without facts, for the given reason.
func (f *PCIFunction) WithoutFacts(r Reason, at time.Time) PCIFunction {
	return functionFacts.without(*f, Meta{Reason: r, At: at})
}

// UnknownPCIConfig returns configuration space without facts, for the given reason.
func UnknownPCIConfig(r Reason, source string, at time.Time) PCIConfig {
	return configFacts.without(PCIConfig{}, Meta{Reason: r, Source: source, At: at})
}

// UnknownNetDev returns an interface without facts, for the given reason.
func UnknownNetDev(name string, r Reason, at time.Time) NetDev {
	return netDevFacts.without(NetDev{Name: name}, Meta{Reason: r, At: at})
}

// ForgetAnswers makes unknown, for the given reason, what the driver of the interface is asked for: all but
// what comes from files, and the counters.
func (q *QoS) ForgetAnswers(r Reason, at time.Time) {
	qosFacts.hide(q, Meta{Reason: r, At: at}, func(tag string) bool { return tag == tagAnswer })
}

// WithoutFacts returns the driver with GPUs at the same places, and no facts, for the given reason.
func (d *GPUDriver) WithoutFacts(r Reason, at time.Time) GPUDriver {
	return driverFacts.without(*d, Meta{Reason: r, At: at})
}

// WithoutFacts returns the GPU at the same place without facts, for the given reason.
func (g *GPU) WithoutFacts(r Reason, at time.Time) GPU {
	return gpuFacts.without(*g, Meta{Reason: r, At: at})
}

// UnknownGPUDirect returns GPUDirect RDMA without facts, for the given reason.
func UnknownGPUDirect(r Reason, at time.Time) GPUDirect {
	return gpuDirectFacts.without(GPUDirect{}, Meta{Reason: r, At: at})
}
