// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/verdict"
)

// layoutNamed is the platform of that name.
func layoutNamed(t *testing.T, name string) *simulator.Layout {
	t.Helper()
	all := simulator.Layouts()
	i := slices.IndexFunc(all, func(l simulator.Layout) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no layout %s", name)
	}
	return &all[i]
}

// Each rail may be gone beside a storage NIC of the same board, on either socket: that NIC never makes up for
// it. Where nothing is stated, the GPU that seems to lack one is that of the rail.
func TestRailGoneBesideStorage(t *testing.T) {
	for _, name := range []string{"storage-of-the-same-board", "storage-of-the-same-board-two-gpus"} {
		s := platformStage{stage: newStage(t), layout: layoutNamed(t, name)}
		healthy := s.observe(t, byConfiguration, nil, s.layout.Build())
		train := training(healthy)
		storage := "mlx5_" + strconv.Itoa(len(train))
		for i := range 2 * len(train) {
			socket, rail := i%2, train[i/2]
			gpu := healthy.PCI.Rails[slices.IndexFunc(healthy.PCI.Rails, func(r fabric.Rail) bool { return r.NIC == rail })].GPU
			for way, want := range map[string]int{byNothing: 2, byList: 1, byRecord: 1, byConfiguration: 1} {
				n := s.layout.Build()
				n.Function(n.HCA(storage).PCI).NUMA = socket
				n.Unplug(rail)
				node := s.observe(t, way, train, n)
				o := outcomeOf(node)
				if o.code() != want {
					t.Errorf("%s: storage on socket %d, %s gone, by %s: %d, want %d (%v %v)", name, socket, rail, way, o.code(), want, o.critical, o.unstated)
				}
				said := slices.ContainsFunc(diagnose.Run(node, nil), func(v verdict.Verdict) bool { return strings.HasPrefix(v.What, "GPU "+gpu+" has fewer") })
				if way == byNothing && !said {
					t.Errorf("%s: storage on socket %d, %s gone: nothing says that %s lacks a NIC", name, socket, rail, gpu)
				}
			}
		}
	}
}

// A list that takes devices by how their names begin does not say which there were.
func TestRailGoneFromPrefix(t *testing.T) {
	l := *layoutNamed(t, "storage-of-the-same-board-two-gpus")
	for list, want := range map[string]int{"mlx5": 2, "mlx5_0,mlx5_1": 1, "=mlx5_0,mlx5_1": 1} {
		l.List = list + "\nNCCL_NET_GDR_LEVEL=SYS" // which no distance is beyond
		s := platformStage{stage: newStage(t), layout: &l}
		n := l.Build()
		if o := outcomeOf(s.observe(t, byList, nil, n)); o.code() != 0 {
			t.Errorf("%s: %d of a healthy node (%v %v)", list, o.code(), o.critical, o.unstated)
		}
		n.Unplug("mlx5_0")
		if o := outcomeOf(s.observe(t, byList, nil, n)); o.code() != want {
			t.Errorf("%s: %d, want %d (%v %v)", list, o.code(), want, o.critical, o.unstated)
		}
	}
}

// renumber names devices as mlx5 and bnxt_re do: in the order in which they are found.
func renumber(n *simulator.Node) {
	next := map[string]int{}
	for i := range n.HCAs {
		stem := strings.TrimRight(n.HCAs[i].Name, "0123456789")
		n.HCAs[i].Name = stem + strconv.Itoa(next[stem])
		next[stem]++
	}
}

// A rail is gone at boot, so that each device after it has the name of the one before, and a NIC for storage
// or a virtual function the last one that the list has: it makes up for none.
func TestRailGoneAndRenumbered(t *testing.T) {
	for _, name := range []string{"storage-of-the-same-board", "dgx-gb200-tray", "rails-with-dhcp", "mi300x-thor2", "pfs-beside-vf-rails", "seventeen-ports", "sr675-two-port-ib"} {
		s := platformStage{stage: newStage(t), layout: layoutNamed(t, name)}
		train := training(s.observe(t, byConfiguration, nil, s.layout.Build()))
		for way, want := range map[string]int{byList: 2, byNothing: 2, byRecord: 1} {
			n := s.layout.Build()
			n.Unplug(train[len(train)/2])
			renumber(n)
			if o := outcomeOf(s.observe(t, way, train, n)); o.code() != want {
				t.Errorf("%s by %s: %d, want %d (%v %v)", name, way, o.code(), want, o.critical, o.unstated)
			}
		}
		n := s.layout.Build()
		n.Unplug(train[len(train)/2])
		renumber(n)
		if o := outcomeOf(s.observe(t, byConfiguration, train, n)); o.code() == 0 {
			t.Errorf("%s by %s is as if nothing was gone (%q)", name, byConfiguration, s.layout.Config)
		}
	}
}

