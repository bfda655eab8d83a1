// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"gpufabric_exporter/alerts"
	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
	"gpufabric_exporter/probes"
)

func severities() words {
	colors := map[verdict.Severity]string{verdict.Critical: bad, verdict.Warning: warning, verdict.Info: note}
	w := words{}
	for _, s := range verdict.Severities() {
		w[string(s)] = word{string(s), colors[s]}
	}
	return w
}

// ranks are the severities by their place and that of findings within them, the worst first, so that tables sort them.
func ranks() words {
	w := words{}
	for _, s := range verdict.Severities() {
		for _, place := range []string{placeOfWrong, placeOfCause, placeOfRest, placeOfFollower} {
			w[strconv.Itoa(s.Rank())+" "+place] = severities()[string(s)]
		}
	}
	w[rankSilent], w["unknown"], w["spare"], w["none"] = word{"silent", bad}, word{"unknown", note},
		word{"spare", unneeded}, word{"none", good}
	return w
}

// of is a matcher of findings of a severity, with a comma.
func of(s verdict.Severity) string { return `severity="` + string(s) + `",` }

// congestionModes are what keeps RoCE from losing packets.
func congestionModes() words {
	return wordsOf(map[fabric.RoCEMode]word{
		fabric.RoCEModeNone: {"nothing", bad}, fabric.RoCEModePFC: {"PFC", plainly}, fabric.RoCEModeECN: {"ECN", plainly},
		fabric.RoCEModePFCECN: {"PFC and ECN", plainly}, fabric.RoCEModeUnknown: {"unknown", note},
	})
}

// roceSteps are the steps of the chain of RoCE settings.
func roceSteps() words {
	w := words{}
	for _, s := range fabric.RoCESteps() {
		w[string(s)] = word{strings.ReplaceAll(string(s), "_", " "), ""}
	}
	maps.Copy(w, wordsOf(map[fabric.RoCEStep]word{
		fabric.RoCEGID: {"address (GID)", ""}, fabric.RoCEDSCP: {"DSCP", ""}, fabric.RoCEPFC: {"PFC", ""},
		fabric.RoCEGlobalPause:       {"802.3x pause", ""},
		fabric.RoCEObservedPauseSent: {"pauses sent", ""}, fabric.RoCEObservedPauseReceived: {"pauses received", ""},
		fabric.RoCEBuffer: {"receive buffer", ""}, fabric.RoCEETS: {"ETS share", ""},
		fabric.RoCENotification: {"ECN notification", ""},
		fabric.RoCEReaction:     {"ECN reaction", ""}, fabric.RoCECNP: {"CNP priority", ""},
	}))
	return w
}

// silences are the texts of a table while no exporter answers.
func silences() words {
	return words{
		exporterIsSilent: {"the exporter does not answer", ""}, neverAnswered: {"the exporter never answered", ""},
		noExporter: {"no exporter is known", ""},
	}
}

// wordsOf are the words for values of a type.
func wordsOf[T ~string](of map[T]word) words {
	w := words{}
	for value, word := range of {
		w[string(value)] = word
	}
	return w
}

func yesNo(yes, no string) words { return words{"1": {"yes", yes}, "0": {"no", no}} }

// texts are what failing checks and firing alerts are called for people, and the names of the pages about them.
type texts struct{ problems, runbooks words }

