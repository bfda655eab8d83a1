// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// roceRemedy is what to do. Commands are for an interface that the reader fills in: equal troubles of several ports
// are one.
func roceRemedy(s fabric.RoCEStep, c *fabric.RoCEChain, wish fabric.RoCEPolicy) string {
	p := c.Judged.Value
	if wish.Priority != nil {
		p = *wish.Priority
	}
	switch s {
	case fabric.RoCEDSCP:
		return dscpRemedy(c, wish)
	case fabric.RoCEPriority:
		return priorityRemedy(c, wish, p)
	case fabric.RoCEPFC:
		return pfcRemedy(c, wish, p)
	case fabric.RoCEGlobalPause:
		return "ethtool -A <interface> autoneg off rx off tx off, and the same at the switch port."
	case fabric.RoCEBuffer:
		return fmt.Sprintf("Give priority %[1]d a buffer: mlnx_qos -i <interface> --prio2buffer %[2]s --buffer_size <bytes>,<bytes>,0,0,0,0,0,0 or dcb buffer set dev <interface> "+
			"prio-buffer all:0 %[1]d:1 buffer-size all:0 0:<bytes> 1:<bytes>; dcb buffer show dev <interface> shows the total size.", p, onlyPriority(p))
	case fabric.RoCEETS:
		return "Give its class a share: mlnx_qos -i <interface> --tcbw <eight shares> or dcb ets set dev <interface> tc-bw <class>:<share> for each class; the shares must add up to 100."
	case fabric.RoCENotification, fabric.RoCEReaction:
		on := 1
		if wish.ECN != nil && !*wish.ECN {
			on = 0
		}
		return fmt.Sprintf("echo %[1]d > /sys/class/net/<interface>/ecn/roce_np/enable/%[2]d; echo %[1]d > /sys/class/net/<interface>/ecn/roce_rp/enable/%[2]d", on, p)
	default:
		return "Give them another DSCP: echo 48 > /sys/class/net/<interface>/ecn/roce_np/cnp_dscp (it goes to priority 6 by default), and a strict priority at the switch."
	}
}

const roceV2Remedy = "Check that NCCL finds a RoCE v2 address, and that NCCL_IB_GID_INDEX selects it."

func dscpRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy) string {
	tc := *wish.DSCP<<2 | 2 // ECN capable
	switch c.TrafficClassFrom {
	case fabric.TrafficClassFromOFED:
		return fmt.Sprintf("echo %d > /sys/class/infiniband/<device>/tc/<port>/traffic_class, or -1 to leave it to jobs.", tc)
	case fabric.TrafficClassFromV1:
		return roceV2Remedy
	default:
		return fmt.Sprintf("Set NCCL_IB_TC=%d in /etc/nccl.conf, or correct expected.roce.", tc)
	}
}

func priorityRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy, p int) string {
	if c.Trust.Or("") == fabric.TrustPCP {
		return "mlnx_qos -i <interface> --trust dscp, or correct expected.roce."
	}
	d, known := c.DSCP.Get()
	if !known && wish.DSCP != nil {
		d, known = *wish.DSCP, true
	}
	if !known { // RoCE v1
		return "Check that NCCL finds a RoCE v2 address, or set NCCL_IB_SL and use a VLAN."
	}
	return fmt.Sprintf("mlnx_qos -i <interface> --dscp2prio set,%d,%d or dcb app replace dev <interface> dscp-prio %d:%d", d, p, d, p)
}

func pfcRemedy(c *fabric.RoCEChain, wish fabric.RoCEPolicy, p int) string {
	const check = ", and the same at the switch port."
	switch {
	case wish.Lossless == nil && c.TrafficClassFrom == fabric.TrafficClassFromV1: // untagged, without a DSCP
		return roceV2Remedy
	case wish.Lossless != nil && !*wish.Lossless:
		return "mlnx_qos -i <interface> --pfc 0,0,0,0,0,0,0,0 or dcb pfc set dev <interface> prio-pfc all:off" + check
	case wish.Lossless == nil && wish.Priority == nil && c.Trust.Or("") == fabric.TrustPCP:
		return "Make the interface trust DSCP: mlnx_qos -i <interface> --trust dscp. Or use a VLAN, and NCCL_IB_SL."
	}
	command := fmt.Sprintf("mlnx_qos -i <interface> --pfc %s or dcb pfc set dev <interface> prio-pfc all:off %d:on", onlyPriority(p), p)
	if wish.Lossless == nil && wish.Priority == nil {
		return "Set NCCL_IB_TC so that its DSCP maps to the lossless priority, or make its priority lossless: " + command + check
	}
	return command + check
}

// onlyPriority is a list of eight as mlnx_qos takes it, 1 for priority p.
func onlyPriority(p int) string {
	list := strings.Split("0,0,0,0,0,0,0,0", ",")
	list[p] = "1"
	return strings.Join(list, ",")
}
