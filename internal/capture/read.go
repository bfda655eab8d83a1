// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/sysfs"
)

// Directories of sysfs.
const (
	rdmaClass    = "class/infiniband"
	netClass     = "class/net"
	configRDMACM = "kernel/config/rdma_cm"
)

// recorded runs readers of sysfs, and puts into the archive what they read.
func (s *session) recorded(u *unit, read func(*sysfs.FS) error) error {
	sys, err := sysfs.Open(s.o.Sysfs)
	if err != nil {
		return err
	}
	defer sys.Close()
	sys.Record(s.tree(u, sysPart))
	return read(sys)
}

// device reads one RDMA device, and learns which interfaces its ports have.
func (s *session) device(u *unit, name string) error {
	u.begin(sysPart + "/" + rdmaClass + "/" + name)
	restricted, err := isRestricted(s.sys, name)
	switch {
	case err != nil:
		return err
	case restricted:
		s.all.leaveAlone(name)
		return errRestricted
	}
	return s.recorded(u, func(sys *sysfs.FS) error {
		d, err := sys.Device(name)
		if err != nil {
			return err
		}
		defer d.Close()
		var h fabric.HCA
		err = d.ReadOnce(&h, time.Now())
		for _, p := range h.Ports {
			netdev := p.NetDev.Or("")
			u.seeInterface(netdev)
			for _, gid := range p.GIDs.Entries.Or(nil) {
				u.seeInterface(gid.NetDev)
			}
			if p.LinkLayer.Or("") == fabric.LinkEthernet {
				u.seePort(fmt.Sprintf("%s/%d", name, p.Number), netdev)
			}
		}
		return err
	})
}

// isRestricted looks whether the device itself says that it is to be left alone, as the observer does. That is in
// its vital product data, which are not captured: they hold serial numbers.
func isRestricted(sys *sysfs.FS, name string) (bool, error) {
	d, err := sys.Device(name)
	if err != nil {
		return false, err
	}
	defer d.Close()
	var h fabric.HCA
	err = d.Identify(&h, false, time.Now())
	return h.Restricted.Or(false), err
}

// moved reads where the devices are that other network namespaces have, and nothing else of them.
func (s *session) moved(u *unit, here []string) error {
	return s.recorded(u, func(sys *sysfs.FS) error {
		list, err := sys.Moved(here)
		for _, m := range list {
			if !s.o.Devices.Allows(m.Device) || s.o.Policy.IsRestricted(m.Device) {
				s.all.leaveAlone(m.Device)
				u.leaveOut(m.Device, "excluded by flags or restricted by the configuration")
				continue
			}
			u.change(func(c *collection) { c.nics = append(c.nics, pci.NIC{Device: m.Device, Link: m.Link}) })
		}
		return err
	})
}

// functions reads the GPUs on the PCI bus, the functions of the devices and the bridges above. Links and configuration
// space of what sleeps, or is below what does, are left out: reading them would wake it. Of configuration space, which
// holds serial numbers, what is written is made anew (pci.Redact).
func (s *session) functions(u *unit, devices []string) error {
	bus, err := pci.Open(s.o.Sysfs)
	if err != nil {
		return err
	}
	defer func() { _ = bus.Close() }() // nothing was written that could be lost
	bus.Record(s.tree(u, sysPart))
	nics := s.all.movedNICs()
	for _, name := range devices {
		nics = append(nics, pci.NIC{Device: name, Link: rdmaClass + "/" + name})
	}
	_, err = bus.Read(fabric.PCI{}, fabric.PCIEverything, nics, time.Now())
	return err
}

// netDevs reads the network interfaces of the ports and the default routes and all below them, and of all others whether
// they run. The files with their speeds are left alone where drivers tells them: to read one takes a processor while
// somebody else holds the kernel's rtnl lock.
func (s *session) netDevs(u *unit) error {
	var speed func(string) fabric.Fact[float64]
	if s.hasNetlink() {
		speed = func(string) fabric.Fact[float64] { return fabric.Fact[float64]{} }
	}
	return s.recorded(u, func(sys *sysfs.FS) error {
		now := time.Now()
		for _, d := range sys.NetDevs(s.all.interfaces(), nil, speed, true, now) {
			if lower, ok := d.Lower.Get(); ok {
				u.seeLower(d.Name, lower)
			}
		}
		return nil
	})
}

// node reads what belongs to no single device.
func (s *session) node(u *unit) error {
	return s.recorded(u, func(sys *sysfs.FS) error {
		sys.ReadOnce(time.Now())
		return nil
	})
}

// congestion reads what MLNX_OFED adds to these interfaces, and where it does not show the parameters of congestion
// control, those in debugfs. Most of these files cost a command to the firmware; package sysfs has the details.
func (s *session) congestion(u *unit, wires []string) error {
	if len(wires) > maxWires {
		u.leaveOut("network interfaces", fmt.Sprintf("more than %d below RDMA ports: left out with all that follow", maxWires))
	}
	return s.recorded(u, func(sys *sysfs.FS) error {
		for _, name := range wires[:min(len(wires), maxWires)] {
			_ = sys.ReadWireOnce(name, time.Now()) // the recorder notes what cannot be read
		}
		return nil
	})
}

// procfs reads what belongs to the node. What leads to a file there depends on the reading process, so its links are not kept.
func (t *tree) procfs() error {
	for _, name := range []string{"sys/kernel/hostname", "sys/kernel/domainname"} {
		if b, err := t.text(name, maxAttribute); err == nil {
			t.seeHost(strings.TrimSpace(string(b)))
		}
	}
	for _, name := range []string{"sys/kernel/osrelease", "1/net/route", "1/net/ipv6_route", "net/route", "net/ipv6_route"} {
		t.copy(name, name)
	}
	t.cpuFlags()
	b, err := t.text("stat", maxProcStat)
	t.note("stat", err)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "btime ") {
			t.put(t.part+"/stat", entry{kind: regular, text: line})
		}
	}
	return nil
}

// cpuFlags keeps one line of the first processor.
func (t *tree) cpuFlags() {
	b, err := t.text("cpuinfo", maxProcStat)
	t.note("cpuinfo", err)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "flags\t") {
			t.put(t.part+"/cpuinfo", entry{kind: regular, text: line})
			return
		}
	}
}

// nccl reads the configuration of NCCL for the whole host. Of the file that tells NCCL of the bus of a virtual machine it
// takes that it is there: more nobody reads.
func (t *tree) nccl() error {
	if b, err := t.text("etc/hostname", maxAttribute); err == nil {
		t.seeHost(strings.TrimSpace(string(b)))
	}
	const name, topology = "etc/nccl.conf", "var/run/nvidia-topologyd/virtualTopology.xml"
	p, err := t.resolve(topology)
	if err == nil {
		t.put(t.part+"/"+p, entry{kind: regular})
	}
	t.note(topology, err, syscall.ENOTDIR)
	p, err = t.resolve(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	t.copy(p, p)
	return nil
}

// copy puts a file into the archive under that name.
func (t *tree) copy(p, name string) {
	b, err := t.text(p, maxText)
	if err != nil {
		t.note(p, err)
		return
	}
	t.put(t.part+"/"+name, entry{kind: regular, text: string(b)})
}
