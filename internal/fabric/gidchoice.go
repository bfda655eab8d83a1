// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// GIDRule is the rule by which NCCL arrives at a GID; it is used as a label value.
type GIDRule string

// The rules, in the order in which NCCL tries them.
const (
	GIDByInfiniBand     GIDRule = "infiniband"      // index 0
	GIDByInfiniBandFLID GIDRule = "infiniband_flid" // NCCL_IB_ROUTABLE_FLID_GID_INDEX holds a routable FLID
	GIDByConfiguration  GIDRule = "configured"      // NCCL_IB_GID_INDEX
	GIDByMatch          GIDRule = "matched"         // automatic: family, range and RoCE version fit
	GIDByFallback       GIDRule = "fallback"        // automatic, nothing fits: index 0 whatever it holds
)

// GIDChoice is the entry NCCL would use, and why.
type GIDChoice struct {
	Index int
	Rule  GIDRule
	GID   *GID   // nil when the entry is empty
	Why   string // one sentence for humans
}

// Fits reports whether connections to other nodes can use the entry.
func (c GIDChoice) Fits() bool { return c.Rule == GIDByMatch || c.GID != nil && c.GID.Routable() }

// SelectGID returns which GID NCCL from 2.21 on selects on a port under the host's NCCL configuration
// (ncclIbGetGidIndex, src/transport/net_ib/connect.cc). It returns false for ports that NCCL does not use
// (neither InfiniBand nor Ethernet, or iWARP).
func SelectGID(node NodeType, layer LinkLayer, size int, entries []GID, nccl *NCCLConfig) (GIDChoice, bool) {
	t := gidLookup{size: size, entries: entries}
	switch {
	case node == NodeRNIC:
		return GIDChoice{}, false
	case layer == LinkInfiniBand:
		return selectInfiniBand(t, nccl), true
	case layer != LinkEthernet:
		return GIDChoice{}, false
	}
	if i := nccl.Number("NCCL_IB_GID_INDEX", -1); i >= 0 {
		v, _ := nccl.Lookup("NCCL_IB_GID_INDEX")
		return t.choice(int(i), GIDByConfiguration, fmt.Sprintf("NCCL_IB_GID_INDEX=%s%s is used unchecked", v.Value,
			v.From())), true
	}
	return selectRoCE(t, nccl), true
}

func selectInfiniBand(t gidLookup, nccl *NCCLConfig) GIDChoice {
	i := nccl.Number("NCCL_IB_ROUTABLE_FLID_GID_INDEX", 1)
	if i >= 0 && i < int64(t.size) {
		a := t.at(int(i)).Addr
		if b := a.As16(); a.IsValid() && binary.BigEndian.Uint16(b[4:6]) != 0 {
			return t.choice(int(i), GIDByInfiniBandFLID, fmt.Sprintf("entry %d holds a routable FLID", i))
		}
	}
	return t.choice(0, GIDByInfiniBand, "InfiniBand uses entry 0")
}

func selectRoCE(t gidLookup, nccl *NCCLConfig) GIDChoice {
	want := gidCriteria{version: nccl.Number("NCCL_IB_ROCE_VERSION_NUM", 2)}
	if s, _ := nccl.Text("NCCL_IB_ADDR_FAMILY"); s == "AF_INET6" {
		want.v6 = true
	}
	text, _ := nccl.Text("NCCL_IB_ADDR_RANGE")
	want.prefix, want.bits = ParseNCCLRange(text, want.v6)

	cur, have := 0, t.at(0)
	rest := t.entries
	for i, empty := 1, false; i < t.size; i++ {
		for len(rest) > 0 && rest[0].Index < i {
			rest = rest[1:]
		}
		next, occupied := emptyGID(i), len(rest) > 0 && rest[0].Index == i
		if occupied {
			next = rest[0]
		} else if empty {
			continue // whatever came of the empty one before comes of this one
		}
		empty = !occupied
		if isV6(next.Addr) != want.v6 || !want.inRange(next.Addr) {
			continue
		}
		// NCCL takes the first entry of the wanted family without looking at version or validity.
		familyWins := isV6(have.Addr) != want.v6
		versionWins := usable(next.Addr) && (gidVersion(have) != gidVersion(next) || !usable(have.Addr)) &&
			gidVersion(next) == want.version
		if familyWins || versionWins {
			cur, have = i, next
		}
	}
	if want.fits(have) {
		return t.choice(cur, GIDByMatch, fmt.Sprintf("entry %d is the first RoCE v%d GID with an %s address%s", cur,
			want.version, want.family(), want.rangeText()))
	}
	why := fmt.Sprintf("no RoCE v%d GID with an %s address%s: entry %d is used instead", want.version, want.family(),
		want.rangeText(), cur)
	return t.choice(cur, GIDByFallback, why)
}

