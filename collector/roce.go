// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"iter"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// The rows of the collectors roce and dcqcn. Series with a label netdev are about one physical interface, of which
// a bond has several; the others are about the port, and show the worst of them.
var (
	roceChainConsistent = &Family{
		Name: "roce_chain_consistent", Type: Gauge, Labels: []string{"device", "port"},
		Help: "1 if the settings of NCCL, the settings of the NIC and the expectation of the site agree in every step. The steps are the GID that NCCL would use, traffic class, DSCP, priority, PFC, 802.3x pause, buffer, ETS, ECN and CNP. " +
			"0 if they contradict each other. Absent while this is unknown (roce_chain_unknown). Without expected.roce in the configuration, only contradictions between settings count.",
		Source: "DCB and ethtool netlink, MLNX_OFED files, NCCL configuration, config expected.roce", Cadence: Slow,
		Stability: Experimental,
	}
	roceChainBroken = &Family{
		Name: "roce_chain_broken", Type: Gauge, Labels: []string{"device", "port", "step"},
		Help: "1 while the chain of RoCE settings is broken; step is the first wrong setting: gid (the address that NCCL would use), traffic_class, dscp, priority, pfc, global_pause, buffer, ets, ecn_notification, " +
			"ecn_reaction or cnp. Absent otherwise. The landing page shows the reason.",
		Source: "as roce_chain_consistent", Cadence: Slow, Stability: Experimental,
	}
	roceChainUnknown = &Family{
		Name: "roce_chain_unknown", Type: Gauge, Labels: []string{"device", "port", "step", "reason"},
		Help: "1 while it is unknown whether the chain of RoCE settings is consistent; step is the first unknown setting. Absent otherwise. " +
			"traffic_class with reason not_read means that the host does not set NCCL_IB_TC, but jobs may.",
		Source: "as roce_chain_consistent", Cadence: Slow, Stability: Experimental,
	}
	roceTrafficClass = &Family{
		Name: "roce_traffic_class", Type: Gauge, Labels: []string{"device", "port"},
		Help: "Traffic class byte of NCCL's RoCE packets, 0 to 255: the one that MLNX_OFED sets for the port, or else NCCL_IB_TC of the host's NCCL configuration. " +
			"Absent if neither is set, because jobs may set their own.",
		Source: "/sys/class/infiniband/<device>/tc/<port>/traffic_class, /etc/nccl.conf, config nccl", Cadence: Slow,
		Stability: Experimental,
	}
	roceDSCP = &Family{
		Name: "roce_dscp", Type: Gauge, Labels: []string{"device", "port"},
		Help:   "DSCP of NCCL's RoCE v2 packets, 0 to 63: the upper six bits of the traffic class. Absent if the traffic class is absent.",
		Source: "as roce_traffic_class", Cadence: Slow, Stability: Experimental,
	}
	rocePriority = &Family{
		Name: "roce_priority", Type: Gauge, Labels: []string{"device", "port"},
		Help: "Priority that the NIC gives to NCCL's RoCE packets, 0 to 7, by DSCP or VLAN tag. If jobs set the traffic class, it is the priority in expected.roce; " +
			"absent if that is not configured.",
		Source:  "DCB_ATTR_IEEE_APP_TABLE, /sys/class/net/<netdev>/qos/{trust,dscp2prio}, NCCL_IB_SL, config expected.roce",
		Cadence: Slow, Stability: Experimental,
	}
	roceCongestionControl = &Family{
		Name: "roce_congestion_control", Type: StateSet, Labels: []string{"device", "port", "mode"},
		Help: "How RoCE avoids packet loss in congestion, for the priority of roce_priority: none, pfc (lossless), ecn (DCQCN), pfc_ecn (both), " +
			"or unknown; 1 for the current mode. Only MLNX_OFED shows whether ECN is on.",
		Source: "DCB_ATTR_IEEE_PFC, /sys/class/net/<netdev>/ecn/roce_{np,rp}/enable/<priority>", Cadence: Slow,
		Stability: Experimental,
	}
	roceTrust = &Family{
		Name: "roce_trust", Type: StateSet, Labels: []string{"device", "port", "netdev", "mode"},
		Help: "The field from which the interface takes the priority of a packet: dscp, or pcp (VLAN tag; untagged packets have priority 0); 1 for the current one. " +
			"Absent if the driver does not report it.",
		Source: "/sys/class/net/<netdev>/qos/trust, DCB_ATTR_IEEE_APP_TABLE", Cadence: Slow, Stability: Stable,
	}
	rocePFCEnabled = &Family{
		Name: "roce_pfc_enabled", Type: Gauge, Labels: []string{"device", "port", "netdev", "priority"},
		Help:   "1 if priority flow control is on for the priority, 0 if it is off. Only the priority of roce_priority and priorities with PFC have a series.",
		Source: "DCB_ATTR_IEEE_PFC", Cadence: Slow, Stability: Stable,
	}
	roceGlobalPauseEnabled = &Family{
		Name: "roce_global_pause_enabled", Type: Gauge, Labels: []string{"device", "port", "netdev", "direction"},
		Help:   "1 if IEEE 802.3x flow control, which stops the whole link, is on for the direction: receive, transmit. It excludes PFC.",
		Source: "ETHTOOL_MSG_PAUSE_GET", Cadence: Slow, Stability: Stable,
	}
	roceECNEnabled = &Family{
		Name: "roce_ecn_enabled", Type: Gauge, Labels: []string{"device", "port", "netdev", "priority", "role"},
		Help: "1 if congestion control (DCQCN) is on for the priority of roce_priority, by role: notification (receivers report marked packets), " +
			"reaction (senders slow down). Congestion control needs both.",
		Source: "/sys/class/net/<netdev>/ecn/roce_{np,rp}/enable/<priority> (MLNX_OFED)", Cadence: Slow, Stability: Stable,
	}
	roceLosslessBuffer = &Family{
		Name: "roce_lossless_buffer_bytes", Type: Gauge, Unit: "bytes", Labels: []string{"device", "port", "netdev"},
		Help:   "Size of the receive buffer of the priority of roce_priority. Absent if the priority is not lossless, or the driver does not report it.",
		Source: "DCB_ATTR_DCB_BUFFER", Cadence: Slow, Stability: Stable,
	}
	roceCNPDSCP = &Family{
		Name: "roce_cnp_dscp", Type: Gauge, Labels: []string{"device", "port", "netdev"},
		Help:   "DSCP of the congestion notifications that this host sends. Switches should give them a higher priority than data.",
		Source: "/sys/class/net/<netdev>/ecn/roce_np/cnp_dscp (MLNX_OFED)", Cadence: Slow, Stability: Stable,
	}
	roceConfigurationInfo = &Family{
		Name: "roce_configuration_info", Type: Info, Labels: []string{
			"device", "port", "netdev", "hash", "pfc", "dscp_map",
			"buffers", "mtu", "traffic_class_source", "dcbx",
		},
		Help: "RoCE settings of the interface; constant 1. hash covers trust, traffic class, DSCP, priority, PFC, ETS, ECN, 802.3x pause and buffers: equal settings have equal hashes, " +
			"so rails and nodes that differ can be found. Other labels have single settings, to compare nodes: pfc is the list of priorities with PFC (3, or none); " +
			"dscp_map is a hash of the priorities of all DSCPs, or pcp if DSCP is not trusted; buffers is a hash of the receive buffers; mtu is the MTU of the interface in bytes. " +
			"Unknown labels are empty. traffic_class_source: ofed, nccl, job (not set on the host), none (RoCE v1), unknown. " +
			"dcbx: host, or firmware, which may overwrite what the host sets.",
		Source: "as roce_chain_consistent; DCB_ATTR_DCBX; /sys/class/net/<netdev>/mtu", Cadence: Slow,
		Stability: Experimental,
	}
	roceCongestionControlParameter = &Family{
		Name: "roce_congestion_control_parameter", Type: Gauge, Labels: []string{"device", "port", "netdev", "parameter"},
		Help:      "A parameter of DCQCN with the driver's name and unit; np_: the notification point (receiver), rp_: the reaction point (sender).",
		Source:    "/sys/class/net/<netdev>/ecn/roce_{np,rp}/* (MLNX_OFED), /sys/kernel/debug/mlx5/<pci address>/cc_params/*",
		Cadence:   Slow,
		Privilege: "none with MLNX_OFED, root for debugfs", Stability: Experimental,
	}
)

