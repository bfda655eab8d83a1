// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// functionAt is a function at a place written as lspci -PP does, below the host bridge of its root port.
func functionAt(kind PCIKind, lspci string, numa int) PCIFunction {
	addresses := strings.Split(lspci, "/")
	for i := range addresses {
		addresses[i] = "0000:" + addresses[i]
	}
	last := len(addresses) - 1
	f := PCIFunction{Address: addresses[last], Kind: kind, Root: "pci" + addresses[0][:len("0000:00")], Bridges: addresses[:last]}
	f = f.WithoutFacts(ReasonNotRead, time.Time{})
	if f.NUMANode = Known(numa, "numa_node", time.Time{}); numa < 0 {
		f.NUMANode = UnknownFact[int](ReasonMissing, "numa_node", time.Time{})
	}
	return f
}

func TestDistance(t *testing.T) {
	bare, guest, untold := Known(false, "flags", time.Time{}), Known(true, "flags", time.Time{}), UnknownFact[bool](ReasonMissing, "flags", time.Time{})
	for _, c := range []struct {
		name         string
		a, b         string
		numaA, numaB int
		hypervisor   Fact[bool]
		want         string // class, or reason
	}{
		{"itself", "15:01.0/16:00.0/17:00.0/18:00.0", "15:01.0/16:00.0/17:00.0/18:00.0", 0, 0, bare, "LOC"},
		{"DGX H100, GPU and its NIC", "15:01.0/16:00.0/17:03.0/1b:00.0", "15:01.0/16:00.0/17:00.0/18:00.0", 0, 0, bare, "PIX"},
		{"DGX H100, neighbours", "15:01.0/16:00.0/17:03.0/1b:00.0", "3d:01.0/3e:00.0/3f:00.0/40:00.0", 0, 0, bare, "NODE"},
		{"DGX H100, other socket", "15:01.0/16:00.0/17:03.0/1b:00.0", "d9:01.0/da:00.0/db:00.0/dc:00.0", 0, 1, bare, "SYS"},
		{"DGX A100, GPU and its NIC", "00:01.1/01:00.0/02:00.0/03:00.0/04:00.0/07:00.0", "00:01.1/01:00.0/02:04.0/0a:00.0/0b:00.0/0c:00.0", 3, 3, bare, "PXB"},
		{"two functions of a card", "e6:01.0/e7:00.0", "e6:01.0/e7:00.1", 1, 1, bare, "PIX"},
		{"behind one downstream port", "15:01.0/16:00.0/17:00.0/18:00.0", "15:01.0/16:00.0/17:00.0/18:00.1", 0, 0, bare, "PIX"},
		{"root ports of one host bridge", "20:00.0/21:00.0", "20:01.0/25:00.0", 0, 0, bare, "PHB"},
		{"root ports of one host bridge, unknown whether virtual", "20:00.0/21:00.0", "20:01.0/25:00.0", 0, 0, untold, "virtual"},
		{"root ports, no NUMA", "20:00.0/21:00.0", "20:01.0/25:00.0", -1, -1, bare, "PHB"},
		{"host bridges, no NUMA", "20:00.0/21:00.0", "60:00.0/61:00.0", 0, -1, bare, "missing"},
		{"lab, one switch", "20:00.0/21:00.0/22:00.0/23:00.0", "20:00.0/21:00.0/22:01.0/24:00.0", 0, 0, guest, "PIX"},
		{"lab, one host bridge", "20:00.0/21:00.0/22:00.0/23:00.0", "20:01.0/25:00.0", 0, 0, guest, "PHB"},
		{"lab, two nodes", "20:00.0/21:00.0/22:00.0/23:00.0", "60:00.0/61:00.0", 0, 1, guest, "SYS"},
		{"flat guest", "00:05.0", "00:06.0", 0, 0, guest, "virtual"},
		{"flat guest, own domains", "01:00.0", "02:00.0", -1, -1, guest, "virtual"},
		{"flat, unknown whether virtual", "00:05.0", "00:06.0", 0, 0, untold, "virtual"},
		{"integrated endpoints", "00:05.0", "00:06.0", 0, 0, bare, "PHB"},
		{"flat guest, a root port each", "00:01.4/05:00.0", "00:02.4/0d:00.0", 0, 0, guest, "virtual"},
		{"flat guest, nodes of its own", "20:00.0/21:00.0", "60:00.0/61:00.0", 0, 1, guest, "SYS"},
		{"half flat guest", "00:05.0", "20:01.0/25:00.0", 0, 0, guest, "virtual"},
	} {
		a, b := functionAt(PCIGPU, c.a, c.numaA), functionAt(PCINIC, c.b, c.numaB)
		for _, d := range []Fact[Distance]{DistanceOf(&a, &b, c.hypervisor, at), DistanceOf(&b, &a, c.hypervisor, at)} {
			got := string(d.Reason)
			if v, ok := d.Get(); ok {
				got = v.String()
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// busOf is a bus with these functions and all bridges above them.
func busOf(functions ...PCIFunction) PCI {
	all := map[string]PCIFunction{}
	for _, f := range functions {
		for i, a := range f.Bridges {
			b := PCIFunction{Address: a, Kind: PCIBridge, Root: f.Root, Bridges: f.Bridges[:i]}
			all[a] = b.WithoutFacts(ReasonNotRead, at)
		}
	}
	for _, f := range functions {
		all[f.Address] = f
	}
	var p PCI
	for _, f := range all {
		f.Link = PCILink{Known(32e9, "", at), Known(32e9, "", at), Known(16, "", at), Known(16, "", at)}
		f.AER = PCIErrors{Known[uint64](1, "", at), Known[uint64](0, "", at), Known[uint64](0, "", at)}
		f.Config.ACS = Known(ACS(0x01), "", at) // source validation alone redirects nothing
		p.Functions = append(p.Functions, f)
	}
	slices.SortFunc(p.Functions, func(a, b PCIFunction) int { return strings.Compare(a.Address, b.Address) })
	return p
}

const railGPU, railNIC = "0000:1b:00.0", "0000:18:00.0"

func railBus() PCI {
	return busOf(functionAt(PCIGPU, "15:01.0/16:00.0/17:03.0/1b:00.0", 0), functionAt(PCINIC, "15:01.0/16:00.0/17:00.0/18:00.0", 0))
}

func TestShortfalls(t *testing.T) {
	set := func(p PCI, address string, edit func(l *PCILink)) { edit(&p.Function(address).Link) }
	for _, c := range []struct {
		name     string
		edit     func(p PCI)
		nic, gpu string // where they fall short, or why that is unknown
	}{
		{"full", func(PCI) {}, "", ""},
		{"NIC at x8", func(p PCI) { set(p, railNIC, func(l *PCILink) { l.Width.Value = 8 }) }, "0000:17:00.0", ""},
		{"NIC at 8 GT/s", func(p PCI) { set(p, railNIC, func(l *PCILink) { l.Speed.Value = 8e9 }) }, "0000:17:00.0", ""},
		{"uplink of the switch at x4", func(p PCI) { set(p, "0000:16:00.0", func(l *PCILink) { l.Width.Value = 4 }) }, "0000:15:01.0", "0000:15:01.0"},
		{"GPU idle at 2.5 GT/s", func(p PCI) { set(p, railGPU, func(l *PCILink) { l.Speed.Value = 2.5e9 }) }, "", ""},
		{"GPU at x8", func(p PCI) { set(p, railGPU, func(l *PCILink) { l.Width.Value = 8 }) }, "", "0000:17:03.0"},
		{"slot has x8", func(p PCI) {
			set(p, railNIC, func(l *PCILink) { l.Width.Value = 8 })
			set(p, "0000:17:00.0", func(l *PCILink) { l.Width.Value, l.MaxWidth.Value = 8, 8 })
		}, "", ""},
		{"other end untold, but full", func(p PCI) {
			set(p, "0000:17:00.0", func(l *PCILink) { l.MaxSpeed = AbsentFact[float64]("", at) })
		}, "", ""},
		{"other end untold, and slow", func(p PCI) {
			set(p, "0000:17:00.0", func(l *PCILink) { l.MaxSpeed = AbsentFact[float64]("", at) })
			set(p, railNIC, func(l *PCILink) { l.Speed.Value = 8e9 })
		}, "missing", ""},
		{"virtual function", func(p PCI) {
			set(p, railNIC, func(l *PCILink) { l.Speed, l.Width = AbsentFact[float64]("", at), AbsentFact[int]("", at) })
		}, "", ""},
		{"asleep", func(p PCI) {
			set(p, "0000:16:00.0", func(l *PCILink) {
				l.Speed, l.Width = UnknownFact[float64](ReasonSuspended, "", at), UnknownFact[int](ReasonSuspended, "", at)
			})
		}, "suspended", "suspended"},
	} {
		p := railBus()
		c.edit(p)
		for address, want := range map[string]string{railNIC: c.nic, railGPU: c.gpu} {
			list := p.Shortfalls(p.Function(address), at)
			where := []string{string(list.Reason)}
			for _, s := range list.Or(nil) {
				where = []string{s.Upper}
			}
			if got := where[0]; got != want {
				t.Errorf("%s: %s falls short at %q, want %q", c.name, address, got, want)
			}
		}
	}
	flat := busOf(functionAt(PCINIC, "05:00.0", -1))
	if s := flat.Shortfalls(&flat.Functions[0], at); s.Reason != ReasonVirtual {
		t.Errorf("without a port above: %+v", s)
	}
}

func TestACSRedirects(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(p PCI)
		want string
	}{
		{"off", func(PCI) {}, ""},
		{"absent", func(p PCI) { p.Function("0000:17:00.0").Config.ACS = AbsentFact[ACS]("", at) }, ""},
		{"on above the NIC", func(p PCI) { p.Function("0000:17:00.0").Config.ACS.Value = 0x1d }, "0000:17:00.0"},
		{"on above the GPU", func(p PCI) { p.Function("0000:17:03.0").Config.ACS.Value = 0x04 }, "0000:17:03.0"},
		{"on where nothing passes", func(p PCI) { p.Function("0000:15:01.0").Config.ACS.Value = 0x1d }, ""},
		{"unreadable", func(p PCI) { p.Function("0000:17:00.0").Config = UnknownPCIConfig(ReasonPrivilege, "", at) }, "privilege"},
		{"one unreadable, one on", func(p PCI) {
			p.Function("0000:17:00.0").Config = UnknownPCIConfig(ReasonPrivilege, "", at)
			p.Function("0000:17:03.0").Config.ACS.Value = 0x1d
		}, "0000:17:03.0"},
	} {
		p := railBus()
		c.edit(p)
		list := p.ACSRedirects(p.Function(railGPU), p.Function(railNIC), at)
		if got := string(list.Reason) + strings.Join(list.Or(nil), ","); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPCIErrors(t *testing.T) {
	p := railBus()
	if e := p.Errors(p.Function(railNIC), at); e.Correctable.Value != 4 || e.Fatal.State != OK {
		t.Errorf("%+v", e)
	}
	p.Function("0000:16:00.0").AER.Correctable = UnknownFact[uint64](ReasonMissing, "", at) // has no such capability
	p.Function("0000:16:00.0").AER.Fatal = UnknownFact[uint64](ReasonIO, "", at)
	if e := p.Errors(p.Function(railNIC), at); e.Correctable.Value != 3 || e.Fatal.Reason != ReasonIO {
		t.Errorf("%+v", e)
	}
}

func TestRails(t *testing.T) {
	compute := func(name string, f PCIFunction) (HCA, PCIFunction) {
		f.HCAs = []string{name}
		return HCA{Name: name, Ports: []Port{{Number: 1, Role: Known(RoleCompute, "", at)}}}, f
	}
	h2, n2 := compute("mlx5_2", functionAt(PCINIC, "15:01.0/16:00.0/17:00.0/18:00.0", 0))
	h10, n10 := compute("mlx5_10", functionAt(PCINIC, "15:01.0/16:00.0/17:01.0/19:00.0", 0))
	g0, g1 := functionAt(PCIGPU, "15:01.0/16:00.0/17:03.0/1b:00.0", 0), functionAt(PCIGPU, "15:01.0/16:00.0/17:04.0/1c:00.0", 0)
	far := functionAt(PCIGPU, "97:01.0/98:00.0", 1)
	storage := h10
	storage.Ports = []Port{{Number: 1, Role: Known(RoleStorage, "", at)}}

	rails := func(hcas []HCA, functions ...PCIFunction) []Rail {
		n := Node{At: at, HCAs: hcas, PCI: busOf(functions...), Policy: &Policy{}, Host: Host{Hypervisor: Known(false, "", at)}}
		return n.rails()
	}
	type rail struct {
		class, nic string
		number     int
		shared     bool
	}
	for _, c := range []struct {
		name string
		got  []Rail
		want []rail
	}{
		{"dealt out", rails([]HCA{h10, h2}, n2, n10, g0, g1), []rail{{"PIX", "mlx5_2", 0, false}, {"PIX", "mlx5_10", 1, false}}},
		{"two on one", rails([]HCA{h2}, n2, g0, g1), []rail{{"PIX", "mlx5_2", 0, true}, {"PIX", "mlx5_2", 0, true}}},
		{"storage does not count", rails([]HCA{storage, h2}, n2, n10, g0), []rail{{"PIX", "mlx5_2", 0, false}}},
		{"far", rails([]HCA{h2}, n2, far), []rail{{"SYS", "mlx5_2", 0, false}}},
		{"no NIC", rails(nil, g0), []rail{{"absent", "", 0, false}}},
	} {
		var got []rail
		for _, r := range c.got {
			class := r.Distance.State.String()
			if d, ok := r.Distance.Get(); ok {
				class = d.String()
			}
			got = append(got, rail{class, r.NIC, r.Number, r.Shared})
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"rdmap130s0", "mlx5_10", "rdmap79s0", "bnxt_re1", "mlx5_2", "mlx5_bond_0", "mlx5_1"}
	slices.SortFunc(names, NaturalOrder)
	if want := []string{"bnxt_re1", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rdmap79s0", "rdmap130s0"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}
