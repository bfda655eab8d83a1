// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// manifested are cards of one board in slots, each by its GUID; 0 is an empty slot. They are named in their order.
func manifested(guids ...int) *Node {
	at := time.Unix(1.8e9, 0)
	n := &Node{At: at, Policy: &Policy{}, Host: Host{Hypervisor: Known(false, "", at)}}
	for slot, g := range guids {
		if g > 0 {
			n.HCAs = append(n.HCAs, HCA{
				Name: fmt.Sprint("mlx5_", len(n.HCAs)), PCI: Known(fmt.Sprintf("0000:%02x:00.0", slot+1), "", at), BoardID: Known("B1", "", at),
				NodeGUID: Known(fmt.Sprintf("a088:c203:0041:%04x", g), "", at), Function: Known(FunctionPF, "", at),
				Ports: []Port{{Number: 1, Role: Known(RoleCompute, "", at)}},
			})
		}
	}
	return n
}

func manifestOf(n *Node) *Manifest {
	m := &Manifest{Devices: map[string]map[string]string{}}
	for i := range n.HCAs {
		h := &n.HCAs[i]
		m.Devices[h.Name] = map[string]string{
			ManifestAddress: h.PCI.Value, ManifestGUID: h.NodeGUID.Value, ManifestFunction: string(h.Function.Value), "board": "B1", "port_1_role": "compute",
		}
	}
	return m
}

