// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
	"gpufabric_exporter/internal/spelling"
)

// direct is which of the RDMA connections of a host use GPUDirect RDMA.
type direct int

// Values of direct, as bits.
const (
	without direct = 1 << iota
	with
)

// connects notes an RDMA connection of a host.
func (r *reading) connects(host, via string) {
	if _, known := r.hosts[host]; !known && host != "" { // without a name, there is one
		return
	}
	if strings.Contains(via, "/GDRDMA") {
		r.gdr[host] |= with
	} else {
		r.gdr[host] |= without
	}
}

// gdrHosts are the hosts of which all RDMA connections are of a kind, or that have both.
func (r *Result) gdrHosts(kind direct) (hosts []string) {
	for _, host := range slices.Sorted(maps.Keys(r.gdr)) {
		if r.gdr[host] == kind {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// gdrApart says which hosts use GPUDirect RDMA and which do not; empty: they do not differ.
func (r *Result) gdrApart() string {
	off, on := r.gdrHosts(without), r.gdrHosts(with)
	if len(off) == 0 || len(on) == 0 {
		return ""
	}
	return ": none of " + spelling.Few(off, 4) + " uses GPUDirect RDMA, all of " + spelling.Few(on, 4) + " do"
}

func (r *reading) judgeGPUDirect(t Transports, between bool, names []string) {
	switch {
	case t.RDMA > 0 && t.RDMAGPUDirect == 0 && r.holds(signature.OneGPU, nil) && r.neverGDR():
		r.follow(&signature.GPUDirectNeedless, "no RDMA connection uses GPUDirect RDMA")
	case t.RDMA > t.RDMAGPUDirect:
		f := r.follow(&signature.NoGPUDirect,
			fmt.Sprintf("%d of %d RDMA connections%s", t.RDMA-t.RDMAGPUDirect, t.RDMA, r.gdrApart()))
		known := r.gpus != "" && !r.withoutGDR()
		f.Open = r.said.far != "" && t.RDMAGPUDirect == 0 || r.serialised() || t.RDMAGPUDirect == 0 && !known && (r.holds(signature.OneGPU, f) || r.sparkNICs(f))
	case r.Log.RingsGPUDirect == log.No && log.CarrierOf(r.Log.Network) == log.Verbs:
		r.follow(&signature.NoGPUDirect, "not all rings use GPUDirect RDMA")
	case r.Log.RCCL && len(r.Communicators) == 0 && t.RDMA == 0 && len(names) > 0:
		r.follow(&signature.NoGPUDirect, "GPUDirect RDMA is disabled for "+spelling.Few(names, 8)).Open = true
	case between && t.RDMA+t.TCP+t.Plugin == 0 && len(names) > 0 &&
		!slices.ContainsFunc(r.Log.HCAs, func(h log.HCA) bool { return h.GPUDirect }):
		r.follow(&signature.NoGPUDirect, "GPUDirect RDMA is disabled for "+spelling.Few(names,
			8)+", and ranks are on more than one host")
	}
}

// sparkNICs reports whether a device has a name that DGX Spark gives: its NIC is in the PCI domains 0 and 2.
func (r *Result) sparkNICs(f *Finding) bool {
	const name = "roceP2p1s0f"
	return strings.Contains(f.raw, name) || strings.Contains(f.raw, "rocep1s0f") ||
		slices.ContainsFunc(r.Log.Devices, func(d log.Device) bool { return strings.HasPrefix(d.Name, name) })
}

// inSpark reports whether all devices have names that DGX Spark gives: one chip in the PCI domains 0 and 2.
func (r *Result) inSpark() bool {
	first, second := false, false
	for _, d := range r.Log.Devices {
		a, b := strings.HasPrefix(d.Name, "rocep1s0f"), strings.HasPrefix(d.Name, "roceP2p1s0f")
		if !a && !b {
			return false
		}
		first, second = first || a, second || b
	}
	return first && second
}

// nicsOfHosts lists the devices of the first hosts that differ.
func (r *reading) nicsOfHosts() string {
	var list []string
	seen := map[string]struct{}{}
	for _, host := range slices.Sorted(maps.Keys(r.nics)) {
		if _, known := seen[r.nics[host]]; !known {
			seen[r.nics[host]] = struct{}{}
			list = append(list, host+": "+r.nics[host])
		}
	}
	return spelling.Few(list, 4)
}
