// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/hex"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// nic is one function of an adapter.
type nic struct {
	device string // RDMA device; empty: none
	netdev string // on InfiniBand the IPoIB interface; empty: none
	path   string // PCI, from the root port
	numa   int
	mac    string // also what the GUID is made of
	addr   string // empty: none
	lid    int    // InfiniBand
	pf     string // of a virtual function the path of the physical one; empty: none that this host knows
}

// slot is where a card is plugged in.
type slot struct {
	path string // PCI, from the root port
	numa int
}

// noNUMA is the NUMA node of a function for which the firmware reports none.
const noNUMA = -1

// assembly is a node being put together.
type assembly struct {
	*Node
	rootPort, switchPort Chip // what every root port and every switch port is
}

// addGPUs adds GPUs of one kind.
func (n assembly) addGPUs(m gpuModel, slots []slot) {
	for _, s := range slots {
		n.GPUs = append(n.GPUs, m.gpu(n.Host.Name, n.addFunction(m.chip, s.path, s.numa, 0), len(n.GPUs)))
	}
}

// addCard adds one card with its functions, each with an RDMA device of its own.
func (n assembly) addCard(a adapter, functions ...nic) {
	for _, c := range functions {
		address := n.addFunctionOf(a, c)
		n.addNetDev(a, c, address, 0)
		n.addHCA(a, functions[0].mac, address, c)
	}
}

// addMultiPort adds one card that shows its ports in a single function and a single RDMA device, which the first
// of them names.
func (n assembly) addMultiPort(a adapter, ports ...nic) {
	address := n.addFunctionOf(a, ports[0])
	for i, p := range ports {
		n.addNetDev(a, p, address, i)
	}
	n.addHCA(a, ports[0].mac, address, ports...)
}

// addBond adds one card whose functions form a bond, which mlx5 turns into a single RDMA device below the
// first of them. Members show the address of the bond, and its speed is the sum of theirs.
func (n assembly) addBond(a adapter, bond nic, members ...nic) {
	var parent string
	sum := a
	sum.speed, sum.rx, sum.tx = 0, Counter{}, Counter{}
	part := a
	part.rdma = a.rdma.per(uint64(len(members)))
	for i, m := range members {
		m.mac = bond.mac
		address := n.addFunctionOf(a, m)
		n.addNetDev(part, m, address, 0).Master = bond.netdev
		sum.speed += a.speed
		sum.rx, sum.tx = sum.rx.plus(a.rx), sum.tx.plus(a.tx)
		if i == 0 {
			parent = address
		}
	}
	n.addNetDev(sum, bond, "", 0)
	n.addHCA(a, bond.mac, parent, bond)
}

// addFunctionOf adds the PCI function of a NIC.
func (n assembly) addFunctionOf(a adapter, c nic) (address string) {
	address = n.addFunction(a.chip, c.path, c.numa, a.vfs)
	if c.pf != "" {
		n.Function(address).PF = fullAddress(path.Base(c.pf))
	}
	return address
}

// addFunction adds a PCI function and the bridges that lead to it. The path is written as lspci does, without
// the domain if that is zero.
func (n assembly) addFunction(c Chip, lspci string, numa, vfs int) (address string) {
	ports := strings.Split(lspci, "/")
	for i := range ports {
		ports[i] = fullAddress(ports[i])
	}
	bus := "pci" + ports[0][:len("0000:00")]
	for i, p := range ports {
		address = p
		f := Function{Path: path.Join(bus, path.Join(ports[:i+1]...)), NUMA: numa}
		switch {
		case i == len(ports)-1:
			f.Chip, f.VFs = c, vfs
		case n.Function(address) != nil:
			continue
		case i == 0:
			f.Chip = n.rootPort
		default:
			f.Chip = n.switchPort
		}
		f.Link, f.Group = f.Chip.Link, len(n.Functions)+1
		f.DMA = DMA{MaxPayload: 256, MaxRead: 512, Relaxed: true}
		if class := f.Chip.Class; class == classEthernet || class == classInfiniband {
			f.DMA.MaxRead = 4096
		}
		n.Functions = append(n.Functions, f)
	}
	return address
}

