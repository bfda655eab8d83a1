// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// ModeGPULost is found by several checks.
var ModeGPULost = verdict.Mode{
	ID: "gpu_lost", Text: "The driver lost a GPU, or does not show it.",
	Alert: "GpuFabricGpuLost",
}

func hardwareChecks() []*verdict.Check {
	const counted = "GPUs on the PCI bus or in the driver's list, expected.gpus of the configuration, else the profile of the platform"
	return []*verdict.Check{
		{
			ID: verdict.CheckHardware, Title: "The node has no training hardware, or less than before",
			Severity: verdict.Critical, Topic: "node", Scope: verdict.ScopeNode,
			Reads: "RDMA devices, GPUs, the record of what the node had, and devices for training and storage that the manifest lists",
			Guard: "a node with nothing, about which no source states anything, is unknown, and so is one whose devices cannot be compared with its record. Not GPUs if expected.gpus is set, " +
				"nor RDMA devices if devices are excluded. Those of other network namespaces are there; unknown in a container that sees none of its host. " +
				"Devices that the manifest lists are known by node GUID and PCI address. Where no GUID is theirs, they are known by name and board, and unknown if the board of one is another. " +
				"A function whose interface is in a bond with one of its card has the device of that one (RoCE LAG); unknown if that cannot be seen. A device is unknown if a new one may have replaced it",
			Modes: []verdict.Mode{modeDeviceGone, ModeGPULost}, Judge: judgeHardware,
		},
		{
			ID: verdict.CheckGPUs, Title: "GPUs are missing", Severity: verdict.Critical, Expects: "gpus", Topic: "node",
			Scope: verdict.ScopeNode,
			Reads: counted, Guard: "only if the configuration or the profile states the number",
			Modes: []verdict.Mode{ModeGPULost},
			Judge: judgeGPUs,
		},
		{
			ID: verdict.CheckGPUsSurplus, Title: "There are more GPUs than expected", Severity: verdict.Warning,
			Expects: "gpus", Topic: "node", Scope: verdict.ScopeNode,
			Reads: "the same, expected.gpus of the configuration", Guard: "only if the configuration sets the expected number",
			Modes: []verdict.Mode{{
				ID:   "gpu_surplus",
				Text: "The node has more GPUs than its configuration expects, which is for another kind of node.",
			}},
			Judge: judgeGPUSurplus,
		},
	}
}

// countGPUs counts physical GPUs. Without the bus, as in containers, the driver's list has them. The reason
// is why there may be more; empty: there are not.
func countGPUs(n *fabric.Node) (int, fabric.Reason) {
	bus := 0
	for _, f := range n.PCI.GPUs() {
		if f.PF.State != fabric.OK { // virtual functions are parts of what is counted
			bus++
		}
	}
	count := max(bus, len(n.GPUDriver.GPUs))
	if _, known := n.GPUs.Get(); !known {
		return count, orNotRead(n.GPUs.Meta().Reason)
	}
	for _, s := range n.Sources {
		if s.Name == fabric.SourcePCI && !s.Up {
			return count, orNotRead(s.Reason)
		}
	}
	return count, ""
}

// unread is why RDMA devices or PCI functions cannot be listed.
func unread(n *fabric.Node) fabric.Reason {
	for _, s := range n.Sources {
		if !s.Up && (s.Name == fabric.SourceClass || s.Name == fabric.SourcePCI) {
			return orNotRead(s.Reason)
		}
	}
	return fabric.ReasonNotRead
}

func orNotRead(r fabric.Reason) fabric.Reason {
	if r == "" {
		return fabric.ReasonNotRead
	}
	return r
}

