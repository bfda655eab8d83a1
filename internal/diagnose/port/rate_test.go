// SPDX-License-Identifier: Apache-2.0

package port_test

import (
	"regexp"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// fourPorts is a node with four InfiniBand ports of one board.
func fourPorts() *fabric.Node {
	n := fabrictest.Healthy()
	n.HCAs = append(n.HCAs, fabrictest.Healthy().HCAs...)
	for i := range n.HCAs {
		n.HCAs[i].Name = "mlx5_" + string(rune('0'+i))
		n.HCAs[i].Ports[0].LinkLayer.Value = fabric.LinkInfiniBand
	}
	return n
}

func halve(n *fabric.Node, devices ...int) {
	for _, i := range devices {
		n.HCAs[i].Ports[0].Rate.Value = fabric.Rate{BytesPerSecond: 25e9, Lanes: 2, Generation: "NDR"}
	}
}

// One of four ports at half width is slow, and half of them leave open which rate is right: half of the rails
// of a node may have lost lanes.
func TestSlowPorts(t *testing.T) {
	judge := func(n *fabric.Node) []verdict.Verdict {
		n.Derive()
		return diagnosetest.Ask(n, verdict.CheckPortRate)
	}
	n := fourPorts()
	halve(n, 1)
	diagnosetest.Contains(t, diagnosetest.Describe(judge(n)), "mlx5_1: The port runs at 200 Gb/s, but 400 Gb/s is expected.", "Its link has 2 of 4 lanes (2X NDR).", "Every collective waits")

	n = fourPorts()
	halve(n, 1, 2)
	list := judge(n)
	if len(verdict.Failures(list)) != 2 {
		t.Errorf("two of four, which had their rate: %+v", list)
	}
	for i := range n.HCAs {
		n.HCAs[i].Ports[0].Seen = fabric.PortHistory{}
	}
	list = judge(n)
	if u := verdict.Unknowns(list); len(u) != 2 || len(verdict.Failures(list)) != 0 {
		t.Errorf("two of four, and nothing states the rate: %+v", list)
	}
	diagnosetest.Contains(t, diagnosetest.Gaps(verdict.Unchecked(list)), "Other ports of its role and board run faster.")

	n = fourPorts()
	halve(n, 0, 1, 2, 3)
	n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
	diagnosetest.Contains(t, diagnosetest.Describe(judge(n)), "The configuration expects it. Its link is 2X NDR.")

	n = fourPorts()
	halve(n, 1)
	n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("."), Role: fabric.RoleStorage}}
	diagnosetest.Contains(t, diagnosetest.Describe(judge(n)), "The storage behind the port is slower.")
}

// A port that has a link and is not active waits for the subnet manager, which it cannot ask itself. A fault
// of all ports is one.
func TestPortsWithoutSubnetManager(t *testing.T) {
	wait := func(n *fabric.Node, s fabric.PortState, devices ...int) string {
		for _, i := range devices {
			n.HCAs[i].Ports[0].State.Value = s
		}
		n.Derive()
		return diagnosetest.Describe(diagnosetest.Ask(n, verdict.CheckPortActive))
	}
	diagnosetest.Contains(t, wait(fourPorts(), fabric.PortInit, 0), "no subnet manager has configured the port", "(sminfo -C mlx5_1 -P 1)")
	diagnosetest.Contains(t, wait(fourPorts(), fabric.PortArmed, 0), "A subnet manager has configured the port, but not activated it")
	diagnosetest.Contains(t, wait(fourPorts(), fabric.PortInit, 0, 1, 2, 3), "mlx5_0, mlx5_1, mlx5_2, mlx5_3: ", "no subnet manager has configured a port of the node")
}

// bonds is a node with two ports that are bonds of two members of 200 Gb/s each, as on the nodes of
// internal/simulator/platforms_shapes.go.
func bonds() *fabric.Node {
	n := fabrictest.Healthy()
	var all []fabric.Interface
	for i := range n.NetDevs {
		d, p := &n.NetDevs[i], &n.HCAs[i].Ports[0]
		members := []string{d.Name + "a", d.Name + "b"}
		p.Rate.Value.BytesPerSecond, p.Seen.Rate = 25e9, 25e9
		d.Bond, d.Lower = fabric.Known(true, "bonding", n.At), fabric.Known(members, "lower", n.At)
		for _, m := range members {
			all = append(all, fabric.Interface{Name: m, OperState: fabric.Known("up", "operstate", n.At)})
		}
	}
	n.Interfaces = fabric.Known(all, "class/net", n.At)
	return n
}

// A bond of two members that lost one is half as fast, and its port reports the rate of the other one.
func TestShortBond(t *testing.T) {
	for _, c := range []struct {
		name   string
		speeds [2]float64
		down   []int // members, the third and the fourth are those of the second bond
		want   string
	}{
		{"healthy", [2]float64{50e9, 50e9}, nil, ""},
		{"a member without carrier", [2]float64{50e9, 25e9}, []int{3}, "mlx5_1: The bond runs at 200 Gb/s, but other bonds of the node at 400 Gb/s. Members of eth1 without carrier: eth1b."},
		{"active-backup, whose backup is down", [2]float64{25e9, 25e9}, []int{3}, ""},
		{"one member everywhere", [2]float64{25e9, 25e9}, []int{1, 3}, ""},
		{"slower by design", [2]float64{50e9, 25e9}, nil, ""},
	} {
		n := bonds()
		for i, s := range c.speeds {
			n.NetDevs[i].Speed.Value = s
		}
		for _, i := range c.down {
			n.Interfaces.Value[i].OperState.Value = "down"
		}
		n.Derive()
		got := diagnosetest.Describe(diagnosetest.Ask(n, verdict.CheckPortRate))
		if (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.name, got)
		}
		diagnosetest.Contains(t, got, c.want)
	}
}

// An interface that has no speed, as of virtual machines, is not compared; one that cannot be read is unknown.
func TestInterfaceWithoutSpeed(t *testing.T) {
	for reason, want := range map[fabric.Reason]verdict.Status{fabric.ReasonUnsupported: "", fabric.ReasonIO: verdict.Unknown} {
		n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: diagnosetest.Card("erdma", "X", fabric.PortActive)}
		n.HCAs[0].Ports[0].RateMismatch = fabric.UnknownFact[bool](reason, "speed", diagnosetest.At)
		if v := diagnosetest.Alone(t, n, verdict.CheckPortRateAgrees); v.Status != want {
			t.Errorf("%s: %+v", reason, v)
		}
	}
}
