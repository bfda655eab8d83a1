// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// netPluginSettings begin the names of variables that only a plugin with a network of its own reads.
var netPluginSettings = []string{"NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_SHIMNET_"}

// pluginNamed reports whether the configuration names a network that is none of NCCL's own (plugin/net.cc).
func pluginNamed(c *fabric.NCCLConfig) bool {
	if network, set := c.Text("NCCL_NET"); set && !strings.EqualFold(network, "IB") {
		return true
	}
	libraries, _ := c.Text("NCCL_NET_PLUGIN") // a list from 2.27 on
	for library := range strings.SplitSeq(libraries, ",") {
		if library != "" && !strings.EqualFold(library, "none") {
			return true
		}
	}
	return slices.ContainsFunc(c.Variables, func(v fabric.NCCLVariable) bool {
		return slices.ContainsFunc(netPluginSettings, func(prefix string) bool { return strings.HasPrefix(v.Name, prefix) })
	})
}

// rdmaSetting returns the variable that decides whether NCCL's own RDMA transport is used, and whether it
// switches it off; set is false where the host does not decide, or names a plugin.
func rdmaSetting(c *fabric.NCCLConfig) (by fabric.NCCLVariable, off, set bool) {
	network, named := c.Lookup("NCCL_NET")
	disable, found := c.Lookup("NCCL_IB_DISABLE")
	switch {
	case named && strings.EqualFold(network.Value, "Socket"): // which plugins there are does not matter then
		return network, true, true
	case pluginNamed(c):
		return by, false, false
	case found && disable.IsNumber && disable.Number != 0:
		return disable, true, true
	case found && disable.Value != "":
		return disable, false, true
	}
	return network, false, named && network.Value != ""
}

// pluginsOff returns the variable that keeps NCCL from using a network plugin, without which it cannot use EFA.
func pluginsOff(c *fabric.NCCLConfig) (by fabric.NCCLVariable, off bool) {
	if network, set := c.Lookup("NCCL_NET"); set && network.Value != "" {
		return network, strings.EqualFold(network.Value, "Socket") || strings.EqualFold(network.Value, "IB")
	}
	library, set := c.Lookup("NCCL_NET_PLUGIN")
	return library, set && strings.EqualFold(library.Value, "none")
}

func judgeRDMAOff(n *fabric.Node, v *verdict.Verdicts) {
	by, off, set := rdmaSetting(&n.NCCL)
	plugins, none := pluginsOff(&n.NCCL)
	if !set && !none { // ports need not be looked at
		return
	}
	names, unread := rdmaPorts(n, false)
	if none && len(names) == 0 {
		if efa, _ := rdmaPorts(n, true); len(efa) > 0 {
			by, off, set, names = plugins, true, true, efa
		}
	}
	if !set {
		return
	}
	s := ofSetting(by)
	if !off {
		for _, f := range n.NCCL.Files {
			if f.Exists.State == fabric.Unknown {
				v.Hidden(s, f.Exists.Meta(), "Whether another file of the NCCL configuration disables RDMA")
				return
			}
		}
		v.OK(s)
		return
	}
	switch {
	case len(names) > 0:
	case unread != nil:
		v.Hidden(s, *unread, "Whether the node has RDMA devices that NCCL would use")
		return
	default:
		return
	}
	w := verdict.Verdict{
		Unstated:    !n.TrainingStated(),
		Evidence:    seenOf(by, portsText(names)),
		Consequence: "NCCL uses TCP sockets, unless the image of a job has a network plugin that ignores the variable (IBext of HPC-X): collectives between nodes have a fraction of the bandwidth.",
		Remedy: "In " + by.Source +
			" remove the line, or give these devices another role in the configuration (roles) if they are not for training.",
	}
	if by.Source == "" {
		w.What, w.Remedy = "RDMA is disabled", RemoveLine
	}
	if by.Name != "NCCL_IB_DISABLE" {
		w.Consequence = "NCCL uses TCP sockets: collectives between nodes have a fraction of the bandwidth."
	}
	if network, _ := n.NCCL.Text("NCCL_NET"); strings.EqualFold(network, "IB") {
		w.Consequence = "NCCL finds no network: jobs fail when they start."
		if by.Name != "NCCL_NET" {
			w.Evidence = fmt.Sprintf("%s=%s, NCCL_NET=%s. %s", by.Name, by.Value, network, portsText(names))
		}
	}
	v.Failed(s, w)
}

// RemoveLine is what to do about a line of a job, which is shown with the verdict.
const RemoveLine = "remove the line"

// ofSetting is the subject of a verdict on a setting.
func ofSetting(set fabric.NCCLVariable) verdict.Subject {
	return verdict.Subject{File: set.Source, Variable: set.Name}
}

