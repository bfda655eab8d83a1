// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
)

const classNet = sysfs + "/class/net"

// Flags of an interface that is up, linux/if.h. The kernel's file has neither IFF_RUNNING nor IFF_LOWER_UP.
const (
	flagsUp       = 0x1003 // up, broadcast, multicast
	flagsLoopback = 0x9    // up, loopback
	flagMaster    = 0x400
	flagSlave     = 0x800
)

// net lays out the network interfaces (Documentation/ABI/testing/sysfs-class-net in the kernel).
func (f files) net(n *Node) {
	masters := map[string][]string{}
	for i := range n.NetDevs {
		if d := &n.NetDevs[i]; d.Master != "" {
			masters[d.Master] = append(masters[d.Master], d.Name)
		}
	}
	for i := range n.NetDevs {
		d := &n.NetDevs[i]
		dir := n.netdir(d)
		f.netdev(dir, d)
		if d.PCI != "" {
			f.link(dir+"/device", path.Dir(path.Dir(dir)))
		}
		if master := n.NetDev(d.Master); master != nil {
			f.link(dir+"/master", n.netdir(master))
			f.link(dir+"/upper_"+master.Name, n.netdir(master))
		}
		if lower := n.NetDev(d.VLAN.Lower); lower != nil {
			f.link(dir+"/lower_"+lower.Name, n.netdir(lower))
			f.link(n.netdir(lower)+"/upper_"+d.Name, dir)
		}
		f.ofed(dir, &d.QoS)
		flags := flagsUp
		switch slaves := masters[d.Name]; {
		case d.Type == TypeLoopback:
			flags = flagsLoopback
		case d.Master != "":
			flags |= flagSlave
			f.text(dir+"/bonding_slave/state", "active")
		case len(slaves) > 0:
			flags |= flagMaster
			f.bond(dir, d.Name, slaves, n)
		}
		f.text(dir+"/flags", fmt.Sprintf("%#x", flags))
	}
}

// netdir is where the interface lives below the directory of the tree.
func (n *Node) netdir(d *NetDev) string {
	parent := "virtual"
	if d.PCI != "" {
		parent = n.Function(d.PCI).Path
	}
	return devices + "/" + parent + "/net/" + d.Name
}

func (f files) netdev(dir string, d *NetDev) {
	f.link(classNet+"/"+d.Name, dir)
	f.link(dir+"/subsystem", classNet)
	operstate, carrier, speed := "up", "1", d.Speed
	switch {
	case !d.Carrier:
		operstate, carrier, speed = "down", "0", -1
	case d.Type == TypeLoopback:
		operstate = "unknown"
	}
	if d.Speed != 0 {
		f.text(dir+"/speed", strconv.Itoa(speed))
	}
	if d.PhysPort != "" {
		f.text(dir+"/phys_port_name", d.PhysPort)
	}
	f.attrs(dir, map[string]string{
		"address":             d.Address,
		"carrier":             carrier,
		"dev_id":              "0x0",
		"dev_port":            strconv.Itoa(d.DevPort),
		"ifindex":             strconv.Itoa(d.Index),
		"mtu":                 strconv.Itoa(d.MTU),
		"operstate":           operstate,
		"type":                strconv.Itoa(d.Type),
		"statistics/rx_bytes": strconv.FormatUint(d.Received.Start, 10),
		"statistics/tx_bytes": strconv.FormatUint(d.Sent.Start, 10),
	})
}

func (f files) bond(dir, name string, slaves []string, n *Node) {
	f.text(classNet+"/bonding_masters", name)
	f.text(dir+"/bonding/mode", "802.3ad 4")
	f.text(dir+"/bonding/slaves", strings.Join(slaves, " "))
	for _, s := range slaves {
		f.link(dir+"/lower_"+s, n.netdir(n.NetDev(s)))
	}
}

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

// The parameters of congestion control that no scenario changes, with the defaults of the firmware.
var (
	notificationPoint = map[string]int{"min_time_between_cnps": 4}
	reactionPoint     = map[string]int{
		"clamp_tgt_rate": 0, "clamp_tgt_rate_after_time_inc": 1, "dce_tcp_g": 1019, "dce_tcp_rtt": 1,
		"initial_alpha_value":        1023,
		"rate_reduce_monitor_period": 4, "rate_to_set_on_first_cnp": 0, "rpg_ai_rate": 5, "rpg_byte_reset": 32767,
		"rpg_gd":       11,
		"rpg_hai_rate": 50, "rpg_max_rate": 0, "rpg_min_dec_fac": 50, "rpg_min_rate": 1, "rpg_threshold": 1,
		"rpg_time_reset": 300,
	}
)

