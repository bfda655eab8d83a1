// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"path"
	"strconv"
	"strings"
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
