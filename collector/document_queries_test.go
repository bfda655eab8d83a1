// SPDX-License-Identifier: Apache-2.0

package collector

import "maps"

// query is an example of a query.
type query struct{ answers, expr string }

// queries returns examples for the metrics of each collector. Package rules of tools compares them with the catalogue.
func queries() map[string][]query {
	all := portQueries()
	maps.Copy(all, gpuQueries())
	return all
}

// portQueries are those of the exporter, RDMA devices and interfaces.
func portQueries() map[string][]query {
	return map[string][]query{
		"": {
			{"Collectors that could not read what they need", `gpufabric_scrape_collector_success == 0`},
			{"What is unknown, by node and reason", `sum by (cluster, instance, reason) (gpufabric_exporter_facts_unknown) > 0`},
			{"Requests to drivers per second, by kind", `sum by (kind) (rate(gpufabric_exporter_driver_commands_total[5m]))`},
		},
		"hca": {
			{"Ports of role compute that are not active", `gpufabric_hca_port_state{state="active"} == 0 and on (cluster, job, instance, device, port) gpufabric_hca_port_info{role="compute"}`},
			{"Ports below the expected rate, as a share of it", `gpufabric_hca_port_rate_bytes_per_second / gpufabric_hca_port_expected_rate_bytes_per_second < 1`},
			{"Devices by board and firmware", `count by (board_id, firmware_version) (gpufabric_hca_info)`},
		},
		"gid": {
			{"Ports by index of the GID that NCCL selects", `count_values("index", gpufabric_gid_selected_index)`},
			{"Ports without a GID that matches what NCCL looks for", `gpufabric_gid_selected_index{reason="fallback"}`},
			{"Ports whose GIDs changed within an hour", `increase(gpufabric_gid_changes_total[1h]) > 0`},
		},
		"nccl": {
			{"Nodes whose NCCL configuration has findings, by rule", `gpufabric_nccl_config_findings > 0`},
			{"Nodes that set NCCL variables for all jobs", `gpufabric_nccl_config_variables > 0`},
			{"Rules that are found on most nodes", `topk(5, count by (rule) (gpufabric_nccl_config_findings > 0))`},
		},
		"counters": {
			{"Bytes received per second, by port", `rate(gpufabric_hca_port_received_data_bytes_total[5m])`},
			{"Share of the rate that a port sends", `rate(gpufabric_hca_port_transmitted_data_bytes_total[5m]) / gpufabric_hca_port_rate_bytes_per_second`},
			{"Packets lost on the way to this port, per second", `rate(gpufabric_hca_out_of_sequence_total[5m]) > 0`},
			{"Notifications of congestion received per second", `rate(gpufabric_hca_cnp_handled_total[5m])`},
			{"Counters that no longer count", `gpufabric_hca_counter_saturated == 1`},
		},
		"cm": {
			{"Connection requests received per second", `rate(gpufabric_cm_received_messages_total{message="req"}[5m])`},
			{"Messages that were sent again, per second", `sum by (cluster, instance, device, message) (rate(gpufabric_cm_transmit_retries_total[5m])) > 0`},
			{"Messages that arrived twice, as a share of all", `rate(gpufabric_cm_received_duplicates_total[5m]) / rate(gpufabric_cm_received_messages_total[5m])`},
		},
		"ethernet": {
			{"Share of time for which the network pauses a priority", `rate(gpufabric_roce_received_pause_seconds_total[5m])`},
			{"Share of the bytes of an interface that are RDMA", `rate(gpufabric_ethernet_received_rdma_unicast_bytes_total[5m]) / (rate(gpufabric_ethernet_received_rdma_unicast_bytes_total[5m]) + rate(gpufabric_ethernet_received_other_unicast_bytes_total[5m]))`},
			{"Packets discarded per second, by priority", `rate(gpufabric_roce_received_discards_total[5m]) > 0`},
			{"Links that went down within an hour", `increase(gpufabric_ethernet_link_down_events_total[1h]) > 0`},
		},
		"roce": {
			{"Ports whose RoCE settings contradict each other, by the first wrong step", `gpufabric_roce_chain_broken == 1`},
			{"Ports by DSCP of their RDMA traffic", `count_values("dscp", gpufabric_roce_dscp)`},
			{"Nodes with more than one set of RoCE settings", `count by (cluster, instance) (count by (cluster, instance, hash) (gpufabric_roce_configuration_info)) > 1`},
		},
		"dcqcn": {
			{"Values of a parameter over all ports", `count_values("value", gpufabric_roce_congestion_control_parameter{parameter="rp_ai_rate"})`},
			{"Parameters that differ between the ports of a node", `stddev by (cluster, instance, parameter) (gpufabric_roce_congestion_control_parameter) > 0`},
			{"Parameters of one port", `gpufabric_roce_congestion_control_parameter{instance="gpu-001", device="mlx5_0"}`},
		},
	}
}

