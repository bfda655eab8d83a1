// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Node is one observation of a node. It is immutable once published.
type Node struct {
	At      time.Time // when the observation was put together
	Host    Host
	HCAs    []HCA // sorted by name; excluded devices are not among them
	NetDevs []NetDev
	// Interfaces are all network interfaces of the node, by name: what NCCL_SOCKET_IFNAME chooses from.
	Interfaces Fact[[]Interface]
	GPUs       Fact[int] // NVIDIA display and 3D controllers on the PCI bus, bound to a driver or not
	PCI        PCI
	// GPUDriver is what NVML says, GPUDirect what the kernel shows of GPUDirect RDMA, GDR what follows for each GPU, in
	// the order of PCI.Rails.
	GPUDriver GPUDriver
	GPUDirect GPUDirect
	GDR       []GDR `fact:"derived"`
	NCCL      NCCLConfig
	// Inside is what a job finds here, where that is wanted: nil otherwise.
	Inside *Inside
	// Ranks are the processes that hold a GPU, the evidence for verdicts on jobs. At is when the reading began: with the
	// same time it is the same reading.
	Ranks Fact[[]RankCandidate]
	// Inspector is what NCCL of the jobs reports about their collectives; only read with WantRanks, and where
	// the site names a folder.
	Inspector Fact[InspectorReading]
	// Logs and Kernel are what lines of jobs and of the kernel show; only read with WantLogs, and where the site
	// names their files.
	Logs   Fact[LogReading]
	Kernel Fact[KernelReading]
	Policy *Policy // what the site expects; never nil
	// Profile is what a platform like this one has; nil: none is known. Recognition says why.
	Profile     *Profile
	Recognition Recognition
	Sources     []Source
	// Commands is what drivers were asked so far, for all devices together.
	Commands Commands
	// Uncached is how often a file of sysfs was opened for one read, because no descriptor was left to keep it open with.
	Uncached uint64

	// Remembered is the hardware that the node had before and lacks now, and RememberedIn the file that records
	// it, there or not. Package inventory sets them. Unrecorded says for people what the record lacks; empty:
	// nothing.
	Remembered   []Remembered
	RememberedIn string
	Unrecorded   string
	// DevicesCompared says that the RDMA devices were compared with a record that outlives this process, and
	// that replaces none: what Remembered does not name is there, or was accepted as gone.
	DevicesCompared bool
	// DevicesUnread says that the node had RDMA devices with which those that it has could not be compared.
	DevicesUnread bool
	// NeverMet are expectations of Policy that the record does not show this node to have met, ever: they may be
	// those of another kind of node.
	NeverMet []Expectation

	// ClassPresent says whether the kernel has an RDMA class at all (/sys/class/infiniband).
	ClassPresent Fact[bool]
	// Excluded names the devices that the configuration excludes from being read.
	Excluded []string
}

// Remembered says that a node has fewer GPUs or RDMA devices than it had.
type Remembered struct {
	Kind      PCIKind // PCIGPU or PCINIC
	Now, Then int     // how many there are, and were
	Seen      time.Time
	Missing   []Place // those that were there then
	New       int     // how many of Now are other ones, whose number does not hide what is gone
	// Bonded says that a device counts for each PCI function whose interface is in its bond.
	Bonded bool
	// Doubtful says that what is missing may only be in the bond of another device of its card or, where there
	// are new ones, was exchanged.
	Doubtful bool
}

// Place is where a GPU or an RDMA device is or was: its PCI address, of an RDMA device with a blank and its name.
type Place string

// Address is the PCI address.
func (p Place) Address() string {
	address, _, _ := strings.Cut(string(p), " ")
	return address
}

// Device is the name of the RDMA device; empty: it is a GPU, or the name is not known.
func (p Place) Device() string {
	_, name, _ := strings.Cut(string(p), " ")
	return name
}

// Want selects what an observation reads beside the node itself.
type Want uint16

