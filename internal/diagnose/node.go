// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

func nodeChecks() []*verdict.Check {
	return []*verdict.Check{
		{
			ID: verdict.CheckReads, Title: "Reads do not return", Severity: verdict.Critical, Topic: "node", Scope: verdict.ScopeDevice,
			Reads: "pending reads of the device or the node, and when they began; whether the device lists a port", Modes: []string{verdict.ModeDriverHung},
			Judge: judgeReads,
		},
		{
			ID: verdict.CheckComputePorts, Title: "Compute ports are missing", Severity: verdict.Critical, Topic: "node", Scope: verdict.ScopeNode,
			Reads: "the ports of role compute and who states that, expected.compute_ports of the configuration, else the profile of the platform",
			Guard: "only if the configuration or the profile of the platform states the number; port_active reports ports that are there and should have a link. If more are active than expected and nothing states which are for training, it is unknown. " +
				"If nothing states what the node has, it is unknown without a compute port beside GPUs, and where one GPU has fewer NICs near than another",
			Rests: verdict.OnExpectation, Modes: []string{verdict.ModeDeviceGone},
			Judge: judgeComputePorts,
		},
		{
			ID: verdict.CheckSurplusPorts, Title: "More ports count as compute than the site expects", Severity: verdict.Warning, Topic: "node", Scope: verdict.ScopeNode,
			Reads: "the active ports of role compute and who states that, expected.compute_ports of the configuration",
			Guard: "only if the configuration sets the expected number; ports without a link do not count, and if nothing states the roles, compute_ports is unknown instead", Modes: []string{verdict.ModeSurplusPort},
			Judge: judgeSurplus,
		},
	}
}

// judgeReads gives one verdict for each device and one for each source of the whole node: the worst of its sources.
func judgeReads(n *fabric.Node, of *verdict.Verdicts) {
	at := map[string]int{} // device, or source of the whole node: its place in worst
	var worst []*fabric.Source
	for i := range n.Sources {
		s := &n.Sources[i]
		if s.OfNetDev() {
			continue // the reading of all interfaces covers them
		}
		key := s.Device
		if key == "" {
			key = "node/" + s.Name // no device has a slash in its name
		}
		k, seen := at[key]
		switch {
		case !seen:
			at[key], worst = len(worst), append(worst, s)
		case statusOf(s).Worse(statusOf(worst[k])):
			worst[k] = s
		}
	}
	for _, s := range worst {
		subject := verdict.Subject{Device: s.Device}
		if s.Device == "" {
			subject.File = verdict.SourceWords(s.Name)
		}
		switch statusOf(s) {
		case verdict.Failed:
			of.Failed(subject, verdict.Verdict{
				Evidence:    "The kernel has not responded since " + s.Since.UTC().Format("15:04:05 UTC") + ".",
				Consequence: "No facts are available until it does.",
				Remedy:      "Check dmesg -T | grep -iE 'hung|blocked for|health|firmware'. Drain the node, and restart it if the device does not recover.",
			})
		case verdict.Unknown:
			evidence := verdict.Sentence(verdict.ReasonText(s.Reason))
			if s.Err != nil {
				evidence += " (" + strings.ReplaceAll(s.Err.Error(), "\n", "; ") + ")" // errors that are joined have a line each
			}
			of.Unknown(subject, s.Reason, evidence)
		default:
			if h := n.HCA(s.Device); h != nil && !h.Moved && h.PortsHidden() {
				of.Unknown(subject, fabric.ReasonMissing, "It shows no port: /sys/class/infiniband/"+h.Name+"/ports is empty or cannot be read.")
				continue
			}
			of.OK(subject)
		}
	}
}

// statusOf is that of what a source is read from.
func statusOf(s *fabric.Source) verdict.Status {
	switch {
	case s.Up:
		return verdict.OK
	case s.Stuck():
		return verdict.Failed
	}
	return verdict.Unknown
}

// computePorts counts the compute ports of a node.
type computePorts struct {
	there   int           // active or not
	active  int           // EFA only ever says active; those of pods count, too
	down    int           // that should have a link: port_active reports them
	unclear int           // their state cannot be read
	guessed int           // active ones whose role nothing states
	why     fabric.Reason // why the state of the last of those that are unclear cannot be read
	hidden  fabric.Reason // why there may be more; empty where there cannot
}

