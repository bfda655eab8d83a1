// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

func collectPCIe(n *fabric.Node, emit emit) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		if f := n.PCI.NIC(h.Name); f != nil && h.Serves(fabric.RoleCompute) {
			collectLink(n, f, h.Name, emit)
			collectNIC(n, f, h.Name, emit)
		}
	}
	for _, f := range n.PCI.GPUs() {
		collectLink(n, f, "", emit)
	}
	for _, r := range n.PCI.Rails {
		collectRail(n, r, emit)
	}
}

func collectLink(n *fabric.Node, f *fabric.PCIFunction, device string, emit emit) {
	number(emit, pcieLinkWidth, f.Link.Width, device, f.Address)
	list, ok := n.PCI.GPUShortfalls(f, n.GPUDriver.At(f.Address), n.At).Get() // of a NIC the driver of GPUs says nothing
	if ok {
		emit(pcieLinkDegraded, bit(len(list) > 0), device, f.Address)
	}
}

func collectNIC(n *fabric.Node, f *fabric.PCIFunction, device string, emit emit) {
	number(emit, pcieLinkSpeed, f.Link.Speed, device)
	more(emit, pcieLinkMaxSpeed, f.Link.Speed, f.Link.MaxSpeed, device)
	more(emit, pcieLinkMaxWidth, f.Link.Width, f.Link.MaxWidth, device)
	errors := n.PCI.Errors(f, n.At)
	for _, e := range []struct {
		severity string
		count    fabric.Fact[uint64]
	}{{"correctable", errors.Correctable}, {"nonfatal", errors.NonFatal}, {"fatal", errors.Fatal}} {
		if v, ok := e.count.Get(); ok {
			emit(pcieErrors, float64(v), device, e.severity)
		}
	}
	number(emit, pcieMaxReadRequest, f.Config.MaxReadRequest, device)
	number(emit, pcieMaxPayload, f.Config.MaxPayload, device)
	boolean(emit, pcieRelaxedOrdering, f.Config.RelaxedOrdering, device)
}

// more emits a maximum that is not reached, or not known to be.
func more[N int | float64](emit emit, f *Family, now, maximum fabric.Fact[N], device string) {
	if v, ok := now.Get(); !ok || v < maximum.Or(v) {
		number(emit, f, maximum, device)
	}
}

func collectRail(n *fabric.Node, r fabric.Rail, emit emit) {
	d, ok := r.Distance.Get()
	if !ok {
		return
	}
	emit(gpuNICDistance, d.Number(), r.GPU, r.NIC, strconv.Itoa(r.Number), d.String())
	if list, ok := n.PCI.ACSRedirects(n.PCI.Function(r.GPU), n.PCI.NIC(r.NIC), n.At).Get(); ok {
		emit(pcieACSRedirect, bit(len(list) > 0), r.GPU, r.NIC)
	}
}

func hasPCIe(n *fabric.Node) (bool, string) {
	if len(n.PCI.Functions) == 0 {
		return false, "no GPU and no RDMA NIC is on the PCI bus"
	}
	return true, ""
}