// What can be wanted. Devices are read for all of them.
const (
	WantHCA      Want = 1 << iota // devices, their ports and network interfaces
	WantGID                       // GID tables
	WantNCCL                      // NCCL configuration of the host
	WantCounters                  // counters of ports and devices
	WantCM                        // connection manager messages
	WantQoS                       // how network interfaces treat the classes of their traffic
	WantNetStats                  // statistics of network interfaces
	WantDCQCN                     // parameters of congestion control
	// links, errors and settings of GPUs, NICs and bridges; where they are comes with WantHCA
	WantPCI
	WantGPU     // what NVML reports of GPUs, and the kernel of GPUDirect RDMA; and all of WantPCI
	WantInside  // what a job finds in the place where this process runs
	WantDaemons // daemons that start jobs, and what these may lock
	WantRanks   // processes that hold GPUs, for verdicts on jobs; and WantGPU
	WantLogs    // logs of jobs and messages of the kernel
	// settings of PCI functions as they were within the last minute, not the last hour; and WantPCI
	WantFreshPCI
	WantTrafficClass // what is set for the queue pairs of ports over what jobs ask for; comes with WantQoS
)

// Host is the node itself.
type Host struct {
	BootTime Fact[time.Time] // /proc/stat btime
	Kernel   Fact[string]    // /proc/sys/kernel/osrelease
	DMI      DMI
	// RDMANetNS is NetNSShared or NetNSExclusive: whether every network namespace sees every RDMA device, or
	// each only its own (RDMA_NLDEV_SYS_ATTR_NETNS_MODE).
	RDMANetNS Fact[NetNSMode]
	// Hypervisor says that this is a virtual machine (flags of /proc/cpuinfo); unknown where processors do not report it.
	Hypervisor Fact[bool]
	// NetNS is the inode of the network namespace of the node; only read with WantRanks.
	NetNS Fact[uint64]
	// Daemons are those that start jobs and containers, by name and PID. It is empty where the node shows none.
	Daemons Fact[[]Daemon]
}

// Daemon is a process of root that starts jobs or containers, which get its limits unless they are configured
// otherwise.
type Daemon struct {
	Name    string // /proc/<pid>/comm
	PID     int
	Memlock Fact[Memlock] // /proc/<pid>/limits
}

// Memlock is how much memory a process may lock, RLIMIT_MEMLOCK, in bytes. NoLimit stands for unlimited.
type Memlock struct{ Soft, Hard uint64 }

// EnoughMemlock is what a process of a job needs to lock at least, in bytes: queues and the buffers that NCCL
// registers are some hundred MiB.
const EnoughMemlock = 1 << 30

// NoLimit is RLIM_INFINITY.
const NoLimit = math.MaxUint64

// Interface is a network interface, as far as those are concerned that no RDMA port has to do with.
type Interface struct {
	Name      string
	OperState Fact[string] // RFC 2863 words; down where it is switched off
}

// WithoutCarrier reports whether an interface is known to have no link. Drivers that do not report carrier
// leave it unknown.
func (i Interface) WithoutCarrier() bool {
	s, known := i.OperState.Get()
	return known && s != "up" && s != "unknown"
}

// NetNSMode is how RDMA devices and network namespaces belong together.
type NetNSMode string

// Modes of network namespaces ("rdma system").
const (
	NetNSShared    NetNSMode = "shared"
	NetNSExclusive NetNSMode = "exclusive"
)

// NetNSModes returns both.
func NetNSModes() []NetNSMode { return []NetNSMode{NetNSShared, NetNSExclusive} }

// Source is the result of one read of one interface.
type Source struct {
	Name     string // Source*
	Device   string // RDMA device or, see OfNetDev, network interface; empty for a source of the whole node
	Up       bool
	Reason   Reason        // why it is not up
	Err      error         // for humans; nil when up
	Duration time.Duration // of the last read that ended
	Since    time.Time     // when a read that has not returned yet began; zero otherwise
}