func judgeGPUs(n *fabric.Node, v *verdict.Verdicts) {
	want, evidence := n.Policy.GPUs, "The site's configuration expects them (expected.gpus)."
	correct := "if the number is intended, correct expected.gpus."
	if want == nil && n.Profile != nil && n.Profile.GPUs != nil {
		want, evidence = &n.Profile.GPUs.Number, "Each "+n.Profile.Title+" has them (profile "+n.Profile.Name+")."
		correct = "if this machine has fewer, state expected.gpus."
	}
	if want == nil {
		return
	}
	have, hidden := countGPUs(n)
	if hidden != "" && have < *want {
		v.Unknown(verdict.Subject{}, hidden, fmt.Sprintf("%s can be read, but %d are expected.",
			spelling.Plural(have, "GPU", "GPUs"), *want))
		return
	}
	v.When(have < *want, verdict.Subject{}, verdict.Verdict{
		What:     fmt.Sprintf("%s where %d are expected", spelling.Plural(have, "GPU", "GPUs"), *want),
		Evidence: evidence, Consequence: "Jobs that request all of them do not start, or fail.",
		Remedy: "Check lspci -d 10de: and dmesg -T | grep -iE 'xid|fallen off|pcie'. A GPU that left the bus may return after a cold restart; " + correct,
	})
}

func judgeGPUSurplus(n *fabric.Node, v *verdict.Verdicts) {
	want := n.Policy.GPUs
	if want == nil {
		return
	}
	have, hidden := countGPUs(n)
	if hidden != "" && have <= *want {
		v.Unknown(verdict.Subject{}, hidden, fmt.Sprintf("%s can be read, but %d are expected.",
			spelling.Plural(have, "GPU", "GPUs"), *want))
		return
	}
	v.When(have > *want, verdict.Subject{}, verdict.Verdict{
		What:        fmt.Sprintf("%s where %d are expected", spelling.Plural(have, "GPU", "GPUs"), *want),
		Evidence:    "The site's configuration expects them (expected.gpus).",
		Consequence: "The configuration is for another kind of node: its other expectations may be wrong, too.",
		Remedy:      "Use the configuration for this kind of node, or correct expected.gpus.",
	})
}

const remedyOfManifest = " If it was removed on purpose, or the manifest is that of another node: write a new one (check --write-manifest)."

// judgeHardware keeps a node that shows nothing, or less than before, from an all-clear. It gives one verdict.
func judgeHardware(n *fabric.Node, v *verdict.Verdicts) {
	gpus, hidden := countGPUs(n)
	class := n.ClassPresent.Meta()
	// what the site says counts more
	before := slices.DeleteFunc(slices.Clone(n.Remembered), func(r fabric.Remembered) bool {
		return r.Kind == fabric.PCIGPU && n.Policy.GPUs != nil
	})
	doubtful := slices.DeleteFunc(slices.Clone(before), func(r fabric.Remembered) bool { return !r.Doubtful })
	before = slices.DeleteFunc(before, func(r fabric.Remembered) bool { return r.Doubtful })
	list := slices.IndexFunc(n.Sources, func(s fabric.Source) bool { return s.Name == fabric.SourceClass })
	listing, _ := listed(n)
	switch {
	case list < 0: // devices were not asked for
		return
	case len(before) > 0:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			What: "The node has less hardware than before", Evidence: rememberedText(before),
			Consequence: "Jobs that request all of it do not start, fail, or use what is left.",
			Remedy: "Check lspci -nn and dmesg -T | grep -iE 'xid|fallen off|pcie|mlx5|bnxt'. What left the bus may return after a cold restart. " +
				acceptAll(before, n.RememberedIn),
		})
	case len(listing.Gone) > 0:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			What:        shortList(listedNames(n, listing.Gone)) + " missing",
			Evidence:    "The manifest lists what is missing, and the node has no other device of the kind.",
			Consequence: "Collectives and storage use the remaining ports, or fail.", Remedy: goneRemedy + remedyOfManifest,
		})
	case len(doubtful) > 0:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: "The node may have less hardware than before",
			Evidence: rememberedText(doubtful) + " " + doubt(doubtful),
			Remedy: "Compare rdma link with lspci and the bonds (/proc/net/bonding) on the host. " +
				acceptAll(doubtful, n.RememberedIn),
		})
	case len(listing.Doubtful) > 0:
		v.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: shortList(listedNames(n, listing.Doubtful)) + " missing, or has another name",
			Evidence: "The manifest lists it. A new card may have been put in its place, it may be in the bond of another device, or the manifest be that of another node.",
			Remedy:   goneRemedy + remedyOfManifest,
		})
	case n.DevicesUnread && len(n.Excluded) == 0:
		v.Unknown(verdict.Subject{}, unread(n),
			"The node had RDMA devices (record of this node), and which it has cannot be told: "+verdict.ReasonText(unread(n))+".")
	case gpus > 0 || len(n.HCAs) > 0:
		v.OK(verdict.Subject{})
	case n.ClassPresent.State == fabric.Unknown || !n.Sources[list].Up:
		v.Unknown(verdict.Subject{}, orNotRead(class.Reason),
			"Whether the node has RDMA devices is unknown: "+verdict.ReasonText(class.Reason)+".")
	case n.Policy.GPUs != nil && *n.Policy.GPUs == 0 && hidden == "":
		v.OK(verdict.Subject{})
	case hidden != "":
		v.Unknown(verdict.Subject{}, hidden,
			"The node has no RDMA device, and whether it has GPUs is unknown: "+verdict.ReasonText(hidden)+".")
	case len(n.Excluded) > 0:
		v.Unknown(verdict.Subject{}, fabric.ReasonRestricted,
			"The node has no GPU, and all RDMA devices are excluded by flags: nothing was checked.")
	default:
		v.Unknown(verdict.Subject{}, fabric.ReasonMissing,
			"The node has neither an RDMA device nor a GPU, like a node that lost all of them. For a node without any, set expected.gpus: 0 in the configuration.")
	}
}