// gpuQueries are those of the bus, GPUs, jobs, probes and checks.
func gpuQueries() map[string][]query {
	return map[string][]query{
		"pcie": {
			{"Links below the capability of both ends", `gpufabric_pcie_link_degraded == 1`},
			{"Lanes that are missing", `gpufabric_pcie_link_max_width - on (cluster, job, instance, device) gpufabric_pcie_link_width{device!=""} > 0`},
			{"GPUs by distance to their NIC", `count by (class) (gpufabric_gpu_nic_distance)`},
			{"PCIe errors within an hour, by severity", `increase(gpufabric_pcie_aer_errors_total[1h]) > 0`},
		},
		"gpu": {
			{"GPUs that the driver has lost", `gpufabric_gpu_lost == 1`},
			{"Nodes by version of the driver", `count by (version) (gpufabric_gpu_driver_info)`},
			{"Share of GPU memory in use, by node", `sum by (cluster, instance) (gpufabric_gpu_memory_used_bytes) / sum by (cluster, instance) (gpufabric_gpu_memory_total_bytes)`},
			{"GPUs that the hardware throttles, by reason", `gpufabric_gpu_throttled == 1`},
		},
		"nvlink": {
			{"GPUs with NVLinks that are not active", `gpufabric_nvlink_links_active < gpufabric_nvlink_links`},
			{"NVLink errors within an hour, by kind", `increase(gpufabric_nvlink_errors_total[1h]) > 0`},
			{"Speed of all NVLinks of a GPU, where GPUs of a node differ", `stddev by (cluster, instance) (gpufabric_nvlink_bytes_per_second) > 0`},
		},
		"nvlink_links": {
			{"Links that are not active", `gpufabric_nvlink_link_active == 0`},
			{"Links with errors within an hour, by kind", `increase(gpufabric_nvlink_link_errors_total[1h]) > 0`},
			{"Links slower than the fastest of their GPU", `gpufabric_nvlink_link_bytes_per_second < on (cluster, job, instance, uuid) group_left () max by (cluster, instance, uuid) (gpufabric_nvlink_link_bytes_per_second)`},
		},
		"gpudirect": {
			{"GPUs for which NCCL would not use GPUDirect RDMA, with the reason", `gpufabric_gpudirect_blocked == 1`},
			{"GPUs by path: dmabuf or peermem", `count by (path) (gpufabric_gpudirect_path == 1)`},
			{"GPUs for which it is unknown, by reason", `count by (reason) (gpufabric_gpudirect_unknown)`},
		},
		"job": {
			{"Jobs that use TCP, confirmed", `gpufabric_job_transport{transport="tcp"} == 1 and on (cluster, job, instance, training_job) gpufabric_job_transport_confirmed == 1`},
			{"Ranks of each job, over all nodes", `sum by (cluster, training_job) (gpufabric_job_ranks)`},
			{"Jobs with settings that do harm, by rule", `gpufabric_job_misconfigured == 1`},
			{"Bandwidth of AllReduce, by job", `avg by (cluster, training_job) (gpufabric_job_bus_bandwidth_bytes_per_second{collective="AllReduce"})`},
		},
		"log": {
			{"Failures in logs within an hour, by signature", `sum by (cluster, instance, signature) (increase(gpufabric_log_failures_total[1h])) > 0`},
			{"Time since a failure was last seen", `time() - gpufabric_log_failure_last_seen_timestamp_seconds`},
			{"Logs that could not be read, by reason", `gpufabric_log_files_refused > 0`},
		},
		"probe": {
			{"Probes below the site's share of their baseline", `gpufabric_probe_baseline_ratio < gpufabric_probe_expected_ratio`},
			{"Probes that ran over TCP", `gpufabric_probe_transport{transport="socket"} == 1`},
			{"Time since the last success of each probe", `time() - gpufabric_probe_last_success_timestamp_seconds`},
			{"Share of the GPUs' time that probes use", `sum by (cluster, instance) (rate(gpufabric_probe_gpu_seconds_total[1h])) / sum by (cluster, instance) (gpufabric_node_gpus)`},
		},
		"ping": {
			{"Rails that lose messages, with the share", `sum by (cluster, instance, device) (rate(gpufabric_ping_lost_total[5m])) / sum by (cluster, instance, device) (rate(gpufabric_ping_messages_total[5m])) > 0`},
			{"Median of the round-trip times to other leaves", `histogram_quantile(0.5, sum by (cluster, instance, device, le) (rate(gpufabric_ping_rtt_seconds_bucket{peers="fabric"}[5m])))`},
			{"Rails with a dead one among several equal paths", `increase(gpufabric_ping_flows_lost_total[10m]) > 0`},
			{"Time of a message in its own host, where NICs have times", `rate(gpufabric_ping_host_seconds_total[5m]) / sum without (peers, clock) (rate(gpufabric_ping_rtt_seconds_count[5m]))`},
			{"Rails that lose messages to all their peers", `gpufabric_ping_fault{fault="rail"} == 1`},
			{"Rails that are not pinged from, by reason", `count by (cluster, reason) (gpufabric_ping_uncovered)`},
		},
		"check": {
			{"Failed checks of severity critical", `gpufabric_check_failed{severity="critical"} == 1`},
			{"Checks that are unknown, by reason", `count by (check, reason) (gpufabric_check_unknown == 1)`},
			{"Nodes for which no check fails", `count(sum by (cluster, instance) (gpufabric_check_failed) == 0)`},
		},
	}
}
