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
			Truth: "Each rank reads 400 MB/s from a store, in forked children that inherited all its descriptors. The " +
				"collectives go over RDMA. Children are no ranks, and what they inherited counts once.",
			edit: func(n *Node) {
				n.train(jobPlan{
					devices: rails8(), queuePairs: 64,
					edit: func(_ int, r *JobRank) { r.connect(store, Rate{Sent: 2e5, Received: 400e6}) },
				})
				n.Jobs[0].fork(8)
			},
		},
		{
			Name: "job-checkpoint", Platform: h100, Jobs: rdmaJob(slurm, "verbs"),
			Summary: "nothing is wrong with a job that uploads a checkpoint over TCP",
			Truth: "Each rank sends 1 GB/s to a store that listens on an ephemeral port and to which it has idle " +
				"connections, too. Little comes back: that is no collective.",
			edit: trains(jobPlan{devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) {
				r.connect(peer, Rate{Sent: 1e9, Received: 3e5})
				r.connect(peer, Rate{})
			}}),
		},
		{
			Name: "job-checkpoint-local", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "local", Confirmed: true}},
			Summary: "nothing is wrong with a job of one node that uploads a checkpoint over TCP",
			Truth: "All eight ranks are on the node and use NVLink. They send 1 GB/s each to a store; RDMA is quiet because " +
				"nothing needs it.",
			differs: `stopped`,
			edit: overSockets(jobPlan{size: 8, edit: func(_ int,
				r *JobRank,
			) {
				r.connect(store, Rate{Sent: 1e9, Received: 2e5})
			}}),
		},
		{
			Name: "job-gloo", Platform: h100,
			Jobs: []JobLabel{{
				Name: slurm, Transport: "unknown", Reason: "no_communicator",
				Findings: []string{"no_communicator"},
			}},
			Summary: "a job uses Gloo instead of NCCL",
			Truth: "The back end of torch.distributed is gloo. Sockets between ephemeral ports carry the gradients in both " +
				"directions; NCCL 2.27 is mapped, and shows neither RAS nor segments.",
			differs: `stopped`,
			edit:    overSockets(jobPlan{busy: true, noRAS: true, noSegments: true}),
		},
		{
			Name: "job-one-node", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "local", Confirmed: true}},
			Summary: "nothing is wrong with a job of one node",
			Truth: "Eight ranks, all here. They have contexts on the devices, as NCCL opens them in any case, and no queue " +
				"pairs.",
			differs: `stopped`,
			edit:    overSockets(jobPlan{size: 8, devices: rails8()}),
		},
		{
			Name: "job-starting", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "unknown", Reason: "idle"}},
			Summary: "nothing is wrong with a job before its first collective",
			Truth: "The communicator exists, queue pairs do not yet (NCCL 2.22 and later make them with the first " +
				"collective), and the GPUs are idle.",
			differs: `nvml/\d/Utilization stopped`,
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
				{
					Name: "slurm/4243", Transport: "tcp", Way: "socket", Confirmed: true, Cause: "socket_selected",
					Findings: []string{"setting_wrong_here"},
				},
			},
			Summary: "of two jobs on a node one uses RDMA and the other TCP",
			Truth: "The first has four GPUs and four devices, which carry its data. The second has the other GPUs, and its " +
				"image has NCCL_NET=Socket in /etc/nccl.conf.",
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
			Truth: "UCX opened the devices and made queue pairs for MPI; NCCL found no libibverbs that it could use and " +
				"talks TCP. The devices carry nothing, and contexts exist: TCP is likely.",
			differs: `stopped`,
			edit:    overSockets(jobPlan{devices: rails8(), queuePairs: 6, busy: true}),
		},
		{
			Name: "job-mixed", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "mixed", Way: "verbs"}},
			Summary: "a job uses RDMA and TCP at once",
			Truth: "One communicator of the job goes over RDMA, another was made with NCCL_NET=Socket in the code: both " +
				"carry collectives.",
			edit: trains(jobPlan{devices: rails8(), queuePairs: 64, busy: true}),
		},
		{
			Name: "job-misaligned", Platform: h100,
			Jobs: []JobLabel{{
				Name: "kubernetes/" + aPod, Transport: "rdma", Way: "verbs", Confirmed: true,
				Findings: []string{"nccl_versions_differ", "nic_alignment", "settings_differ", "cpu_affinity"},
			}},
			Summary: "a pod has GPUs without their nearest NICs, and ranks that differ",
			Truth: "The device plugins gave four GPUs of one socket and four NICs of the other. One rank has another NCCL, " +
				"and another NCCL_ALGO, and one may run on the CPUs of the other socket only.",
			edit: trains(jobPlan{
				pod: true, gpus: []int{0, 1, 2, 3}, devices: rails8()[4:], queuePairs: 64,
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
			}),
		},
		{
			Name: "job-moved-log", Platform: h100,
			Jobs:    []JobLabel{{Name: "kubernetes/" + aPod, Transport: "rdma", Way: "verbs"}},
			Summary: "nothing is wrong with a pod that has the RDMA devices for itself and writes a log",
			Truth: "The devices were moved into the pod: the host sees neither their counters nor the contexts on them. " +
				"NCCL's log, which the ranks have open, has their connections over NET/IB. A user can write any log: RDMA is " +
				"likely.",
			differs: `moved:mlx5_[0-7],enp\d+s0np0`,
			edit: func(n *Node) {
				for _, d := range rails8() {
					n.Move(d)
				}
				n.train(jobPlan{pod: true, devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) {
					r.moved()
					r.says(fabric.NCCLLog{Verbs: true})
				}})
			},
		},
		{
			Name: "job-log-lies", Platform: h100,
			Jobs: []JobLabel{{
				Name: slurm, Transport: "tcp", Way: "socket", Confirmed: true, Cause: "socket_selected",
				Findings: []string{"setting_wrong_here"},
			}},
			Summary: "a job uses TCP, and its log says that it uses RDMA",
			Truth: "The log was written by an earlier communicator. Sockets carry the collectives, and no rank has a verbs " +
				"context: what the kernel shows counts.",
			differs: `stopped`,
			edit: overSockets(jobPlan{
				busy: true, settings: map[string]string{"NCCL_NET": "Socket"},
				edit: func(_ int, r *JobRank) { r.says(fabric.NCCLLog{Verbs: true}) },
			}),
		},
		{
			Name: "job-tcp-unprivileged", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "tcp", Way: "socket"}},
			Summary: "a job uses TCP, and the exporter may not look into its processes",
			Truth: "Without CAP_SYS_PTRACE descriptors of the ranks are not readable. The kernel shows which sockets were " +
				"made in the control group of the job: they carry as much in one direction as in the other, to a host of the " +
				"job. TCP is likely and not certain.",
			differs: `stopped`,
			edit: overSockets(jobPlan{busy: true, edit: func(_ int, r *JobRank) {
				r.hide(false, true)
				r.Is.SocketsByCgroup = true
				r.Is.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonPrivilege, "RDMA_NLDEV_CMD_RES_CTX_GET",
					r.Is.Limits.At)
			}}),
		},
		{
			Name: "job-slingshot", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "unknown", Reason: "unreadable"}},
			Summary: "nothing is wrong with a job over HPE Slingshot",
			Truth: "The plugin of AWS moves the data over the provider cxi of libfabric. Its devices (/dev/cxi*) are no RDMA " +
				"devices of the kernel, and their counters are not read: sockets are quiet, and nothing that is read shows it.",
			differs: `stopped`,
			edit: overSockets(jobPlan{plugins: []string{"aws-ofi-nccl/lib/libnccl-net.so.0.0.0"}, edit: func(_ int, r *JobRank) {
				r.Is.Maps.Value.Hints = []string{"cxi", "efa", "fabric"}
			}}),
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

