// SPDX-License-Identifier: Apache-2.0

package simulator

// probeScenarios are about what only a probe finds: every port, address and setting is as it should be.
func probeScenarios() []Scenario {
	return []Scenario{
		{
			Name: "probe-tcp-fallback", Platform: h100,
			Summary: "NCCL cannot open the RDMA devices and talks TCP",
			Truth: "An update took the user space drivers of the NICs (rdma-core) out of the image that NCCL runs in. It finds no device that " +
				"it can open, says so in its log only, and uses sockets over the management bond. The kernel shows eight ports that " +
				"are as they should be. Only probes tell: /probes.",
			Probed: []ProbeFinding{{"transport", "", "socket"}, {"rail", "", "socket"}},
			edit:   func(n *Node) { n.NCCL.TCP = true },
		},
		{
			Name: "probe-gdr-lost", Platform: h100,
			Summary: "NCCL no longer uses GPUDirect RDMA, though nothing stands in its way",
			Truth: "NCCL was built for a CUDA without dma-buf and this site never needed nvidia_peermem: it copies through the memory of the " +
				"processors, at less than half of the bandwidth of a rail. Kernel, driver and bus allow GPUDirect RDMA, as far as they show. Only " +
				"probes tell: /probes.",
			Probed: []ProbeFinding{{"transport", "", "no_gpudirect"}, {"rail", "", "no_gpudirect"}},
			edit:   func(n *Node) { n.NCCL.NoGPUDirect = true },
		},
		{
			Name: "probe-slow", Platform: h100,
			Summary: "one rail carries 70 % of what it did",
			Truth: "The rail of mlx5_6 is slower than it was, and no counter or setting shows why. The first slow result is measured " +
				"again a minute later; that confirms a regression, and three in a row below 80 % of the baseline are a collapse. Only probes tell: /probes.",
			Probed: []ProbeFinding{{"rail", "mlx5_6", "slow"}},
			edit:   func(n *Node) { n.NCCL.Slow = append(n.NCCL.Slow, SlowHCA{"mlx5_6", 0.7}) },
		},
		{
			Name: "probe-wrong-result", Platform: h100,
			Summary: "one GPU computes wrong sums now and then",
			Truth: "GPU 5 corrupts data without an error of its memory, its links or its driver. The probe of all GPUs verifies every element " +
				"and finds some that are wrong: training on this node would be too. Only probes tell: /probes.",
			Probed: []ProbeFinding{{"node", "", "wrong_result"}},
			edit:   func(n *Node) { n.NCCL.WrongGPU = 6 },
		},
		{
			Name: "probe-failing", Platform: h100,
			Summary: "collectives of all GPUs hang",
			Truth: "GPU 3 takes part in no collective over NVLink: the seven others wait for it until the probe of all GPUs is killed at its deadline. " +
				"Links and driver say that all is well. Only probes tell: /probes.",
			Probed: []ProbeFinding{{"node", "", "hang"}},
			edit:   func(n *Node) { n.NCCL.HangingGPU = 4 },
		},
	}
}
