// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"

	"gpufabric_exporter/internal/verdict"
)

// open are the open findings, by when they were detected, in seconds since 1970. more are matchers, with a comma.
func open(more string) string {
	return `finding:gpufabric_finding:since{` + more + `@node}`
}

// openWarnings are those of severity warning. A silent exporter is not among them: it is counted apart.
func openWarnings() string {
	return open(of(verdict.Warning) + `problem!~"` + silentProblems + `",`)
}

// problems are the open findings of each node, however many devices and GPUs have them.
func problems(findings string) string {
	return `count by (cluster, instance, problem) (` + findings + `)`
}

// nameGPU gives series with the labels index and pci_address the label gpu: both, since drivers use the one
// for a GPU and the kernel the other.
func nameGPU(expr string) string {
	return `label_replace(label_join(` + expr +
		`, "gpu", " ", "index", "pci_address"), "gpu", "$1 ($2)", "gpu", "(.+) (.+)")`
}

// Of findings of the same severity, wrong results come first, then causes, the rest, and what follows from others.
const (
	wrongFirst    = `GpuFabric(ProbeWrongResult)`
	causesFirst   = `port_active|gpu_lost|gpu_listed|reads_return|gid_.+|GpuFabric(PortDown|GpuLost|Device.+|GidLost|JobOnTcp.*|TrainingOnTcpSuspected|TcpOnRdmaNic|ProbeTransportSocket|PfcStorm)`
	followersLast = `compute_ports|GpuFabric(ComputePortsMissing|GidChanged|ProbeBandwidth.+|ErrorBudget.+)`
)

const (
	exporterDown   = "GpuFabricExporterDown"
	silentProblems = exporterDown + "|" + neverAnswered
	rankSilent     = "0 silent" // after critical
)

// Findings that are neither a check nor an alert. Each is an anchor of its runbook.
const (
	neverAnswered     = "exporter-never-answered"
	exporterIsSilent  = "exporter-silent"
	noExporter        = "no-exporter"
	checksOff         = "checks-off"
	checksUnknown     = "checks-unknown"
	noFindings        = "no-findings"
	exporterRestarted = "exporter-restarted"
	nodeRestarted     = "node-restarted"

	nothingKnown = exporterIsSilent + "|" + neverAnswered + "|" + noExporter
)

// ownRows are the titles and the runbooks of findings that are neither a check nor an alert.
func ownRows() map[string]struct{ title, page string } {
	return map[string]struct{ title, page string }{
		neverAnswered:     {"The exporter never answered", exporterDown},
		exporterIsSilent:  {"The exporter does not answer", exporterDown},
		noExporter:        {"No exporter is known", exporterDown},
		checksOff:         {"Checks are switched off", "GpuFabricCheckFailed"},
		checksUnknown:     {"Nothing found, but checks have no verdict", "GpuFabricCheckFailed"},
		noFindings:        {"No findings", "GpuFabricCheckFailed"},
		exporterRestarted: {"The exporter restarted, or read its configuration", "GpuFabricExporterUnstable"},
		nodeRestarted:     {"The node restarted", "GpuFabricExporterUnstable"},
	}
}

// restarted are the nodes and exporters that restarted last, and when. A rollout restarts all: five say so.
func restarted() string {
	of := func(what, problem string) string {
		return `label_replace(instance:gpufabric_node_info:restarted_timestamp_seconds{restarted="` + what +
			`",@node}, "problem", "` + problem + `", "", "")`
	}
	return `label_replace(topk(5, ` + of("node", nodeRestarted) + ` or on (cluster, instance) ` +
		of("exporter", exporterRestarted) + `), "severity", "` + string(verdict.Info) + `", "", "")`
}

// neverSeen is the time of a finding that has no time: the exporter never answered.
const neverSeen = "2000"

// ranked gives findings their place by severity and impact, and an order for those of one place that were detected at
// the same time. A silent node comes after what is critical: nothing is known of it.
func ranked(expr string) string {
	return `max without (place) (label_join(` + placedBySeverity(expr) + `, "` + order + `", " ", "instance", "problem"))`
}

