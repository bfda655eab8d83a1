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
func linkLocal(id [8]byte) netip.Addr {
	b := [16]byte{0: 0xfe, 1: 0x80}
	copy(b[8:], id[:])
	return netip.AddrFrom16(b)
}

// infiniBandGIDs is the GID table of an InfiniBand port: the default prefix with the GUID of the port.
func infiniBandGIDs(g GUID) []GID {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], uint64(g))
	return []GID{{Addr: linkLocal(id), Type: RoCEv1}}
}

// roceGIDs is the GID table that mlx5 fills for an interface: the link-local default, then its addresses,
// each as RoCE v1 and as RoCE v2.
func roceGIDs(d *NetDev) []GID {
	m := macOf(d.Address)
	addrs := []netip.Addr{linkLocal([8]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})}
	for _, p := range d.Addrs {
		addrs = append(addrs, p.Addr())
	}
	var gids []GID
	for _, a := range addrs {
		for _, t := range []string{RoCEv1, RoCEv2} {
			gids = append(gids, GID{Index: len(gids), Addr: netip.AddrFrom16(a.As16()), Type: t, NetDev: d.Name})
		}
	}
	return gids
}

// macOf parses a MAC address of a table in this package or of a node built from one.
func macOf(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 {
		panic(fmt.Sprintf("simulator: %q is not a MAC address", s))
	}
	return m
}
