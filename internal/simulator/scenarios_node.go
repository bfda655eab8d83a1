// SPDX-License-Identifier: Apache-2.0

package simulator

// hostScenarios are about what the host gives to jobs beside its devices.
func hostScenarios() []Scenario {
	return []Scenario{
		{
			Name: "memlock-low", Platform: a100,
			Summary: "Slurm limits the locked memory of jobs to 64 KiB",
			Truth: "slurmd was started without LimitMEMLOCK=infinity, and its jobs inherit its limit of 64 KiB. ibv_reg_mr " +
				"and ibv_create_cq fail with ENOMEM, and NCCL fails with them. Devices, links and configuration are correct.",
			Expect:  []Finding{{"", 0, "memlock_low"}},
			differs: `proc/2964/limits`,
			edit:    func(n *Node) { n.daemon("slurmd").Memlock = Memlock{"65536", "65536"} },
		},
		{
			Name: "memlock-of-containers", Platform: h100,
			Summary: "healthy node whose daemons have low limits that do not apply to jobs",
			Truth: "The limit of containerd is 8 MiB, which is the default; pods that use RDMA have CAP_IPC_LOCK, to which " +
				"the limit does not apply. The soft limit of slurmd is low and its hard limit is not: jobs get the soft limit " +
				"of the user that submits them. A process of a user is named slurmd and starts no jobs. Nothing is reported.",
			differs: `proc/(\d+)(/.*)?`,
			edit: func(n *Node) {
				n.daemon("slurmd").Memlock.Soft = "8388608"
				n.Daemons = append(n.Daemons, Daemon{PID: 51_877, Name: "slurmd", User: 1007, Memlock: Memlock{"65536", "65536"}},
					Daemon{PID: 3344, Name: "kubelet", Memlock: Memlock{"8388608", "8388608"}})
			},
		},
		{
			Name: "socket-interface-missing", Platform: h100,
			Summary: "NCCL is configured to use a network interface that does not exist",
			Truth: "NCCL_SOCKET_IFNAME=eth0 was copied from another cluster: no interface of this node has a name that " +
				"begins with eth0. NCCL finds none for its bootstrap, and every job with more than one process fails at once. " +
				"RDMA is correct.",
			Expect:  []Finding{{"", 0, "socket_interface_missing"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.socketOver("bond0", "eth0") },
		},
		{
			Name: "socket-interface-down", Platform: b200,
			Summary: "NCCL is configured to use a network interface without a link",
			Truth: "NCCL_SOCKET_IFNAME==eno2 names the second port of the onboard card, which is not cabled. NCCL uses only " +
				"interfaces that are up and running, and finds none; the setting excludes the first port, which is up.",
			Expect:  []Finding{{"", 0, "socket_interface_down"}},
			differs: `nccl sys/.*/eno2(/.*)? eth:eno2(/.*)?`,
			edit: func(n *Node) {
				second := *n.NetDev("eno1")
				second.Name, second.Index, second.DevPort, second.Carrier, second.Addrs = "eno2", 1+len(n.NetDevs), 1, false, nil
				second.Address = "5c:25:73:9d:1f:ff"
				n.NetDevs = append(n.NetDevs, second)
				n.socketOver("eno1", "=eno2")
			},
		},
		{
			Name: "socket-interface-list", Platform: h100,
			Summary: "healthy node with one of the interfaces that NCCL is configured to use",
			Truth: "NCCL_SOCKET_IFNAME=eth,eno,bond is the same on all kinds of nodes of the site; NCCL uses those that " +
				"exist, here bond0. Nothing is reported.",
			differs: `nccl`,
			edit:    func(n *Node) { n.socketOver("bond0", "eth,eno,bond") },
		},

		// About lines of nccl.conf that are right or wrong whatever the hardware is. What NCCL does with them was read in
		// its source, files of release 2.30.7.
		{
			Name: "nccl-rdma-off", Platform: h100,
			Summary: "the NCCL configuration disables RDMA",
			Truth: "NCCL_IB_DISABLE=1 was left in nccl.conf after debugging. Eight compute ports are active, but ncclIbInit " +
				"(transport/net_ib/init.cc) returns before it looks at them: every job of the host uses TCP over the management " +
				"bond.",
			Expect:  []Finding{{"", 0, "rdma_switched_off"}},
			Probed:  []ProbeFinding{{"transport", "", "socket"}, {"rail", "", "socket"}},
			differs: `nccl`,
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_DISABLE=1\n"
				n.NCCL.TCP = true
			},
		},
		{
			Name: "nccl-rdma-off-efa", Platform: "efa",
			Summary: "healthy AWS instance whose NCCL uses EFA through a plugin",
			Truth: "NCCL_IB_DISABLE=1 is set in nccl.conf, as in many templates for EFA. NCCL's own transport needs queue " +
				"pairs that EFA does not have (no IBV_QPT_RC, providers/efa of rdma-core); aws-ofi-nccl does not read the " +
				"variable. Nothing is reported.",
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_IB_DISABLE=1\n" },
		},
		{
			Name: "nccl-timeout-99", Platform: h100,
			Summary: "NCCL_IB_TIMEOUT is greater than a queue pair can hold",
			Truth: "NCCL_IB_TIMEOUT=99 was intended as a long timeout. ncclIbQpRts (transport/net_ib/connect.cc) passes it " +
				"to ibv_modify_qp, and mlx5 keeps five bits (ack_timeout of struct mlx5_ifc_ads_bits): 3, which is 33 " +
				"microseconds. A packet that waits in a switch is retransmitted. Ports and addresses are correct.",
			Expect:  []Finding{{"", 0, "nccl_line_ignored"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.setNCCL("NCCL_IB_TIMEOUT=22\n", "NCCL_IB_TIMEOUT=99\n") },
		},
		{
			Name: "nccl-algo-unknown", Platform: h100,
			Summary: "NCCL_ALGO names an algorithm that does not exist",
			Truth: "NCCL_ALGO=Rings is a misspelled Ring. parseList (graph/tuning.cc) of NCCL 2.24 and later returns " +
				"ncclInvalidUsage for it: no communicator can be created, and every job of the host fails at its start.",
			Expect:  []Finding{{"", 0, "nccl_value_refused"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_ALGO=Rings\n" },
		},
		{
			Name: "nccl-hca-prefix", Platform: "oci-h100",
			Summary: "NCCL_IB_HCA without = also matches a NIC that it does not name",
			Truth: "NCCL_IB_HCA names the 16 ports of the cluster network, without the = of Oracle's own list. mlx5_1 is a " +
				"prefix, and also matches mlx5_11, a NIC of the virtual cloud network (matchIfList of misc/utils.cc).",
			Expect:  []Finding{{"", 0, "nccl_device_unnamed"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.setNCCL("NCCL_IB_HCA==", "NCCL_IB_HCA=") },
		},
		{
			Name: "nccl-hca-short", Platform: h100,
			Summary: "NCCL_IB_HCA names half of the training NICs",
			Truth: "NCCL_IB_HCA is that of a node with four NICs. NCCL uses mlx5_0 to mlx5_3 only, with half of the " +
				"bandwidth of the node (matchIfList of misc/utils.cc).",
			Expect:  []Finding{{"", 0, "nccl_device_left_out"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.setNCCL(",mlx5_4,mlx5_5,mlx5_6,mlx5_7\n", "\n") },
		},
		{
			Name: "nccl-deprecated", Platform: h100,
			Summary: "healthy node whose NCCL configuration uses deprecated names",
			Truth: "NCCL_MIN_NCHANNELS=16 and NCCL_MAX_NRINGS=32 are deprecated but still read (ncclMinNchannels and " +
				"ncclMaxNchannels of graph/connect.cc). That is reported with severity info, and no check of a higher severity " +
				"fails.",
			Expect:  []Finding{{"", 0, "nccl_note"}},
			differs: `nccl`,
			edit:    func(n *Node) { n.Files[ncclConf] += "NCCL_MIN_NCHANNELS=16\nNCCL_MAX_NRINGS=32\n" },
		},

		// Healthy nodes that look like broken ones at first sight.
		{
			Name: "compute-ports-surplus", Platform: "mixed-nics-roce",
			Summary: "a storage NIC looks like the training NICs",
			Truth: "The site added a ninth ConnectX-7 of the same board and rate for storage, and NCCL_IB_HCA of the host " +
				"takes it as all others. Training works as before; nine ports count as compute where eight are expected.",
			Expect: []Finding{{"", 0, "compute_ports_surplus"}},
			differs: `sys/devices/.*/infiniband/mlx5_[29](/.*)? sys/class/infiniband/mlx5_[29]
				sys/devices/.*/uverbs2/ibdev net:ens33np0/speed
				sys/devices/.*/0000:1c:00\.0/(config|device|current_link_speed|max_link_speed)
				sys/devices/.*/0000:17:08\.0/current_link_speed nccl`,
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_HCA=mlx5\n"
				h, rail := n.HCA("mlx5_2"), n.HCA("mlx5_0")
				h.Type, h.Board, h.Firmware, h.Ports[0].Rate = rail.Type, rail.Board, rail.Firmware, rail.Ports[0].Rate
				n.NetDev(h.Ports[0].NetDev).Speed = n.NetDev(rail.Ports[0].NetDev).Speed
				f := n.Function(h.PCI)
				f.Chip = n.Function(rail.PCI).Chip
				f.Link = f.Chip.Link
				h.Name = "mlx5_9" // of which the configuration knows nothing
			},
		},
		{
			Name: "adaptive-routing", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node with adaptive routing, whose packets arrive out of order",
			Truth: "The fabric routes each packet separately, and NCCL_IB_ADAPTIVE_ROUTING=1 states that to NCCL. One packet " +
				"in a hundred overtakes another and counts as out_of_sequence, equally on every rail. There are no NAKs, no " +
				"expired timers and no retransmissions. Nothing is reported.",
			differs: `port:mlx5_[0-7]/hw_counters/out_of_sequence nccl`,
			edit: func(n *Node) {
				n.Files[ncclConf] += "NCCL_IB_ADAPTIVE_ROUTING=1\n"
				for _, f := range onCompute("") {
					grow(n, f.Device, map[string]uint64{"out_of_sequence": 41_000})
				}
			},
		},
		{
			Name: "fresh-boot", Platform: h100, policy: losslessPolicy,
			Summary: "healthy node that has just booted",
			Truth: "All counters of all devices, ports and interfaces are zero, no process uses a GPU, and the PCIe links of " +
				"the idle GPUs run at 2.5 GT/s. Configuration, addresses and ports are correct. Nothing is reported.",
			differs: `sys/devices/.*/(counters|hw_counters|cm_[rt]x_\w+)/.* sys/devices/.*/statistics/.*
				ethernet/.*/(stats/.*|fec)
				nvml/\d/(Processes|Utilization|Memory|BAR1|ClockReasons|PCIeGeneration)
				sys/devices/.*/current_link_speed`,
			edit: func(n *Node) {
				n.quiet()
				n.idleGPUs()
			},
		},
		{
			Name: "mig-meant", Platform: a100,
			Summary: "healthy node with MIG on for all GPUs",
			Truth: "The site uses this node for inference and divides all eight GPUs. None differs from its peers, and the " +
				"network is normal. Nothing is reported.",
			differs: `nvml/\d/(MIG|Processes|Utilization|Memory|BAR1) nvml/pairs/\d-\d`,
			edit: func(n *Node) {
				for i := range n.GPUs {
					g := &n.GPUs[i]
					g.MIG, g.Processes = true, nil
				}
			},
		},

		// About what only a probe finds: every port, address and setting is as it should be.
		{
			Name: "probe-tcp-fallback", Platform: h100,
			Summary: "NCCL cannot open the RDMA devices and uses TCP",
			Truth: "An update removed the user space drivers of the NICs (rdma-core) from the image in which NCCL runs. NCCL " +
				"finds no device that it can open, reports that in its log only, and uses sockets over the management bond. The " +
				"kernel shows eight correct ports. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"transport", "", "socket"}, {"rail", "", "socket"}},
			edit:   func(n *Node) { n.NCCL.TCP = true },
		},
		{
			Name: "probe-gdr-lost", Platform: h100,
			Summary: "NCCL no longer uses GPUDirect RDMA, although nothing blocks it",
			Truth: "NCCL was built for a CUDA without dma-buf, and nvidia_peermem is not loaded because it was never needed " +
				"here: NCCL copies through host memory, at less than half of the bandwidth of a rail. As far as they show, " +
				"kernel, driver and bus allow GPUDirect RDMA. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"transport", "", "no_gpudirect"}, {"rail", "", "no_gpudirect"}},
			edit:   func(n *Node) { n.NCCL.NoGPUDirect = true },
		},
		{
			Name: "probe-slow", Platform: h100,
			Summary: "the bandwidth of one rail has dropped to 70 %",
			Truth: "The rail of mlx5_6 is slower than before, and no counter or setting shows why. The first slow result is " +
				"measured again a minute later, which confirms a regression; three in a row below 80 % of the baseline are a " +
				"collapse. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"rail", "mlx5_6", "slow"}},
			edit:   func(n *Node) { n.NCCL.Slow = append(n.NCCL.Slow, SlowHCA{"mlx5_6", 0.7}) },
		},
		{
			Name: "probe-wrong-result", Platform: h100,
			Summary: "one GPU occasionally computes wrong sums",
			Truth: "GPU 5 corrupts data without errors of its memory, its links or its driver. The probe of all GPUs " +
				"verifies every element and finds wrong ones: training on this node would be wrong, too. Only probes detect it: " +
				"see /probes.",
			Probed: []ProbeFinding{{"node", "", "wrong_result"}},
			edit:   func(n *Node) { n.NCCL.WrongGPU = 6 },
		},
		{
			Name: "probe-failing", Platform: h100,
			Summary: "collectives of all GPUs hang",
			Truth: "GPU 3 takes part in no collective over NVLink: the seven others wait for it until the probe of all GPUs " +
				"is killed at its deadline. Links and driver report no problem. Only probes detect it: see /probes.",
			Probed: []ProbeFinding{{"node", "", "hang"}},
			edit:   func(n *Node) { n.NCCL.HangingGPU = 4 },
		},
	}
}

// quiet puts every counter of devices, ports and interfaces to zero, where it stays.
func (n *Node) quiet() {
	for i := range n.HCAs {
		n.HCAs[i].silence(n)
	}
	for i := range n.NetDevs {
		n.NetDevs[i].silence()
	}
}

// silence puts every counter of a device, of its ports and of their interfaces to zero, where it stays.
func (h *HCA) silence(n *Node) {
	still(h.HW)
	for k := range h.Ports {
		p := &h.Ports[k]
		still(p.PMA)
		still(p.HW)
		still(p.CM)
		if d := n.NetDev(p.NetDev); d != nil {
			d.silence()
		}
	}
}

func (d *NetDev) silence() {
	still(d.Stats)
	d.Received, d.Sent, d.QoS.FEC.Corrected, d.QoS.FEC.Uncorrectable = Counter{}, Counter{}, Counter{}, Counter{}
}

func still(all []Statistic) {
	for i := range all {
		all[i].Start, all[i].PerStep = 0, 0
	}
}

// socketOver has nccl.conf name another interface.
func (n *Node) socketOver(was, is string) {
	n.setNCCL("NCCL_SOCKET_IFNAME="+was+"\n", "NCCL_SOCKET_IFNAME="+is+"\n")
}