// Places of findings of one severity; the rules know the last.
const placeOfWrong, placeOfCause, placeOfRest, placeOfFollower = "0", "1", "2", "3"

// bySeverity are the titles of the columns that tables of findings are sorted by.
const bySeverity, bySince = "Severity", "Detected"

// placedBySeverity gives findings the label rank, by which columns sort them: their severity, and their impact within
// it, which is the label place where they have none yet.
func placedBySeverity(expr string) string {
	for _, s := range verdict.Severities() {
		expr = fmt.Sprintf(`label_replace(%s, "rank", "%d", "severity", "%s")`, expr, s.Rank(), s)
	}
	place := func(place, label, pattern string) {
		expr = `label_replace(` + expr + `, "place", "` + place + `", "` + label + `", "` + pattern + `")`
	}
	place(placeOfRest, "place", "")
	place(placeOfWrong, "problem", wrongFirst)
	place(placeOfCause, "problem", causesFirst)
	place(placeOfFollower, "problem", followersLast)
	return `label_replace(label_join(` + expr + `, "rank", " ", "rank", "place"), "rank", "` + rankSilent + `", "problem", "` +
		silentProblems + `")`
}

// worst is the place of each node by its findings: those of the most severe, by when it was detected.
func worst(findings string) string {
	expr := findings
	for _, s := range verdict.Severities() {
		expr = fmt.Sprintf(`label_replace(%s, "rank", "%d", "severity", "%s")`, expr, 2*s.Rank(), s)
	}
	expr = `label_replace(` + expr + `, "rank", "1", "problem", "` + silentProblems + `")`
	return `min by (cluster, instance) (
  min by (cluster, instance, rank) (` + expr + `)
  + on (rank) group_left () ` + places() + `
)`
}

// places are numbers for ranks, so far apart that times fit between them.
func places() string {
	var all []string
	for i := range 2*len(verdict.Severities()) - 1 {
		all = append(all, fmt.Sprintf(`label_replace(vector(%de10), "rank", "%d", "", "")`, i+1, i))
	}
	return `max by (rank) (` + strings.Join(all, " or ") + `)`
}

// caveats are rows before the findings where these are not known: no exporter answers, checks are switched
// off, or have no verdict. That there are none is a row, too: a table without rows had no answer. open are
// the findings alone, of is a matcher of checks.
func caveats(found, open, of string) string {
	unknown := `gpufabric_check_unknown{` + of + `} == 1`
	without := func(known, problem string) string {
		return "\nor label_replace(" + absent(sortedFirst) + " + 0 * max(" + known + ") unless on () " + open +
			`, "problem", "` + problem + `", "", "")`
	}
	found += without(unknown, checksUnknown) + without(`instance:gpufabric_node_info:last_seen_timestamp_seconds{@node} and on (cluster, job, instance) gpufabric_check_failed{@node}
  unless on () (`+unknown+` or `+unchecked+` or `+silence+`)`, noFindings)
	found += "\nor label_replace(" + absent(sortedFirst) + " + 0 * " + listedUnchecked + `, "problem", "` + checksOff +
		`", "", "")`
	const (
		said = `unless on () ALERTS{alertname="` + exporterDown + `",alertstate="firing",@node}` // which is a finding
		last = `label_replace(1000 * max(instance:gpufabric_node_info:last_seen_timestamp_seconds{@node}) + 0 * max(` + silence + ` == -1)
  unless on () gpufabric_node_info{@node}, "problem", "` + exporterIsSilent + `", "", "")`
	)
	return `label_replace(label_replace(label_replace(` + found + `
or (` + last + orSilentIn("", "problem") + `) ` + said + `,
  "rank", "` + rankSilent + `", "problem", "` + nothingKnown + `"), "rank", "unknown", "problem", "` + checksOff + "|" + checksUnknown + `"), "rank", "none", "problem", "` + noFindings + `")`
}

