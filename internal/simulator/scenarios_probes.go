// SPDX-License-Identifier: Apache-2.0

package simulator

// probeScenarios are about what only a probe finds: every port, address and setting is as it should be.
func probeScenarios() []Scenario {
	return []Scenario{
		{
			Name: "probe-tcp-fallback", Platform: h100,
			Summary: "NCCL cannot open the RDMA devices and uses TCP",
			Truth: "An update removed the user space drivers of the NICs (rdma-core) from the image in which NCCL runs. NCCL finds no device " +
				"that it can open, reports that in its log only, and uses sockets over the management bond. The kernel shows eight correct " +
				"ports. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"transport", "", "socket"}, {"rail", "", "socket"}},
			edit:   func(n *Node) { n.NCCL.TCP = true },
		},
		{
			Name: "probe-gdr-lost", Platform: h100,
			Summary: "NCCL no longer uses GPUDirect RDMA, although nothing blocks it",
			Truth: "NCCL was built for a CUDA without dma-buf, and nvidia_peermem is not loaded because it was never needed here: NCCL copies " +
				"through host memory, at less than half of the bandwidth of a rail. As far as they show, kernel, driver and bus allow " +
				"GPUDirect RDMA. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"transport", "", "no_gpudirect"}, {"rail", "", "no_gpudirect"}},
			edit:   func(n *Node) { n.NCCL.NoGPUDirect = true },
		},
		{
			Name: "probe-slow", Platform: h100,
			Summary: "the bandwidth of one rail has dropped to 70 %",
			Truth: "The rail of mlx5_6 is slower than before, and no counter or setting shows why. The first slow result is measured again a " +
				"minute later, which confirms a regression; three in a row below 80 % of the baseline are a collapse. Only probes detect " +
				"it: see /probes.",
			Probed: []ProbeFinding{{"rail", "mlx5_6", "slow"}},
			edit:   func(n *Node) { n.NCCL.Slow = append(n.NCCL.Slow, SlowHCA{"mlx5_6", 0.7}) },
		},
		{
			Name: "probe-wrong-result", Platform: h100,
			Summary: "one GPU occasionally computes wrong sums",
			Truth: "GPU 5 corrupts data without errors of its memory, its links or its driver. The probe of all GPUs verifies every element " +
				"and finds wrong ones: training on this node would be wrong, too. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"node", "", "wrong_result"}},
			edit:   func(n *Node) { n.NCCL.WrongGPU = 6 },
		},
		{
			Name: "probe-failing", Platform: h100,
			Summary: "collectives of all GPUs hang",
			Truth: "GPU 3 takes part in no collective over NVLink: the seven others wait for it until the probe of all GPUs is killed at its " +
				"deadline. Links and driver report no problem. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"node", "", "hang"}},
			edit:   func(n *Node) { n.NCCL.HangingGPU = 4 },
		},
	}
}
