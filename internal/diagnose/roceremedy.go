// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// nicTools are the tools that work with the driver of a NIC, which it is named for: dcb and ethtool with all, and those of the vendor.
type nicTools string

func toolsOf(h *fabric.HCA) nicTools { return nicTools(h.Driver.Or("")) }

// nvidia reports whether NVIDIA's tools may work: the driver is one of NVIDIA's, or not known.
func (t nicTools) nvidia() bool { return t == "" || strings.HasPrefix(string(t), "mlx") }

// command names the tools that set a NIC up for RoCE: mlnx_qos or dcb, dcb or niccli, or dcb alone.
func (t nicTools) command(nvidia, dcb, broadcom string) string {
	dcb = "dcb " + dcb
	switch {
	case t.nvidia():
		return "mlnx_qos -i <interface> " + nvidia + " or " + dcb
	case strings.HasPrefix(string(t), "bnxt") && broadcom != "":
		return dcb + " or niccli -dev <address> " + broadcom
	}
	return dcb
}

// trust has the interface trust DSCP. Other drivers than NVIDIA's do from the first DSCP on that is mapped to a priority.
func (t nicTools) trust(dscp, priority string) string {
	if t.nvidia() {
		return "mlnx_qos -i <interface> --trust dscp"
	}
	return t.mapped(dscp, priority)
}

// mapped gives a DSCP that priority. 5 selects DSCP in Broadcom's list of applications.
func (t nicTools) mapped(dscp, priority string) string {
	return t.command("--dscp2prio set,"+dscp+","+priority, "app replace dev <interface> dscp-prio "+dscp+":"+priority, "apptlv -add -app "+priority+",5,"+dscp)
}

// roceRemedy is what to do. Commands are for an interface that the reader fills in: equal troubles of several ports
// are one.
func roceRemedy(s fabric.RoCEStep, t nicTools, c *fabric.RoCEChain, expected fabric.RoCEPolicy) string {
	p := c.Judged.Value
	if expected.Priority != nil {
		p = *expected.Priority
	}
	switch s {
	case fabric.RoCEDSCP:
		return dscpRemedy(c, expected)
	case fabric.RoCEPriority:
		return priorityRemedy(t, c, expected, p)
	case fabric.RoCEPFC:
		return pfcRemedy(t, c, expected, p)
	case fabric.RoCEGlobalPause:
		return "ethtool -A <interface> autoneg off rx off tx off, and the same at the switch port."
	case fabric.RoCEBuffer:
		return fmt.Sprintf("Give priority %d a buffer: %s; dcb buffer show dev <interface> shows the total size.", p, t.command(
			fmt.Sprintf("--prio2buffer %s --buffer_size <bytes>,<bytes>,0,0,0,0,0,0", onlyPriority(p)),
			fmt.Sprintf("buffer set dev <interface> prio-buffer all:0 %d:1 buffer-size all:0 0:<bytes> 1:<bytes>", p), ""))
	case fabric.RoCEETS:
		return "Give its class a share: " + t.command("--tcbw <eight shares>", "ets set dev <interface> tc-bw <class>:<share>", "") +
			" for each class; the shares must add up to 100."
	case fabric.RoCENotification, fabric.RoCEReaction:
		on := 1
		if expected.ECN != nil && !*expected.ECN {
			on = 0
		}
		return fmt.Sprintf("echo %[1]d > /sys/class/net/<interface>/ecn/roce_np/enable/%[2]d; echo %[1]d > /sys/class/net/<interface>/ecn/roce_rp/enable/%[2]d", on, p)
	default:
		return "Give them another DSCP: echo 48 > /sys/class/net/<interface>/ecn/roce_np/cnp_dscp (it goes to priority 6 by default), and a strict priority at the switch."
	}
}

const roceV2Remedy = "Check that NCCL finds a RoCE v2 address, and that NCCL_IB_GID_INDEX selects it."

func dscpRemedy(c *fabric.RoCEChain, expected fabric.RoCEPolicy) string {
	tc := *expected.DSCP<<2 | 2 // ECN capable
	switch c.TrafficClassFrom {
	case fabric.TrafficClassFromOFED:
		return fmt.Sprintf("echo %d > /sys/class/infiniband/<device>/tc/<port>/traffic_class, or -1 to leave it to jobs.", tc)
	case fabric.TrafficClassFromV1:
		return roceV2Remedy
	default:
		return fmt.Sprintf("Set NCCL_IB_TC=%d in /etc/nccl.conf, or correct expected.roce.", tc)
	}
}

func priorityRemedy(t nicTools, c *fabric.RoCEChain, expected fabric.RoCEPolicy, p int) string {
	d := dscpWord(c, expected)
	switch {
	case c.Trust.Or("") == fabric.TrustPCP:
		return t.trust(d, strconv.Itoa(p)) + ", or correct expected.roce."
	case d == anyDSCP: // RoCE v1
		return "Check that NCCL finds a RoCE v2 address, or set NCCL_IB_SL and use a VLAN."
	}
	return t.mapped(d, strconv.Itoa(p))
}

func pfcRemedy(t nicTools, c *fabric.RoCEChain, expected fabric.RoCEPolicy, p int) string {
	const check = ", and the same at the switch port."
	switch {
	case expected.Lossless == nil && c.TrafficClassFrom == fabric.TrafficClassFromV1: // untagged, without a DSCP
		return roceV2Remedy
	case expected.Lossless != nil && !*expected.Lossless:
		return t.command("--pfc 0,0,0,0,0,0,0,0", "pfc set dev <interface> prio-pfc all:off", "pfc -enable 0xFF") + check
	case expected.Lossless == nil && expected.Priority == nil && c.Trust.Or("") == fabric.TrustPCP:
		return "Make the interface trust DSCP: " + t.trust(dscpWord(c, expected), "<lossless priority>") + ". Or use a VLAN, and NCCL_IB_SL."
	}
	command := t.command("--pfc "+onlyPriority(p), fmt.Sprintf("pfc set dev <interface> prio-pfc all:off %d:on", p), fmt.Sprintf("pfc -enable %d", p))
	if expected.Lossless == nil && expected.Priority == nil {
		return "Set NCCL_IB_TC so that its DSCP maps to the lossless priority, or make its priority lossless: " + command + check
	}
	return command + check
}

const anyDSCP = "<dscp>"

// dscpWord is the DSCP of a chain, or that which the site expects, or the placeholder for one.
func dscpWord(c *fabric.RoCEChain, expected fabric.RoCEPolicy) string {
	if d, known := c.DSCP.Get(); known {
		return strconv.Itoa(d)
	}
	if expected.DSCP != nil {
		return strconv.Itoa(*expected.DSCP)
	}
	return anyDSCP
}

// onlyPriority is a list of eight as mlnx_qos takes it, 1 for priority p.
func onlyPriority(p int) string {
	list := strings.Split("0,0,0,0,0,0,0,0", ",")
	list[p] = "1"
	return strings.Join(list, ",")
}
