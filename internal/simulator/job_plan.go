// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// jobPlan is how a job is built. The zero values are those of a job of Slurm on bare metal that uses TCP.
type jobPlan struct {
	id         string // empty: 4242
	pod        bool   // of Kubernetes, with a network namespace of its own
	gpus       []int  // indices; none: all of the node
	size       int    // ranks on all nodes; 0: twice those of the node
	devices    []string
	queuePairs int // of each rank
	plugins    []string
	settings   map[string]string // of the environment
	conf       map[string]string // of /etc/nccl.conf of its image
	version    string            // of NCCL; empty: 2.27.3
	uverbs     int               // device nodes that its container offers; 0: as many as the node has, -1: none
	busy       bool              // its sockets carry the collectives
	noRAS      bool
	noSegments bool
	edit       func(rank int, r *JobRank) // of each rank
}

// Addresses of the jobs: this node, the next one and a store.
var (
	jobHere  = netip.MustParseAddr("10.0.0.17")
	jobThere = netip.MustParseAddr("10.0.0.18")
	jobStore = netip.MustParseAddr("10.0.9.5")
)

// HostNetNS is the inode of the network namespace of simulated nodes: PROC_NET_INIT_INO of the kernel.
const HostNetNS = 4026531840

// train adds a job to the node.
func (n *Node) train(p jobPlan) {
	if len(p.gpus) == 0 {
		for i := range n.GPUs {
			p.gpus = append(p.gpus, i)
		}
	}
	w := fabric.Workload{Scheduler: "slurm", Job: cmp.Or(p.id, "4242"), Ranks: p.size}
	if p.pod {
		w.Scheduler, w.Job = "kubernetes", aPod
	}
	if p.size == 0 {
		w.Ranks = 2 * len(p.gpus)
	}
	j := Job{Workload: w}
	for k, index := range p.gpus {
		r := p.rank(n, k, n.GPUs[index].Processes[0].PID)
		if p.edit != nil {
			p.edit(k, &r)
		}
		j.Ranks = append(j.Ranks, r)
	}
	n.Jobs = append(n.Jobs, j)
}

// rank is the k-th rank on the node.
func (p *jobPlan) rank(n *Node, k, pid int) JobRank {
	at := n.Host.Boot.Add(time.Hour)
	netns := uint64(HostNetNS)
	if p.pod {
		netns = podNetNS
	}
	r := JobRank{Is: fabric.RankCandidate{
		PID: pid, Start: uint64(360000 + k), Parent: 40100, User: 1000, Command: "python3",
		Workload: fabric.Known(fabric.Workload{Rank: k}, "cgroup", at),
		NetNS:    fabric.Known(netns, "ns/net", at),
		Limits: fabric.Known(fabric.ProcessLimits{Memlock: math.MaxUint64, CPUs: "0-111", Distances: []int{10, 10}},
			"limits", at),
		Settings: fabric.Known(variables(p.settings, "environ"), "environ", at),
		Conf:     fabric.Known(variables(p.conf, "/etc/nccl.conf"), "root/etc/nccl.conf", at),
		Devices:  fabric.Known(fabric.ProcessDevices{Uverbs: p.offered(n), GPUs: len(p.gpus)}, "root/dev", at),
		NetDevs:  fabric.Known([]fabric.InterfaceUse{{Name: "lo"}, {Name: "eth0"}}, "net/dev", at),
	}}
	maps := fabric.MappedFiles{
		NCCL: "/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", Version: cmp.Or(p.version, "2.27.3"),
		Torch: true, Verbs: true, Plugins: p.plugins, Segments: 4,
	}
	if p.noSegments {
		maps.Segments = 0
	}
	r.Is.Maps = fabric.Known(maps, "maps", at)
	r.sockets(p, k, at)
	files := fabric.OpenFiles{All: 180, GPUs: p.gpus, CUDA: true, Complete: true}
	verbs := fabric.VerbsUse{}
	if len(p.devices) > 0 {
		for i := range p.devices {
			files.Uverbs = append(files.Uverbs, fmt.Sprintf("uverbs%d", i))
		}
		files.Events = len(p.devices)
		verbs = fabric.VerbsUse{
			Devices: p.devices, Contexts: len(p.devices), PDs: len(p.devices), Regions: 130,
			Bytes: 12 << 30, QueuePairs: p.queuePairs,
		}
	}
	for _, s := range r.Is.Sockets.Value {
		files.Sockets = append(files.Sockets, s.Inode)
	}
	r.Is.Files, r.Is.Verbs = fabric.Known(files, "fd", at), fabric.Known(verbs, "RDMA_NLDEV_CMD_RES_CTX_GET", at)
	return r
}

