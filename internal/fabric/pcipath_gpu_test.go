// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"
	"testing"
)

const gpuA, gpuB = "0000:1b:00.0", "0000:43:00.0"

func link(kind NVLinkEnd, remote string) NVLink {
	return NVLink{Active: ok(true), Remote: ok(remote), RemoteKind: ok(kind), Speed: ok(26.5e9)}
}

func down(l NVLink) NVLink {
	l.Active = ok(false)
	return l
}

// pairOf is two GPUs of one socket below different switches, each with these links.
func pairOf(a, b []NVLink) *Node {
	gpus := []GPU{{Index: 0, Address: gpuA, NVLinks: ok(a)}, {Index: 1, Address: gpuB, NVLinks: ok(b)}}
	for i := range gpus {
		gpus[i].Name, gpus[i].NUMANode, gpus[i].Fabric = ok("NVIDIA H100 80GB HBM3"), AbsentFact[int]("", at), AbsentFact[GPUFabric]("", at)
	}
	return &Node{
		At: at, Policy: &Policy{}, Host: Host{Hypervisor: ok(false)},
		PCI:       busOf(functionAt(PCIGPU, "15:01.0/16:00.0/17:03.0/1b:00.0", 0), functionAt(PCIGPU, "3d:01.0/3e:00.0/3f:03.0/43:00.0", 0)),
		GPUDriver: GPUDriver{Loaded: ok(true), GPUs: gpus, P2P: []GPUPair{{A: 0, B: 1, Write: ok(P2POK)}}},
	}
}

