// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// plan is a layout being put together.
type plan struct {
	*layout
	assembly
	next    map[string]int // number of the next device, by names
	near    int            // cards beside GPUs so far
	far     int            // cards at root ports of their own so far
	virtual []func()       // which the driver numbers after all that were there at boot
}

// beside is how many cards are beside GPUs.
func (l *layout) beside() (cards int) {
	for _, c := range l.cards {
		if c.role == "" && !c.far {
			cards += c.number
		}
	}
	return cards
}

// switches is how many PCIe switches have a GPU and a card.
func (l *layout) switches() int { return min(l.beside(), l.gpus-l.alone) }

// below is a place below the i-th switch.
func below(i, slot int) string {
	bus := 0x08 + 0x0a*i
	return fmt.Sprintf("%02x:01.0/%02x:00.0/%02x:%02x.0/%02x:00", bus, bus+1, bus+2, slot, bus+3+slot)
}

func (p *plan) addCards() {
	for _, c := range p.cards {
		for range c.number {
			p.addOne(&c.part)
		}
	}
	for _, add := range p.virtual {
		add()
	}
}

// place is where the next card is, without its function.
func (p *plan) place(c *part) (at string, numa int) {
	if c.role == "" && !c.far && !p.flat && p.switches() > 0 {
		group := p.near * p.switches() / p.beside()
		slot := p.near - (group*p.beside()+p.switches()-1)/p.switches()
		p.near++
		return below(group, 1+slot), p.numaOf(group, p.switches())
	}
	p.far++
	if len(c.places) > 0 {
		i := p.next[c.places[0]]
		p.next[c.places[0]]++
		return c.places[i], p.numaOf(i, len(c.places))
	}
	if p.arm || p.flat { // each root port is a domain of its own
		domain := fmt.Sprintf("%04x:", 0x20+p.far)
		return domain + "00:00.0/" + domain + "01:00", p.numaOf(p.far-1, max(p.far, p.beside()))
	}
	domain := fmt.Sprintf("%04x:", 0x20+p.far)
	return domain + "00:01.0/" + domain + "01:00", p.numaOf(0, 1)
}

// addOne adds a card with its functions.
func (p *plan) addOne(c *part) {
	at, numa := p.place(c)
	if c.guest {
		chip := c.chip
		chip.Driver = passThrough
		p.addFunction(chip, at+".0", numa, c.adapter.vfs)
		return
	}
	names := c.devices(p.next)
	if c.lag {
		p.addLAG(c, names[0], at, numa)
		return
	}
	var functions []nic
	for k := range max(1, c.ports) {
		functions = append(functions, p.function(c, names[min(k, len(names)-1)], fmt.Sprintf("%s.%d", at, k), numa, k))
	}
	if c.one {
		for i := range functions {
			functions[i].path = functions[0].path
		}
		p.addMultiPort(c.adapter, functions...)
	} else {
		p.addCard(c.adapter, functions...)
	}
	if c.twin {
		for _, name := range names {
			p.HCA(name).ImageGUID = p.HCAs[len(p.HCAs)-2*len(names)].ImageGUID
		}
	}
	p.darken(c, names)
	p.enslave(c, functions)
	for i, f := range functions {
		p.route(c, &f)
		for vf := range c.vfs {
			p.virtual = append(p.virtual, func() { p.addVirtual(c, f, fmt.Sprintf("%s.%d", at, (1+vf)*len(functions)+i), numa) })
		}
	}
	if c.smi {
		p.addSMI(c, functions[0], at)
	}
	if c.bridge {
		p.Function(p.HCA(names[0]).PCI).VPD = "\x82\x00\x00SW_MNG"
	}
}

// function is the k-th of a card.
func (p *plan) function(c *part, device, at string, numa, k int) nic {
	i := len(p.HCAs) + k
	f := nic{device: device, path: at, numa: numa, mac: fmt.Sprintf("a0:88:c2:%02x:%02x:%02x", 0x40+len(p.NetDevs)/200,
		2*i, k)}
	if c.driver.linkLayer == Unspecified {
		return f
	}
	f.netdev = fmt.Sprintf("net%d", len(p.NetDevs)+k)
	if len(c.called) > 0 {
		f.netdev = interfaceOf(device, k)
	}
	f.lid = 0x100 + i
	if !slices.Contains(c.dark, k) && c.below == "" {
		f.addr = fmt.Sprintf("10.%d.%d.7/24", 100+k, len(p.HCAs))
	}
	return f
}

// interfaceOf is how udev names the interface of a port where it names its device so (udev/rdma_rename.c of
// rdma-core, and systemd.net-naming-scheme(7)).
func interfaceOf(device string, port int) string {
	if place, roce := strings.CutPrefix(device, "roce"); roce {
		return fmt.Sprintf("en%snp%d", place, port)
	}
	return device
}

