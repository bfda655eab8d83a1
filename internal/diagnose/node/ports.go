// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// ComputePorts counts the compute ports of a node.
type ComputePorts struct {
	There   int           // active or not
	active  int           // EFA only ever says active; those of pods count, too
	down    int           // that should have a link: port_active reports them
	unclear int           // their state cannot be read
	guessed int           // active ones whose role nothing states
	why     fabric.Reason // why the state of the last of those that are unclear cannot be read
	hidden  fabric.Reason // why there may be more; empty where there cannot
}

// CountPorts counts the ports for training of a node.
func CountPorts(n *fabric.Node) (c ComputePorts) {
	for _, p := range n.Ports {
		if role, known := p.Role.Get(); !known { // of a node whose facts were taken away
			c.hidden = p.Role.Meta().Reason
			continue
		} else if role != fabric.RoleCompute {
			continue
		}
		c.There++
		switch {
		case p.Carries(), p.State.Meta().Reason == fabric.ReasonMoved:
			c.active++
			if p.RoleBy == fabric.ByNobody {
				c.guessed++
			}
		case p.State.State == fabric.Unknown:
			c.why, c.unclear = p.State.Meta().Reason, c.unclear+1
		case p.Link.Stated() && p.Link.Value:
			c.down++
		}
	}
	unread := func(s fabric.Source) bool {
		return !s.Up && (s.Name == fabric.SourceClass || s.Name == fabric.SourceHCA)
	}
	if i := slices.IndexFunc(n.Sources, unread); i >= 0 {
		c.hidden = n.Sources[i].Reason
	}
	if n.ClassPresent.State == fabric.Unknown {
		c.hidden = n.ClassPresent.Meta().Reason
	}
	return c
}

// judgeComputePorts finds ports that are gone, and ports without a link of which nothing states which should have one.
func judgeComputePorts(n *fabric.Node, of *verdict.Verdicts) {
	want := n.Policy.ComputePorts
	if want == nil {
		judgeProfilePorts(n, of)
		return
	}
	c := CountPorts(n)
	moved, most := n.MovedCompute()
	have := c.active + c.down + c.unclear
	if c.There <= *want { // then each should have a link: port_active reports those without
		have = c.There
	}
	switch {
	case have < *want && have+moved >= *want: // those that pods have may be the ones
		return
	case have < *want && have+most >= *want: // far from all GPUs, they may be as well
		of.Failed(verdict.Subject{}, movedFar(have, *want, most))
		return
	case c.hidden != "" && have < *want: // a port that cannot be read is not a missing one
		of.Unknown(verdict.Subject{}, c.hidden, fmt.Sprintf("%d compute ports can be read, but %d are expected.", have,
			*want))
		return
	case have >= *want && have-c.unclear < *want && c.There > *want:
		of.Unknown(verdict.Subject{}, c.why,
			fmt.Sprintf("%d compute ports are active, %d are expected; the state of %d more cannot be read.", c.active, *want,
				c.unclear))
		return
	case c.active > *want && c.guessed > 0:
		of.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: fmt.Sprintf("%d active ports may be for training where %d are expected", c.active, *want),
			Evidence: "Nothing states which of them: one for training may be gone, and another port counts in its place.",
			Remedy:   "State the roles of the others (roles of the configuration), or name those for training in NCCL_IB_HCA of the host; gpufabric_exporter topology shows all ports.",
		})
		return
	}
	if why := unreadList(n); why != "" && have >= *want {
		of.Unknown(verdict.Subject{}, why, "NCCL_IB_HCA of the host may name other ports for training, and could not be read.")
		return
	}
	if name := n.NextNamed(); name != "" && have >= *want && !n.HasRecord() && n.Policy.Manifest == nil {
		if least, most, uneven := shares(n); uneven {
			of.Failed(verdict.Subject{}, verdict.Verdict{
				Unstated: true, What: fmt.Sprintf("GPU %s has fewer NICs for training than others, and %s is not there", least.GPU, name),
				Evidence: fmt.Sprintf("Nearest to it are %s, and to GPU %s %s. The configuration gives %s a role. Where a device is gone "+
					"when the node starts, those after it have the name of the one before, and its role.", nearestText(least), most.GPU, nearestText(most), name),
				Remedy: goneRemedy + " If the node is in order, state its devices (gpufabric_exporter check --write-manifest).",
			})
			return
		}
	}
	evidence := "The site's configuration expects them (expected.compute_ports)."
	if moved > 0 {
		evidence += fmt.Sprintf(" Other network namespaces have %d devices that may be among them.", moved)
	}
	what := fmt.Sprintf("%d compute ports where %d are expected", c.There, *want)
	switch {
	case moved > 0:
		what = fmt.Sprintf("%d compute ports, and at most %d in other network namespaces, where %d are expected", c.There,
			moved, *want)
	case c.There > *want:
		what = fmt.Sprintf("%d of %d compute ports are active where %d are expected", c.active, c.There, *want)
	}
	if lost := LostDevices(n); len(lost) > 0 && len(n.HCAs) > 0 {
		what = shortList(lost) + " missing: " + what
		evidence += " " + "NCCL_IB_HCA of the host names what is missing."
	}
	remedy := ""
	names := besideDefaultRoute(n)
	if len(names) > 0 {
		evidence += " " + verdict.Few(names) + ": of role management, because the default route leaves through it."
		remedy = "If " + verdict.Few(names) +
			" is for training as well, give it role compute in the configuration (roles). Otherwise: "
	}
	bonded := bondedPorts(n)
	if bonded > 0 {
		evidence += fmt.Sprintf(" Bonds have one port for both of a card: %d have none of their own.", bonded)
		remedy += "If the bonds are intended, state the number that they leave (expected.compute_ports). If it is that number, " +
			"one is gone: that is told where a node in order stated its devices (gpufabric_exporter check --write-manifest). Otherwise: "
	}
	of.When(have < *want, verdict.Subject{}, verdict.Verdict{
		Unstated: have+max(len(names), bonded) >= *want, What: what,
		Evidence: evidence, Consequence: "Collectives use the remaining ports, or fail.",
		Remedy: remedy + goneRemedy + " Correct expected.compute_ports only if the node is not meant to have more.",
	})
}