// What a page about one node says while all that is known of it is old, or nothing is.
var (
	exporterSilent = word{"The exporter does not answer: what is below is empty or old", ""}
	exporterNever  = word{"The exporter never answered: nothing is known of this node", ""}
)

// listed gives findings a label with each device or GPU that they concern.
func listed(expr, name, of string) string {
	return `label_replace(` + expr + `, "` + name + `", "$1", "` + of + `", "(.+)")`
}

// counted does the same where a problem of a node concerns few of them, most of them. Of more it gives the
// number: their names would be cut off. by is the label by which they differ in findings.
func counted(expr, name, of, by string, most int) string {
	const each = `cluster, instance, severity, problem`
	number := `count_values by (` + each + `) ("` + name + `",
  count by (` + each + `) (count by (` + each + `, ` + by + `) (` + open(by+`!="",`) + `)) or 0 * count by (` + each + `) (` + open("") + `))`
	expr = `label_join(` + expr + ` * on (` + each + `) group_left (` + name + `) ` + number + `, "` + name +
		`", " ", "` + name + `", "` + of + `")`
	few, many := fmt.Sprintf("[0-%d]", most), fmt.Sprintf("[%d-9]|[0-9]{2,}", most+1)
	return `label_replace(label_replace(` + expr + `, "` + name + `", "$1 ` + name + `", "` + name + `", "(` + many +
		`) .*"), "` + name + `", "$1", "` + name + `", "` + few + ` (.*)")`
}

// findings are the open findings, one for each node and problem. A page about one node has no columns for it.
func findings(t texts, oneNode bool, h uint32) panel {
	found := listed(`1000 * min by (cluster, instance, severity, problem, device, gpu, training_job, place) (finding:gpufabric_finding:listed{@node})`,
		"jobs", "training_job")
	problems := maps.Clone(t.problems)
	what := column{field: "problem", title: "What is wrong", words: problems, link: toRunbookOfRow()}
	where := column{
		field: "where", title: "Device, GPU or job", all: true,
		link: toConcerned(), width: 156,
	}
	columns := []column{{field: "rank", title: bySeverity, words: ranks(), width: 84}}
	found = `label_replace(` + found + `, "gpu", "GPU $1", "gpu", "(.+)")`
	if oneNode {
		found = `label_join(` + listed(listed(found, "devices", "device"), "GPUs", "gpu") +
			`, "where", ", ", "devices", "GPUs", "jobs")`
		what.width, where.width = 440, 0
		problems[exporterDown], problems[exporterIsSilent], problems[neverAnswered] = exporterSilent, exporterSilent,
			exporterNever
	} else {
		what.width = 408
		// The column has room for 18 characters of the name of a job, of which the last tell jobs apart.
		found = `label_replace(` + found + `, "jobs", "…$1", "jobs", ".{3,}(.{17})")`
		found = `label_join(` + counted(counted(found, "devices", "device", "device", 2), "GPUs", "gpu", "uuid", 1) +
			`, "where", ", ", "devices", "GPUs", "jobs")`
		columns = append(columns, column{field: "instance", title: "Node", link: toNode(), least: 105})
	}
	found = `label_replace(` + found + `, "where", "$1", "where", "(?:, )*(.*?)(?:, )*")`
	found = "(" + found + "\nor 1000 * max by (cluster, instance, severity, problem) (" + restarted() + "))"
	columns = append(columns, what, where,
		column{field: "measured", title: "Measured, or its cause", all: true, width: 259},
		column{field: "A", title: bySince, unit: "time:MMM D HH:mm", none: "-", words: noTimes(), width: 110},
		column{field: "cluster", title: "Cluster", width: ofCluster, hidden: oneNode},
		column{field: "runbook", title: "Runbook", words: t.runbooks, hidden: true},
		column{field: "page", title: page, one: true, hidden: true},
		column{field: "target", title: target, one: true, hidden: true})
	return grid(about{
		findingsTitle,
		"Checks that fail, or failed and cannot be evaluated since, alerts that fire, and the five nodes or exporters that restarted last in the last hour: one line for each node and problem. The order is by severity; of one severity wrong results come first, then causes, and last what follows from others; then by when it was detected, the oldest first. Detected is when the rules found the problem, which can be minutes after it began; lines in graphs are at the same time. The problem links to its runbook, a device to its port (of two to that of the first), a GPU and a number of devices to the node, and a job to its board.", "unknown: no answer, or the recording rules are not loaded", width, h,
	},
		[]string{concerned(caveats(ranked(found), open(""), "@node")), measured()}, bySeverity+","+bySince,
		columns...)
}

