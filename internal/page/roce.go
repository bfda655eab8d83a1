// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/status"
)

// rocePath is what each step makes of the traffic class. A question mark is shown for what is not known.
func rocePath(c *status.Chain) string {
	if c.DSCP.State == fabric.Absent {
		return "RoCE v1, no DSCP → priority " + number(c.Priority)
	}
	return "traffic class " + number(c.TrafficClass) + " → DSCP " + number(c.DSCP) + " → priority " + number(c.Priority)
}

func number(f status.Fact[int]) string {
	if v, ok := f.Get(); ok {
		return strconv.Itoa(v)
	}
	return "?"
}

// roceVerdict is that of the settings, unless traffic shows worse.
func roceVerdict(c *status.Chain) cell {
	step := status.StepName(c.Step)
	switch {
	case c.Status == status.StatusFailed && strings.HasPrefix(c.Step, "observed_"):
		return cell{Text: "problem in its traffic: " + step, Class: "bad"}
	case c.Status == status.StatusFailed:
		return cell{Text: "broken at " + step, Class: "bad"}
	case c.Status == status.StatusOK:
		return cell{Text: "consistent", Class: "good"}
	}
	return cell{Text: "unknown at " + step, Note: c.Why, Class: "unsure"}
}

// expectedRoCEText is what the site expects of RoCE; empty: nothing.
func expectedRoCEText(p fabric.RoCEPolicy) string {
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
