// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"os/exec"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// nodeOf has one device with a port over that interface.
func nodeOf(device, pci, netdev string) *fabric.Node {
	n := new(fabric.Node)
	n.HCAs = []fabric.HCA{{Name: device, PCI: fabric.Known(pci, "", n.At), Ports: []fabric.Port{{Number: 1, NetDev: fabric.Known(netdev, "", n.At)}}}}
	return n
}

func TestFilledRemedy(t *testing.T) {
	port := Subject{Device: "mlx5_3", Port: 1}
	for _, c := range []struct {
		what    string
		remedy  string
		netdev  string
		subject Subject
		names   map[string][]string
		want    string
	}{
		{"interface", "ethtool -m <interface>", "eth3", port, nil, "ethtool -m eth3"},
		{"everything", "a <device> <port> <address> <interface>", "eth3", port, nil, "a mlx5_3 1 0000:1a:00.0 eth3"},
		{"of the only port", "ethtool <interface>", "eth3", Subject{Device: "mlx5_3"}, nil, "ethtool eth3"},
		{"not of this port", "ethtool <interface>", "eth3", Subject{Device: "mlx5_3", Port: 2}, nil, "ethtool <interface>"},
		{"of another device", "ethtool <interface> of <device>", "eth3", Subject{Device: "mlx5_9", Port: 1}, nil, "ethtool <interface> of mlx5_9"},
		{"of the node", "ethtool <interface>", "eth3", Subject{}, nil, "ethtool <interface>"},
		{"unknown words", "kill <pid>", "eth3", port, nil, "kill <pid>"},
		{"given", "mlnx_qos -i <interface> <priority>", "bond0", port, map[string][]string{"interface": {"eth7"}, "priority": {"3"}}, "mlnx_qos -i eth7 3"},
		{"several", "for b in <bridges>; do", "", port, map[string][]string{"bridges": {"0000:17:00.0", "a b"}}, "for b in 0000:17:00.0 'a b'; do"},
		{"none of several", "for b in <bridges>; do", "", port, map[string][]string{"bridges": nil}, "for b in <bridges>; do"},
		{"a shell's word", "ethtool <interface>", "eth3;reboot", port, nil, "ethtool 'eth3;reboot'"},
		{"quotes", "ethtool <interface>", `$(x)'"`, port, nil, `ethtool '$(x)'\''"'`},
		{"in a path", "echo 1 > /sys/class/net/<interface>/mtu", "a&b", port, nil, "echo 1 > /sys/class/net/'a&b'/mtu"},
		{"an option", "ethtool <interface>", "-rf", port, nil, "ethtool <interface>"},
		{"does not print", "ethtool <interface>", "eth\n0", port, nil, "ethtool <interface>"},
		{"reads like another", "ethtool <interface>", "eth\u202e0", port, nil, "ethtool <interface>"},
		{"a placeholder of its own", "ethtool <interface> <device>", "<device>", port, nil, "ethtool '<device>' mlx5_3"},
	} {
		v := Verdict{Remedy: c.remedy, Subject: c.subject, Names: c.names}
		if got := FilledRemedy(nodeOf("mlx5_3", "0000:1a:00.0", c.netdev), &v); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// A bond is no interface that a setting of the NIC is made for.
func TestFilledRemedyOfABond(t *testing.T) {
	n := nodeOf("mlx5_3", "", "bond0")
	n.NetDevs = []fabric.NetDev{{Name: "bond0", Bond: fabric.Known(true, "", n.At)}}
	v := Verdict{Remedy: "ethtool -m <interface>", Subject: Subject{Device: "mlx5_3", Port: 1}}
	if got := FilledRemedy(n, &v); got != v.Remedy {
		t.Error(got)
	}
}

// What a shell makes of a name is the name.
func TestShellTakesTheName(t *testing.T) {
	for _, name := range []string{"eth0", "a b", "a;b", "$HOME", "`id`", `a"b`, "a'b", `a\b`, "*", "~", "#x", "a=b", "!x", "x&", "(", "{a,b}"} {
		q, ok := shellQuoted(name)
		if !ok {
			t.Errorf("%q is not quoted", name)
			continue
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+q).Output()
		if err != nil || string(out) != name {
			t.Errorf("%q: %q, %v", name, out, err)
		}
	}
}
