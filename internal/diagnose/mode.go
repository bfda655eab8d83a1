// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"

	"gpufabric_exporter/internal/verdict"
)

// Modes returns every mode that is known: those that checks find, in the order of the checks, then the others.
func Modes() []verdict.Mode {
	var list []verdict.Mode
	for _, c := range allChecks() {
		for _, m := range c.Modes {
			if !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
	}
	return append(list, withoutCheck()...)
}

// withoutCheck are the modes that only alert rules find, and those that nothing does.
func withoutCheck() []verdict.Mode {
	return []verdict.Mode{
		{ID: "link_flapping", Text: "A link goes down and comes back.", Alert: "GpuFabricLinkFlapping"},
		{ID: "link_integrity", Text: "A link retrains or has recoverable errors.", Alert: "GpuFabricLinkUnstable"},
		{ID: "post_fec_errors", Text: "Errors remain after error correction.", Alert: "GpuFabricPostFecErrors"},
		{ID: "gid_changed", Text: "GIDs change while jobs run.", Alert: "GpuFabricGidChanged"},
		{ID: "retransmissions", Text: "Packets are lost and sent again.", Alert: "GpuFabricRetransmissions"},
		{ID: "queue_pair_death", Text: "Connections fail because retries are exhausted.", Alert: "GpuFabricQpDeath"},
		{ID: "slow_receiver", Text: "The host receives data too slowly.", Alert: "GpuFabricSlowReceiver"},
		{ID: "rail_imbalance", Text: "One rail carries less than the others.", Alert: "GpuFabricRailImbalance"},
		{ID: "traffic_stopped", Text: "RDMA stops while GPUs work.", Alert: "GpuFabricTrafficStopped"},
		{ID: "tcp_fallback", Text: "Training runs over TCP.", Alert: "GpuFabricTrainingOnTcpSuspected"},
		{ID: "tcp_on_rdma_nic", Text: "TCP uses the bandwidth of an RDMA NIC.", Alert: "GpuFabricTcpOnRdmaNic"},
		{ID: "nvlink_errors", Text: "NVLinks have errors.", Alert: "GpuFabricNvlinkErrors"},
		{ID: "pcie_errors", Text: "A PCIe link reports errors (AER).", Alert: "GpuFabricPcieErrors"},
		{ID: "pre_fec_errors", Text: "Corrected bit errors increase.", Gap: "some are normal at 100 Gb/s and above; gpufabric_ethernet_fec_bit_corrections_total shows the trend"},
		{ID: "module_hot", Text: "A transceiver is too hot or gets too little power.", Gap: "reported in the kernel log; the counter of ethtool -S of mlx5 (module_high_temp) is not exported"},
		{ID: "duplicate_address", Text: "Two nodes have one address, or a rail has no route.", Gap: "not visible on one node; routes of rails are not read"},
		{ID: "peermem_refuses", Text: "nvidia-peermem reports invalid contexts.", Gap: "reported only in the kernel log"},
		{ID: "adaptive_routing_wrong", Text: "NCCL_IB_ADAPTIVE_ROUTING or NCCL_IB_SL does not fit the InfiniBand fabric.", Gap: "known only to the subnet manager"},
	}
}
