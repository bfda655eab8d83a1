// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The three parts of a tree. Everything below is written as slash-separated paths from its directory.
const (
	sysfs  = "sys"
	procfs = "proc"
	rootfs = "root"

	netlinkDir = "netlink"
)

// files is a node laid out: what lies at which path.
type files map[string]entry

type entry struct {
	kind kind
	text string // of a regular file, or the target of a link
}

type kind uint8

const (
	directory kind = iota
	regular
	link
)

// layout lays the whole node out. Each family of attributes has a method of its own.
func (n *Node) layout() files {
	f := make(files, 5000)
	f.dmi(n.Host.DMI)
	f.pci(n)
	f.rdma(n)
	f.moved(n)
	f.netlink(n)
	f.net(n)
	f.proc(n)
	f.daemons(n)
	f.gpuDriver(n)
	f.logs(n)
	for name, text := range n.Files {
		f.text(path.Join(rootfs, name), text)
	}
	f.dir(sysfs)
	f.dir(procfs)
	f.dir(rootfs)
	f.parents()
	return f
}

// dmi lays out what the firmware says (drivers/firmware/dmi-id.c). The kernel has a file for what it says only.
func (f files) dmi(d DMI) {
	const id = devices + "/virtual/dmi/id"
	values := map[string]string{
		"sys_vendor": d.Vendor, "product_name": d.Product, "board_name": d.Board,
		"chassis_asset_tag": d.AssetTag,
	}
	maps.DeleteFunc(values, func(_, text string) bool { return text == "" })
	if len(values) == 0 {
		return
	}
	f.attrs(id, values)
	f.link(sysfs+"/class/dmi/id", id)
}

func (f files) dir(name string) { f[name] = entry{kind: directory} }

func (f files) text(name, text string) {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	f[name] = entry{kind: regular, text: text}
}

// attrs writes attributes into a directory.
func (f files) attrs(dir string, values map[string]string) {
	for name, text := range values {
		f.text(dir+"/"+name, text)
	}
}

// link makes name a relative link to target, as sysfs does.
func (f files) link(name, target string) {
	rel, err := filepath.Rel(path.Dir(name), target)
	if err != nil {
		panic(fmt.Sprintf("internal/simulator: link %s to %s: expected paths below the tree: %v", name, target, err))
	}
	f[name] = entry{kind: link, text: rel}
}

// parents adds the directories that hold what is there.
func (f files) parents() {
	for name := range f {
		for {
			slash := strings.LastIndexByte(name, '/')
			if slash < 0 {
				break
			}
			name = name[:slash]
			if _, ok := f[name]; ok {
				break
			}
			f.dir(name)
		}
	}
}

// changes are the paths at which two layouts differ, in an order in which they can be applied.
type changes struct {
	removed []string // in the opposite order of what is added
	added   []string // directories from the outermost inwards, files, then links, those of sys/class last
	changed []string // files
}

// to returns what turns f into next.
func (f files) to(next files) changes {
	var c changes
	for name, e := range f {
		switch n, ok := next[name]; {
		case ok && n == e:
		case ok && n.kind == regular && e.kind == regular:
			c.changed = append(c.changed, name)
		default:
			c.removed = append(c.removed, name)
		}
	}
	for name, e := range next {
		if old, ok := f[name]; !ok || old.kind != e.kind || (e.kind == link && old != e) {
			c.added = append(c.added, name)
		}
	}
	slices.Sort(c.changed)
	slices.SortFunc(c.added, next.order)
	slices.SortFunc(c.removed, func(a, b string) int { return f.order(b, a) })
	return c
}

// order is the order of addition: who follows a link of sys/class finds a complete device.
func (f files) order(a, b string) int {
	if f[a].kind == link && f[b].kind == link {
		return strings.Compare(b, a)
	}
	return cmp.Or(cmp.Compare(f[a].kind, f[b].kind), strings.Compare(a, b))
}

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

// Daemon is a process of the host that runs for long. Process 1 is there without an entry.
type Daemon struct {
	PID     int
	Name    string
	User    int
	Memlock Memlock
}

// Memlock is how much memory a process may lock, as /proc/<pid>/limits prints it: bytes, or "unlimited".
type Memlock struct{ Soft, Hard string }

const unlimited = "unlimited"

// slurmd is the daemon of Slurm as its own unit starts it.
func slurmd(pid int) Daemon {
	return Daemon{PID: pid, Name: "slurmd", Memlock: Memlock{unlimited, unlimited}}
}

// containerd has the limit that systemd sets where the unit sets none.
func containerd(pid int) Daemon {
	return Daemon{PID: pid, Name: "containerd", Memlock: Memlock{"8388608", "8388608"}}
}

// daemon returns the daemon of that name, or nil.
func (n *Node) daemon(name string) *Daemon {
	return lookup(n.Daemons, func(d Daemon) bool { return d.Name == name })
}

// daemons lays out what procfs has of processes (fs/proc/base.c and fs/proc/array.c in the kernel), as far as
// readers need it.
func (f files) daemons(n *Node) {
	for _, d := range append([]Daemon{{PID: 1, Name: "systemd", Memlock: Memlock{"67108864", "67108864"}}}, n.Daemons...) {
		const row = "%-25s %-20s %-20s %-10s\n"
		dir := procfs + "/" + strconv.Itoa(d.PID)
		f.text(dir+"/comm", d.Name)
		f.text(dir+"/status",
			fmt.Sprintf("Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nUid:\t%[5]d\t%[5]d\t%[5]d\t%[5]d\n",
				d.Name, d.PID, d.PID, min(1, d.PID-1), d.User))
		f.text(dir+"/limits", fmt.Sprintf(row+row+row+row, "Limit", "Soft Limit", "Hard Limit", "Units",
			"Max cpu time", unlimited, unlimited, "seconds", "Max locked memory", d.Memlock.Soft, d.Memlock.Hard, "bytes",
			"Max nice priority", "0", "0", ""))
	}
}

// netlink lays out what the kernel answers to RDMA_NLDEV_CMD_GET (fill_dev_info of
// drivers/infiniband/core/nldev.c), of nodes with a device for subnet management: sysfs does not show that it
// is one.
func (f files) netlink(n *Node) {
	if !slices.ContainsFunc(n.HCAs, func(h HCA) bool { return h.SMI }) {
		return
	}
	var messages []string
	for i := range n.HCAs {
		messages = append(messages, fmt.Sprintf("%q", hex.EncodeToString(n.HCAs[i].message(i))))
	}
	f.text(netlinkDir+"/rdma.json", `[{"command": "get", "messages": [`+strings.Join(messages, ", ")+`]}]`)
}

// message is what the kernel says of a device with that index.
func (h *HCA) message(index int) (b []byte) {
	add := func(kind uint16, value []byte) {
		b = binary.LittleEndian.AppendUint16(b, uint16(4+len(value))) //nolint:gosec // a name has 64 bytes
		b = binary.LittleEndian.AppendUint16(b, kind)
		b = append(b, value...)
		for len(b)%4 > 0 {
			b = append(b, 0)
		}
	}
	word := func(v int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) } //nolint:gosec // it counts
	guid := func(g GUID) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(g)) }
	add(1, word(index))
	add(2, append([]byte(h.Name), 0))
	add(3, word(len(h.Ports)))
	add(6, guid(h.GUID))
	add(7, guid(h.ImageGUID))
	add(14, []byte{1})
	if h.SMI {
		add(99, []byte{1})
	}
	return b
}
