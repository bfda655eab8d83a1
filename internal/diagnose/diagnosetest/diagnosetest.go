// SPDX-License-Identifier: Apache-2.0

// Package diagnosetest has the nodes and questions that tests of checks share.
package diagnosetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
	"gpufabric_exporter/internal/verdict"
)

// Card is a card with a device for each of its ports, which are active or down and should have a link.
func Card(name, board string, states ...fabric.PortState) (list []fabric.HCA) {
	for i, s := range states {
		phys := fabric.PhysDisabled
		if s == fabric.PortActive {
			phys = fabric.PhysLinkUp
		}
		list = append(list, fabric.HCA{
			Name: fmt.Sprint(name, "_", i), BoardID: fabric.Known(board, "board_id", At),
			ImageGUID: fabric.Known(name, "sys_image_guid", At),
			PCI:       fabric.Known(fmt.Sprint("0000:17:00.", i), "device", At),
			Ports: []fabric.Port{{
				Number: 1, State: fabric.Known(s, "state", At), PhysState: fabric.Known(phys, "phys_state", At),
				LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", At),
				Role:      fabric.Known(fabric.RoleCompute, "", At), RoleBy: fabric.ByConfiguration,
				Link: fabric.Expected[bool]{Value: true, By: fabric.ByRecord, Words: "it had a link"},
			}},
		})
	}
	return list
}

// WithDevices is a node whose NCCL configuration names devices, and two of them with an active port.
func WithDevices(filter string) *fabric.Node {
	n := &fabric.Node{ClassPresent: fabric.Fact[bool]{Value: true, State: fabric.OK}, Policy: &fabric.Policy{}}
	for _, name := range []string{"mlx5_0", "mlx5_1"} {
		n.HCAs = append(n.HCAs, fabric.HCA{Name: name, Ports: []fabric.Port{{
			Number: 1,
			State:  fabric.Fact[fabric.PortState]{Value: fabric.PortActive, State: fabric.OK},
		}}})
	}
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: filter, Source: "/etc/nccl.conf:2"}}
	return n
}

// At is when nodes were read.
var At = time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)

// Alone asks one check of a node and returns its verdict, which has to be the only one; the zero Verdict for none.
func Alone(t *testing.T, n *fabric.Node, id string) verdict.Verdict {
	t.Helper()
	list := Ask(n, id)
	switch len(list) {
	case 0:
		return verdict.Verdict{}
	case 1:
		return list[0]
	}
	t.Fatalf("got %v", list)
	return verdict.Verdict{}
}

// Eight is a node of eight compute ports that the site and NCCL_IB_HCA expect, with a manifest.
func Eight() *fabric.Node {
	want := 8
	n := &fabric.Node{
		At: At, Policy: &fabric.Policy{ComputePorts: &want}, ClassPresent: fabric.Known(true, "class/infiniband", At),
		Interfaces: fabric.Known([]fabric.Interface{{Name: "eno1", OperState: fabric.Known("up", "", At)}}, "", At),
		NCCL: fabric.NCCLConfig{Variables: []fabric.NCCLVariable{
			{Name: "NCCL_IB_HCA", Value: "mlx5", Source: "/etc/nccl.conf:1"}, {Name: "NCCL_SOCKET_IFNAME", Value: "eth-", Source: "/etc/nccl.conf:2"},
		}},
	}
	for i := range 8 {
		h := Card(fmt.Sprint("mlx5_", i), "X", fabric.PortActive)[0]
		h.Name, h.PCI = fmt.Sprint("mlx5_", i), fabric.Known(fmt.Sprintf("0000:%02x:00.0", i), "device", At)
		h.Ports[0].NetDev = fabric.Known(fmt.Sprint("eth-", i), "", At)
		h.Ports[0].Rate = fabric.Known(fabric.Rate{BytesPerSecond: 50e9}, "", At)
		h.Type = fabric.Known("MT4129", "", At)
		n.HCAs = append(n.HCAs, h)
		n.NetDevs = append(n.NetDevs, fabric.NetDev{Name: fmt.Sprint("eth-", i), MTU: fabric.Known(9000, "", At)})
	}
	n.DerivePorts()
	m := node.NewManifest(n)
	n.Policy.Manifest = &m
	return n
}

// Unseen is a device that moved before the exporter started.
func Unseen(h *fabric.HCA) fabric.HCA {
	u := (&fabric.HCA{Name: h.Name}).WithoutFacts(fabric.ReasonMoved, At)
	u.Moved, u.PCI = true, h.PCI
	return u
}

// RemedyOf is what a check advises for a device, with the names of the node.
func RemedyOf(t *testing.T, n *fabric.Node, check, device string) string {
	t.Helper()
	n.Derive()
	for _, v := range verdict.Failures(Ask(n, check)) {
		if v.Subject.Device == device {
			return verdict.FilledRemedy(n, &v)
		}
	}
	t.Fatalf("%s does not fail for %s", check, device)
	return ""
}

// Describe renders what failed, one a line.
func Describe(list []verdict.Verdict) string {
	var b strings.Builder
	for _, g := range verdict.Together(verdict.Failures(list)) {
		fmt.Fprintf(&b, "%s: %s. %s %s\n", strings.Join(g.Subjects, ", "), g.What,
			strings.TrimSpace(g.Evidence+" "+g.Consequence), g.Remedy)
	}
	return b.String()
}

// Gaps is what could not be checked, one a line.
func Gaps(list []verdict.Gap) string {
	var b strings.Builder
	for _, g := range list {
		fmt.Fprintf(&b, "%s: %s. %s\n", strings.Join(g.Subjects, ", "), g.What, g.Why)
	}
	return b.String()
}

// Contains requires that a text has all these parts.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("lacks %q:\n%.4000s", p, text)
		}
	}
}

// Ask asks some checks of a node.
func Ask(n *fabric.Node, ids ...string) []verdict.Verdict {
	return diagnose.Run(n, diagnose.Checks(ids...))
}

// Fresh is a healthy node of which nobody states anything, and that nobody saw before.
func Fresh(edit func(n *fabric.Node)) *fabric.Node {
	n := fabrictest.Healthy()
	n.Policy = &fabric.Policy{}
	n.Sources = []fabric.Source{{Name: fabric.SourceClass, Up: true}, {Name: fabric.SourceNCCL, Up: true}}
	for i := range n.HCAs {
		p := &n.HCAs[i].Ports[0]
		p.Seen = fabric.PortHistory{}
		p.Remember()
	}
	edit(n)
	n.Derive()
	return n
}
