// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

func TestTroubles(t *testing.T) {
	entry := func(p *fabric.Port, gids ...fabric.GID) { p.GIDs.Entries.Value = gids }
	linkLocal := fabric.GID{Addr: netip.MustParseAddr("fe80::1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyLinkLocal}
	v1 := fabric.GID{Index: 1, Addr: netip.MustParseAddr("::ffff:10.0.1.1"), Type: fabric.GIDRoCEv1, Family: fabric.FamilyIPv4}
	v6 := fabric.GID{Index: 1, Addr: netip.MustParseAddr("fd00::1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6}
	variable := func(n *fabric.Node, name, value string, number int64, isNumber bool) {
		n.NCCL.Variables = append(n.NCCL.Variables, fabric.NCCLVariable{Name: name, Value: value, Source: "/etc/nccl.conf:1", Number: number, IsNumber: isNumber})
	}
	tests := []struct {
		name string
		edit func(n *fabric.Node, p *fabric.Port)
		want []string // none: nothing
	}{
		{"healthy", func(*fabric.Node, *fabric.Port) {}, nil},
		{"down", func(_ *fabric.Node, p *fabric.Port) {
			p.State.Value, p.PhysState.Value, p.Rate.State = fabric.PortDown, fabric.PhysDisabled, fabric.Absent
		}, []string{"mlx5_1: The port is not active. Its state is down, the physical link is disabled.", "no carrier"}},
		{"subnet manager", func(n *fabric.Node, p *fabric.Port) {
			p.State.Value, p.LinkLayer.Value = fabric.PortInit, fabric.LinkInfiniBand
		}, []string{"mlx5_1: ", "the physical link is link up", "no subnet manager"}},
		{"slow by configuration", func(n *fabric.Node, p *fabric.Port) {
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			p.Rate.Value.BytesPerSecond, n.NetDevs[1].Speed.Value = 25e9, 25e9
		}, []string{"mlx5_1: The port runs at 200 Gb/s, but 400 Gb/s is expected.", "configuration expects"}},
		{"slow InfiniBand", func(n *fabric.Node, p *fabric.Port) {
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 50e9}
			p.LinkLayer.Value, p.Rate.Value.BytesPerSecond = fabric.LinkInfiniBand, 25e9
		}, []string{"mlx5_1: The port runs at 200 Gb/s, but 400 Gb/s is expected.", "support (ibportstate -C <device> -D 0 <port>, mlxlink -d <device> -m), then check cable"}},
		{"all slow", func(n *fabric.Node, _ *fabric.Port) {
			n.Policy.PortRates = map[fabric.Role]float64{fabric.RoleCompute: 100e9}
		}, []string{"mlx5_0, mlx5_1: The port runs at 400 Gb/s, but 800 Gb/s is expected."}},
		{"mismatch", func(_ *fabric.Node, p *fabric.Port) { p.Rate.Value.BytesPerSecond, p.Seen.Rate = 5e9, 0 }, []string{"mlx5_1: RDMA reports 40 Gb/s, the network interface 400 Gb/s."}},
		{"no address", func(_ *fabric.Node, p *fabric.Port) { entry(p, linkLocal) }, []string{
			"mlx5_1: NCCL would not use a RoCE v2 address.", "No RoCE v2 GID with an IPv4 address: entry 0 is used instead.", "Entry 0 is RoCE v1 with a link-local address.", "Give the network interface an IPv4 address: ip addr add <IPv4 address>/<length> dev <interface>",
		}},
		{"RoCE v1 only", func(_ *fabric.Node, p *fabric.Port) { entry(p, linkLocal, v1) }, []string{"the device offers it as RoCE v1 only"}},
		{"IPv6 only", func(_ *fabric.Node, p *fabric.Port) { entry(p, linkLocal, v6) }, []string{"set NCCL_IB_ADDR_FAMILY=AF_INET6"}},
		{"address of another port", func(n *fabric.Node, p *fabric.Port) {
			entry(p, slices.Clone(n.HCAs[0].Ports[0].GIDs.Entries.Value)...)
			for i := range p.GIDs.Entries.Value {
				p.GIDs.Entries.Value[i].NetDev = "eth1"
			}
		}, []string{"mlx5_0, mlx5_1: Two compute ports have the same address. mlx5_0, for example: Entry 3 is 10.0.0.1, as on mlx5_1.", "connections of the other one fail"}},
		{"address of their bond", func(n *fabric.Node, p *fabric.Port) {
			entry(p, n.HCAs[0].Ports[0].GIDs.Entries.Value...)
			for i := range n.NetDevs {
				n.NetDevs[i].Upper = fabric.Known("bond0", "upper", n.At)
			}
		}, nil},
		{"address of another port, in another network namespace", func(n *fabric.Node, p *fabric.Port) {
			entry(p, n.HCAs[0].Ports[0].GIDs.Entries.Value...)
			p.NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "ndevs/0", n.At)
		}, nil},
		{"no entry", func(_ *fabric.Node, p *fabric.Port) { entry(p) }, []string{"that entry is empty"}},
		{"range", func(n *fabric.Node, p *fabric.Port) { variable(n, "NCCL_IB_ADDR_RANGE", "192.168.0.0/16", 0, false) }, []string{"mlx5_0, mlx5_1: ", "Correct NCCL_IB_ADDR_RANGE"}},
		{"pinned", func(n *fabric.Node, p *fabric.Port) { variable(n, "NCCL_IB_GID_INDEX", "2", 2, true) }, []string{"NCCL_IB_GID_INDEX=2 (/etc/nccl.conf:1) is used unchecked.", "Remove NCCL_IB_GID_INDEX"}},
		{"pinned well", func(n *fabric.Node, p *fabric.Port) { variable(n, "NCCL_IB_GID_INDEX", "3", 3, true) }, []string{"/etc/nccl.conf:1: NCCL_IB_GID_INDEX is set; NCCL >= 2.21"}},
		{"pinned to nothing", func(n *fabric.Node, p *fabric.Port) { variable(n, "NCCL_IB_GID_INDEX", "9", 9, true) }, []string{"that entry is empty"}},
		{"missing port", func(n *fabric.Node, _ *fabric.Port) { n.Policy.ComputePorts = new(3) }, []string{"node: 2 compute ports where 3 are expected"}},
		{"stuck", func(n *fabric.Node, _ *fabric.Port) {
			for _, s := range []string{fabric.SourceHCA, fabric.SourceGID} {
				n.Sources = append(n.Sources, fabric.Source{Name: s, Device: "mlx5_1", Reason: fabric.ReasonStuck, Since: n.At})
			}
			n.Policy.ComputePorts = new(2)
			n.HCAs[1] = n.HCAs[1].WithoutFacts(fabric.ReasonStuck, n.At)
		}, []string{"mlx5_1: Reads do not return.", "since 22:13:20 UTC"}},
		{"finding", func(n *fabric.Node, _ *fabric.Port) {
			n.NCCL.Findings = []fabric.NCCLFinding{{Rule: "r", Name: "NCCL_IB_HAC", Source: "/etc/nccl.conf:3", Text: "no such variable"}}
		}, []string{"/etc/nccl.conf:3: NCCL_IB_HAC is ignored or misread by NCCL. No such variable."}},
		{"not our ports", func(n *fabric.Node, p *fabric.Port) {
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("^mlx5_1$"), Role: fabric.RoleManagement}}
			p.State.Value, p.Rate.Value.BytesPerSecond = fabric.PortDown, 1e9
			entry(p, linkLocal)
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.Healthy()
			test.edit(n, &n.HCAs[1].Ports[0])
			n.Derive()
			got := diagnosetest.Describe(diagnose.Run(n, nil))
			diagnosetest.Contains(t, got, test.want...)
			if (got == "") != (test.want == nil) || strings.Count(got, "\n") > 1+strings.Count(test.name, "pinned") {
				t.Errorf("got %q", got)
			}
			if u := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); u != "" {
				t.Errorf("not checked: %q", u)
			}
		})
	}
}

