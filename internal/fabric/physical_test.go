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

// The two QSFP ports of a GB10 are there twice, at two PCIe links of one card. Cards that share nothing are not merged.
func TestSharedPort(t *testing.T) {
	shared := &Profile{Normal: []ProfileNormal{{What: NormalSharedPort}}}
	const one, other, none = "fc4c:ea03:00f9:4230", "fc4c:ea03:00f9:4240", "0000:0000:0000:0000"
	for _, c := range []struct {
		name    string
		devices string // address and image GUID of each
		edit    func(n *Node)
		want    string
	}{
		{"one card by two links", "0000:01:00.0 " + one + ", 0000:01:00.1 " + one + ", 0002:01:00.0 " + one + ", 0002:01:00.1 " + one, nil, "0000:01:00.0/1 0000:01:00.1/1 0000:01:00.0/1 0000:01:00.1/1"},
		{"three links", "0002:01:00.0 " + one + ", 0001:01:00.0 " + one + ", 0000:01:00.0 " + one, nil, "0000:01:00.0/1 0000:01:00.0/1 0000:01:00.0/1"},
		{"one card with two ports", "0000:01:00.0 " + one + ", 0000:01:00.1 " + one, nil, " "},
		{"two cards", "0000:01:00.0 " + one + ", 0002:01:00.0 " + other, nil, " "},
		{"two cards, of which the profile says it", "0000:01:00.0 " + one + ", 0002:01:00.0 " + other, func(n *Node) { n.Profile = shared }, "0000:01:00.0/1 0000:01:00.0/1"},
		{"drivers that report no card", "0000:01:00.0 " + none + ", 0002:01:00.0 " + none, nil, " "},
		{"a virtual machine", "0000:01:00.0 " + one + ", 0002:01:00.0 " + one, func(n *Node) { n.Host.Hypervisor = ok(true) }, " "},
		{"a virtual function", "0000:01:00.0 " + one + ", 0000:02:00.0 " + one, func(n *Node) { n.HCAs[1].Function = ok(FunctionVF) }, " "},
	} {
		n := &Node{}
		for d := range strings.SplitSeq(c.devices, ", ") {
			address, image, _ := strings.Cut(d, " ")
			n.HCAs = append(n.HCAs, HCA{PCI: ok(address), ImageGUID: ok(image), Ports: []Port{{Number: 1}}})
		}
		if c.edit != nil {
			c.edit(n)
		}
		var got []string
		for i := range n.HCAs {
			got = append(got, n.SharedPort(&n.HCAs[i], &n.HCAs[i].Ports[0]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
