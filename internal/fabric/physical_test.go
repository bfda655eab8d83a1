// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
)

func TestPhysical(t *testing.T) {
	dev := func(name string, lower ...string) NetDev {
		d := NetDev{Name: name, Lower: AbsentFact[[]string]("test", at)}
		if len(lower) > 0 {
			d.Lower = Known(lower, "test", at)
		}
		return d
	}
	n := &Node{NetDevs: []NetDev{
		dev("eth0"), dev("eth1"), dev("bond0", "eth0", "eth1"), dev("bond0.100", "bond0"), dev("eth1.7", "eth1"),
		dev("twice", "eth0", "bond0"), dev("ring", "ring2"), dev("ring2", "ring", "eth0"), dev("self", "self"), dev("left", "gone", "eth1"),
		{Name: "dark"},
	}}
	for name, want := range map[string]string{
		"eth0": "eth0", "bond0": "eth0 eth1", "bond0.100": "eth0 eth1", "eth1.7": "eth1", "twice": "eth0 eth1",
		"ring": "eth0", "self": "", "left": "eth1", "dark": "dark", "nosuch": "",
	} {
		var got []string
		for _, d := range n.Physical(name) {
			got = append(got, d.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}
