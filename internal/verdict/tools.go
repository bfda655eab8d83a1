// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// Tools are the tools that work with the driver of a NIC, which it is named for: dcb and ethtool with all,
// and those of the vendor.
type Tools string

// ToolsOf returns the tools for the NICs of a device's driver.
func ToolsOf(h *fabric.HCA) Tools { return Tools(h.Driver.Or("")) }

// NVIDIA reports whether NVIDIA's tools may work: the driver is one of NVIDIA's, or not known.
func (t Tools) NVIDIA() bool { return t == "" || strings.HasPrefix(string(t), "mlx") }

// Command names the tools that set a NIC up for RoCE: mlnx_qos or dcb, dcb or niccli, or dcb alone.
func (t Tools) Command(nvidia, dcb, broadcom string) string {
	dcb = "dcb " + dcb
	switch {
	case t.NVIDIA():
		return "mlnx_qos -i <interface> " + nvidia + " or " + dcb
	case strings.HasPrefix(string(t), "bnxt") && broadcom != "":
		return dcb + " or niccli -dev <address> " + broadcom
	}
	return dcb
}

// Mlxlink shows the cable and transceiver of a port of NVIDIA's. Without a port it shows the first one.
func Mlxlink(h *fabric.HCA) string {
	if len(h.Ports) > 1 {
		return "mlxlink -d <device> -p <port> -m"
	}
	return "mlxlink -d <device> -m"
}

// Firmware names what installs firmware.
func (t Tools) Firmware() string {
	if t.NVIDIA() {
		return "the server's vendor, or, for cards of NVIDIA's own PSID on the drained node, mlxfwmanager -d <address> -u -i <image>"
	}
	return "the vendor of the server or of the card"
}

// Trust has the interface trust DSCP. Other drivers than NVIDIA's do from the first DSCP on that is mapped to
// a priority.
func (t Tools) Trust(dscp, priority string) string {
	if t.NVIDIA() {
		return "mlnx_qos -i <interface> --trust dscp"
	}
	return t.Map(dscp, priority)
}

// Map gives a DSCP that priority. 5 selects DSCP in Broadcom's list of applications.
func (t Tools) Map(dscp, priority string) string {
	return t.Command("--dscp2prio set,"+dscp+","+priority, "app replace dev <interface> dscp-prio "+dscp+":"+priority,
		"apptlv -add -app "+priority+",5,"+dscp)
}
