// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// layoutAndAnswers is a node laid out, with what its drivers would answer as if that were files.
func layoutAndAnswers(n *Node) files {
	f := n.layout()
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		q, dir := &d.QoS, "ethernet/"+d.Name
		for name, v := range map[string]any{
			"dcb/there": q.DCB, "dcb/pfc": []any{q.PFC, q.Delay}, "dcb/ets": q.ETS, "dcb/apps": q.Apps, "dcb/buffers": q.Buffers, "dcb/dcbx": q.DCBX,
			"pause": q.Pause, "fec": q.FEC, "carrier": d.Carrier, "refuses": d.StatsErr,
		} {
			f.text(dir+"/"+name, fmt.Sprint(v))
		}
		for _, s := range d.shown() {
			f.text(dir+"/stats/"+s.Name, strconv.FormatUint(s.value(), 10))
		}
	}
	f.answersOfNVML(n)
	return f
}

// TestStatisticsOfDrivers counts the statistics of one interface of each driver, and looks for names that say how
// the driver counts by priority.
func TestStatisticsOfDrivers(t *testing.T) {
	for netdev, want := range map[string]struct {
		platform string
		names    int
		some     string
	}{
		"enp24s0np0":    {h100, 132, "rx_prio3_pause_duration tx_prio3_bytes tx_vport_rdma_unicast_bytes rx_prio7_marked"},
		"enp231s0f0np0": {h100, 132, "rx_global_pause_duration tx_global_pause"},
		"enp97s0":       {"two-port", 43, "rx_pause_duration tx_prio_3_bytes"},
		"ens1np0":       {"bnxt-roce", 103, "tx_pfc_ena_frames_pri3 pfc_pri3_rx_duration_us rx_bytes_pri3"},
		"enp138s0f0":    {"irdma-roce", 50, "tx_priority_3_xoff.nic rx_priority_3_xon.nic"},
		"enp9s0":        {"ionic-roce", 51, "frames_tx_pri_3 rx_pripause_3_1us_count"},
		"enp24s0v0":     {"sriov-vf", 127, "rx_prio3_bytes"},
		"ens32":         {"efa", 10, "bw_in_allowance_exceeded"},
		"enP30832p0s0":  {"mana", 7, "stop_queue hc_rx_discards_no_wqe"},
		"bond0":         {h100, 0, ""},
		"ibp12s0":       {a100, 0, ""},
		"ens5np0.180":   {"roce-vlan", 0, ""},
	} {
		n := healthyNode(want.platform)
		shown := n.NetDev(netdev).shown()
		unique(t, netdev+" statistic", n.NetDev(netdev).Stats, func(s Statistic) string { return s.Name })
		if len(shown) != want.names {
			t.Errorf("%s: %d statistics, want %d", netdev, len(shown), want.names)
		}
		for name := range strings.FieldsSeq(want.some) {
			if !slices.ContainsFunc(shown, func(s Statistic) bool { return s.Name == name }) {
				t.Errorf("%s: no %s", netdev, name)
			}
		}
		for _, s := range shown {
			if strings.ContainsAny(s.Name, "%/!") || len(s.Name) > 31 { // ETH_GSTRING_LEN
				t.Errorf("%s: name %q", netdev, s.Name)
			}
		}
	}
}

// TestPauseStatisticsFollowTheConfiguration: mlx5 names what is counted of flow control that is on, and nothing else.
func TestPauseStatisticsFollowTheConfiguration(t *testing.T) {
	n := healthyNode(h100)
	d := n.NetDev("enp24s0np0")
	pause := regexp.MustCompile(`_pause(_duration|_transition)?$`)
	for _, test := range []struct {
		pfc    fabric.PriorityMask
		global bool
		want   string // of the names, once each
	}{
		{1 << 3, false, "prio3"}, {1<<3 | 1<<4, false, "prio3 prio4"}, {0, true, "global"}, {0, false, ""},
	} {
		d.QoS.SetPFC(test.pfc)
		d.QoS.Pause.Transmit = test.global
		var names []string
		for _, s := range d.shown() {
			if pause.MatchString(s.Name) {
				names = append(names, strings.Split(s.Name, "_")[1])
			}
		}
		if len(names) != 5*len(strings.Fields(test.want)) || strings.Join(slices.Compact(names), " ") != test.want {
			t.Errorf("PFC on %s, global pause %t: names of %v", test.pfc, test.global, names)
		}
	}
}

