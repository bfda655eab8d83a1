// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// Verdicts collects what one check finds.
type Verdicts struct {
	Check *Check // whose turn it is
	List  []Verdict
	node  *fabric.Node
	gpus  []GPU // of the node, set by the first check that needs them
}

// Collect begins a list for so many verdicts on a node.
func Collect(n *fabric.Node, room int) *Verdicts {
	return &Verdicts{node: n, List: make([]Verdict, 0, room)}
}

// Ask has a check judge the node. One without a function is judged elsewhere.
func (v *Verdicts) Ask(c *Check) {
	if v.Check = c; c.Judge != nil {
		c.Judge(v.node, v)
	}
}

// GPUs returns the GPUs of the node, which many checks are about.
func (v *Verdicts) GPUs(n *fabric.Node) []GPU {
	if v.gpus == nil {
		v.gpus = GPUs(n)
	}
	return v.gpus
}

// KeepWorst leaves the worst of the verdicts on each subject from that one on, the first of several.
func (v *Verdicts) KeepWorst(from int) {
	kept := v.List[:from]
	for _, one := range v.List[from:] {
		i := slices.IndexFunc(kept[from:], func(o Verdict) bool { return o.Subject == one.Subject })
		switch {
		case i < 0:
			kept = append(kept, one)
		case one.Status.Worse(kept[from+i].Status):
			kept[from+i] = one
		}
	}
	v.List = kept
}

// OK adds a good verdict.
func (v *Verdicts) OK(s Subject) { v.List = append(v.List, v.Check.ok(s)) }

// Failed adds a failed verdict; what it leaves empty follows from the check.
func (v *Verdicts) Failed(s Subject, of Verdict) {
	v.List = append(v.List, v.stated(v.Check.failed(s, of)))
}

// Unknown adds a verdict about facts that are not known. There is none about what is in another network
// namespace: a pod has it, and nothing is wrong with the node for that (Elsewhere).
func (v *Verdicts) Unknown(s Subject, r fabric.Reason, evidence string) {
	if r == fabric.ReasonMoved {
		return
	}
	v.List = append(v.List, v.Check.Unknown(s, r, evidence))
}

func (c *Check) ok(s Subject) Verdict {
	return Verdict{Check: c, Subject: s, Status: OK, What: c.Title}
}

func (c *Check) failed(s Subject, of Verdict) Verdict {
	of.Check, of.Subject, of.Status, of.What = c, s, Failed, cmp.Or(of.What, c.Title)
	return of
}

// Unknown is a verdict of the check about facts that are not known.
func (c *Check) Unknown(s Subject, r fabric.Reason, evidence string) Verdict {
	return Verdict{
		Check: c, Subject: s, Status: Unknown, Reason: cmp.Or(r, fabric.ReasonNotRead), What: c.Title,
		Evidence: evidence,
	}
}

// When adds a failed verdict where bad is so, else a good one.
func (v *Verdicts) When(bad bool, s Subject, of Verdict) {
	if bad {
		v.Failed(s, of)
	} else {
		v.OK(s)
	}
}

// Silent reports whether an unknown fact cannot be changed on this node: it was not asked for, or this
// kernel, driver or machine does not report it. Such checks are not made.
func Silent(m fabric.Meta) bool {
	switch m.Reason {
	case fabric.ReasonNotRead, fabric.ReasonMissing, fabric.ReasonUnsupported, fabric.ReasonVirtual,
		fabric.ReasonDriverConstant:
		return true
	}
	return false
}

// Hidden adds an unknown verdict for a fact, unless it is silent.
func (v *Verdicts) Hidden(s Subject, m fabric.Meta, what string) {
	if !Silent(m) {
		v.Unknown(s, m.Reason, what+" is unknown: "+ReasonText(m.Reason)+".")
	}
}
