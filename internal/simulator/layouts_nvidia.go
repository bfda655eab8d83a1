// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
)

const (
	forStorage    = fabric.RoleStorage
	forManagement = fabric.RoleManagement
)

// spark has the NICs of a DGX Spark, of which some ports are without a cable.
func spark(dark ...int) []card {
	link := func(root, domain, names string) card {
		port := func(k int) string { return fmt.Sprintf("%sf%d", names, k) }
		return card{cx7(200).of(2).uncabled(dark...).udev(port(0), port(1)).at(root + "/" + domain + ":01:00").away(), 1}
	}
	first, second := link("0000:00:00.0", "0000", "rocep1s0"), link("0002:00:00.0", "0002", "roceP2p1s0")
	second.part = second.again()
	return []card{first, second}
}

// nvidiaLayouts are machines of NVIDIA. What cards a machine has is from the source of each; numbers of
// devices, PCI paths and addresses are assumed.
func nvidiaLayouts() []layout {
	vendor := func(product string) DMI { return DMI{Vendor: "NVIDIA", Product: product} }
	return []layout{
		{
			name:   "dgx-h100-ib",
			source: "https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html; order of devices: https://github.com/imbue-ai/cluster-health/issues/4",
			dmi:    vendor("DGXH100"), gpu: h100SXM, gpus: 8, cards: []card{
				{cx7IB(), 1}, {cx7(200).of(2).is(forStorage), 1}, {cx7IB(), 4}, {cx7(200).of(2).is(forStorage), 1}, {cx7IB(), 3},
			},
		},
		{
			name:   "dgx-h100-second-port-dark",
			source: "https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html; second ports without a link: https://github.com/imbue-ai/cluster-health/issues/4",
			dmi:    vendor("DGXH100"), gpu: h100SXM, gpus: 8, cards: []card{
				{cx7IB(), 1}, {cx7(200).of(2).uncabled(1).is(forStorage), 1}, {cx7IB(), 4}, {cx7(200).of(2).uncabled(1).is(forManagement), 1}, {cx7IB(), 3},
			},
		},
		{
			name:   "dgx-h100-storage-in-bond",
			source: "https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html; bonds: https://docs.nvidia.com/dgx-basepod/reference-architecture-infrastructure-foundation-enterprise-ai/latest/core-components.html",
			dmi:    vendor("DGXH100"), gpu: h100SXM, gpus: 8, cards: []card{
				{cx7IB(), 1}, {cx7(200).named("mlx5_bond_%d").inLAG().is(forStorage), 1}, {cx7IB(), 4}, {cx7(200).of(2).is(forStorage), 1}, {cx7IB(), 3},
			},
		},
		{
			name: "dgx-h200-roce", source: "https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html",
			dmi: vendor("DGXH200"), gpu: h200SXM, gpus: 8, cards: []card{
				{cx7(400), 1}, {cx7(200).of(2).is(forStorage), 1}, {cx7(400), 4}, {cx7(200).of(2).is(forStorage), 1}, {cx7(400), 3},
			},
		},
		{ // the four NVSwitches have functions that look like ConnectX-7
			name:   "dgx-b200-ib",
			source: "https://docs.nvidia.com/dgx/dgxb200-user-guide/introduction-to-dgxb200.html; bridges: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",
			dmi:    vendor("DGXB200"), gpu: b200SXM, gpus: 8, cards: []card{
				{cx7IB(), 4}, {cx7IB().ofSwitch(), 4}, {cx7IB(), 4}, {bf3(400).of(2).is(forStorage), 2},
			},
		},
		{
			name: "dgx-gb200-tray", source: "https://docs.nvidia.com/dgx/dgxgb200-user-guide/networking.html",
			dmi: vendor("DGX GB200"), arm: true, gpu: gb200, gpus: 4, cards: []card{
				{cx7IB(), 2}, {bf3(200).of(2).is(forStorage), 1}, {cx7IB(), 2}, {bf3(200).of(2).is(forStorage), 1},
			},
		},
		{ // as used by sites: one BlueField-3 carries the default route, its second port is dark
			name: "gb200-tray-one-bf3", source: "https://github.com/Mellanox/ngc_multinode_perf/pull/129",
			arm: true, gpu: gb200, gpus: 4, noPort: true, cards: []card{
				{cx7IB(), 4},
				{bf3(200).of(2).uncabled(1).with(dhcp).is(forManagement), 1},
			},
		},
		{ // each QSFP port is there twice, by two links of one card; one port has a cable, and only its devices have a link
			name:   "dgx-spark",
			source: "https://github.com/geerlingguy/sbc-reviews/issues/92; places: https://github.com/NVIDIA/k8s-launch-kit/pull/109",
			dmi:    vendor("NVIDIA_DGX_Spark"), arm: true, gpu: gb10, gpus: 1, numa: noNUMA, cards: spark(1),
		},
		{ // of several in a ring, both ports have a cable
			name: "dgx-spark-ring", source: "https://github.com/autoscriptlabs/nccl-mesh-plugin/pull/2",
			dmi: vendor("NVIDIA_DGX_Spark"), arm: true, gpu: gb10, gpus: 1, numa: noNUMA, cards: spark(),
		},
		{
			name: "gb200-tray-udev", source: "https://github.com/NVIDIA/NVSentinel, tests of its monitor of NICs",
			arm: true, gpu: gb200, gpus: 4, cards: []card{
				{cx7IB().udev("ibp3s0", "ibP2p3s0", "ibP16p3s0", "ibP18p3s0"), 4}, {bf3(200).udev("roceP6p3s0", "roceP22p3s0").is(forManagement), 2},
			},
		},
		{ // the port for Ethernet is no rail
			name:    "gb300-tray-udev",
			source:  "four devices at 800 Gb/s and one of Ethernet at 400: public notes on GB300 (the address is not known)",
			unknown: "gpudirect_usable", // Data Direct
			arm:     true, gpu: gb300, gpus: 4, cards: []card{
				{cx8IB().udev("ibp3s0", "ibP2p3s0", "ibP16p3s0", "ibP18p3s0"), 4}, {bf3(400).udev("roceP22p1s0f0").is(forStorage), 1},
			},
		},
		{
			name:   "b300-cx8-ib",
			source: "SMI device beside each: https://github.com/Mellanox/rdmamap/pull/17; https://docs.nvidia.com/dgx/dgxb300-user-guide/introduction-to-dgxb300.html",
			gpu:    b300SXM, gpus: 8, cards: []card{{cx8IB().withSMI(), 8}, {bf3(400).of(2).uncabled(1).is(forStorage), 2}},
		},
		{ // one device has twelve ports, of which every third carries a plane
			name: "b300-cx8-planes", source: "https://github.com/scitix/sichek/pull/98",
			gpu: b300SXM, gpus: 8, cards: []card{
				{cx8(200).of(12).inOne().uncabled(0, 1, 3, 4, 6, 7, 9, 10), 8},
				{bf3(200).of(2).uncabled(1).is(forStorage), 1},
			},
		},
		{
			name:    "gb300-cx8-smi",
			source:  "https://docs.nvidia.com/dgx/dgxgb300-user-guide/; SMI devices: https://github.com/openucx/ucx/pull/10507",
			unknown: "gpudirect_usable", // Data Direct
			arm:     true, gpu: gb300, gpus: 4, cards: []card{
				{cx8IB().withSMI(), 4},
				{bf3(200).of(2).uncabled(1).is(forStorage), 1},
			},
		},
	}
}