// TestPrioritiesAddUp compares the bytes of the priorities with those of the port and of RDMA, on every scenario.
func TestPrioritiesAddUp(t *testing.T) {
	for _, s := range Scenarios() {
		n := built(t, s)
		before, after := n, n.at(600)
		for i := range n.NetDevs {
			d := &after.NetDevs[i]
			rate := func(name string) float64 {
				return float64(d.Statistic(name).value() - before.NetDevs[i].Statistic(name).value())
			}
			if d.Statistic("tx_prio0_bytes") == nil || d.Statistic("tx_prio0_bytes").value() == 0 && d.Statistic("tx_vport_rdma_unicast_bytes").value() > 0 {
				continue // of another driver, or a virtual function
			}
			for _, way := range []string{"rx", "tx"} {
				for _, unit := range []string{"bytes", "packets"} {
					sum := 0.0
					for p := range fabric.NumPriorities {
						sum += rate(fmt.Sprintf("%s_prio%d_%s", way, p, unit))
					}
					port, rdma := rate(way+"_"+unit+"_phy"), rate(way+"_vport_rdma_unicast_"+unit)
					if sum < 0.99*port || sum > 1.01*port+40_000*600 || sum < rdma { // notifications are in the sum only
						t.Errorf("%s: %s: %s %s of all priorities %.0f, of the port %.0f, of RDMA %.0f", s.Name, d.Name, way, unit, sum, port, rdma)
					}
				}
			}
		}
	}
}

// TestPortsAndInterfacesAgree compares what RDMA devices count with what their interfaces do.
func TestPortsAndInterfacesAgree(t *testing.T) {
	for _, s := range Scenarios() {
		n := built(t, s)
		for _, h := range n.HCAs {
			p := h.Port(1)
			if p.LinkLayer != Ethernet || p.Statistic("port_xmit_data") == nil {
				continue
			}
			for statistic, counter := range map[string]Counter{
				"tx_vport_rdma_unicast_packets": p.Statistic("port_xmit_packets").Counter,
				"rx_vport_rdma_unicast_bytes":   p.Statistic("port_rcv_data").times(4),
			} {
				var sum Counter
				if s.Name == "interfaces-in-pod" { // whose statistics the host does not see
					continue
				}
				for _, d := range n.members(h.Name) {
					if s := d.Statistic(statistic); s != nil {
						sum = sum.plus(s.Counter)
					}
				}
				if diff := int64(counter.PerStep - sum.PerStep); len(h.Ports) == 1 && (diff < -8*bytesPerPacket || diff > 8*bytesPerPacket) {
					t.Errorf("%s: %s counts %d, its interfaces %s %d", s.Name, h.Name, counter.PerStep, statistic, sum.PerStep)
				}
			}
		}
	}
}

func TestTrustAndMap(t *testing.T) {
	q := mlx5Lossless(WithOFED)
	if table := q.DSCPPriority(); len(q.Apps) != 64 || q.Trust() != fabric.TrustDSCP || table[26] != 3 || table[48] != 6 {
		t.Errorf("%d entries, trust %s, map %v", len(q.Apps), q.Trust(), table)
	}
	q.MapDSCP(26, 2)
	if table := q.DSCPPriority(); table[26] != 2 || table[27] != 3 {
		t.Errorf("map %v", table)
	}
	q.TrustPCP()
	if table := q.DSCPPriority(); q.Trust() != fabric.TrustPCP || len(q.Apps) != 0 || table[26] != 3 {
		t.Errorf("%d entries, trust %s, map %v", len(q.Apps), q.Trust(), table)
	}
}

