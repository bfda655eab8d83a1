// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// trainer is a node with so many GPUs, each with a NIC below its switch, and with these lines in nccl.conf.
func trainer(gpus int, lines ...string) *fabric.Node {
	n := &fabric.Node{Policy: &fabric.Policy{}, At: diagnosetest.At, GPUs: fabric.Known(gpus, "bus/pci/devices", diagnosetest.At)}
	n.Host.Hypervisor = fabric.Known(false, "cpuinfo", diagnosetest.At)
	n.NCCL.Files = []fabric.NCCLFile{{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "etc/nccl.conf", diagnosetest.At)}}
	for i := range gpus {
		root, device := fmt.Sprintf("pci0000:%d0", i), fmt.Sprintf("mlx5_%d", i)
		at := func(slot int) []string {
			return []string{fmt.Sprintf("0000:%d0:01.0", i), fmt.Sprintf("0000:%d1:00.0", i), fmt.Sprintf("0000:%d2:%02x.0", i, slot)}
		}
		n.PCI.Functions = append(n.PCI.Functions,
			fabric.PCIFunction{Address: fmt.Sprintf("0000:%d3:00.0", i), Kind: fabric.PCIGPU, Root: root, Bridges: at(0), Vendor: fabric.Known(0x10de, "vendor", n.At)},
			fabric.PCIFunction{Address: fmt.Sprintf("0000:%d4:00.0", i), Kind: fabric.PCINIC, Root: root, Bridges: at(1), HCAs: []string{device}})
		n.HCAs = append(n.HCAs, fabric.HCA{Name: device, Driver: fabric.Known("mlx5_core", "driver", n.At), Ports: []fabric.Port{{
			Number: 1, Role: fabric.Known(fabric.RoleCompute, "link_layer", n.At), State: fabric.Known(fabric.PortActive, "state", n.At),
			LinkLayer: fabric.Known(fabric.LinkEthernet, "link_layer", n.At),
		}}})
	}
	for i, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		number, err := strconv.ParseInt(value, 10, 64)
		n.NCCL.Variables = append(n.NCCL.Variables, fabric.NCCLVariable{
			Name: name, Value: value, Source: fmt.Sprintf("/etc/nccl.conf:%d", i+1), Number: number, IsNumber: err == nil,
		})
	}
	slices.SortFunc(n.NCCL.Variables, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	return n
}