// findingsTitle is that of the panel.
const findingsTitle = "Open findings"

// Titles of hidden columns for the link of what a finding concerns: the dashboard, and the parameter that
// selects it there.
const page, target = "Page", "Target"

// The values of page: ends of the addresses of dashboards.
const pageOfPort, pageOfNode, pageOfJob = "port/gpu-fabric-port", "node/gpu-fabric-node", "jobs/gpu-fabric-jobs"

// concerned gives findings the labels runbook, and page and target: the port of the device that a finding is about,
// or its job on all of its nodes, or else its node, with all devices. A name of a job with characters of addresses
// leads to the node.
func concerned(expr string) string {
	to := func(expr, page, target, label, value string) string {
		return `label_replace(label_replace(` + expr + `, "page", "` + page + `", "` + label + `", "` + value +
			`"), "target", "` + target + `", "` + label + `", "` + value + `")`
	}
	const all = "var-device=All"
	expr = to(expr, pageOfNode, all, "", "")
	expr = to(expr, pageOfPort, "var-device=$1", "device", "(.+)")
	expr = `label_join(` + to(expr, pageOfNode, all, "where", "[0-9]+ devices.*") + `, "target", "&var-instance=", "target", "instance")`
	return `label_replace(` + to(expr, pageOfJob, "var-training_job=$1", "training_job", "([A-Za-z0-9._/-]+)") +
		`, "runbook", "$1", "problem", "(.*)")`
}

// toConcerned leads from a finding to what it concerns.
func toConcerned() map[string]any {
	return link("Port, node or job",
		"/d/gpufabric-${__data.fields."+page+"}"+keepRow+"&${__data.fields."+target+"}&${__url_time_range}")
}

// noTimes are the values of a finding that are no times.
func noTimes() words {
	return words{neverSeen: {"never", ""}}
}

// firing are the alerts of the exporter.
func firing() panel {
	const by = `cluster, instance, alertname, severity, device, port, training_job`
	firing := `max by (` + by + `, uuid) (ALERTS{alertname=~"GpuFabric.*",alertstate="firing",@node})`
	alerts := `label_replace(max by (` + by + `, index) (` + firing + ` * on (cluster, instance, uuid) group_left (index) topk by (cluster, instance, uuid) (1, group by (cluster, instance, uuid, index) (gpufabric_gpu_info{uuid!="",@node}))
or ignoring (index) ` + firing + `), "problem", "$1", "alertname", "(.*)")`
	return grid(about{
		"Firing alerts", "Alerts of the exporter that fire. Each name leads to its runbook.",
		"no alert fires, or the rules are not loaded", 24, 9,
	},
		[]string{ranked(alerts)}, bySeverity,
		column{field: "rank", title: bySeverity, words: ranks(), width: 85},
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "alertname", title: "Alert", link: toRunbook()},
		column{field: "device", title: "Device", link: toPortOf("Node")},
		column{field: "port", title: "Port", width: 50},
		column{field: "index", title: "GPU", width: 55},
		column{field: "training_job", title: "Job", link: toJob()},
		column{field: "cluster", title: "Cluster", width: ofCluster},
		column{field: "severity"}, column{field: "problem"})
}
