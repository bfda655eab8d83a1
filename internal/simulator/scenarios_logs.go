// SPDX-License-Identifier: Apache-2.0

package simulator

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
			rank("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA"), rank("24 coll channels, 24 collnet channels, "+channels+" nvls channels, 32 p2p channels, 4 p2p channels per peer"),
			rank("ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7d0c1 - Init COMPLETE"))
	}
	const failed = "gpu1:41000:41077 [0] transport/net_ib/p2p.cc:412 NCCL WARN NET/IB: Got completion from peer 10.0.0.18<50051> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid ::ffff:10.224.3.17 remoteGids::ffff:10.224.3.18 hca mlx5_3"
	return []Scenario{
		{
			Name: "job-log-healthy", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "nothing is wrong with a job whose log is followed",
			Truth:   "The log says that NCCL uses verbs with GPUDirect RDMA, and sums in NVSwitches.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64})
				n.logged(rankLog, 0, setup(nil, "16")...)
			},
		},
		{
			Name: "job-log-retries", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "the log of a job says that a connection failed",
			Truth:   "After 20 s NCCL logs that the other node did not acknowledge packets (status 12). The node itself looks well: the fault is on the way, or on the other node.",
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64})
				n.logged(rankLog, 0, setup(nil, "16")...)
				n.logged(rankLog, loggedFrom, failed)
			},
		},
		{
			Name: "job-offload-off", Platform: h100, Jobs: rdmaJob("slurm/4242", "verbs"), site: following,
			Summary: "a job switches NVLS and PXN off",
			Truth:   "NCCL_NVLS_ENABLE=0 and NCCL_PXN_DISABLE=1 are left over in a template. NCCL logs both, and the node has NVSwitches and eight rails.",
			Expect:  []Finding{{"", 0, "offload_unused"}},
			edit: func(n *Node) {
				n.train(jobPlan{devices: rails8(), queuePairs: 64, settings: map[string]string{"NCCL_NVLS_ENABLE": "0", "NCCL_PXN_DISABLE": "1"}})
				n.logged(rankLog, 0, setup([]string{"NCCL_NVLS_ENABLE set by environment to 0.", "NCCL_PXN_DISABLE set by environment to 1."}, "0")...)
			},
		},
		{
			Name: "kernel-mlx5-health", Platform: h100, site: following,
			Summary: "the kernel says that the firmware of an HCA failed",
			Truth:   "After 20 s mlx5_core reports the health of 0000:5e:00.0 as compromised. Its port still looks active.",
			edit: func(n *Node) {
				n.logged(devKmsg, loggedFrom, kmsg("mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count"))
			},
		},
	}
}
