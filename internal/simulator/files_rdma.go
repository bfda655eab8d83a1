// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"strconv"
)

const classInfiniBand = sysfs + "/class/infiniband"

// rdma lays out the RDMA devices (Documentation/ABI/stable/sysfs-class-infiniband in the kernel). Without a
// device there is no class directory, as on a host whose RDMA modules are not loaded.
func (f files) rdma(n *Node) {
	lifespan := n.Host.lifespan()
	for i := range n.HCAs {
		h := &n.HCAs[i]
		parent := devices + "/" + n.Function(h.PCI).Path
		dir := parent + "/infiniband/" + h.Name
		f.link(classInfiniBand+"/"+h.Name, dir)
		f.link(dir+"/device", parent)
		f.link(dir+"/subsystem", classInfiniBand)
		f.attrs(dir, map[string]string{
			"node_type":      h.NodeType,
			"node_guid":      h.GUID.String(),
			"sys_image_guid": h.ImageGUID.String(),
			"node_desc":      cmp.Or(h.Description, n.Host.Name+" "+h.Name),
			"fw_ver":         h.Firmware,
		})
		for name, text := range map[string]string{"hca_type": h.Type, "hw_rev": h.Revision, "board_id": h.Board} {
			if text != "" {
				f.text(dir+"/"+name, text)
			}
		}
		f.hardware(dir, h.HW, lifespan)
		f.aux(parent, h.Aux)
		f.verbs(parent, h.Name, h.Verbs)
		for k := range h.Ports {
			p := &h.Ports[k]
			f.port(dir+"/ports/"+strconv.Itoa(p.Number), p, lifespan)
			if p.OFED {
				// While nothing is set the file is empty, without even a newline.
				f[dir+"/tc/"+strconv.Itoa(p.Number)+"/traffic_class"] = entry{kind: regular, text: p.TrafficClass}
			}
		}
	}
}

// verbs lays out what class/infiniband_verbs shows of a device, whichever network namespace has it (uverbs_class of
// drivers/infiniband/core/uverbs_main.c).
func (f files) verbs(parent, device string, number int) {
	const class = sysfs + "/class/infiniband_verbs"
	dir := parent + "/infiniband_verbs/uverbs" + strconv.Itoa(number)
	f.text(class+"/abi_version", "6")
	f.link(fmt.Sprintf("%s/uverbs%d", class, number), dir)
	f.link(dir+"/subsystem", class)
	f.text(dir+"/ibdev", device)
}

// moved lays out what is left of devices and interfaces that other network namespaces have.
func (f files) moved(n *Node) {
	for _, m := range n.Moved {
		parent := devices + "/" + n.Function(m.PCI).Path
		if m.NetDev {
			f.dir(parent + "/net")
		}
		if m.Device == "" {
			continue
		}
		f.dir(classInfiniBand)
		f.dir(parent + "/infiniband")
		f.aux(parent, m.Aux)
		f.verbs(parent, m.Device, m.Verbs)
	}
}

// aux lays out the device on the auxiliary bus that the driver is bound to.
func (f files) aux(parent string, a Aux) {
	if a.Name == "" {
		return
	}
	const bus = sysfs + "/bus/auxiliary"
	dir, driver := parent+"/"+a.Name, bus+"/drivers/"+a.Driver
	f.link(bus+"/devices/"+a.Name, dir)
	f.link(driver+"/"+a.Name, dir)
	f.link(dir+"/driver", driver)
	f.link(dir+"/subsystem", bus)
}

func (f files) port(dir string, p *Port, lifespan string) {
	f.attrs(dir, map[string]string{
		"link_layer":     p.LinkLayer,
		"state":          p.State,
		"phys_state":     p.PhysState,
		"rate":           p.Rate,
		"cap_mask":       fmt.Sprintf("0x%08x", p.CapMask),
		"lid":            fmt.Sprintf("%#x", p.LID),
		"lid_mask_count": strconv.Itoa(p.LMC),
		"sm_lid":         fmt.Sprintf("%#x", p.SMLID),
		"sm_sl":          "0",
	})
	for i := range p.PKeySlots {
		f.text(dir+"/pkeys/"+strconv.Itoa(i), "0x0000")
	}
	f.text(dir+"/pkeys/0", "0xffff")
	f.gids(dir, p)
	f.counters(dir+"/counters", p.PMA)
	f.hardware(dir, p.HW, lifespan)
	f.counters(dir, p.CM)
	for name, text := range p.Texts {
		f[dir+"/"+name] = entry{kind: regular, text: text} // to the letter
	}
	for _, name := range p.Dirs {
		f.dir(dir + "/" + name)
	}
}

func (f files) counters(dir string, all []Statistic) {
	for _, s := range all {
		f.text(dir+"/"+s.Name, strconv.FormatUint(s.value(), 10))
	}
}

// hardware lays out the directory of the counters that a driver has of its own, if it has any.
func (f files) hardware(dir string, all []Statistic, lifespan string) {
	if len(all) > 0 {
		f.counters(dir+"/hw_counters", all)
		f.text(dir+"/hw_counters/lifespan", lifespan)
	}
}

// lifespan is how long the kernel serves hardware counters from its cache: 10 ms, in whole ticks.
func (h Host) lifespan() string {
	ticks := (10*h.HZ + 999) / 1000
	return strconv.Itoa(ticks * 1000 / h.HZ)
}

// gids lays out a GID table. An empty slot reads as zero; its attributes exist, but reading them is EINVAL,
// which no plain file can do: they are left out.
func (f files) gids(dir string, p *Port) {
	const zero = "0000:0000:0000:0000:0000:0000:0000:0000"
	types, ndevs := dir+"/gid_attrs/types", dir+"/gid_attrs/ndevs"
	f.dir(types)
	f.dir(ndevs)
	for i := range p.GIDSlots {
		f.text(dir+"/gids/"+strconv.Itoa(i), zero)
	}
	for _, g := range p.GIDs {
		slot := "/" + strconv.Itoa(g.Index)
		f.text(dir+"/gids"+slot, gidText(g.Addr))
		f.text(types+slot, g.Type)
		if g.NetDev != "" {
			f.text(ndevs+slot, g.NetDev)
		}
	}
}
