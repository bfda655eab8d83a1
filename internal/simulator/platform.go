// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// platform is a kind of node: the scenario in which nothing is wrong with it, what it is made of, and what a site that
// owns it expects.
type platform struct {
	name         string
	healthy      Scenario
	gdr          []GDRLabel // what is true of its GPUs while nothing is wrong
	roles        string     // lines of the configuration
	ports        int        // for training that the site expects
	rates        string     // of ports in Gb/s, by role, as "compute: 400"
	host         Host
	root, branch Chip // every root port and every switch port; none: sapphireRapids, pex89144
	driver       GPUDriver
	daemons      []Daemon
	route        string // gateway and interface of the default route
	nccl         string // settings of every job
	pieces       []piece
}

// piece adds something to a node that is being put together.
type piece func(assembly)

// platforms returns all of them; a new one is a row of a table.
func platforms() []platform {
	return slices.Concat(nvidiaPlatforms(), vendorPlatforms(), shapePlatforms(), mixedPlatforms())
}

// build returns a healthy node, for the caller to keep.
func (p *platform) build() *Node {
	n := assembly{rootPort: p.root, switchPort: p.branch, Node: &Node{
		Host: p.host, Driver: p.driver, NetDevs: []NetDev{loopback()}, Daemons: slices.Clone(p.daemons),
	}}
	if p.root == (Chip{}) {
		n.rootPort = sapphireRapids
	}
	if p.branch == (Chip{}) {
		n.switchPort = pex89144
	}
	if gateway, netdev, ok := strings.Cut(p.route, " "); ok {
		n.Routes = []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(gateway), NetDev: netdev}}
	}
	settings := strings.ReplaceAll(p.nccl, " ", "\n") + "\n"
	n.Files = map[string]string{ncclConf: "# defaults of every job on this node\n" + settings}
	for _, add := range p.pieces {
		add(n)
	}
	return n.Node
}

// config is what the site writes into its configuration file.
func (p *platform) config() string {
	text := fmt.Sprintf("%sexpected:\n  compute_ports: %d\n", p.roles, p.ports)
	if p.rates != "" {
		text += "  port_rate_gigabits_per_second: {" + p.rates + "}\n"
	}
	return text
}

// works labels GPUs whose memory NICs reach in that way; "" where nothing shows it.
func works(p fabric.GDRPath) []GDRLabel { return []GDRLabel{{Path: p}} }

// Kernels of several platforms: CONFIG_HZ, the release and what built it.
const (
	noble    = "250 6.8.0-88-generic (buildd@lcy02-amd64-044) (x86_64-linux-gnu-gcc-13) #89-Ubuntu SMP PREEMPT_DYNAMIC"
	dgxOS    = "250 6.8.0-1030-nvidia (buildd@lcy02-amd64-037) (x86_64-linux-gnu-gcc-13) #33-Ubuntu SMP PREEMPT_DYNAMIC"
	jammy    = "250 5.15.0-139-generic (buildd@lcy02-amd64-112) (gcc 11.4.0) #149-Ubuntu SMP"
	bookworm = "250 6.1.0-41-amd64 " + debian + " (gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0) #1 SMP PREEMPT_DYNAMIC"
	trixie   = "250 6.12.48+deb13-amd64 " + debian + " (x86_64-linux-gnu-gcc-14) #1 SMP PREEMPT_DYNAMIC"
	debian   = "(debian-kernel@lists.debian.org)"
)

// on is a host that booted a kernel with a command line, in which the release belongs behind vmlinuz-.
func on(name, boot, kernel, cmdline string) Host {
	part := strings.SplitN(kernel, " ", 3)
	hz, _ := strconv.Atoi(part[0]) // 0 is an error of Node.check
	at, _ := time.Parse(time.DateTime, boot)
	return Host{
		Name: name, Kernel: part[1], Version: "Linux version " + part[1] + " " + part[2], Boot: at, HZ: hz,
		Cmdline: "BOOT_IMAGE=" + strings.Replace(cmdline, "vmlinuz-", "vmlinuz-"+part[1], 1),
	}
}

