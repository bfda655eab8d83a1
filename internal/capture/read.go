// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sysfs"
)

// What is read, and with it the whole of what an archive may hold.
const (
	rdmaClass  = "class/infiniband"
	netClass   = "class/net"
	pciDevices = "bus/pci/devices"

	deviceAttrs = "node_type fw_ver board_id hca_type hw_rev node_guid sys_image_guid node_desc"
	portAttrs   = "state phys_state rate link_layer lid lid_mask_count sm_lid sm_sl cap_mask"
	pciAttrs    = "vendor device class numa_node current_link_speed current_link_width max_link_speed max_link_width"
	sriovAttrs  = "sriov_totalvfs sriov_numvfs"
	netAttrs    = "address speed mtu operstate carrier dev_port dev_id type flags ifindex"
	bondAttrs   = "mode slaves active_slave primary mii_status miimon xmit_hash_policy lacp_rate ad_aggregator ad_num_ports ad_partner_mac"
	cmDirs      = "cm_rx_msgs cm_tx_msgs cm_tx_retries cm_rx_duplicates"
)

// device reads one RDMA device and what it hangs on.
func (t *tree) device(sys *sysfs.FS, name string) error {
	t.begin(t.part + "/" + rdmaClass + "/" + name)
	restricted, err := isRestricted(sys, name)
	switch {
	case err != nil:
		return err
	case restricted:
		return errRestricted
	}
	at, err := t.resolve(rdmaClass + "/" + name)
	if err != nil {
		return err
	}
	t.attrs(at, strings.Fields(deviceAttrs)...)
	t.parent(at)
	if iface, ok := t.attr(at, "parent"); ok { // the interface of rxe
		t.seeInterface(strings.TrimSpace(iface))
	}
	t.hwCounters(at + "/hw_counters")
	for _, n := range t.list(at + "/ports") {
		t.port(at + "/ports/" + n)
	}
	return nil
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

// parent reads the device that the RDMA device belongs to and the PCI function at or above it. Software devices
// have none.
func (t *tree) parent(at string) {
	parent, err := t.resolve(at + "/device")
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(at, "devices/virtual/"):
		parent = path.Dir(path.Dir(at)) // PARENT/infiniband/NAME
	case err != nil:
		t.note(at+"/device", err)
		return
	}
	t.links(parent, "driver", "physfn")
	t.attrs(parent, strings.Fields(sriovAttrs)...)
	for _, name := range t.list(parent + "/net") {
		t.attrs(parent+"/net/"+name, "dev_port", "dev_id")
		t.seeInterface(name)
	}
	for p := parent; len(p) > 1; p = path.Dir(p) {
		if isFunction, _ := path.Match("????*:??:??.?", path.Base(p)); isFunction {
			t.attrs(p, strings.Fields(pciAttrs)...)
			return
		}
	}
}

func (t *tree) port(at string) {
	t.attrs(at, strings.Fields(portAttrs)...)
	t.gids(at)
	t.attrs(at+"/counters", t.list(at+"/counters")...)
	t.hwCounters(at + "/hw_counters")
	for dir := range strings.FieldsSeq(cmDirs) {
		t.attrs(at+"/"+dir, t.list(at+"/"+dir)...)
	}
	for _, name := range t.list(at + "/pkeys") { // counted, but not read: each costs a firmware command on mlx5
		t.put(t.part+"/"+at+"/pkeys/"+name, entry{kind: regular})
	}
}

// gids reads the GID table. Of an empty slot, type and interface are not read: the kernel answers EINVAL.
func (t *tree) gids(at string) {
	types, interfaces := at+"/gid_attrs/types", at+"/gid_attrs/ndevs"
	t.list(types)
	t.list(interfaces)
	for _, slot := range t.list(at + "/gids") {
		gid, ok := t.attr(at+"/gids", slot)
		if !ok || strings.Trim(gid, "0:\n") == "" {
			continue
		}
		t.attr(types, slot)
		if iface, ok := t.attr(interfaces, slot); ok {
			t.seeInterface(strings.TrimSpace(iface))
		}
	}
}

// hwCounters reads the file first that makes mlx5 fill the kernel's cache of all counters; any other first one makes
// each file cost as many firmware commands as all together. When the driver refuses it, the others are not read:
// each would ask the same again. Package sysfs has the details.
func (t *tree) hwCounters(dir string) {
	const first, lifespan = "rx_write_requests", "lifespan"
	names := slices.DeleteFunc(t.list(dir), func(s string) bool { return s == lifespan })
	if k := slices.Index(names, first); k > 0 {
		names = slices.Insert(slices.Delete(names, k, k+1), 0, first)
	}
	for i, name := range names {
		if _, ok := t.attr(dir, name); !ok && i == 0 {
			break
		}
	}
	t.attr(dir, lifespan) // asks nobody
}

// netDevs reads these network interfaces and all above and below them.
func (t *tree) netDevs(todo []string) error {
	t.list(netClass)
	seen := map[string]bool{}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[name] || name == "" || strings.Contains(name, "/") {
			continue
		}
		seen[name] = true
		t.seeInterface(name)
		at, err := t.resolve(netClass + "/" + name)
		if err != nil {
			t.note(netClass+"/"+name, err)
			continue
		}
		todo = append(todo, t.netDev(at)...)
	}
	return nil
}

// netDev reads one interface and returns those that it is linked with.
func (t *tree) netDev(at string) (linked []string) {
	t.attrs(at, strings.Fields(netAttrs)...)
	t.links(at, "device")
	for _, name := range t.list(at) {
		switch prefix, other, _ := strings.Cut(name, "_"); {
		case name == "master":
			if target, err := t.link(at + "/master"); err == nil {
				linked = append(linked, path.Base(target))
			}
		case prefix == "lower" || prefix == "upper":
			t.links(at, name)
			linked = append(linked, other)
		case name == "bonding":
			t.list(at + "/bonding")
			t.attrs(at+"/bonding", strings.Fields(bondAttrs)...)
		}
	}
	return linked
}

// gpus reads the display controllers of NVIDIA.
func (t *tree) gpus() error {
	number := func(p string) uint64 {
		if !t.begin(t.part + "/" + p) {
			return 0
		}
		b, err := t.attribute(p)
		t.note(p, err)
		n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32) // 0 is no GPU
		return n
	}
	for _, name := range t.list(pciDevices) {
		at := pciDevices + "/" + name
		if number(at+"/vendor") != 0x10de {
			continue
		}
		if class := number(at+"/class") >> 8; class != 0x0300 && class != 0x0302 {
			continue
		}
		at, err := t.resolve(at)
		if err != nil {
			t.note(pciDevices+"/"+name, err)
			continue
		}
		t.attrs(at, strings.Fields(pciAttrs)...)
	}
	return nil
}

// node reads procfs. What leads to a file there depends on the reading process, so its links are not kept.
func (t *tree) node() error {
	if b, err := t.text("sys/kernel/hostname", maxAttribute); err == nil {
		t.seeHost(strings.TrimSpace(string(b)))
	}
	for _, name := range []string{"sys/kernel/osrelease", "1/net/route", "1/net/ipv6_route", "net/route", "net/ipv6_route"} {
		t.copy(name, name)
	}
	b, err := t.text("stat", maxProcStat)
	t.note("stat", err)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "btime ") {
			t.put(t.part+"/stat", entry{kind: regular, text: line})
		}
	}
	return nil
}

// nccl reads the configuration of NCCL for the whole host.
func (t *tree) nccl() error {
	const name = "etc/nccl.conf"
	p, err := t.resolve(name)
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
