// SPDX-License-Identifier: Apache-2.0

package fabric

import "net/netip"

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

// ClassifyGID tells type and family of a GID from the kernel's word for it (gid_attrs/types). The word alone
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
	case word == "IB/RoCE v1":
		return GIDRoCEv1, family
	}
	return GIDOther, family
}

// Routable tells whether the GID can carry RoCE traffic across a router: RoCE v2 with an address that is
// more than link-local.
func (g GID) Routable() bool {
	return g.Type == GIDRoCEv2 && (g.Family == FamilyIPv4 || g.Family == FamilyIPv6)
}
