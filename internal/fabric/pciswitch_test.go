// SPDX-License-Identifier: Apache-2.0

package fabric

import "testing"

// The places are those of a DGX A100, where the second GPU of a switch is one level further down than the first.
func TestOneSwitch(t *testing.T) {
	const (
		gpu, second = "00:01.1/01:00.0/02:00.0/03:00.0/04:00.0/07:00.0", "00:01.1/01:00.0/02:04.0/0a:00.0/0b:04.0/0d:00.0/0e:00.0/0f:00.0"
		nic         = "00:01.1/01:00.0/02:08.0/10:00.0/11:00.0/12:00.0"
	)
	type id [4]int // vendor, device, subsystem
	gen4, top5, part5, other := id{0x1000, 0xc010, 0x1000, 0xa096}, id{0x1000, 0xc030, 0x1000, 0x0001}, id{0x1000, 0xc030, 0x1000, 0x100b}, id{0x11f8, 0x4000, 0x11f8, 0xbeef}
	board := id{0x1000, 0xc010, 0x15d9, 0xa096} // of another vendor
	set := func(top, parts id, without ...string) func(p PCI) {
		return func(p PCI) {
			for i := range p.Functions {
				f, ids := &p.Functions[i], parts
				if f.Address == "0000:01:00.0" {
					ids = top
				}
				if f.Kind == PCIBridge {
					f.Vendor, f.Device, f.SubsystemVendor, f.SubsystemDevice = ok(ids[0]), ok(ids[1]), ok(ids[2]), ok(ids[3])
				}
			}
			for _, address := range without {
				p.Function(address).SubsystemDevice = UnknownFact[int](ReasonIO, "", at)
			}
		}
	}
	for _, c := range []struct {
		name, gpu, nic string
		edit           func(p PCI)
		want           Fact[bool]
	}{
		{"Gen4", gpu, nic, set(gen4, gen4), ok(true)},
		{"Gen4, a third level", second, nic, set(gen4, gen4), ok(false)},
		{"Gen4, a third level on both sides", second, "00:01.1/01:00.0/02:04.0/0a:00.0/0b:04.0/0d:00.0/0e:01.0/10:00.0", set(gen4, gen4), ok(true)},
		{"Gen5", gpu, nic, set(top5, part5), ok(true)},
		{"Gen5, one below another", gpu, nic, set(part5, part5), ok(false)},
		{"Gen5, two tops", gpu, nic, set(top5, top5), ok(false)},
		{"Gen5 above Gen4", gpu, nic, set(top5, gen4), ok(false)},
		{"Gen4 above Gen5", gpu, nic, set(gen4, part5), ok(false)},
		{"another vendor's", gpu, nic, set(other, other), ok(false)},
		{"on another vendor's board", gpu, nic, set(board, board), ok(false)},
		{"NIC at the top", gpu, "00:01.1/01:00.0/02:08.0/10:00.0", set(gen4, gen4), ok(true)},
		{"one level half known", gpu, nic, set(gen4, gen4, "0000:10:00.0"), UnknownFact[bool](ReasonIO, "", at)},
		{"another vendor half known", gpu, nic, set(other, other, "0000:10:00.0"), ok(false)},
		{"nothing known", gpu, nic, func(PCI) {}, UnknownFact[bool](ReasonNotRead, "", at)},
	} {
		a, b := functionAt(PCIGPU, c.gpu, 0), functionAt(PCINIC, c.nic, 0)
		p := busOf(a, b)
		c.edit(p)
		for _, got := range []Fact[bool]{p.OneSwitch(&a, &b, at), p.OneSwitch(&b, &a, at)} {
			if got.State != c.want.State || got.Value != c.want.Value || got.Reason != c.want.Reason {
				t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
			}
		}
	}
}