// roceFamilies are the rows of the collector roce, in the order of documentation.
func roceFamilies() []*Family {
	return []*Family{
		roceChainConsistent, roceChainBroken, roceChainUnknown, roceTrafficClass, roceDSCP, rocePriority,
		roceCongestionControl, roceTrust,
		rocePFCEnabled, roceGlobalPauseEnabled, roceECNEnabled, roceLosslessBuffer, roceCNPDSCP, roceConfigurationInfo,
	}
}

// dcqcnFamilies are the rows of the collector dcqcn, in the order of documentation.
func dcqcnFamilies() []*Family {
	return []*Family{
		roceCongestionControlParameter,
	}
}

// rocePorts iterates over the ports that have RoCE, with the labels device and port.
func rocePorts(n *fabric.Node) iter.Seq2[[2]string, []fabric.RoCEChain] {
	return func(yield func([2]string, []fabric.RoCEChain) bool) {
		for i := range n.HCAs {
			h := &n.HCAs[i]
			for k := range h.Ports {
				chains := h.Ports[k].RoCE.Or(nil)
				if len(chains) > 0 && !yield([2]string{h.Name, strconv.Itoa(h.Ports[k].Number)}, chains) {
					return
				}
			}
		}
	}
}

func hasRoCE(n *fabric.Node) (bool, string) {
	if ok, why := hasRDMA(n); !ok {
		return false, why
	}
	for range rocePorts(n) {
		return true, ""
	}
	return false, "no RDMA device has a RoCE port"
}

