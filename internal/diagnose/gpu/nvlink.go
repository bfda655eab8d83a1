// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// judgeNVLinks compares with the GPU of the same name that has most active NVLinks. That a GPU has none,
// where others are bridged in pairs, is how it was built.
func judgeNVLinks(n *fabric.Node, v *verdict.Verdicts) {
	all := v.GPUs(n)
	for _, g := range all {
		if g.Driver == nil || g.Lost() || g.Driver.MIG.Or(false) || g.Driver.NVLinks.State == fabric.Absent {
			continue
		}
		active, down, unread := countLinks(g.Driver)
		switch {
		case unread != nil:
			v.Hidden(g.Subject(), *unread, "Which NVLinks are active")
		case len(down) == 0:
			v.OK(g.Subject())
		default:
			judgeLinksDown(g, all, active, down, v)
		}
	}
}

func judgeLinksDown(g verdict.GPU, all []verdict.GPU, active int, down []string, v *verdict.Verdicts) {
	best, peer := active, verdict.GPU{}
	var unread *fabric.Meta // what may hide a better peer
	for _, p := range all {
		if p.Driver == nil || p.Lost() || p.Driver.MIG.Or(false) || p.Driver.Index == g.Driver.Index {
			continue
		}
		if name, ok := p.Driver.Name.Get(); !ok {
			unread = new(p.Driver.Name.Meta())
			continue
		} else if own, ok := g.Driver.Name.Get(); !ok {
			unread = new(g.Driver.Name.Meta())
			continue
		} else if own != name {
			continue
		}
		switch count, _, why := countLinks(p.Driver); {
		case why != nil && p.Driver.NVLinks.State != fabric.Absent:
			unread = why
		case why == nil && count > best:
			best, peer = count, p
		}
	}
	switched, unsure := false, false
	if peer.Driver != nil {
		switched, unsure = reachesSwitch(peer.Driver)
	}
	switch {
	case peer.Driver != nil && (active > 0 || switched):
		v.Failed(g.Subject(), verdict.Verdict{
			Evidence:    fmt.Sprintf("%d are active; %s has %d. Down: %s.", active, peer.Name, best, strings.Join(down, ", ")),
			Consequence: "GPUs of one model in a node should have the same number. Collectives run at the speed of the GPU with the fewest.",
			Remedy:      "nvidia-smi nvlink -s and -e show links and errors. Drain the node, and with no job on it run nvidia-smi --gpu-reset or restart it; if the links stay down, replace the GPU or its baseboard.",
		})
	case unsure:
		v.Unknown(g.Subject(), fabric.ReasonIO,
			"It has no active NVLink, and the peers of the NVLinks of "+peer.Name+" are unknown.")
	case unread != nil:
		v.Hidden(g.Subject(), *unread, "How many NVLinks its peers have")
	default:
		v.OK(g.Subject())
	}
}

// countLinks returns how many NVLinks are active and which are not, or what hides that.
func countLinks(g *fabric.GPU) (active int, down []string, unread *fabric.Meta) {
	all := g.Active()
	active, ok := all.Get()
	if !ok {
		return 0, nil, new(all.Meta())
	}
	for i := range g.NVLinks.Value {
		if l := &g.NVLinks.Value[i]; !l.Active.Value {
			down = append(down, strconv.Itoa(l.Number))
		}
	}
	return active, down, nil
}

// reachesSwitch reports whether NVLinks lead to a switch; unsure: none is known to, but one is unknown.
func reachesSwitch(g *fabric.GPU) (yes, unsure bool) {
	for _, l := range g.NVLinks.Or(nil) {
		kind, known := l.RemoteKind.Get()
		yes = yes || known && kind == fabric.NVLinkToSwitch
		unsure = unsure || !known && l.RemoteKind.State == fabric.Unknown && !verdict.Silent(l.RemoteKind.Meta())
	}
	return yes, unsure && !yes
}
