// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

const pcieDevice = "pci_address is that of the function; device is the RDMA device of a compute NIC, and empty for a GPU. "

// The rows of the collector pcie. Only GPUs and compute NICs have series: a node has a dozen of other functions.
var (
	pcieLinkSpeed = &Family{
		Name: "pcie_link_transfers_per_second", Type: Gauge, Unit: "transfers_per_second", Labels: []string{"device"},
		Help:   "Speed of each lane of the PCIe link of a compute NIC: 32e9 is generation 5. Absent for GPUs, whose links slow down while they are idle.",
		Source: "/sys/bus/pci/devices/<address>/current_link_speed", Cadence: Slow, Stability: Stable,
	}
	pcieLinkMaxSpeed = &Family{
		Name: "pcie_link_max_transfers_per_second", Type: Gauge, Unit: "transfers_per_second", Labels: []string{"device"},
		Help:   "The highest lane speed that the compute NIC supports; absent unless its link is slower. The slot may support less.",
		Source: "/sys/bus/pci/devices/<address>/max_link_speed", Cadence: Rare, Stability: Stable,
	}
	pcieLinkWidth = &Family{
		Name: "pcie_link_width", Type: Gauge, Labels: []string{"device", "pci_address"},
		Help:   "Lanes of the PCIe link. " + pcieDevice + "Absent for virtual functions, which have no link of their own.",
		Source: "/sys/bus/pci/devices/<address>/current_link_width", Cadence: Slow, Stability: Stable,
	}
	pcieLinkMaxWidth = &Family{
		Name: "pcie_link_max_width", Type: Gauge, Labels: []string{"device"},
		Help:   "The most lanes that the compute NIC supports; absent unless its link has fewer. The slot may have fewer.",
		Source: "/sys/bus/pci/devices/<address>/max_link_width", Cadence: Rare, Stability: Stable,
	}
	pcieLinkDegraded = &Family{
		Name: "pcie_link_degraded", Type: Gauge, Labels: []string{"device", "pci_address"},
		Help: "1 if a PCIe link between the device and the root complex is narrower or slower than both of its ends support. " + pcieDevice +
			"The speed of a GPU counts only while the GPU is busy (utilization of 0.5 or more), as its driver reports it (collector gpu): idle GPUs slow their links down. Absent if no port is visible above the device, as in many virtual machines.",
		Source:  "/sys/bus/pci/devices/<address>/{current,max}_link_{speed,width} of the device and all bridges above; nvmlDeviceGetCurrPcieLinkGeneration",
		Cadence: Slow, Stability: Stable,
	}
	pcieErrors = &Family{
		Name: "pcie_aer_errors_total", Type: Counter, Labels: []string{"device", "severity"},
		Help: "Errors that Advanced Error Reporting counted at the compute NIC and at all bridges above it, which often report the errors of its link. " +
			"severity: correctable, nonfatal, fatal. The errors of a bridge above several NICs count for each NIC.",
		Source: "/sys/bus/pci/devices/<address>/aer_dev_{correctable,nonfatal,fatal}", Cadence: Slow, Stability: Stable,
	}
	pcieMaxReadRequest = &Family{
		Name: "pcie_max_read_request_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"device"},
		Help:   "Maximum size of a read request of the compute NIC (MaxReadReq); 512 limits the bandwidth of a fast NIC.",
		Source: "/sys/bus/pci/devices/<address>/config", Cadence: Rare, Privilege: "root (CAP_SYS_ADMIN)", Stability: Stable,
	}
	pcieMaxPayload = &Family{
		Name: "pcie_max_payload_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"device"},
		Help:   "Maximum payload of a PCIe packet of the compute NIC (MaxPayload).",
		Source: "/sys/bus/pci/devices/<address>/config", Cadence: Rare, Privilege: "root (CAP_SYS_ADMIN)", Stability: Stable,
	}
	pcieRelaxedOrdering = &Family{
		Name: "pcie_relaxed_ordering", Type: Gauge, Labels: []string{"device"},
		Help:   "1 if the compute NIC may reorder writes (RlxdOrd+).",
		Source: "/sys/bus/pci/devices/<address>/config", Cadence: Rare, Privilege: "root (CAP_SYS_ADMIN)", Stability: Stable,
	}
	pcieACSRedirect = &Family{
		Name: "pcie_acs_redirect", Type: Gauge, Labels: []string{"pci_address", "device"},
		Help: "1 if a bridge between the GPU and its nearest compute NIC redirects their traffic to the root complex (Access Control Services), " +
			"which slows GPUDirect RDMA down or breaks it. Virtual machines need this redirection. pci_address is that of the GPU.",
		Source: "/sys/bus/pci/devices/<address>/config of the bridges", Cadence: Rare, Privilege: "root (CAP_SYS_ADMIN)",
		Stability: Stable,
	}
	gpuNICDistance = &Family{
		Name: "gpu_nic_distance", Type: Gauge, Labels: []string{"pci_address", "device", "rail", "class"},
		Help: "Distance between the GPU and its nearest compute NIC, in NCCL's classes: 1 PIX (one switch), 2 PXB (several switches) and P2C (NVLink-C2C), 3 PHB (host bridge), " +
			"4 NODE (host bridges of a NUMA node), 5 SYS (between NUMA nodes). If several NICs are equally near, they are assigned to the GPUs in turn. rail is the number of " +
			"the NIC among the compute NICs. pci_address is that of the GPU. Absent if a virtual machine does not show the distance.",
		Source: "/sys/bus/pci/devices", Cadence: Rare, Stability: Experimental,
	}
)

// pcieFamilies are the rows of the collector pcie, in the order of documentation.
func pcieFamilies() []*Family {
	return []*Family{
		pcieLinkSpeed, pcieLinkMaxSpeed, pcieLinkWidth, pcieLinkMaxWidth, pcieLinkDegraded, pcieErrors, pcieMaxReadRequest,
		pcieMaxPayload,
		pcieRelaxedOrdering, pcieACSRedirect, gpuNICDistance,
	}
}

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
	if !slices.ContainsFunc(n.PCI.Functions, func(f fabric.PCIFunction) bool { return !f.Idle() }) {
		return false, "no GPU and no RDMA NIC is on the PCI bus"
	}
	return true, ""
}