// made has the firmware say what the machine is.
func (h Host) made(d DMI) Host {
	h.DMI = d
	return h
}

// guest makes the host a virtual machine.
func (h Host) guest(d DMI) Host {
	h.Virtual = true
	return h.made(d)
}

// table cuts text into rows of so many words. An empty word is written as "-".
func (n assembly) table(text string, columns int, row func(word []string)) {
	words := strings.Fields(text)
	for i, w := range words {
		if w == "-" {
			words[i] = ""
		}
	}
	if len(words)%columns != 0 {
		n.wrong("%d words behind %q: expected rows of %d", len(words), words[0], columns)
		return
	}
	for r := range slices.Chunk(words, columns) {
		row(r)
	}
}

// wrong notes what is wrong with a table, for Node.check to report.
func (n assembly) wrong(format string, args ...any) {
	n.unsound = append(n.unsound, fmt.Errorf("internal/simulator/platforms_*.go: "+format, args...))
}

// number reads a word of a table.
func (n assembly) number(word string) int {
	v, err := strconv.ParseInt(cmp.Or(word, "0"), 0, 32)
	if err != nil {
		n.wrong("%q: expected a number", word)
	}
	return int(v)
}

// nics reads rows of device, interface, path, NUMA node, MAC address, IP address and LID.
func (n assembly) nics(text string) (all []nic) {
	n.table(text, 7, func(w []string) {
		all = append(all, nic{
			device: w[0], netdev: w[1], path: w[2], numa: n.number(w[3]), mac: w[4], addr: w[5],
			lid: n.number(w[6]),
		})
	})
	return all
}

// rails are compute NICs, each with the GPU below the same PCIe switch. A row is device, interface, path of the
// upstream port of the switch, how the paths of NIC and GPU go on, NUMA node, MAC address, IP address and LID.
func rails(a adapter, gpu gpuModel, text string) piece {
	return func(n assembly) {
		n.table(text, 9, func(w []string) {
			numa := n.number(w[5])
			n.addCard(a, nic{
				device: w[0], netdev: w[1], path: w[2] + "/" + w[3], numa: numa, mac: w[6], addr: w[7],
				lid: n.number(w[8]),
			})
			n.addGPUs(gpu, []slot{{w[2] + "/" + w[4], numa}})
		})
	}
}

// card is one NIC; a row is a function of it.
func oneCard(a adapter, text string) piece {
	return func(n assembly) { n.addCard(a, n.nics(text)...) }
}

// cards are NICs of one function.
func cards(a adapter, text string) piece {
	return func(n assembly) {
		for _, c := range n.nics(text) {
			n.addCard(a, c)
		}
	}
}

// bonds are NICs whose functions form a bond each. A row is that of the bond, then those of two members.
func bonds(a adapter, text string) piece {
	return func(n assembly) {
		for b := range slices.Chunk(n.nics(text), 3) {
			n.addBond(a, b[0], b[1:]...)
		}
	}
}

// gpus are GPUs of one kind; a row is path and NUMA node.
func gpus(m gpuModel, text string) piece {
	return func(n assembly) {
		n.table(text, 2, func(w []string) { n.addGPUs(m, []slot{{w[0], n.number(w[1])}}) })
	}
}

// linked has all NVLinks lead to switches of the board, whose addresses NVML does not report.
func linked(n assembly) {
	n.linkToSwitches(nil)
	n.register(oneBoard, 0)
}

// eno1 is the 1G port of the main board, for management, with bytes so far and in each step.
func eno1(received, more, sent, moreSent uint64, text string) piece {
	return oneCard(adapter{
		chip: i210, speed: 1000, mtu: 1500, qos: QoS{Pause: Pause{Answers: true, Autonegotiated: true, Receive: true}},
	}.counts(received, more, sent, moreSent), text)
}

// mainBoard is the same with counts that several nodes have.
func mainBoard(text string) piece {
	return eno1(12_118_402_733, 110_404, 5_870_219_004, 50_212, text)
}

// because labels GPUs whose memory NICs do not reach.
func because(b fabric.GDRBlock) []GDRLabel { return []GDRLabel{{Block: b}} }
