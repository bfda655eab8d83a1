// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"fmt"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/nccl"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// known is a fact that was read.
func known[T any](v T) fabric.Fact[T] { return fabric.Fact[T]{Value: v, State: fabric.OK} }

// jobNode is a node of two switches, each with a GPU and an active NIC of mlx5 below it, as a job sees it to
// which everything is given.
func jobNode() *fabric.Node {
	n := &fabric.Node{Policy: &fabric.Policy{}, ClassPresent: known(true), GPUs: known(2), Interfaces: known([]fabric.Interface(nil))}
	in := &fabric.Inside{
		Memlock: known(fabric.Memlock{Soft: fabric.NoLimit, Hard: fabric.NoLimit}), LocksAll: known(false), Libverbs: known(fabric.Library{Path: "/usr/lib/libibverbs.so.1"}),
		Providers: known([]string{"mlx5"}), Plugins: known([]string(nil)), Environment: map[string]string{},
	}
	for i := range 2 {
		nic, gpu, bridge := fmt.Sprintf("0000:%d1:00.0", i), fmt.Sprintf("0000:%d2:00.0", i), fmt.Sprintf("0000:%d0:00.0", i)
		up, down := fmt.Sprintf("0000:%d0:01.0", i), fmt.Sprintf("0000:%d0:02.0", i)
		device := fmt.Sprintf("mlx5_%d", i)
		root := fmt.Sprintf("pci0000:%d0", i)
		n.HCAs = append(n.HCAs, fabric.HCA{
			Name: device, Driver: known("mlx5_core"), PCI: known(nic),
			Ports: []fabric.Port{{Number: 1, State: known(fabric.PortActive), Role: known(fabric.RoleCompute), LinkLayer: known(fabric.LinkInfiniBand)}},
		})
		n.PCI.Functions = append(n.PCI.Functions,
			fabric.PCIFunction{Address: bridge, Kind: fabric.PCIBridge, Root: root}, fabric.PCIFunction{Address: up, Kind: fabric.PCIBridge, Root: root, Bridges: []string{bridge}},
			fabric.PCIFunction{Address: down, Kind: fabric.PCIBridge, Root: root, Bridges: []string{bridge, up}},
			fabric.PCIFunction{Address: nic, Kind: fabric.PCINIC, HCAs: []string{device}, Root: root, Bridges: []string{bridge, up}, NUMANode: known(i)},
			fabric.PCIFunction{Address: gpu, Kind: fabric.PCIGPU, Root: root, Bridges: []string{bridge, up}, NUMANode: known(i)})
		in.Verbs = known(append(in.Verbs.Value, fabric.VerbsNode{Name: fmt.Sprintf("uverbs%d", i), Device: device, Usable: known(true)}))
		in.GPUs = known(append(in.GPUs.Value, fabric.GPUNode{Minor: i, Address: gpu, UUID: fmt.Sprintf("GPU-%08d", i)}))
	}
	n.Host.Hypervisor = known(false)
	n.Inside = in
	return n
}

// insideFindings lists what is not right: id, subject, status.
func insideFindings(n *fabric.Node) string {
	var list []string
	for _, v := range diagnose.Run(n, nccl.InsideChecks()) {
		if v.Status != verdict.OK {
			list = append(list, fmt.Sprint(v.Check.ID, " ", v.Subject, " ", v.Status))
		}
	}
	return strings.Join(list, "; ")
}

