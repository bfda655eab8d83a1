// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RankReading is what one look at the processes of a node found.
type RankReading struct {
	Candidates []RankCandidate
	Processes  int // that procfs shows
	// Hidden is why there may be candidates that are not in the list: ReasonPrivilege where procfs or its PID namespace
	// hides processes or their descriptors, ReasonNotRead
	// where there were more new processes than one look examines. Empty: all are in it.
	Hidden Reason
	// Exceeded are owners of which not everything is in it; bounded.
	Exceeded []Excess
}

// Kinds of owners.
const (
	OwnerPod       = "pod"
	OwnerContainer = "container"
	OwnerJob       = "job"  // of a scheduler of the node
	OwnerUser      = "user" // as this process's user namespace shows it; those that it cannot show are one
)

// Owner is whose a process is, as far as the process cannot choose it: the outermost pod, container or
// scheduler's job of its control group, else its user. Bounds are counted by owner, and what a process says
// of itself joins it to no job of another one.
type Owner struct {
	Kind string // Owner*; empty: not known
	ID   string // UID of a pod, ID or name of a container, number of a job or of a user
}

// String names the owner, "user 1000".
func (o Owner) String() string {
	if o.Kind == "" {
		return "unknown owner"
	}
	return o.Kind + " " + o.ID
}

// Isolated reports whether it is a pod or a container: numbers of users do not tell those apart.
func (o Owner) Isolated() bool { return o.Kind == OwnerPod || o.Kind == OwnerContainer }

// Excess is an owner who has more than is read of one, or whose files hang: facts of his are missing, and
// nobody else's.
type Excess struct {
	Owner  Owner
	PID    int    // one of his processes, or 0
	What   string // what there is too much of, a fixed word
	Reason Reason
}

// PartialError is the error beside a list: it is good for all but those who exceed.
type PartialError struct{ By []Excess }

// Error names them.
func (e *PartialError) Error() string {
	var b strings.Builder
	b.WriteString("not everything could be read:")
	for i, x := range e.By {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(" " + x.What)
		if x.Owner.Kind != "" {
			b.WriteString(" of " + x.Owner.String())
		}
		if x.PID > 0 {
			fmt.Fprintf(&b, " (PID %d)", x.PID)
		}
	}
	return b.String()
}

// Unwrap returns the reason of the first of them.
func (e *PartialError) Unwrap() error {
	if len(e.By) == 0 {
		return nil
	}
	return Because(e.By[0].Reason, "beyond the bound of one owner")
}

// Tenant is the owner whose jobs a process can belong to: its pod or container, else its user, because a
// scheduler's job is that of one user and root may be in it, too. No kind: not known.
func (c *RankCandidate) Tenant() Owner {
	switch {
	case c.Owner.Isolated() || c.Owner.Kind == OwnerUser:
		return c.Owner
	case c.UserKnown:
		return Owner{Kind: OwnerUser, ID: strconv.FormatUint(uint64(c.Answers), 10)}
	case c.Limits.State == OK:
		return Owner{Kind: OwnerUser, ID: strconv.FormatUint(uint64(c.User), 10)}
	}
	return Owner{}
}

// RankCandidate is one reading of a process that holds a GPU: the evidence from which the verdict on a job
// follows: whether it is an NCCL rank and how its data travels. Everything in it belongs to a tenant, who may
// lie; lists are bounded by the readers.
type RankCandidate struct {
	PID    int
	Start  uint64 // clock ticks since boot, field 22 of /proc/PID/stat: with PID it names one process for ever
	Parent int
	User   uint32 // real user ID, known if UserKnown or Limits are
	// UserKnown: User is known, also of one that is Left or of which nothing else was read yet.
	UserKnown bool
	// Answers is the user who answers for User, if that is known: another one only for subordinate numbers
	// (subuid(5)), which one user has by the thousand.
	Answers uint32
	Owner   Owner
	// Command is the first 15 bytes of the name of the program (comm).
	Command string
	At      time.Time
	// Left: it lives, and a bound left it out of this look. Only PID, Start, User, Owner, NetNS and At are known.
	Left bool
	// Children is how many processes were forked from it and run the same program: data loaders, who inherit its GPUs and
	// sockets. They are no candidates of their own.
	Children int

	// GPUs are the UUIDs of the GPUs that NVML lists this PID for; absent: NVML lists none for it.
	GPUs Fact[[]string]
	// Instances are the UUIDs of the MIG devices that NVML lists this PID for; none where MIG is off or they are
	// not known.
	Instances []string
	// Workload is what the scheduler calls it, from its control groups and the allow-listed names of its environment.
	Workload Fact[Workload]
	Files    Fact[OpenFiles]   // /proc/PID/fd
	Maps     Fact[MappedFiles] // /proc/PID/maps, read once for each process and again while no library was found
	Sockets  Fact[[]Socket]    // TCP sockets whose inode Files has, from sock_diag of the network namespace
	// SocketsByCgroup: Files are not known, or the network namespace has more sockets than can be listed.
	// Sockets are those of the network namespace of the exporter that were made in the control group of the
	// process (INET_DIAG_CGROUP_ID, Linux 5.8). Other processes may be in it, and sockets may be missing.
	SocketsByCgroup bool
	// NETLINK_RDMA resources by PID; unknown where Files do not confirm that there are none
	Verbs   Fact[VerbsUse]
	NetDevs Fact[[]InterfaceUse] // /proc/PID/net/dev: interfaces of its network namespace
	// NCCL variables of the environment it was started with, allow-listed names only; a value that is neither a
	// number nor a word of NCCL's is "set", with Masked
	Settings Fact[[]NCCLVariable]
	Conf     Fact[[]NCCLVariable] // those of /etc/nccl.conf in its root, likewise; none where there is no file
	Log      Fact[NCCLLog]        // what NCCL wrote into the file of NCCL_DEBUG_FILE; none without that variable
	// first port of net.ipv4.ip_local_port_range in its network namespace; 0: not known
	EphemeralFrom uint16
	Limits        Fact[ProcessLimits]  // /proc/PID/limits and status
	Devices       Fact[ProcessDevices] // what its mount namespace offers
	NetNS         Fact[uint64]         // inode of its network namespace
}