func TestUnchecked(t *testing.T) {
	tests := []struct {
		name string
		edit func(n *fabric.Node, h *fabric.HCA)
		want string
	}{
		{"source", func(n *fabric.Node, h *fabric.HCA) {
			n.Sources = []fabric.Source{{Name: fabric.SourceHCA, Device: h.Name, Reason: fabric.ReasonPrivilege, Err: fs.ErrPermission}}
			*h = h.WithoutFacts(fabric.ReasonPrivilege, n.At)
		}, "mlx5_1: Could not be read. Not permitted for this user. (permission denied)\n"},
		{"class", func(n *fabric.Node, _ *fabric.HCA) {
			n.Sources = []fabric.Source{{Name: fabric.SourceClass, Reason: fabric.ReasonIO, Err: errors.New("no luck")}}
		}, "list of RDMA devices: Could not be read. The read fails. (no luck)\n"},
		{"state", func(n *fabric.Node, h *fabric.HCA) {
			h.Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonMalformed, "state", n.At)
		}, "mlx5_1: Could not be checked: port_active, port_rate, gid_usable and 16 more. The state of the port is unknown: not in the documented format.\n"},
		{"GIDs", func(n *fabric.Node, h *fabric.HCA) {
			h.Ports[0].GIDs.Entries = fabric.UnknownFact[[]fabric.GID](fabric.ReasonIO, "gids", n.At)
		}, "mlx5_1: Could not be checked: gid_usable. The GID table is unknown: the read fails.\n" +
			"mlx5_1: Could not be checked: roce_dscp, roce_priority. Which GID NCCL uses is not known.\n"},
		{"collector off", func(n *fabric.Node, h *fabric.HCA) { h.Ports[0].GIDs = fabric.GIDTable{} }, ""},
		{"restricted", func(n *fabric.Node, h *fabric.HCA) {
			*h = h.WithoutFacts(fabric.ReasonRestricted, n.At)
			h.Restricted, n.Policy.Roles = fabric.Known(true, "config", n.At), nil
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.Healthy()
			test.edit(n, &n.HCAs[1])
			n.Derive()
			if got := diagnosetest.Gaps(verdict.Unchecked(diagnose.Run(n, nil))); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := diagnosetest.Describe(diagnose.Run(n, nil)); got != "" {
				t.Errorf("troubles: %q", got)
			}
		})
	}
}