// TestOFEDFiles compares what MLNX_OFED prints.
func TestOFEDFiles(t *testing.T) {
	for _, test := range []struct {
		platform string
		want     map[string]string
	}{
		{h100, map[string]string{
			"sys/class/net/enp24s0np0/qos/trust":                         "absent",
			"sys/class/net/enp24s0np0/qos/tc_num":                        "8\n",
			"sys/class/net/enp24s0np0/qos/maxrate":                       "0 0 0 0 0 0 0 0 \n",
			"sys/class/net/enp24s0np0/qos/prio2buffer":                   "Priority\tBuffer\n0\t\t0\n1\t\t0\n2\t\t0\n3\t\t1\n4\t\t0\n5\t\t0\n6\t\t0\n7\t\t0\n",
			"sys/class/net/enp24s0np0/ecn/roce_np/enable/3":              "1\n",
			"sys/class/net/enp24s0np0/ecn/roce_np/cnp_dscp":              "48\n",
			"sys/class/net/enp24s0np0/ecn/roce_np/cnp_802p_prio":         "6\n",
			"sys/class/net/enp24s0np0/ecn/roce_np/min_time_between_cnps": "4\n",
			"sys/class/net/enp24s0np0/ecn/roce_rp/enable/7":              "1\n",
			"sys/class/net/enp24s0np0/ecn/roce_rp/rpg_ai_rate":           "5\n",
			"sys/class/net/enp231s0f0np0/qos/tc_num":                     "0\n",
			"sys/class/net/bond0/qos/tc_num":                             "absent",
			"sys/class/infiniband/mlx5_0/tc/1/traffic_class":             "",
		}},
		{"roce-vlan", map[string]string{
			"sys/class/net/ens5np0/qos/trust":               "pcp\n",
			"sys/class/net/ens5np0.180/qos/trust":           "absent",
			"sys/class/net/ens5np0.180/lower_ens5np0/mtu":   "9000\n",
			"sys/class/net/ens5np0/upper_ens5np0.180/flags": "0x1003\n",
		}},
		{"sriov-vf", map[string]string{
			"sys/class/net/enp24s0np0/ecn/roce_np/cnp_dscp":  "absent",
			"sys/class/infiniband/mlx5_0/tc/1/traffic_class": "absent",
		}},
		{a100, map[string]string{"sys/class/infiniband/mlx5_0/tc/1/traffic_class": ""}},
	} {
		f := healthyNode(test.platform).layout()
		for name, want := range test.want {
			e, ok := f[f.resolve(name)]
			if got := e.text; ok == (want == "absent") || (ok && got != want) {
				t.Errorf("%s: %q, %t", name, got, ok)
			}
		}
	}
	f := healthyNode("roce-vlan").layout()
	table := f[f.resolve("sys/class/net/ens6np0/qos/dscp2prio")].text
	if lines := strings.Split(table, "\n"); len(lines) != 66 || lines[0] != "dscp\tprio" || lines[27] != "26\t3" {
		t.Errorf("dscp2prio %q", table)
	}
	if vlan := f["proc/net/vlan/ens6np0.180"].text; !strings.Contains(vlan, " 3:3 ") || !strings.Contains(f["proc/net/vlan/config"].text, "ens6np0.180    | 180  | ens6np0\n") {
		t.Errorf("VLAN %q", vlan)
	}
}

// TestVLANs: an interface shares the link, the GID table and the fate of the one below it.
func TestVLANs(t *testing.T) {
	n := healthyNode("roce-vlan")
	n.LinkDown("mlx5_1")
	if n.NetDev("ens6np0.180").Carrier || !n.NetDev("ens5np0.180").Carrier {
		t.Error("the link of VLANs")
	}
	n.SetAddrs("ens6np0", netip.MustParsePrefix("192.0.2.1/24"))
	if gids := n.HCA("mlx5_1").Port(1).GIDs; len(gids) != 6 || gids[3].NetDev != "ens6np0" || gids[5].NetDev != "ens6np0.180" || gids[5].Index != 5 {
		t.Errorf("with an address below the VLAN: %v", gids)
	}
	n.Unplug("mlx5_0")
	if err := n.check(); err != nil || n.NetDev("ens5np0.180") != nil || n.NetDev("ens6np0.180") == nil {
		t.Errorf("interfaces %v, %v", n.NetDevs, err)
	}
}

// resolve follows links of the layout.
func (f files) resolve(name string) string {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if e := f[at]; e.kind == link && e.text != "" {
			at = f.resolve(path.Join(path.Dir(at), e.text))
		}
	}
	return at
}
