// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strconv"

	nodechecks "gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
)

// The rows of the collector hca.
var (
	computePorts = &Family{
		Name: "node_compute_ports", Type: Gauge,
		Help:   "Number of ports for training traffic, up or down (role compute of hca_port_info). Absent if none is known.",
		Source: "see hca_port_info", Cadence: Slow, Stability: Stable,
	}
	hcaInfo = &Family{
		Name: "hca_info", Type: Info,
		Labels: []string{
			"device", "driver", "node_type", "firmware_version", "board_id", "hca_type", "hardware_revision", "pci_address",
			"function",
			"node_guid", "system_image_guid",
		},
		Help:   "Identity of an RDMA device; constant 1. Labels are empty if the device does not have the property or it could not be read.",
		Source: "/sys/class/infiniband/<device>/{node_type,fw_ver,board_id,hca_type,hw_rev,node_guid,sys_image_guid,device}", Cadence: Slow, Stability: Stable,
	}
	hcaMoved = &Family{
		Name: "hca_moved", Type: Gauge, Labels: []string{"device", "part"},
		Help: "1 while another network namespace has the RDMA device (part device) or only its network interface (part netdev), for example because a container runtime moved it " +
			"to a pod; absent otherwise. The state of its ports is unknown during that time. device is its last name on the host, or else its current name, or its PCI " +
			"address if the host has another device of that name. A device that its driver lost is not counted as moved, even in a pod.",
		Source:  "/sys/class/infiniband_verbs/*/ibdev against /sys/class/infiniband; /sys/class/infiniband/<device>/device/net",
		Cadence: Fast, Stability: Stable,
	}
	hcaGone = &Family{
		Name: "hca_gone", Type: Gauge, Labels: []string{"device", "source"},
		Help: "1 for each RDMA device that the node should have and lacks, for whatever traffic: the check hardware is critical for it. A 0 without labels says that no other is gone. " +
			"It is absent if nothing states what there should be, or what there is could not be read. device is its last name, or its PCI address if the node has another device of that name. " +
			"source: record (what the exporter saw before, without what check --accept took out), manifest (devices for training and storage). " +
			"Without a state folder, the record ends with the exporter.",
		Source:  "/sys/class/infiniband, /sys/bus/pci/devices against the record of the node and config expected.manifest",
		Cadence: Fast, Stability: Stable,
	}
	hcaPortInfo = &Family{
		Name: "hca_port_info", Type: Info, Labels: []string{"device", "port", "link_layer", "netdev", "role"},
		Help:   "A port of an RDMA device with its network interface and its role; constant 1. Join other metrics with it to select ports by role.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/{link_layer,gid_attrs/ndevs/0}, config roles", Cadence: Slow,
		Stability: Stable,
	}
	hcaPortState = &Family{
		Name: "hca_port_state", Type: StateSet, Labels: []string{"device", "port", "state"},
		Help:   "Logical state of the port: 1 for the current state, 0 for all others. Absent for EFA, which always reports active.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/state", Cadence: Fast, Stability: Stable,
	}
	hcaPortLinkExpected = &Family{
		Name: "hca_port_link_expected", Type: Gauge, Labels: []string{"device", "port", "source"},
		Help: "1 if the port should have a link, 0 if it should have none, as the first source says that speaks of it; absent if none does. A port for training or storage with a 1 that is not active " +
			"fails the check port_active, which is critical. source: configuration (its number of compute ports, once the node met it), manifest, nccl_ib_hca (NCCL_IB_HCA of the host), " +
			"profile (of the platform), record (the port had a link, and check --accept did not take it out).",
		Source: "see docs/ROLES.md", Cadence: Slow, Stability: Stable,
	}
	hcaPortPhysState = &Family{
		Name: "hca_port_physical_state", Type: StateSet, Labels: []string{"device", "port", "state"},
		Help:   "State of the physical link: 1 for the current state, 0 for all others. Absent for EFA.",
		Source: "/sys/class/infiniband/<device>/ports/<port>/phys_state", Cadence: Fast, Stability: Stable,
	}
)

// deviceValues are the metrics with one value for each device.
var deviceValues = []valueOf[fabric.HCA]{
	{
		&Family{
			Name: "hca_numa_node", Type: Gauge, Labels: []string{"device"},
			Help:   "NUMA node of the RDMA device; absent if the firmware does not report it (-1).",
			Source: "/sys/class/infiniband/<device>/device/numa_node", Cadence: Slow, Stability: Stable,
		},
		func(h *fabric.HCA) (float64, bool) { return amount(h.NUMANode) },
	},
	{
		&Family{
			Name: "hca_restricted", Type: Gauge, Labels: []string{"device"},
			Help: "1 for a device that belongs to the platform (NVSwitch management bridge) or that the configuration restricts: only its identity is read. " +
				"Absent when it cannot be determined without privilege.",
			Source: "config restricted; /sys/class/infiniband/<device>/device/vpd", Cadence: Slow,
			Privilege: "root for the automatic part (vpd is 0600)", Stability: Stable,
		},
		func(h *fabric.HCA) (float64, bool) { return truth(h.Restricted) },
	},
	{
		&Family{
			Name: "hca_netlink_visible", Type: Gauge, Labels: []string{"device"},
			Help: "1 if NETLINK_RDMA shows the device; 0 if only sysfs does (a container with its own network namespace, or an old kernel): " +
				"then its counters are read from sysfs, with more requests to the driver.",
			Source: "RDMA_NLDEV_CMD_GET", Cadence: Fast, Stability: Experimental,
		},
		func(h *fabric.HCA) (float64, bool) { return truth(h.Netlink) },
	},
}