// addLAG adds a card whose two functions are one device.
func (p *plan) addLAG(c *part, device, at string, numa int) {
	one, two := p.function(c, device, at+".0", numa, 0), p.function(c, "", at+".1", numa, 1)
	bond := nic{device: device, netdev: strings.TrimLeft(strings.NewReplacer("mlx5", "", "bnxt_re", "", "_",
		"").Replace(device), "_"), mac: one.mac, addr: one.addr}
	one.device, one.addr, two.addr = "", "", ""
	p.addBond(c.adapter, bond, one, two)
}

// enslave adds ports to a bond of the kernel, of which the driver makes no device.
func (p *plan) enslave(c *part, functions []nic) {
	if c.below == "" {
		return
	}
	for _, f := range functions {
		p.NetDev(f.netdev).Master = c.below
	}
	if p.NetDev(c.below) == nil {
		p.addNetDev(c.adapter, nic{netdev: c.below, mac: functions[0].mac, addr: "10.80.0.7/24"}, "", 0)
		p.Routes = append(p.Routes, Route{
			Dst:     netip.MustParsePrefix("0.0.0.0/0"),
			Gateway: netip.MustParseAddr("10.80.0.1"), NetDev: c.below,
		})
	}
}

// darken takes away the cables of ports that have none.
func (p *plan) darken(c *part, names []string) {
	for _, k := range c.dark {
		if !c.one {
			p.LinkDown(names[k])
			continue
		}
		port := &p.HCA(names[0]).Ports[k]
		port.State, port.PhysState, port.Rate = "1: DOWN", "3: Disabled", port.NoLink
		p.NetDev(port.NetDev).Carrier = false
	}
}

// route adds the default route of a port.
func (p *plan) route(c *part, f *nic) {
	r := Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), NetDev: f.netdev}
	prefix, err := netip.ParsePrefix(f.addr)
	if err != nil || c.routes == noRoutes {
		return
	}
	r.Gateway = prefix.Masked().Addr().Next()
	switch c.routes {
	case dhcp:
		r.Metric = 100 + len(p.Routes)
	case dhcpEqual:
		r.Metric = 100
	case advertised:
		r.Dst, r.Gateway, r.Metric = netip.MustParsePrefix("::/0"), netip.MustParseAddr("fe80::1"), 1024
	}
	p.Routes = append(p.Routes, r)
}

// addVirtual adds a virtual function of a port.
func (p *plan) addVirtual(c *part, pf nic, at string, numa int) {
	a := c.adapter
	a.chip = connectX7VF
	a.chip.Class = c.chip.Class
	a.vfs, a.virtual, a.hca, a.driver.onePerCard = 0, true, "MT4126", false
	vf := p.function(c, c.devices(p.next)[0], at, numa, 0)
	vf.pf = pf.path
	p.addCard(a, vf)
}

// addSMI adds the second device of a function, for subnet management of its planes, and the function that
// reaches memory of GPUs.
func (p *plan) addSMI(c *part, f nic, at string) {
	name := fmt.Sprintf("smi%d", p.next["smi"]+1)
	p.next["smi"]++
	one := *p.HCA(f.device)
	one.Name, one.SMI, one.Aux, one.Verbs = name, true, Aux{}, len(p.HCAs)
	port := one.Ports[0].clone()
	port.NetDev = ""
	one.Ports = nil
	for k := range 4 {
		port.Number, port.LID = k+1, 0
		one.Ports = append(one.Ports, port.clone())
	}
	p.HCAs = append(p.HCAs, one)
	p.addFunction(dataDirect, at[:len(at)-2]+"01.0", f.numa, 0)
}

// addGPUsOf adds GPUs, those with a NIC below their switch first.
func (p *plan) addGPUsOf() {
	for i := range p.gpus {
		at, numa := "", p.numaOf(i, p.gpus)
		switch switches := p.switches(); {
		case p.arm || p.flat:
			domain := fmt.Sprintf("%04x:", 0x08+0x100*i)
			at = domain + "00:00.0/" + domain + "01:00.0"
		case i < p.gpus-p.alone && switches > 0:
			group := i * switches / (p.gpus - p.alone)
			at, numa = below(group, 6-i+(group*(p.gpus-p.alone)+switches-1)/switches)+".0", p.numaOf(group, switches)
		default:
			domain := fmt.Sprintf("%04x:", 0x60+i)
			at = domain + "00:01.0/" + domain + "01:00.0"
		}
		if p.without {
			chip := p.gpu.chip
			chip.Driver = passThrough
			p.addFunction(chip, at, numa, 0)
			continue
		}
		p.addGPUs(p.gpu, []slot{{at, numa}})
	}
	if p.arm && p.gpu.nvlinks > 0 {
		for i := range p.GPUs {
			p.GPUs[i].MemoryNode = 2 + 8*i
		}
	}
	if p.gpu.nvlinks > 0 && len(p.GPUs) > 0 && p.gpu.mustLink() {
		p.linkToSwitches(nil)
		p.register(oneBoard, 0)
	}
}

// mustLink reports whether GPUs of the kind are on a board with NVSwitches.
func (m gpuModel) mustLink() bool { return m.chip != h100PCIe.chip && m.nvlinks > 0 }
