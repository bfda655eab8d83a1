// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"
	"testing"
)

// trayWithVFs is an Oracle GB300 as the README of its DRANET demo describes it: four ConnectX-8, each with a physical function that has
// no address and no link, and a virtual one that goes over its planes. The hosts name the virtual ones in NCCL_IB_HCA.
func trayWithVFs(list string) *Node {
	var b box
	for _, function := range []struct {
		name string
		at   int
	}{{"rdma_rail", 0}, {"rdma_vf_rail", 4}} {
		for i := range 4 {
			b = b.with(card(fmt.Sprint(function.name, i), "cx8", fmt.Sprintf("%d0:01.0/%d1:00.%d", i, i, function.at), i/2))
		}
	}
	n := b.node()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		f := n.PCI.NIC(h.Name)
		h.PCI = ok(f.Address)
		if strings.Contains(h.Name, "vf") {
			h.Function, f.PF = ok(FunctionVF), ok(n.HCAs[i-4].PCI.Value)
		} else {
			unplug(h)
		}
	}
	listed(n, list)
	return n
}

func TestRolesOfVirtualRails(t *testing.T) {
	for _, c := range []struct {
		list              string
		physical, virtual Role
	}{
		{"rdma_vf_rail0,rdma_vf_rail1,rdma_vf_rail2,rdma_vf_rail3", RoleUnused, RoleCompute},
		{"=rdma_vf_rail0:1,rdma_vf_rail1:1,rdma_vf_rail2:1,rdma_vf_rail3:1", RoleUnused, RoleCompute},
		{"rdma_vf_rail", RoleUnused, RoleCompute},
		{"", RoleCompute, RoleUnused},
		{"rdma", RoleCompute, RoleUnused},
		{"^rdma_rail", RoleCompute, RoleUnused},
		{"rdma_rail", RoleCompute, RoleUnused},
	} {
		n := trayWithVFs(c.list)
		n.DerivePorts()
		for i := range 4 {
			physical, virtual := n.HCA(fmt.Sprint("rdma_rail", i)).Ports[0].Role.Or(""), n.HCA(fmt.Sprint("rdma_vf_rail", i)).Ports[0].Role.Or("")
			if physical != c.physical || virtual != c.virtual {
				t.Errorf("%q: rail %d: %s and its virtual function %s, want %s and %s", c.list, i, physical, virtual, c.physical, c.virtual)
			}
		}
	}
	n := trayWithVFs("rdma_vf_rail0")
	n.DerivePorts()
	if p, v := n.HCA("rdma_rail1").Ports[0].Role.Or(""), n.HCA("rdma_vf_rail1").Ports[0].Role.Or(""); p == RoleUnused || v != RoleUnused {
		t.Errorf("not in the list: %s and %s", p, v)
	}
}

// A node whose one bond carries everything: that NCCL_IB_HCA names it says more than the default route. A list of prefixes does not.
func TestRoleOfNamedDefaultRoute(t *testing.T) {
	for list, want := range map[string]Role{
		"mlx5_0": RoleCompute, "=mlx5_0:1": RoleCompute, "mlx5_0:2": RoleManagement, "mlx5": RoleManagement, "^mlx5_0": RoleManagement, "": RoleManagement,
	} {
		n := box{nics: []nicAt{card("mlx5_0", "x", "40:01.0/41:00.0", 0)}}.node()
		n.NetDevs[0].DefaultRoute = ok(true)
		listed(n, list)
		n.DerivePorts()
		if got := n.HCAs[0].Ports[0].Role.Or(""); got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}

// Cards with a port of InfiniBand for training and one of Ethernet for storage. The function of one rail leaves the bus.
func TestRolesOfMixedCards(t *testing.T) {
	for gone, want := range map[string]string{"": "mlx5_4 mlx5_5 mlx5_6 mlx5_7", "mlx5_1": "mlx5_4 mlx5_5 mlx5_6 mlx5_7", "mlx5_5": "mlx5_4 mlx5_6 mlx5_7"} {
		b := switched(4, 1, "vpi")
		for s := range 4 {
			b = b.with(card(fmt.Sprint("mlx5_", 4+s), "vpi", fmt.Sprintf("%x:01.0/%x:00.0/%x:00.0/%x:00.1", 0x10+16*s, 0x11+16*s, 0x12+16*s, 0x13+16*s), s/2))
		}
		n := b.node()
		for i := range 4 {
			n.HCAs[i].Ports[0].LinkLayer = ok(LinkInfiniBand)
		}
		n.drop(gone)
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != want {
			t.Errorf("without %q: %q are storage, want %q", gone, got, want)
		}
	}
}

// Two cards for storage below the switches of GPUs, as fast as the rails, with the bond of the default route on their second ports, as
// in a DGX H100. A card that is a rail and has the default route stays one.
func TestRolesBesideDefaultRoute(t *testing.T) {
	for _, c := range []struct {
		cards int
		gone  string
		want  string
	}{
		{2, "", "mlx5_8 mlx5_a"},
		{2, "mlx5_3", "mlx5_8 mlx5_a"},
		{1, "", "mlx5_8"},
		{1, "mlx5_3", ""},
	} {
		b := switched(8, 1, "rail")
		for i, at := range []string{"10:01.0/11:00.0/12:04.0/19:00.", "50:01.0/51:00.0/52:04.0/59:00."}[:c.cards] {
			b = b.with(card([]string{"mlx5_8", "mlx5_a"}[i], "dual", at+"0", i), card([]string{"mlx5_9", "mlx5_b"}[i], "dual", at+"1", i))
		}
		n := b.node()
		for i := 8; i < len(n.HCAs); i++ {
			h := &n.HCAs[i]
			h.ImageGUID = ok([]string{"card", "card", "other", "other"}[i-8])
			n.NetDev(h.Ports[0].NetDev.Value).DefaultRoute = ok(i%2 == 1)
		}
		n.drop(c.gone)
		n.DerivePorts()
		if got := strings.Join(storageOf(n), " "); got != c.want {
			t.Errorf("%d cards, without %q: %q are storage, want %q", c.cards, c.gone, got, c.want)
		}
	}
}