// SourceUp reports whether a source answered, or is not listed.
func (n *Node) SourceUp(name string) bool {
	return !slices.ContainsFunc(n.Sources, func(s Source) bool { return s.Name == name && !s.Up })
}

// HasRecord reports whether there is a record of what the node had before it was started.
func (n *Node) HasRecord() bool { return n.RememberedIn != "" && n.Unrecorded == "" }

// Stuck reports whether the source has a read outstanding that missed its deadline.
func (s Source) Stuck() bool { return s.Reason == ReasonStuck || s.Reason == ReasonRTNLStuck }

// OfNetDev reports whether Device is a network interface.
func (s Source) OfNetDev() bool {
	return s.Name == SourceQoS || s.Name == SourceNetStats || s.Name == SourceDCQCN
}

// HCA returns the device of that name, or nil.
func (n *Node) HCA(name string) *HCA {
	i, ok := slices.BinarySearchFunc(n.HCAs, name, func(h HCA, s string) int { return strings.Compare(h.Name, s) })
	if !ok {
		return nil
	}
	return &n.HCAs[i]
}

// NetDev returns the network interface of that name, or nil.
func (n *Node) NetDev(name string) *NetDev {
	for i := range n.NetDevs { // without copies of what is large
		if n.NetDevs[i].Name == name {
			return &n.NetDevs[i]
		}
	}
	return nil
}

// NetDev is a network interface that belongs to an RDMA port, or that one of its GIDs belongs to.
type NetDev struct {
	Name         string
	Speed        Fact[float64] // bytes per second; class/net/<if>/speed is in Mb/s
	MTU          Fact[int]     // bytes
	Upper        Fact[string]  // the bond or bridge it is enslaved to
	Bond         Fact[bool]    // it is a bond: its speed is the sum of its members
	DefaultRoute Fact[bool]    // a default route leaves through it or through its upper device
	// PreferredRoute says that a default route of the lowest metric is known to do so: the one that packets take.
	PreferredRoute Fact[bool]
	// Lower are the interfaces below it: the members of a bond, what a VLAN sits on. Empty for a physical one.
	Lower Fact[[]string]
	// PCI is the function that the interface is on; absent for one that is on none.
	PCI Fact[string]
	// Driver is the kernel driver that answers for the interface; absent for virtual ones.
	Driver Fact[string]
	QoS    QoS
}

// The names of Source.
const (
	SourceClass     = "rdma_class" // the list of RDMA devices
	SourceHCA       = "hca"        // states and attributes of one device and its ports
	SourceGID       = "gid"        // GID tables of one device
	SourceCounters  = "counters"   // counters of one device and its ports
	SourceCM        = "cm"         // connection manager counters of one device
	SourceNetDev    = "netdev"     // network interfaces and default routes; takes the kernel's rtnl lock
	SourceHost      = "host"       // boot time, kernel, GPUs on the PCI bus
	SourceNCCL      = "nccl"       // NCCL configuration files
	SourceQoS       = "qos"        // DCB, pause, FEC and ECN of one network interface; takes the rtnl lock
	SourceNetStats  = "netstats"   // ethtool statistics of one network interface; takes the rtnl lock
	SourceDCQCN     = "dcqcn"      // parameters of congestion control of one network interface
	SourcePCI       = "pci"        // GPUs, NICs and bridges on the PCI bus
	SourceGPU       = "gpu"        // NVML, in a worker process
	SourceInside    = "inside"     // device nodes, limits and libraries of this process
	SourceInspector = "inspector"  // files of NCCL Inspector
	SourceLogs      = "logs"       // logs of jobs
	SourceKernel    = "kernel"     // messages of the kernel
	SourceRanks     = "ranks"      // processes that hold GPUs: procfs, sock_diag, RDMA resources by PID
)
