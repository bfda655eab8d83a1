// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/diagnose/port"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Kinds of faults that several checks find.
var (
	modeNCCLConfig = verdict.Mode{
		ID:   "nccl_configuration",
		Text: "NCCL ignores or misreads a line of the host's configuration.",
	}
	modeNCCLDevices = verdict.Mode{
		ID:   "nccl_devices",
		Text: "NCCL_IB_HCA names missing devices, or leaves out some that the node has for training.",
	}
)

// Checks returns the checks of what the host sets for NCCL.
func Checks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckNCCLLines, Title: "NCCL ignores or misreads a line of its configuration",
			Severity: verdict.Warning, Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "the host's NCCL configuration files as NCCL parses them",
			Modes: []verdict.Mode{modeNCCLConfig},
			Judge: judgeNCCL,
		},
		{
			ID: "nccl_refused", Title: "NCCL refuses a value of its configuration", Severity: verdict.Critical, Topic: "nccl",
			Scope: verdict.ScopeFile,
			Reads: "NCCL_ALGO and NCCL_PROTO of the host as NCCL 2.24 and later parse them, and numbers of the host as NCCL reads them",
			Guard: "if the host sets one of them, or a number. A word that no release accepts is critical, because every job with NCCL 2.24 or later fails, and so is a number with which every job fails (NCCL_BUFFSIZE=4M is 4). nccl_configuration reports words that releases before 2.14 accepted",
			Modes: []verdict.Mode{modeNCCLConfig}, Judge: judgeRefused,
		},
		{
			ID: verdict.CheckNCCLVersion, Title: "The NCCL library is older than the site expects", Severity: verdict.Warning,
			Expects: "nccl_minimum_version", Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "name and content of libnccl.so.2 as the dynamic loader of the host finds it, else of a Python package, and of the library that probes use; expected.nccl_minimum_version of the configuration",
			Guard: "only if the configuration sets the version, and there is a library: images of containers bring their own",
			Modes: []verdict.Mode{{ID: "nccl_old", Text: "The NCCL library is older than the site expects."}},
			Judge: judgeNCCLVersion,
		},
		{
			ID: "nccl_notes", Title: "A line of the NCCL configuration can be removed or replaced", Severity: verdict.Info,
			Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "the host's NCCL configuration files: variables that are deprecated, set twice, or not variables of NCCL",
			Guard: "harmless: NCCL reads deprecated variables until a release removes them",
			Modes: []verdict.Mode{modeNCCLConfig}, Judge: judgeNotes,
		},
		{
			ID: verdict.CheckRDMAOff, Title: "RDMA is disabled for all jobs of the host", Severity: verdict.Critical,
			Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_IB_DISABLE, NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_HCA of the host, roles, states, drivers and link layers of RDMA ports, distances to GPUs",
			Guard: "if the host sets NCCL_IB_DISABLE or NCCL_NET. Not if NCCL_NET names the network plugin of a cloud, nor EFA unless NCCL_NET=Socket, NCCL_NET=IB or NCCL_NET_PLUGIN=none exclude its plugin. Neither MANA that the site does not count, nor NICs that are far from all GPUs and that neither expected.compute_ports nor roles nor NCCL_IB_HCA names. InfiniBand on a node with several GPUs always counts. Jobs may override the setting",
			Rests: verdict.OnExpectation,
			Modes: []verdict.Mode{{
				ID:   "rdma_switched_off",
				Text: "The host's NCCL configuration disables RDMA for all jobs.",
			}}, Judge: judgeRDMAOff,
		},
		{
			ID: verdict.CheckNCCLDevices, Title: "NCCL_IB_HCA does not match the devices of the node",
			Severity: verdict.Critical, Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_IB_HCA of the host as NCCL matches it, names and states of RDMA ports",
			Guard: "if the host sets it, not if the node only has EFA, which NCCL uses through a plugin that ignores it; jobs may override it",
			Modes: []verdict.Mode{modeNCCLDevices}, Judge: judgeNCCLDevices,
		},
		{
			ID: verdict.CheckDevicesPrefix, Title: "NCCL_IB_HCA matches devices that it does not name",
			Severity: verdict.Warning, Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_IB_HCA of the host as NCCL matches it, names of RDMA devices",
			Guard: "if the host sets it without =, and a name in it is that of a device",
			Modes: []verdict.Mode{modeNCCLDevices}, Judge: judgePrefixes,
		},
		{
			ID: verdict.CheckLeftOut, Title: "NCCL_IB_HCA leaves out ports for training", Severity: verdict.Warning,
			Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_IB_HCA of the host as NCCL matches it, names, states and roles of RDMA ports, expected.compute_ports",
			Guard: "if the host sets it and the configuration sets expected.compute_ports. Only if the line takes fewer compute ports than that, those that are down or missing included, and others are active. Not if RDMA is disabled, or the line takes no active port; jobs may override it",
			Modes: []verdict.Mode{modeNCCLDevices}, Judge: judgeLeftOut,
		},
		{
			ID: verdict.CheckSocket, Title: "NCCL_SOCKET_IFNAME matches no usable interface", Severity: verdict.Critical,
			Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_SOCKET_IFNAME of the host as NCCL matches it, names and operstate of all network interfaces",
			Guard: "if the host sets it; jobs may override it. One interface that is up is enough, because one list is often used for several kinds of nodes",
			Modes: []verdict.Mode{{
				ID:   "socket_interface",
				Text: "NCCL_SOCKET_IFNAME names an interface that is missing or down.",
			}}, Judge: judgeSocket,
		},
		{
			ID: verdict.CheckGIDIndex, Title: "NCCL_IB_GID_INDEX is set; NCCL >= 2.21 does not need it",
			Severity: verdict.Info, Topic: "nccl", Scope: verdict.ScopeFile,
			Reads: "NCCL_IB_GID_INDEX of the host", Guard: "if the host sets it; an older NCCL needs it",
			Modes: []verdict.Mode{port.ModeGIDPinned}, Judge: judgeGIDIndex,
		},
		{
			ID: verdict.CheckPinnedGIDs, Title: "NCCL_IB_GID_INDEX selects different address types on rails",
			Severity: verdict.Warning,
			Topic:    "gids", Scope: verdict.ScopeNode,
			Reads: "NCCL_IB_GID_INDEX of the host, type and address family of that entry of each compute port",
			Guard: "active RoCE compute ports whose entry is usable, if the host sets it; gid_usable reports the others",
			Modes: []verdict.Mode{port.ModeGIDPinned}, Judge: judgePinnedGIDs,
		},
		{
			ID: "offload_unused", Title: "Jobs do not use NVLS, SHARP or PXN where they could", Severity: verdict.Info,
			Topic: "nccl", Scope: verdict.ScopeNode,
			Reads: "messages of NCCL about NVLS, CollNet and PXN in logs of jobs (nccl.log_files), NCCL_NVLS_ENABLE, NCCL_COLLNET_ENABLE and NCCL_PXN_DISABLE; NVLinks and compute capability of GPUs, compute ports",
			Guard: "if the site names logs of jobs, and a log has the message. NVLS: not without NVSwitches, before Hopper, if NCCL logs that the GPU does not support it or logs nothing (jobs with one or two GPUs of the node), " +
				"nor in logs of NCCL before 2.21, whose number of channels does not show it. SHARP: only if the job requests it, because no log shows what the switches support; not in jobs of one node, without active compute ports of " +
				"InfiniBand, nor below NCCL_COLLNET_NODE_THRESHOLD. PXN: only if the job disables it, because rails that share a switch do not need it; not in jobs of one node, without NVLink or with one compute port. " +
				"NVLS and SHARP: not if the job names algorithms (NCCL_ALGO)",
			Modes: []verdict.Mode{{ID: "offload_unused", Text: "NVLS, SHARP or PXN is not used where it could be."}},
			Judge: judgeOffloads,
		},
	}
}

