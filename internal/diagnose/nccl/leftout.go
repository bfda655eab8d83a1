// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"slices"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// LeftOutPorts are active ports that only a list excludes from compute, because it does not name them. A list
// that names a device that is gone, or that excludes some, says what it means.
func LeftOutPorts(n *fabric.Node) (left []*fabric.Port) {
	list, set := n.NCCL.Devices()
	if !set || list.Exclude || len(n.MissingNames(list)) > 0 {
		return nil
	}
	for _, p := range n.Ports {
		if p.RoleBy == fabric.ByNCCL && p.Role.Or("") != fabric.RoleCompute && p.Carries() {
			left = append(left, p)
		}
	}
	return left
}

// judgeLeftOut finds a list of devices with which NCCL uses fewer ports than the site expects, while the node
// has more. That ports which the list takes are down or missing is reported by port_active and nccl_devices.
func judgeLeftOut(n *fabric.Node, v *verdict.Verdicts) {
	set, ok := n.NCCL.Lookup("NCCL_IB_HCA")
	want := n.Policy.ComputePorts
	if _, off, _ := rdmaSetting(&n.NCCL); !ok || set.Value == "" || off || want == nil || onlyPlugins(n) {
		return
	}
	s, list := ofSetting(set), fabric.ParseNameFilter(set.Value)
	if n.ClassPresent.State == fabric.Unknown {
		v.Hidden(s, n.ClassPresent.Meta(), "The list of RDMA devices")
		return
	}
	// of those that it takes, all of them, and those of which that is unknown
	active, taken, open := 0, len(n.MissingNames(list)), 0
	var left []string
	var unread *fabric.Meta
	for h, p := range n.Ports {
		role, classified := p.Role.Get()
		if slices.Contains(LeftOutPorts(n), p) {
			role = fabric.RoleCompute
		}
		takes := list.Takes(h.Name, p.Number)
		switch {
		case classified && role != fabric.RoleCompute:
		case takes && p.State.State != fabric.OK && !p.Carries():
			unread = new(p.State.Meta())
			open++
		case takes && !classified:
			unread = new(p.Role.Meta())
			open++
		case takes && p.Carries():
			active++
			taken++
		case takes:
			taken++
		case classified && p.Carries():
			left = append(left, verdict.PortSubject(h, p).String())
		}
	}
	for i := range n.HCAs { // of which not even the ports are known
		if h := &n.HCAs[i]; h.Moved && len(h.Ports) == 0 && list.Takes(h.Name, -1) {
			unread = &fabric.Meta{Reason: fabric.ReasonMoved}
			open++
		}
	}
	switch {
	case active+open == 0: // nccl_devices fails
	case taken >= *want:
		v.OK(s)
	case len(left) > 0 && taken+open >= *want:
		v.Unknown(s, unread.Reason,
			"Whether it takes as many ports as the site expects is unknown: "+verdict.ReasonText(unread.Reason)+".")
	case len(left) > 0:
		v.Failed(s, verdict.Verdict{
			Evidence: fmt.Sprintf("%s=%s takes %d of the %d active compute ports, and the site expects %d. Left out: %s.",
				set.Name, set.Value, active,
				active+len(left), *want, verdict.Few(left)),
			Consequence: "Jobs use a part of the network that the node has.",
			Remedy: "Name all ports for training (gpufabric_exporter topology shows them) in " + set.Source +
				". If a port that the line names is gone or down, repair that one. If jobs are meant to use fewer, " +
				"correct expected.compute_ports or name the role of the others (roles) in the configuration of the exporter.",
		})
	}
}