// seenOf is a setting, and what was found of it. That of a job is left out: its line is shown with the verdict.
func seenOf(set fabric.NCCLVariable, found ...string) string {
	if set.Source != "" {
		found = slices.Insert(found, 0, set.Name+"="+set.Value+".")
	}
	return strings.Join(found, " ")
}

func portsText(names []string) string {
	shown, plural := names, "s"
	if len(names) == 1 {
		plural = ""
	}
	if len(shown) > 4 {
		shown = append(slices.Clone(shown[:4]), "..")
	}
	return fmt.Sprintf("%d active RDMA port%s of role compute: %s.", len(names), plural, strings.Join(shown, ", "))
}

// rdmaPorts names the active ports that NCCL would use for training, by its own RDMA transport or those that
// need a plugin; without any, unread is why one of them may be one.
func rdmaPorts(n *fabric.Node, plugin bool) (names []string, unread *fabric.Meta) {
	if n.ClassPresent.State == fabric.Unknown && n.ClassPresent.Reason != "" {
		unread = new(n.ClassPresent.Meta())
	}
	for h, p := range n.Ports {
		if !p.MayServe(fabric.RoleCompute) || p.Down() {
			continue
		}
		trains := forTraining(n, h, p, plugin)
		switch is, known := trains.Get(); {
		case known && !is:
		case !known:
			unread = new(trains.Meta())
		case !p.Serves(fabric.RoleCompute):
			unread = new(p.Role.Meta())
		case !p.Carries():
			unread = new(p.State.Meta())
		default:
			names = append(names, verdict.PortSubject(h, p).String())
		}
	}
	return names, unread
}

// forTraining reports whether there is evidence that a port of role compute is for NCCL's own RDMA transport,
// or for a plugin; the role alone is none. NICs of servers that share a disk over RDMA, and of virtual
// machines without a fabric, have that role too, and NCCL_IB_DISABLE=1 is right there. The site says so, and
// may say that none is; or the NIC is near a GPU; or it is InfiniBand in a node of several GPUs. EFA has no
// queue pairs that NCCL itself could use, but that a plugin uses, which ignores NCCL_IB_HCA. MANA is
// the interface of many virtual machines.
func forTraining(n *fabric.Node, h *fabric.HCA, p *fabric.Port, plugin bool) fabric.Fact[bool] {
	const source = "bus/pci/devices"
	yes, no := fabric.Known(true, source, n.At), fabric.Known(false, source, n.At)
	unknown := func(m fabric.Meta) fabric.Fact[bool] {
		return fabric.UnknownFact[bool](cmp.Or(m.Reason, fabric.ReasonNotRead), m.Source, m.At)
	}
	list, _ := n.NCCL.Text("NCCL_IB_HCA")
	if plugin {
		list = ""
	}
	filter := fabric.ParseNameFilter(list)
	site, stated := n.Policy.RoleOf(h.Name)
	switch {
	case !filter.Takes(h.Name, p.Number):
		return no
	case h.Driver.State == fabric.Unknown:
		return unknown(h.Driver.Meta())
	case h.Traits().NoVerbs != plugin:
		return no
	case stated && site == fabric.RoleCompute, n.Policy.ComputePorts != nil && *n.Policy.ComputePorts > 0,
		len(filter.Items) > 0 && !filter.Exclude:
		return yes
	case n.Policy.ComputePorts != nil: // none
		return no
	case h.Traits().OrdinaryNIC:
		return no
	}
	gpus, counted := n.GPUs.Get()
	layer, layered := p.LinkLayer.Get()
	switch {
	case !counted:
		return unknown(n.GPUs.Meta())
	case gpus == 0:
		return no
	case gpus > 1 && !layered:
		return unknown(p.LinkLayer.Meta())
	case gpus > 1 && layer == fabric.LinkInfiniBand:
		return yes
	}
	return nearGPU(n, h)
}

// nearGPU reports whether a NIC is so near a GPU that NCCL uses GPUDirect RDMA by default.
func nearGPU(n *fabric.Node, h *fabric.HCA) fabric.Fact[bool] {
	nic, gpus := n.PCI.NIC(h.Name), n.PCI.GPUs()
	if nic == nil || len(gpus) == 0 {
		return fabric.UnknownFact[bool](fabric.ReasonNotRead, "bus/pci/devices", n.At)
	}
	near := fabric.Known(false, "bus/pci/devices", n.At)
	for _, g := range gpus {
		d := n.Distance(g, nic)
		switch class, known := d.Get(); {
		case !known:
			near = fabric.UnknownFact[bool](d.Meta().Reason, d.Source, d.At)
		case class <= fabric.DistanceP2C:
			return fabric.Known(true, d.Source, d.At)
		}
	}
	return near
}
