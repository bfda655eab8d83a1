// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// judgeSocket asks for what ncclFindInterfaces of NCCL's misc/socket.cc would find: interfaces that the list
// takes, which are up and running. One that is there of a list for many kinds of nodes is enough.
func judgeSocket(n *fabric.Node, v *verdict.Verdicts) {
	set, ok := n.NCCL.Lookup("NCCL_SOCKET_IFNAME")
	if !ok || len(set.Value) < 2 { // NCCL ignores what is shorter
		return
	}
	s, f := ofSetting(set), fabric.ParseNameFilter(set.Value)
	all, known := n.Interfaces.Get()
	if !known {
		v.Unknown(s, n.Interfaces.Meta().Reason,
			"The node's interfaces are unknown: "+verdict.ReasonText(n.Interfaces.Meta().Reason)+".")
		return
	}
	for i := range n.NetDevs { // the RDMA ports' own
		if !hasInterface(all, n.NetDevs[i].Name) {
			v.Unknown(s, fabric.ReasonNotRead,
				"The visible interfaces are not those of the node, as in a container with its own network namespace.")
			return
		}
	}
	var down []string
	loopback := false
	var unread *fabric.Meta
	for _, i := range all {
		if !f.Takes(i.Name, -1) {
			continue
		}
		if f.Exclude && i.Name == "lo" {
			loopback = true
			continue
		}
		switch state, known := i.OperState.Get(); {
		case !known:
			unread = new(i.OperState.Meta())
		case state == "up" || state == "unknown": // IFF_RUNNING; drivers without carrier leave it unknown
			v.OK(s)
			return
		default:
			down = append(down, i.Name)
		}
	}
	const (
		none        = "NCCL finds no interface for its bootstrap (\"no socket interface found\"): jobs of more than one process fail at once."
		unreachable = "ranks of other nodes do not reach it, and jobs of several nodes do not start."
	)
	switch {
	case len(n.Elsewhere()) > 0: // one of theirs may be meant
		v.Unknown(s, fabric.ReasonMoved, "")
	case unread != nil:
		v.Unknown(s, unread.Reason, "No interface that it matches is known to be up: "+verdict.ReasonText(unread.Reason)+".")
	case loopback:
		v.Failed(s, verdict.Verdict{
			What:        "NCCL_SOCKET_IFNAME matches no interface but loopback that is up",
			Evidence:    seenOf(set, "The node has "+verdict.Few(names(all))+"."),
			Consequence: "NCCL uses loopback for its bootstrap: " + unreachable,
			Remedy:      "Check ip -br link, and leave out fewer interfaces.",
		})
	case len(down) > 0:
		v.Failed(s, verdict.Verdict{
			What: "NCCL_SOCKET_IFNAME matches no interface that is up", Evidence: seenOf(set, "Down: "+verdict.Few(down)+"."),
			Consequence: none + " NCCL before 2.28 uses one that is down: " + unreachable,
			Remedy: "Check ip -br link; ip link set dev " + verdict.ShellWord(down[0], "<interface>") +
				" up, connect the cable, or name an interface that is up.",
		})
	default:
		v.Failed(s, verdict.Verdict{
			What:     "NCCL_SOCKET_IFNAME matches no interface of the node",
			Evidence: seenOf(set, "The node has "+verdict.Few(names(all))+"."), Consequence: none,
			Remedy: "Check ip -br link and correct the line: names match by prefix; a leading = means exact, ^ excludes.",
		})
	}
}

func hasInterface(all []fabric.Interface, name string) bool {
	for _, i := range all {
		if i.Name == name {
			return true
		}
	}
	return false
}

func names(all []fabric.Interface) []string {
	var list []string
	for _, i := range all {
		if i.Name != "lo" {
			list = append(list, i.Name)
		}
	}
	return list
}
