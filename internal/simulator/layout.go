// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Layout is a platform of which only roles, links and rates of ports matter: what NICs and GPUs it has, where
// they are, and what its site writes into its configuration. It has no counters and no settings of the
// fabric. Use Layouts; the zero Layout is none.
type Layout struct {
	Name     string
	Source   string // what says so: an address, or the title of a document
	Config   string // of the site, as YAML
	RoCE     bool   // its ports for training have GIDs that can be lost
	Constant bool   // state and rate of its ports are constants of the driver
	List     string // what NCCL_IB_HCA has; empty: the devices for training by name
	Hidden   bool   // a hypervisor hides where devices are, or they are near no GPU: one that is gone leaves no trace
	Unknown  string // the check that cannot judge it, whatever is stated

	build func() *Node
}

// Build returns its node, for the caller to keep.
func (l Layout) Build() *Node { return l.build() }

// layout is one platform in a table. Cards come in the order of their devices.
type layout struct {
	name, source string
	dmi          DMI
	virtual      bool
	arm          bool
	gpu          gpuModel
	gpus         int
	alone        int // GPUs, the last ones, with no NIC below their switch
	numa         int // noNUMA: the firmware reports none; else two
	flat         bool
	cards        []card
	noPort       bool   // nothing but these NICs has an address and a default route
	lowest       bool   // the default route of the port of the main board has another metric than the lowest
	without      bool   // the node trains over nothing, or GPUs and NICs belong to guests
	unknown      string // the check that cannot judge it
	list         string // of its own in NCCL_IB_HCA; empty: all devices for training
}

// card is so many equal cards.
type card struct {
	part
	number int
}

// part is a kind of NIC.
type part struct {
	adapter
	names  string      // of devices, with a number in it
	called []string    // the devices of all such cards, which udev named after where they are; empty: names
	places []string    // the cards, without function, from the root port; empty: anywhere
	lag    bool        // two functions in a bond that the driver makes one device of
	below  string      // the bond of the kernel that all ports belong to, which has the address and the default route
	ports  int         // functions of each card, or ports of its one device
	one    bool        // one device has all ports
	dark   []int       // functions or ports without a cable
	role   fabric.Role // what the site says of them; empty: for training
	vfs    int         // virtual functions of each
	far    bool        // at a root port of its own, as all with a role
	guest  bool        // assigned to a virtual machine
	smi    bool        // with a device for subnet management, and the function of Data Direct
	bridge bool        // belongs to an NVSwitch
	twin   bool        // another link to the card before it, whose ports it has
	routes routes
}

// routes are the default routes through ports of a part.
type routes uint8

const (
	noRoutes   routes = iota
	dhcp              // one each, of increasing metric
	dhcpEqual         // one each, of equal metric
	advertised        // one each, by IPv6 router advertisements
)

// passThrough is the driver of functions that virtual machines have.
const passThrough = "vfio-pci"

// Layouts returns all of them.
func Layouts() []Layout {
	var all []Layout
	for _, table := range [][]layout{nvidiaLayouts(), cloudLayouts(), serverLayouts()} {
		for i := range table {
			all = append(all, table[i].layout())
		}
	}
	return all
}

func (l *layout) layout() Layout {
	is := Layout{
		Name: l.name, Source: l.source, Config: l.config(), List: l.list, Hidden: l.flat || l.beside() == 0,
		Unknown: l.unknown, build: l.node,
	}
	if i := slices.IndexFunc(l.cards, func(c card) bool { return c.role == "" }); i >= 0 {
		is.RoCE = l.cards[i].driver.linkLayer == Ethernet
		is.Constant = l.cards[i].driver.linkLayer == Unspecified
	}
	return is
}

// config names the devices with another role or without a cable, and counts the ports for training that have one.
func (l *layout) config() string {
	var roles strings.Builder
	ports, rate, next := 0, 0, map[string]int{}
	for _, c := range l.cards {
		for range c.number {
			names := c.devices(next)
			if c.guest || c.bridge {
				continue
			}
			for k, name := range names {
				switch {
				case c.role != "" && !c.one && slices.Contains(c.dark, k):
					fmt.Fprintf(&roles, "  - {device: %q, role: %s}\n", name, fabric.RoleUnused)
				case c.role != "":
					fmt.Fprintf(&roles, "  - {device: %q, role: %s}\n", name, c.role)
				}
			}
			if c.role == "" {
				ports += max(1, c.ports) - len(c.dark)
			}
			if c.role == "" && c.driver.linkLayer != Unspecified {
				rate = c.speed / 1000
			}
		}
	}
	text := ""
	if roles.Len() > 0 {
		text = "roles:\n" + roles.String()
	}
	text += fmt.Sprintf("expected:\n  compute_ports: %d\n", ports)
	if rate > 0 {
		text += fmt.Sprintf("  port_rate_gigabits_per_second: {compute: %d}\n", rate)
	}
	return text
}

// devices names those of the next card.
func (p *part) devices(next map[string]int) (names []string) {
	count := max(1, p.ports)
	if p.one {
		count = 1
	}
	for range count {
		if len(p.called) > 0 {
			names = append(names, p.called[next[p.called[0]]])
			next[p.called[0]]++
			continue
		}
		name := p.names
		if strings.Contains(name, "%d") {
			name = fmt.Sprintf(p.names, next[p.names])
			next[p.names]++
		}
		names = append(names, name)
	}
	return names
}

func (l *layout) node() *Node {
	kernel, machine, root := "6.8.0-88-generic", "x86_64-linux-gnu-gcc-13", sapphireRapids
	if l.arm {
		kernel, machine, root = "6.8.0-1028-nvidia-64k", "aarch64-linux-gnu-gcc-13", grace
	}
	n := assembly{rootPort: root, switchPort: pex89144, Node: &Node{
		Host: Host{
			Name: l.name, Kernel: kernel,
			Version: fmt.Sprintf("Linux version %s (buildd@lcy02) (%s) #1-Ubuntu SMP PREEMPT_DYNAMIC", kernel, machine),
			Cmdline: "BOOT_IMAGE=/boot/vmlinuz-" + kernel + " root=/dev/sda1 ro iommu=pt",
			Boot:    time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), HZ: 250,
			Virtual: l.virtual, DMI: l.dmi,
		},
		NetDevs: []NetDev{loopback()},
	}}
	if l.gpu.chip.Vendor == nvidia && !l.without {
		n.Driver = openDriver("580.65.06", "13.0")
	}
	p := plan{layout: l, assembly: n, next: map[string]int{}}
	p.addCards()
	p.addGPUsOf()
	if !l.noPort {
		metric := 0
		if l.lowest {
			metric = 1000
		}
		mainBoard(fmt.Sprintf("- eno1 f0:1c.0/f1:00.0 %d 3c:ec:ef:55:00:01 10.9.0.7/24 0", l.numaOf(0, 1)))(n)
		n.Routes = append(n.Routes, Route{
			Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.9.0.1"),
			NetDev: "eno1", Metric: metric,
		})
	}
	n.Files = map[string]string{ncclConf: "# defaults of every job on this node\n"}
	return n.Node
}

// numaOf is the NUMA node of the i-th of so many.
func (l *layout) numaOf(i, of int) int {
	if l.numa == noNUMA {
		return noNUMA
	}
	return 2 * i / max(1, of)
}
