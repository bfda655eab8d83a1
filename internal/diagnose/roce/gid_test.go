// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// withoutAddress is a node whose first port lost its address of IPv4. Nothing states what the port is for.
func withoutAddress(edit func(*fabric.Node)) []verdict.Verdict {
	n := fabrictest.Healthy()
	n.NCCL.Variables, n.Policy.ComputePorts, n.Policy.Roles = nil, nil, nil
	p := &n.HCAs[0].Ports[0]
	var left []fabric.GID
	for _, g := range p.GIDs.Entries.Value {
		if g.Family != fabric.FamilyIPv4 {
			left = append(left, g)
		}
	}
	p.GIDs.Entries.Value = left
	edit(n)
	n.Derive()
	return diagnosetest.Ask(n, verdict.CheckGID)
}

// A port that lost the address that somebody expects is wrong whatever it is for; without anybody it is a
// guess. What NewManifest writes is such an expectation.
func TestLostAddress(t *testing.T) {
	n := fabrictest.Healthy()
	n.NCCL.Variables = nil
	n.Derive()
	manifest := node.NewManifest(n)
	for name, c := range map[string]struct {
		edit         func(*fabric.Node)
		want         verdict.Status
		says, remedy string
	}{
		"nobody": {edit: func(*fabric.Node) {}, want: verdict.Unknown},
		"record": {edit: func(n *fabric.Node) {
			n.HCAs[0].Ports[0].Seen.IPv4 = fabric.PastAddress{Addr: netip.MustParseAddr("10.0.0.1"), Last: time.Unix(1.7e9, 0)}
		}, want: verdict.Failed, says: "It had 10.0.0.1 until 2023-11-14 22:13 UTC (record of this node).", remedy: "gpufabric_exporter check --accept=<device>, as the user of the exporter."},
		"manifest": {edit: func(n *fabric.Node) { n.Policy.Manifest = &manifest }, want: verdict.Failed, says: "The manifest has RoCE v2, ipv4."},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range withoutAddress(c.edit) {
				if v.Subject.Device != "mlx5_0" {
					continue
				}
				if v.Status != c.want || !strings.Contains(v.Evidence, c.says) || !strings.HasSuffix(v.Remedy, c.remedy) || strings.Contains(v.Remedy, "--accept=") != (c.remedy != "") {
					t.Errorf("got %s: %s %s %s", v.Status, v.What, v.Evidence, v.Remedy)
				}
				return
			}
			t.Error("no verdict")
		})
	}
}

// What is advised is an address of the family that NCCL looks for, on the interface whose address it would use.
func TestAddressAsNCCLLooksForIt(t *testing.T) {
	v4 := fabric.GID{Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}
	local := fabric.GID{Addr: netip.MustParseAddr("fe80::1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyIPv6}
	vlan := local
	vlan.NetDev = "eth1.100"
	for name, c := range map[string]struct {
		family string
		gids   []fabric.GID
		want   string
	}{
		"IPv4":                    {"", []fabric.GID{local}, "ip addr add <IPv4 address>/<length> dev eth1,"},
		"IPv6":                    {"AF_INET6", []fabric.GID{local}, "ip addr add <IPv6 address>/<length> dev eth1,"},
		"IPv6, and IPv4 is there": {"AF_INET6", []fabric.GID{local, v4}, "remove NCCL_IB_ADDR_FAMILY=AF_INET6"},
		"IPv4 in a VLAN":          {"", []fabric.GID{local, vlan}, "ip addr add <IPv4 address>/<length> dev eth1.100,"},
		"IPv6 in a VLAN":          {"AF_INET6", []fabric.GID{local, vlan}, "ip addr add <IPv6 address>/<length> dev eth1.100,"},
	} {
		n := fabrictest.Lossless()
		if c.family != "" {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_ADDR_FAMILY", Value: c.family, Source: "/etc/nccl.conf:1"}}
		}
		n.NetDevs = append(n.NetDevs, fabric.NetDev{Name: "eth1.100", Lower: fabric.Known([]string{"eth1"}, "lower_*", n.At), Bond: fabric.Known(false, "bonding", n.At)})
		p := &n.HCAs[1].Ports[0]
		p.GIDs.Entries.Value = nil
		for i, g := range c.gids {
			g.Index = i
			if g.NetDev == "" {
				g.NetDev = "eth1"
			}
			p.GIDs.Entries.Value = append(p.GIDs.Entries.Value, g)
		}
		if got := diagnosetest.RemedyOf(t, n, verdict.CheckGID, "mlx5_1"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
