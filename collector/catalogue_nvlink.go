// SPDX-License-Identifier: Apache-2.0

package collector

// Where counts of NVLinks come from, by generation.
const nvlinkErrorFields = "NVML_FI_DEV_NVLINK_ERROR_DL_{REPLAY,RECOVERY,CRC}; NVML_FI_DEV_NVLINK_COUNT_{LINK_RECOVERY_EVENTS,LINK_RECOVERY_FAILED_EVENTS," +
	"RCV_ERRORS,LOCAL_LINK_INTEGRITY_ERRORS,XMIT_DISCARDS,EFFECTIVE_ERRORS}"

const nvlinkKinds = "kind: replay, recovery, crc up to NVLink 4; recovery, recovery_failed, receive, local_integrity, transmit_discards, effective (left after error correction) from NVLink 5 on."

// The rows of the collectors nvlink, which adds up the links of a GPU, and nvlink_links.
var (
	nvlinkLinks = &Family{
		Name: "nvlink_links", Type: Gauge, Labels: []string{"uuid"},
		Help:   "NVLinks that the GPU has, in use or not. Absent where it has none.",
		Source: "NVML_FI_DEV_NVLINK_LINK_COUNT", Cadence: Slow, Stability: Stable, Collector: "nvlink",
	}
	nvlinkLinksActive = &Family{
		Name: "nvlink_links_active", Type: Gauge, Labels: []string{"uuid"},
		Help: "NVLinks of the GPU that are up. Not every link is wired on every board: compare it with the other GPUs of the node. " +
			"Absent while the state of one link is not known.",
		Source: "NVML_FI_DEV_NVLINK_GET_STATE", Cadence: Fast, Stability: Stable, Collector: "nvlink",
	}
	nvlinkSpeed = &Family{
		Name: "nvlink_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"uuid"},
		Help:   "Speed of all NVLinks of the GPU that are up, added, in each direction. Absent while that of one is not known.",
		Source: "NVML_FI_DEV_NVLINK_GET_SPEED", Cadence: Slow, Stability: Stable, Collector: "nvlink",
	}
	nvlinkErrors = &Family{
		Name: "nvlink_errors_total", Type: Counter, Labels: []string{"uuid", "kind"},
		Help: "Errors and recoveries of all NVLinks of the GPU, added; a few CRC errors and replays are normal. " + nvlinkKinds +
			" Absent while the count of one link is not known.",
		Source: nvlinkErrorFields, Cadence: Slow, Stability: Stable, Collector: "nvlink",
	}

	nvlinkLinkInfo = &Family{
		Name: "nvlink_link_info", Type: Info, Labels: []string{"uuid", "link", "remote", "end"},
		Help: "An NVLink of a GPU; constant 1. remote is the PCI address at its other end, end what that is: gpu, switch, cpu. " +
			"What is not known is an empty label.",
		Source: "nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlDeviceGetNvLinkRemoteDeviceType", Cadence: Rare, Stability: Experimental, Collector: "nvlink_links",
	}
	nvlinkLinkActive = &Family{
		Name: "nvlink_link_active", Type: Gauge, Labels: []string{"uuid", "link"},
		Help:   "1 when the NVLink is up.",
		Source: "NVML_FI_DEV_NVLINK_GET_STATE", Cadence: Fast, Stability: Experimental, Collector: "nvlink_links",
	}
	nvlinkLinkSpeed = &Family{
		Name: "nvlink_link_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"uuid", "link"},
		Help:   "Speed of the NVLink in each direction.",
		Source: "NVML_FI_DEV_NVLINK_GET_SPEED", Cadence: Slow, Stability: Experimental, Collector: "nvlink_links",
	}
	nvlinkLinkErrors = &Family{
		Name: "nvlink_link_errors_total", Type: Counter, Labels: []string{"uuid", "link", "kind"},
		Help:   "Errors and recoveries of the NVLink. " + nvlinkKinds,
		Source: nvlinkErrorFields, Cadence: Slow, Stability: Experimental, Collector: "nvlink_links",
	}
)

func nvlinkCatalogue() []*Family {
	return []*Family{
		nvlinkLinks, nvlinkLinksActive, nvlinkSpeed, nvlinkErrors,
		nvlinkLinkInfo, nvlinkLinkActive, nvlinkLinkSpeed, nvlinkLinkErrors,
	}
}