// A virtual function may be a rail. Named by NCCL_IB_HCA it is one, and critical without a link. Where its
// physical function has no RDMA device, nothing else can be the rail: without a link it is never an
// all-clear, and by the record alone not critical, because pods take links of virtual functions down.
func TestVirtualRailDown(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "pfs-beside-vf-rails")}
	build := func(alone, down bool) *simulator.Node {
		n := s.layout.Build()
		if alone {
			n.HCAs = slices.DeleteFunc(n.HCAs, func(h simulator.HCA) bool { return n.Function(h.PCI).VFs > 0 })
		}
		if down {
			n.LinkDown("mlx5_14")
		}
		return n
	}
	var rails []string // the first of each card
	for i := range 8 {
		rails = append(rails, "mlx5_"+strconv.Itoa(10+4*i))
	}
	for _, c := range []struct {
		way         string
		alone, down bool
		want        int
	}{
		{byList, false, false, 0},
		{byList, false, true, 1},
		{byList, true, true, 1},
		{byNothing, false, true, 0}, // what physical functions are there for
		{byNothing, true, false, 0},
		{byNothing, true, true, 2},
		{byRecord, true, false, 0},
		{byRecord, true, true, 2},
	} {
		of := s
		if c.way == byRecord {
			of.before = func() *simulator.Node { return build(c.alone, false) }
		}
		if o := outcomeOf(of.observe(t, c.way, rails, build(c.alone, c.down))); o.code() != c.want {
			t.Errorf("%+v: %d (%v %v)", c, o.code(), o.critical, o.unstated)
		}
	}
}

// In switchdev mode the RDMA device of a card has a port for each of its virtual functions, too, which is
// down while nobody uses that one.
func TestRepresentors(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "no-numa")}
	build := func(state string) *simulator.Node {
		n := s.layout.Build()
		for i := range n.HCAs {
			h := &n.HCAs[i]
			for vf := range 4 {
				p, d := h.Ports[0], *n.NetDev(h.Ports[0].NetDev)
				n.NetDev(d.Name).PhysPort = "p0"
				d.Name, d.Index, d.Addrs, d.PhysPort = fmt.Sprintf("%sr%d", d.Name, vf), 1000+len(n.NetDevs), nil, fmt.Sprintf("pf0vf%d", vf)
				p.Number, p.NetDev, p.GIDs = 2+vf, d.Name, []simulator.GID{{Addr: netip.MustParseAddr("fe80::1"), Type: simulator.RoCEv2, NetDev: d.Name}}
				p.State = state
				n.NetDevs, h.Ports = append(n.NetDevs, d), append(h.Ports, p)
			}
		}
		return n
	}
	s.before = func() *simulator.Node { return build("4: ACTIVE") }
	for _, way := range []string{byRecord, byConfiguration} {
		o := outcomeOf(s.observe(t, way, nil, build("1: DOWN")))
		if o.code() == 1 || way == byConfiguration && o.code() != 0 {
			t.Errorf("by %s: critical %v, unknown %v", way, o.critical, o.unstated)
		}
		n := build("1: DOWN")
		n.HCA("mlx5_0").Ports[0].State = "1: DOWN"
		if o := outcomeOf(s.observe(t, way, nil, n)); len(o.critical) != 1 {
			t.Errorf("by %s, mlx5_0 down: critical %v, unknown %v", way, o.critical, o.unstated)
		}
	}
}

// Router advertisements give each rail a default route of IPv6, and a rail may have one of a lower metric in
// a table of its own, which the kernel lists like any other: it is a rail still.
func TestRouteOfAnotherTable(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "rails-advertised")}
	n := s.layout.Build()
	n.Routes = append(n.Routes, simulator.Route{
		Dst: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("fe80::2"), NetDev: n.HCA("mlx5_3").Ports[0].NetDev, Metric: 100,
	})
	for _, way := range []string{byNothing, byRecord} {
		if train := training(s.observe(t, way, nil, n)); !slices.Contains(train, "mlx5_3") {
			t.Errorf("by %s for training: %v", way, train)
		}
	}
}

// A rail is gone, and a NIC that had no link gets one: as many ports are active as the site expects, but the
// record misses one, and no port is for training by that number.
func TestNumberFitsByAnother(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "storage-of-the-same-board"), config: "expected: {compute_ports: 8}\n"}
	s.before = func() *simulator.Node {
		n := s.layout.Build()
		n.LinkDown("mlx5_8")
		return n
	}
	n := s.layout.Build()
	n.Unplug("mlx5_3")
	node := s.observe(t, byRecord, nil, n)
	if o := outcomeOf(node); !slices.Contains(o.critical, "hardware node") {
		t.Errorf("critical: %v, unstated: %v", o.critical, o.unstated)
	}
	for i := range node.HCAs {
		if p := &node.HCAs[i].Ports[0]; p.RoleBy != fabric.ByNobody {
			t.Errorf("%s is for training by %s", node.HCAs[i].Name, p.RoleBy)
		}
	}
}
