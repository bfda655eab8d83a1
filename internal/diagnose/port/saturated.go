// SPDX-License-Identifier: Apache-2.0

package port

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/counters"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// narrowest is where a counter of four bits ends. There are none with fewer.
const narrowest = 15

func judgeSaturated(_ *fabric.Node, h *fabric.HCA, p *fabric.Port, v *verdict.Verdicts) {
	list, known := p.Counters.PMA.Get()
	if !known {
		if p.Counters.PMA.Meta().Reason != fabric.ReasonNotRead && p.Counters.PMA.State == fabric.Unknown {
			v.Unknown(verdict.PortSubject(h, p), p.Counters.PMA.Meta().Reason,
				"The counters are unknown: "+verdict.ReasonText(p.Counters.PMA.Meta().Reason)+".")
		}
		return
	}
	driver, known := h.Driver.Get()
	if !known && h.Driver.State == fabric.Unknown && len(list) > 0 {
		v.Hidden(verdict.PortSubject(h, p), h.Driver.Meta(), "The maximum of the counters")
		return
	}
	var full, stands []string
	var unread *fabric.Meta
	for i := range list {
		c := &list[i]
		if value, known := c.Value.Get(); known && value < narrowest { // most are: to look them up is what this check costs
			continue
		}
		spec, ok := counters.PMASpec(driver, c.Name)
		if !ok || !spec.Saturates {
			continue
		}
		switch value, known := c.Value.Get(); {
		case c.Value.State == fabric.Unknown && (unread == nil || !verdict.Silent(c.Value.Meta())):
			unread = new(c.Value.Meta())
		case known && value >= spec.Max():
			full, stands = append(full, c.Name), append(stands, fmt.Sprintf("%s is at %d", c.Name, value))
		}
	}
	if len(full) == 0 && unread != nil { // one that the driver does not report may be saturated, too
		v.Hidden(verdict.PortSubject(h, p), *unread, "Whether a counter has reached its maximum")
		return
	}
	if len(full) == 0 {
		v.OK(verdict.PortSubject(h, p))
		return
	}
	w := verdict.Verdict{
		What:        "The counter " + full[0] + " has reached its maximum",
		Evidence:    stands[0] + " and no longer counts.",
		Consequence: "Further events of this kind are not counted.",
		Remedy:      "Clear it (perfquery -C <device> -P <port> -R), and check whether it grows again.",
	}
	if len(full) > 1 {
		w.What = "The counters " + strings.Join(full, ", ") + " have reached their maximum"
		w.Evidence = strings.Join(stands, ", ") + "; they no longer count."
		w.Consequence = "Further events of these kinds are not counted."
		w.Remedy = "Clear them (perfquery -C <device> -P <port> -R), and check whether they grow again."
	}
	v.Failed(verdict.PortSubject(h, p), w)
}