// Workload names the job that a process belongs to. Empty fields are not known. No field is trusted as text: readers
// accept only the characters that the scheduler itself accepts, and bound the length.
type Workload struct {
	Scheduler   string // "slurm", "kubernetes", "container", "none"
	Job         string // Slurm job id; Kubernetes namespace/pod; container id (12 digits); else the executable's name
	Container   string // container of the pod
	Pod         string // UID of the pod, from its control group
	ContainerID string // 64 hexadecimal digits, from its control group
	Stated      bool   // Job is of the environment or of a control group that its user may make
	Rank, Ranks int    // rank and number of ranks that its environment states, -1 and 0 where it does not
}

// OpenFiles are the open descriptors of a process by kind.
type OpenFiles struct {
	All      int      // descriptors that were read
	GPUs     []int    // minor numbers of /dev/nvidiaN
	CUDA     bool     // /dev/nvidia-uvm, which CUDA opens and programs that only watch GPUs do not
	Uverbs   []string // names of /dev/infiniband/uverbsN
	Events   int      // anon_inode:[infinibandevent]
	Sockets  []uint64 // inodes of sockets
	Complete bool     // all descriptors were read: below the bound, none refused
}

// MappedFiles are the libraries and segments that a process has mapped.
type MappedFiles struct {
	NCCL    string // path of libnccl as the process names it; only for JSON
	Version string // of NCCL, "2.27.3", from the name of the mapped file; empty: the name does not show it
	Torch   bool   // libtorch_cuda, which may have NCCL in it
	Verbs   bool   // libibverbs
	// Plugins are libnccl-net*.so and the like, by the last four parts of the path
	// ("ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so"): most plugins have the same base name.
	Plugins  []string
	Segments int // /dev/shm/nccl-* segments
	// Hints say what libraries are beside it, by their names and folders: "efa", "fabric", "fastrak", "gib",
	// "hpcx", "mpi", "nvshmem", "tcpx", "ucx"; sorted.
	Hints []string
}

// Socket is a TCP socket with what tcp_info counts.
type Socket struct {
	Inode         uint64
	Cgroup        uint64 // INET_DIAG_CGROUP_ID, 0: not reported
	Listening     bool
	Local, Remote netip.AddrPort
	Sent          uint64 // tcpi_bytes_acked
	Received      uint64 // tcpi_bytes_received
	Counted       bool   // Sent and Received were reported: not of a listener, nor by Linux before 4.2
}

// NCCLLog is which networks NCCL says that it made connections over ("via NET/IB/0"). A user can write any log.
type NCCLLog struct {
	Verbs   bool // queue pairs
	Sockets bool // NCCL's own sockets
	Other   bool // EFA, or what is not known to use verbs
}

// VerbsUse is what the RDMA core keeps for a process, over all devices (RDMA_NLDEV_CMD_RES_CTX_GET, RES_PD_GET,
// RES_MR_GET, RES_CQ_GET: no firmware command). The kernel reports the thread that made each object, but not
// after that thread has ended, so the numbers may be too low.
type VerbsUse struct {
	Devices  []string // that it has contexts on
	Contexts int
	PDs      int    // -1: there are too many to be listed
	Regions  int    // memory regions, likewise
	Bytes    uint64 // of all of its memory regions
	// QueuePairs is half of the use counts of its completion queues: each queue pair counts for its send and its
	// receive completion queue. NVSHMEM, MPI and UCX have some, too.
	QueuePairs int
}

// InterfaceUse is a network interface with the bytes that went through it.
type InterfaceUse struct {
	Name           string
	Received, Sent uint64
}

// ProcessLimits are limits that RDMA depends on.
type ProcessLimits struct {
	Memlock uint64 // soft RLIMIT_MEMLOCK in bytes, math.MaxUint64: unlimited
	CPUs    string // Cpus_allowed_list
	// Distances are the least distances to each NUMA node, by number, from a CPU of CPUs, as the firmware says
	// (ACPI SLIT: 10 is local, from 20 on it is another socket); 0: there is no such node. Nil: not known.
	Distances []int
}

// ProcessDevices is what the mount namespace of a process offers.
type ProcessDevices struct {
	Uverbs int // device nodes below /dev/infiniband; 0: it cannot open verbs
	GPUs   int // device nodes /dev/nvidiaN
}

// Variables are the NCCL variables that the process has, as far as they are known: those of its environment,
// and those of nccl.conf that the environment does not set.
func (c *RankCandidate) Variables() []NCCLVariable {
	list := slices.Clone(c.Settings.Or(nil))
	for _, v := range c.Conf.Or(nil) {
		if !slices.ContainsFunc(list, func(o NCCLVariable) bool { return o.Name == v.Name }) {
			list = append(list, v)
		}
	}
	return list
}