// portValues are the metrics with one value for each port.
var portValues = []valueOf[fabric.Port]{
	{
		&Family{
			Name: "hca_port_rate_bytes_per_second", Type: Gauge, Unit: "bytes_per_second", Labels: []string{"device", "port"},
			Help:   "Signaling rate of the port as the RDMA stack reports it; NCCL tunes for this rate. Absent while the physical link is not up.",
			Source: "/sys/class/infiniband/<device>/ports/<port>/rate", Cadence: Slow, Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return p.Rate.Value.BytesPerSecond, p.Rate.State == fabric.OK },
	},
	{
		&Family{
			Name: "hca_port_expected_rate_bytes_per_second", Type: Gauge, Unit: "bytes_per_second",
			Labels:  []string{"device", "port"},
			Help:    "Rate that the port should have, by the first of configuration (once the node met it), manifest, profile and record of the node that states one. Absent if none does.",
			Source:  "config expected.port_rate_gigabits_per_second, expected.manifest; profile; record of the node",
			Cadence: Slow, Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return p.ExpectedRate.Value, p.RateStated() },
	},
	{
		&Family{
			Name: "hca_port_rate_mismatch", Type: Gauge, Labels: []string{"device", "port"},
			Help: "1 if an active Ethernet port and its network interface report different rates: the RDMA stack does not know the rate or misreads it, " +
				"and NCCL tunes for the wrong rate.",
			Source: "/sys/class/infiniband/<device>/ports/<port>/rate against /sys/class/net/<netdev>/speed", Cadence: Slow,
			Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return truth(p.RateMismatch) },
	},
	{
		&Family{
			Name: "hca_port_lid", Type: Gauge, Labels: []string{"device", "port"},
			Help:   "Local identifier of the port; InfiniBand only. 0: the subnet manager has not configured the port.",
			Source: "/sys/class/infiniband/<device>/ports/<port>/lid", Cadence: Slow, Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return amount(p.LID) },
	},
	{
		&Family{
			Name: "hca_port_sm_lid", Type: Gauge, Labels: []string{"device", "port"},
			Help:   "LID of the subnet manager of the port; InfiniBand only. 0: none.",
			Source: "/sys/class/infiniband/<device>/ports/<port>/sm_lid", Cadence: Slow, Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return amount(p.SMLID) },
	},
	{
		&Family{
			Name: "hca_port_pkey_table_entries", Type: Gauge, Labels: []string{"device", "port"},
			Help:   "Size of the P_Key table, used or not; InfiniBand only. The keys are not read, because each costs a firmware command.",
			Source: "/sys/class/infiniband/<device>/ports/<port>/pkeys", Cadence: Slow, Stability: Stable,
		},
		func(p *fabric.Port) (float64, bool) { return amount(p.PKeys) },
	},
}

// hcaFamilies are the rows of the collector hca, in the order of documentation.
func hcaFamilies() []*Family {
	return slices.Concat([]*Family{computePorts, hcaInfo, hcaMoved, hcaGone}, familiesOf(deviceValues),
		[]*Family{hcaPortInfo, hcaPortState, hcaPortLinkExpected, hcaPortPhysState}, familiesOf(portValues))
}

func collectHCA(n *fabric.Node, emit emit) {
	for i := range n.HCAs {
		collectDevice(&n.HCAs[i], emit)
	}
	compute := 0
	for h, p := range n.Binding().Ports {
		collectPort(h, p, emit)
		if p.Serves(fabric.RoleCompute) {
			compute++
		}
	}
	if compute > 0 {
		emit(computePorts, float64(compute))
	}
	gone, all := nodechecks.GoneDevices(n)
	for _, g := range gone {
		emit(hcaGone, 1, g.Device, string(g.By))
	}
	if all {
		emit(hcaGone, 0, "", "")
	}
}

func collectDevice(h *fabric.HCA, emit emit) {
	emit(hcaInfo, 1, h.Name, h.Driver.Or(""), string(h.NodeType.Or("")), h.Firmware.Or(""), h.BoardID.Or(""),
		h.Type.Or(""), h.Revision.Or(""), h.PCI.Or(""), string(h.Function.Or("")), h.NodeGUID.Or(""), h.ImageGUID.Or(""))
	emitValues(emit, deviceValues, h, h.Name)
	switch {
	case h.Moved:
		emit(hcaMoved, 1, h.Name, "device")
	case slices.ContainsFunc(h.Ports, func(p fabric.Port) bool { return p.NetDevMoved() }):
		emit(hcaMoved, 1, h.Name, "netdev")
	}
}

func collectPort(h *fabric.HCA, p *fabric.Port, emit emit) {
	at := []string{h.Name, strconv.Itoa(p.Number)}
	emit(hcaPortInfo, 1, at[0], at[1], string(p.LinkLayer.Or("")), p.NetDev.Or(""), string(p.Role.Or("")))
	if s, ok := p.State.Get(); ok {
		state(emit, hcaPortState, s, fabric.PortStates(), at...)
	}
	if p.Link.Stated() {
		emit(hcaPortLinkExpected, bit(p.Link.Value), at[0], at[1], string(p.Link.By))
	}
	if s, ok := p.PhysState.Get(); ok {
		state(emit, hcaPortPhysState, s, fabric.PhysStates(), at...)
	}
	emitValues(emit, portValues, p, at...)
}
