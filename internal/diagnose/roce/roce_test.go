// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"slices"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

func TestRoCETroubles(t *testing.T) {
	tc := func(n *fabric.Node, v int64) { n.NCCL.Variables[0].Value, n.NCCL.Variables[0].Number = "?", v }
	v1 := func(n *fabric.Node) {
		n.NCCL.Variables = slices.Insert(n.NCCL.Variables, 0, fabric.NCCLVariable{Name: "NCCL_IB_ROCE_VERSION_NUM", Value: "1", Number: 1, IsNumber: true, Source: "/etc/nccl.conf:2"})
	}
	tests := []struct {
		name string
		edit func(n *fabric.Node, q *fabric.QoS)
		want []string // none: nothing
	}{
		{"healthy", func(*fabric.Node, *fabric.QoS) {}, nil},
		{"jobs may set it", func(n *fabric.Node, _ *fabric.QoS) { n.NCCL.Variables = nil }, nil},
		{"traffic class", func(n *fabric.Node, _ *fabric.QoS) { tc(n, 5) }, []string{
			"mlx5_0, mlx5_1: RoCE packets do not carry the DSCP that the site expects. Traffic class 5 is DSCP 1; the site expects DSCP 26.", "Set NCCL_IB_TC=106",
		}},
		{"override", func(n *fabric.Node, _ *fabric.QoS) {
			n.HCAs[1].Ports[0].TrafficClass = fabric.Known(fabric.TrafficClass{Global: 96}, "tc/1/traffic_class", n.At)
		}, []string{"mlx5_1: RoCE packets", "DSCP 24", "echo 106 > /sys/class/infiniband/<device>/tc/<port>/traffic_class"}},
		{"trust", func(_ *fabric.Node, q *fabric.QoS) { q.Trust.Value = fabric.TrustPCP }, []string{
			"mlx5_1: RoCE packets do not have the priority that the site expects.", "trusts the VLAN tag", "--trust dscp",
		}},
		{"trust without a policy", func(n *fabric.Node, q *fabric.QoS) {
			q.Trust.Value, n.Policy.RoCE = fabric.TrustPCP, fabric.RoCEPolicy{}
		}, []string{
			"mlx5_1: PFC does not match the RoCE configuration. PFC is on for priority 3, but RoCE uses priority 0.", "--trust dscp",
		}},
		{"map", func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26] = 1 }, []string{"DSCP 26 goes to priority 1; the site expects priority 3.", "--dscp2prio set,26,3 or dcb app replace dev <interface> dscp-prio 26:3"}},
		{"PFC off", func(_ *fabric.Node, q *fabric.QoS) { q.PFC.Value.Enabled = 0 }, []string{
			"mlx5_1: PFC does not match the RoCE configuration. PFC is off for all priorities; the site expects RoCE to be lossless.",
			"mlnx_qos -i <interface> --pfc 0,0,0,1,0,0,0,0 or dcb pfc set dev <interface> prio-pfc 3:on, and the same at the switch port.",
		}},
		{"PFC on", func(n *fabric.Node, _ *fabric.QoS) { n.Policy.RoCE.Lossless = new(false) }, []string{"mlx5_0, mlx5_1: ", "lossy by design", "--pfc 0,0,0,0,0,0,0,0"}},
		{"PFC elsewhere", func(n *fabric.Node, q *fabric.QoS) { q.PFC.Value.Enabled, n.Policy.RoCE = 1<<4, fabric.RoCEPolicy{} }, []string{
			"PFC is on for priority 4, but RoCE uses priority 3.", "Set NCCL_IB_TC so that its DSCP maps to the lossless priority, or make its priority lossless: mlnx_qos -i <interface> --pfc 0,0,0,1,1,0,0,0",
		}},
		{"802.3x", func(_ *fabric.Node, q *fabric.QoS) { q.Pause.Value.Receive = true }, []string{"802.3x flow control is on together with PFC.", "ethtool -A <interface>"}},
		{"buffer", func(_ *fabric.Node, q *fabric.QoS) { q.Buffers.Value.Bytes[1] = 0 }, []string{"receive buffer 1 has 0 bytes", "--prio2buffer 0,0,0,1,0,0,0,0"}},
		{"ETS", func(_ *fabric.Node, q *fabric.QoS) { q.ETS.Value.Algorithm[0] = fabric.TSAETS }, []string{"no share of the bandwidth", "--tcbw"}},
		{"ECN", func(_ *fabric.Node, q *fabric.QoS) { q.RP.Value = 0 }, []string{"do not slow down", "echo 1 > /sys/class/net/<interface>/ecn/roce_np/enable/3"}},
		{"notifications", func(_ *fabric.Node, q *fabric.QoS) { q.CNPDSCP.Value = 26 }, []string{"Congestion notifications queue behind the data.", "cnp_dscp"}},
		{"RoCE v1 on purpose", func(n *fabric.Node, _ *fabric.QoS) {
			n.Policy.RoCE = fabric.RoCEPolicy{Priority: new(3)}
			v1(n)
		}, []string{"RoCE v1 has no DSCP, and packets are untagged: priority 0; the site expects priority 3", "set NCCL_IB_SL"}},
		{"RoCE v1 for DSCP", func(n *fabric.Node, _ *fabric.QoS) { v1(n) }, []string{"whose packets have no DSCP", "Check that NCCL finds a RoCE v2 address, and"}},
		{"two at once", func(_ *fabric.Node, q *fabric.QoS) { q.Pause.Value.Transmit, q.NP.Value = true, 0 }, []string{"802.3x", "do not notify"}},
		{"traffic class, and the map", func(n *fabric.Node, q *fabric.QoS) { tc(n, 5); q.DSCPPriority.Value[26] = 1 }, []string{
			"Traffic class 5 is DSCP 1; the site expects DSCP 26.", "mlx5_1: RoCE packets do not have the priority that the site expects. DSCP 26 goes to priority 1; the site expects priority 3.",
			"--dscp2prio set,26,3",
		}},
		{"traffic class, and PFC", func(n *fabric.Node, q *fabric.QoS) { tc(n, 5); q.PFC.Value.Enabled = 0 }, []string{
			"Traffic class 5 is DSCP 1", "mlx5_1: PFC does not match the RoCE configuration. PFC is off for all priorities", "--pfc 0,0,0,1,0,0,0,0",
		}},
		{"map, and ECN", func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26], q.RP.Value = 1, 0 }, []string{
			"DSCP 26 goes to priority 1; the site expects priority 3.", "mlx5_1: Congestion control of RoCE is misconfigured. Queue pairs of priority 3 do not slow down",
		}},
		{"bond", func(n *fabric.Node, q *fabric.QoS) {
			q.PFC.Value.Enabled = 0
			bond := fabric.NetDev{Name: "bond0", Bond: fabric.Known(true, "bonding", n.At), Lower: fabric.Known([]string{"eth0", "eth1"}, "lower_*", n.At)}
			n.NetDevs = append(n.NetDevs, bond)
			n.HCAs[0].Ports[0].NetDev.Value = "bond0"
			for i := range n.HCAs[0].Ports[0].GIDs.Entries.Value {
				n.HCAs[0].Ports[0].GIDs.Entries.Value[i].NetDev = "bond0"
			}
			n.HCAs = n.HCAs[:1]
		}, []string{"mlx5_0: PFC does not match the RoCE configuration. eth1: PFC is off"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.Lossless()
			test.edit(n, &n.NetDevs[1].QoS)
			n.Derive()
			got := diagnosetest.Describe(diagnose.Run(n, nil))
			diagnosetest.Contains(t, got, test.want...)
			if (got == "") != (test.want == nil) {
				t.Errorf("got %q", got)
			}
			if u := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); u != "" {
				t.Errorf("not checked: %q", u)
			}
		})
	}
}

