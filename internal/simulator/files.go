// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The three parts of a tree. Everything below is written as slash-separated paths from its directory.
const (
	sysfs  = "sys"
	procfs = "proc"
	rootfs = "root"

	netlinkDir = "netlink"
)

// files is a node laid out: what lies at which path.
type files map[string]entry

type entry struct {
	kind kind
	text string // of a regular file, or the target of a link
}

type kind uint8

const (
	directory kind = iota
	regular
	link
)

// layout lays the whole node out. Each family of attributes has a method of its own.
func (n *Node) layout() files {
	f := make(files, 5000)
	f.dmi(n.Host.DMI)
	f.pci(n)
	f.rdma(n)
	f.moved(n)
	f.netlink(n)
	f.net(n)
	f.proc(n)
	f.daemons(n)
	f.gpuDriver(n)
	f.logs(n)
	for name, text := range n.Files {
		f.text(path.Join(rootfs, name), text)
	}
	f.dir(sysfs)
	f.dir(procfs)
	f.dir(rootfs)
	f.parents()
	return f
}

// dmi lays out what the firmware says (drivers/firmware/dmi-id.c). The kernel has a file for what it says only.
func (f files) dmi(d DMI) {
	const id = devices + "/virtual/dmi/id"
	values := map[string]string{"sys_vendor": d.Vendor, "product_name": d.Product, "board_name": d.Board, "chassis_asset_tag": d.AssetTag}
	maps.DeleteFunc(values, func(_, text string) bool { return text == "" })
	if len(values) == 0 {
		return
	}
	f.attrs(id, values)
	f.link(sysfs+"/class/dmi/id", id)
}

func (f files) dir(name string) { f[name] = entry{kind: directory} }

func (f files) text(name, text string) {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	f[name] = entry{kind: regular, text: text}
}

// attrs writes attributes into a directory.
func (f files) attrs(dir string, values map[string]string) {
	for name, text := range values {
		f.text(dir+"/"+name, text)
	}
}

// link makes name a relative link to target, as sysfs does.
func (f files) link(name, target string) {
	rel, err := filepath.Rel(path.Dir(name), target)
	if err != nil {
		panic(fmt.Sprintf("internal/simulator: link %s to %s: expected paths below the tree: %v", name, target, err))
	}
	f[name] = entry{kind: link, text: rel}
}

// parents adds the directories that hold what is there.
func (f files) parents() {
	for name := range f {
		for {
			slash := strings.LastIndexByte(name, '/')
			if slash < 0 {
				break
			}
			name = name[:slash]
			if _, ok := f[name]; ok {
				break
			}
			f.dir(name)
		}
	}
}

// changes are the paths at which two layouts differ, in an order in which they can be applied.
type changes struct {
	removed []string // in the opposite order of what is added
	added   []string // directories from the outermost inwards, files, then links, those of sys/class last
	changed []string // files
}

// to returns what turns f into next.
func (f files) to(next files) changes {
	var c changes
	for name, e := range f {
		switch n, ok := next[name]; {
		case ok && n == e:
		case ok && n.kind == regular && e.kind == regular:
			c.changed = append(c.changed, name)
		default:
			c.removed = append(c.removed, name)
		}
	}
	for name, e := range next {
		if old, ok := f[name]; !ok || old.kind != e.kind || (e.kind == link && old != e) {
			c.added = append(c.added, name)
		}
	}
	slices.Sort(c.changed)
	slices.SortFunc(c.added, next.order)
	slices.SortFunc(c.removed, func(a, b string) int { return f.order(b, a) })
	return c
}

// order is the order of addition: who follows a link of sys/class finds a complete device.
func (f files) order(a, b string) int {
	if f[a].kind == link && f[b].kind == link {
		return strings.Compare(b, a)
	}
	return cmp.Or(cmp.Compare(f[a].kind, f[b].kind), strings.Compare(a, b))
}