// unreadList says why a file of the host that may set NCCL_IB_HCA could not be read; empty: all were, or none was
// asked for.
func unreadList(n *fabric.Node) fabric.Reason {
	for _, f := range n.NCCL.Files {
		if f.Exists.State == fabric.Unknown {
			return f.Exists.Meta().Reason
		}
	}
	return ""
}

// judgeProfilePorts counts the ports for training that the profile of the platform states, active or not.
func judgeProfilePorts(n *fabric.Node, of *verdict.Verdicts) {
	want, there := n.ProfileRails(), 0
	if want == 0 {
		judgeShares(n, of)
		return
	}
	for h, p := range n.Ports {
		if e := n.Profile.NICOf(n, h, p); e != nil && e.Role == fabric.RoleCompute && !e.Optional {
			there += 1 + len(n.Bonded(h).Or(nil))
		}
	}
	c := CountPorts(n)
	moved, most := n.MovedCompute()
	switch {
	case there < want && there+moved >= want:
	case there < want && there+most >= want:
		of.Failed(verdict.Subject{}, movedFar(there, want, most))
	case there < want && (c.hidden != "" || len(n.Excluded) > 0):
		of.Unknown(verdict.Subject{}, cmp.Or(c.hidden, fabric.ReasonRestricted),
			fmt.Sprintf("%d ports for training can be read; %s has %d.", there, n.Profile.Title, want))
	default:
		of.When(there < want, verdict.Subject{}, verdict.Verdict{
			What:        fmt.Sprintf("%d ports for training where %s has %d", there, n.Profile.Title, want),
			Evidence:    "The profile " + n.Profile.Name + " of the platform states it (gpufabric_exporter profiles).",
			Consequence: "Collectives use the remaining ports, or fail.", Remedy: goneRemedy +
				" If this machine has fewer: state expected.compute_ports.",
		})
	}
}

