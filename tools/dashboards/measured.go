// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"

	ncclsettings "gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/probes"
)

// measured are measured and expected values, for problems that have numbers. More than one of a node are all there.
func measured() string {
	of := func(problem, unit, by, is, should string) string {
		text := func(name, expr string) string {
			return `count_values by (` + by + `) ("` + name + `", ` + expr + `)`
		}
		return `label_replace(label_replace(
  label_join(` + text("is", is) + ` * on (` + by + `) group_left (should) ` + text("should", should) + `, "measured", " of ", "is", "should"),
  "measured", "$1 ` + unit + `", "measured", "(.*)"), "problem", "` + problem + `", "", "")`
	}
	share := func(problem, of, expr string) string {
		return `label_replace(label_replace(
  count_values by (cluster, instance) ("measured", round(100 * ` + expr + `)),
  "measured", "$1 % ` + of + `", "measured", "(.*)"), "problem", "` + problem + `", "", "")`
	}
	// What a finding follows from: another finding on the same labels.
	follows := func(problem, is, on, cause, of string) string {
		return `label_replace(label_replace(count by (cluster, instance) (` + is + ` and on (` + on + `) ` + of +
			`), "measured", "follows: ` + cause + `", "", ""), "problem", "` + problem + `", "", "")`
	}
	fires := func(name string) string { return `ALERTS{alertname="` + name + `",alertstate="firing",@node}` }
	fails := func(check string) string { return `gpufabric_check_failed{check="` + check + `",@node} == 1` }
	const port, gpu, whole = "cluster, job, instance, device, port", "cluster, job, instance, uuid",
		"cluster, job, instance"
	const up = `sum by (` + whole + `) (gpufabric_node_compute_ports{@node})`
	return `count by (cluster, instance, problem, measured) (
` + linkState() + `
or ` + of("port_rate", "Gb/s", port, `8e-9 * (gpufabric_hca_port_rate_bytes_per_second{@node} < gpufabric_hca_port_expected_rate_bytes_per_second{@node})`, `8e-9 * gpufabric_hca_port_expected_rate_bytes_per_second{@node}`) + `
or ` + of("nvlink_active", "links down", gpu, `gpufabric_nvlink_links{@node} - gpufabric_nvlink_links_active{@node} > 0`, `gpufabric_nvlink_links{@node}`) + `
or ` + of("compute_ports", "ports missing", whole, `gpufabric_node_compute_ports_expected{@node} - `+up+` > 0`, `gpufabric_node_compute_ports_expected{@node}`) + `
or ` + share("GpuFabricPfcStorm", "of the time", `max by (cluster, instance) (max without (priority) (rate(gpufabric_roce_transmitted_pause_seconds_total{@node}[5m])) or rate(gpufabric_ethernet_transmitted_pause_seconds_total{@node}[5m]))`) + `
or ` + share("GpuFabricPausedByNetwork", "of the time", `max by (cluster, instance) (max without (priority) (rate(gpufabric_roce_received_pause_seconds_total{@node}[5m])) or rate(gpufabric_ethernet_received_pause_seconds_total{@node}[5m]))`) + `
or ` + share("GpuFabricProbeBandwidthCollapsed", "of baseline", slowest) + `
or ` + share("GpuFabricProbeBandwidthRegression", "of baseline", slowest) + `
or ` + follows("GpuFabricGidChanged", fires("GpuFabricGidChanged"), "cluster, instance, device, port", "no RoCE v2 address for NCCL", fails("gid_usable")) + `
or ` + follows("GpuFabricSlowReceiver", fires("GpuFabricSlowReceiver"), "cluster, instance, device, port", "the PFC storm of this host", fires("GpuFabricPfcStorm")) + `
or ` + follows("compute_ports", fails("compute_ports"), "cluster, instance", "a port is not active", fails("port_active")) + `
or ` + trafficClass() + `
or ` + ncclFindings() + `
or ` + onTCPBecause("GpuFabricJobOnTcp") + `
or ` + onTCPBecause("GpuFabricJobOnTcpSuspected") + `
or ` + misconfigured() + `
or label_replace(label_replace(
  count_values by (cluster, instance) ("measured", round(1e-9 * (sum by (cluster, instance) (instance:gpufabric_hca_port_transmitted_data_bytes:rate2m{@node}) > 1e9))),
  "measured", "RDMA: $1 GB/s", "measured", "(.*)"), "problem", "GpuFabricProbeTransportSocket", "", "")
or ` + explained("GpuFabricProbeTransportSocket", "socket") + `
or ` + explained("GpuFabricProbeBandwidthCollapsed", "slow") + `
or ` + explained("GpuFabricProbeBandwidthRegression", "regressed") + `
)
and on (cluster, instance, problem) ` + problems(open("")) + `
or label_replace(label_replace(count_values("measured", count(` + unchecked + `) > 5), "measured", "nodes: $1", "measured", "(.*)"), "problem", "` + checksOff + `", "", "")`
}

// linkState is the physical state of ports that are not active: disabled by the host, or without a partner.
func linkState() string {
	expr := `count by (cluster, instance, state) (gpufabric_hca_port_physical_state{@node} == 1
  and on (cluster, job, instance, device, port) (port:gpufabric_hca_port_state:down_since_timestamp_seconds{@node} or gpufabric_check_failed{check="port_active",@node} == 1))`
	expr = `label_replace(` + expr + `, "measured", "Link: $1", "state", "(.+)")`
	states := physicalStates()
	for _, state := range slices.Sorted(maps.Keys(states)) {
		expr = `label_replace(` + expr + `, "measured", "Link: ` + states[state].text + `", "state", "` + state + `")`
	}
	return `label_replace(` + expr + `, "problem", "port_active", "", "") or label_replace(` + expr +
		`, "problem", "GpuFabricPortDown", "", "")`
}

