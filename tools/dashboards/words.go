// SPDX-License-Identifier: Apache-2.0

package main

import (
	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/diagnose"
)

func severities() words {
	return words{"critical": {"critical", bad}, "warning": {"warning", warning}, "info": {"info", note}}
}

func yesNo(yes, no string) words { return words{"1": {"yes", yes}, "0": {"no", no}} }

// problems are what is so when a check fails, and runbooks the names of the pages about it.
func problems() (problems, runbooks words) {
	problems, runbooks = words{}, words{}
	for _, c := range diagnose.Catalogue() {
		problems[c.ID], runbooks[c.ID] = word{c.Title, ""}, word{"check-" + c.Topic, ""}
	}
	return problems, runbooks
}

// toRunbook leads from a cell that shows the name of a page to it.
func toRunbook() map[string]any {
	return link("Runbook: what it means and what to do", alerts.RunbookBase+"${__value.text}.md")
}

func objectives() words {
	return words{
		"port_availability": {"Ports are up at full rate", ""},
		"conformance":       {"Nodes are set up right", ""},
		"probe_success":     {"Probes succeed", ""},
		"probe_coverage":    {"Nodes were probed lately", ""},
		"bandwidth_quality": {"NCCL bandwidth is as before", ""},
		"probe_latency":     {"NCCL latency is as before", ""},
		"losslessness":      {"Lossless ports lose nothing", ""},
	}
}

func kinds() words {
	return words{
		"transport": {"transport (which way NCCL takes)", ""}, "node": {"node (all its GPUs)", ""}, "rail": {"rail (one NIC)", ""},
		"socket": {"socket (TCP, to compare with)", ""}, "calibrate": {"calibrate (by hand)", ""},
	}
}

func transports() words {
	return words{
		"none": {"none", ""}, "nvls": {"NVLink (NVLS)", good}, "p2p": {"NVLink or PCIe", good}, "shm": {"host memory", warning},
		"ib": {"RDMA", good}, "plugin": {"plugin", good}, "socket": {"TCP", bad},
	}
}
