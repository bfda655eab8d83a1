// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

func known[T any](v T) fabric.Fact[T] { return fabric.Known(v, "test", time.Time{}) }

// A problem of the place of a job is reported at the line that needs it.
func TestPlace(t *testing.T) {
	inside := func(edit func(*fabric.Node)) func(*fabric.Node) {
		return func(n *fabric.Node) {
			ports := 1
			n.Host.Hypervisor, n.Policy.ComputePorts = known(false), &ports
			n.HCAs = []fabric.HCA{{Name: "mlx5_0", Driver: known("mlx5_core"), Ports: []fabric.Port{{
				Number: 1, State: known(fabric.PortActive), Role: known(fabric.RoleCompute), LinkLayer: known(fabric.LinkInfiniBand),
			}}}}
			n.PCI.Functions = []fabric.PCIFunction{
				{Address: "0000:02:00.0", Kind: fabric.PCIGPU, Root: "pci0000:00", Bridges: []string{"0000:01:00.0"}},
				{Address: "0000:03:00.0", Kind: fabric.PCINIC, Root: "pci0000:00", Bridges: []string{"0000:01:00.0"}, HCAs: []string{"mlx5_0"}},
			}
			n.Inside = &fabric.Inside{
				Memlock: known(fabric.Memlock{Soft: fabric.NoLimit, Hard: fabric.NoLimit}), LocksAll: known(false),
				Verbs: known([]fabric.VerbsNode{{Name: "uverbs0", Device: "mlx5_0", Usable: known(true)}}), Libverbs: known(fabric.Library{Path: "/libibverbs.so.1"}),
				GPUs: known([]fabric.GPUNode{{Address: "0000:02:00.0"}}), Providers: known([]string{"mlx5"}), Plugins: known([]string(nil)),
			}
			edit(n)
		}
	}
	as := func(*fabric.Node) {}
	plugins := func(list ...string) func(*fabric.Node) {
		return inside(func(n *fabric.Node) { n.Inside.Plugins = known(list) })
	}
	rail := func(d fabric.Fact[fabric.Distance]) func(*fabric.Node) {
		return func(n *fabric.Node) {
			n.PCI.Rails = []fabric.Rail{{GPU: "0000:02:00.0", NIC: "mlx5_0", Distance: d}}
		}
	}
	for _, c := range []struct {
		name, setting string
		node          func(*fabric.Node)
		want          string // of the first finding; empty: nothing about the node
	}{
		{"level allows", "NCCL_NET_GDR_LEVEL=PIX", rail(known(fabric.DistancePIX)), ""},
		{"level is nearer", "NCCL_NET_GDR_LEVEL=PIX", rail(known(fabric.DistancePXB)), "wrong_here (critical): The level is nearer than 0000:02:00.0 and mlx5_0 (PXB)"},
		{"level of NCCL is nearer, too", "NCCL_NET_GDR_LEVEL=PIX", rail(known(fabric.DistanceSYS)), ""},
		{"level as a number", "NCCL_NET_GDR_LEVEL=0", rail(known(fabric.DistancePIX)), "wrong_here (critical): The level is nearer"},
		{"distance unknown", "NCCL_NET_GDR_LEVEL=PIX", rail(fabric.UnknownFact[fabric.Distance](fabric.ReasonIO, "", time.Time{})), "undecided (info): The distance of 0000:02:00.0 and mlx5_0 is not known"},
		{"plugin, not inside", "NCCL_NET_PLUGIN=ofi", as, "undecided (info): Only the environment of the job shows"},
		{"plugin is there", "NCCL_NET_PLUGIN=ofi", plugins("/opt/libnccl-net-ofi.so"), ""},
		{"plugin is missing", "NCCL_NET_PLUGIN=ofi", plugins("/opt/libnccl-net-x.so"), "wrong_here (warning): There is no plugin ofi here: NCCL goes on without it"},
		{"no plugin wanted", "NCCL_NET_PLUGIN=none", plugins(), ""},
		{"folders unknown", "NCCL_NET_PLUGIN=ofi", inside(func(n *fabric.Node) {
			n.Inside.Plugins = fabric.UnknownFact[[]string](fabric.ReasonIO, "", time.Time{})
		}), "undecided (info): The folders of the dynamic loader"},
		{"network without plugin", "NCCL_NET=AWS Libfabric", plugins(), "wrong_here (critical): There is no plugin libnccl-net.so here"},
		{"network with a plugin", "NCCL_NET=AWS Libfabric", plugins("/opt/libnccl-net.so"), ""},
		{"network of NCCL", "NCCL_NET=IB", inside(as), ""},
		{"no uverbs", "NCCL_NET=IB", inside(func(n *fabric.Node) { n.Inside.Verbs = known([]fabric.VerbsNode(nil)) }), "wrong_here (critical): The job has no device node of an RDMA device"},
		{"memlock", "NCCL_IB_TIMEOUT=20", inside(func(n *fabric.Node) { n.Inside.Memlock = known(fabric.Memlock{Soft: 8 << 20, Hard: 8 << 20}) }), "wrong_here (warning): The job cannot lock the memory that RDMA needs"},
		{"memlock, and sockets wanted", "NCCL_NET=Socket", inside(func(n *fabric.Node) { n.Inside.Memlock = known(fabric.Memlock{Soft: 8 << 20, Hard: 8 << 20}) }), "wrong_here (critical): RDMA is disabled"},
		{"memlock of a job without RDMA settings", "NCCL_DEBUG=INFO", inside(func(n *fabric.Node) { n.Inside.Memlock = known(fabric.Memlock{Soft: 8 << 20, Hard: 8 << 20}) }), ""},
	} {
		node := &fabric.Node{Policy: &fabric.Policy{}}
		c.node(node)
		in, err := Environment("environment", []string{c.setting})
		if err != nil {
			t.Fatal(err)
		}
		text := describe(Judge([]Input{in}, Newest(), node))
		_, finding, _ := strings.Cut(text, ": ")
		if c.want == "" && (strings.Contains(text, string(WrongHere)) || strings.Contains(text, string(Undecided))) || !strings.HasPrefix(finding, c.want) {
			t.Errorf("%s: %swant %q", c.name, text, c.want)
		}
	}
}
