// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"net/netip"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// rocePort is a node with one RoCE port over eth0, and NCCL_IB_TC=106 for every job.
func rocePort() *fabric.Node {
	h := device("mlx5_0")
	h.NodeType, h.Driver, h.Restricted = known(fabric.NodeCA), known("mlx5_core"), known(false)
	p := &h.Ports[0]
	p.LinkLayer, p.NetDev, p.TrafficClass = known(fabric.LinkEthernet), known("eth0"), fabric.AbsentFact[fabric.TrafficClass]("tc", now)
	p.GIDs = fabric.GIDTable{Size: known(256), Entries: known([]fabric.GID{{Index: 3, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}})}
	n := nodeOf(h)
	n.NetDevs = []fabric.NetDev{netdev("eth0")}
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: known(true)}}
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_TC", Value: "106", Source: "/etc/nccl.conf:1", Number: 106, IsNumber: true}}
	return n
}

func netdev(name string) fabric.NetDev {
	q := fabric.QoS{
		PFC: known(fabric.PFC{Enabled: 1 << 3}), Pause: known(fabric.Pause{}), ETS: known(fabric.ETS{}), Apps: known([]fabric.App{}), DCBX: known(fabric.DCBX{Host: true}),
		Trust: known(fabric.TrustDSCP), DSCPPriority: known([fabric.NumDSCP]int{26: 3, 48: 6}), NP: known(fabric.PriorityMask(8)), RP: known(fabric.PriorityMask(8)), CNPDSCP: known(48),
		Buffers:    known(fabric.Buffers{OfPriority: [8]int{3: 1}, Bytes: [8]int{20_016, 156_096}}),
		Parameters: known([]fabric.CongestionParameter{{Name: "rp_ai_rate", Value: 5}}),
	}
	return fabric.NetDev{Name: name, MTU: known(9000), Lower: known([]string{}), Bond: known(false), DefaultRoute: known(false), Driver: known("mlx5_core"), QoS: q}
}

// roceSeries returns the series of a scrape whose names begin with roce.
func roceSeries(t *testing.T, n *fabric.Node) string {
	t.Helper()
	n.Derive()
	var b strings.Builder
	for line := range strings.Lines(scrape(t, n)) {
		if strings.HasPrefix(line, Prefix+"roce") {
			b.WriteString(strings.TrimPrefix(line, Prefix))
		}
	}
	return b.String()
}

func TestRoCE(t *testing.T) {
	const want = `roce_chain_consistent{device="mlx5_0",port="1"} 1
roce_cnp_dscp{device="mlx5_0",netdev="eth0",port="1"} 48
roce_configuration_info{buffers="76110cba",dcbx="host",device="mlx5_0",dscp_map="96dfed96",hash="HASH",mtu="9000",netdev="eth0",pfc="3",port="1",traffic_class_source="nccl"} 1
roce_congestion_control{device="mlx5_0",mode="none",port="1"} 0
roce_congestion_control{device="mlx5_0",mode="pfc",port="1"} 0
roce_congestion_control{device="mlx5_0",mode="ecn",port="1"} 0
roce_congestion_control{device="mlx5_0",mode="pfc_ecn",port="1"} 1
roce_congestion_control{device="mlx5_0",mode="unknown",port="1"} 0
roce_congestion_control_parameter{device="mlx5_0",netdev="eth0",parameter="rp_ai_rate",port="1"} 5
roce_dscp{device="mlx5_0",port="1"} 26
roce_ecn_enabled{device="mlx5_0",netdev="eth0",port="1",priority="3",role="notification"} 1
roce_ecn_enabled{device="mlx5_0",netdev="eth0",port="1",priority="3",role="reaction"} 1
roce_global_pause_enabled{device="mlx5_0",direction="receive",netdev="eth0",port="1"} 0
roce_global_pause_enabled{device="mlx5_0",direction="transmit",netdev="eth0",port="1"} 0
roce_lossless_buffer_bytes{device="mlx5_0",netdev="eth0",port="1"} 156096
roce_pfc_enabled{device="mlx5_0",netdev="eth0",port="1",priority="3"} 1
roce_priority{device="mlx5_0",port="1"} 3
roce_traffic_class{device="mlx5_0",port="1"} 106
roce_trust{device="mlx5_0",mode="pcp",netdev="eth0",port="1"} 0
roce_trust{device="mlx5_0",mode="dscp",netdev="eth0",port="1"} 1
`
	n := rocePort()
	got := roceSeries(t, n)
	if got != strings.Replace(want, "HASH", n.HCAs[0].Ports[0].RoCE.Value[0].Hash, 1) {
		t.Errorf("got\n%s", got)
	}
	if n := strings.Count(got, "\n") - 1; n > 20 {
		t.Errorf("%d series a port beside the parameters, the budget is 20", n)
	}
}

