// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

var at = time.Unix(1_700_000_000, 0)

func ok[T any](v T) Fact[T] { return Known(v, "test", at) }

// roce returns a healthy 400 Gb/s RoCE device on network interface eth<i>.
func roce(i int) HCA {
	return HCA{
		Name: fmt.Sprintf("mlx5_%d", i), NodeType: ok(NodeCA), BoardID: ok("MT_0838"), Type: ok("MT4129"),
		Function: ok(FunctionPF), Restricted: ok(false),
		Ports: []Port{{
			Number: 1, State: ok(PortActive), PhysState: ok(PhysLinkUp), LinkLayer: ok(LinkEthernet),
			Rate: ok(Rate{50e9, 4, "NDR"}), NetDev: ok(fmt.Sprintf("eth%d", i)),
			GIDs: GIDTable{Size: ok(256), Entries: ok([]GID{})},
		}},
	}
}

func node(n int) *Node {
	node := &Node{At: at, Policy: &Policy{}}
	for i := range n {
		node.HCAs = append(node.HCAs, roce(i))
		node.NetDevs = append(node.NetDevs, NetDev{Name: fmt.Sprintf("eth%d", i), Speed: ok(50e9), DefaultRoute: ok(false), PreferredRoute: ok(false)})
	}
	return node
}

func TestRateMismatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *Port, d *NetDev)
		want   Fact[bool]
	}{
		{"equal", func(*Port, *NetDev) {}, ok(false)},
		{"the kernel does not know the speed", func(p *Port, _ *NetDev) { p.Rate = ok(Rate{1.25e9, 4, "SDR"}) }, ok(true)},
		{"slower than any rate of RDMA", func(p *Port, d *NetDev) { p.Rate, d.Speed = ok(Rate{2.5e9 / 8, 1, "SDR"}), ok(1e9/8) }, AbsentFact[bool]("", at)},
		{"down: nothing to compare", func(p *Port, _ *NetDev) { p.State = ok(PortDown) }, AbsentFact[bool]("", at)},
		{"InfiniBand: nothing to compare", func(p *Port, _ *NetDev) { p.LinkLayer = ok(LinkInfiniBand) }, AbsentFact[bool]("", at)},
		{"a bond: the sum is not the rate of a member", func(_ *Port, d *NetDev) { d.Bond, d.Speed = ok(true), ok(100e9) }, AbsentFact[bool]("", at)},
		{"speed unknown", func(_ *Port, d *NetDev) { d.Speed = UnknownFact[float64](ReasonUnsupported, "", at) }, UnknownFact[bool](ReasonUnsupported, "", at)},
		{"rate unknown", func(p *Port, _ *NetDev) { p.Rate = UnknownFact[Rate](ReasonMalformed, "", at) }, UnknownFact[bool](ReasonMalformed, "", at)},
	} {
		n := node(1)
		c.change(&n.HCAs[0].Ports[0], &n.NetDevs[0])
		n.Derive()
		got := n.HCAs[0].Ports[0].RateMismatch
		if got.State != c.want.State || got.Value != c.want.Value || got.Reason != c.want.Reason {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestExpectedRate(t *testing.T) {
	slow := func(n *Node) { n.HCAs[0].Ports[0].Rate, n.NetDevs[0].Speed = ok(Rate{25e9, 2, "NDR"}), ok(25e9) }
	for _, c := range []struct {
		name   string
		change func(n *Node)
		want   float64 // of mlx5_0; 0: absent
		by     Authority
	}{
		{"others of its board are faster", slow, 50e9, ByNobody},
		{"RDMA reports another rate than the interface has", func(n *Node) {
			n.HCAs[1].Ports[0].Rate, n.NetDevs[1].Speed = ok(Rate{100e9, 4, "XDR"}), ok(50e9)
		}, 0, ByNobody},
		{"half of them are", func(n *Node) {
			slow(n)
			n.HCAs[1].Ports[0].Rate, n.NetDevs[1].Speed = ok(Rate{25e9, 2, "NDR"}), ok(25e9)
		}, 50e9, ByNobody},
		{"a down port still has an expectation", func(n *Node) { n.HCAs[0].Ports[0].Rate = AbsentFact[Rate]("", at) }, 50e9, ByNobody},
		{"another board is no peer", func(n *Node) {
			slow(n)
			n.HCAs[0].BoardID = ok("other")
		}, 0, ByNobody},
		{"nor is another role", func(n *Node) {
			slow(n)
			n.Policy.Roles = []RoleRule{{regexp.MustCompile("^mlx5_0$"), RoleStorage}}
		}, 0, ByNobody},
		{"all are equal", func(*Node) {}, 0, ByNobody},
		{"the port was faster", func(n *Node) {
			slow(n)
			n.HCAs[0].Ports[0].Seen = PortHistory{Active: true, Rate: 50e9}
		}, 50e9, ByRecord},
		{"the manifest has another rate", func(n *Node) {
			n.Policy.Manifest = &Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_rate": "800 Gb/s"}}}
		}, 100e9, ByManifest},
		{"a manifest without a link has none", func(n *Node) {
			slow(n)
			n.Policy.Manifest = &Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_rate": ManifestNone}}}
		}, 50e9, ByNobody},
		{"the site's word wins", func(n *Node) {
			n.Policy.PortRates = map[Role]float64{RoleCompute: 100e9}
			n.Policy.Manifest = &Manifest{Devices: map[string]map[string]string{"mlx5_0": {"port_1_rate": "400 Gb/s"}}}
		}, 100e9, ByConfiguration},
		{"devices without a board are no peers", func(n *Node) {
			slow(n)
			for i := range n.HCAs {
				n.HCAs[i].BoardID, n.HCAs[i].Type = AbsentFact[string]("", at), AbsentFact[string]("", at)
			}
		}, 0, ByNobody},
	} {
		n := node(4)
		c.change(n)
		n.Derive()
		p := n.HCAs[0].Ports[0]
		if got := p.ExpectedRate; got.Or(0) != c.want || (c.want == 0) != (got.State == Absent) || p.RateBy != c.by {
			t.Errorf("%s: got %+v by %s, want %v by %s", c.name, got, p.RateBy, c.want, c.by)
		}
	}
}

func TestDeriveOfNothingKnown(t *testing.T) {
	n := node(2)
	for i := range n.HCAs {
		n.HCAs[i] = n.HCAs[i].WithoutFacts(ReasonStuck, at)
	}
	n.NetDevs = nil
	n.Derive()
	p := n.HCAs[0].Ports[0]
	for name, m := range map[string]Meta{"counters before": p.Counters.BeforeHW.Meta(), "gid choice": p.GIDChoice.Meta(), "RoCE": p.RoCE.Meta()} {
		if m.State != Unknown || m.Reason != ReasonStuck {
			t.Errorf("%s of a stuck device is %s (%s), want unknown (stuck)", name, m.State, m.Reason)
		}
	}
}

func TestFact(t *testing.T) {
	var zero Fact[int]
	if _, known := zero.Get(); known || zero.Meta().Reason != ReasonNotRead {
		t.Errorf("a zero fact is %+v, want unknown (not_read)", zero.Meta())
	}
	if m := ok(1).Meta(); m.State.String() != "ok" || m.Reason != "" {
		t.Errorf("a known fact is %+v", m)
	}
	if m := AbsentFact[int]("x", at).Meta(); m.State.String() != "absent" || m.Reason != "" {
		t.Errorf("an absent fact is %+v", m)
	}
}