func collectRoCE(n *fabric.Node, emit emit) {
	for at, chains := range rocePorts(n) {
		collectChain(at[0], at[1], &chains[0], emit)
		for i := range chains {
			if d := n.NetDev(chains[i].Interface); d != nil {
				collectQoS(at[0], at[1], d, &chains[i], emit)
			}
		}
	}
}

// collectChain is about the port.
func collectChain(dev, port string, c *fabric.RoCEChain, emit emit) {
	switch link := c.Link(c.Step); c.Verdict {
	case fabric.StatusOK:
		emit(roceChainConsistent, 1, dev, port)
	case fabric.StatusFailed:
		emit(roceChainConsistent, 0, dev, port)
		emit(roceChainBroken, 1, dev, port, string(c.Step))
	default:
		emit(roceChainUnknown, 1, dev, port, string(c.Step), string(link.Reason))
	}
	number(emit, roceTrafficClass, c.TrafficClass, dev, port)
	number(emit, roceDSCP, c.DSCP, dev, port)
	number(emit, rocePriority, c.Judged, dev, port)
	state(emit, roceCongestionControl, c.Mode, fabric.RoCEModes(), dev, port)
}

// collectQoS is about one physical interface below it.
func collectQoS(dev, port string, d *fabric.NetDev, c *fabric.RoCEChain, emit emit) {
	q := &d.QoS
	if t, ok := c.Trust.Get(); ok {
		state(emit, roceTrust, t, fabric.Trusts(), dev, port, d.Name)
	}
	used, known := c.Judged.Get()
	if pfc, ok := q.PFC.Get(); ok {
		for p := range fabric.NumPriorities {
			if on := pfc.Enabled.Has(p); on || known && p == used {
				emit(rocePFCEnabled, bit(on), dev, port, d.Name, strconv.Itoa(p))
			}
		}
	}
	if p, ok := q.Pause.Get(); ok {
		emit(roceGlobalPauseEnabled, bit(p.Receive), dev, port, d.Name, "receive")
		emit(roceGlobalPauseEnabled, bit(p.Transmit), dev, port, d.Name, "transmit")
	}
	if np, ok := q.NP.Get(); ok && known {
		emit(roceECNEnabled, bit(np.Has(used)), dev, port, d.Name, strconv.Itoa(used), "notification")
	}
	if rp, ok := q.RP.Get(); ok && known {
		emit(roceECNEnabled, bit(rp.Has(used)), dev, port, d.Name, strconv.Itoa(used), "reaction")
	}
	number(emit, roceLosslessBuffer, c.LosslessBuffer, dev, port, d.Name)
	number(emit, roceCNPDSCP, q.CNPDSCP, dev, port, d.Name)
	pfc, mtu := "", ""
	if v, ok := q.PFC.Get(); ok {
		pfc = v.Enabled.String()
	}
	if v, ok := d.MTU.Get(); ok {
		mtu = strconv.Itoa(v)
	}
	emit(roceConfigurationInfo, 1, dev, port, d.Name, c.Hash, pfc, c.DSCPMap, c.BufferMap, mtu, c.TrafficClassFrom,
		dcbx(q.DCBX))
}

// dcbx says who configures the interface; empty when the driver does not.
func dcbx(f fabric.Fact[fabric.DCBX]) string {
	switch x, ok := f.Get(); {
	case !ok:
		return ""
	case x.Host:
		return "host"
	default:
		return "firmware"
	}
}

func collectDCQCN(n *fabric.Node, emit emit) {
	for at, chains := range rocePorts(n) {
		for i := range chains {
			d := n.NetDev(chains[i].Interface)
			if d == nil {
				continue
			}
			for _, p := range d.QoS.Parameters.Or(nil) {
				emit(roceCongestionControlParameter, float64(p.Value), at[0], at[1], d.Name, p.Name)
			}
		}
	}
}
