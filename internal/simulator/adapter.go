// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"

	"gpufabric_exporter/internal/fabric"
)

// adapter is a NIC product, as a site bought, cabled and uses it.
type adapter struct {
	chip     Chip
	driver   rdmaDriver
	hca      string // hca_type
	board    string // PSID
	firmware string
	revision string
	vfs      int
	virtual  bool // its functions are virtual ones
	rate     string
	speed    int // Mb/s
	mtu      int
	rx, tx   Counter // of the interface; RDMA traffic bypasses it
	rdma     traffic
	qos      QoS // of each port
}

// The NICs of platforms, without what sites do with them.
func nicX7() adapter {
	return adapter{chip: connectX7, driver: mlx5Ethernet, hca: "MT4129", revision: "0", vfs: 16, mtu: 9000}
}

func nicX7IB() adapter {
	return adapter{
		chip: connectX7IB, driver: mlx5InfiniBand, hca: "MT4129", revision: "0", vfs: 16, mtu: 4092,
		qos: QoS{OFED: OFED{Files: WithOFED}},
	}
}

func nicX6IB() adapter {
	a := nicX7IB()
	a.chip, a.hca = connectX6IB, "MT4123"
	return a
}

func nicX6Dx() adapter {
	a := nicX7()
	a.chip, a.hca, a.vfs = connectX6Dx, "MT4125", 8
	return a
}

func nicThor2() adapter {
	return adapter{
		chip: thor2, driver: bnxtRE, hca: bnxtRE.description, firmware: "231.2.63.0", revision: "0x11", vfs: 128, mtu: 9000,
		qos: lossless(),
	}
}

func nicE810() adapter {
	return adapter{chip: e810, driver: irdma, firmware: "1.71", vfs: 128, mtu: 9000, qos: lossless()}
}

// of is the NIC with a PSID and a firmware.
func (a adapter) of(board, firmware string) adapter {
	a.board, a.firmware = board, firmware
	return a
}

// rated is the adapter at a rate.
func (a adapter) rated(gigabits int) adapter {
	a.speed = 1000 * gigabits
	a.rate = map[int]string{
		1: "2.5 Gb/sec (1X SDR)", 25: "25 Gb/sec (1X EDR)", 40: "40 Gb/sec (4X QDR)", 100: "100 Gb/sec (4X EDR)",
		200: "200 Gb/sec (4X HDR)", 400: "400 Gb/sec (4X NDR)", 800: "800 Gb/sec (4X XDR)",
	}[gigabits]
	return a
}

// counts gives the interface traffic of its own: bytes so far and in each step.
func (a adapter) counts(received, more, sent, moreSent uint64) adapter {
	a.rx, a.tx = Counter{Start: received, PerStep: more}, Counter{Start: sent, PerStep: moreSent}
	return a
}

// moves gives RDMA traffic: packets so far and in each step.
func (a adapter) moves(sent, more, received, moreReceived uint64) adapter {
	a.rdma.sent, a.rdma.received = Counter{Start: sent, PerStep: more}, Counter{Start: received, PerStep: moreReceived}
	return a
}

// waits lets RDMA traffic on InfiniBand wait for so many ticks.
func (a adapter) waits(ticks, more uint64) adapter {
	a.rdma.waits = Counter{Start: ticks, PerStep: more}
	return a
}

// under treats the classes of traffic so.
func (a adapter) under(q QoS) adapter {
	a.qos = q
	return a
}

// withMTU has another one.
func (a adapter) withMTU(bytes int) adapter {
	a.mtu = bytes
	return a
}

// slots has a smaller GID table than its driver, because fewer files do for a node.
func (a adapter) slots(n int) adapter {
	a.driver.gidSlots = n
	return a
}

// function is a virtual function of the NIC, as its host sees it: the port belongs to the physical one.
func (a adapter) function() adapter {
	slots := a.driver.gidSlots
	a.chip, a.driver, a.hca, a.vfs, a.virtual, a.qos = connectX7VF, mlx5Virtual, "MT4126", 0, true, QoS{}
	a.driver.gidSlots = slots
	return a
}

