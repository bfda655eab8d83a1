// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
)

// rails8 are the compute devices of the H100 platform.
func rails8() []string {
	var list []string
	for i := range 8 {
		list = append(list, fmt.Sprintf("mlx5_%d", i))
	}
	return list
}

const (
	podNetNS = 4026533128
	aPod     = "team-a/llm-train-worker-3"
)

// rdmaJob is the label of a job whose data were seen on RDMA.
func rdmaJob(name, way string) []JobLabel {
	return []JobLabel{{Name: name, Transport: "rdma", Way: way, Confirmed: true}}
}

// jobScenarios are jobs as the five kinds of deployment run them, and those that fell back to TCP.
func jobScenarios() []Scenario {
	const slurm = "slurm/4242"
	return []Scenario{
		{
			Name: "job-slurm", Platform: h100, Jobs: rdmaJob(slurm, "verbs"),
			Summary: "nothing is wrong with a job of Slurm on bare metal",
			Truth: "Eight of sixteen ranks are on the node, each with contexts on eight devices and 64 queue pairs. Devices " +
				"carry gigabytes, sockets only the bootstrap.",
			edit: trains(jobPlan{devices: rails8(), queuePairs: 64}),
		},
		{
			Name: "job-pyxis", Platform: h100, Jobs: rdmaJob(slurm, "ibext"),
			Summary: "nothing is wrong with a job of Slurm in a container of enroot",
			Truth: "pyxis gave the job a mount namespace of its own; network and devices are those of the node. The image " +
				"has the plugin of HPC-X, which uses verbs.",
			edit: trains(jobPlan{
				devices: rails8(), queuePairs: 64,
				plugins: []string{"hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so.0.0.0"},
			}),
		},
		{
			Name: "job-kubernetes", Platform: h100, Jobs: rdmaJob("kubernetes/"+aPod, "verbs"),
			Summary: "nothing is wrong with a pod that trains over shared RDMA devices",
			Truth: "The pod has a network namespace of its own with a macvlan interface; the RDMA core is in shared mode. " +
				"The exporter may enter the namespace to see its sockets.",
			edit: trains(jobPlan{pod: true, devices: rails8(), queuePairs: 64}),
		},
		{
			Name: "job-kubernetes-moved", Platform: h100,
			Jobs:    []JobLabel{{Name: "kubernetes/" + aPod, Transport: "unknown", Reason: "moved"}},
			Summary: "nothing is wrong with a pod that has the RDMA devices for itself",
			Truth: "The RDMA CNI moved all eight devices into the pod. The ranks have uverbs descriptors open, and no " +
				"counter of these devices is seen on the host: that RDMA carries the data is likely and not seen.",
			differs: `moved:mlx5_[0-7],enp\d+s0np0`,
			edit: func(n *Node) {
				for _, d := range rails8() {
					n.Move(d)
				}
				n.train(jobPlan{pod: true, devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) { r.moved() }})
			},
		},
		{
			Name: "job-efa", Platform: "efa", Jobs: rdmaJob(slurm, "efa"),
			Summary: "nothing is wrong with a job over EFA",
			Truth: "aws-ofi-nccl has contexts on all EFA devices, which carry the data. EFA has queue pairs of its own kind " +
				"(SRD); NCCL's own transport could not use them.",
			edit: func(n *Node) {
				var devices []string
				for _, h := range n.HCAs {
					devices = append(devices, h.Name)
				}
				n.train(jobPlan{
					devices: devices, queuePairs: 128,
					plugins: []string{"ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so"},
				})
			},
		},
		{
			Name: "job-gib", Platform: h100, Jobs: rdmaJob("kubernetes/"+aPod, "gib"),
			Summary: "nothing is wrong with a job over gIB (Google A3 Ultra)",
			Truth:   "gIB is a plugin that uses verbs; the devices carry the data.",
			edit: trains(jobPlan{
				pod: true, devices: rails8(), queuePairs: 64,
				plugins: []string{"local/gib/lib64/libnccl-net.so"},
			}),
		},
		{
			Name: "job-tcpx", Platform: h100, Jobs: []JobLabel{{Name: "kubernetes/" + aPod, Transport: "tcp", Way: "tcpx"}},
			Summary: "nothing is wrong with a job over TCPX (Google A3 High)",
			Truth: "TCPX moves data over TCP into GPU memory, by design. No verbs context exists, and sockets carry the " +
				"collectives. It is no fallback.",
			differs: `stopped`,
			edit: overSockets(jobPlan{
				pod: true, plugins: []string{"local/tcpx/lib64/libnccl-net.so"}, busy: true,
				uverbs: -1,
			}),
		},
		{
			Name: "job-fastrak", Platform: h100,
			Jobs:    []JobLabel{{Name: "kubernetes/" + aPod, Transport: "unknown", Reason: "no_traffic"}},
			Summary: "nothing is wrong with a job over FasTrak (Google A3 Mega)",
			Truth: "FasTrak moves data by a service of its own, which neither verbs nor the sockets of the ranks show: " +
				"nothing on the node shows it.",
			differs: `stopped`,
			edit: overSockets(jobPlan{
				pod: true, uverbs: -1,
				plugins: []string{"lib/tcpxo/lib64/libnccl-net.so"}, settings: map[string]string{"NCCL_FASTRAK_NUM_FLOWS": "2"},
			}),
		},
		{
			Name: "job-tcp", Platform: h100,
			Jobs: []JobLabel{{
				Name: slurm, Transport: "tcp", Way: "socket", Confirmed: true, Cause: "rdma_disabled",
				Findings: []string{"setting_wrong_here"},
			}},
			Summary: "a job uses TCP, because its environment says so",
			Truth: "NCCL_IB_DISABLE=1 was left in the script of the job. Sockets to the other node carry the collectives, " +
				"and no rank has a verbs context.",
			differs: `stopped`,
			edit:    overSockets(jobPlan{busy: true, settings: map[string]string{"NCCL_IB_DISABLE": "1"}}),
		},
		{
			Name: "job-tcp-no-devices", Platform: h100,
			Jobs: []JobLabel{{
				Name: "kubernetes/" + aPod, Transport: "tcp", Way: "socket", Confirmed: true,
				Cause:    "no_rdma_devices_in_container",
				Findings: []string{"memlock", "no_rdma_devices_in_container"},
			}},
			Summary: "a pod uses TCP, because its container has no RDMA devices",
			Truth: "The pod asks for GPUs and for no RDMA resource: its container has no /dev/infiniband, and NCCL falls " +
				"back to sockets without a word.",
			differs: `stopped`,
			edit: overSockets(jobPlan{
				pod: true, busy: true, uverbs: -1,
				edit: func(_ int, r *JobRank) { r.Is.Limits.Value.Memlock = 8 << 20 },
			}),
		},
		{
			Name: "job-efa-fallback", Platform: "efa",
			Jobs:    []JobLabel{{Name: slurm, Transport: "tcp", Way: "socket", Confirmed: true, Cause: "plugin_fell_back"}},
			Summary: "the plugin for EFA is loaded, and NCCL uses sockets",
			Truth: "libfabric has no provider for EFA in the image: the plugin is mapped, finds no device, and NCCL takes " +
				"its sockets. No verbs context exists.",
			differs: `sys/devices/.*/(counters|hw_counters)/.*`,
			edit:    overSockets(jobPlan{busy: true, plugins: []string{"ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so"}}),
		},
		{
			Name: "job-tcp-hidden", Platform: h100,
			Jobs:    []JobLabel{{Name: "kubernetes/" + aPod, Transport: "tcp", Way: "socket"}},
			Summary: "a pod uses TCP, and its sockets cannot be seen",
			Truth: "The exporter may not enter the network namespace of the pod. Its interface carries as much in one " +
				"direction as in the other while the GPUs are busy, and no rank has a verbs context: TCP is likely and not " +
				"certain.",
			differs: `stopped`,
			edit: overSockets(jobPlan{pod: true, edit: func(_ int, r *JobRank) {
				r.NetDevs = []Rate{{}, {Sent: 900e6, Received: 880e6}}
				r.hide(true, false)
			}}),
		},
		{
			Name: "job-hidden", Platform: h100, Jobs: []JobLabel{{Name: slurm, Transport: "unknown", Reason: "privilege"}},
			Summary: "a job that the exporter may not read",
			Truth: "Without CAP_SYS_PTRACE descriptors, maps and sockets of the ranks are not readable. What was not seen is " +
				"unknown, whatever the devices of the node carry.",
			edit: trains(jobPlan{devices: rails8(), queuePairs: 64, edit: func(_ int, r *JobRank) {
				r.hide(true, true)
				r.Is.Verbs = fabric.UnknownFact[fabric.VerbsUse](fabric.ReasonPrivilege, "RDMA_NLDEV_CMD_RES_CTX_GET",
					r.Is.Limits.At)
			}}),
		},
	}
}

