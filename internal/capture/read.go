// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/internal/host/sysfs"
	"gpufabric_exporter/internal/nccl/settings"
	"gpufabric_exporter/internal/ownership"
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
				u.change(func(c *collection) { c.ports[fmt.Sprintf("%s/%d", name, p.Number)] = netdev })
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
		list, err := sys.Moved(here, false)
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

// netDevs reads the interfaces of the ports and of the default routes with all interfaces below them, and of the others
// only whether they run. Files with speeds are not read where drivers reports them: each such read keeps a
// processor busy while another process holds the kernel's rtnl lock.
func (s *session) netDevs(u *unit) error {
	var speed func(string) fabric.Fact[float64]
	if s.hasNetlink() {
		speed = func(string) fabric.Fact[float64] { return fabric.Fact[float64]{} }
	}
	return s.recorded(u, func(sys *sysfs.FS) error {
		now := time.Now()
		for _, d := range sys.NetDevs(s.all.interfaces(), nil, speed, true, now) {
			if lower, ok := d.Lower.Get(); ok {
				u.change(func(c *collection) { c.lower[d.Name] = lower })
			}
		}
		return nil
	})
}

// congestion reads what MLNX_OFED adds to these interfaces, and where it does not show the parameters of congestion
// control, those in debugfs. Most of these files cost a command to the firmware; package sysfs has the details.
func (s *session) congestion(u *unit, physical []string) error {
	if len(physical) > maxPhysical {
		u.leaveOut("network interfaces", fmt.Sprintf("more than %d below RDMA ports: left out with all that follow",
			maxPhysical))
	}
	return s.recorded(u, func(sys *sysfs.FS) error {
		for _, name := range physical[:min(len(physical), maxPhysical)] {
			_ = sys.ReadWireOnce(name, time.Now()) // the recorder notes what cannot be read
		}
		return nil
	})
}

// procfs returns a read of procfs, which puts into the archive what it reads.
func (s *session) procfs(read func(*unit, *proc.FS) error) func(*unit) error {
	return func(u *unit) error {
		p, err := proc.Open(s.o.Procfs)
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }() // nothing was written that could be lost
		p.Record(s.tree(u, procPart))
		return read(u, p)
	}
}

// host reads what the node itself is, and gpuModule what the module of the GPU driver shows: the recorder
// notes what cannot be read.
func host(_ *unit, p *proc.FS) error { p.Host(fabric.Host{}, time.Now()); return nil }

func gpuModule(_ *unit, p *proc.FS) error { p.GPUDriver(time.Now()); return nil }

// routes reads the default routes, and adds their interfaces: the exporter looks at what is below them.
func routes(u *unit, p *proc.FS) error {
	names, err := p.DefaultRoutes()
	for name := range names {
		u.seeInterface(name)
	}
	return err
}

// daemons reads the daemons that start jobs. They are found first, among all processes, of which nothing is recorded.
func (s *session) daemons(u *unit) error {
	p, err := proc.Open(s.o.Procfs)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // nothing was written that could be lost
	daemons := p.Daemons()
	daemons.Read(time.Now())
	p.Record(s.tree(u, procPart))
	daemons.Read(time.Now())
	return nil
}

// nccl reads the configuration of NCCL for the whole host.
func (s *session) nccl(u *unit) error {
	r := settings.New(s.o.Rootfs, "", "")
	r.Record(s.tree(u, rootPart))
	_, _ = r.Read(time.Now()) // the recorder notes what cannot be read
	return nil
}

// names reads what the host is called. No reader does: these names are in no archive.
func (s *session) names(u *unit) error {
	for _, file := range []struct{ part, name string }{
		{procPart, "sys/kernel/hostname"}, {procPart, "sys/kernel/domainname"}, {rootPart, "etc/hostname"},
	} {
		if !u.begin(file.part + "/" + file.name) {
			return nil
		}
		name, err := readName(s.root[file.part], file.name)
		if err == nil {
			u.change(func(c *collection) { c.hosts = append(c.hosts, strings.TrimSpace(name)) })
		}
	}
	return nil
}

// readName reads a short file. It does not wait for a writer of a FIFO, and refuses what is not a regular file.
func readName(root *os.Root, name string) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ownership.ErrNotRegular
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxAttribute))
	return string(b), err
}
