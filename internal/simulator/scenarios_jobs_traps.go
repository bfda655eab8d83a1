// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"

	"gpufabric_exporter/internal/fabric"
)

// jobTrapScenarios are jobs that look like something else.
func jobTrapScenarios() []Scenario {
	const slurm = "slurm/4242"
	store, peer := netip.AddrPortFrom(jobStore, 443), netip.AddrPortFrom(jobStore, 50051)
	return []Scenario{
		{
			Name: "job-data-loading", Platform: h100, Jobs: rdmaJob(slurm, "verbs"),
			Summary: "nothing is wrong with a job that loads its data over TCP",
			Truth: "Each rank reads 400 MB/s from a store, in forked children that inherited all its descriptors. The collectives go over RDMA. Children are no ranks, and what they " +
				"inherited counts once.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) { r.connect(store, Rate{Sent: 2e5, Received: 400e6}) }})
				n.Jobs[0].fork(8)
			},
		},
		{
			Name: "job-checkpoint", Platform: h100, Jobs: rdmaJob(slurm, "verbs"),
			Summary: "nothing is wrong with a job that uploads a checkpoint over TCP",
			Truth:   "Each rank sends 1 GB/s to a store that listens on an ephemeral port and to which it has idle connections, too. Little comes back: that is no collective.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) {
					r.connect(peer, Rate{Sent: 1e9, Received: 3e5})
					r.connect(peer, Rate{})
				}})
			},
		},
		{
			Name: "job-checkpoint-local", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "local", Confirmed: true}},
			Summary: "nothing is wrong with a job of one node that uploads a checkpoint over TCP",
			Truth:   "All eight ranks are on the node and use NVLink. They send 1 GB/s each to a store; RDMA is quiet because nothing needs it.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{size: 8, edit: func(_ int, r *JobRank) { r.connect(store, Rate{Sent: 1e9, Received: 2e5}) }})
			},
		},
		{
			Name: "job-gloo", Platform: h100,
			Jobs:    []JobLabel{{Name: slurm, Transport: "unknown", Reason: "no_communicator", Findings: []string{"no_communicator"}}},
			Summary: "a job uses Gloo instead of NCCL",
			Truth:   "The back end of torch.distributed is gloo. Sockets between ephemeral ports carry the gradients in both directions; NCCL 2.27 is mapped, and shows neither RAS nor segments.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{busy: true, noRAS: true, noSegments: true})
			},
		},
		{
			Name: "job-one-node", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "local", Confirmed: true}},
			Summary: "nothing is wrong with a job of one node",
			Truth:   "Eight ranks, all here. They have contexts on the devices, as NCCL opens them in any case, and no queue pairs.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{size: 8, devices: rails8()})
			},
		},
		{
			Name: "job-starting", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "unknown", Reason: "idle"}},
			Summary: "nothing is wrong with a job before its first collective",
			Truth:   "The communicator exists, queue pairs do not yet (NCCL 2.22 and later make them with the first collective), and the GPUs are idle.",
			edit: func(n *Node) {
				n.quietRDMA()
				for i := range n.GPUs {
					n.GPUs[i].Load = 0
				}
				n.train(jobPlan{devices: rails8()})
			},
		},
		{
			Name: "job-two", Platform: h100,
			Jobs: []JobLabel{
				{Name: slurm, Transport: "rdma", Way: "verbs", Confirmed: true},
				{Name: "slurm/4243", Transport: "tcp", Way: "socket", Confirmed: true, Cause: "socket_selected", Findings: []string{"setting_wrong_here"}},
			},
			Summary: "of two jobs on a node one uses RDMA and the other TCP",
			Truth:   "The first has four GPUs and four devices, which carry its data. The second has the other GPUs, and its image has NCCL_NET=Socket in /etc/nccl.conf.",
			edit: func(n *Node) {
				n.train(jobPlan{gpus: []int{0, 1, 2, 3}, devices: rails8()[:4], queuePairs: 64})
				n.train(jobPlan{id: "4243", gpus: []int{4, 5, 6, 7}, busy: true, conf: map[string]string{"NCCL_NET": "Socket"}})
			},
		},
		{
			Name: "job-ending", Platform: h100,
			Summary: "nothing is wrong with a job that ends while it is read",
			Truth:   "It used RDMA at the first reading and is gone at the next ones: no verdict on it is left.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64})
				n.Jobs[0].Until = 10
			},
		},
		{
			Name: "job-mpi-holds-verbs", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "tcp", Way: "socket"}},
			Summary: "a job uses TCP while its MPI library holds RDMA devices open",
			Truth:   "UCX opened the devices and made queue pairs for MPI; NCCL found no libibverbs that it could use and talks TCP. The devices carry nothing, and contexts exist: TCP is likely.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{devices: rails8(), queuePairs: 6, busy: true})
			},
		},
		{
			Name: "job-mixed", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "mixed", Way: "verbs"}},
			Summary: "a job uses RDMA and TCP at once",
			Truth:   "One communicator of the job goes over RDMA, another was made with NCCL_NET=Socket in the code: both carry collectives.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64, busy: true})
			},
		},
		{
			Name: "job-misaligned", Platform: h100,
			Jobs: []JobLabel{{
				Name: "kubernetes/" + aPod, Transport: "rdma", Way: "verbs", Confirmed: true,
				Findings: []string{"nccl_versions_differ", "nic_alignment", "settings_differ", "cpu_affinity"},
			}},
			Summary: "a pod has GPUs without their nearest NICs, and ranks that differ",
			Truth:   "The device plugins gave four GPUs of one socket and four NICs of the other. One rank has another NCCL, and another NCCL_ALGO, and one may run on the CPUs of the other socket only.",
			edit: func(n *Node) {
				n.train(jobPlan{
					scheduler: "kubernetes", id: aPod, gpus: []int{0, 1, 2, 3}, devices: rails8()[4:], queuePairs: 64, netns: podNetNS,
					settings: map[string]string{"NCCL_ALGO": "Ring"},
					edit: func(k int, r *JobRank) {
						if k == 2 {
							r.Is.Limits.Value.CPUs, r.Is.Limits.Value.Distances = "56-111", []int{21, 10}
						}
						if k == 3 {
							r.Is.Maps.Value.Version = "2.26.2"
							r.Is.Settings.Value = []fabric.NCCLVariable{{Name: "NCCL_ALGO", Value: "Tree", Source: "environ"}}
						}
					},
				})
			},
		},
		{
			Name: "job-moved-log", Platform: h100, Jobs: []JobLabel{{Name: "kubernetes/" + aPod, Transport: "rdma", Way: "verbs"}},
			Summary: "nothing is wrong with a pod that has the RDMA devices for itself and writes a log",
			Truth: "The devices were moved into the pod: the host sees neither their counters nor the contexts on them. NCCL's log, which the ranks have open, has their connections over " +
				"NET/IB. A user can write any log: RDMA is likely.",
			edit: func(n *Node) {
				for _, d := range rails8() {
					n.Move(d)
				}
				n.train(jobPlan{scheduler: "kubernetes", id: aPod, devices: rails8(), queuePairs: 64, netns: podNetNS, edit: func(_ int, r *JobRank) {
					r.moved()
					r.says(fabric.NCCLLog{Verbs: true})
				}})
			},
		},
		{
			Name: "job-log-lies", Platform: h100,
			Jobs:    []JobLabel{{Name: slurm, Transport: "tcp", Way: "socket", Confirmed: true, Cause: "socket_selected", Findings: []string{"setting_wrong_here"}}},
			Summary: "a job uses TCP, and its log says that it uses RDMA",
			Truth:   "The log was written by an earlier communicator. Sockets carry the collectives, and no rank has a verbs context: what the kernel shows counts.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{busy: true, settings: map[string]string{"NCCL_NET": "Socket"}, edit: func(_ int, r *JobRank) { r.says(fabric.NCCLLog{Verbs: true}) }})
			},
		},
		{
			Name: "job-tcp-unprivileged", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "tcp", Way: "socket"}},
			Summary: "a job uses TCP, and the exporter may not look into its processes",
			Truth: "Without CAP_SYS_PTRACE descriptors of the ranks are not readable. The kernel shows which sockets were made in the control group of the job: they carry as much in one " +
				"direction as in the other, to a host of the job. TCP is likely and not certain.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{busy: true, edit: func(_ int, r *JobRank) {
					r.hide(false, true)
					r.Is.SocketsByCgroup = true
					r.Is.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonPrivilege, "RDMA_NLDEV_CMD_RES_CTX_GET", r.Is.Limits.At)
				}})
			},
		},
		{
			Name: "job-slingshot", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "unknown", Reason: "unreadable"}},
			Summary: "nothing is wrong with a job over HPE Slingshot",
			Truth: "The plugin of AWS moves the data over the provider cxi of libfabric. Its devices (/dev/cxi*) are no RDMA devices of the kernel, and their counters are not read: sockets are " +
				"quiet, and nothing that is read shows it.",
			edit: func(n *Node) {
				n.quietRDMA()
				n.train(jobPlan{plugins: []string{"aws-ofi-nccl/lib/libnccl-net.so.0.0.0"}, edit: func(_ int, r *JobRank) {
					r.Is.Maps.Value.Hints = []string{"cxi", "efa", "fabric"}
				}})
			},
		},
	}
}

// fork gives each rank that many children, which inherited what it has open, and none of which is on a GPU by itself.
func (j *Job) fork(children int) {
	for _, r := range j.Ranks {
		for i := range children {
			c := r
			c.NoGPU = true
			c.Is.PID, c.Is.Parent, c.Is.Start = r.Is.PID*100+i, r.Is.PID, r.Is.Start+uint64(1000+i)
			c.Is.Command = fmt.Sprintf("pt_data_worker:%d", i)
			c.Is.Verbs = fabric.Known(fabric.VerbsUse{}, r.Is.Verbs.Source, r.Is.Verbs.At)
			j.Ranks = append(j.Ranks, c)
		}
	}
}
