// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

// network has NCCL stop with an error where it would fall back to TCP in silence (src/plugin/net.cc).
func (k *adviser) network() {
	const name = "NCCL_NET"
	if k.Workload.Fabric == TCP {
		k.leave(name, "Without RDMA, NCCL uses TCP by itself.", name)
		return
	}
	if k.contradicted() || k.Workload.Fabric == Auto && missingRDMA(k.node) != "" {
		return // the open question of the fabric says so
	}
	if present, set := k.base.NCCL.Text(name); set && lint.PluginNetwork(present) {
		return // it is kept: NCCL fails without that plugin, and does not fall back to TCP
	}
	s := lint.SuggestNetwork(k.base)
	if plugin, set := k.base.NCCL.Text("NCCL_NET_PLUGIN"); set && plugin != "none" {
		k.open(name, "The host sets NCCL_NET_PLUGIN, so that the name of the network is that of the plugin.",
			"set NCCL_NET to the name that NCCL prints in its line \"Using network\"")
		return
	}
	if s.Value == "" {
		k.open(name, s.Reason, "NCCL prints the name of its network with NCCL_DEBUG=INFO (\"Using network\")")
		return
	}
	k.set(Setting{Name: s.Name, Value: s.Value, Reason: s.Reason, Source: s.Source}, func(present string) bool {
		return strings.EqualFold(present, s.Value) || lint.PluginNetwork(present)
	})
}

// debug has NCCL say what failed.
func (k *adviser) debug() {
	for _, s := range lint.Suggest(nil, k.version, k.base) {
		if s.Name == "NCCL_DEBUG" {
			k.set(Setting{Name: s.Name, Value: s.Value, Reason: s.Reason, Source: s.Source}, nil)
		}
	}
}

const devicesVariable = "NCCL_IB_HCA"

// maxDevices is how many RDMA devices NCCL takes (MAX_IB_DEVS, src/transport/net_ib).
const maxDevices = 32

// devices names the ports of training where NCCL would take others as well: it takes every active port with
// an InfiniBand or Ethernet link layer (ncclIbInitDevices).
func (k *adviser) devices() {
	const name, ask = devicesVariable,
		"run `gpufabric_exporter check`; roles in the configuration file say what a device is for"
	if k.Workload.Fabric == TCP || k.Workload.Fabric == EFA || k.contradicted() {
		return
	}
	if len(k.node.Excluded) > 0 {
		k.open(name, "Flags exclude "+spelling.Few(k.node.Excluded,
			few)+" from reading: it is unknown whether NCCL should use them.",
			"run the command without --collector.device-exclude and --collector.device-include")
		return
	}
	var compute, others, odd []string
	needed := false // a compute port is, or should be, active
	for i := range k.node.HCAs {
		h := &k.node.HCAs[i]
		switch {
		case h.Moved && len(h.Ports) == 0:
			k.open(name, h.Name+" is in another network namespace: what it is for is not known.",
				"run the command where the job runs")
			return
		case h.PortsHidden():
			k.open(name, h.Name+" shows no port: what it is for is not known.", ask)
			return
		}
		for p := range h.Ports {
			port := &h.Ports[p]
			one := fmt.Sprintf("%s:%d", h.Name, port.Number)
			switch {
			case port.Serves(fabric.RoleCompute) && !plain(h.Name):
				odd = append(odd, h.Name)
			case port.Serves(fabric.RoleCompute):
				compute = append(compute, one)
				needed = needed || port.Link.Value || !port.Link.Stated()
			case takes(h, port) && port.MayServe(fabric.RoleCompute):
				k.open(name, "What "+one+" is for is not known: "+verdict.ReasonText(port.Role.Meta().Reason)+".", ask)
				return
			case takes(h, port):
				others = append(others, one)
			}
		}
	}
	slices.SortFunc(compute, fabric.NaturalOrder)
	slices.SortFunc(others, fabric.NaturalOrder)
	switch {
	case len(others) == 0:
		if len(compute) > 0 {
			k.leave(name,
				fmt.Sprintf("NCCL takes every active RDMA port, and this node has no others than its %d compute ports.",
					len(compute)), name)
		}
	case len(odd) > 0:
		k.open(name, "The name of a compute device has characters that a list of NCCL cannot have: "+spelling.Few(odd,
			few)+".", "rename the device with no job on the node: rdma dev set <device> name <name>")
	case !needed:
		k.open(name, "The node has no compute port with a link: "+spelling.Few(others, few)+" are others that NCCL takes.",
			ask)
	case len(compute) > maxDevices:
		k.open(name, fmt.Sprintf("The node has %d compute ports, and NCCL takes %d at most.", len(compute), maxDevices),
			"name those of the job")
	default:
		k.setDevices(compute, others)
	}
}

func (k *adviser) setDevices(compute, others []string) {
	const name = devicesVariable
	value := "=" + strings.Join(compute, ",")
	same := func(present string) bool { return k.sameDevices(value, present) }
	if v, _ := k.node.NCCL.Lookup(name); v.Value != "" && same(v.Value) &&
		slices.ContainsFunc(k.Remove, func(r Removal) bool { return r.Name == name }) {
		return // it names these and others that are missing
	}
	k.set(Setting{
		Name: name, Value: value, Source: sourceOf(name),
		Reason: fmt.Sprintf("NCCL takes every active RDMA port, and %s of this node %s not for training. With =, names match exactly; without it, they are prefixes.", spelling.Few(others, few), isAre(len(others))),
	}, same)
}

// sameDevices reports whether two values select the same ports of this node.
func (k *adviser) sameDevices(a, b string) bool {
	want, have := fabric.ParseNameFilter(a), fabric.ParseNameFilter(b)
	for h, p := range k.node.Ports {
		if takes(h, p) && want.Takes(h.Name, p.Number) != have.Takes(h.Name, p.Number) {
			return false
		}
	}
	return true
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// takes reports whether NCCL's RDMA transport uses the port, or may use it if its state is not known.
func takes(h *fabric.HCA, p *fabric.Port) bool {
	link := p.LinkLayer.Or(fabric.LinkInfiniBand)
	return !h.Traits().NoVerbs && (link == fabric.LinkInfiniBand || link == fabric.LinkEthernet) && !p.Down()
}

// roce yields the active compute ports of RoCE of a node.
func roce(n *fabric.Node) []portOf {
	var list []portOf
	for h, p := range n.ActiveCompute {
		if linkFabric(h, p) == RoCE && !h.Traits().NoVerbs {
			list = append(list, portOf{h, p})
		}
	}
	return list
}

// portOf is a port and its device.
type portOf struct {
	*fabric.HCA
	*fabric.Port
}

func (p portOf) name() string { return fmt.Sprintf("%s:%d", p.Name, p.Number) }
