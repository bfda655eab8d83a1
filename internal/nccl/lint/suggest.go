// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

// Suggestion is a setting that makes a failure of NCCL visible which would otherwise stay hidden.
type Suggestion struct {
	Name, Value string // Value is empty where the choice is left to the reader
	Reason      string // one or more sentences
	Source      string // file and release of NCCL, or of a plugin, that it was read in
	PerJob      bool   // Value is a folder in which each job has one of its own
}

// ValueIn returns the value in a format. The folder of a job is that of Slurm in scripts; in manifests it is
// mounted so.
func (s Suggestion) ValueIn(format Format) string {
	if s.PerJob && format == FormatShell {
		return s.Value + "/$SLURM_JOB_ID"
	}
	return s.Value
}

// logFolder is where suggested settings write to. Jobs have to be able to write there, and the exporter to read.
const logFolder = "/var/log/nccl"

// inspectorFolder is where Inspector of jobs writes to: what docs/JOBS.md has for nccl.inspector_folder.
const inspectorFolder = "/run/nccl_inspector"

// dumpInterval is how often NCCL Inspector writes, in microseconds: the shortest that its Prometheus mode accepts.
const dumpInterval = 30_000_000

// Suggest returns settings for jobs of a release, on a node unless that is nil. What the inputs or the node
// set already is left out.
func Suggest(inputs []Input, version Version, node *fabric.Node) []Suggestion {
	values := map[string]string{}
	if node != nil {
		for _, v := range node.NCCL.Variables {
			values[v.Name] = v.Value
		}
	}
	for _, in := range inputs {
		for _, s := range in.settings {
			if s.set {
				values[s.Name] = s.Value
			}
		}
	}
	isSet := func(name string) bool { _, ok := values[name]; return ok }
	var list []Suggestion
	add := func(all ...Suggestion) {
		for _, s := range all {
			if v, known := settings.Describe(s.Name); known && !isSet(s.Name) &&
				version.AtLeast(strings.TrimPrefix(v.Since, "<=")) {
				list = append(list, s)
			}
		}
	}
	// else these choose the network
	if plugin := values["NCCL_NET_PLUGIN"]; !isSet("NCCL_IB_DISABLE") && (plugin == "" || plugin == "none") {
		add(SuggestNetwork(node))
	}
	add(
		Suggestion{
			Name: "NCCL_DEBUG", Value: "WARN", Reason: "Without it NCCL reports an error code, but not what failed.",
			Source: "src/debug.cc of NCCL 2.30.7",
		},
		Suggestion{
			Name: "NCCL_DEBUG_FILE", Value: logFolder + "/%h.%p.log",
			Reason: "Warnings go to one file for each process (%h: host, %p: process) instead of the output of the job. Create the folder first, writable for jobs: otherwise NCCL writes to the output as before. An existing file is overwritten.", Source: "src/debug.cc of NCCL 2.30.7",
		},
	)
	if !isSet("NCCL_PROFILER_PLUGIN") && version.AtLeast("2.28") {
		add(suggestInspector(version)...)
	}
	return list
}

// SuggestNetwork returns the network that NCCL is to insist on. Its value is empty where the node, which may
// be nil, does not decide it; the reason then says why.
func SuggestNetwork(node *fabric.Node) Suggestion {
	const (
		name     = "NCCL_NET"
		fallback = "NCCL stops with an error instead of falling back to TCP when it cannot use "
	)
	verbs := Suggestion{Name: name, Value: "IB", Reason: fallback +
		"RDMA. Jobs whose image has a network plugin need the name of the plugin instead, such as IBext of HPC-X: with IB, NCCL does not use it.", Source: "src/plugin/net.cc of NCCL 2.30.7"}
	libfabric := Suggestion{Name: name, Value: "AWS Libfabric", Reason: fallback +
		"EFA. The job needs the plugin aws-ofi-nccl.", Source: "src/nccl_ofi_interface_nvidia.cpp of aws-ofi-nccl 1.19.2"}
	open := Suggestion{Name: name, Source: verbs.Source}
	if node == nil {
		open.Reason = "Name the network that jobs use, so that NCCL stops with an error instead of falling back to TCP: NCCL_NET=IB for InfiniBand and RoCE, NCCL_NET=\"AWS Libfabric\" for EFA, NCCL_NET=gIB for the plugin of Google's RDMA machines. --host or --scenario chooses for a node."
		return open
	}
	efa, ports := 0, 0
	for h, p := range node.ComputePorts {
		ports++
		link := p.LinkLayer.Or("")
		switch {
		case h.Driver.Or("") == "efa":
			efa++
		case link != fabric.LinkInfiniBand && link != fabric.LinkEthernet, strings.HasPrefix(h.Driver.Or(""), "mana"):
			open.Reason = "Name the network that jobs use, so that NCCL stops with an error instead of falling back to TCP. " +
				h.Name + " does not show which one that is."
			return open
		}
	}
	switch {
	case ports == 0:
		open.Reason = "The node has no RDMA port of role compute: without a network plugin, NCCL uses TCP, and a name would only stop it. With a plugin, set NCCL_NET to its name."
	case efa == ports:
		return libfabric
	case efa == 0:
		return verbs
	default:
		open.Reason = "The node has EFA and other RDMA ports of role compute. Name the network that jobs use, so that NCCL stops with an error instead of falling back to TCP."
	}
	return open
}

// suggestInspector returns the settings of NCCL Inspector, a profiler plugin that is part of NCCL from 2.28 on.
func suggestInspector(version Version) []Suggestion {
	const since28, since29 = "ext-profiler/inspector/inspector.cc of NCCL 2.28.3",
		"ext-profiler/inspector/inspector.cc of NCCL 2.29.3"
	list := []Suggestion{
		{Name: "NCCL_PROFILER_PLUGIN", Value: "libnccl-profiler-inspector.so", Source: "ext-profiler/inspector/Makefile of NCCL 2.28.3", Reason: "NCCL Inspector measures the bandwidth of each collective. The library is in the source of NCCL and has to be built and in the library path of the job: where NCCL does not find it, jobs run without it."},
		{Name: "NCCL_INSPECTOR_ENABLE", Value: "1", Source: since28, Reason: "The plugin does nothing without it."},
		{Name: "NCCL_INSPECTOR_DUMP_DIR", Value: inspectorFolder, PerJob: true, Source: since28, Reason: "The folder that it writes to, which nccl.inspector_folder names for the exporter. Create the folder of the job before its ranks start: of several that create it at once, only one writes. Without this setting, they write to the working directory of the job."},
		{Name: "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", Value: strconv.Itoa(dumpInterval), Source: since28, Reason: fmt.Sprintf("It writes every %d s. Without it, it writes nothing while the job runs, or all the time, by release.", dumpInterval/1_000_000)},
	}
	if version.AtLeast("2.29.3") {
		return append(list, Suggestion{
			Name: "NCCL_INSPECTOR_PROM_DUMP", Value: "1", Source: since29,
			Reason: "It writes metrics of Prometheus to a file of bounded size, instead of JSON lines to one that grows.",
		})
	}
	list[2].Reason += " The files grow, and stay when the job has ended: remove them then."
	return list
}
