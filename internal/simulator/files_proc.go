// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// proc lays out the files of procfs (Documentation/filesystems/proc.rst in the kernel). Its net directory is
// a link to that of the reading process; here it is the one of process 1 a second time.
func (f files) proc(n *Node) {
	f.attrs(procfs, map[string]string{
		"cmdline":              n.Host.Cmdline,
		"version":              n.Host.Version,
		"sys/kernel/osrelease": n.Host.Kernel,
		"cpuinfo":              n.cpuinfo(),
		"stat": fmt.Sprintf("cpu  132210 0 87123 99871234 4312 0 1210 0 0 0\n"+
			"ctxt 812341123\nbtime %d\nprocesses 512233\nprocs_running 3\nprocs_blocked 0\n", n.Host.Boot.Unix()),
	})
	v4, v6 := n.routes()
	for _, dir := range []string{procfs + "/1/net", procfs + "/net"} {
		f.text(dir+"/route", v4)
		f.text(dir+"/ipv6_route", v6)
		f.vlans(dir+"/vlan", n)
	}
}

// cpuinfo describes the first processor, as far as readers need it.
func (n *Node) cpuinfo() string {
	if n.Host.isARM() { // which does not say whether it is virtual
		return "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics\nCPU implementer\t: 0x41\n\n"
	}
	flags := "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat"
	if n.Host.Virtual {
		flags += " hypervisor"
	}
	return "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: " + flags + "\nbogomips\t: 4000.00\n\n"
}

// isARM reports whether the kernel is one for 64-bit ARM, by its name.
func (h Host) isARM() bool { return strings.Contains(h.Version, "aarch64") }

// routes returns the two routing tables: Node.Routes and what follows from the addresses of the interfaces.
func (n *Node) routes() (v4, v6 string) {
	all := slices.Clone(n.Routes)
	for _, d := range n.NetDevs {
		for _, a := range d.Addrs {
			all = append(all, Route{Dst: a.Masked(), NetDev: d.Name})
		}
	}
	var a, b strings.Builder
	fmt.Fprintf(&a, "%-127s\n", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT")
	for _, r := range all {
		if r.Dst.Addr().Is4() {
			fmt.Fprintf(&a, "%-127s\n", r.v4())
		} else {
			fmt.Fprintln(&b, r.v6())
		}
	}
	// The kernel ends every table with this: what matches nothing else is unreachable. It is no default route.
	fmt.Fprintf(&b, "%032x 00 %032x 00 %032x ffffffff 00000001 00000000 00200200 %8s\n", 0, 0, 0, "lo")
	return a.String(), b.String()
}

const (
	routeUp      = 1
	routeGateway = 2
)

func (r Route) flags() int {
	if r.Gateway.IsValid() {
		return routeUp | routeGateway
	}
	return routeUp
}

// v4 prints addresses as the kernel does, as numbers of the machine: little endian.
func (r Route) v4() string {
	word := func(b [4]byte) uint32 { return binary.LittleEndian.Uint32(b[:]) }
	var gateway, mask [4]byte
	if r.Gateway.IsValid() {
		gateway = r.Gateway.As4()
	}
	binary.BigEndian.PutUint32(mask[:], uint32(0xffffffff<<(32-r.Dst.Bits())))
	return fmt.Sprintf("%s\t%08X\t%08X\t%04X\t0\t0\t%d\t%08X\t0\t0\t0",
		r.NetDev, word(r.Dst.Addr().As4()), word(gateway), r.flags(), r.Metric, word(mask))
}

func (r Route) v6() string {
	gateway := netip.IPv6Unspecified()
	metric := 0x100
	if r.Gateway.IsValid() {
		gateway, metric = r.Gateway, 0x400
	}
	return fmt.Sprintf("%x %02x %032x 00 %x %08x 00000001 00000000 %08x %8s",
		r.Dst.Addr().As16(), r.Dst.Bits(), 0, gateway.As16(), cmp.Or(r.Metric, metric), r.flags(), r.NetDev)
}
