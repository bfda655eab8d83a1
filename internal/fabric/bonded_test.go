// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"testing"
	"time"
)

// A hypervisor puts functions of one card anywhere: there a member of a bond without a device may be in that
// of another function, and on a host it is of another card.
func TestBondedFunctions(t *testing.T) {
	text := func(s string) Fact[string] { return Known(s, "", time.Time{}) }
	none := AbsentFact[string]("", time.Time{})
	for name, c := range map[string]struct {
		member, device string
		hypervisor     bool
		layer          LinkLayer
		list           []string
		unknown        bool
	}{
		"one card":                       {member: "0000:05:00.1", list: []string{"0000:05:00.1"}},
		"another card":                   {member: "0000:06:00.0"},
		"another slot of a VM":           {member: "0000:06:00.0", hypervisor: true, unknown: true},
		"a member with a device":         {member: "0000:05:00.1", device: "0000:05:00.1"},
		"a member with a device in a VM": {member: "0000:06:00.0", device: "0000:06:00.0", hypervisor: true},
		"InfiniBand":                     {member: "0000:05:00.1", layer: LinkInfiniBand},
	} {
		layer := c.layer
		if layer == "" {
			layer = LinkEthernet
		}
		n := &Node{NetDevs: []NetDev{
			{Name: "bond0", Upper: none, Lower: Known([]string{"eth0", "eth1"}, "", time.Time{}), Bond: Known(true, "", time.Time{}), PCI: none},
			{Name: "eth0", Upper: text("bond0"), PCI: text("0000:05:00.0")},
			{Name: "eth1", Upper: text("bond0"), PCI: text(c.member)},
		}}
		n.Host.Hypervisor = Known(c.hypervisor, "", time.Time{})
		n.HCAs = []HCA{{Name: "roce0", PCI: text("0000:05:00.0"), Ports: []Port{{Number: 1, LinkLayer: Known(layer, "", time.Time{}), NetDev: text("eth0")}}}}
		if c.device != "" {
			n.HCAs = append(n.HCAs, HCA{Name: "roce1", PCI: text(c.device), Ports: n.HCAs[0].Ports})
		}
		got := n.Bonded(&n.HCAs[0])
		if !slices.Equal(got.Value, c.list) || (got.State == Unknown) != c.unknown {
			t.Errorf("%s: %+v", name, got)
		}
		if may := n.MayBeBonded(c.member); (may != nil) != c.unknown {
			t.Errorf("%s: %+v", name, may)
		}
	}
}
