// SPDX-License-Identifier: Apache-2.0

package collector

import "slices"

// The catalogue: every metric of the exporter but those of the Go runtime. A row is never changed at run time.
var (
	scrapeCollectorSuccess = &Family{
		Name: "scrape_collector_success", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 when everything the collector needs could be read, also when the node has nothing to read; 0 otherwise.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorSupported = &Family{
		Name: "scrape_collector_supported", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 when the node has what the collector is for; 0 when it has not, which is not an error.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorTimeout = &Family{
		Name: "scrape_collector_timeout", Type: Gauge, Labels: []string{"collector"},
		Help:   "1 when a read the collector needs did not return in time for this scrape.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	scrapeCollectorDuration = &Family{
		Name: "scrape_collector_duration_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"collector"},
		Help:   "Time the last reads of what the collector needs took, added up over devices that are read side by side.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	sourceUp = &Family{
		Name: "exporter_source_up", Type: Gauge, Labels: []string{"source", "device", "netdev"},
		Help:   "1 when the source could be read. netdev is the network interface for qos, netstats and dcqcn; device and netdev are empty for sources of the whole node.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	sourceUnknown = &Family{
		Name: "exporter_source_unknown", Type: Gauge, Labels: []string{"source", "device", "netdev", "reason"},
		Help:   "1 while the source cannot be read (exporter_source_up is 0), and reason why not, as in exporter_facts_unknown. Absent otherwise.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	hcaStuck = &Family{
		Name: "hca_stuck", Type: Gauge, Labels: []string{"device"},
		Help:   "1 while a read of the RDMA device has not returned for 5 s or more; nothing else of it is read meanwhile.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	factsUnknown = &Family{
		Name: "exporter_facts_unknown", Type: Gauge, Labels: []string{"device", "uuid", "reason"},
		Help:   "How many facts of the RDMA device or of the GPU are unknown, by reason; device and uuid are empty for those of the GPU driver. Unknown facts have no other series.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	driverCommands = &Family{
		Name: "exporter_driver_commands_total", Type: Counter, Labels: []string{"kind"},
		Help: "Questions the exporter made the kernel pass on to drivers, most of which ask their firmware: query_port, process_mad (one PMA counter), " +
			"get_hw_stats (all hardware counters of a port); and to drivers of network interfaces: dcb_get, pause_get, fec_get, link_get (speed), ethtool_stats " +
			"(all statistics), ethtool_names (which there are), cong_query (one file of congestion control). Does not grow with the number of scrapers.",
		Source: "exporter", Cadence: Self, Stability: Stable,
	}
	uncachedReads = &Family{
		Name: "exporter_uncached_reads_total", Type: Counter,
		Help: "Files of RDMA devices in sysfs that were opened for one read, because the limit of open files (RLIMIT_NOFILE) leaves none to keep them open with. " +
			"Each read costs about twenty times as much; raise LimitNOFILE of the unit if this grows.",
		Source: "exporter", Cadence: Self, Stability: Experimental,
	}
	configReloadSuccessful = &Family{
		Name: "exporter_config_last_reload_successful", Type: Gauge,
		Help:   "1 when the last attempt to load the configuration file succeeded; the old configuration stays in force otherwise.",
		Source: "--config.file", Cadence: Self, Stability: Stable,
	}
	configReloadTimestamp = &Family{
		Name: "exporter_config_last_reload_success_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "When the configuration in force was loaded, in seconds since the epoch.",
		Source: "--config.file", Cadence: Self, Stability: Stable,
	}

	nodeInfo = &Family{
		Name: "node_info", Type: Info, Labels: []string{"kernel_release"},
		Help:   "The node; constant 1.",
		Source: "/proc/sys/kernel/osrelease", Cadence: Slow, Stability: Stable,
	}
	nodeBootTime = &Family{
		Name: "node_boot_time_seconds", Type: Gauge, Unit: "seconds",
		Help:   "When the node booted, in seconds since the epoch. Rules use it to be silent while a node starts.",
		Source: "/proc/stat btime", Cadence: Slow, Stability: Stable,
	}
	nodeNetNSMode = &Family{
		Name: "node_rdma_netns_mode", Type: StateSet, Labels: []string{"state"},
		Help: "Whether every network namespace sees every RDMA device (shared) or each only its own (exclusive): 1 for the current mode. " +
			"In exclusive mode the exporter must run in the host's network namespace to see the host's devices over netlink.",
		Source: "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", Cadence: Slow, Stability: Stable,
	}
	nodeGPUs = &Family{
		Name: "node_gpus", Type: Gauge,
		Help:   "NVIDIA GPUs on the PCI bus (display and 3D controllers), whether a driver has them or not.",
		Source: "/sys/bus/pci/devices/*/{vendor,class}", Cadence: Slow, Stability: Stable,
	}
	computePortsExpected = &Family{
		Name: "node_compute_ports_expected", Type: Gauge,
		Help:   "How many active ports of role compute the site expects on this node; absent when it does not say.",
		Source: "config expected.compute_ports", Cadence: Config, Stability: Stable,
	}

	computePorts = &Family{
		Name: "node_compute_ports", Type: Gauge,
		Help:   "How many ports are for training traffic, up or down (role compute of hca_port_info). Absent if none is known to be.",
		Source: "see hca_port_info", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaInfo = &Family{
		Name: "hca_info", Type: Info,
		Labels: []string{
			"device", "driver", "node_type", "firmware_version", "board_id", "hca_type", "hardware_revision", "pci_address", "function",
			"node_guid", "system_image_guid",
		},
		Help:   "Identity of an RDMA device; constant 1. What the device does not have or could not be read is an empty label.",
		Source: "/sys/class/infiniband/<device>/{node_type,fw_ver,board_id,hca_type,hw_rev,node_guid,sys_image_guid,device}", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaNUMANode = &Family{
		Name: "hca_numa_node", Type: Gauge, Labels: []string{"device"},
		Help:   "NUMA node of the RDMA device; absent when the firmware does not say (-1).",
		Source: "/sys/class/infiniband/<device>/device/numa_node", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaRestricted = &Family{
		Name: "hca_restricted", Type: Gauge, Labels: []string{"device"},
		Help: "1 for a device that belongs to the platform (NVSwitch management bridge) or that the site restricted: nothing but its identity is read. " +
			"Absent when it cannot be told without privilege.",
		Source: "config restricted; /sys/class/infiniband/<device>/device/vpd", Cadence: Slow, Privilege: "root for the automatic part (vpd is 0600)", Stability: Stable, Collector: "hca",
	}
	hcaNetlink = &Family{
		Name: "hca_netlink_visible", Type: Gauge, Labels: []string{"device"},
		Help: "1 when NETLINK_RDMA shows the device; 0 when only sysfs does (a container with a network namespace of its own, an old kernel): " +
			"then its counters are read from sysfs, which asks the driver more often.",
		Source: "RDMA_NLDEV_CMD_GET", Cadence: Fast, Stability: Experimental, Collector: "hca",
	}
	hcaMoved = &Family{
		Name: "hca_moved", Type: Gauge, Labels: []string{"device", "part"},
		Help: "1 while another network namespace has the RDMA device (part device) or only its network interface (part netdev), as when a container runtime gave it " +
			"to a pod; absent otherwise. What its ports do is not known meanwhile. device is its name as last seen on the host, else its name now, or its PCI " +
			"address where the host has another device of that name. A device that its driver lost, in a pod too, is not moved.",
		Source:  "/sys/class/infiniband_verbs/*/ibdev against /sys/class/infiniband; /sys/class/infiniband/<device>/device/net",
		Cadence: Fast, Stability: Stable, Collector: "hca",
	}
	hcaPortInfo = &Family{
		Name: "hca_port_info", Type: Info, Labels: []string{"device", "port", "link_layer", "netdev", "role"},
		Help:   "A port of an RDMA device with its network interface and what it is for; constant 1. Join with it to select by role.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{link_layer,gid_attrs/ndevs/0}, config roles", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortState = &Family{
		Name: "hca_port_state", Type: StateSet, Labels: []string{"device", "port", "state"},
		Help:   "Logical state of the port: 1 for the current state, 0 for all others. Absent for EFA, which always claims to be active.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/state", Cadence: Fast, Stability: Stable, Collector: "hca",
	}
	hcaPortPhysState = &Family{
		Name: "hca_port_physical_state", Type: StateSet, Labels: []string{"device", "port", "state"},
		Help:   "State of the physical link: 1 for the current state, 0 for all others. Absent for EFA.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/phys_state", Cadence: Fast, Stability: Stable, Collector: "hca",
	}
	hcaPortRate = &Family{
		Name: "hca_port_rate_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"device", "port"},
		Help:   "Signalling rate of the port as the RDMA stack states it, which NCCL tunes for. Absent while the physical link is not up.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/rate", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortExpectedRate = &Family{
		Name: "hca_port_expected_rate_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"device", "port"},
		Help:   "The rate the port should have: from the configuration, else what most ports of the same role and board have. Absent when neither says.",
		Source: "config expected.port_rate_gigabits_per_second; peers", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortRateMismatch = &Family{
		Name: "hca_port_rate_mismatch", Type: Gauge, Labels: []string{"device", "port"},
		Help: "1 when an active Ethernet port states another rate than its network interface: the kernel does not know the rate, or misreads it, " +
			"and NCCL tunes for the wrong one.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/rate against /sys/class/net/<netdev>/speed", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortLID = &Family{
		Name: "hca_port_lid", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "Local identifier of the port; InfiniBand only. 0: the subnet manager has not configured the port.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/lid", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortSMLID = &Family{
		Name: "hca_port_sm_lid", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "LID of the subnet manager that the port answers to; InfiniBand only. 0: none.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/sm_lid", Cadence: Slow, Stability: Stable, Collector: "hca",
	}
	hcaPortPKeys = &Family{
		Name: "hca_port_pkey_table_entries", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "Entries of the P_Key table, in use or not; InfiniBand only. The keys themselves are not read: each costs a firmware command.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/pkeys", Cadence: Slow, Stability: Stable, Collector: "hca",
	}

	gidInfo = &Family{
		Name: "gid_info", Type: Info, Labels: []string{"device", "port", "index", "gid", "type", "family", "netdev"},
		Help:   "An occupied entry of the GID table; constant 1.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{gids,gid_attrs/types,gid_attrs/ndevs}/<index>", Cadence: Fast, Stability: Stable, Collector: "gid",
	}
	gidEntries = &Family{
		Name: "gid_entries", Type: Gauge, Labels: []string{"device", "port", "type", "family"},
		Help: "Occupied entries of the GID table by type and address family. RoCE v2 with IPv4 and with IPv6 are present on every Ethernet port, also as 0. " +
			"An entry that vanishes shows with the scrape, a new one within a minute.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{gids,gid_attrs/types}/<index>", Cadence: Fast, Stability: Stable, Collector: "gid",
	}
	gidTableEntries = &Family{
		Name: "gid_table_entries", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "Size of the GID table, occupied or not.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/gids", Cadence: Slow, Stability: Stable, Collector: "gid",
	}
	gidSelectedIndex = &Family{
		Name: "gid_selected_index", Type: Gauge, Labels: []string{"device", "port", "reason"},
		Help: "Index of the GID that NCCL 2.21 or later selects on this port under the host's NCCL configuration. reason: infiniband, infiniband_flid, " +
			"configured (NCCL_IB_GID_INDEX), matched (automatic), fallback (nothing fits, index 0 or what is left).",
		Source: "GID table, /etc/nccl.conf, config nccl", Cadence: Fast, Stability: Stable, Collector: "gid",
	}
	gidChanges = &Family{
		Name: "gid_changes_total", Type: Counter, Labels: []string{"device", "port"},
		Help:   "Entries of the GID table that appeared, vanished or changed since the exporter first read it.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/gids/<index>", Cadence: Fast, Stability: Stable, Collector: "gid",
	}

	ncclConfigVariables = &Family{
		Name: "nccl_config_variables", Type: Gauge,
		Help:   "NCCL variables that the host's configuration files set for every job.",
		Source: "/etc/nccl.conf, config nccl", Cadence: Slow, Stability: Stable, Collector: "nccl",
	}
	ncclConfigFindings = &Family{
		Name: "nccl_config_findings", Type: Gauge, Labels: []string{"rule"},
		Help:   "Lines of the host's NCCL configuration files that NCCL ignores, refuses or reads otherwise than they look, that have no effect or are deprecated, by rule; absent when there are none.",
		Source: "/etc/nccl.conf, config nccl", Cadence: Slow, Stability: Experimental, Collector: "nccl",
	}
)

// Catalogue returns every row, in the order of documentation.
func Catalogue() []*Family {
	return append([]*Family{
		scrapeCollectorSuccess, scrapeCollectorSupported, scrapeCollectorTimeout, scrapeCollectorDuration, sourceUp, sourceUnknown, hcaStuck, factsUnknown, driverCommands, uncachedReads,
		configReloadSuccessful, configReloadTimestamp,
		nodeInfo, nodeBootTime, nodeNetNSMode, nodeGPUs, computePortsExpected,
		computePorts, hcaInfo, hcaNUMANode, hcaRestricted, hcaNetlink, hcaMoved, hcaPortInfo, hcaPortState, hcaPortPhysState, hcaPortRate, hcaPortExpectedRate, hcaPortRateMismatch,
		hcaPortLID, hcaPortSMLID, hcaPortPKeys,
		gidInfo, gidEntries, gidTableEntries, gidSelectedIndex, gidChanges,
		ncclConfigVariables, ncclConfigFindings,
	}, slices.Concat(counterFamilies(), ethernetCatalogue(), roceFamilies(), pcieCatalogue(), gpuCatalogue(), nvlinkCatalogue(), gpudirectCatalogue(), probeCatalogue(), checkFamilies())...)
}