const (
	asking   = "nccl:\n  ask_ras: true\n"
	rasFrom  = 45       // step, by which two readings have seen a healthy job
	rasNCCL  = "2.30.7" // whose RAS is asked
	rasSlurm = "slurm/4242"
)

// rasScenarios are jobs that look well on the node, and of which NCCL RAS reports what is wrong.
func rasScenarios() []Scenario {
	with := func(t Trouble) func(n *Node) {
		t.From = rasFrom
		return func(n *Node) {
			n.train(jobPlan{devices: rails8(), queuePairs: 64, version: rasNCCL})
			n.Jobs[0].Trouble = t
		}
	}
	return []Scenario{
		{
			Name: "job-hang", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a job hangs: one rank did not launch what the others wait for",
			Truth: "After 45 s RDMA carries nothing while the GPUs stay busy. NCCL RAS reports that rank 11, on the other " +
				"node, is one collective behind and no rank moves.",
			differs: `stopped`,
			edit:    with(Trouble{Stops: true, Rank: 11, Behind: 1}),
		},
		{
			Name: "job-rank-dead", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a job lost a rank",
			Truth: "After 45 s RDMA carries nothing while the GPUs stay busy. NCCL RAS gave up on the process of rank 12, on " +
				"the other node.",
			differs: `stopped`,
			edit:    with(Trouble{Stops: true, Rank: 12, Dead: true}),
		},
		{
			Name: "job-straggler", Platform: h100, Jobs: rdmaJob(rasSlurm, "verbs"), policy: asking,
			Summary: "a rank holds up its job",
			Truth: "After 45 s the GPU of rank 3 is mostly idle and the others stay busy. NCCL RAS reports that the rank is " +
				"four collectives behind, and moves.",
			differs: `nvml/3/Utilization`,
			edit:    with(Trouble{Rank: 3, Behind: 4, Idle: true}),
		},
	}
}

// trains has a job run on the node.
func trains(p jobPlan) func(*Node) {
	return func(n *Node) { n.train(p) }
}

// overSockets has a job run on a node whose RDMA devices carry nothing.
func overSockets(p jobPlan) func(*Node) {
	return func(n *Node) {
		n.quietRDMA()
		n.train(p)
	}
}
