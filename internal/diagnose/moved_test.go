// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/node"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// eight is a node of eight compute ports that the site and NCCL_IB_HCA expect, with a manifest.
func eight() *fabric.Node {
	want := 8
	n := &fabric.Node{
		At: at, Policy: &fabric.Policy{ComputePorts: &want}, ClassPresent: fabric.Known(true, "class/infiniband", at),
		Interfaces: fabric.Known([]fabric.Interface{{Name: "eno1", OperState: fabric.Known("up", "", at)}}, "", at),
		NCCL: fabric.NCCLConfig{Variables: []fabric.NCCLVariable{
			{Name: "NCCL_IB_HCA", Value: "mlx5", Source: "/etc/nccl.conf:1"}, {Name: "NCCL_SOCKET_IFNAME", Value: "eth-", Source: "/etc/nccl.conf:2"},
		}},
	}
	for i := range 8 {
		h := card(fmt.Sprint("mlx5_", i), "X", fabric.PortActive)[0]
		h.Name, h.PCI = fmt.Sprint("mlx5_", i), fabric.Known(fmt.Sprintf("0000:%02x:00.0", i), "device", at)
		h.Ports[0].NetDev = fabric.Known(fmt.Sprint("eth-", i), "", at)
		h.Ports[0].Rate = fabric.Known(fabric.Rate{BytesPerSecond: 50e9}, "", at)
		h.Type = fabric.Known("MT4129", "", at)
		n.HCAs = append(n.HCAs, h)
		n.NetDevs = append(n.NetDevs, fabric.NetDev{Name: fmt.Sprint("eth-", i), MTU: fabric.Known(9000, "", at)})
	}
	n.DerivePorts()
	m := node.NewManifest(n)
	n.Policy.Manifest = &m
	return n
}

// unseen is a device that moved before the exporter started.
func unseen(h *fabric.HCA) fabric.HCA {
	u := (&fabric.HCA{Name: h.Name}).WithoutFacts(fabric.ReasonMoved, at)
	u.Moved, u.PCI = true, h.PCI
	return u
}

var aboutMoved = []*verdict.Check{Find("compute_ports"), Find("port_active"), Find("port_rate"), Find("nccl_devices"), Find("nccl_socket_interface"), Find("manifest"), Find("mtu_uniform"), Find("roce_dscp")}

// What pods have fails no check and leaves none unknown, seen before or not; what is missing beside it still fails.
func TestMovedIsNoFault(t *testing.T) {
	for name, moved := range map[string]func(*fabric.HCA) fabric.HCA{
		"seen": func(h *fabric.HCA) fabric.HCA { return h.Elsewhere(at) }, "never seen": unseen,
		"interface": func(h *fabric.HCA) fabric.HCA {
			h.Ports[0].NetDev = fabric.UnknownFact[string](fabric.ReasonMoved, "", at)
			return *h
		},
	} {
		for _, count := range []int{1, 7, 8} {
			n := eight()
			for i := range count {
				n.HCAs[i] = moved(&n.HCAs[i])
			}
			n.NetDevs = n.NetDevs[count:]
			for _, d := range n.NetDevs {
				n.Interfaces.Value = append(n.Interfaces.Value, fabric.Interface{Name: d.Name, OperState: fabric.Known("up", "", at)})
			}
			n.DerivePorts()
			if list := Run(n, aboutMoved); len(verdict.Failures(list))+len(verdict.Unknowns(list)) > 0 {
				t.Errorf("%s, %d: %+v", name, count, append(verdict.Failures(list), verdict.Unknowns(list)...))
			}
			if text := Elsewhere(n); !strings.Contains(text, "mlx5_0") || strings.Contains(text, "mlx5_7") != (count == 8) {
				t.Errorf("%s, %d: %q", name, count, text)
			}
			n.HCAs = n.HCAs[:7] // one left the bus
			n.DerivePorts()
			failed := map[string]bool{}
			for _, v := range verdict.Failures(Run(n, aboutMoved)) {
				failed[v.Check.ID] = true
			}
			if !failed["compute_ports"] || !failed["manifest"] {
				t.Errorf("%s, %d moved, one gone: failed are %v", name, count, failed)
			}
		}
	}
	if text := Elsewhere(eight()); text != "" {
		t.Errorf("nothing is elsewhere: %q", text)
	}
}

// Devices that are for something else make up for no compute port.
func TestMovedStorageIsNoComputePort(t *testing.T) {
	n := eight()
	n.HCAs = n.HCAs[:7]
	storage := unseen(&fabric.HCA{Name: "mlx5_9", PCI: fabric.Known("0000:99:00.0", "", at)})
	storage.Function = fabric.Known(fabric.FunctionVF, "", at)
	n.HCAs = append(n.HCAs, storage)
	if failed := verdict.Failures(Run(n, []*verdict.Check{Find("compute_ports")})); len(failed) != 1 {
		t.Errorf("%+v", failed)
	}
}

// A port that is down on the host is reported, whatever namespace its peers are in.
func TestPortDownBesideMoved(t *testing.T) {
	peer := card("b", "X", fabric.PortActive)
	n := &fabric.Node{Policy: &fabric.Policy{}, HCAs: append(card("a", "X", fabric.PortDown), peer[0].Elsewhere(at))}
	list := Run(n, []*verdict.Check{Find("port_active")})
	if len(verdict.Failures(list)) != 1 || len(verdict.Unknowns(list)) > 0 {
		t.Errorf("%+v", list)
	}
}
