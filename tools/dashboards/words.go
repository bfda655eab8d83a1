// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/diagnose"
)

func severities() words {
	return words{"critical": {"critical", bad}, "warning": {"warning", warning}, "info": {"info", note}}
}

func yesNo(yes, no string) words { return words{"1": {"yes", yes}, "0": {"no", no}} }

// texts are what failing checks and firing alerts are called for people, and the names of the pages about them.
type texts struct{ problems, runbooks words }

func newTexts(groups []alerts.Group) texts {
	t := texts{words{}, words{}}
	for _, c := range diagnose.Catalogue() {
		t.problems[c.ID], t.runbooks[c.ID] = word{c.Title, ""}, word{"check-" + c.Topic, ""}
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if summary := r.Annotations["summary"]; r.Alert != "" && !strings.Contains(summary, "{{") {
				t.problems[r.Alert] = word{strings.TrimSuffix(summary, "."), ""}
			}
		}
	}
	return t
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
		"ib": {"RDMA", good}, "plugin": {"plugin", good}, "socket": {"TCP", bad}, "socket on purpose": {"TCP, to compare with", ""},
	}
}

// skips are why a probe that is due does not run.
func skips() words {
	return words{
		"cannot_prove_idle": {"nobody can tell that the GPUs are idle", warning},
		"process":           {"a process is on the GPUs", ""}, "memory": {"GPU memory is in use", ""}, "utilization": {"the GPUs are busy", ""},
		"mps": {"MPS is on", ""}, "mig": {"MIG is on", ""}, "compute_mode": {"compute mode forbids it", ""},
		"slurm": {"Slurm has a job there", ""}, "kubernetes": {"Kubernetes has a pod there", ""},
		"scheduler": {"a scheduler is not asked (probes.idle_command)", warning}, "site": {"the site says that the node is in use", ""}, "maintenance": {"maintenance", ""},
		"throttled": {"a GPU is throttled", warning}, "link_errors": {"NVLink errors", warning}, "persistence": {"persistence mode is off", warning},
		"locked": {"another probe runs", ""}, "duty": {"probes had their share of GPU time", ""},
		"no_gpu": {"no GPU answers", warning}, "no_device": {"the device is not there", warning},
		"untrusted": {"others could write what it loads", warning},
	}
}