// ofed lays out what MLNX_OFED adds to an interface (mlx5/core/en_sysfs.c and en_ecn.c of mlnx-ofa_kernel).
func (f files) ofed(dir string, q *QoS) {
	if q.OFED.Files == NoOFED {
		return
	}
	classes := 0 // of traffic, within the kernel: one without classes while the PCP is trusted
	if q.Trust() == fabric.TrustDSCP {
		classes = fabric.NumPriorities
	}
	f.attrs(dir+"/qos", map[string]string{
		"tc_num":      strconv.Itoa(classes),
		"maxrate":     strings.Repeat("0 ", fabric.NumPriorities),
		"prio2buffer": rows("Priority\tBuffer\n", "%d\t\t%d\n", q.Buffers.OfPriority[:]),
		"buffer_size": bufferSizes(q.Buffers),
	})
	if q.OFED.Files == WithTrustFiles {
		table := q.DSCPPriority()
		f.text(dir+"/qos/trust", string(q.Trust()))
		f.text(dir+"/qos/dscp2prio", rows("dscp\tprio\n", "%d\t%d\n", table[:]))
	}
	f.congestionControl(dir+"/ecn/roce_np", q.OFED.NP, notificationPoint)
	f.attrs(dir+"/ecn/roce_np", map[string]string{
		"cnp_dscp":      strconv.Itoa(q.OFED.CNPDSCP),
		"cnp_802p_prio": strconv.Itoa(q.OFED.CNPPriority),
	})
	f.congestionControl(dir+"/ecn/roce_rp", q.OFED.RP, reactionPoint)
}

func (f files) congestionControl(dir string, enabled fabric.PriorityMask, parameters map[string]int) {
	for p := range fabric.NumPriorities {
		on := "0"
		if enabled.Has(p) {
			on = "1"
		}
		f.text(dir+"/enable/"+strconv.Itoa(p), on)
	}
	for name, value := range parameters {
		f.text(dir+"/"+name, strconv.Itoa(value))
	}
}

// rows prints a table of what belongs to 0, 1, and so on.
func rows(header, format string, values []int) string {
	b := strings.Builder{}
	b.WriteString(header)
	for i, v := range values {
		fmt.Fprintf(&b, format, i, v)
	}
	return b.String()
}

// bufferSizes prints the receive buffers. Those that are not of the default one have thresholds at which the port
// sends and takes back a pause.
func bufferSizes(b fabric.Buffers) string {
	text := strings.Builder{}
	fmt.Fprintf(&text, "Port buffer size = %d\nSpare buffer size = 0\nBuffer\tSize\txoff_threshold\txon_threshold\n",
		b.Total)
	for i, size := range b.Bytes {
		xoff, xon := 0, 0
		if i > 0 {
			xoff, xon = size/2, size/4
		}
		fmt.Fprintf(&text, "%d\t%d\t%d\t\t%d\n", i, size, xoff, xon)
	}
	return text.String()
}

// vlans lays out the files of the VLAN module, without the traffic (net/8021q/vlanproc.c in the kernel).
func (f files) vlans(dir string, n *Node) {
	var config strings.Builder
	for _, d := range n.NetDevs {
		if d.VLAN.Lower == "" {
			continue
		}
		fmt.Fprintf(&config, "%-15s| %d  | %s\n", d.Name, d.VLAN.ID, d.VLAN.Lower)
		var egress strings.Builder
		for from, to := range d.VLAN.Egress {
			if to != 0 {
				fmt.Fprintf(&egress, "%d:%d ", from, to)
			}
		}
		f.text(dir+"/"+d.Name, fmt.Sprintf("%s  VID: %d  REORDER_HDR: 1  dev->priv_flags: 1021\nDevice: %s\n"+
			"INGRESS priority mappings: 0:0  1:0  2:0  3:0  4:0  5:0  6:0 7:0\n EGRESS priority mappings: %s\n",
			d.Name, d.VLAN.ID, d.VLAN.Lower, egress.String()))
	}
	if config.Len() > 0 {
		f.text(dir+"/config", "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"+config.String())
	}
}
