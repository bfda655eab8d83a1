// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// sourceID names a source.
type sourceID struct{ name, device string }

// logSources logs once that a source fails, once more for each other reason that it comes to fail for, and once that
// it is read again: a source that alternates between two reasons does not fill the log.
func (ob *Observer) logSources(n *fabric.Node) {
	for _, s := range n.Sources {
		id := sourceID{s.Name, s.Device}
		logged := ob.troubled[id]
		switch {
		case s.Up && logged != nil:
			ob.log.Info("source recovered", "source", s.Name, "device", s.Device)
			delete(ob.troubled, id)
		case !s.Up && !logged[s.Reason]:
			ob.log.Warn("source failed", "source", s.Name, "device", s.Device, "reason", string(s.Reason), "err", s.Err)
			if logged == nil {
				logged = map[fabric.Reason]bool{}
				ob.troubled[id] = logged
			}
			logged[s.Reason] = true
		}
	}
	answered := func(s fabric.Source) bool { return s.Name == fabric.SourceNetDev && s.Since.IsZero() }
	if !slices.ContainsFunc(n.Sources, answered) {
		return // what is not in n may still be there: interfaces were not asked for, or are not known
	}
	for id := range ob.troubled {
		if id.device != "" && ob.devices[id.device] == nil && n.NetDev(id.device) == nil {
			delete(ob.troubled, id)
		}
	}
}
