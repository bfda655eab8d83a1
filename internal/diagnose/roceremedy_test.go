// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// alike has that many ports that are set up alike, of which nothing is expected.
func alike(count int) *fabric.Node {
	n := fabrictest.Lossless()
	n.Policy.RoCE = fabric.RoCEPolicy{}
	for i := len(n.HCAs); i < count; i++ {
		d, h := n.NetDevs[0], n.HCAs[0]
		d.Name, h.Name = "eth"+string(rune('0'+i)), "mlx5_"+string(rune('0'+i))
		h.Ports = slices.Clone(h.Ports)
		p := &h.Ports[0]
		p.NetDev.Value, p.GIDs.Entries.Value = d.Name, slices.Clone(p.GIDs.Entries.Value)
		for g := range p.GIDs.Entries.Value {
			p.GIDs.Entries.Value[g].NetDev = d.Name
		}
		n.HCAs, n.NetDevs = append(n.HCAs, h), append(n.NetDevs, d)
	}
	return n
}

// TestPFCRemedyKeepsWhatIsOn asserts that no remedy turns off PFC of another priority, and that one port that differs from all others is
// to be set up as they are.
func TestPFCRemedyKeepsWhatIsOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		ports int
		edit  func(n *fabric.Node, q *fabric.QoS)
		want  []string
	}{
		{"another map than the others", 3, func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26] = 1 }, []string{
			"mlx5_1: ", "On the other compute ports DSCP 26 goes to priority 3, which is lossless: mlnx_qos -i <interface> --dscp2prio set,26,3 or dcb",
		}},
		{"PFC for less than the others", 3, func(_ *fabric.Node, q *fabric.QoS) { q.PFC.Value.Enabled = 1 << 5 }, []string{
			"mlx5_1: ", "The other compute ports have PFC on for priority 3: mlnx_qos -i <interface> --pfc 0,0,0,1,0,1,0,0 or dcb pfc set dev <interface> prio-pfc 3:on,",
		}},
		{"one other port decides nothing", 2, func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26] = 1 }, []string{
			"mlx5_1: ", "Set NCCL_IB_TC so that", "--pfc 0,1,0,1,0,0,0,0",
		}},
		{"expected", 3, func(n *fabric.Node, q *fabric.QoS) {
			n.Policy.RoCE, q.PFC.Value.Enabled = fabric.RoCEPolicy{Priority: new(3)}, 1|1<<5
		}, []string{
			"mlx5_1: ", "--pfc 1,0,0,1,0,1,0,0",
		}},
		{"lossy by design", 3, func(n *fabric.Node, _ *fabric.QoS) {
			n.Policy.RoCE.Lossless = new(false)
			for i := range n.NetDevs {
				n.NetDevs[i].QoS.PFC.Value.Enabled = 1<<3 | 1<<5
			}
		}, []string{"--pfc 0,0,0,0,0,1,0,0 or dcb pfc set dev <interface> prio-pfc 3:off,"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := alike(c.ports)
			c.edit(n, &n.NetDevs[1].QoS)
			n.Derive()
			contains(t, describe(diagnose.Run(n, nil)), c.want...)
		})
	}
}

// inVLAN has ports that take the priority from the VLAN tag and have an IPv6 address in a VLAN;
// first is an address of the interface below it, if any.
func inVLAN(first netip.Addr, variables ...fabric.NCCLVariable) *fabric.Node {
	n := fabrictest.Lossless()
	n.Policy.RoCE = fabric.RoCEPolicy{}
	n.NCCL.Variables = variables
	for i := range n.HCAs {
		n.NetDevs[i].QoS.Trust.Value = fabric.TrustPCP
		p := &n.HCAs[i].Ports[0]
		below := p.NetDev.Value
		list := p.GIDs.Entries.Value[:2]
		add := func(a netip.Addr, netdev string) {
			list = append(list, fabric.GID{Index: len(list), Addr: a, Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6, NetDev: netdev})
		}
		if first.IsValid() && i == 1 {
			add(first, below)
		}
		add(netip.MustParseAddr("fd00:100::"+strconv.Itoa(i+1)), below+".100")
		p.GIDs.Entries.Value = list
		n.NetDevs = append(n.NetDevs, fabric.NetDev{
			Name: below + ".100", Lower: fabric.Known([]string{below}, "lower_*", n.At), Bond: fabric.Known(false, "bonding", n.At),
			Speed: n.NetDevs[i].Speed, MTU: n.NetDevs[i].MTU, Upper: n.NetDevs[i].Upper, DefaultRoute: n.NetDevs[i].DefaultRoute,
		})
	}
	return n
}

func TestPriorityFromTheTag(t *testing.T) {
	v6 := fabric.NCCLVariable{Name: "NCCL_IB_ADDR_FAMILY", Value: "AF_INET6", Source: "/etc/nccl.conf:1"}
	level := func(n int64) fabric.NCCLVariable {
		return fabric.NCCLVariable{Name: "NCCL_IB_SL", Value: string(rune('0' + n)), Number: n, IsNumber: true, Source: "/etc/nccl.conf:2"}
	}
	for _, c := range []struct {
		name string
		node *fabric.Node
		want []string // of the first step; none: nothing
	}{
		{"as it should be", inVLAN(netip.Addr{}, v6, level(3)), nil},
		{"another service level", inVLAN(netip.Addr{}, v6, level(4)), []string{"RoCE uses priority 4", "Set NCCL_IB_SL=3."}},
		{"jobs may set the service level", inVLAN(netip.Addr{}, v6), nil},
		{"an untagged address first", inVLAN(netip.MustParseAddr("fd00:1::1"), v6, level(3)), []string{
			"mlx5_1: ", "Entry 2, which NCCL takes, is untagged (eth1); entry 3 is in a VLAN: remove that address, or set NCCL_IB_ADDR_RANGE",
		}},
		{"IPv4 is looked for", inVLAN(netip.Addr{}), []string{"NCCL would not use a RoCE v2 address", "NCCL_IB_ADDR_FAMILY=AF_INET6, and NCCL_IB_SL"}},
	} {
		for name, expected := range map[string]fabric.RoCEPolicy{"nothing expected": {}, "expected": {Priority: new(3), Lossless: new(true)}} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				c.node.Policy.RoCE = expected
				c.node.Derive()
				list := diagnose.Run(c.node, nil)
				findings := verdict.Findings(list)
				if (len(findings) > 0) != (c.want != nil) || len(findings) > 1 && expected.Priority == nil {
					t.Errorf("%d findings: %s", len(findings), describe(list))
				}
				if expected.Priority == nil {
					contains(t, describe(list), c.want...)
				}
				for _, v := range list {
					if v.Check.ID == "roce_dscp" && v.Status != fabric.StatusOK {
						t.Errorf("roce_dscp is %v, though no DSCP is expected: %s", v.Status, v.Evidence)
					}
				}
			})
		}
	}
}
