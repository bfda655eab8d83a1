// SPDX-License-Identifier: Apache-2.0

package main

// told are alerts that say again what a check says, or speak of clusters.
const told = `GpuFabric(CheckFailed|PortDown|GidLost|DeviceStuck|GpuLost|RateDegraded|NvlinkDown|ComputePortsMissing|ErrorBudget.*)`

// open are the open findings: checks that failed and have not passed since (without the recording rules those that fail
// now), and alerts that fire. Those of probes are told once for all rails of a node. more are matchers, with a comma.
func open(more string) string {
	name := func(expr, from string) string {
		return `label_replace(label_replace(` + expr + `, "problem", "$1", "` + from + `", "(.*)"), "runbook", "$1", "` + from + `", "(.*)")`
	}
	const by = `max by (cluster, instance, severity, problem, runbook, device, port, uuid, pci_address) `
	return by + `(
  ` + name(`(check:gpufabric_check_failed:latched{`+more+`@node} == 1 or gpufabric_check_failed{`+more+`@node} == 1)`, "check") + `
  or
  ` + name(`ALERTS{alertname=~"GpuFabric.*",alertname!~"`+told+`|GpuFabricProbe.*",alertstate="firing",`+more+`@node}`, "alertname") + `
  or
  ` + name(`max by (cluster, instance, severity, alertname) (ALERTS{alertname=~"GpuFabricProbe.*",alertstate="firing",`+more+`@node})`, "alertname") + `
)`
}

func findings(t texts, w uint32) panel {
	return grid(about{"Open findings", "Checks that fail, or failed and cannot be told since, and alerts that fire. The runbook says what each means and what to do.", "nothing found; what cannot be told is counted above", w, 9},
		[]string{open("")}, "Severity",
		column{field: "severity", title: "Severity", words: severities(), width: 75},
		column{field: "instance", title: "Node", link: toNode(), width: 150},
		column{field: "problem", title: "What is wrong", words: t.problems},
		column{field: "device", title: "Device", width: 85},
		column{field: "port", title: "Port", width: 45},
		column{field: "uuid", title: "GPU", width: 110},
		column{field: "pci_address", title: "PCI address", width: 100},
		column{field: "runbook", title: "Runbook", words: t.runbooks, link: toRunbook(), width: 250},
		column{field: "cluster", title: "Cluster", width: 80})
}

// firing are the alerts of the exporter.
func firing() panel {
	return grid(about{"Firing alerts", "Alerts of the exporter that fire. Each name leads to its runbook.", "no alert fires, or the rules are not loaded", 24, 9},
		[]string{`max by (cluster, instance, alertname, severity, device, port) (ALERTS{alertname=~"GpuFabric.*",alertstate="firing",@node})`}, "Severity",
		column{field: "severity", title: "Severity", words: severities(), width: 80},
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "alertname", title: "Alert", link: toRunbook()},
		column{field: "device", title: "Device"},
		column{field: "port", title: "Port"},
		column{field: "cluster", title: "Cluster"})
}