func TestRoCEUnchecked(t *testing.T) {
	n := fabrictest.Lossless()
	n.NetDevs[1].QoS.PFC = fabric.UnknownFact[fabric.PFC](fabric.ReasonPrivilege, "DCB PFC", n.At)
	n.Derive()
	const want = "mlx5_1: Could not be checked: roce_pfc. For which priorities PFC is on is not known.\n" +
		"mlx5_1: Could not be checked: roce_buffer, roce_cnp. Whether the priority is lossless is not known.\n"
	if got := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); got != want {
		t.Errorf("got %q", got)
	}
	n.NetDevs[1].QoS.PFC.Reason = fabric.ReasonUnsupported
	n.Derive()
	if got := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); got != "" {
		t.Errorf("a driver without DCB: %q", got)
	}
}

// TestWrongGIDIsOneFinding asserts that a port without a RoCE v2 address fails for that alone: that its
// packets have no DSCP and another priority follows.
func TestWrongGIDIsOneFinding(t *testing.T) {
	for name, expected := range map[string]fabric.RoCEPolicy{
		"nothing expected": {}, "priority": {Priority: new(3)}, "DSCP": {DSCP: new(26)}, "all": {DSCP: new(26), Priority: new(3), Lossless: new(true)},
	} {
		t.Run(name, func(t *testing.T) {
			n := fabrictest.Lossless()
			n.Policy.RoCE = expected
			n.HCAs[1].Ports[0].GIDs.Entries.Value = n.HCAs[1].Ports[0].GIDs.Entries.Value[:3]
			n.Derive()
			var got []string
			for _, v := range verdict.Failures(diagnose.Run(n, nil)) {
				got = append(got, v.Check.ID+" "+v.Subject.Device)
			}
			if want := []string{"gid_usable mlx5_1"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