// gidCriteria is what the automatic selection looks for.
type gidCriteria struct {
	v6      bool
	version int64
	prefix  netip.Addr // invalid: any address
	bits    int
}

func (w gidCriteria) family() string {
	if w.v6 {
		return "IPv6"
	}
	return "IPv4"
}

func (w gidCriteria) rangeText() string {
	if !w.prefix.IsValid() {
		return ""
	}
	return fmt.Sprintf(" in %s/%d (NCCL_IB_ADDR_RANGE)", w.prefix, w.bits)
}

func (w gidCriteria) fits(g GID) bool {
	return isV6(g.Addr) == w.v6 && usable(g.Addr) && gidVersion(g) == w.version && w.inRange(g.Addr)
}

func (w gidCriteria) inRange(a netip.Addr) bool {
	if !w.prefix.IsValid() || w.bits == 0 {
		return true
	}
	if w.bits < 0 {
		return false // NCCL compares until the length is 0, which a negative one never is
	}
	if !w.v6 {
		b := a.As16() // NCCL compares the last 32 bits
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.PrefixFrom(w.prefix, w.bits).Contains(a)
}

// ParseNCCLRange reads the "address/length" of NCCL_IB_ADDR_RANGE as NCCL does (envIbAddrRange of
// transport/net_ib). The address is invalid where NCCL ignores the range and takes any address: it is
// malformed, or of the other family. A negative length has no address in it.
func ParseNCCLRange(s string, v6 bool) (netip.Addr, int) {
	addr, mask, ok := strings.Cut(s, "/")
	a, err := netip.ParseAddr(addr)
	limit := 32
	if v6 {
		limit = 128
	}
	if !ok || err != nil || a.Zone() != "" || a.Is4() == v6 {
		return netip.Addr{}, 0
	}
	bits := leadingInt(mask)
	if bits > limit {
		return netip.Addr{}, 0
	}
	return a, bits
}

// leadingInt is strtol(s, NULL, 10), bounded: NCCL ignores what follows the digits.
func leadingInt(s string) int {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 1<<20 {
			break
		}
		n = n*10 + int(c-'0')
	}
	if neg {
		return -n
	}
	return n
}

// isV6 is the family as NCCL sees it: v4-mapped addresses, multicast ones too, are IPv4.
func isV6(a netip.Addr) bool {
	b := a.As16()
	if b[0] == 0xff && b[1] == 0x0e {
		b[0], b[1] = 0, 0
	}
	return !netip.AddrFrom16(b).Is4In6()
}

// usable is NCCL's validGid: neither empty nor link-local.
func usable(a netip.Addr) bool {
	if !a.IsValid() || a.IsUnspecified() {
		return false
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]) != 0xfe80_0000_0000_0000
}

func gidVersion(g GID) int64 {
	switch g.Type {
	case GIDRoCEv1:
		return 1
	case GIDRoCEv2:
		return 2
	default:
		return 0
	}
}

// gidLookup answers for empty entries too, which NCCL walks like all others.
type gidLookup struct {
	size    int
	entries []GID
}

func (t gidLookup) find(i int) *GID {
	k, ok := slices.BinarySearchFunc(t.entries, i, func(g GID, i int) int { return g.Index - i })
	if !ok {
		return nil
	}
	return &t.entries[k]
}

func (t gidLookup) at(i int) GID {
	if g := t.find(i); g != nil {
		return *g
	}
	return emptyGID(i)
}

func emptyGID(i int) GID { return GID{Index: i, Addr: netip.IPv6Unspecified()} }

func (t gidLookup) choice(i int, r GIDRule, why string) GIDChoice {
	c := GIDChoice{Index: i, Rule: r, GID: t.find(i), Why: why}
	if c.GID == nil {
		c.Why += "; that entry is empty"
	}
	return c
}
