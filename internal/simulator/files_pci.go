// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path"
	"strconv"
	"strings"
)

const (
	devices = sysfs + "/devices"
	busPCI  = sysfs + "/bus/pci"
)

// pci lays out the PCI functions (Documentation/ABI/testing/sysfs-bus-pci in the kernel).
func (f files) pci(n *Node) {
	for _, fn := range n.Functions {
		dir := devices + "/" + fn.Path
		link, best := n.linkOf(fn)
		f.attrs(dir, map[string]string{
			"vendor":               fmt.Sprintf("0x%04x", fn.Chip.Vendor),
			"device":               fmt.Sprintf("0x%04x", fn.Chip.Device),
			"class":                fmt.Sprintf("0x%06x", fn.Chip.Class),
			"numa_node":            strconv.Itoa(fn.NUMA),
			"subsystem_vendor":     fmt.Sprintf("0x%04x", fn.Chip.Vendor),
			"subsystem_device":     "0x0001",
			"current_link_speed":   link.Speed,
			"current_link_width":   strconv.Itoa(link.Width),
			"max_link_speed":       best.Speed,
			"max_link_width":       strconv.Itoa(best.Width),
			"aer_dev_correctable":  fmt.Sprintf("RxErr 0\nBadTLP %[1]d\nBadDLLP 0\nTOTAL_ERR_COR %[1]d", fn.AER.Correctable),
			"aer_dev_nonfatal":     fmt.Sprintf("Undefined 0\nTLP %[1]d\nTOTAL_ERR_NONFATAL %[1]d", fn.AER.NonFatal),
			"aer_dev_fatal":        fmt.Sprintf("Undefined 0\nDLP %[1]d\nTOTAL_ERR_FATAL %[1]d", fn.AER.Fatal),
			"power/runtime_status": fn.runtimeStatus(),
		})
		f[dir+"/config"] = entry{kind: regular, text: fn.config()}
		if strings.Contains(n.Host.Cmdline, "iommu=pt") {
			group := sysfs + "/kernel/iommu_groups/" + strconv.Itoa(fn.Group)
			f.text(group+"/type", "identity")
			f.link(dir+"/iommu_group", group)
		}
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

// depth counts the functions above.
func (f Function) depth() int {
	n := 0
	for dir := path.Dir(f.Path); strings.Count(dir, "/") > 0; dir = path.Dir(dir) {
		n++
	}
	return n
}

// leadsDown tells root ports and downstream ports, whose link is the one below, from all others.
func (f Function) leadsDown() bool { return f.Chip.Class == classBridge && f.depth()%2 == 0 }

// linkOf returns the link of a function and the best that the function could do there. Both ends of a link tell the
// same of it. A virtual function has none.
func (n *Node) linkOf(f Function) (now Link, best Link) {
	if f.PF != "" {
		return Link{Speed: "Unknown"}, Link{Speed: "Unknown"}
	}
	now = f.Link
	if f.leadsDown() {
		for _, below := range n.Functions {
			if path.Dir(below.Path) == f.Path {
				now = below.Link
				break
			}
		}
	}
	return now, f.Chip.Link
}

func (f Function) runtimeStatus() string {
	if f.Asleep {
		return "suspended"
	}
	return "active"
}

// config is configuration space: the header, the PCI Express capability, and on ports that lead down ACS
// (include/uapi/linux/pci_regs.h).
func (f Function) config() string {
	const capabilities, express, advancedErrors, acs = 0x40, 0x60, 0x100, 0x148
	b := make([]byte, 4096)
	set16 := func(at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
	set16(0x00, f.Chip.Vendor)
	set16(0x02, f.Chip.Device)
	set16(0x06, 0x10) // it has capabilities
	b[0x09], b[0x0a], b[0x0b] = byte(f.Chip.Class), byte(f.Chip.Class>>8), byte(f.Chip.Class>>16)
	if f.Chip.Class == classBridge {
		b[0x0e] = 1
	}
	b[0x34] = capabilities
	b[capabilities], b[capabilities+1] = 0x01, express // power management comes first
	b[express] = 0x10
	control := code(f.DMA.MaxPayload)<<5 | code(f.DMA.MaxRead)<<12 | 1<<11
	if f.DMA.Relaxed {
		control |= 1 << 4
	}
	set16(express+0x08, control)
	set16(advancedErrors, 0x0001)
	if f.leadsDown() {
		set16(advancedErrors+2, acs<<4|1)
		set16(acs, 0x000d)
		set16(acs+2, 1)
		set16(acs+4, 0x5f)
		set16(acs+6, f.ACS)
	}
	return string(b)
}

// code is how registers say a size in bytes.
func code(size int) uint16 { return uint16(bits.Len(uint(size / 256))) }
