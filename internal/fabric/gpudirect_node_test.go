// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
)

// gdrNode is two GPUs below switches of their own, each with its NIC, as on a DGX.
func gdrNode() *Node {
	n := switched(2, 1, "one").node()
	n.Host.Kernel = ok("6.8.0-1030-nvidia")
	n.NCCL = *withNCCL().Value
	n.GPUDirect = nearby().Direct
	n.GPUDriver = GPUDriver{Loaded: ok(true), Version: ok("580.95.05"), CUDA: ok("13.0")}
	for i, f := range n.PCI.GPUs() {
		n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, GPU{
			Index: i, Address: f.Address, Lost: ok(false), Name: ok("NVIDIA H100 80GB HBM3"), NUMANode: AbsentFact[int]("", at), ComputeCap: ok(90),
			NVLinks: ok([]NVLink{link(NVLinkToSwitch, "0000:05:00.0")}), Fabric: ok(GPUFabric{State: GPUFabricCompleted}),
		})
		f.IOMMUType = ok("identity")
	}
	n.GPUDriver.P2P = []GPUPair{{A: 0, B: 1, Write: ok(P2POK)}}
	for i := range n.HCAs {
		n.HCAs[i].Driver = ok("mlx5_core")
		f := n.PCI.NIC(n.HCAs[i].Name)
		f.IOMMUType, f.Vendor, f.Device = ok("identity"), ok(0x15b3), ok(0x1021)
	}
	return n
}

func TestDeriveGDR(t *testing.T) {
	drop := func(n *Node, device string) { // a NIC that fell off the bus
		for i := range n.HCAs {
			if n.HCAs[i].Name == device {
				n.HCAs = append(n.HCAs[:i], n.HCAs[i+1:]...)
				return
			}
		}
	}
	for _, c := range []struct {
		name string
		edit func(n *Node)
		want [2]string // of both GPUs: NIC, verdict
		says string    // of the second
	}{
		{"healthy", func(*Node) {}, [2]string{"mlx5_0 dmabuf", "mlx5_1 dmabuf"}, "PIX apart"},
		{"no module", func(n *Node) { n.GPUDirect.Peermem, n.GPUDirect.OpenModule = AbsentFact[Peermem]("", at), ok(false) }, [2]string{"mlx5_0 module", "mlx5_1 module"}, ""},
		{"ACS above one GPU", func(n *Node) {
			g := n.PCI.GPUs()[1]
			n.PCI.Function(g.Bridges[2]).Config.ACS = ok(ACS(0x1d))
		}, [2]string{"mlx5_0 dmabuf", "mlx5_1 acs"}, "0000:22:01.0"},
		{"ACS unreadable", func(n *Node) {
			g := n.PCI.GPUs()[1]
			n.PCI.Function(g.Bridges[2]).Config = UnknownPCIConfig(ReasonPrivilege, "", at)
		}, [2]string{"mlx5_0 dmabuf", "mlx5_1 privilege"}, "NCCL does not check it"},
		{"IOMMU of one NIC", func(n *Node) { n.PCI.NIC("mlx5_1").IOMMUType = ok("DMA-FQ") }, [2]string{"mlx5_0 dmabuf", "mlx5_1 iommu"}, "an IOMMU translates"},
		{"one NIC gone, NVLink to the other GPU", func(n *Node) { drop(n, "mlx5_1") }, [2]string{"mlx5_0 dmabuf", "mlx5_0 dmabuf"}, "by NVLink through GPU 0000:14:00.0"},
		{"one NIC gone, NVLinks down", func(n *Node) {
			drop(n, "mlx5_1")
			n.GPUDriver.GPUs[0].NVLinks = ok([]NVLink{down(link(NVLinkToSwitch, ""))})
		}, [2]string{"mlx5_0 dmabuf", "mlx5_0 distance"}, "SYS apart"},
		{"no NIC", func(n *Node) { n.HCAs = nil }, [2]string{" absent", " absent"}, "no compute NIC"},
		{"a GPU lost", func(n *Node) { n.GPUDriver.GPUs[1] = GPU{Index: 1, Lost: ok(true)} }, [2]string{"mlx5_0 dmabuf", "mlx5_1 missing"}, "does not list this GPU"},
		{"no driver", func(n *Node) { n.GPUDriver = GPUDriver{Loaded: ok(false)} }, [2]string{"mlx5_0 driver", "mlx5_1 driver"}, "no GPU driver"},
		{"NVML was not asked", func(n *Node) { n.GPUDriver = GPUDriver{} }, [2]string{"mlx5_0 not_read", "mlx5_1 not_read"}, ""},
		{"NCCL's file unreadable", func(n *Node) { n.NCCL.Files[0].Exists = UnknownFact[bool](ReasonPrivilege, "", at) }, [2]string{"mlx5_0 privilege", "mlx5_1 privilege"}, ""},
		{"flat guest", func(n *Node) {
			n.Host.Hypervisor = ok(true)
			for i := range n.PCI.Functions {
				n.PCI.Functions[i].Bridges = nil
			}
		}, [2]string{" virtual", " virtual"}, ""},
		{"Grace, NIC on the processor", func(n *Node) {
			for i := range n.GPUDriver.GPUs {
				n.GPUDriver.GPUs[i].NUMANode, n.GPUDriver.GPUs[i].Name = ok(2+8*i), ok("NVIDIA GB200")
			}
			for i, f := range n.PCI.GPUs() {
				f.Bridges, f.Root = nil, []string{"pci0008:00", "pci0018:00"}[i]
				f.NUMANode, f.IOMMUType = ok(i), ok("DMA")
			}
		}, [2]string{"mlx5_0 dmabuf", "mlx5_1 dmabuf"}, "P2C apart"},
	} {
		n := gdrNode()
		c.edit(n)
		n.Derive()
		if len(n.GDR) != 2 {
			t.Errorf("%s: %d verdicts", c.name, len(n.GDR))
			continue
		}
		for i, g := range n.GDR {
			verdict, _ := gdrWords(g)
			if g.Usable.State == Absent {
				verdict = "absent"
			}
			if got := g.NIC + " " + verdict; got != c.want[i] || g.GPU != n.PCI.GPUs()[i].Address {
				t.Errorf("%s: GPU %d: %s, want %s: %s", c.name, i, got, c.want[i], g.Evidence)
			}
		}
		if !strings.Contains(n.GDR[1].Evidence, c.says) {
			t.Errorf("%s: %q does not say %q", c.name, n.GDR[1].Evidence, c.says)
		}
	}
}
