// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// roceRow is the chain of RoCE settings of a port, in a line and in full.
type roceRow struct {
	Name    string
	Path    string // traffic class → DSCP → priority
	Mode    string
	Verdict cell
	Chains  []roceSteps // of each physical interface
}

type roceSteps struct {
	Interface         string
	Settings, Traffic []roceStep
}

type roceStep struct {
	Name             string
	State            cell
	Evidence, Source string
}

// roceRows returns a row for each port that has RoCE and carries training or storage traffic.
func roceRows(n *fabric.Node) []roceRow {
	var rows []roceRow
	for h, p := range judged(n) {
		chains := p.RoCE.Or(nil)
		if len(chains) == 0 {
			continue
		}
		row := roceRow{Name: diagnose.PortSubject(h, p).String(), Path: rocePath(&chains[0]), Mode: roceModeText(chains[0].Mode), Verdict: roceVerdict(chains)}
		for i := range chains {
			c := &chains[i]
			row.Chains = append(row.Chains, roceSteps{c.Interface, roceStepsOf(c.Links), roceStepsOf(c.Observed)})
		}
		rows = append(rows, row)
	}
	return rows
}

func roceStepsOf(links []fabric.RoCELink) []roceStep {
	var list []roceStep
	for i := range links {
		l := &links[i]
		list = append(list, roceStep{roceStepName(l.Step), roceState(l), diagnose.Sentence(l.Evidence), l.Source})
	}
	return list
}

// rocePath is what becomes of the traffic class. A question mark stands for what is not known.
func rocePath(c *fabric.RoCEChain) string {
	if c.TrafficClassFrom == fabric.TrafficClassFromV1 {
		return "RoCE v1, no DSCP → priority " + number(c.Priority)
	}
	return "traffic class " + number(c.TrafficClass) + " → DSCP " + number(c.DSCP) + " → priority " + number(c.Priority)
}

func number(f fabric.Fact[int]) string {
	if v, ok := f.Get(); ok {
		return strconv.Itoa(v)
	}
	return "?"
}

func roceModeText(m fabric.RoCEMode) string {
	switch m {
	case fabric.RoCEModePFCECN:
		return "PFC and ECN"
	case fabric.RoCEModePFC:
		return "PFC, no ECN"
	case fabric.RoCEModeECN:
		return "ECN, no PFC"
	case fabric.RoCEModeNone:
		return "no PFC, no ECN"
	default:
		return "mode unknown"
	}
}

// roceVerdict is that of the settings, unless traffic shows worse.
func roceVerdict(chains []fabric.RoCEChain) cell {
	c := &chains[0] // the worst
	if c.Verdict == fabric.StatusFailed {
		return cell{Text: "broken at " + roceStepName(c.Step), Class: "bad"}
	}
	for i := range chains {
		for _, l := range chains[i].Observed {
			if l.Status == fabric.StatusFailed && !diagnose.Explained(&chains[i], l.Step) {
				return cell{Text: "problem in its traffic: " + roceStepName(l.Step), Class: "bad"}
			}
		}
	}
	if c.Verdict == fabric.StatusOK {
		return cell{Text: "consistent", Class: "good"}
	}
	l := c.Link(c.Step)
	why := diagnose.ReasonText(l.Reason)
	if c.TrafficClassFrom == fabric.TrafficClassFromJob && c.Step == fabric.RoCETrafficClass {
		why = "jobs choose it"
	}
	return cell{Text: "unknown at " + roceStepName(c.Step), Note: why, Class: "unsure"}
}

func roceState(l *fabric.RoCELink) cell {
	switch l.Status {
	case fabric.StatusOK:
		return cell{Text: "consistent", Class: "good"}
	case fabric.StatusFailed:
		return cell{Text: "broken", Class: "bad"}
	case fabric.StatusUnknown:
		return cell{Text: "unknown", Class: "unsure", Title: string(l.Reason)}
	default:
		return cell{Text: "does not apply", Class: "quiet"}
	}
}

func roceStepName(s fabric.RoCEStep) string {
	switch s {
	case fabric.RoCEGID:
		return "address (GID)"
	case fabric.RoCEDSCP:
		return "DSCP"
	case fabric.RoCEPFC:
		return "PFC"
	case fabric.RoCEGlobalPause:
		return "802.3x flow control"
	case fabric.RoCEBuffer:
		return "receive buffer"
	case fabric.RoCEETS:
		return "share of bandwidth"
	case fabric.RoCENotification:
		return "congestion notifications"
	case fabric.RoCEReaction:
		return "reaction to notifications"
	case fabric.RoCECNP:
		return "priority of notifications"
	case fabric.RoCEObservedPriority:
		return "traffic by priority"
	case fabric.RoCEObservedLoss:
		return "packets lost"
	case fabric.RoCEObservedPauseSent:
		return "pauses sent"
	case fabric.RoCEObservedPauseReceived:
		return "pauses received"
	case fabric.RoCEObservedCNP:
		return "answer to congestion"
	default:
		return diagnose.Spaced(string(s))
	}
}

// secondReading is after how many seconds traffic can be judged, when all that lacks is a second reading of the
// statistics: who opens the page of a node that nobody scrapes would else not learn of it.
func secondReading(n *fabric.Node) int {
	for _, p := range judged(n) {
		chains := p.RoCE.Or(nil)
		for i := range chains {
			d := n.NetDev(chains[i].Interface)
			if d != nil && d.QoS.Counters.State == fabric.OK && chains[i].Window.State != fabric.OK {
				return int(observer.DefaultMediumInterval.Seconds()) + 1
			}
		}
	}
	return 0
}

// roceWishText is what the site expects of RoCE; empty when it says nothing.
func roceWishText(p fabric.RoCEPolicy) string {
	var list []string
	add := func(v *int, what string) {
		if v != nil {
			list = append(list, fmt.Sprintf("%s %d", what, *v))
		}
	}
	choose := func(v *bool, yes, no string) {
		switch {
		case v != nil && *v:
			list = append(list, yes)
		case v != nil:
			list = append(list, no)
		}
	}
	add(p.DSCP, "DSCP")
	add(p.Priority, "priority")
	choose(p.Lossless, "lossless (PFC)", "lossy by design")
	choose(p.ECN, "with ECN", "without ECN")
	return strings.Join(list, ", ")
}
