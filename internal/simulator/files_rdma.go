// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
)

const classInfiniBand = sysfs + "/class/infiniband"

// rdma lays out the RDMA devices (Documentation/ABI/stable/sysfs-class-infiniband in the kernel). Without a
// device there is no class directory, as on a host whose RDMA modules are not loaded.
func (f files) rdma(n *Node) {
	for i := range n.HCAs {
		h := &n.HCAs[i]
		parent := devices + "/" + n.Function(h.PCI).Path
		dir := parent + "/infiniband/" + h.Name
		f.link(classInfiniBand+"/"+h.Name, dir)
		f.link(dir+"/device", parent)
		f.link(dir+"/subsystem", classInfiniBand)
		f.attrs(dir, map[string]string{
			"node_type":      "1: CA",
			"node_guid":      h.GUID.String(),
			"sys_image_guid": h.ImageGUID.String(),
			"node_desc":      n.Host.Name + " " + h.Name,
			"fw_ver":         h.Firmware,
			"hca_type":       h.Type,
			"hw_rev":         h.Revision,
			"board_id":       h.Board,
		})
		for k := range h.Ports {
			p := &h.Ports[k]
			f.port(dir+"/ports/"+strconv.Itoa(p.Number), p)
		}
	}
}

func (f files) port(dir string, p *Port) {
	f.attrs(dir, map[string]string{
		"link_layer":     p.LinkLayer,
		"state":          p.State,
		"phys_state":     p.PhysState,
		"rate":           p.Rate,
		"cap_mask":       fmt.Sprintf("0x%08x", p.CapMask),
		"lid":            fmt.Sprintf("%#x", p.LID),
		"lid_mask_count": "0",
		"sm_lid":         fmt.Sprintf("%#x", p.SMLID),
		"sm_sl":          "0",
	})
	for i := range p.PKeySlots {
		f.text(dir+"/pkeys/"+strconv.Itoa(i), "0x0000")
	}
	f.text(dir+"/pkeys/0", "0xffff")
	f.gids(dir, p)
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