// judgeNCCL returns what NCCL reads otherwise than it is written, and gives a verdict for each file without any.
func judgeNCCL(n *fabric.Node, v *verdict.Verdicts) {
	bad := map[string]bool{} // files
	for line := range judgeFindings(n, v, fabric.NCCLMisread, func(f fabric.NCCLFinding) verdict.Verdict {
		return verdict.Verdict{
			What:        f.Name + " is ignored or misread by NCCL",
			Consequence: "NCCL does not use the setting, or not as intended.", Remedy: "Correct or remove the line.",
		}
	}) {
		path, _, _ := strings.Cut(line, ":")
		bad[path] = true
	}
	for _, f := range n.NCCL.Files {
		switch exists, known := f.Exists.Get(); {
		case f.Exists.State == fabric.Absent: // the file is optional
		case !known:
			v.Unknown(verdict.Subject{File: f.Path}, f.Exists.Meta().Reason,
				"The file could not be read: "+verdict.ReasonText(f.Exists.Meta().Reason)+".")
		case exists && !bad[f.Path]:
			v.OK(verdict.Subject{File: f.Path})
		}
	}
}

func judgeNCCLVersion(n *fabric.Node, v *verdict.Verdicts) {
	least := n.Policy.NCCL
	if least == nil {
		return
	}
	if n.NCCL.Library.State == fabric.Unknown {
		v.Hidden(verdict.Subject{File: "libnccl.so.2"}, n.NCCL.Library.Meta(), "The NCCL library of the host")
	}
	defer v.KeepWorst(len(v.List)) // both may be one
	for _, f := range []fabric.Fact[fabric.Library]{n.NCCL.Library, n.NCCL.ProbeLibrary} {
		l, known := f.Get()
		if !known {
			continue
		}
		s := verdict.Subject{File: l.Path}
		release, err := fabric.ParseNCCLVersion(l.Version)
		switch {
		case err != nil:
			v.Unknown(s, fabric.ReasonMalformed, "Neither the name of the file nor its content shows the release.")
		case release.AtLeast(least.String()):
			v.OK(s)
		default:
			v.Failed(s, verdict.Verdict{
				Evidence:    fmt.Sprintf("It is NCCL %s; expected.nccl_minimum_version is %s.", l.Version, least),
				Consequence: "Jobs of this node that do not bring a library of their own have the faults that later releases fixed; ranks with different releases refuse to start.",
				Remedy:      "Install NCCL " + least.String() + " or later, or correct the configuration.",
			})
		}
	}
}

