// SPDX-License-Identifier: Apache-2.0

package job

import "gpufabric_exporter/internal/fabric"

// withLog adds to a verdict what the log of the rank says. The user writes the log: where the kernel shows
// how the data travels, the log is mentioned and changes nothing; where the kernel cannot show it, what the
// log says is suspected. That nothing was seen of a rank of which all could be read is no such case.
func (e *evidence) withLog(r *observed, v Verdict) Verdict {
	said := r.Log.Or(fabric.NCCLLog{})
	by := Verdict{Transport: Unknown}
	words := ""
	switch {
	case said.Other: // it may use verbs or not
		return v
	case said.Verbs && said.Sockets:
		by, words = Verdict{Transport: Mixed, Way: wayOf(r, e.devices)}, "verbs and sockets"
	case said.Verbs:
		by, words = Verdict{Transport: RDMA, Way: wayOf(r, e.devices)}, "verbs"
	case said.Sockets:
		by, words = Verdict{Transport: TCP, Way: WaySocket}, "sockets"
	default:
		return v
	}
	switch {
	case by.Way.byDesign():
		return v
	case v.Transport != Unknown && v.Transport == by.Transport:
		v.Evidence = append(v.Evidence, "its log says so, too: connections over "+words)
	case v.Transport == TCP, v.Transport == RDMA, v.Transport == Mixed:
		v.Evidence = append(v.Evidence, "its log says otherwise: connections over "+words)
	case v.Reason == Moved, v.Reason == Privilege, v.Reason == Unreadable:
		if r.busy == no {
			return v
		}
		by.said = true
		by.Evidence = append(v.Evidence, "only its log, which its user writes, shows connections over "+words)
		return by
	}
	return v
}
