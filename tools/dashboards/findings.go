// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/diagnose"
)

// told are alerts that say again what a check says. They are findings where the checks are switched off.
const told = `GpuFabric(PortDown|GidLost|DeviceStuck|GpuLost|RateDegraded|NvlinkDown|ComputePortsMissing)`

const checksOff = "checks are switched off"

// others are alerts that are no findings of their own: each check is one, and objectives are those of a cluster.
const others = `GpuFabric(CheckFailed|ErrorBudget.*)`

// open are the open findings: checks that failed and have not passed since (without the recording rules those that fail
// now), and alerts that fire. The value is when a finding was first seen, in seconds since 1970, or 1 where no rule recorded
// it. more are matchers, with a comma.
func open(more string) string {
	return found(failed(more), more, others)
}

// openWarnings are those of severity warning. A silent exporter is not among them: it is counted apart.
func openWarnings() string {
	more := of(diagnose.Warning)
	return found(failed(more), more, others+"|"+exporterDown)
}

func failed(more string) string {
	return `check:gpufabric_check_failed:since_timestamp_seconds{` + more + `@node} or check:gpufabric_check_failed:latched{` + more + `@node} == 1 or gpufabric_check_failed{` + more + `@node} == 1`
}

// recorded are the open findings of which the rules recorded when they were first seen: cheap to ask over time.
func recorded(more string) string {
	return found(`check:gpufabric_check_failed:since_timestamp_seconds{`+more+`@node}`, more, others)
}

func found(checks, more, but string) string {
	alert := `alertname=~"GpuFabric.*",alertname!~"` + but + `"`
	return `(
  label_replace(
    ` + checks + `,
    "problem", "$1", "check", "(.*)"
  )
  or
  label_replace(
    (ALERTS_FOR_STATE{` + alert + `,alertname!~"` + told + `",` + more + `@node} or ALERTS_FOR_STATE{alertname=~"` + told + `",` + more + `@node} and on (cluster, instance) ` + unchecked + `)
    and ignoring (alertstate) ALERTS{` + alert + `,alertstate="firing",` + more + `@node},
    "problem", "$1", "alertname", "(.*)"
  )
)`
}

// problems are the open findings of each node, however many devices and GPUs have them.
func problems(findings string) string {
	return `count by (cluster, instance, problem) (` + findings + `)`
}

// placed are the open findings with the number of the GPU, as in tables; of one without a driver the PCI address.
func placed() string {
	const id = `cluster, instance, severity, problem, device, uuid, pci_address`
	all := `min by (` + id + `) (` + open("") + `)`
	by := func(name string) string {
		return all + ` * on (cluster, instance, ` + name + `) group_left (gpu) max by (cluster, instance, ` + name + `, gpu) (label_replace(gpufabric_gpu_info{` + name + `!="",@node}, "gpu", "$1", "index", "(.+)"))`
	}
	return by("uuid") + `
or on (` + id + `)
` + by("pci_address") + `
or on (` + id + `)
label_replace(` + all + `, "gpu", "$1", "pci_address", "(.+)")`
}

// Problems that break training or are the cause of others come before the rest of their severity, partial losses and what
// follows from others after it.
const (
	causesFirst   = `port_active|gpu_lost|gpu_listed|reads_return|gid_.+|GpuFabric(PortDown|GpuLost|Device.+|GidLost|JobOnTcp.*|TrainingOnTcpSuspected|TcpOnRdmaNic|ProbeTransportSocket|ProbeWrongResult|PfcStorm)`
	followersLast = `compute_ports|nvlink_.+|GpuFabric(ComputePortsMissing|Nvlink.+|GidChanged|ProbeBandwidth.+|ErrorBudget.+)`
)

const exporterDown = "GpuFabricExporterDown"

// ranked gives findings the place of their severity, and an order: by severity, then by impact. A silent node comes after
// what is critical: nothing is known of it.
func ranked(expr string) string {
	return `max without (place, sorted) (label_join(` + placedBySeverity(expr) + `, "` + order + `", " ", "sorted", "place", "problem"))`
}

// rankedByNode is the same for many nodes, in the order of their worst findings. all are the findings that decide about nodes.
func rankedByNode(expr, all string) string {
	return `max without (place, sorted, worst) (label_join(` + placedBySeverity(expr) + `
* on (cluster, instance) group_left (worst) count_values by (cluster, instance) ("worst", ` + worst(all) + `), "` + order + `", " ", "worst", "instance", "sorted", "place", "problem"))`
}

