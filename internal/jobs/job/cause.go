// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// causeOf returns why a rank uses sockets, as far as that can be seen.
func causeOf(r *observed, way Way, d devices) Cause {
	number := func(name string) (int64, bool) {
		for _, v := range r.Variables() {
			if v.Name == name {
				return v.Number, v.IsNumber
			}
		}
		return 0, false
	}
	maps, mapped := r.Maps.Get()
	offered, seen := r.Devices.Get()
	switch off, set := number("NCCL_IB_DISABLE"); {
	case seen && offered.Uverbs == 0 && d.compared && len(d.rates) > 0:
		return CauseNoDevices
	case r.Settings.State != fabric.OK: // they come before what follows
		return CauseNone
	case set && off != 0:
		return CauseDisabled
	case slices.ContainsFunc(r.Variables(), func(v fabric.NCCLVariable) bool {
		return v.Name == "NCCL_NET" && strings.EqualFold(v.Value, "Socket")
	}):
		return CauseSocketSelected
	case mapped && !maps.Verbs:
		return CauseNoLibrary
	case way != WayVerbs && way != WayPlugin:
		return CausePlugin
	case d.compared && len(d.rates) == 0:
		return CauseNoPort
	case slices.ContainsFunc(r.Variables(), func(v fabric.NCCLVariable) bool {
		return v.Name == "NCCL_IB_HCA" && !v.Masked && d.lacks(v.Value)
	}):
		return CauseNotNamed
	}
	return CauseNone
}

// lacks reports whether NCCL_IB_HCA names none of the devices of the node, whatever their state. One in another network
// namespace may have another name there.
func lacks(n *fabric.Node, filter string) bool {
	f := fabric.ParseNameFilter(filter)
	return filter != "" && !slices.ContainsFunc(n.Excluded, func(name string) bool { return f.Takes(name, -1) }) &&
		!slices.ContainsFunc(n.HCAs, func(h fabric.HCA) bool {
			return h.Moved || len(h.Ports) == 0 && f.Takes(h.Name, -1) ||
				slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return f.Takes(h.Name, p.Number) })
		})
}
