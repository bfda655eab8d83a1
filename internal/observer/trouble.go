// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"slices"

	"gpufabric_exporter/internal/fabric"
)

// sourceID names a source.
type sourceID struct{ name, device string }

// trouble is why a source fails, and the owners of which not everything could be read.
type trouble struct {
	reason fabric.Reason
	owner  fabric.Owner
}

// maxTroubles bounds what is logged of a source until it is read again. Owners come and go.
const maxTroubles = 16

// troubles are those of a source now: with a fabric.PartialError one for each owner that it names.
func troubles(s *fabric.Source) []trouble {
	partial, is := errors.AsType[*fabric.PartialError](s.Err)
	if !is || len(partial.By) == 0 {
		return []trouble{{reason: s.Reason}}
	}
	list := make([]trouble, 0, len(partial.By))
	for _, x := range partial.By {
		list = append(list, trouble{s.Reason, x.Owner})
	}
	return list
}

// logSources logs once that a source fails, once more for each other reason that it comes to fail for and for
// each owner of which not everything could be read, and once that it is read again: a source that alternates
// between two reasons does not fill the log.
func (ob *Observer) logSources(n *fabric.Node) {
	for i := range n.Sources {
		s := &n.Sources[i]
		id := sourceID{s.Name, s.Device}
		logged := ob.troubled[id]
		switch {
		case s.Up && logged != nil:
			ob.log.Info("source recovered", "source", s.Name, "device", s.Device)
			delete(ob.troubled, id)
		case !s.Up && slices.ContainsFunc(troubles(s), func(t trouble) bool { return !logged[t] }) &&
			len(logged) < maxTroubles:
			ob.log.Warn("source failed", "source", s.Name, "device", s.Device, "reason", string(s.Reason), "err", s.Err)
			if logged == nil {
				logged = map[trouble]bool{}
				ob.troubled[id] = logged
			}
			for _, t := range troubles(s) {
				logged[t] = true
			}
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
