// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

// The parameters of congestion control that no scenario changes, with the defaults of the firmware.
var (
	notificationPoint = map[string]int{"min_time_between_cnps": 4}
	reactionPoint     = map[string]int{
		"clamp_tgt_rate": 0, "clamp_tgt_rate_after_time_inc": 1, "dce_tcp_g": 1019, "dce_tcp_rtt": 1, "initial_alpha_value": 1023,
		"rate_reduce_monitor_period": 4, "rate_to_set_on_first_cnp": 0, "rpg_ai_rate": 5, "rpg_byte_reset": 32767, "rpg_gd": 11,
		"rpg_hai_rate": 50, "rpg_max_rate": 0, "rpg_min_dec_fac": 50, "rpg_min_rate": 1, "rpg_threshold": 1, "rpg_time_reset": 300,
	}
)

// ofed lays out what MLNX_OFED adds to an interface (mlx5/core/en_sysfs.c and en_ecn.c of mlnx-ofa_kernel).
func (f files) ofed(dir string, q *QoS) {
	if q.OFED.Files == NoOFED {
		return
	}
	classes := 0 // of traffic, within the kernel: one without classes while the PCP is trusted
	if q.Trust() == fabric.TrustDSCP {
		classes = fabric.NumPriorities
	}
	f.attrs(dir+"/qos", map[string]string{
		"tc_num":      strconv.Itoa(classes),
		"maxrate":     strings.Repeat("0 ", fabric.NumPriorities),
		"prio2buffer": rows("Priority\tBuffer\n", "%d\t\t%d\n", q.Buffers.OfPriority[:]),
		"buffer_size": bufferSizes(q.Buffers),
	})
	if q.OFED.Files == WithTrustFiles {
		table := q.DSCPPriority()
		f.text(dir+"/qos/trust", string(q.Trust()))
		f.text(dir+"/qos/dscp2prio", rows("dscp\tprio\n", "%d\t%d\n", table[:]))
	}
	f.congestionControl(dir+"/ecn/roce_np", q.OFED.NP, notificationPoint)
	f.attrs(dir+"/ecn/roce_np", map[string]string{
		"cnp_dscp":      strconv.Itoa(q.OFED.CNPDSCP),
		"cnp_802p_prio": strconv.Itoa(q.OFED.CNPPriority),
	})
	f.congestionControl(dir+"/ecn/roce_rp", q.OFED.RP, reactionPoint)
}

func (f files) congestionControl(dir string, enabled fabric.PriorityMask, parameters map[string]int) {
	for p := range fabric.NumPriorities {
		on := "0"
		if enabled.Has(p) {
			on = "1"
		}
		f.text(dir+"/enable/"+strconv.Itoa(p), on)
	}
	for name, value := range parameters {
		f.text(dir+"/"+name, strconv.Itoa(value))
	}
}

// rows prints a table of what belongs to 0, 1, and so on.
func rows(header, format string, values []int) string {
	b := strings.Builder{}
	b.WriteString(header)
	for i, v := range values {
		fmt.Fprintf(&b, format, i, v)
	}
	return b.String()
}

// bufferSizes prints the receive buffers. Those that are not of the default one have thresholds at which the port
// sends and takes back a pause.
func bufferSizes(b fabric.Buffers) string {
	text := strings.Builder{}
	fmt.Fprintf(&text, "Port buffer size = %d\nSpare buffer size = 0\nBuffer\tSize\txoff_threshold\txon_threshold\n", b.Total)
	for i, size := range b.Bytes {
		xoff, xon := 0, 0
		if i > 0 {
			xoff, xon = size/2, size/4
		}
		fmt.Fprintf(&text, "%d\t%d\t%d\t\t%d\n", i, size, xoff, xon)
	}
	return text.String()
}

// vlans lays out the files of the VLAN module, without the traffic (net/8021q/vlanproc.c in the kernel).
func (f files) vlans(dir string, n *Node) {
	var config strings.Builder
	for _, d := range n.NetDevs {
		if d.VLAN.Lower == "" {
			continue
		}
		fmt.Fprintf(&config, "%-15s| %d  | %s\n", d.Name, d.VLAN.ID, d.VLAN.Lower)
		var egress strings.Builder
		for from, to := range d.VLAN.Egress {
			if to != 0 {
				fmt.Fprintf(&egress, "%d:%d ", from, to)
			}
		}
		f.text(dir+"/"+d.Name, fmt.Sprintf("%s  VID: %d  REORDER_HDR: 1  dev->priv_flags: 1021\nDevice: %s\n"+
			"INGRESS priority mappings: 0:0  1:0  2:0  3:0  4:0  5:0  6:0 7:0\n EGRESS priority mappings: %s\n",
			d.Name, d.VLAN.ID, d.VLAN.Lower, egress.String()))
	}
	if config.Len() > 0 {
		f.text(dir+"/config", "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"+config.String())
	}
}