// fullAddress returns the PCI address with its domain.
func fullAddress(lspci string) string {
	if strings.Count(lspci, ":") == 1 {
		return "0000:" + lspci
	}
	return lspci
}

// checkNIC notes what is wrong with an entry of a platform's table, for Node.check to report.
func (n assembly) checkNIC(c nic) {
	name := cmp.Or(c.device, c.netdev)
	if m, err := net.ParseMAC(c.mac); err != nil || len(m) != 6 {
		n.wrong("entry %q has mac %q: expected six bytes, a0:88:c2:01:02:03", name, c.mac)
	}
	if _, err := netip.ParsePrefix(c.addr); c.addr != "" && err != nil {
		n.wrong("entry %q has addr %q: expected an address with its prefix length, 10.0.0.1/24", name, c.addr)
	}
}

// addNetDev adds the interface of a NIC, if it has one. It is on that port of the function.
func (n assembly) addNetDev(a adapter, c nic, address string, port int) *NetDev {
	n.checkNIC(c)
	if c.netdev == "" {
		return nil
	}
	d := NetDev{
		Name: c.netdev, Index: len(n.NetDevs) + 1, Type: TypeEthernet, PCI: address, DevPort: port, Address: c.mac,
		MTU: a.mtu, Speed: a.speed, Carrier: true, Received: a.rx, Sent: a.tx,
	}
	if address != "" && a.driver.linkLayer != InfiniBand { // IPoIB would answer for its port, but is not asked
		d.QoS = a.qos
		d.QoS.Apps = slices.Clone(a.qos.Apps)
		d.Stats = flows{a.rx, a.tx, a.rdma.of(len(n.HCAs)), a.virtual}.statistics(a.chip.Driver)
	}
	if a.driver.linkLayer == InfiniBand {
		d.Type, d.Address = TypeInfiniBand, ipoibAddress(guidOf(macOf(c.mac)))
	}
	if p, err := netip.ParsePrefix(c.addr); err == nil {
		d.Addrs = []netip.Prefix{p}
	}
	n.NetDevs = append(n.NetDevs, d)
	return &n.NetDevs[len(n.NetDevs)-1]
}

// addHCA adds the RDMA device of a function, if it has one, on a card with that MAC address. The first port
// names it.
func (n assembly) addHCA(a adapter, card, address string, ports ...nic) {
	first, t := ports[0], a.rdma.of(len(n.HCAs))
	if first.device == "" {
		return
	}
	h := HCA{
		Name: first.device, NodeType: a.driver.nodeType, PCI: address, Aux: n.nextAux(a.driver.aux), Verbs: len(n.HCAs),
		Type:  a.hca,
		Board: a.board, Firmware: a.firmware, Revision: a.revision, Description: a.driver.description,
		HW: t.statistics(false, a.driver.device),
	}
	h.GUID, h.ImageGUID = a.driver.guids(first.mac, card)
	for i, c := range ports {
		p := a.driver.port(c.mac, n.NetDev(c.netdev), t)
		p.Number, p.Rate, p.OFED = i+1, a.rate, a.qos.OFED.Files != NoOFED
		if p.LinkLayer == InfiniBand {
			p.LID, p.SMLID = c.lid, 1
		}
		h.Ports = append(h.Ports, p)
	}
	n.HCAs = append(n.HCAs, h)
}

// nextAux numbers devices on the auxiliary bus as they come.
func (n assembly) nextAux(a Aux) Aux {
	k := 0
	for _, h := range n.HCAs {
		if h.Aux.Driver == a.Driver {
			k++
		}
	}
	if a.Name != "" {
		a.Name += "." + strconv.Itoa(k)
	}
	return a
}

// loopback is the first interface of every node.
func loopback() NetDev {
	return NetDev{Name: "lo", Index: 1, Type: TypeLoopback, Address: "00:00:00:00:00:00", MTU: 65536, Carrier: true}
}

// ipoibAddress is a queue pair number and the GID of the port.
func ipoibAddress(g GUID) string {
	gid := subnetGIDs(g)[0].Addr.As16()
	raw := append([]byte{0, 0, 0x10, 0x29}, gid[:]...)
	groups := make([]string, len(raw))
	for i := range raw {
		groups[i] = hex.EncodeToString(raw[i : i+1])
	}
	return strings.Join(groups, ":")
}