// placedBySeverity gives findings the labels rank, sorted (by which ranks are in order) and place: their impact within the severity.
func placedBySeverity(expr string) string {
	for _, s := range diagnose.Severities() {
		expr = fmt.Sprintf(`label_replace(%s, "rank", "%d", "severity", "%s")`, expr, s.Rank(), s)
	}
	expr = `label_replace(label_replace(label_replace(` + expr + `, "place", "1", "", ""), "place", "0", "problem", "` + causesFirst + `"), "place", "2", "problem", "` + followersLast + `")`
	expr = `label_replace(label_replace(` + expr + `, "place", "0", "problem", "` + exporterDown + `"), "rank", "silent", "problem", "` + exporterDown + `")`
	return `label_replace(label_replace(` + expr + `, "sorted", "$1", "rank", "(.*)"), "sorted", "0 silent", "rank", "silent")`
}

// worst is the place of the worst finding of each node, of two digits: 10 to 12 for critical, 19 for silent nodes, 20 to 22 for warnings.
func worst(findings string) string {
	values := func(label string, of map[string]int) string {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(of)) {
			all = append(all, fmt.Sprintf(`label_replace(vector(%d), "%s", "%s", "", "")`, of[name], label, name))
		}
		return `max by (` + label + `) (` + strings.Join(all, " or ") + `)`
	}
	ranks := map[string]int{"0 silent": 19}
	for _, s := range diagnose.Severities() {
		ranks[strconv.Itoa(s.Rank())] = 10 * (s.Rank() + 1)
	}
	return `min by (cluster, instance) (
  0 * max by (cluster, instance, sorted, place) (` + placedBySeverity(findings) + `)
  + on (sorted) group_left () ` + values("sorted", ranks) + `
  + on (place) group_left () ` + values("place", map[string]int{"0": 0, "1": 1, "2": 2}) + `
)`
}

// measured are what is and what should be, for problems that have numbers. More than one of a node are all there.
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
	const port, gpu, whole = "cluster, job, instance, device, port", "cluster, job, instance, uuid", "cluster, job, instance"
	const up = `sum by (` + whole + `) (gpufabric_node_compute_ports{@node})`
	return `count by (cluster, instance, problem, measured) (
` + of("port_rate", "Gb/s", port, `8e-9 * (gpufabric_hca_port_rate_bytes_per_second{@node} < gpufabric_hca_port_expected_rate_bytes_per_second{@node})`, `8e-9 * gpufabric_hca_port_expected_rate_bytes_per_second{@node}`) + `
or ` + of("nvlink_active", "links down", gpu, `gpufabric_nvlink_links{@node} - gpufabric_nvlink_links_active{@node} > 0`, `gpufabric_nvlink_links{@node}`) + `
or ` + of("compute_ports", "ports missing", whole, `gpufabric_node_compute_ports_expected{@node} - `+up+` > 0`, `gpufabric_node_compute_ports_expected{@node}`) + `
or ` + share("GpuFabricPfcStorm", "of the time", `max by (cluster, instance) (max without (priority) (rate(gpufabric_roce_transmitted_pause_seconds_total{@node}[5m])) or rate(gpufabric_ethernet_transmitted_pause_seconds_total{@node}[5m]))`) + `
or ` + share("GpuFabricPausedByNetwork", "of the time", `max by (cluster, instance) (max without (priority) (rate(gpufabric_roce_received_pause_seconds_total{@node}[5m])) or rate(gpufabric_ethernet_received_pause_seconds_total{@node}[5m]))`) + `
or ` + share("GpuFabricProbeBandwidthCollapsed", "of baseline", slowest) + `
or ` + share("GpuFabricProbeBandwidthRegression", "of baseline", slowest) + `
or ` + explained("GpuFabricProbeTransportSocket", "socket") + `
or ` + explained("GpuFabricProbeBandwidthCollapsed", "slow") + `
or ` + explained("GpuFabricProbeBandwidthRegression", "regressed") + `
)
and on (cluster, instance, problem) ` + problems(open("")) + `
or label_replace(label_replace(count_values("measured", count(` + unchecked + `)), "measured", "nodes: $1", "measured", "(.*)"), "problem", "` + checksOff + `", "", "")`
}

// explained are the causes of a fault of probes, in words.
func explained(problem, fault string) string {
	expr := `count by (cluster, instance, cause) (gpufabric_probe_fault_cause{fault="` + fault + `",@node})`
	texts := probeCauses()
	for _, cause := range slices.Sorted(maps.Keys(texts)) {
		expr = `label_replace(` + expr + `, "measured", "` + texts[cause].text + `", "cause", "` + cause + `")`
	}
	return `label_replace(` + expr + `, "problem", "` + problem + `", "", "")`
}

// slowest is the worst probe of a node.
const slowest = `min by (cluster, instance) (gpufabric_probe_baseline_ratio{kind!="socket",@node})`

