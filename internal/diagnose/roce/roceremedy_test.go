// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
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

// TestPFCRemedyKeepsWhatIsOn asserts that no remedy turns off PFC of another priority, and that one port that
// differs from all others is to be set up as they are.
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
			diagnosetest.Contains(t, diagnosetest.Describe(diagnose.Run(n, nil)), c.want...)
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
					t.Errorf("%d findings: %s", len(findings), diagnosetest.Describe(list))
				}
				if expected.Priority == nil {
					diagnosetest.Contains(t, diagnosetest.Describe(list), c.want...)
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

// A remedy names only tools that work with the driver of the port.
func TestRemediesNameToolsOfTheDriver(t *testing.T) {
	faults := map[string]struct {
		edit func(*fabric.Node, *fabric.QoS)
		want map[string]string // by driver
	}{
		"PFC off": {func(_ *fabric.Node, q *fabric.QoS) { q.PFC.Value.Enabled = 0 }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0 or dcb pfc set dev eth1 prio-pfc 3:on, and the same at the switch port.",
			"bnxt_en":   "dcb pfc set dev eth1 prio-pfc 3:on or niccli -dev 0000:18:00.0 pfc -enable 3, and the same at the switch port.",
			"ice":       "dcb pfc set dev eth1 prio-pfc 3:on, and the same at the switch port.",
		}},
		"PFC on": {func(n *fabric.Node, _ *fabric.QoS) { n.Policy.RoCE.Lossless = new(false) }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --pfc 0,0,0,0,0,0,0,0 or dcb pfc set dev eth1 prio-pfc all:off, and the same at the switch port.",
			"bnxt_en":   "dcb pfc set dev eth1 prio-pfc all:off or niccli -dev 0000:18:00.0 pfc -enable 0xFF, and the same at the switch port.",
			"ice":       "dcb pfc set dev eth1 prio-pfc all:off, and the same at the switch port.",
		}},
		"map": {func(_ *fabric.Node, q *fabric.QoS) { q.DSCPPriority.Value[26] = 1 }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --dscp2prio set,26,3 or dcb app replace dev eth1 dscp-prio 26:3",
			"bnxt_en":   "dcb app replace dev eth1 dscp-prio 26:3 or niccli -dev 0000:18:00.0 apptlv -add -app 3,5,26",
			"ice":       "dcb app replace dev eth1 dscp-prio 26:3",
		}},
		"trust": {func(_ *fabric.Node, q *fabric.QoS) { q.Trust.Value = fabric.TrustPCP }, map[string]string{
			"mlx5_core": "mlnx_qos -i eth1 --trust dscp, or correct expected.roce.",
			"bnxt_en":   "dcb app replace dev eth1 dscp-prio 26:3 or niccli -dev 0000:18:00.0 apptlv -add -app 3,5,26, or correct expected.roce.",
			"ice":       "dcb app replace dev eth1 dscp-prio 26:3, or correct expected.roce.",
		}},
		"trust without a policy": {func(n *fabric.Node, q *fabric.QoS) {
			q.Trust.Value, n.Policy.RoCE = fabric.TrustPCP, fabric.RoCEPolicy{}
		}, map[string]string{
			"mlx5_core": "Make the interface trust DSCP: mlnx_qos -i eth1 --trust dscp. Or use a VLAN, and NCCL_IB_SL.",
			"bnxt_en":   "Make the interface trust DSCP: dcb app replace dev eth1 dscp-prio 26:<lossless priority> or niccli -dev 0000:18:00.0 apptlv -add -app <lossless priority>,5,26. Or use a VLAN, and NCCL_IB_SL.",
			"ice":       "Make the interface trust DSCP: dcb app replace dev eth1 dscp-prio 26:<lossless priority>. Or use a VLAN, and NCCL_IB_SL.",
		}},
		"buffer": {func(_ *fabric.Node, q *fabric.QoS) { q.Buffers.Value.Bytes[1] = 0 }, map[string]string{
			"mlx5_core": "Give priority 3 a buffer: mlnx_qos -i eth1 --prio2buffer 0,0,0,1,0,0,0,0",
			"bnxt_en":   "Give priority 3 a buffer: dcb buffer set dev eth1", "ice": "Give priority 3 a buffer: dcb buffer set dev eth1",
		}},
		"ETS": {func(_ *fabric.Node, q *fabric.QoS) { q.ETS.Value.Algorithm[0] = fabric.TSAETS }, map[string]string{
			"mlx5_core": "Give its class a share: mlnx_qos -i eth1 --tcbw <eight shares> or dcb ets set",
			"bnxt_en":   "Give its class a share: dcb ets set dev eth1 tc-bw", "ice": "Give its class a share: dcb ets set dev eth1 tc-bw",
		}},
		"rate": {func(n *fabric.Node, _ *fabric.QoS) {
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			n.HCAs[1].Ports[0].Rate.Value.BytesPerSecond, n.NetDevs[1].Speed.Value = 25e9, 25e9
		}, map[string]string{
			"mlx5_core": "Check the speeds that both ends advertise (ethtool eth1, mlxlink -d mlx5_1 -m) and",
			"bnxt_en":   "Check the speeds that both ends advertise (ethtool eth1, ethtool -m eth1) and", "ice": "Check the speeds that both ends advertise (ethtool eth1, ethtool -m eth1) and",
		}},
	}
	changes := regexp.MustCompile(`mlnx_qos -i|dcb \w|niccli`) // such a command may interrupt what uses the port
	for name, f := range faults {
		for driver, want := range f.want {
			n := fabrictest.Lossless()
			for i := range n.HCAs {
				n.HCAs[i].Driver.Value, n.HCAs[i].PCI = driver, fabric.Known([]string{"0000:17:00.0", "0000:18:00.0"}[i], "device", n.At)
			}
			f.edit(n, &n.NetDevs[1].QoS)
			n.Derive()
			var got []string
			for _, v := range verdict.Failures(diagnose.Run(n, nil)) {
				if v.Subject.Device == "mlx5_1" {
					got = append(got, verdict.FilledRemedy(n, &v))
				}
			}
			const drain = "Drain the node first, and use no connection through the interface. "
			if len(got) != 1 || !strings.HasPrefix(strings.TrimPrefix(got[0], drain), want) || strings.HasPrefix(got[0], drain) != changes.MatchString(want) {
				t.Errorf("%s of %s: %q, expected %q", name, driver, got, want)
			}
		}
	}
}
