// SPDX-License-Identifier: Apache-2.0

package simulator

// cloudLayouts are instances of clouds. Profiles of the program (internal/profiles/builtin) have the sources
// of what they state again.
func cloudLayouts() []layout {
	azure := DMI{Vendor: "Microsoft Corporation", Product: "Virtual Machine", AssetTag: "7783-7084-3265-9085-8269-3286-77"}
	oracle := DMI{AssetTag: "OracleCloud.com"}
	return []layout{
		{ // virtual functions on buses of their own, and the one of accelerated networking
			name: "azure-nd-h100-v5", source: "https://github.com/Azure/azhpc-images/blob/master/topology/ndv5-topo.xml",
			dmi: azure, virtual: true, flat: true, gpu: h100SXM, gpus: 8, numa: noNUMA,
			cards: []card{{virtualIB(), 8}, {virtualRoCE(100).is(forManagement), 1}},
		},
		{
			name: "azure-nd-mi300x-v5", source: "https://github.com/sgl-project/sglang/issues/3622",
			dmi: azure, virtual: true, flat: true, gpu: mi300X, gpus: 8, numa: noNUMA,
			cards: []card{{virtualIB(), 8}, {virtualRoCE(100).is(forManagement), 1}},
		},
		{ // udev names what trains after the port, and the other one after what it is for
			name:   "azure-nd-h100-v5-udev",
			source: "names: https://github.com/Azure/azhpc-images, persistent names of RDMA devices",
			dmi:    azure, virtual: true, flat: true, gpu: h100SXM, gpus: 8, numa: noNUMA, cards: []card{
				{virtualIB().named("mlx5_ib%d"), 8}, {virtualRoCE(100).named("mlx5_an%d").is(forManagement), 1},
			},
		},
		{ // where two sets of rules met, the first one kept its name
			name: "azure-first-not-renamed", source: "https://github.com/Azure/az-hop/issues/394, of a machine with A100",
			dmi: azure, virtual: true, flat: true, gpu: h100SXM, gpus: 8, numa: noNUMA, cards: []card{
				{virtualIB().udev("mlx5_0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3", "mlx5_ib4", "mlx5_ib5", "mlx5_ib6", "mlx5_ib7"), 8},
				{virtualRoCE(100).named("mlx5_an%d").is(forManagement), 1},
			},
		},
		{
			name: "aws-p5", source: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
			dmi: DMI{Vendor: "Amazon EC2", Product: "p5.48xlarge"}, virtual: true, gpu: h100SXM, gpus: 8,
			cards: []card{{efaCard(), 32}},
		},
		{
			name: "aws-p5en", source: "https://github.com/meta-pytorch/torchx/blob/main/torchx/specs/named_resources_aws.py",
			dmi: DMI{Vendor: "Amazon EC2", Product: "p5en.48xlarge"}, virtual: true, gpu: h200SXM, gpus: 8,
			cards: []card{{efaCard(), 16}},
		},
		{
			name:   "oci-bm-gpu-h100-8",
			source: "https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/recommended-nccl-rccl-parameters-by-shape.md",
			dmi:    oracle, gpu: h100SXM, gpus: 8, noPort: true, cards: []card{
				{cx7(200).of(2), 1}, {cx6dx().with(dhcp).is(forManagement), 1}, {cx7(200).of(2), 4}, {cx6dx().uncabled(0).is(forManagement), 1}, {cx7(200).of(2), 3},
			},
		},
		{
			name: "gcp-a3-ultra", source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth",
			dmi: DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: h200SXM, gpus: 8,
			cards: []card{{virtualRoCE(400), 8}},
		},
		{
			name:   "gcp-a4",
			source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth; names: public experiments on A4 (the address is not known)",
			dmi:    DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: b200SXM, gpus: 8, cards: []card{
				{virtualRoCE(400).udev("rocep145s0", "rocep146s0", "rocep152s0", "rocep153s0", "rocep198s0", "rocep199s0", "rocep205s0", "rocep206s0"), 8},
			},
		},
		{ // MTU and routes of the RDMA networks come by DHCP, each with a default route
			name:   "gcp-a3-ultra-dhcp",
			source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth; routes are assumed",
			dmi:    DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: h200SXM, gpus: 8,
			cards: []card{{virtualRoCE(400).with(dhcp), 8}},
		},
	}
}

