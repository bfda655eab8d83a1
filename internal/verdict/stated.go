// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// stated returns the verdict, unknown if it is critical and nothing states what it rests on.
func (v *Verdicts) stated(of Verdict) Verdict {
	switch {
	case v.Check.Severity != Critical:
		return of
	case of.Unstated:
	case v.Check.Rests == OnRole && !of.Anywhere && guessed(v.node, of.Subject):
		of.Evidence = strings.TrimSpace(of.Evidence + " " + guessedRole(v.node, of.Subject))
	default:
		return of
	}
	of.Status, of.Reason, of.Unstated = Unknown, fabric.ReasonUnstated, true
	return of
}

// Severity is that of the check, at most a warning where nothing states what the verdict rests on.
func (v *Verdict) Severity() Severity {
	if v.Unstated && v.Check.Severity == Critical {
		return Warning
	}
	return v.Check.Severity
}

// guessed reports whether nothing states the role of the port, of the ports of the device, or of those of the
// NIC of a GPU.
func guessed(n *fabric.Node, s Subject) bool {
	h := nicOf(n, s)
	return h != nil && !slices.ContainsFunc(h.Ports, func(p fabric.Port) bool {
		return (s.Port == 0 || p.Number == s.Port) && p.RoleBy != fabric.ByNobody
	})
}

func guessedRole(n *fabric.Node, s Subject) string {
	return "That " + cmp.Or(nicOf(n, s).Name, s.Device) +
		" is for training is a guess: name it in roles of the configuration or in NCCL_IB_HCA of the host, or " +
		AcceptCommand + "."
}

// nicOf returns the NIC that a verdict is about; nil: none.
func nicOf(n *fabric.Node, s Subject) *fabric.HCA {
	if s.Device != "" {
		return n.HCA(s.Device)
	}
	for _, g := range GPUs(n) {
		if s.GPU != "" && g.Subject().Key() == s.Key() && g.GDR != nil {
			return n.HCA(g.GDR.NIC)
		}
	}
	return nil
}

// AcceptCommand records a node that the operator calls good.
const AcceptCommand = "run gpufabric_exporter check --write-manifest=FILE on a node that is in order and name the file in expected.manifest"
