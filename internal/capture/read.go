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

	configRDMACM = "kernel/config/rdma_cm"
	debugMLX5    = "kernel/debug/mlx5"

	deviceAttrs = "node_type fw_ver board_id hca_type hw_rev node_guid sys_image_guid node_desc"
	portAttrs   = "state phys_state rate link_layer lid lid_mask_count sm_lid sm_sl cap_mask"
	pciAttrs    = "vendor device class subsystem_vendor subsystem_device numa_node aer_dev_correctable aer_dev_nonfatal aer_dev_fatal"
	linkAttrs   = "current_link_speed current_link_width max_link_speed max_link_width"
	sriovAttrs  = "sriov_totalvfs sriov_numvfs"
	netAttrs    = "address mtu operstate carrier dev_port dev_id type flags ifindex"
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
	siblings := t.parent(at)
	parent, isRXE := t.attr(at, "parent") // the interface of rxe
	if isRXE {
		siblings = map[string]string{"1": strings.TrimSpace(parent)}
		t.seeInterface(siblings["1"])
	}
	t.hwCounters(at + "/hw_counters")
	for _, n := range t.list(at + "/ports") {
		iface, ethernet := t.port(at + "/ports/" + n)
		if iface == "" || isRXE {
			iface = siblings[n]
		}
		if ethernet {
			t.seePort(name+"/"+n, iface)
		}
		t.trafficClass(at, name, n)
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

// parent reads the device that the RDMA device belongs to and the PCI function at or above it, and returns its network
// interfaces by the port that they say they belong to. Software devices have no parent.
func (t *tree) parent(at string) (siblings map[string]string) {
	siblings = map[string]string{}
	parent, err := t.resolve(at + "/device")
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(at, "devices/virtual/"):
		parent = path.Dir(path.Dir(at)) // PARENT/infiniband/NAME
	case err != nil:
		t.note(at+"/device", err)
		return siblings
	}
	t.links(parent, "driver", "physfn")
	t.attrs(parent, strings.Fields(sriovAttrs)...)
	names := t.list(parent + "/net")
	for _, mark := range []string{"dev_port", "dev_id"} { // IPoIB has the second
		for _, name := range names {
			t.seeInterface(name)
			text, _ := t.attr(parent+"/net/"+name, mark)
			index, err := strconv.ParseUint(strings.TrimSpace(text), 0, 16)
			if port := strconv.FormatUint(index+1, 10); err == nil && siblings[port] == "" {
				siblings[port] = name
			}
		}
	}
	t.functions(parent)
	return siblings
}

// functions reads the PCI functions at and above a device. Links and configuration space of what sleeps, or is below what
// does, are left out: reading them would wake it. Of configuration space, which holds serial numbers, what is written is
// made anew (pci.Redact).
func (t *tree) functions(at string) {
	var list []string // the outermost first
	for p := at; len(p) > 1; p = path.Dir(p) {
		if isFunction(path.Base(p)) {
			list = append([]string{p}, list...)
		}
	}
	awake := true
	for _, p := range list {
		t.attrs(p, strings.Fields(pciAttrs)...)
		t.links(p, "driver", "physfn")
		if group, err := t.resolve(p + "/iommu_group"); err == nil {
			t.attr(group, "type")
		}
		status, _ := t.attr(p+"/power", "runtime_status")
		if status = strings.TrimSpace(status); strings.HasPrefix(status, "suspend") || status == "resuming" {
			awake = false
		}
		if awake {
			t.attrs(p, strings.Fields(linkAttrs)...)
			t.attr(p, "config")
		}
	}
}

// port reads one port, and returns the interface that its first GID names and whether it is one of Ethernet.
func (t *tree) port(at string) (iface string, ethernet bool) {
	t.attrs(at, strings.Fields(portAttrs)...)
	layer, _ := t.have(t.part + "/" + at + "/link_layer")
	t.gids(at)
	if e, ok := t.have(t.part + "/" + at + "/gid_attrs/ndevs/0"); ok {
		iface = strings.TrimSpace(e.text)
	}
	pma := t.list(at + "/counters")
	t.attrs(at+"/counters", pma...)
	if len(pma) > 0 && !slices.Contains(pma, "unicast_xmit_packets") { // of OFED for kernels before 4.5
		t.attrs(at+"/counters_ext", t.list(at+"/counters_ext")...)
	}
	t.hwCounters(at + "/hw_counters")
	for dir := range strings.FieldsSeq(cmDirs) {
		t.attrs(at+"/"+dir, t.list(at+"/"+dir)...)
	}
	for _, name := range t.list(at + "/pkeys") { // counted, but not read: each costs a firmware command on mlx5
		t.put(t.part+"/"+at+"/pkeys/"+name, entry{kind: regular})
	}
	return iface, strings.TrimSpace(layer.text) == "Ethernet"
}

// trafficClass reads what is set for the queue pairs of a port: by MLNX_OFED, and by the connection manager for its
// own. Of configfs only what somebody made is there.
func (t *tree) trafficClass(at, device, port string) {
	t.attr(at+"/tc/"+port, "traffic_class")
	t.attr(configRDMACM+"/"+device+"/ports/"+port, "default_roce_tos")
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

// netDevs reads these network interfaces and all above and below them, and of all others whether they run. The files with their speeds are left alone where
// drivers tells them: to read one takes a processor while somebody else holds the kernel's rtnl lock.
func (t *tree) netDevs(todo []string, speeds bool) error {
	for _, name := range t.list(netClass) { // NCCL chooses from all of them
		t.all.seeDevice(name)
		if at, err := t.resolve(netClass + "/" + name); err == nil && name != "bonding_masters" { // the one file among them
			t.attr(at, "operstate")
		}
	}
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
		if speeds {
			t.attr(at, "speed")
		}
		lower, others := t.netDev(at)
		t.seeLower(name, lower)
		todo = append(append(todo, lower...), others...)
	}
	return nil
}

// netDev reads one interface, and returns those below it and those that it is linked with otherwise.
func (t *tree) netDev(at string) (lower, others []string) {
	t.attrs(at, strings.Fields(netAttrs)...)
	t.driver(at)
	for _, name := range t.list(at) {
		switch prefix, other, _ := strings.Cut(name, "_"); {
		case name == "master":
			if target, err := t.link(at + "/master"); err == nil {
				others = append(others, path.Base(target))
			}
		case prefix == "lower":
			t.links(at, name)
			lower = append(lower, other)
		case prefix == "upper":
			t.links(at, name)
			others = append(others, other)
		case name == "bonding":
			t.list(at + "/bonding")
			t.attrs(at+"/bonding", strings.Fields(bondAttrs)...)
		}
	}
	return lower, others
}

// driver reads who drives an interface. Virtual ones have no device.
func (t *tree) driver(at string) {
	device, err := t.resolve(at + "/device")
	if err != nil {
		t.note(at+"/device", err)
		return
	}
	t.links(device, "driver")
}

// gpus reads the GPUs of NVIDIA and AMD, as package pci finds them.
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
		if vendor := number(at + "/vendor"); vendor != 0x10de && vendor != 0x1002 {
			continue
		}
		if class := number(at+"/class") >> 16; class != 0x03 && class != 0x12 {
			continue
		}
		at, err := t.resolve(at)
		if err != nil {
			t.note(pciDevices+"/"+name, err)
			continue
		}
		t.functions(at)
	}
	return nil
}

// node reads procfs. What leads to a file there depends on the reading process, so its links are not kept.
func (t *tree) node() error {
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