// offered is how many uverbs nodes a rank may open.
func (p *jobPlan) offered(n *Node) int {
	switch {
	case p.uverbs < 0:
		return 0
	case p.uverbs > 0:
		return p.uverbs
	}
	return len(n.HCAs) + len(n.Moved)
}

// variables are NCCL variables as a reader of this source shows them.
func variables(of map[string]string, source string) []fabric.NCCLVariable {
	var list []fabric.NCCLVariable
	for name, value := range of {
		v := fabric.NCCLVariable{Name: name, Value: value, Source: source}
		if _, err := fmt.Sscanf(value, "%d", &v.Number); err == nil {
			v.IsNumber = true
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// sockets gives a rank its connections: the listeners of RAS and of the bootstrap, quiet connections to the next node,
// and, if they carry the collectives, one for them. The first rank of the node receives from the node before, the last
// sends to the next: both are the same in a job of two nodes.
func (r *JobRank) sockets(p *jobPlan, k int, at time.Time) {
	inode, port := uint64(900000+100*r.Is.PID), uint16(40000+10*k)
	var list []fabric.Socket
	var rates []Rate
	add := func(s fabric.Socket, rate Rate) {
		inode++
		s.Inode, s.Counted = inode, !s.Listening
		list, rates = append(list, s), append(rates, rate)
	}
	if !p.noRAS {
		add(fabric.Socket{Listening: true, Local: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 28028)}, Rate{})
	}
	add(fabric.Socket{Listening: true, Local: netip.AddrPortFrom(jobHere, port)}, Rate{})
	last := len(p.gpus) - 1
	if spans := p.size == 0 || p.size > len(p.gpus); spans && (k == 0 || k == last) {
		add(fabric.Socket{
			Local: netip.AddrPortFrom(jobHere, port+1), Remote: netip.AddrPortFrom(jobThere, 41007),
			Sent: 18_000, Received: 17_000,
		}, Rate{40, 40})
		if p.busy {
			data := Rate{Sent: 820e6, Received: 6e6}
			if k == 0 {
				data = Rate{Sent: 6e6, Received: 810e6}
			}
			add(fabric.Socket{
				Local: netip.AddrPortFrom(jobHere, port+2), Remote: netip.AddrPortFrom(jobThere, 41011),
				Sent: 7e11, Received: 7e11,
			}, data)
		}
	}
	r.Is.Sockets, r.Sockets = fabric.Known(list, "SOCK_DIAG_BY_FAMILY", at), rates
}

// connect adds a connection to a rank.
func (r *JobRank) connect(remote netip.AddrPort, rate Rate) {
	list := r.Is.Sockets.Value
	inode := list[len(list)-1].Inode + 1
	r.Is.Sockets.Value = append(list, fabric.Socket{
		Inode: inode,
		Local: netip.AddrPortFrom(jobHere, uint16(50000+len(list))), Remote: remote, Counted: true,
	})
	r.Is.Files.Value.Sockets = append(r.Is.Files.Value.Sockets, inode)
	for len(r.Sockets) < len(list) {
		r.Sockets = append(r.Sockets, Rate{})
	}
	r.Sockets = append(r.Sockets, rate)
}

// hide makes facts of a rank unreadable for lack of privilege.
func (r *JobRank) hide(sockets, rest bool) {
	const why = fabric.ReasonPrivilege
	at := r.Is.Files.At
	if sockets {
		r.Is.Sockets = fabric.UnknownFact[[]fabric.Socket](why, "setns", at)
	}
	if rest {
		r.Is.Files = fabric.UnknownFact[fabric.OpenFiles](why, "fd", at)
		r.Is.Maps = fabric.UnknownFact[fabric.MappedFiles](why, "maps", at)
		r.Is.Settings = fabric.UnknownFact[[]fabric.NCCLVariable](why, "environ", at)
		r.Is.Conf = fabric.UnknownFact[[]fabric.NCCLVariable](why, "root/etc/nccl.conf", at)
		r.Is.Devices = fabric.UnknownFact[fabric.ProcessDevices](why, "root/dev", at)
	}
}

// moved has the contexts of a rank on devices of another network namespace, which the kernel does not show here.
func (r *JobRank) moved() {
	r.Is.Verbs.Value = fabric.VerbsUse{}
}

// says gives a rank a log.
func (r *JobRank) says(log fabric.NCCLLog) { r.Is.Log = fabric.Known(log, "fd", r.Is.Files.At) }
