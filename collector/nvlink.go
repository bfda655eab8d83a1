// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// Where counts of NVLinks come from, by generation.
const nvlinkErrorFields = "NVML_FI_DEV_NVLINK_ERROR_DL_{REPLAY,RECOVERY,CRC}; NVML_FI_DEV_NVLINK_COUNT_{LINK_RECOVERY_EVENTS,LINK_RECOVERY_FAILED_EVENTS," +
	"RCV_ERRORS,LOCAL_LINK_INTEGRITY_ERRORS,XMIT_DISCARDS,EFFECTIVE_ERRORS}"

const nvlinkKinds = "kind: replay, recovery, crc up to NVLink 4; recovery, recovery_failed, receive, local_integrity, transmit_discards, effective (left after error correction) from NVLink 5 on."

// The rows of the collectors nvlink, which adds up the links of a GPU, and nvlink_links.
var (
	nvlinkLinks = &Family{
		Name: "nvlink_links", Type: Gauge, Labels: []string{"uuid"},
		Help:   "Number of NVLinks of the GPU, used or not. Absent if it has none.",
		Source: "NVML_FI_DEV_NVLINK_LINK_COUNT", Cadence: Slow, Stability: Stable,
	}
	nvlinkLinksActive = &Family{
		Name: "nvlink_links_active", Type: Gauge, Labels: []string{"uuid"},
		Help: "Number of NVLinks of the GPU that are up. Some boards do not wire every link: compare with the other GPUs of the node. " +
			"Absent while the state of a link is unknown.",
		Source: "NVML_FI_DEV_NVLINK_GET_STATE", Cadence: Fast, Stability: Stable,
	}
	nvlinkSpeed = &Family{
		Name: "nvlink_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"uuid"},
		Help:   "Total speed of all active NVLinks of the GPU in each direction. Absent while the speed of a link is unknown.",
		Source: "NVML_FI_DEV_NVLINK_GET_SPEED", Cadence: Slow, Stability: Stable,
	}
	nvlinkErrors = &Family{
		Name: "nvlink_errors_total", Type: Counter, Labels: []string{"uuid", "kind"},
		Help: "Errors and recoveries of all NVLinks of the GPU, in total; a few CRC errors and replays are normal. " +
			nvlinkKinds +
			" Absent while the count of a link is unknown.",
		Source: nvlinkErrorFields, Cadence: Slow, Stability: Stable,
	}
	nvlinkLinkInfo = &Family{
		Name: "nvlink_link_info", Type: Info, Labels: []string{"uuid", "link", "remote", "end"},
		Help: "An NVLink of a GPU; constant 1. remote is the PCI address of the device at its other end, and end the kind of that device: gpu, switch, cpu. " +
			"Unknown labels are empty.",
		Source: "nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetNvLinkRemoteDeviceType", Cadence: Rare,
		Stability: Experimental,
	}
	nvlinkLinkActive = &Family{
		Name: "nvlink_link_active", Type: Gauge, Labels: []string{"uuid", "link"},
		Help:   "1 if the NVLink is up.",
		Source: "NVML_FI_DEV_NVLINK_GET_STATE", Cadence: Fast, Stability: Experimental,
	}
	nvlinkLinkSpeed = &Family{
		Name: "nvlink_link_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"uuid", "link"},
		Help:   "Speed of the NVLink in each direction.",
		Source: "NVML_FI_DEV_NVLINK_GET_SPEED", Cadence: Slow, Stability: Experimental,
	}
	nvlinkLinkErrors = &Family{
		Name: "nvlink_link_errors_total", Type: Counter, Labels: []string{"uuid", "link", "kind"},
		Help:   "Errors and recoveries of the NVLink. " + nvlinkKinds,
		Source: nvlinkErrorFields, Cadence: Slow, Stability: Experimental,
	}
)

// nvlinkFamilies are the rows of the collector nvlink, in the order of documentation.
func nvlinkFamilies() []*Family {
	return []*Family{
		nvlinkLinks, nvlinkLinksActive, nvlinkSpeed, nvlinkErrors,
	}
}

// nvlinkLinksFamilies are the rows of the collector nvlink_links, in the order of documentation.
func nvlinkLinksFamilies() []*Family {
	return []*Family{
		nvlinkLinkInfo, nvlinkLinkActive, nvlinkLinkSpeed, nvlinkLinkErrors,
	}
}

func hasNVLink(n *fabric.Node) (bool, string) {
	if ok, why := asksGPUDriver(n); !ok {
		return false, why
	}
	if len(n.GPUDriver.GPUs) == 0 {
		return false, "the driver has no GPU"
	}
	for i := range n.GPUDriver.GPUs {
		if f := n.GPUDriver.GPUs[i].NVLinks; f.State == fabric.Unknown || len(f.Or(nil)) > 0 {
			return true, ""
		}
	}
	return false, "no GPU has NVLinks"
}

func collectNVLink(n *fabric.Node, emit emit) {
	for g := range gpus(n) {
		links := g.NVLinks.Or(nil)
		if len(links) == 0 {
			continue
		}
		uuid := label(g.UUID)
		emit(nvlinkLinks, float64(len(links)), uuid)
		number(emit, nvlinkLinksActive, g.Active(), uuid)
		if v, ok := speedOf(links); ok {
			emit(nvlinkSpeed, v, uuid)
		}
		for _, kind := range fabric.NVLinkErrorKinds() {
			if v, ok := errorsOf(links, kind); ok {
				emit(nvlinkErrors, v, uuid, string(kind))
			}
		}
	}
}

// speedOf adds up the links that are up.
func speedOf(links []fabric.NVLink) (sum float64, known bool) {
	for i := range links {
		active, ok := links[i].Active.Get()
		speed, measured := links[i].Speed.Get()
		switch {
		case !ok || active && !measured:
			return 0, false
		case active:
			sum += speed
		}
	}
	return sum, true
}

// errorsOf adds up one kind. Without the share of one link the sum would fall, and rise again by all of it later.
func errorsOf(links []fabric.NVLink, kind fabric.NVLinkError) (sum float64, known bool) {
	for i := range links {
		k := slices.IndexFunc(links[i].Errors, func(e fabric.NVLinkErrors) bool { return e.Kind == kind })
		if k < 0 {
			return 0, false
		}
		v, ok := links[i].Errors[k].Count.Get()
		if !ok {
			return 0, false
		}
		sum += float64(v)
	}
	return sum, true
}

// collectNVLinkLinks is about each link.
func collectNVLinkLinks(n *fabric.Node, emit emit) {
	for g := range gpus(n) {
		links := g.NVLinks.Or(nil)
		for i := range links {
			l := &links[i]
			if slices.ContainsFunc(links[:i], func(o fabric.NVLink) bool { return o.Number == l.Number }) {
				continue
			}
			uuid, at := label(g.UUID), strconv.Itoa(l.Number)
			emit(nvlinkLinkInfo, 1, uuid, at, label(l.Remote.Or("")), string(l.RemoteKind.Or("")))
			boolean(emit, nvlinkLinkActive, l.Active, uuid, at)
			number(emit, nvlinkLinkSpeed, l.Speed, uuid, at)
			for _, kind := range fabric.NVLinkErrorKinds() {
				k := slices.IndexFunc(l.Errors, func(e fabric.NVLinkErrors) bool { return e.Kind == kind })
				if k >= 0 {
					number(emit, nvlinkLinkErrors, l.Errors[k].Count, uuid, at, string(kind))
				}
			}
		}
	}
}
