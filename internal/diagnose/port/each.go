// SPDX-License-Identifier: Apache-2.0

package port

import (
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Judge judges one port.
type Judge func(n *fabric.Node, h *fabric.HCA, p *fabric.Port, of *verdict.Verdicts)

// eachPort asks ports that carry training or storage traffic.
func eachPort(judge Judge) func(*fabric.Node, *verdict.Verdicts) {
	return func(n *fabric.Node, v *verdict.Verdicts) {
		for h, p := range n.Ports {
			if p.Serves(fabric.RoleCompute) || p.Serves(fabric.RoleStorage) {
				judge(n, h, p, v)
			}
		}
	}
}

// EachActive asks those of them that are active: what is so of the others follows from that.
func EachActive(judge Judge) func(*fabric.Node, *verdict.Verdicts) {
	return eachPort(func(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
		switch {
		case v.Check.Topic == "roce" && p.LinkLayer.Or(fabric.LinkEthernet) != fabric.LinkEthernet, p.Down():
		case p.Carries():
			judge(n, h, p, v)
		default:
			v.Unknown(verdict.PortSubject(h, p), p.State.Meta().Reason,
				"The state of the port is unknown: "+verdict.ReasonText(p.State.Meta().Reason)+".")
		}
	})
}

// EachCompute asks active ports of role compute.
func EachCompute(judge Judge) func(*fabric.Node, *verdict.Verdicts) {
	return EachActive(func(n *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
		if p.Serves(fabric.RoleCompute) {
			judge(n, h, p, v)
		}
	})
}