func judgeRefused(n *fabric.Node, v *verdict.Verdicts) {
	bad := judgeFindings(n, v, fabric.NCCLFatal, func(f fabric.NCCLFinding) verdict.Verdict {
		which, when := "", " or in their first collective"
		if f.Name == "NCCL_ALGO" || f.Name == "NCCL_PROTO" {
			which, when = " with NCCL 2.24 or later", ""
		}
		return verdict.Verdict{
			What:        "NCCL refuses the value of " + f.Name,
			Consequence: "Jobs" + which + " fail when they start" + when + ", unless they set the variable themselves.",
			Remedy:      "Correct or remove the line.",
		}
	})
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO"} {
		if set, ok := n.NCCL.Lookup(name); ok && set.Value != "" && !bad[set.Source] {
			v.OK(ofSetting(set))
		}
	}
}

func judgeNotes(n *fabric.Node, v *verdict.Verdicts) {
	judgeFindings(n, v, fabric.NCCLNote, func(f fabric.NCCLFinding) verdict.Verdict {
		return verdict.Verdict{
			What:        cmp.Or(f.Name, "A line") + " can be removed or replaced",
			Consequence: "None for jobs.", Remedy: "Replace or remove the line at the next change.",
		}
	})
}

// judgeFindings adds a failed verdict for each finding that does that harm, and returns their lines.
func judgeFindings(n *fabric.Node, v *verdict.Verdicts, harm fabric.NCCLHarm,
	of func(fabric.NCCLFinding) verdict.Verdict,
) map[string]bool {
	lines := map[string]bool{}
	for _, f := range n.NCCL.Findings {
		if f.Harm == harm {
			w := of(f)
			w.Evidence = verdict.Sentence(f.Text)
			v.Failed(verdict.Subject{File: f.Source, Variable: f.Name}, w)
			lines[f.Source] = true
		}
	}
	return lines
}