// A device of the manifest is known by its card. What is gone is missed, whatever has its name, its board or
// its place now, and only where nothing tells cards apart names do.
func TestListing(t *testing.T) {
	vf := func(name, address string) func(*Node) {
		return func(n *Node) {
			h := manifested(99).HCAs[0]
			h.Name, h.PCI.Value, h.Function.Value = name, address, FunctionVF
			n.HCAs = append(n.HCAs, h)
		}
	}
	rails := func(places ...string) func(*Manifest) {
		return func(m *Manifest) {
			for i, p := range places {
				m.Devices[fmt.Sprint("mlx5_", 8+i)] = map[string]string{ManifestAddress: p, ManifestFunction: "vf", "board": "B1", "port_1_role": "compute"}
			}
		}
	}
	zero := func(m *Manifest) {
		for _, e := range m.Devices {
			e[ManifestGUID] = "0000:0000:0000:0000"
		}
	}
	unnamed := func(n *Node) {
		for i := range n.HCAs {
			n.HCAs[i].NodeGUID.Value = "0000:0000:0000:0000"
		}
	}
	byPlace := func(n *Node) {
		for i := range n.HCAs {
			n.HCAs[i].Name = "rdmap" + n.HCAs[i].PCI.Value
		}
	}
	without := func(keys ...string) func(*Manifest) {
		return func(m *Manifest) {
			for _, e := range m.Devices {
				maps.DeleteFunc(e, func(k, _ string) bool { return slices.Contains(keys, k) })
			}
		}
	}
	for name, c := range map[string]struct {
		then, now      []int
		manifest       func(*Manifest)
		edit           func(*Node)
		gone, doubtful string
		entry          string // of the second device
	}{
		"as it was":           {then: []int{1, 2, 3}, now: []int{1, 2, 3}, entry: "mlx5_1"},
		"gone, names move up": {then: []int{1, 2, 3, 4}, now: []int{1, 0, 3, 4}, gone: "mlx5_1", entry: "mlx5_2"},
		"buses are counted anew, and one is gone": {then: []int{1, 2, 3, 4}, now: []int{0, 1, 0, 3, 4}, gone: "mlx5_1", entry: "mlx5_2"},
		"renamed": {then: []int{1, 2}, now: []int{1, 2}, entry: "mlx5_1", edit: func(n *Node) {
			for i := range n.HCAs {
				n.HCAs[i].Name = fmt.Sprintf("rocep%ds0", i)
			}
		}},
		"a virtual function has the name":                          {then: []int{1, 2, 3}, now: []int{1, 2}, edit: vf("mlx5_2", "0000:01:00.2"), gone: "mlx5_2", entry: "mlx5_1"},
		"a virtual function has the name, another node's manifest": {then: []int{11, 12, 13}, now: []int{1, 2}, edit: vf("mlx5_2", "0000:01:00.2"), gone: "mlx5_2", entry: "mlx5_1"},
		"exchanged":                               {then: []int{1, 2, 3}, now: []int{1, 12, 3}, entry: "mlx5_1"},
		"exchanged, in another slot":              {then: []int{1, 2, 3}, now: []int{1, 0, 3, 14}, doubtful: "mlx5_1", entry: "mlx5_2"},
		"one exchanged, one gone":                 {then: []int{1, 2, 3, 4}, now: []int{1, 0, 0, 4, 15}, gone: "mlx5_2", doubtful: "mlx5_1", entry: "mlx5_3"},
		"exchanged for another board":             {then: []int{1, 2, 3}, now: []int{1, 0, 3, 14}, edit: func(n *Node) { n.HCAs[2].BoardID.Value = "B2" }, gone: "mlx5_1", entry: "mlx5_2"},
		"more cards":                              {then: []int{1}, now: []int{1, 2, 3, 4}},
		"all cards exchanged":                     {then: []int{1, 2, 3}, now: []int{11, 12, 13}, entry: "mlx5_1"},
		"another node of the kind":                {then: []int{1, 2, 3}, now: []int{0, 11, 12, 13}, entry: "mlx5_1"},
		"another node, which has one of its":      {then: []int{1, 2, 3, 4}, now: []int{0, 11, 2, 13, 14}, entry: "mlx5_1"},
		"another node of the kind that lacks one": {then: []int{1, 2, 3}, now: []int{0, 11, 12}, gone: "mlx5_2", entry: "mlx5_1"},
		"older, and one is gone":                  {then: []int{1, 2, 3}, now: []int{1, 2}, manifest: without(ManifestGUID, ManifestAddress, ManifestFunction), gone: "mlx5_2", entry: "mlx5_1"},
		"older, and one is renamed":               {then: []int{1, 2}, now: []int{1, 2}, manifest: without(ManifestGUID, ManifestAddress, ManifestFunction), edit: func(n *Node) { n.HCAs[1].Name = "x" }},
		"a GUID cannot be read":                   {then: []int{1, 2}, now: []int{1, 2}, edit: func(n *Node) { n.HCAs[1].NodeGUID = UnknownFact[string](ReasonStuck, "", n.At) }, entry: "mlx5_1"},
		"nothing of one can be read": {then: []int{1, 2}, now: []int{1, 2}, edit: func(n *Node) {
			n.HCAs[1] = HCA{Name: "mlx5_7", Ports: n.HCAs[1].Ports}
		}, doubtful: "mlx5_1"},
		"BlueFields have other GUIDs in their mode":    {then: []int{1, 2, 3, 4}, now: []int{11, 12, 3, 4}, entry: "mlx5_1"},
		"all BlueFields, and buses are counted anew":   {then: []int{1, 2, 3}, now: []int{0, 11, 12, 13}, entry: "mlx5_1"},
		"BlueFields have other GUIDs, and one is gone": {then: []int{1, 2, 3, 4}, now: []int{11, 12, 3}, entry: "mlx5_1", gone: "mlx5_3"},
		"without GUIDs":           {then: []int{1, 2, 3}, now: []int{1, 2, 3}, manifest: without(ManifestGUID), edit: unnamed, entry: "mlx5_1"},
		"zero GUIDs":              {then: []int{1, 2, 3}, now: []int{1, 2, 3}, manifest: zero, edit: unnamed, entry: "mlx5_1"},
		"zero GUIDs, one is gone": {then: []int{1, 2, 3}, now: []int{1, 2}, manifest: zero, edit: unnamed, entry: "mlx5_1", gone: "mlx5_2"},
		"zero GUIDs, named by places that changed":       {then: []int{1, 2, 3}, now: []int{0, 1, 2, 3}, manifest: zero, edit: func(n *Node) { unnamed(n); byPlace(n) }},
		"one GUID for two after their bond":              {then: []int{1, 2, 3, 4}, now: []int{1, 1, 3, 4}, entry: "mlx5_1"},
		"one GUID for two after their bond, one is gone": {then: []int{1, 2, 3, 4}, now: []int{1, 1, 0, 4}, entry: "mlx5_1", gone: "mlx5_2"},
		"a virtual function that is a rail is gone":      {then: []int{1, 2, 3}, now: []int{1, 2, 3}, manifest: rails("0000:01:00.1", "0000:01:00.2"), edit: vf("mlx5_8", "0000:01:00.1"), gone: "mlx5_9", entry: "mlx5_1"},
		"virtual functions are made again":               {then: []int{1, 2, 3}, now: []int{1, 2, 3}, manifest: rails("0000:01:00.1"), edit: vf("mlx5_17", "0000:01:00.1"), entry: "mlx5_1"},
		"virtual functions are made again elsewhere":     {then: []int{1, 2, 3}, now: []int{1, 2, 3}, manifest: rails("0000:01:00.1"), edit: vf("mlx5_8", "0000:01:02.1"), entry: "mlx5_1"},
		"a container, on a host where each has its own": {then: []int{1, 2}, edit: func(n *Node) {
			n.Host.RDMANetNS = Known(NetNSExclusive, "netlink", n.At)
			n.PCI.Functions = []PCIFunction{{Address: "0000:01:00.0", Kind: PCINIC, Driver: Known("mlx5_core", "driver", n.At)}}
		}, doubtful: "mlx5_0 mlx5_1"},
		"each has its own, and one is gone": {then: []int{1, 2}, now: []int{1}, edit: func(n *Node) {
			n.Host.RDMANetNS = Known(NetNSExclusive, "netlink", n.At)
			n.PCI.Functions = []PCIFunction{{Address: "0000:02:00.0", Kind: PCINIC, Driver: Known("mlx5_core", "driver", n.At)}}
		}, gone: "mlx5_1"},
		"a guest gets other virtual functions": {then: []int{1, 2}, now: []int{0, 1, 12}, edit: func(n *Node) {
			n.Host.Hypervisor.Value = true
			for i := range n.HCAs {
				n.HCAs[i].Function = UnknownFact[Function](ReasonNotRead, "", n.At)
			}
		}, entry: "mlx5_1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := manifested(c.now...)
			n.Policy.Manifest = manifestOf(manifested(c.then...))
			if c.manifest != nil {
				c.manifest(n.Policy.Manifest)
			}
			if c.edit != nil {
				c.edit(n)
			}
			l := n.Listing()
			if gone, doubtful := strings.Join(l.Gone, " "), strings.Join(l.Doubtful, " "); gone != c.gone || doubtful != c.doubtful {
				t.Errorf("gone %q, in doubt %q", gone, doubtful)
			}
			if len(n.HCAs) > 1 && l.Entry[n.HCAs[1].Name] != c.entry {
				t.Errorf("entries %v", l.Entry)
			}
		})
	}
}