// A GPU job without any RDMA device passes only where nothing says that it should have one.
func TestInsideWithoutDevices(t *testing.T) {
	eight := 8
	for name, c := range map[string]struct {
		says func(n *fabric.Node)
		want string
	}{
		"nothing said":   {func(*fabric.Node) {}, ""},
		"flag":           {func(n *fabric.Node) { n.Inside.Expected.RDMA = true }, "inside_verbs node failed"},
		"flag, one node": {func(n *fabric.Node) { n.Inside.Expected.RDMA, n.Inside.Environment[fabric.VarJobNodes] = true, "1" }, "inside_verbs node failed"},
		"NCCL_IB_HCA":    {func(n *fabric.Node) { n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "mlx5"}} }, "inside_verbs node failed"},
		"excluded ones": {func(n *fabric.Node) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "^mlx5_8"}}
		}, ""},
		"NCCL_NET":          {func(n *fabric.Node) { n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_NET", Value: "IB"}} }, "inside_verbs node failed"},
		"EFA":               {func(n *fabric.Node) { n.Inside.Environment[fabric.VarFabricProvider] = "efa" }, "inside_verbs node failed"},
		"a device node":     {func(n *fabric.Node) { n.Inside.Verbs = known([]fabric.VerbsNode{{Name: "uverbs0"}}) }, "inside_verbs node failed"},
		"GPUs are missing":  {func(n *fabric.Node) { n.Inside.Expected.GPUs = &eight }, "inside_gpus node failed"},
		"GPUs, and no RDMA": {func(n *fabric.Node) { n.Inside.Expected = fabric.InsideExpected{RDMA: true, GPUs: new(2)} }, "inside_verbs node failed"},
	} {
		n := jobNode()
		n.HCAs, n.Inside.Verbs = nil, known([]fabric.VerbsNode(nil))
		c.says(n)
		if got := insideFindings(n); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestInside(t *testing.T) {
	low := fabric.Memlock{Soft: 8 << 20, Hard: 8 << 20}
	unread := fabric.UnknownFact[bool](fabric.ReasonIO, "", fabric.Node{}.At)
	efa := func(n *fabric.Node) {
		for i := range n.HCAs {
			n.HCAs[i].Driver = known("efa")
		}
		n.Inside.Libverbs, n.Inside.Providers = fabric.AbsentFact[fabric.Library]("", n.At), known([]string(nil))
	}
	broken := func(n *fabric.Node) { // everything is missing
		n.Inside.Verbs, n.Inside.Memlock = known([]fabric.VerbsNode(nil)), known(low)
		n.Inside.Libverbs = fabric.AbsentFact[fabric.Library]("", n.At)
	}
	variable := func(name, value string) func(n *fabric.Node) {
		return func(n *fabric.Node) { n.Inside.Environment[name] = value }
	}
	for _, c := range []struct {
		name string
		edit []func(n *fabric.Node)
		want string
	}{
		{"healthy", nil, ""},
		{"no uverbs", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Verbs = known([]fabric.VerbsNode(nil)) }}, "inside_verbs node failed"},
		{"uverbs refused", []func(*fabric.Node){func(n *fabric.Node) {
			n.Inside.Verbs.Value[0].Usable, n.Inside.Verbs.Value[1].Usable = known(false), known(false)
		}}, "inside_verbs node failed"},
		{"uverbs unread", []func(*fabric.Node){func(n *fabric.Node) {
			n.Inside.Verbs.Value[0].Usable, n.Inside.Verbs.Value[1].Usable = known(false), unread
		}}, "inside_verbs node unknown"},
		{"memlock", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Memlock = known(low) }}, "inside_memlock node failed"},
		{"memlock with CAP_IPC_LOCK", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Memlock, n.Inside.LocksAll = known(low), known(true) }}, ""},
		{"memlock, capability unread", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Memlock, n.Inside.LocksAll = known(low), unread }}, "inside_memlock node unknown"},
		{"no libibverbs", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Libverbs = fabric.AbsentFact[fabric.Library]("", n.At) }}, "inside_libibverbs node failed"},
		{"loader of its own", []func(*fabric.Node){func(n *fabric.Node) {
			n.Inside.Libverbs = fabric.UnknownFact[fabric.Library](fabric.ReasonNotRead, "", n.At)
		}}, "inside_libibverbs node unknown"},
		{"no provider", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Providers = known([]string{"efa"}) }}, "inside_provider mlx5_0 failed; inside_provider mlx5_1 failed"},
		{"half of the NICs", []func(*fabric.Node){func(n *fabric.Node) { n.Inside.Verbs = known(n.Inside.Verbs.Value[:1]) }}, "inside_alignment /dev/nvidia1 failed"},
		{"half of the NICs and their GPU", []func(*fabric.Node){variable(fabric.VarCUDADevices, "0"), func(n *fabric.Node) { n.Inside.Verbs = known(n.Inside.Verbs.Value[:1]) }}, ""},
		{"the other GPU by UUID", []func(*fabric.Node){variable(fabric.VarCUDADevices, "GPU-00000001"), func(n *fabric.Node) { n.Inside.Verbs = known(n.Inside.Verbs.Value[:1]) }}, "inside_alignment /dev/nvidia1 failed"},
		{"the other GPU by Slurm, whose numbers count before CUDA's", []func(*fabric.Node){variable(fabric.VarStepGPUs, "1"), variable(fabric.VarCUDADevices, "0"), func(n *fabric.Node) { n.Inside.Verbs = known(n.Inside.Verbs.Value[:1]) }}, "inside_alignment /dev/nvidia1 failed"},
		{"NIC left out by NCCL_IB_HCA", []func(*fabric.Node){func(n *fabric.Node) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_HCA", Value: "=mlx5_0"}}
		}}, "inside_alignment /dev/nvidia1 failed"},
		{"GPUs of MIG", []func(*fabric.Node){variable(fabric.VarCUDADevices, "MIG-1")}, "inside_alignment node unknown"},
		{"device of another namespace", []func(*fabric.Node){func(n *fabric.Node) {
			for i := range n.HCAs {
				n.HCAs[i].Moved, n.HCAs[i].Ports = true, nil
			}
		}}, "inside_devices node failed"},
		{"EFA without plugin", []func(*fabric.Node){efa}, "inside_plugin node failed"},
		{"EFA with plugin", []func(*fabric.Node){efa, func(n *fabric.Node) { n.Inside.Plugins = known([]string{"/opt/amazon/ofi-nccl/lib/libnccl-net.so"}) }}, ""},
		{"one node", []func(*fabric.Node){broken, variable(fabric.VarJobNodes, "1")}, ""},
		{"one node of a larger job's step", []func(*fabric.Node){broken, variable(fabric.VarJobNodes, "1"), variable(fabric.VarStepNodes, "2")}, "inside_verbs node failed; inside_libibverbs node failed; inside_memlock node failed"},
		{"CPU job", []func(*fabric.Node){broken, func(n *fabric.Node) { n.Inside.GPUs = known([]fabric.GPUNode(nil)) }}, ""},
		{"CPU job by CUDA", []func(*fabric.Node){broken, variable(fabric.VarCUDADevices, "")}, ""},
		{"RDMA switched off", []func(*fabric.Node){broken, func(n *fabric.Node) {
			n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_NET", Value: "Socket"}}
		}}, ""},
		{"no RDMA by design", []func(*fabric.Node){broken, func(n *fabric.Node) { n.HCAs = nil }}, ""},
		{"not inside", []func(*fabric.Node){broken, func(n *fabric.Node) { n.Inside = nil }}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := jobNode()
			for _, edit := range c.edit {
				edit(n)
			}
			if got := insideFindings(n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
