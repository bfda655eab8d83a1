// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/spelling"
	"gpufabric_exporter/internal/verdict"
)

const socketVariable = "NCCL_SOCKET_IFNAME"

// passedOver are beginnings of names that NCCL takes last (ncclFindInterfaces, src/misc/socket.cc).
var passedOver = []string{"docker", "lo", "virbr"}

// inside are beginnings of names of interfaces that container networks make, and that reach no other node by
// themselves.
var inside = []string{
	"br-", "cali", "cilium", "cni", "dummy", "flannel", "kube", "lxc", "nodelocaldns", "tun",
	"veth", "vxlan", "weave",
}

// sockets names the interface of the bootstrap where NCCL would use the first of several.
func (k *adviser) sockets() {
	const ask = "name the interface by which the nodes reach each other, as `ip route get <other node>` shows it"
	if v, set := k.base.NCCL.Lookup(socketVariable); set && v.Value != "" {
		return // kept
	}
	all, known := k.node.Interfaces.Get()
	if !known {
		k.open(socketVariable, "The network interfaces of the node could not be read.", ask)
		return
	}
	var up, free []string
	first := "" // that NCCL takes before others
	for _, i := range all {
		switch {
		case !isUp(i) || begins(i.Name, passedOver):
		case strings.HasPrefix(i.Name, "ib"):
			first = i.Name
		default:
			up = append(up, i.Name)
			if !begins(i.Name, inside) && k.freeForSockets(i.Name) {
				free = append(free, i.Name)
			}
		}
	}
	if routed := k.routed(free); len(routed) == 1 {
		free = routed
	}
	ambiguous := fmt.Sprintf("NCCL takes the first of the interfaces that are up (%s)", spelling.Few(up, few))
	if first != "" {
		ambiguous = "NCCL takes interfaces whose name begins with ib and that have an address before others, and " + first +
			" is up"
	}
	switch {
	case first != "" && k.railList() < 0:
		k.leave(socketVariable, ambiguous+".", socketVariable)
	case first == "" && len(up) < 2:
		k.leave(socketVariable, "At most one interface that NCCL would use for bootstrap is up.", socketVariable)
	case k.Workload.Fabric == TCP:
		k.openSockets(ambiguous+". Without RDMA that is also where the data goes.",
			"name the fastest interfaces by which the nodes reach each other")
	case len(free) == 1 && plain(free[0]):
		k.set(Setting{
			Name: socketVariable, Value: "=" + free[0], Source: sourceOf(socketVariable), HostNames: true,
			Reason: ambiguous + ", which may be a rail on one node and the management network on another. " + free[0] +
				" is the one that is neither a rail nor for storage. It is used for bootstrap only; data goes over RDMA. A pod without hostNetwork has other interfaces and needs no setting.",
		}, nil)
	default:
		k.openSockets(ambiguous+"; which of them reaches the other nodes is not known.", ask)
	}
}

// railList is which removal is of a list of rails, -1 for none: the node works with it.
func (k *adviser) railList() int {
	return slices.IndexFunc(k.Remove, func(r Removal) bool { return r.Name == socketVariable && r.Level == verdict.Info })
}

// openSockets leaves the variable open. A list of rails stays: without it, NCCL may take the same interfaces or worse.
func (k *adviser) openSockets(reason, ask string) {
	if at := k.railList(); at >= 0 {
		r := k.Remove[at]
		k.Remove = slices.Delete(k.Remove, at, at+1)
		reason = fmt.Sprintf("The host sets %s (%s), which takes interfaces of rails. Keep it until it is replaced. Without it, %s", r.Value, r.From, reason)
	}
	k.open(socketVariable, reason, ask)
}

// isUp reports whether an interface is up; tunnels do not count, because the kernel does not report their state.
func isUp(i fabric.Interface) bool { return i.OperState.Or("") == "up" }

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// freeForSockets reports whether an interface is no member of a bond and carries no RDMA port except one for
// management.
func (k *adviser) freeForSockets(name string) bool {
	d := k.node.NetDev(name)
	if d == nil {
		return true
	}
	if _, enslaved := d.Upper.Get(); enslaved {
		return false
	}
	for _, p := range k.node.Ports {
		if k.node.Above(name, p) && !p.Serves(fabric.RoleManagement) {
			return false
		}
	}
	return true
}

// routed returns those that a default route leaves through.
func (k *adviser) routed(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool {
		d := k.node.NetDev(name)
		return d == nil || !d.DefaultRoute.Or(false)
	})
}