func TestRDMASwitchedOff(t *testing.T) {
	const off = "NCCL_IB_DISABLE=1"
	far := func(n *fabric.Node) { // each NIC on a host bridge of its own, as in servers without PCIe switches
		for i := range n.PCI.Functions {
			f := &n.PCI.Functions[i]
			f.NUMANode = fabric.Known(0, "numa_node", n.At)
			if f.Kind == fabric.PCINIC {
				f.Root += "n"
			}
		}
	}
	everyPort := func(edit func(h *fabric.HCA, p *fabric.Port)) func(n *fabric.Node) {
		return func(n *fabric.Node) {
			for h, p := range n.Ports {
				edit(h, p)
			}
		}
	}
	driver := func(name string) func(n *fabric.Node) {
		return everyPort(func(h *fabric.HCA, _ *fabric.Port) { h.Driver = fabric.Known(name, "driver", diagnosetest.At) })
	}
	for _, test := range []struct {
		name  string
		gpus  int
		lines []string
		edit  func(n *fabric.Node)
		want  verdict.Status
		says  string
	}{
		{"off", 8, []string{off}, nil, verdict.Failed, "NCCL_IB_DISABLE=1. 8 active RDMA ports of role compute: mlx5_0, mlx5_1, mlx5_2, mlx5_3, ..."},
		{"any number but 0", 2, []string{"NCCL_IB_DISABLE=2"}, nil, verdict.Failed, "mlx5_0, mlx5_1."},
		{"sockets", 8, []string{"NCCL_NET=socket"}, nil, verdict.Failed, "NCCL_NET=socket."},
		{"sockets, whatever plugin there is", 8, []string{"NCCL_NET=Socket", "NCCL_NET_PLUGIN=ofi"}, nil, verdict.Failed, "NCCL_NET=Socket."},
		{"a plugin that is none", 8, []string{off, "NCCL_NET_PLUGIN=none"}, nil, verdict.Failed, ""},
		{"off, and asked for", 8, []string{off, "NCCL_NET=IB"}, nil, verdict.Failed, "NCCL_IB_DISABLE=1, NCCL_NET=IB."},
		{"InfiniBand far from the GPUs", 4, []string{off}, func(n *fabric.Node) {
			far(n)
			everyPort(func(_ *fabric.HCA, p *fabric.Port) {
				p.LinkLayer = fabric.Known(fabric.LinkInfiniBand, "link_layer", diagnosetest.At)
			})(n)
		}, verdict.Failed, ""},
		{"far, and the site says what for", 4, []string{off}, func(n *fabric.Node) { far(n); n.Policy.ComputePorts = new(4) }, verdict.Failed, ""},
		{"far, and of that role", 4, []string{off}, func(n *fabric.Node) {
			far(n)
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("mlx5_.*"), Role: fabric.RoleCompute}}
		}, verdict.Failed, ""},
		{"far, and named", 4, []string{off, "NCCL_IB_HCA=mlx5"}, far, verdict.Failed, ""},
		{"one GPU and the NIC below its switch", 1, []string{off}, nil, verdict.Failed, "1 active RDMA port of role compute: mlx5_0."},

		{"not set", 8, nil, nil, "", ""},
		{"the site trains over no RDMA", 8, []string{off}, func(n *fabric.Node) { n.Policy.ComputePorts = new(0) }, "", ""},
		{"the site trains over no RDMA, but for these ports", 8, []string{off}, func(n *fabric.Node) {
			n.Policy.ComputePorts = new(0)
			n.Policy.Roles = []fabric.RoleRule{{Device: regexp.MustCompile("mlx5_.*"), Role: fabric.RoleCompute}}
		}, verdict.Failed, ""},
		{"set to 0", 8, []string{"NCCL_IB_DISABLE=0"}, nil, verdict.OK, ""},
		{"a word is 0", 8, []string{"NCCL_IB_DISABLE=true"}, nil, verdict.OK, ""},
		{"the network that there is", 8, []string{"NCCL_NET=IB"}, nil, verdict.OK, ""},
		{"EFA", 8, []string{off}, func(n *fabric.Node) { driver("efa")(n); n.Policy.ComputePorts = new(32) }, "", ""},
		{"EFA and its plugin", 8, []string{off, "NCCL_NET=AWS Libfabric"}, driver("efa"), "", ""},
		{"EFA, and its plugin is excluded by name", 8, []string{"NCCL_NET=Socket"}, driver("efa"), verdict.Failed, "NCCL_NET=Socket. 8 active RDMA ports"},
		{"EFA, and NCCL may not use plugins", 8, []string{"NCCL_NET_PLUGIN=None", "NCCL_IB_HCA=mlx5"}, func(n *fabric.Node) {
			everyPort(func(h *fabric.HCA, p *fabric.Port) {
				h.Name, p.State = strings.Replace(h.Name, "mlx5_", "rdmap", 1), fabric.UnknownFact[fabric.PortState](fabric.ReasonDriverConstant, "state", diagnosetest.At)
			})(n)
			for i := range n.PCI.Functions {
				for k := range n.PCI.Functions[i].HCAs {
					n.PCI.Functions[i].HCAs[k] = strings.Replace(n.PCI.Functions[i].HCAs[k], "mlx5_", "rdmap", 1)
				}
			}
			driver("efa")(n)
		}, verdict.Failed, "NCCL_NET_PLUGIN=None. 8 active RDMA ports"},
		{"EFA far from the GPUs", 4, []string{"NCCL_NET=Socket"}, func(n *fabric.Node) { far(n); driver("efa")(n) }, "", ""},
		{"no plugin, which these need none", 8, []string{"NCCL_NET_PLUGIN=none"}, nil, "", ""},
		{"TCPX", 8, []string{off, "NCCL_NET=GPUDirectTCPX_v7"}, nil, "", ""},
		{"FasTrak by its settings", 8, []string{off, "NCCL_FASTRAK_CTRL_DEV=eth0"}, nil, "", ""},
		{"a plugin by its library", 8, []string{off, "NCCL_NET_PLUGIN=/opt/libnccl-net-x.so"}, nil, "", ""},
		{"MANA of a machine without fabric", 2, []string{off}, driver("mana"), "", ""},
		{"MANA as fabric", 2, []string{off, "NCCL_IB_HCA=mlx5"}, driver("mana"), verdict.Failed, ""},
		{"for storage", 8, []string{off}, everyPort(func(_ *fabric.HCA, p *fabric.Port) { p.Role.Value = fabric.RoleStorage }), "", ""},
		{"one GPU and a NIC far from it", 1, []string{off}, far, "", ""},
		{"one GPU and InfiniBand far from it", 1, []string{off}, func(n *fabric.Node) {
			far(n)
			n.HCAs[0].Ports[0].LinkLayer = fabric.Known(fabric.LinkInfiniBand, "link_layer", diagnosetest.At)
		}, "", ""},
		{"GPUs and Ethernet far from them", 4, []string{off}, far, "", ""},
		{"no GPU", 8, []string{off}, func(n *fabric.Node) {
			n.GPUs.Value = 0
			n.PCI.Functions = slices.DeleteFunc(n.PCI.Functions, func(f fabric.PCIFunction) bool { return f.Kind == fabric.PCIGPU })
		}, "", ""},
		{"nothing has a link", 8, []string{off}, everyPort(func(_ *fabric.HCA, p *fabric.Port) { p.State.Value = fabric.PortDown }), "", ""},
		{"NCCL leaves these out anyway", 2, []string{off, "NCCL_IB_HCA=^mlx5"}, nil, "", ""},

		{"states are hidden", 2, []string{off}, everyPort(func(_ *fabric.HCA, p *fabric.Port) {
			p.State = fabric.UnknownFact[fabric.PortState](fabric.ReasonIO, "state", diagnosetest.At)
		}), verdict.Unknown, ""},
		{"drivers are hidden", 2, []string{off}, everyPort(func(h *fabric.HCA, _ *fabric.Port) {
			h.Driver = fabric.UnknownFact[string](fabric.ReasonIO, "driver", diagnosetest.At)
		}), verdict.Unknown, ""},
		{"devices are hidden", 2, []string{off}, func(n *fabric.Node) {
			n.HCAs, n.ClassPresent = nil, fabric.UnknownFact[bool](fabric.ReasonIO, "class/infiniband", diagnosetest.At)
		}, verdict.Unknown, ""},
		{"a hypervisor hides distances", 2, []string{off}, func(n *fabric.Node) {
			n.Host.Hypervisor.Value = true
			for i := range n.PCI.Functions {
				n.PCI.Functions[i].Bridges = nil
			}
		}, "", ""},
		{"another file is hidden", 2, []string{"NCCL_NET=IB"}, func(n *fabric.Node) {
			n.NCCL.Files = append(n.NCCL.Files, fabric.NCCLFile{Path: "/env", Exists: fabric.UnknownFact[bool](fabric.ReasonPrivilege, "env", diagnosetest.At)})
		}, verdict.Unknown, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := trainer(test.gpus, test.lines...)
			if test.edit != nil {
				test.edit(n)
			}
			v := diagnosetest.Alone(t, n, "nccl_rdma_off")
			if v.Status != test.want || !strings.Contains(v.Evidence, test.says) {
				t.Errorf("%q %s: %s", v.Status, v.Evidence, v.Consequence)
			}
			if v.Status == verdict.Failed && (v.Subject.File == "" || strings.Contains(v.Consequence, "fail") != (test.name == "off, and asked for")) {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestNoNetworkOverEFA: without its plugin NCCL has no RDMA over EFA, and fails where it may use nothing else.
func TestNoNetworkOverEFA(t *testing.T) {
	n := trainer(8, "NCCL_NET=IB")
	for i := range n.HCAs {
		n.HCAs[i].Driver = fabric.Known("efa", "driver", diagnosetest.At)
	}
	if v := diagnosetest.Alone(t, n, "nccl_rdma_off"); v.Status != verdict.Failed || v.Consequence != "NCCL finds no network: jobs fail when they start." {
		t.Errorf("%+v", v)
	}
	n = trainer(8, "NCCL_IB_HCA=absent")
	n.ClassPresent = fabric.Known(true, "class/infiniband", diagnosetest.At)
	if v := diagnosetest.Alone(t, n, "nccl_devices"); v.Status != verdict.Failed {
		t.Errorf("verbs: %+v", v)
	}
	for i := range n.HCAs {
		n.HCAs[i].Driver = fabric.Known("efa", "driver", diagnosetest.At)
	}
	if v := diagnosetest.Alone(t, n, "nccl_devices"); v.Status != "" {
		t.Errorf("its plugin ignores the list: %+v", v)
	}
}