// slowedFrom is the step from which the collectives of a job are slow: after two intervals of Inspector.
const slowedFrom = 2 * inspectorInterval

// inspectorScenarios are jobs that measure their collectives by NCCL Inspector.
func inspectorScenarios() []Scenario {
	return []Scenario{
		{
			Name: "job-inspector", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: inspecting,
			Summary: "nothing is wrong with a job that uses NCCL Inspector",
			Truth: "Each minute for an hour, each rank writes what an AllReduce of all 16 ranks (360 GB/s) and an AllGather " +
				"of the 8 of the node (350 GB/s) reached.",
			differs: `inspector`,
			edit:    func(n *Node) { n.inspected(0) },
		},
		{
			Name: "job-bandwidth-falls", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: inspecting,
			Summary: "the collectives of a job fall to a third of their bandwidth",
			Truth: "After two minutes AllReduce between the nodes reaches 120 instead of 360 GB/s by NCCL Inspector, and " +
				"AllGather within the node is as fast as before. The node looks well: the fault is in the network or on the " +
				"other node.",
			differs: `inspector`,
			edit:    func(n *Node) { n.inspected(slowedFrom) },
		},
	}
}

const loggedFrom = 20 // step, by which the exporter has read the log once

// rankLog is where the first rank of a job on the node logs.
const rankLog = jobLogs + "/4242.gpu1.0.log"