func newTexts(groups []alerts.Group) texts {
	t := texts{words{}, words{}}
	for _, c := range diagnose.Catalogue() {
		t.problems[c.ID], t.runbooks[c.ID] = word{c.Title, ""}, word{"check-" + c.Topic, ""}
	}
	for id, row := range ownRows() {
		t.problems[id], t.runbooks[id] = word{row.title, ""}, word{row.page, ""}
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

// toRunbookOfRow leads from a cell with the id of a check or the name of an alert to the page that the column
// Runbook of its row names, and there to the check.
func toRunbookOfRow() map[string]any {
	return link("Runbook: what it means and what to do", alerts.RunbookBase+"${__data.fields.Runbook}.md#${__value.raw}")
}

func objectives() words {
	return words{
		"port_availability": {"Ports are up at full rate", ""},
		"conformance":       {"Nodes are set up right", ""},
		"probe_success":     {"Probes succeed", ""},
		"probe_coverage":    {"Probes succeeded lately", ""},
		"bandwidth_quality": {"NCCL bandwidth is as before", ""},
		"probe_latency":     {"NCCL latency is as before", ""},
		"losslessness":      {"Lossless ports: no loss, no storm", ""},
		"job_transport":     {"Jobs are not on TCP", ""},
		"gpu_time":          {"GPU time is not lost", ""},
	}
}

func kinds() words {
	return wordsOf(map[probes.Kind]word{
		probes.Transport: {"transport (NCCL's choice)", ""}, probes.Node: {"node (all its GPUs)", ""},
		probes.Rail:   {"rail (one NIC)", ""},
		probes.Socket: {"socket (TCP, to compare with)", ""}, probes.Calibrate: {"calibrate (by hand)", ""},
	})
}

// shortKinds are for narrow columns.
func shortKinds() words {
	w := words{}
	for _, k := range probes.Kinds() {
		w[string(k)] = word{string(k), ""}
	}
	return w
}

func transports() words {
	return wordsOf(map[probes.Path]word{
		probes.PathNone: {"none", ""}, probes.PathNVLS: {"NVLink (NVLS)", good}, probes.PathP2P: {"NVLink or PCIe", good},
		probes.PathSHM: {"host memory", warning},
		probes.PathIB:  {"RDMA", good}, probes.PathPlugin: {"plugin", good}, probes.PathSocket: {"TCP", bad},
		"socket on purpose": {"TCP, to compare", ""},
	})
}

// outdated is the colour and word of what a probe found before a critical fault, or too long ago.
var outdated = word{"outdated", unknown}

// withOutdated are the words, and the same in grey for values that are outdated.
func withOutdated(w words) words {
	all := words{}
	for value, to := range w {
		all[value], all[value+" outdated"] = to, word{to.text, unknown}
	}
	return all
}

// probeCauses are what explains a fault of a probe.
func probeCauses() words {
	return wordsOf(map[probes.Cause]word{
		probes.CauseDisabled: {"NCCL_IB_DISABLE is set", ""}, probes.CauseSocketSelected: {"NCCL_NET=Socket is set", ""},
		probes.CauseNoDevice:  {"no RDMA device found", ""},
		probes.CauseNotLogged: {"NCCL did not log why", ""}, probes.CauseVersions: {"other NCCL, CUDA or driver", ""},
		probes.CauseGPUs:      {"other GPUs", ""},
		probes.CauseTransport: {"other transport", ""}, probes.CauseGPUDirect: {"GPUDirect RDMA changed", ""},
		probes.CauseSwitchSums: {"NVLS or SHARP changed", ""},
		probes.CauseChannels:   {"number of channels changed", ""}, probes.CauseSettings: {"NCCL settings changed", ""},
		probes.CauseNoDifference: {"not known: no setting changed", ""},
	})
}

// Values of notes about probes: a failure or a skip follows its prefix.
const (
	noteOfFailure = "fails "
	noteOfSkip    = "skipped "
	noteOfAge     = "outdated"
)

// notes are what there is to say about a probe: why it fails or is skipped, or the cause of what it found.
func notes(t texts) words {
	all := causesAndFindings(t)
	for _, f := range probes.Failures() {
		all[noteOfFailure+string(f)] = word{"fails: " + strings.ReplaceAll(string(f), "_", " "), bad}
	}
	for skip, text := range skips() {
		all[noteOfSkip+skip] = word{"skipped: " + text.text, text.color}
	}
	return all.with(noteOfAge, word{"outdated: run before a critical finding, or long ago", unknown})
}

// explainsNode and explainsRail are patterns of the checks whose findings explain that the probe of a node or
// of a rail is slow.
const (
	explainsNode = "nvlink_.+|gpu_.+"
	explainsRail = "port_.+|pcie_.+|gid_.+|roce_.+"
	stormAlert   = "GpuFabricPfcStorm" // of counters, which no check has
)

// causesAndFindings are causes of what a probe found, of which some are findings themselves.
func causesAndFindings(t texts) words {
	all := probeCauses()
	pattern := regexp.MustCompile("^(?:" + explainsNode + "|" + explainsRail + "|" + stormAlert + ")$")
	for problem, title := range t.problems {
		if pattern.MatchString(problem) {
			all[problem] = title
		}
	}
	return all
}

// fallbackCauses are why NCCL uses TCP, according to probes and to jobs.
func fallbackCauses() words {
	all := causes()
	maps.Copy(all, probeCauses())
	return all
}

// skips are why a probe that is due does not run.
func skips() words {
	return wordsOf(map[probes.Skip]word{
		probes.SkipCannotProveIdle: {"the GPUs cannot be verified idle", warning},
		probes.SkipProcess:         {"a process is on the GPUs", ""}, probes.SkipMemory: {"GPU memory is in use", ""},
		probes.SkipUtilization: {"the GPUs are busy", ""},
		probes.SkipMPS:         {"MPS is on", ""}, probes.SkipMIG: {"MIG is on", ""},
		probes.SkipComputeMode: {"compute mode forbids it", ""},
		probes.SkipSlurm:       {"Slurm has a job there", ""}, probes.SkipKubernetes: {"Kubernetes has a pod there", ""},
		probes.SkipScheduler: {"scheduler not asked (idle_command)", warning},
		probes.SkipSite:      {"the site says that the node is in use", ""}, probes.SkipMaintenance: {"maintenance", ""},
		probes.SkipThrottled: {"a GPU is throttled", warning}, probes.SkipLinkErrors: {"NVLink errors", warning},
		probes.SkipPersistence: {"persistence mode is off", warning},
		probes.SkipLocked:      {"another probe runs", ""}, probes.SkipDuty: {"probes had their share of GPU time", ""},
		probes.SkipNoGPU:     {"too few usable GPUs", warning},
		probes.SkipNoDevice:  {"no training port is known to be active", ""},
		probes.SkipMemlock:   {"too little memory can be locked", warning},
		probes.SkipUntrusted: {"others could write what it loads", warning},
	})
}
