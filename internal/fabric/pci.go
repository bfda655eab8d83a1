// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"sort"
)

// PCIFacts says how much is read of the PCI bus.
type PCIFacts int

// What is read of the PCI bus. Each has what the ones before it have.
const (
	PCIPlaces     PCIFacts = iota // which functions there are; all of those that are new
	PCILinks                      // what changes: links, errors, what sleeps
	PCIEverything                 // identities and configuration space
)

// PCI is what training traffic crosses of the PCI bus: GPUs, the functions of RDMA devices and all bridges above. Of
// other NICs, which may get an RDMA device, it is known what and where they are.
type PCI struct {
	Functions []PCIFunction // sorted by address
	// Rails are the GPUs, sorted by address, with the compute NICs nearest to them. Derived by Node.Derive.
	Rails []Rail `fact:"derived"`
}

// PCIKind is what a function is to the exporter.
type PCIKind string

// Kinds of functions.
const (
	PCIGPU    PCIKind = "gpu"
	PCINIC    PCIKind = "nic" // Ethernet, InfiniBand, or whatever has an RDMA device
	PCIBridge PCIKind = "bridge"
)

// PCIFunction is one function. Where it sits is no fact: without that the function is not known at all.
type PCIFunction struct {
	Address string // "0000:1a:00.0"
	Kind    PCIKind
	HCAs    []string // RDMA devices of a NIC; empty: its driver is not loaded or makes none, or none may be seen
	Root    string   // host bridge, "pci0000:15"
	Bridges []string // addresses from the root port down to the bridge directly above

	Vendor, Device, Class            Fact[int]
	SubsystemVendor, SubsystemDevice Fact[int]
	Driver                           Fact[string]
	PF                               Fact[string] // address of the physical function; absent unless this is a virtual one
	NUMANode                         Fact[int]    // unknown when the firmware does not say (-1)
	IOMMUGroup                       Fact[int]    // absent without IOMMU
	IOMMUType                        Fact[string] // "identity", "DMA", "DMA-FQ", ...
	// Asleep says that the function is suspended. Then nothing is read that would wake it, nor of what is below it.
	Asleep Fact[bool]

	Link   PCILink
	AER    PCIErrors
	Config PCIConfig
}

// PCILink is the link of a function: of an endpoint and of the upstream port of a switch the one above, of a root
// port and of a downstream port the one below. Its facts are absent where there is no link.
type PCILink struct {
	Speed, MaxSpeed Fact[float64] // transfers per second and lane
	Width, MaxWidth Fact[int]     // lanes
}

// PCIErrors counts what Advanced Error Reporting saw since the device was found.
type PCIErrors struct{ Correctable, NonFatal, Fatal Fact[uint64] }

// PCIConfig is what only configuration space has. Its facts are absent where the capability is.
type PCIConfig struct {
	MaxPayload      Fact[int] // bytes in a packet
	MaxReadRequest  Fact[int] // bytes
	RelaxedOrdering Fact[bool]
	NoSnoop         Fact[bool]
	ACS             Fact[ACS]
}

// ACS is the control register of Access Control Services.
type ACS uint16

// Bits of ACS, PCI_ACS_* of linux/pci_regs.h.
const (
	acsRequestRedirect    ACS = 0x04
	acsCompletionRedirect ACS = 0x08
	acsUpstreamForwarding ACS = 0x10
)

// Redirects reports whether the bridge sends traffic between its neighbours up to the root complex.
func (a ACS) Redirects() bool {
	return a&(acsRequestRedirect|acsCompletionRedirect|acsUpstreamForwarding) != 0
}

// Function returns the function at that address, or nil.
func (p *PCI) Function(address string) *PCIFunction {
	// without copies of what is large
	i := sort.Search(len(p.Functions), func(i int) bool { return p.Functions[i].Address >= address })
	if i == len(p.Functions) || p.Functions[i].Address != address {
		return nil
	}
	return &p.Functions[i]
}

// NIC returns the function of an RDMA device, or nil.
func (p *PCI) NIC(device string) *PCIFunction {
	for i := range p.Functions {
		if slices.Contains(p.Functions[i].HCAs, device) {
			return &p.Functions[i]
		}
	}
	return nil
}

// GPUs returns the GPUs, sorted by address, which is the order of NVML's indices.
func (p *PCI) GPUs() []*PCIFunction {
	var list []*PCIFunction
	for i := range p.Functions {
		if p.Functions[i].Kind == PCIGPU {
			list = append(list, &p.Functions[i])
		}
	}
	return list
}

// Idle reports whether it is a NIC without an RDMA device. Links, errors and settings of such are not read.
func (f *PCIFunction) Idle() bool { return f.Kind == PCINIC && len(f.HCAs) == 0 }

// NVIDIA reports whether NVML would know a GPU. One of unknown vendor is taken for one: most are.
func (f *PCIFunction) NVIDIA() bool {
	const nvidia = 0x10de
	vendor, known := f.Vendor.Get()
	return !known || vendor == nvidia
}

// PassedThrough reports whether a function is a virtual machine's.
func (f *PCIFunction) PassedThrough() bool { return f.Driver.Or("") == "vfio-pci" }

// path returns the functions from the root port down to f. One that is not known is nil.
func (p *PCI) path(f *PCIFunction) []*PCIFunction {
	var list []*PCIFunction
	for _, address := range f.Bridges {
		list = append(list, p.Function(address))
	}
	return append(list, f)
}