// logScenarios are nodes of which logs say what nothing else shows.
func logScenarios() []Scenario {
	rank := func(text string) string { return "gpu1:41000:41050 [0] NCCL INFO " + text }
	setup := func(settings []string, channels string) []string {
		lines := []string{rank("NCCL version 2.27.3+cuda12.9")}
		for _, s := range settings {
			lines = append(lines, rank(s))
		}
		if channels != "0" {
			lines = append(lines, rank("NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)"))
		}
		return append(lines, rank("Using network IB"),
			rank("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"),
			rank("24 coll channels, 24 collnet channels, "+channels+" nvls channels, 32 p2p channels, 4 p2p channels per peer"),
			rank("ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d0c1 - Init COMPLETE"))
	}
	const failed = "gpu1:41000:41077 [0] transport/net_ib/p2p.cc:412 NCCL WARN NET/IB: Got completion from peer 10.0.0.18<50051> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid ::ffff:10.224.3.17 remoteGids::ffff:10.224.3.18 hca mlx5_3"
	return []Scenario{
		{
			Name: "job-log-healthy", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "nothing is wrong with a job whose log is followed",
			Truth:   "The log says that NCCL uses verbs with GPUDirect RDMA, and sums in NVSwitches.",
			differs: `logs`,
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64})
				n.logged(rankLog, 0, setup(nil, "16")...)
			},
		},
		{
			Name: "job-log-retries", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "the log of a job says that a connection failed",
			Truth: "After 20 s NCCL logs that the other node did not acknowledge packets (status 12). The node itself looks " +
				"well: the fault is on the way, or on the other node.",
			differs: `logs`,
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64})
				n.logged(rankLog, 0, setup(nil, "16")...)
				n.logged(rankLog, loggedFrom, failed)
			},
		},
		{
			Name: "job-offload-off", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "a job switches NVLS and PXN off",
			Truth: "NCCL_NVLS_ENABLE=0 and NCCL_PXN_DISABLE=1 are left over in a template. NCCL logs both, and the node has " +
				"NVSwitches and eight rails.",
			Expect:  []Finding{{"", 0, "offload_unused"}},
			differs: `logs`,
			edit: func(n *Node) {
				n.train(jobPlan{
					devices: rails8(), queuePairs: 64,
					settings: map[string]string{"NCCL_NVLS_ENABLE": "0", "NCCL_PXN_DISABLE": "1"},
				})
				n.logged(rankLog, 0, setup([]string{
					"NCCL_NVLS_ENABLE set by environment to 0.",
					"NCCL_PXN_DISABLE set by environment to 1.",
				}, "0")...)
			},
		},
		{
			Name: "kernel-mlx5-health", Platform: h100, site: following,
			Summary: "the kernel says that the firmware of an HCA failed",
			Truth:   "After 20 s mlx5_core reports the health of 0000:5e:00.0 as compromised. Its port still looks active.",
			differs: `kmsg`,
			edit: func(n *Node) {
				n.logged(devKmsg, loggedFrom,
					kmsg("mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"))
			},
		},
	}
}
