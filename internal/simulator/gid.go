// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// GUID is an EUI-64.
type GUID uint64

// String returns the GUID as sysfs prints it.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// guidOf returns the GUID that NVIDIA burns into a card with that MAC address.
func guidOf(mac net.HardwareAddr) GUID {
	return GUID(binary.BigEndian.Uint64([]byte{mac[0], mac[1], mac[2], 3, 0, mac[3], mac[4], mac[5]}))
}

// eui48 returns the GUID that other drivers make of the MAC address, as IPv6 does: with ff:fe in the middle and
// the bit of universal addresses turned over.
func eui48(mac net.HardwareAddr) GUID {
	return GUID(binary.BigEndian.Uint64([]byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}))
}

// gidText returns the GID as sysfs prints it: always eight groups of four digits.
func gidText(a netip.Addr) string {
	b := a.As16()
	const digits = "0123456789abcdef"
	text := make([]byte, 0, 39)
	for i, v := range b {
		if i > 0 && i%2 == 0 {
			text = append(text, ':')
		}
		text = append(text, digits[v>>4], digits[v&15])
	}
	return string(text)
}

// linkLocal returns fe80::/64 with that interface identifier.
func linkLocal(id GUID) netip.Addr {
	b := [16]byte{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	return netip.AddrFrom16(b)
}

// subnetGIDs is the GID table of a port that has nothing to do with Ethernet: the default prefix with the GUID
// of the port.
func subnetGIDs(g GUID) []GID { return []GID{{Addr: linkLocal(g), Type: RoCEv1}} }

// roceGIDs is the GID table that the kernel fills for an interface: the link-local default, then its addresses,
// each as every type that the driver supports.
func roceGIDs(d *NetDev, types []string) []GID {
	addrs := []netip.Addr{linkLocal(eui48(macOf(d.Address)))}
	for _, p := range d.Addrs {
		addrs = append(addrs, p.Addr())
	}
	var gids []GID
	for _, a := range addrs {
		for _, t := range types {
			gids = append(gids, GID{Index: len(gids), Addr: netip.AddrFrom16(a.As16()), Type: t, NetDev: d.Name})
		}
	}
	return gids
}

// macOf parses a MAC address of a table in this package or of a node built from one. It is zero where it is malformed, which
// Node.check reports with its entry.
func macOf(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 {
		return make(net.HardwareAddr, 6)
	}
	return m
}
