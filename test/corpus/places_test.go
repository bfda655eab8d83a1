// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"path"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/simulator"
)

// reslot has devices at the next slot of their buses, under the names that udev gives them there.
func reslot(n *simulator.Node, devices ...string) (names []string) {
	for _, device := range devices {
		h := n.HCA(device)
		from := h.PCI
		f := n.Function(from)
		to := strings.Replace(from, ":00.", ":01.", 1)
		f.Path = path.Join(path.Dir(f.Path), to)
		for i := range n.NetDevs {
			if n.NetDevs[i].PCI == from {
				n.NetDevs[i].PCI = to
			}
		}
		h.PCI, h.Name = to, strings.Replace(device, "s0f", "s1f", 1)
		names = append(names, h.Name)
	}
	return names
}

// Cards that were put into other slots are not gone: the record knows them by their GUIDs. Of their links it
// says nothing before they had one there, because they may be cabled otherwise: that is unknown. A list of
// the names that udev gave them before misses them.
func TestOtherSlots(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "ucs-885a-bf3")}
	train := training(s.observe(t, byConfiguration, nil, s.layout.Build()))
	for name, c := range map[string]struct {
		moved []string
		fault func(n *simulator.Node, device string)
		want  map[string]int
	}{
		"one":               {train[3:4], nil, map[string]int{byNothing: 0, byRecord: 0, byList: 1}},
		"all":               {train, nil, map[string]int{byNothing: 0, byRecord: 0, byList: 1}},
		"one without link":  {train[3:4], (*simulator.Node).LinkDown, map[string]int{byNothing: 2, byRecord: 2}},
		"all, one is gone":  {train, (*simulator.Node).Unplug, map[string]int{byNothing: 2, byRecord: 1}},
		"one at half rate":  {train[3:4], halve, map[string]int{byNothing: 2, byRecord: 2}},
		"all, one unlinked": {train, (*simulator.Node).LinkDown, map[string]int{byNothing: 2, byRecord: 2}},
	} {
		for way, want := range c.want {
			n := s.layout.Build()
			now := reslot(n, c.moved...)
			if c.fault != nil {
				c.fault(n, now[0])
			}
			if o := outcomeOf(s.observe(t, way, train, n)); o.code() != want {
				t.Errorf("%s, by %s: %d, want %d (%v %v)", name, way, o.code(), want, o.critical, o.unstated)
			}
		}
	}
}

// One of eight rails is a virtual function, whose physical function has no device, as after
// sriov-network-operator took one over: it is a rail as the others are.
func TestOneVirtualRail(t *testing.T) {
	s := platformStage{stage: newStage(t), layout: layoutNamed(t, "pfs-beside-vf-rails")}
	const physical, virtual = "mlx5_3", "mlx5_22"
	build := func(fault func(n *simulator.Node, device string)) *simulator.Node {
		n := s.layout.Build()
		n.HCAs = slices.DeleteFunc(n.HCAs, func(h simulator.HCA) bool { return h.Name == physical })
		if fault != nil {
			fault(n, virtual)
		}
		return n
	}
	s.before = func() *simulator.Node { return build(nil) }
	rails := []string{"mlx5_0", "mlx5_1", "mlx5_2", virtual, "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"}
	for _, c := range []struct {
		way   string
		fault func(n *simulator.Node, device string)
		want  []int
	}{
		{byNothing, nil, []int{0, 2}},
		{byRecord, nil, []int{0, 2}},
		{byList, nil, []int{0}},
		{byNothing, (*simulator.Node).LinkDown, []int{2}},
		{byRecord, (*simulator.Node).LinkDown, []int{2}}, // pods take links of virtual functions down
		{byList, (*simulator.Node).LinkDown, []int{1}},
		{byList, (*simulator.Node).Unplug, []int{1}},
	} {
		if o := outcomeOf(s.observe(t, c.way, rails, build(c.fault))); !slices.Contains(c.want, o.code()) {
			t.Errorf("by %s, fault %t: %d, want %v (%v %v)", c.way, c.fault != nil, o.code(), c.want, o.critical, o.unstated)
		}
	}
}