func TestGPUDistance(t *testing.T) {
	toSwitch := []NVLink{link(NVLinkToSwitch, "0000:05:00.0")}
	registered := ok(GPUFabric{State: GPUFabricCompleted, Clique: 1, Cluster: "c"})
	fabrics := func(n *Node, a, b Fact[GPUFabric]) { n.GPUDriver.GPUs[0].Fabric, n.GPUDriver.GPUs[1].Fabric = a, b }
	for _, c := range []struct {
		name string
		a, b []NVLink
		edit func(n *Node)
		want string // class, or reason
	}{
		{"no links", nil, nil, nil, "NODE"},
		{"bridged", []NVLink{link(NVLinkToGPU, gpuB)}, []NVLink{link(NVLinkToGPU, gpuA)}, nil, "NVL"},
		{"bridged, address in capitals", nil, []NVLink{link(NVLinkToGPU, "0000:1B:00.0")}, nil, "NVL"},
		{"bridged to others", []NVLink{link(NVLinkToGPU, "0000:61:00.0")}, []NVLink{link(NVLinkToGPU, "0000:9d:00.0")}, nil, "NODE"},
		{"bridge down", []NVLink{down(link(NVLinkToGPU, gpuB))}, []NVLink{down(link(NVLinkToGPU, gpuA))}, nil, "NODE"},
		{"one of two links down", []NVLink{down(link(NVLinkToGPU, gpuB)), link(NVLinkToGPU, gpuB)}, []NVLink{link(NVLinkToGPU, gpuA)}, nil, "NVL"},
		{"to the processor", []NVLink{link(NVLinkToCPU, "")}, []NVLink{link(NVLinkToCPU, "")}, nil, "NODE"},
		{"switched, A100", toSwitch, toSwitch, nil, "NVL"},
		{"switched, H100", toSwitch, toSwitch, func(n *Node) { fabrics(n, registered, registered) }, "NVL"},
		{"fabric manager not started", toSwitch, toSwitch, func(n *Node) {
			fabrics(n, registered, ok(GPUFabric{State: GPUFabricNotStarted}))
		}, "NODE"},
		{"two partitions", toSwitch, toSwitch, func(n *Node) {
			fabrics(n, registered, ok(GPUFabric{State: GPUFabricCompleted, Clique: 2, Cluster: "c"}))
		}, "NODE"},
		{"switched, but no peer-to-peer", toSwitch, toSwitch, func(n *Node) { n.GPUDriver.P2P[0].Write = ok(P2PNotSupported) }, "NODE"},
		{"switched, peer-to-peer unknown", toSwitch, toSwitch, func(n *Node) { n.GPUDriver.P2P = nil }, "not_read"},
		{"one side has no link up", toSwitch, []NVLink{down(toSwitch[0])}, nil, "NODE"},
		{"links unknown", toSwitch, nil, func(n *Node) {
			n.GPUDriver.GPUs[1].NVLinks = UnknownFact[[]NVLink](ReasonUnsupported, "", at)
		}, "unsupported"},
		{"links unknown of a GPU without NVLink", nil, nil, func(n *Node) {
			n.GPUDriver.GPUs[1].NVLinks = UnknownFact[[]NVLink](ReasonUnsupported, "", at)
		}, "unsupported"},
		{"no links at all", nil, nil, func(n *Node) {
			for i := range n.GPUDriver.GPUs {
				n.GPUDriver.GPUs[i].NVLinks = AbsentFact[[]NVLink]("", at)
			}
		}, "NODE"},
		{"a GPU lost", toSwitch, toSwitch, func(n *Node) { n.GPUDriver.GPUs[1].Address = "" }, "missing"},
		{"no driver", toSwitch, toSwitch, func(n *Node) { n.GPUDriver = GPUDriver{Loaded: ok(false)} }, "NODE"},
		{"driver not asked", toSwitch, toSwitch, func(n *Node) { n.GPUDriver = GPUDriver{} }, "NODE"},
		{"driver hangs", toSwitch, toSwitch, func(n *Node) { n.GPUDriver = GPUDriver{Loaded: UnknownFact[bool](ReasonStuck, "", at)} }, "stuck"},
	} {
		n := pairOf(c.a, c.b)
		if c.edit != nil {
			c.edit(n)
		}
		a, b := n.PCI.Function(gpuA), n.PCI.Function(gpuB)
		for _, d := range []Fact[Distance]{n.GPUDistance(a, b), n.GPUDistance(b, a), n.Distance(a, b)} {
			got := string(d.Meta().Reason)
			if v, known := d.Get(); known {
				got = v.String()
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		if d := n.Distance(a, a); d.Or(DistanceSYS) != DistanceLOC {
			t.Errorf("%s: %+v from itself", c.name, d)
		}
	}
}

func TestGPUNICDistance(t *testing.T) {
	for _, c := range []struct {
		name   string
		nic    string
		numa   int
		edit   func(g *GPU)
		want   string
		number float64
	}{
		{"x86", "20:00.0/21:00.0", 0, func(*GPU) {}, "NODE", 4},
		{"C2C, memory is a NUMA node", "20:00.0/21:00.0", 0, func(g *GPU) { g.NUMANode = ok(2) }, "P2C", 2},
		{"C2C, the driver keeps its memory", "20:00.0/21:00.0", 0, func(g *GPU) { g.Name = ok("NVIDIA GB200") }, "P2C", 2},
		{"C2C, NIC of the other processor", "20:00.0/21:00.0", 1, func(g *GPU) { g.NUMANode = ok(2) }, "SYS", 5},
		{"C2C, NIC below the switch of the GPU", "15:01.0/16:00.0/17:00.0/18:00.0", 0, func(g *GPU) { g.NUMANode = ok(2) }, "PIX", 1},
		{"nothing known of the GPU", "20:00.0/21:00.0", 0, func(g *GPU) { *g = g.WithoutFacts(ReasonStuck, at) }, "NODE", 4},
	} {
		n := pairOf(nil, nil)
		c.edit(&n.GPUDriver.GPUs[0])
		gpu, nic := n.PCI.Function(gpuA), functionAt(PCINIC, c.nic, c.numa)
		for _, d := range []Fact[Distance]{n.Distance(gpu, &nic), n.Distance(&nic, gpu)} {
			if v, known := d.Get(); !known || v.String() != c.want || v.Number() != c.number {
				t.Errorf("%s: %+v, want %s", c.name, d, c.want)
			}
		}
	}
	n := pairOf(nil, nil)
	a, b := functionAt(PCINIC, "15:01.0/16:00.0/17:00.0/18:00.0", 0), functionAt(PCINIC, "15:01.0/16:00.0/17:01.0/19:00.0", 0)
	if d := n.Distance(&a, &b); d.Or(DistanceSYS) != DistancePIX {
		t.Errorf("between NICs: %+v", d)
	}
}

func TestCoherent(t *testing.T) {
	for product, want := range map[string]bool{
		"NVIDIA GH200 480GB": true, "NVIDIA GB200": true, "NVIDIA GB300": true, "NVIDIA GB10": true,
		"NVIDIA B200": false, "NVIDIA H100 80GB HBM3": false, "NVIDIA GeForce GT 710": false, "NVIDIA RTX PRO 6000 Blackwell Server Edition": false, "GB": false, "": false,
	} {
		g := GPU{Name: ok(product), NUMANode: AbsentFact[int]("", at)}
		if c, known := g.Coherent().Get(); !known || c != want {
			t.Errorf("%q: %v, want %v", product, g.Coherent(), want)
		}
	}
	g := GPU{Name: ok("NVIDIA B200"), NUMANode: UnknownFact[int](ReasonUnsupported, "", at)}
	if c := g.Coherent(); c.Reason != ReasonUnsupported {
		t.Errorf("without a word of its memory: %+v", c)
	}
}

// The order of classes decides which NIC is nearer; their numbers are what alert rules compare.
func TestDistances(t *testing.T) {
	var names []string
	before := -1.0
	for _, d := range Distances() {
		names = append(names, d.String())
		if d.Number() < before {
			t.Errorf("%s is numbered %v, below the class before it", d, d.Number())
		}
		before = d.Number()
	}
	if want := []string{"LOC", "NVL", "PIX", "PXB", "P2C", "PHB", "NODE", "SYS"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	for _, d := range Distances() {
		if p := ncclPathOf(d); d != DistanceNODE && p.String() != d.String() || d == DistanceNODE && p != pathPHB {
			t.Errorf("%s is %s to NCCL", d, p)
		}
	}
}