// The NICs of layouts: what role and expectations of a port depend on, and nothing else. Names of boards and versions
// are assumed.

// plain is a NIC without counters and with a small GID table.
func plain(chip Chip, driver rdmaDriver, hca string, gigabits int) part {
	driver.gidSlots, driver.pkeySlots = min(driver.gidSlots, 6), 1
	driver.pma, driver.hw, driver.device, driver.cm = nil, nil, nil, false
	a := adapter{chip: chip, driver: driver, hca: hca, firmware: "28.43.2566", revision: "0", mtu: 9000}
	if chip.Vendor == mellanox { // the PSID of a product
		a.board = fmt.Sprintf("MT_00%04x%04d", chip.Device, gigabits)
	}
	return part{adapter: a.rated(gigabits), names: "mlx5_%d", ports: 1}
}

func cx7IB() part       { return plain(connectX7IB, mlx5InfiniBand, "MT4129", 400) }
func cx7(gbps int) part { return plain(connectX7, mlx5Ethernet, "MT4129", gbps) }
func ndr200() part      { return plain(connectX7IB, mlx5InfiniBand, "MT4129", 200) }
func cx8IB() part       { return plain(connectX8IB, mlx5InfiniBand, "MT4131", 800) }
func cx8(gbps int) part { return plain(connectX8, mlx5Ethernet, "MT4131", gbps) }
func bf3(gbps int) part { return plain(bluefield3, mlx5Ethernet, "MT41692", gbps) }
func cx6dx() part       { return plain(connectX6Dx, mlx5Ethernet, "MT4125", 100) }
func thor(gbps int) part {
	return plain(thor2, bnxtRE, "Broadcom NetXtreme-C/E RoCE Driver HCA", gbps).named("bnxt_re%d")
}

// boardPort is a NIC of Broadcom on the main board.
func boardPort(gbps int) part {
	return plain(bcm57414, bnxtRE, "Broadcom NetXtreme-C/E RoCE Driver HCA", gbps).named("bnxt_re%d")
}

func pollara400() part { return plain(pollara, ionic, "AMD Pensando RoCE HCA", 400).named("ionic_%d") }
func e810C() part      { return plain(e810, irdma, "", 100).named("irdma%d") }
func efaCard() part    { return plain(efaNIC, efa, "", 100).named("rdmap%ds0") }

// virtualIB and virtualRoCE are virtual functions as a guest sees them.
func virtualIB() part {
	p := plain(connectX7VI, mlx5InfiniBand, "MT4126", 400)
	p.driver.onePerCard, p.virtual = false, true
	return p
}

func virtualRoCE(gbps int) part {
	p := plain(connectX7VF, mlx5Virtual, "MT4126", gbps)
	p.virtual = true
	return p
}

func (p part) named(names string) part    { p.names = names; return p }
func (p part) of(ports int) part          { p.ports = ports; return p }
func (p part) uncabled(ports ...int) part { p.dark = ports; return p }
func (p part) with(routes routes) part    { p.routes = routes; return p }
func (p part) is(r fabric.Role) part      { p.role = r; return p }
func (p part) away() part                 { p.far = true; return p }
func (p part) withVFs(n int) part         { p.vfs, p.adapter.vfs = n, 16; return p }
func (p part) toGuest() part              { p.guest = true; return p }
func (p part) withSMI() part              { p.smi = true; return p }
func (p part) ofSwitch() part             { p.bridge, p.role = true, fabric.RoleManagement; return p }

// udev has devices that udev named after the places of their PCI functions, as it does their interfaces.
func (p part) udev(names ...string) part { p.called = names; return p }
func (p part) at(places ...string) part  { p.places = places; return p }
func (p part) inBond(bond string) part   { p.below = bond; return p }

// inLAG has two functions, which are one device.
func (p part) inLAG() part { p.lag = true; return p }

// again is the card before, by another link.
func (p part) again() part { p.twin = true; return p }

// inOne has all ports in one device.
func (p part) inOne() part { p.one = true; return p }
