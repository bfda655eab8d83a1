// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"net/netip"
)

// GIDType is what a GID can be used for.
type GIDType string

// GID types.
const (
	GIDInfiniBand GIDType = "ib"
	GIDRoCEv1     GIDType = "roce_v1"
	GIDRoCEv2     GIDType = "roce_v2"
	GIDiWARP      GIDType = "iwarp" // a MAC address, whatever gid_attrs/types says
	GIDOther      GIDType = "other" // EFA and what is not known yet
)

// GIDTypes returns every type.
func GIDTypes() []GIDType {
	return []GIDType{GIDInfiniBand, GIDRoCEv1, GIDRoCEv2, GIDiWARP, GIDOther}
}

// GIDFamily is the kind of address in a GID.
type GIDFamily string

// GID families.
const (
	FamilyIPv4      GIDFamily = "ipv4"       // v4-mapped: ::ffff:a.b.c.d
	FamilyIPv6      GIDFamily = "ipv6"       // routable or unique local
	FamilyLinkLocal GIDFamily = "link_local" // fe80::/10; on InfiniBand the default subnet prefix
	FamilyOther     GIDFamily = "other"      // not an IP address (iWARP)
)

// GIDFamilies returns every family.
func GIDFamilies() []GIDFamily {
	return []GIDFamily{FamilyIPv4, FamilyIPv6, FamilyLinkLocal, FamilyOther}
}

// ClassifyGID returns type and family of a GID from the kernel's word for it (gid_attrs/types). The word alone
// misleads: it is "IB/RoCE v1" on InfiniBand, for RoCE v1 and on iWARP devices, which have no GIDs at all.
func ClassifyGID(node NodeType, layer LinkLayer, word string, a netip.Addr) (GIDType, GIDFamily) {
	if node == NodeRNIC {
		return GIDiWARP, FamilyOther
	}
	family := FamilyIPv6
	switch {
	case a.Is4In6():
		family = FamilyIPv4
	case a.IsLinkLocalUnicast():
		family = FamilyLinkLocal
	}
	switch {
	case layer == LinkInfiniBand:
		return GIDInfiniBand, family
	case layer != LinkEthernet:
		return GIDOther, family
	case word == "RoCE v2":
		return GIDRoCEv2, family
	case word == "IB/RoCE v1", word == "RoCE v1": // NCCL knows both (ncclIbRoceGetVersionNum)
		return GIDRoCEv1, family
	}
	return GIDOther, family
}

// EmptyGID reports whether what a slot of a GID table reads stands for no entry: zero, or the default prefix
// alone, which NCCL (configuredGid of src/transport/net_ib/connect.cc, from 2.21 on) and show_gids pass over
// too. mlx4 answers for each free slot of an InfiniBand port with the prefix of its subnet
// (mlx4_ib_query_gid), and ib_core keeps what is not all zero (add_modify_gid of
// drivers/infiniband/core/cache.c). Without a GUID no port has such a GID, except that NCCL takes an
// FLID from a slot without asking for one.
func EmptyGID(layer LinkLayer, a netip.Addr) bool {
	b := a.As16()
	prefix, guid, flid := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint16(b[4:])
	switch {
	case guid != 0:
		return false
	case prefix == 0, prefix == 0xfe80_0000_0000_0000:
		return true
	}
	return layer == LinkInfiniBand && flid == 0
}

// Routable reports whether the GID can carry RoCE traffic across a router: RoCE v2 with an address that is
// more than link-local.
func (g GID) Routable() bool {
	return g.Type == GIDRoCEv2 && (g.Family == FamilyIPv4 || g.Family == FamilyIPv6)
}

// CountChanges returns how many entries differ between two readings of one table.
func CountChanges(before, after []GID) uint64 {
	var n uint64
	i, k := 0, 0
	for i < len(before) || k < len(after) {
		switch {
		case k == len(after) || i < len(before) && before[i].Index < after[k].Index:
			i++
			n++
		case i == len(before) || after[k].Index < before[i].Index:
			k++
			n++
		default:
			if before[i] != after[k] {
				n++
			}
			i++
			k++
		}
	}
	return n
}