// caveats are rows before the findings where these cannot be told: no exporter answers, or checks are switched off.
func caveats(found string) string {
	found += "\nor label_replace(" + absent(sortedFirst) + " + 0 * count(" + unchecked + `), "problem", "` + checksOff + `", "", "")`
	const (
		said = `unless on () ALERTS{alertname="` + exporterDown + `",alertstate="firing",@node}` // which is a finding
		last = `label_replace(1000 * max(instance:gpufabric_node_info:last_seen_timestamp_seconds{@node}) + 0 * max(` + silence + ` == -1)
  unless on () gpufabric_node_info{@node}, "problem", "exporter silent", "", "")`
	)
	return `label_replace(label_replace(label_replace(label_replace(` + found + `
or (` + last + orSilent("", "problem") + `) ` + said + `,
  "runbook", "` + exporterDown + `", "problem", "exporter (silent|never answered)|no exporter"), "runbook", "GpuFabricCheckFailed", "problem", "` + checksOff + `"),
  "rank", "silent", "problem", "exporter (silent|never answered)|no exporter"), "rank", "unknown", "problem", "` + checksOff + `")`
}

// exporterSilent is what a page about one node says while all that is known of it is old.
var exporterSilent = word{"The exporter does not answer: since then nothing is known, and what is below is empty or old", ""}

// listed gives findings a label with each device or GPU that they concern.
func listed(expr, name, of string) string {
	return `label_replace(` + expr + `, "` + name + `", "$1", "` + of + `", "(.+)")`
}

// counted does the same where a problem of a node concerns one or two of them. Of more it gives the number: their names would be
// cut off. by is the label that tells them apart in findings.
func counted(expr, name, of, by string) string {
	const each = `cluster, instance, severity, problem`
	number := `count_values by (` + each + `) ("` + name + `",
  count by (` + each + `) (count by (` + each + `, ` + by + `) (` + open(by+`!="",`) + `)) or 0 * count by (` + each + `) (` + open("") + `))`
	expr = `label_join(` + expr + ` * on (` + each + `) group_left (` + name + `) ` + number + `, "` + name + `", " ", "` + name + `", "` + of + `")`
	return `label_replace(label_replace(` + expr + `, "` + name + `", "$1", "` + name + `", "[012] (.*)"), "` + name + `", "$1 ` + name + `", "` + name + `", "([0-9]+) .*")`
}

// findings are the open findings, one for each node and problem. A page about one node has no columns for it.
func findings(t texts, oneNode bool, h uint32) panel {
	found := `1000 * min by (cluster, instance, severity, problem, runbook, device, gpu) (label_replace(` + placed() + `, "runbook", "$1", "problem", "(.*)"))`
	devices, gpus, numbers, problems := 130, 105, 280, maps.Clone(t.problems)
	if oneNode {
		found = listed(listed(found, "devices", "device"), "GPUs", "gpu")
		devices, gpus, numbers = 445, 170, 240
		problems[exporterDown], problems["exporter silent"] = exporterSilent, exporterSilent
	} else {
		found = counted(counted(found, "devices", "device", "device"), "GPUs", "gpu", "uuid")
	}
	return grid(about{"Open findings", "Checks that fail, or failed and cannot be evaluated since, and alerts that fire: one line for each node and problem. Nodes with the most severe finding come first, and on each node causes before what follows from them. First seen is when the rules first saw the problem; marks in graphs are at the same time. The problem links to its runbook, a device to its port.", "no findings", width, h},
		[]string{caveats(rankedByNode(found, open(""))), measured()}, "",
		column{field: "rank", title: "Severity", words: ranks(), width: 85},
		column{field: "instance", title: "Node", link: toNode(), width: 110, hidden: oneNode},
		column{field: "problem", title: "What is wrong", words: problems, link: toRunbookOfRow()},
		column{field: "devices", title: "Device", all: true, link: link("Port", portURL+keepRow+"&var-instance=${__data.fields.Node}&var-device=${__data.fields."+first+"}&${__url_time_range}"), width: devices},
		column{field: "device", title: first, one: true, hidden: true},
		column{field: "GPUs", title: "GPU", all: true, width: gpus},
		column{field: "measured", title: "Measured, or cause", all: true, width: numbers},
		column{field: "A", title: "First seen", unit: "time:MMM D HH:mm", none: "-", words: words{"1000": {"unknown", ""}}, width: 115},
		column{field: "cluster", title: "Cluster", width: 80, hidden: oneNode},
		column{field: "runbook", title: "Runbook", words: t.runbooks, hidden: true})
}

// firing are the alerts of the exporter.
func firing() panel {
	alerts := `label_replace(max by (cluster, instance, alertname, severity, device, port) (ALERTS{alertname=~"GpuFabric.*",alertstate="firing",@node}), "problem", "$1", "alertname", "(.*)")`
	return grid(about{"Firing alerts", "Alerts of the exporter that fire. Each name leads to its runbook.", "no alert fires, or the rules are not loaded", 24, 9},
		[]string{rankedByNode(alerts, alerts)}, "",
		column{field: "rank", title: "Severity", words: ranks(), width: 80},
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "alertname", title: "Alert", link: toRunbook()},
		column{field: "device", title: "Device", link: toPortOf("Node")},
		column{field: "port", title: "Port"},
		column{field: "cluster", title: "Cluster"},
		column{field: "severity"})
}
