// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strconv"
)

const (
	devices = sysfs + "/devices"
	busPCI  = sysfs + "/bus/pci"
)

// pci lays out the PCI functions (Documentation/ABI/testing/sysfs-bus-pci in the kernel).
func (f files) pci(n *Node) {
	for _, fn := range n.Functions {
		dir := devices + "/" + fn.Path
		f.attrs(dir, map[string]string{
			"vendor":             fmt.Sprintf("0x%04x", fn.Chip.Vendor),
			"device":             fmt.Sprintf("0x%04x", fn.Chip.Device),
			"class":              fmt.Sprintf("0x%06x", fn.Chip.Class),
			"numa_node":          strconv.Itoa(fn.NUMA),
			"current_link_speed": fn.Link.Speed,
			"current_link_width": strconv.Itoa(fn.Link.Width),
			"max_link_speed":     fn.Chip.Link.Speed,
			"max_link_width":     strconv.Itoa(fn.Chip.Link.Width),
		})
		if fn.VFs > 0 {
			vfs := n.virtualFunctions(fn.Address())
			f.attrs(dir, map[string]string{"sriov_totalvfs": strconv.Itoa(fn.VFs), "sriov_numvfs": strconv.Itoa(len(vfs))})
			for i, vf := range vfs {
				f.link(dir+"/virtfn"+strconv.Itoa(i), devices+"/"+vf.Path)
				f.link(devices+"/"+vf.Path+"/physfn", dir)
			}
		}
		driver := busPCI + "/drivers/" + fn.Chip.Driver
		f.link(busPCI+"/devices/"+fn.Address(), dir)
		f.link(driver+"/"+fn.Address(), dir)
		f.link(dir+"/driver", driver)
		f.link(dir+"/subsystem", busPCI)
	}
}

// virtualFunctions returns the virtual functions of the physical one at that address.
func (n *Node) virtualFunctions(address string) []Function {
	var vfs []Function
	for _, f := range n.Functions {
		if f.PF == address {
			vfs = append(vfs, f)
		}
	}
	return vfs
}