func computePortsOf(n *fabric.Node) (c computePorts) {
	for _, p := range n.Ports {
		if role, known := p.Role.Get(); !known { // of a node whose facts were taken away
			c.hidden = p.Role.Meta().Reason
			continue
		} else if role != fabric.RoleCompute {
			continue
		}
		c.there++
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

// activeCompute counts the active compute ports.
func activeCompute(n *fabric.Node) (active int) {
	for range n.ActiveCompute {
		active++
	}
	return active
}

// judgeComputePorts finds ports that are gone, and ports without a link of which nothing states which should have one.
func judgeComputePorts(n *fabric.Node, of *verdict.Verdicts) {
	want := n.Policy.ComputePorts
	if want == nil {
		judgeProfilePorts(n, of)
		return
	}
	c := computePortsOf(n)
	moved, most := n.MovedCompute()
	have := c.active + c.down + c.unclear
	if c.there <= *want { // then each should have a link: port_active reports those without
		have = c.there
	}
	switch {
	case have < *want && have+moved >= *want: // those that pods have may be the ones
		return
	case have < *want && have+most >= *want: // far from all GPUs, they may be as well
		of.Failed(verdict.Subject{}, movedFar(have, *want, most))
		return
	case c.hidden != "" && have < *want: // a port that cannot be read is not a missing one
		of.Unknown(verdict.Subject{}, c.hidden, fmt.Sprintf("%d compute ports can be read, but %d are expected.", have, *want))
		return
	case have >= *want && have-c.unclear < *want && c.there > *want:
		of.Unknown(verdict.Subject{}, c.why, fmt.Sprintf("%d compute ports are active, %d are expected; the state of %d more cannot be read.", c.active, *want, c.unclear))
		return
	case c.active > *want && c.guessed > 0:
		of.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: fmt.Sprintf("%d active ports may be for training where %d are expected", c.active, *want),
			Evidence: "Nothing states which of them: one for training may be gone, and another port counts in its place.",
			Remedy:   "State the roles of the others (roles of the configuration), or name those for training in NCCL_IB_HCA of the host; gpufabric_exporter topology shows all ports.",
		})
		return
	}
	evidence := "The site's configuration expects them (expected.compute_ports)."
	if moved > 0 {
		evidence += fmt.Sprintf(" Other network namespaces have %d devices that may be among them.", moved)
	}
	what := fmt.Sprintf("%d compute ports where %d are expected", c.there, *want)
	switch {
	case moved > 0:
		what = fmt.Sprintf("%d compute ports, and at most %d in other network namespaces, where %d are expected", c.there, moved, *want)
	case c.there > *want:
		what = fmt.Sprintf("%d of %d compute ports are active where %d are expected", c.active, c.there, *want)
	}
	if lost := lostDevices(n); len(lost) > 0 && len(n.HCAs) > 0 {
		what = shortList(lost) + " missing: " + what
		evidence += " " + "NCCL_IB_HCA of the host names what is missing."
	}
	remedy := ""
	names := besideDefaultRoute(n)
	if len(names) > 0 {
		evidence += " " + verdict.Few(names) + ": of role management, because the default route leaves through it."
		remedy = "If " + verdict.Few(names) + " is for training as well, give it role compute in the configuration (roles). Otherwise: "
	}
	bonded := bondedPorts(n)
	if bonded > 0 {
		evidence += fmt.Sprintf(" Bonds have one port for both of a card: %d have none of their own.", bonded)
		remedy += "If the bonds are intended, state the number that they leave. Otherwise: "
	}
	of.When(have < *want, verdict.Subject{}, verdict.Verdict{
		Unstated: have+max(len(names), bonded) >= *want, What: what,
		Evidence: evidence, Consequence: "Collectives use the remaining ports, or fail.",
		Remedy: remedy + goneRemedy + " Correct expected.compute_ports only if the node is not meant to have more.",
	})
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
	c := computePortsOf(n)
	moved, most := n.MovedCompute()
	switch {
	case there < want && there+moved >= want:
	case there < want && there+most >= want:
		of.Failed(verdict.Subject{}, movedFar(there, want, most))
	case there < want && (c.hidden != "" || len(n.Excluded) > 0):
		of.Unknown(verdict.Subject{}, cmp.Or(c.hidden, fabric.ReasonRestricted), fmt.Sprintf("%d ports for training can be read; %s has %d.", there, n.Profile.Title, want))
	default:
		of.When(there < want, verdict.Subject{}, verdict.Verdict{
			What: fmt.Sprintf("%d ports for training where %s has %d", there, n.Profile.Title, want), Evidence: "The profile " + n.Profile.Name + " of the platform states it (gpufabric_exporter profiles).",
			Consequence: "Collectives use the remaining ports, or fail.", Remedy: goneRemedy + " If this machine has fewer: state expected.compute_ports.",
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

// movedFar says that devices in other network namespaces may be those that are expected, though they are far from all GPUs.
func movedFar(have, want, moved int) verdict.Verdict {
	return verdict.Verdict{
		Unstated: true, What: fmt.Sprintf("%d compute ports, and %d devices in other network namespaces, where %d are expected", have, moved, want),
		Evidence: "Some of these devices are far from all GPUs, and nothing states what they are for.",
		Remedy:   "State their roles (roles of the configuration). Otherwise: " + goneRemedy,
	}
}

// judgeShares keeps a node of which nothing states what it has from an all-clear where a device seems to be gone: no port is for training,
// or one GPU has fewer NICs for training than the others. Either may as well be how the machine is made.
func judgeShares(n *fabric.Node, of *verdict.Verdicts) {
	if n.NamesDevices() || n.HasRecord() || n.Policy.Manifest != nil {
		return
	}
	_, moved := n.MovedCompute()
	if c := computePortsOf(n); c.there == 0 && c.hidden == "" && moved == 0 && n.GPUs.Or(0) > 0 {
		of.Failed(verdict.Subject{}, verdict.Verdict{
			Unstated: true, What: "no port is for training, as far as is known",
			Evidence: fmt.Sprintf("The node has %s and %s. Nothing states whether ports for training are gone.",
				spelling.Plural(n.GPUs.Value, "GPU", "GPUs"), spelling.Plural(len(n.HCAs), "RDMA device", "RDMA devices")),
			Remedy: "If the node is not meant to have any, state expected.compute_ports: 0. If virtual functions or other ports are for training, " +
				"state their role (roles of the configuration), or name them in NCCL_IB_HCA of the host. Otherwise: " + goneRemedy,
		})
		return
	}
	rails := n.PCI.Rails
	if len(rails) == 0 {
		return
	}
	by := func(a, b fabric.Rail) int {
		return cmp.Or(cmp.Compare(nearby(a), nearby(b)), cmp.Compare(share(n, a), share(n, b)))
	}
	least, most := slices.MinFunc(rails, by), slices.MaxFunc(rails, by)
	if by(least, most) == 0 || slices.Equal(least.Nearest, most.Nearest) {
		return
	}
	of.Failed(verdict.Subject{}, verdict.Verdict{
		Unstated: true, What: fmt.Sprintf("GPU %s has fewer NICs for training than others", least.GPU),
		Evidence: fmt.Sprintf("Nearest to it are %s, and to GPU %s %s. Nothing states whether a device is gone, or the machine is made so.",
			nearestText(least), most.GPU, nearestText(most)),
		Remedy: goneRemedy + " If the machine is made so, state expected.compute_ports.",
	})
}

// nearestText names the NICs nearest to a GPU, and how far they are.
func nearestText(r fabric.Rail) string {
	d, known := r.Distance.Get()
	if !known || len(r.Nearest) == 0 {
		return cmp.Or(verdict.Few(r.Nearest), "none that is known")
	}
	return verdict.Few(r.Nearest) + " (" + d.String() + ")"
}

// nearby is 1 if a GPU has NICs below a PCIe switch that it is below, else 0.
func nearby(r fabric.Rail) int {
	if d, known := r.Distance.Get(); known && d <= fabric.DistancePXB {
		return 1
	}
	return 0
}

// share is how many NICs a GPU has for itself, in ways in which GPUs share the same ones.
func share(n *fabric.Node, r fabric.Rail) float64 {
	users := 0
	for _, o := range n.PCI.Rails {
		if slices.Equal(o.Nearest, r.Nearest) {
			users++
		}
	}
	return float64(len(r.Nearest)) / float64(users)
}

// goneRemedy is what to do about a device that is gone.
const goneRemedy = "Check rdma link, lspci -nn and dmesg -T | grep -iE 'pcie|mlx5|bnxt'. A device that left the bus may return on the drained node after echo 1 > /sys/bus/pci/rescan, " +
	"or a cold restart."

// besideDefaultRoute names active ports with the default route that may be for training as well, as in clouds whose servers have one kind
// of NIC: ports for training have the same board, or there is none.
func besideDefaultRoute(n *fabric.Node) (names []string) {
	alike, compute := false, false
	for h, p := range n.Ports {
		d := n.NetDev(p.NetDev.Or(""))
		if !p.Serves(fabric.RoleManagement) || p.RoleBy != fabric.ByNobody || d == nil || !d.PreferredRoute.Or(false) || !p.Carries() {
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
	c := computePortsOf(n)
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
		of.Unknown(verdict.Subject{}, c.why, fmt.Sprintf("%d compute ports are active, %d are expected; the state of %d more cannot be read.", c.active, *want, c.unclear))
	case n.ClassPresent.State == fabric.Unknown:
		of.Unknown(verdict.Subject{}, c.hidden, "The list of RDMA devices cannot be read.")
	default:
		of.OK(verdict.Subject{})
	}
}

// shortList names the first of a list, with the verb.
func shortList(names []string) string {
	const most = 4
	switch {
	case len(names) == 1:
		return names[0] + " is"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more are", len(names)-most)
	}
	return strings.Join(names, ", ") + " are"
}
