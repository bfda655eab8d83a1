// SPDX-License-Identifier: Apache-2.0

package simulator

// cloudLayouts are instances of clouds. Profiles of the program (internal/profiles/builtin) have the sources of what they state again.
func cloudLayouts() []layout {
	azure := DMI{Vendor: "Microsoft Corporation", Product: "Virtual Machine", AssetTag: "7783-7084-3265-9085-8269-3286-77"}
	oracle := DMI{AssetTag: "OracleCloud.com"}
	return []layout{
		{ // virtual functions on buses of their own, and the one of accelerated networking
			name: "azure-nd-h100-v5", source: "https://github.com/Azure/azhpc-images/blob/master/topology/ndv5-topo.xml",
			dmi: azure, virtual: true, flat: true, gpu: h100SXM, gpus: 8, numa: noNUMA, cards: []card{{virtualIB(), 8}, {virtualRoCE(100).is(forManagement), 1}},
		},
		{
			name: "azure-nd-mi300x-v5", source: "https://github.com/sgl-project/sglang/issues/3622",
			dmi: azure, virtual: true, flat: true, gpu: mi300X, gpus: 8, numa: noNUMA, cards: []card{{virtualIB(), 8}, {virtualRoCE(100).is(forManagement), 1}},
		},
		{ // udev names what trains after the port, and the other one after what it is for
			name: "azure-nd-h100-v5-udev", source: "names: https://github.com/Azure/azhpc-images, persistent names of RDMA devices",
			dmi: azure, virtual: true, flat: true, gpu: h100SXM, gpus: 8, numa: noNUMA, cards: []card{
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
			dmi: DMI{Vendor: "Amazon EC2", Product: "p5.48xlarge"}, virtual: true, gpu: h100SXM, gpus: 8, cards: []card{{efaCard(), 32}},
		},
		{
			name: "aws-p5en", source: "https://github.com/meta-pytorch/torchx/blob/main/torchx/specs/named_resources_aws.py",
			dmi: DMI{Vendor: "Amazon EC2", Product: "p5en.48xlarge"}, virtual: true, gpu: h200SXM, gpus: 8, cards: []card{{efaCard(), 16}},
		},
		{
			name: "oci-bm-gpu-h100-8", source: "https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/recommended-nccl-rccl-parameters-by-shape.md",
			dmi: oracle, gpu: h100SXM, gpus: 8, noPort: true, cards: []card{
				{cx7(200).of(2), 1}, {cx6dx().with(dhcp).is(forManagement), 1}, {cx7(200).of(2), 4}, {cx6dx().uncabled(0).is(forManagement), 1}, {cx7(200).of(2), 3},
			},
		},
		{
			name: "gcp-a3-ultra", source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth",
			dmi: DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: h200SXM, gpus: 8, cards: []card{{virtualRoCE(400), 8}},
		},
		{
			name: "gcp-a4", source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth; names: public experiments on A4 (the address is not known)",
			dmi: DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: b200SXM, gpus: 8, cards: []card{
				{virtualRoCE(400).udev("rocep145s0", "rocep146s0", "rocep152s0", "rocep153s0", "rocep198s0", "rocep199s0", "rocep205s0", "rocep206s0"), 8},
			},
		},
		{ // MTU and routes of the RDMA networks come by DHCP, each with a default route
			name: "gcp-a3-ultra-dhcp", source: "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth; routes are made up",
			dmi: DMI{Vendor: "Google", Product: "Google Compute Engine"}, virtual: true, gpu: h200SXM, gpus: 8, cards: []card{{virtualRoCE(400).with(dhcp), 8}},
		},
	}
}