func TestRoCEOdds(t *testing.T) {
	for _, c := range []struct {
		name        string
		edit        func(n *fabric.Node)
		want, lacks []string
	}{
		{"broken", func(n *fabric.Node) { n.NetDevs[0].QoS.PFC.Value.Enabled = 1 << 4 }, []string{
			`roce_chain_consistent{device="mlx5_0",port="1"} 0`, `roce_chain_broken{device="mlx5_0",port="1",step="pfc"} 1`,
			`priority="3"} 0`, `priority="4"} 1`, `mode="ecn",port="1"} 1`,
		}, []string{"chain_unknown", "lossless_buffer"}},
		{"unknown", func(n *fabric.Node) { n.NCCL.Variables = nil }, []string{
			`roce_chain_unknown{device="mlx5_0",port="1",reason="not_read",step="traffic_class"} 1`, `traffic_class_source="job"`, `mode="unknown",port="1"} 1`,
		}, []string{"chain_consistent", "chain_broken", "roce_dscp", "roce_priority", "roce_ecn_enabled"}},
		{"expected of jobs", func(n *fabric.Node) {
			n.NCCL.Variables, n.Policy.RoCE.DSCP = nil, new(26)
		}, []string{`step="traffic_class"} 1`, `roce_priority{device="mlx5_0",port="1"} 3`, `mode="pfc_ecn",port="1"} 1`}, []string{"roce_dscp", "roce_traffic_class"}},
		{"bond", func(n *fabric.Node) {
			bond := netdev("bond0")
			bond.Lower, bond.Bond, bond.QoS = known([]string{"eth0", "eth1"}), known(true), fabric.QoS{}
			n.NetDevs = append(n.NetDevs, netdev("eth1"), bond)
			n.HCAs[0].Ports[0].NetDev, n.NetDevs[1].QoS.Trust.Value = known("bond0"), fabric.TrustPCP
		}, []string{
			`roce_chain_consistent{device="mlx5_0",port="1"} 0`, `netdev="eth0",pfc="3",port="1",traffic_class_source="nccl"} 1`, `netdev="eth1",pfc="3",port="1",traffic_class_source="nccl"} 1`,
			`roce_trust{device="mlx5_0",mode="pcp",netdev="eth1",port="1"} 1`,
		}, []string{`netdev="bond0"`}},
		{"firmware has the word", func(n *fabric.Node) { n.NetDevs[0].QoS.DCBX.Value.Host = false }, []string{`dcbx="firmware"`}, nil},
		{"InfiniBand", func(n *fabric.Node) { n.HCAs[0].Ports[0].LinkLayer = known(fabric.LinkInfiniBand) }, nil, []string{"roce"}},
		{"nothing known", func(n *fabric.Node) {
			n.HCAs[0] = device("mlx5_0")
		}, nil, []string{"roce"}},
		{"no interface", func(n *fabric.Node) { n.NetDevs = nil }, []string{`step="priority"} 1`}, []string{"roce_trust", "roce_configuration_info"}},
	} {
		n := rocePort()
		c.edit(n)
		got := roceSeries(t, n)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: lacks %s in\n%s", c.name, w, got)
			}
		}
		for _, l := range c.lacks {
			if strings.Contains(got, l) {
				t.Errorf("%s: has %s in\n%s", c.name, l, got)
			}
		}
	}
}

func TestRoCESupported(t *testing.T) {
	n := rocePort()
	n.Derive()
	if ok, why := hasRoCE(n); !ok {
		t.Error(why)
	}
	n.HCAs[0].Ports[0].LinkLayer = known(fabric.LinkInfiniBand)
	n.Derive()
	if ok, why := hasRoCE(n); ok || why == "" {
		t.Error("RoCE on InfiniBand")
	}
}
