// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

func nodeChecks() []*Check {
	return []*Check{
		{
			ID: "reads_return", Title: "Reads do not return", Severity: Critical, Topic: "node", Scope: ScopeDevice,
			Reads: "what has been read of the device, or of the node, and since when it is waited for", Modes: []string{ModeDriverHung},
			judge: judgeReads,
		},
		{
			ID: "compute_ports", Title: "Compute ports are missing", Severity: Critical, Topic: "node", Scope: ScopeNode,
			Reads: "the ports of role compute, expected.compute_ports of the configuration",
			Guard: "asked only where the configuration says how many are expected", Modes: []string{ModeDeviceGone},
			judge: judgeComputePorts,
		},
	}
}

// judgeReads gives one verdict for each device and one for each source of the whole node: the worst of its sources.
func judgeReads(n *fabric.Node, of *verdicts) {
	at := map[string]int{} // device, or source of the whole node: its place in worst
	var worst []*fabric.Source
	for i := range n.Sources {
		s := &n.Sources[i]
		if s.Name == fabric.SourceQoS || s.Name == fabric.SourceNetStats || s.Name == fabric.SourceDCQCN {
			continue // of a network interface: the lane of all interfaces speaks for them
		}
		key := s.Device
		if key == "" {
			key = "node/" + s.Name // no device has a slash in its name
		}
		k, seen := at[key]
		switch {
		case !seen:
			at[key], worst = len(worst), append(worst, s)
		case rank(s) > rank(worst[k]):
			worst[k] = s
		}
	}
	for _, s := range worst {
		subject := Subject{Device: s.Device}
		if s.Device == "" {
			subject.File = sourceWords(s.Name)
		}
		switch rank(s) {
		case 2:
			of.failed(subject, Verdict{
				Evidence:    "The kernel has not answered since " + s.Since.UTC().Format("15:04:05 UTC") + ".",
				Consequence: "Nothing is known about it until it does.",
				Remedy:      "See dmesg -T | grep -iE 'hung|blocked for|health|firmware'. Take the node out of jobs, and restart it if the device does not answer again.",
			})
		case 1:
			evidence := Sentence(ReasonText(s.Reason))
			if s.Err != nil {
				evidence += " (" + s.Err.Error() + ")"
			}
			of.unknown(subject, s.Reason, evidence)
		default:
			of.ok(subject)
		}
	}
}

// rank is how badly a source does.
func rank(s *fabric.Source) int {
	switch {
	case s.Up:
		return 0
	case s.Stuck():
		return 2
	}
	return 1
}

func judgeComputePorts(n *fabric.Node, of *verdicts) {
	want := n.Policy.ComputePorts
	if want == nil {
		return
	}
	// Ports that nobody cabled may be there beside those that are expected.
	have, active, unclear, hidden := 0, 0, 0, fabric.Reason("")
	var unclearWhy fabric.Reason
	for _, p := range ports(n) {
		switch r, known := p.Role.Get(); {
		case !known:
			hidden = p.Role.Meta().Reason
		case r == fabric.RoleCompute:
			have++
			switch state, known := p.State.Get(); {
			case p.State.State == fabric.Unknown && p.State.Meta().Reason != fabric.ReasonDriverConstant:
				unclear, unclearWhy = unclear+1, p.State.Meta().Reason
			case !known || state == fabric.PortActive: // EFA only ever says active
				active++
			}
		}
	}
	unread := func(s fabric.Source) bool {
		return !s.Up && (s.Name == fabric.SourceClass || s.Name == fabric.SourceHCA)
	}
	if i := slices.IndexFunc(n.Sources, unread); i >= 0 {
		hidden = n.Sources[i].Reason
	}
	if n.ClassPresent.State == fabric.Unknown {
		hidden = n.ClassPresent.Meta().Reason
	}
	if have < *want && have+n.MovedCompute() >= *want { // those that pods have may be the ones
		return
	}
	if hidden != "" && have < *want { // a port that cannot be read is not a missing one
		of.unknown(Subject{}, hidden, fmt.Sprintf("%d compute ports can be read, %d are expected.", have, *want))
		return
	}
	if have > *want {
		if active <= *want && active+unclear > *want {
			of.unknown(Subject{}, unclearWhy, fmt.Sprintf("%d of %d compute ports are active, %d are expected; the state of %d cannot be read.", active, have, *want, unclear))
			return
		}
		have = max(active, *want)
	}
	evidence := "The site's configuration expects them (expected.compute_ports)."
	if moved := n.MovedCompute(); moved > 0 {
		evidence += fmt.Sprintf(" Other network namespaces have %d devices that may be among them.", moved)
	}
	of.when(have != *want, Subject{}, Verdict{
		What:     fmt.Sprintf("%d compute ports where %d are expected", have, *want),
		Evidence: evidence, Consequence: "Collectives use what is left, or fail.",
		Remedy: "See rdma link, lspci -nn and dmesg -T | grep -iE 'pcie|mlx5|bnxt'. What left the bus comes back with echo 1 > /sys/bus/pci/rescan " +
			"or a cold restart, or not at all; else correct expected.compute_ports.",
	})
}