func judgeNCCLDevices(n *fabric.Node, v *verdict.Verdicts) {
	set, ok := n.NCCL.Lookup("NCCL_IB_HCA")
	if !ok || set.Value == "" {
		return
	}
	if onlyPlugins(n) {
		return
	}
	s, f := ofSetting(set), fabric.ParseNameFilter(set.Value)
	if n.ClassPresent.State == fabric.Unknown {
		v.Hidden(s, n.ClassPresent.Meta(), "The list of RDMA devices")
		return
	}
	active := 0
	var unread *fabric.Meta
	for h, p := range n.Ports {
		switch {
		case !f.Takes(h.Name, p.Number):
		case p.Carries():
			active++
		case p.State.State != fabric.OK:
			unread = new(p.State.Meta())
		}
	}
	for i := range n.HCAs { // of which not even the ports are known
		if h := &n.HCAs[i]; h.Moved && len(h.Ports) == 0 && f.Takes(h.Name, -1) {
			unread = &fabric.Meta{Reason: fabric.ReasonMoved}
		}
	}
	missing := n.MissingNames(f)
	excluded := slices.ContainsFunc(n.Excluded, func(name string) bool { return f.Takes(name, -1) })
	switch {
	case len(missing) > 0 && active > 0:
		v.Failed(s, verdict.Verdict{
			What: "NCCL_IB_HCA names missing devices", Evidence: seenOf(set, "Missing: "+strings.Join(missing, ", ")+"."),
			Consequence: "NCCL uses only the other devices: these rails carry no traffic.",
			Remedy: "Find out whether the node has lost them (rdma link, lspci -nn, dmesg), and bring them back. " +
				"Change the line only if the node is not meant to have them: without them in the line, the loss is not reported here.",
		})
	case active > 0:
		v.OK(s)
	case excluded:
	case unread != nil:
		v.Unknown(s, unread.Reason, "No port that it matches is known to be active: "+verdict.ReasonText(unread.Reason)+".")
	default:
		v.Failed(s, verdict.Verdict{
			What: "NCCL_IB_HCA matches no active RDMA port", Evidence: seenOf(set),
			Consequence: "NCCL falls back to TCP, or jobs fail.",
			Remedy:      "Correct or remove the line: names match by prefix; a leading = means exact.",
		})
	}
}

// onlyPlugins reports whether NCCL uses all devices of the node through a plugin, which ignores NCCL_IB_HCA.
func onlyPlugins(n *fabric.Node) bool {
	return len(n.HCAs) > 0 && !slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return !h.Traits().NoVerbs })
}

// judgePrefixes finds names of devices that are also the beginning of another name, as mlx5_1 is of mlx5_10.
// A list that names the other device too means it.
func judgePrefixes(n *fabric.Node, v *verdict.Verdicts) {
	set, ok := n.NCCL.Lookup("NCCL_IB_HCA")
	f := fabric.ParseNameFilter(set.Value)
	if !ok || f.Exact {
		return
	}
	s := ofSetting(set)
	var evidence []string
	named := false
	for _, i := range f.Items {
		exact := n.HCA(i.Name) != nil
		named = named || exact
		var more []string
		for k := range n.HCAs {
			name := n.HCAs[k].Name
			listed := slices.ContainsFunc(f.Items, func(o fabric.NameItem) bool { return o.Name == name })
			if exact && !listed && f.Matches(i, name, -1) {
				more = append(more, name)
			}
		}
		if len(more) > 0 {
			evidence = append(evidence, i.Name+" is a prefix, and also matches "+verdict.Few(more))
		}
	}
	mark, consequence := "=", "NCCL uses devices that the line does not name, for storage or management perhaps."
	if f.Exclude {
		mark, consequence = "^=", "NCCL does not use devices that the line does not name."
	}
	switch {
	case len(evidence) > 0:
		v.Failed(s, verdict.Verdict{
			Evidence: strings.Join(evidence, "; ") + ".", Consequence: consequence,
			Remedy: "Match names exactly: " + set.Name + "=" + mark + strings.TrimLeft(set.Value, "^") + ".",
		})
	case named:
		v.OK(s)
	}
}
