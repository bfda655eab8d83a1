// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/hex"
	"net/netip"
	"strings"
)

// platform is a kind of node: a healthy one, and what a site that owns it writes into its configuration.
type platform struct {
	name   string
	build  func() *Node
	config string
}

// platforms returns all of them; a new one is a file with its tables and a word here.
func platforms() []platform { return []platform{dgxA100(), dgxH100()} }

// adapter is a NIC product, as a site bought, cabled and uses it.
type adapter struct {
	chip      Chip
	hca       string // hca_type
	board     string // PSID
	firmware  string
	revision  string
	vfs       int
	linkLayer string
	rate      string
	speed     int // Mb/s
	mtu       int
	rx, tx    Counter // of the interface; RDMA traffic bypasses it
}

// nic is one function of an adapter.
type nic struct {
	device string // RDMA device; empty: none
	netdev string // on InfiniBand the IPoIB interface
	path   string // PCI, from the root port
	numa   int
	mac    string // also what the GUID is made of
	addr   string // empty: none
	lid    int    // InfiniBand
}

// rail is a compute NIC and the GPU below the same PCIe switch. The paths of both go on where uplink, the
// path of the upstream port of the switch, ends.
type rail struct {
	device, netdev   string
	uplink, nic, gpu string
	numa             int
	mac, addr        string
	lid              int
}

// assembly is a node being put together.
type assembly struct {
	*Node
	rootPort, switchPort Chip // what every root port and every switch port is
}

// addRails adds rails that all have the same adapter and the same kind of GPU.
func (n assembly) addRails(a adapter, gpu Chip, product string, rails []rail) {
	for _, r := range rails {
		n.addCard(a, nic{r.device, r.netdev, r.uplink + "/" + r.nic, r.numa, r.mac, r.addr, r.lid})
		n.GPUs = append(n.GPUs, GPU{PCI: n.addFunction(gpu, r.uplink+"/"+r.gpu, r.numa, 0), Name: product})
	}
}

// addCard adds one card with its functions. The first one gives the card its image GUID.
func (n assembly) addCard(a adapter, functions ...nic) {
	image := guidOf(macOf(functions[0].mac))
	for _, c := range functions {
		address := n.addFunction(a.chip, c.path, c.numa, a.vfs)
		d := n.addNetDev(a, c)
		d.PCI = address
		n.addHCA(a, c, address, image, d)
	}
}

// addBond adds one card whose functions form a bond, which mlx5 turns into a single RDMA device below the
// first of them. Members show the address of the bond, and its speed is the sum of theirs.
func (n assembly) addBond(a adapter, bond nic, members ...nic) {
	var parent string
	sum := a
	sum.speed, sum.rx, sum.tx = 0, Counter{}, Counter{}
	for i, m := range members {
		m.mac = bond.mac
		address := n.addFunction(a.chip, m.path, m.numa, a.vfs)
		d := n.addNetDev(a, m)
		d.PCI, d.Master = address, bond.netdev
		sum.speed += a.speed
		sum.rx, sum.tx = sum.rx.plus(a.rx), sum.tx.plus(a.tx)
		if i == 0 {
			parent = address
		}
	}
	n.addHCA(a, bond, parent, guidOf(macOf(bond.mac)), n.addNetDev(sum, bond))
}

// addFunction adds a PCI function and the bridges that lead to it. The path is written as lspci does, without
// the domain.
func (n assembly) addFunction(c Chip, path string, numa, vfs int) (address string) {
	ports := strings.Split(path, "/")
	bus, _, _ := strings.Cut(path, ":")
	path = "pci0000:" + bus
	for i, p := range ports {
		address = "0000:" + p
		path += "/" + address
		f := Function{Path: path, NUMA: numa}
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
		f.Link = f.Chip.Link
		n.Functions = append(n.Functions, f)
	}
	return address
}

func (n assembly) addNetDev(a adapter, c nic) *NetDev {
	d := NetDev{
		Name: c.netdev, Index: len(n.NetDevs) + 1, Type: TypeEthernet, Address: c.mac, MTU: a.mtu, Speed: a.speed,
		Carrier: true, Received: a.rx, Sent: a.tx,
	}
	if a.linkLayer == InfiniBand {
		d.Type, d.Address = TypeInfiniBand, ipoibAddress(guidOf(macOf(c.mac)))
	}
	if c.addr != "" {
		d.Addrs = []netip.Prefix{netip.MustParsePrefix(c.addr)}
	}
	n.NetDevs = append(n.NetDevs, d)
	return &n.NetDevs[len(n.NetDevs)-1]
}

// addHCA adds the RDMA device of a function, if it has one; d is the interface on its port.
func (n assembly) addHCA(a adapter, c nic, address string, image GUID, d *NetDev) {
	if c.device == "" {
		return
	}
	guid := guidOf(macOf(c.mac))
	p := Port{Number: 1, LinkLayer: a.linkLayer, State: "4: ACTIVE", PhysState: "5: LinkUp", Rate: a.rate, NetDev: d.Name}
	if a.linkLayer == InfiniBand {
		p.CapMask, p.LID, p.SMLID, p.PKeySlots = 0xa651e848, c.lid, 1, 128
		p.GIDSlots, p.GIDs = 8, infiniBandGIDs(guid)
	} else {
		p.CapMask, p.PKeySlots = 0x04010000, 1
		p.GIDSlots, p.GIDs = 256, roceGIDs(d)
	}
	n.HCAs = append(n.HCAs, HCA{
		Name: c.device, PCI: address, Type: a.hca, Board: a.board, Firmware: a.firmware, Revision: a.revision,
		GUID: guid, ImageGUID: image, Ports: []Port{p},
	})
}

// loopback is the first interface of every node.
func loopback() NetDev {
	return NetDev{Name: "lo", Index: 1, Type: TypeLoopback, Address: "00:00:00:00:00:00", MTU: 65536, Carrier: true}
}

// ipoibAddress is a queue pair number and the GID of the port.
func ipoibAddress(g GUID) string {
	gid := infiniBandGIDs(g)[0].Addr.As16()
	raw := append([]byte{0, 0, 0x10, 0x29}, gid[:]...)
	groups := make([]string, len(raw))
	for i := range raw {
		groups[i] = hex.EncodeToString(raw[i : i+1])
	}
	return strings.Join(groups, ":")
}