// bondedPorts counts the ports that have no RDMA device of their own, because one for training is theirs, too.
func bondedPorts(n *fabric.Node) (ports int) {
	for h := range n.ComputePorts {
		ports += len(n.Bonded(h).Or(nil))
	}
	return ports
}

// movedFar says that devices in other network namespaces may be those that are expected, though they are far
// from all GPUs.
func movedFar(have, want, moved int) verdict.Verdict {
	return verdict.Verdict{
		Unstated: true,
		What: fmt.Sprintf("%d compute ports, and %d devices in other network namespaces, where %d are expected", have,
			moved, want),
		Evidence: "Some of these devices are far from all GPUs, and nothing states what they are for.",
		Remedy:   "State their roles (roles of the configuration). Otherwise: " + goneRemedy,
	}
}

// goneRemedy is what to do about a device that is gone.
const goneRemedy = "Check rdma link, lspci -nn and dmesg -T | grep -iE 'pcie|mlx5|bnxt'. A device that left the bus may return on the drained node after echo 1 > /sys/bus/pci/rescan, " +
	"or a cold restart."

// besideDefaultRoute names active ports with the default route that may be for training as well, as in clouds
// whose servers have one kind of NIC: ports for training have the same board, or there is none.
func besideDefaultRoute(n *fabric.Node) (names []string) {
	alike, compute := false, false
	for h, p := range n.Ports {
		d := n.NetDev(p.NetDev.Or(""))
		if !p.Serves(fabric.RoleManagement) || p.RoleBy != fabric.ByNobody || d == nil || !d.PreferredRoute.Or(false) ||
			!p.Carries() {
			continue
		}
		names = append(names, verdict.PortSubject(h, p).String())
		for o := range n.ComputePorts {
			compute, alike = true, alike || n.SameBoard(h, o).Or(false)
		}
	}
	if compute && !alike {
		return nil
	}
	return names
}

// judgeSurplus counts active ports only: others may be there beside the ones that are expected.
func judgeSurplus(n *fabric.Node, of *verdict.Verdicts) {
	want := n.Policy.ComputePorts
	if want == nil {
		return
	}
	c := CountPorts(n)
	switch {
	case c.active > *want && c.guessed > 0: // compute_ports
	case c.active > *want:
		of.Failed(verdict.Subject{}, verdict.Verdict{
			What:        fmt.Sprintf("%d active ports count as compute where %d are expected", c.active, *want),
			Evidence:    "The site's configuration expects fewer (expected.compute_ports).",
			Consequence: "Ports with another purpose are checked and alerted on as training ports, and NCCL may use them for training.",
			Remedy:      "See which ports count (gpufabric_exporter topology). Set the role of the others in the configuration (roles), or correct expected.compute_ports.",
		})
	case c.active+c.unclear > *want:
		of.Unknown(verdict.Subject{}, c.why,
			fmt.Sprintf("%d compute ports are active, %d are expected; the state of %d more cannot be read.", c.active, *want,
				c.unclear))
	case n.ClassPresent.State == fabric.Unknown:
		of.Unknown(verdict.Subject{}, c.hidden, "The list of RDMA devices cannot be read.")
	default:
		of.OK(verdict.Subject{})
	}
}

// LostDevices names the compute devices that are gone: NCCL_IB_HCA of the host names them like those that are
// there, and the site expects at least as many more ports. More names than missing ports are another mistake.
func LostDevices(n *fabric.Node) []string {
	want := n.Policy.ComputePorts
	set, _ := n.NCCL.Lookup("NCCL_IB_HCA")
	names := n.MissingNames(fabric.ParseNameFilter(set.Value))
	if want == nil || len(names) == 0 || len(names) > *want-CountPorts(n).There {
		return nil
	}
	stem := func(name string) string { return strings.TrimRightFunc(name, unicode.IsDigit) }
	alike := func(name string) bool {
		return len(n.HCAs) == 0 || slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool { return stem(h.Name) == stem(name) })
	}
	if !slices.ContainsFunc(names, func(name string) bool { return !alike(name) }) {
		return names
	}
	return nil
}