// ncclFindings are the rules that the configuration of NCCL breaks, as words.
func ncclFindings() string {
	const rule, priority = `gpufabric_nccl_config_findings{@node} > 0`, "NCCL_IB_TC is a priority"
	expr := `label_replace(count by (cluster, instance, rule) (` + rule + `), "measured", "$1", "rule", "(.*)")`
	expr = `label_replace(` + expr + `, "measured", "` + priority + `", "rule", "` + ncclsettings.RuleTCLikePriority + `")`
	for range 3 { // the most underscores of another rule
		expr = `label_replace(` + expr + `, "measured", "$1 $2", "measured", "([a-z_ ]+)_([a-z ]+)")`
	}
	return `label_replace(` + expr + `, "problem", "nccl_configuration", "", "")`
}

// trafficClass is what the packets of ports carry whose DSCP is wrong. A value below 8 beside that finding
// about the configuration of NCCL is NCCL_IB_TC, given as a priority.
func trafficClass() string {
	const (
		port  = `cluster, job, instance, device, port`
		class = `gpufabric_roce_traffic_class{@node} and on (` + port +
			`) gpufabric_check_failed{check="roce_dscp",@node} == 1`
		priority = `(` + class +
			`) < 8 and on (cluster, job, instance) gpufabric_nccl_config_findings{rule="ib_tc_looks_like_a_priority",@node} > 0`
	)
	text := func(expr, text string) string {
		return `label_replace(count_values by (cluster, instance) ("measured", ` + expr + `), "measured", "` + text +
			`", "measured", "(.*)")`
	}
	return `label_replace(` + text(priority, "NCCL_IB_TC=$1, a priority") + ` or ` +
		text(class+` unless on (`+port+`) (`+priority+`)`, "traffic class $1") + `, "problem", "roce_dscp", "", "")`
}

// worded puts the texts of values of a label into the label measured of findings of a problem.
func worded(expr, label, problem string, texts words) string {
	for _, value := range slices.Sorted(maps.Keys(texts)) {
		expr = `label_replace(` + expr + `, "measured", "` + texts[value].text + `", "` + label + `", "` + value + `")`
	}
	return `label_replace(` + expr + `, "problem", "` + problem + `", "", "")`
}

// onTCPBecause are the causes of jobs on TCP that an alert is about.
func onTCPBecause(alert string) string {
	return worded(`count by (cluster, instance, cause) (gpufabric_job_info{cause!="",@node}
  and on (cluster, instance, training_job) ALERTS{alertname="`+alert+`",alertstate="firing",@node})`, "cause", alert, causes())
}

// misconfigured are the rules that jobs break.
func misconfigured() string {
	const alert = "GpuFabricJobMisconfigured"
	return worded(`count by (cluster, instance, rule) (ALERTS{alertname="`+alert+`",alertstate="firing",@node})`, "rule",
		alert, jobRulesWords())
}

// explained are the causes of a fault of probes: another finding on the same GPUs or port, or what NCCL or
// the result says.
func explained(problem, fault string) string {
	cause := `gpufabric_probe_fault_cause{fault="` + fault + `",@node}`
	if fault != "socket" {
		const probe = `cluster, job, instance, kind, device, port`
		cause = `max by (` + probe + `, cause) (` + explaining("@node") + `) and on (` + probe + `) ` + cause + ` or on (` +
			probe + `) ` + cause
	}
	return worded(`count by (cluster, instance, cause) (`+cause+`)`, "cause", problem, shortCauses())
}

// shortCauses are what explains a fault of probes, for a narrow column. Keys of findings are patterns of checks.
func shortCauses() words {
	w := probeCauses()
	w[string(probes.CauseNoDevice)] = word{"no device found", ""}
	w[string(probes.CauseDisabled)] = word{"NCCL_IB_DISABLE", ""}
	w[string(probes.CauseSocketSelected)] = word{"NCCL_NET=Socket", ""}
	w[string(probes.CauseNotLogged)] = word{"not logged", ""}
	w[string(probes.CauseNoDifference)] = word{"no setting changed", ""}
	w[string(probes.CauseGPUDirect)] = word{"GPUDirect changed", ""}
	w[string(probes.CauseChannels)] = word{"channels changed", ""}
	w[string(probes.CauseSettings)] = word{"settings changed", ""}
	w[string(probes.CauseVersions)] = word{"versions changed", ""}
	w[string(probes.CauseSwitchSums)] = word{"NVLS changed", ""}
	for pattern, text := range map[string]string{
		"port_active": "port not active", "port_rate": "port is slow", "port_rate_.+": "rate of port",
		"nvlink_.+": "NVLinks", "gpu_.+": "GPU", "pcie_.+": "PCIe", "gid_.+": "address", "roce_.+": "RoCE settings",
		stormAlert: "sends a PFC storm",
	} {
		w[pattern] = word{text, ""}
	}
	return w
}

// slowest is the worst probe of a node.
const slowest = `min by (cluster, instance) (gpufabric_probe_baseline_ratio{kind!="socket",@node})`