// doubt says why what is missing may not be gone.
func doubt(list []fabric.Remembered) string {
	if slices.ContainsFunc(list, func(r fabric.Remembered) bool { return r.New > 0 }) {
		return "A new one may have been put in its place, or be another one."
	}
	return "It may be in the bond of another device of its card, whose interfaces cannot be seen here."
}

// rememberedText says what is gone, in whole sentences.
func rememberedText(list []fabric.Remembered) string {
	var texts []string
	for _, r := range list {
		what := "RDMA devices"
		switch {
		case r.Kind == fabric.PCIGPU:
			what = "GPUs"
		case r.Bonded:
			what = "PCI functions with an RDMA device of their own or of their bond"
		}
		at := "before"
		if !r.Seen.IsZero() {
			at = r.Seen.UTC().Format("at 2006-01-02 15:04 UTC")
		}
		has := fmt.Sprint(r.Now, " ", what)
		if r.New > 0 {
			has += fmt.Sprintf(", %d of them new", r.New)
		}
		text := fmt.Sprintf("The node has %s; %s it had %d (record of this node)", has, at, r.Then)
		before := ", including "
		for _, m := range r.Missing[:min(len(r.Missing), 4)] {
			text, before = text+before+string(m), ", "
		}
		texts = append(texts, text+".")
	}
	return strings.Join(texts, " ")
}

// mostAccepted is how many devices a person names one by one.
const mostAccepted = 8

// acceptAll says how the record forgets all that is missing.
func acceptAll(list []fabric.Remembered, file string) string {
	var flags []string
	for _, r := range list {
		for _, m := range r.Missing {
			flags = append(flags, "--accept="+m.Address())
		}
	}
	if len(flags) > mostAccepted {
		return "If it was removed on purpose, remove " + file + ", so that the record begins anew."
	}
	return "If it was removed on purpose: gpufabric_exporter check " + strings.Join(flags, " ") +
		", as the user of the exporter."
}

// Short reports whether devices for training are missing, by any source.
func Short(n *fabric.Node) bool {
	if want := n.Policy.ComputePorts; want != nil {
		return CountPorts(n).There < *want
	}
	set, _ := n.NCCL.Lookup("NCCL_IB_HCA")
	listing, _ := listed(n)
	return len(n.MissingNames(fabric.ParseNameFilter(set.Value))) > 0 || len(n.Remembered) > 0 || len(listing.Gone) > 0
}