// serverLayouts are servers that sites put together, and how they cable and configure them.
func serverLayouts() []layout {
	hgx := func(l layout) layout {
		l.gpu, l.gpus = h100SXM, 8
		if l.cards == nil {
			l.cards = []card{{cx7(400), 8}}
		}
		return l
	}
	return []layout{
		{ // all of it belongs to guests but the NIC of the host
			name:   "hypervisor",
			source: "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-kubevirt.html",
			gpu:    h100SXM, gpus: 8, without: true, noPort: true,
			cards: []card{{cx7IB().toGuest(), 8}, {cx6dx().of(2).uncabled(1).with(dhcp).is(forManagement), 1}},
		},
		hgx(layout{
			name: "pfs-beside-vf-rails", source: "https://github.com/sgl-project/sglang/issues/4572",
			cards: []card{{cx7(400).withVFs(4), 8}, {cx6dx().of(2).is(forStorage), 1}},
		}),
		hgx(layout{
			name: "thor2-two-ports", source: "https://github.com/openucx/ucx/issues/11048",
			cards: []card{{thor(400).of(2).uncabled(1), 8}},
		}),
		hgx(layout{ // each rail is two ports in a bond, one at each GPU
			name: "lag-rails", source: "https://github.com/NVIDIA/nccl/pull/2150",
			cards: []card{{cx7(200).named("mlx5_bond_%d").inLAG(), 8}},
		}),
		hgx(layout{ // the first bond is for storage
			name:   "lag-rails-from-one",
			source: "NCCL_IB_HCA with mlx5_bond_1 to mlx5_bond_8: public scripts of training (the address is not known)",
			cards: []card{
				{cx7(200).named("mlx5_bond_%d").inLAG().is(forStorage), 1},
				{cx7(200).named("mlx5_bond_%d").inLAG(), 8},
			},
		}),
		{
			name: "lag-cx8", source: "https://github.com/deepseek-ai/DeepEP/pull/705", unknown: "gpudirect_usable",
			gpu: b300SXM, gpus: 8, cards: []card{{cx8(400).named("mlx5_bond_%d").inLAG(), 8}},
		},
		{
			name:   "mi300x-thor2-lag",
			source: "eight devices bnxt_re_bond0 to 7 at 400 Gb/s: public notes on MI308X (the address is not known)",
			gpu:    mi300X, gpus: 8, cards: []card{{thor(400).named("bnxt_re_bond%d").inLAG(), 8}},
		},
		{ // rails and the card for the rest have the same chip
			name:   "ucs-885a-bf3",
			source: "https://github.com/NVIDIA/k8s-launch-kit/blob/aa1fef72c7cfcce13c7830b41a19d106fb8ead78/presets/UCSC-885A-M8-H22/topology.yaml",
			dmi:    DMI{Vendor: "Cisco Systems Inc", Product: "UCSC-885A-M8-H22"}, gpu: h200SXM, gpus: 8, cards: []card{
				{bf3(400).udev("rocep9s0f0", "rocep35s0f0", "rocep83s0f0", "rocep105s0f0"), 4},
				{bf3(200).udev("rocep53s0f0").is(forStorage), 1},
				{bf3(400).udev("rocep143s0f0", "rocep156s0f0", "rocep205s0f0", "rocep241s0f0"), 4},
			},
		},
		{ // four of eight GPUs have no NIC at their root port, and two cards no GPU
			name:   "sr675-two-port-ib",
			source: "https://github.com/NVIDIA/k8s-launch-kit/blob/7e9cc565e30e119cb825dda67b4a3d94e6d7bd85/presets/ThinkSystem-SR675-V3-RTX-PRO-6000/topology.yaml; GPUs of another kind",
			gpu:    h100PCIe, gpus: 8, alone: 4, cards: []card{
				{cx6dx().of(2).is(forManagement), 1}, {ndr200().of(2).away(), 1}, {ndr200().of(2), 2}, {ndr200().of(2).away(), 1}, {bf3(200).of(2).is(forStorage), 1},
			},
		},
		hgx(layout{ // four ports at 100 Gb/s in one bond of the kernel are for everything else
			name: "front-end-bond", source: "https://github.com/diogoaav/bm-gpu-interfaces-mapping", noPort: true, cards: []card{
				{cx7(400), 1}, {cx6dx().of(2).inBond("bond0").is(forManagement), 1}, {cx7(400), 4}, {cx6dx().of(2).inBond("bond0").is(forManagement), 1}, {cx7(400), 3},
			},
		}),
		{
			name: "e810-two-ports", source: "one cable each; GUIDs: https://github.com/linux-rdma/rdma-core (providers/irdma)",
			gpu: l40s, gpus: 4, cards: []card{{e810C().of(2).uncabled(1), 2}},
		},
		{
			name: "pollara-two-ports", source: "https://github.com/ROCm/rocm-systems/pull/3654",
			gpu: mi300X, gpus: 8, cards: []card{{pollara400().of(2).uncabled(1), 8}},
		},
		{
			name: "mi300x-thor2", source: "https://instinct.docs.amd.com/projects/gpu-cluster-networking",
			gpu: mi300X, gpus: 8, cards: []card{{thor(400), 8}, {boardPort(25).of(2).is(forManagement), 1}},
		},
		{ // eight GPUs, four NICs below switches of the first four
			name: "pcie-gpus-without-nic", source: "https://github.com/NVIDIA/nccl/issues/595",
			gpu: h100PCIe, gpus: 8, alone: 4, cards: []card{{cx7(400), 4}},
		},
		hgx(layout{name: "no-numa", source: "https://github.com/NVIDIA/nccl/issues/1264", numa: noNUMA}),
		hgx(layout{ // slots for sixteen, cables for eight
			name: "never-cabled", source: "https://github.com/deepseek-ai/DeepEP/issues/38",
			cards: []card{{cx7(400).of(2).uncabled(1), 8}},
		}),
		hgx(layout{
			name: "rails-with-dhcp", source: "https://github.com/NVIDIA/nccl-tests/issues/185; routes are assumed", noPort: true,
			cards: []card{{cx7(400).with(dhcp), 8}, {cx7(200).of(2).away().is(forStorage), 1}},
		}),
		hgx(layout{
			name: "rails-with-equal-metric", source: "default of systemd-networkd, systemd.network(5): RouteMetric",
			noPort: true,
			cards:  []card{{cx7(400).with(dhcpEqual), 8}, {cx7(200).of(2).with(dhcpEqual).is(forStorage), 1}},
		}),
		hgx(layout{
			name:   "rails-before-main-board",
			source: "NetworkManager, ipv4.route-metric: metrics count up from 100; order is assumed", lowest: true,
			cards: []card{{cx7(400).with(dhcpEqual), 8}, {cx7(200).of(2).is(forStorage), 1}},
		}),
		hgx(layout{
			name: "rails-advertised", source: "RFC 4861, default routers; IPv6 only", noPort: true,
			cards: []card{{cx7(400).with(advertised), 8}, {cx7(200).of(2).is(forStorage), 1}},
		}),
		hgx(layout{
			name:   "storage-of-the-same-board",
			source: "InfiniBand for training and storage by one kind of card; numbers are assumed",
			cards:  []card{{cx7IB(), 8}, {cx7IB().is(forStorage), 1}},
		}),
		{
			name: "storage-of-the-same-board-two-gpus", source: "the same with one rail on each socket", gpu: h100PCIe, gpus: 2,
			cards: []card{{cx7IB(), 2}, {cx7IB().is(forStorage), 1}},
		},
		{
			name:   "nics-far-from-gpus",
			source: "https://github.com/NVIDIA/nccl/issues/595: NICs and GPUs below root ports of their own",
			gpu:    h100PCIe, gpus: 4, cards: []card{{cx7(400).away(), 2}},
		},
		hgx(layout{ // a port of the main board at 1 Gb/s has an RDMA device, whose rate the core rounds to 2.5
			name: "board-port-rate", source: "ib_get_eth_speed of drivers/infiniband/core/verbs.c", noPort: true,
			cards: []card{{cx7(400), 8}, {boardPort(1).of(2).uncabled(1).with(dhcp).is(forManagement), 1}},
		}),
		hgx(layout{
			name:   "seventeen-ports",
			source: "https://github.com/nebius/ml-cookbook/pull/43: a NIC like the others that the list leaves out",
			cards:  []card{{cx7(400), 16}, {cx7(400).is(forStorage), 1}},
		}),
		hgx(layout{
			name: "list-excludes", source: "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",
			list:  "^mlx5_8",
			cards: []card{{cx7(400), 8}, {cx7(400).is(forStorage), 1}},
		}),
	}
}
