// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// table writes a GID table as "index type address" triples.
func table(t *testing.T, layer LinkLayer, lines ...string) []GID {
	t.Helper()
	word := map[string]string{"v1": "IB/RoCE v1", "v2": "RoCE v2", "ib": "IB/RoCE v1", "?": ""}
	var gids []GID
	for _, l := range lines {
		f := strings.Fields(l)
		i, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		a := netip.MustParseAddr(f[2])
		typ, family := ClassifyGID(NodeCA, layer, word[f[1]], a)
		gids = append(gids, GID{Index: i, Addr: a, Type: typ, Family: family})
	}
	return gids
}

// conf makes a configuration of NAME=value pairs; numbers are read in base 10.
func conf(pairs ...string) *NCCLConfig {
	c := &NCCLConfig{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		c.Variables = append(c.Variables, NCCLVariable{Name: name, Value: value, Source: "test:1", Number: n, IsNumber: err == nil})
	}
	slices.SortFunc(c.Variables, func(a, b NCCLVariable) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

func TestSelectGID(t *testing.T) {
	usual := []string{
		"0 v1 fe80::1", "1 v2 fe80::1", "2 v1 ::ffff:10.0.0.1", "3 v2 ::ffff:10.0.0.1", "4 v1 fd00::1", "5 v2 fd00::1",
	}
	for _, c := range []struct {
		name  string
		layer LinkLayer
		gids  []string
		conf  []string
		index int
		rule  GIDRule
	}{
		{"the usual table of mlx5", LinkEthernet, usual, nil, 3, GIDByMatch},
		{"only RoCE v1 with IPv4 is taken all the same", LinkEthernet, []string{"0 v1 fe80::1", "1 v2 fe80::1", "2 v1 ::ffff:10.0.0.1"}, nil, 2, GIDByFallback},
		{"no address at all stays on entry 0", LinkEthernet, []string{"0 v1 fe80::1", "1 v2 fe80::1"}, nil, 0, GIDByFallback},
		{"IPv6 only with the default family stays on entry 0", LinkEthernet, []string{"0 v1 fe80::1", "1 v2 fe80::1", "2 v1 fd00::1", "3 v2 fd00::1"}, nil, 0, GIDByFallback},
		{"IPv6 asked for", LinkEthernet, []string{"0 v1 fe80::1", "1 v2 fe80::1", "2 v1 fd00::1", "3 v2 fd00::1"}, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, 3, GIDByMatch},
		{"a family NCCL does not know means IPv4", LinkEthernet, usual, []string{"NCCL_IB_ADDR_FAMILY=inet6"}, 3, GIDByMatch},
		{"the first of two IPv4 addresses wins", LinkEthernet, append(usual, "6 v1 ::ffff:10.9.0.1", "7 v2 ::ffff:10.9.0.1"), nil, 3, GIDByMatch},
		{"unless a range picks the second", LinkEthernet, append(usual, "6 v1 ::ffff:10.9.0.1", "7 v2 ::ffff:10.9.0.1"), []string{"NCCL_IB_ADDR_RANGE=10.9.0.0/16"}, 7, GIDByMatch},
		{"a malformed range matches everything", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=10.9.0.0"}, 3, GIDByMatch},
		{"a range of the other family matches everything", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=fd00::/8"}, 3, GIDByMatch},
		{"a mask that is too long matches everything", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=10.9.0.0/33"}, 3, GIDByMatch},
		{"a negative mask matches nothing", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=10.0.0.0/-1"}, 0, GIDByFallback},
		{"what follows the mask is ignored", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=10.0.0.0/8 or so"}, 3, GIDByMatch},
		{"a range nothing is in stays on entry 0", LinkEthernet, usual, []string{"NCCL_IB_ADDR_RANGE=192.168.0.0/16"}, 0, GIDByFallback},
		{"RoCE v1 asked for", LinkEthernet, usual, []string{"NCCL_IB_ROCE_VERSION_NUM=1"}, 2, GIDByMatch},
		{"a pinned index is used unchecked", LinkEthernet, usual, []string{"NCCL_IB_GID_INDEX=2"}, 2, GIDByConfiguration},
		{"also when it is empty", LinkEthernet, usual, []string{"NCCL_IB_GID_INDEX=9"}, 9, GIDByConfiguration},
		{"-1 is automatic", LinkEthernet, usual, []string{"NCCL_IB_GID_INDEX=-1"}, 3, GIDByMatch},
		{"IPv4 in entry 0 is kept", LinkEthernet, []string{"0 v2 ::ffff:10.0.0.1", "1 v2 ::ffff:10.0.0.2"}, nil, 0, GIDByMatch},
		{"an empty entry counts as IPv6", LinkEthernet, []string{"0 v2 ::ffff:10.0.0.1", "2 v2 fd00::1"}, []string{"NCCL_IB_ADDR_FAMILY=AF_INET6"}, 2, GIDByMatch},
		{"a type that cannot be read is no version", LinkEthernet, []string{"0 v1 fe80::1", "1 ? ::ffff:10.0.0.1", "2 v2 ::ffff:10.0.0.1"}, nil, 2, GIDByMatch},
		{"InfiniBand uses entry 0", LinkInfiniBand, []string{"0 ib fe80::1"}, []string{"NCCL_IB_GID_INDEX=3"}, 0, GIDByInfiniBand},
		{"InfiniBand with a routable FLID", LinkInfiniBand, []string{"0 ib fe80::1", "1 ib fe80:0:7::1"}, nil, 1, GIDByInfiniBandFLID},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := SelectGID(NodeCA, c.layer, 16, table(t, c.layer, c.gids...), conf(c.conf...))
			if !ok || got.Index != c.index || got.Rule != c.rule {
				t.Errorf("got entry %d by %s (%s), want %d by %s", got.Index, got.Rule, got.Why, c.index, c.rule)
			}
			if got.Why == "" {
				t.Error("no reason given")
			}
		})
	}
	t.Run("not used by NCCL", func(t *testing.T) {
		if _, ok := SelectGID(NodeRNIC, LinkEthernet, 1, nil, conf()); ok {
			t.Error("iWARP has no GID to choose")
		}
		if _, ok := SelectGID(NodeUnspecified, LinkUnspecified, 1, nil, conf()); ok {
			t.Error("NCCL does not use EFA through verbs")
		}
	})
	t.Run("an empty entry is said to be empty", func(t *testing.T) {
		got, _ := SelectGID(NodeCA, LinkEthernet, 16, table(t, LinkEthernet, usual...), conf("NCCL_IB_GID_INDEX=9"))
		if got.GID != nil || !strings.Contains(got.Why, "entry is empty") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestClassifyGID(t *testing.T) {
	ll, v4 := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("::ffff:10.0.0.1")
	mac := netip.MustParseAddr("da15:83a8:6f99::")
	for _, c := range []struct {
		name   string
		node   NodeType
		layer  LinkLayer
		word   string
		addr   netip.Addr
		typ    GIDType
		family GIDFamily
	}{
		{"siw claims RoCE v1", NodeRNIC, LinkEthernet, "IB/RoCE v1", mac, GIDiWARP, FamilyOther},
		{"the same word on InfiniBand", NodeCA, LinkInfiniBand, "IB/RoCE v1", ll, GIDInfiniBand, FamilyLinkLocal},
		{"and on Ethernet", NodeCA, LinkEthernet, "IB/RoCE v1", v4, GIDRoCEv1, FamilyIPv4},
		{"the other word that NCCL knows", NodeCA, LinkEthernet, "RoCE v1", v4, GIDRoCEv1, FamilyIPv4},
		{"RoCE v2", NodeCA, LinkEthernet, "RoCE v2", v4, GIDRoCEv2, FamilyIPv4},
		{"a word of the future", NodeCA, LinkEthernet, "RoCE v3", v4, GIDOther, FamilyIPv4},
		{"EFA", NodeUnspecified, LinkUnspecified, "IB/RoCE v1", ll, GIDOther, FamilyLinkLocal},
	} {
		if typ, family := ClassifyGID(c.node, c.layer, c.word, c.addr); typ != c.typ || family != c.family {
			t.Errorf("%s: got %s %s, want %s %s", c.name, typ, family, c.typ, c.family)
		}
	}
}

func TestEmptyGID(t *testing.T) {
	for _, c := range []struct {
		name  string
		layer LinkLayer
		addr  string
		want  bool
	}{
		{"zero", LinkEthernet, "::", true},
		{"the default prefix alone", LinkInfiniBand, "fe80::", true},
		{"also where the link layer is not known", "", "fe80::", true},
		{"another subnet's prefix alone", LinkInfiniBand, "fec0:0:0:1::", true},
		{"a port of the default subnet", LinkInfiniBand, "fe80::2:c903:12:3457", false},
		{"an FLID, of which NCCL asks no GUID", LinkInfiniBand, "fe80:0:7::", false},
		{"an IPv6 address that ends in zeros", LinkEthernet, "fd00:0:0:1::", false},
		{"IPv4", LinkEthernet, "::ffff:10.0.0.0", false},
		{"the MAC address of an iWARP device", LinkEthernet, "da15:83a8:6f99::", false},
	} {
		if got := EmptyGID(c.layer, netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: %s is empty: %t", c.name, c.addr, got)
		}
	}
}

func TestCountChanges(t *testing.T) {
	a := table(t, LinkEthernet, "0 v1 fe80::1", "1 v2 fe80::1", "3 v2 ::ffff:10.0.0.1")
	for _, c := range []struct {
		name  string
		after []GID
		want  uint64
	}{
		{"nothing", a, 0},
		{"one lost", a[:2], 1},
		{"one new", append(slices.Clone(a), table(t, LinkEthernet, "5 v2 fd00::1")...), 1},
		{"one replaced", append(slices.Clone(a[:2]), table(t, LinkEthernet, "3 v2 ::ffff:10.0.0.2")...), 1},
		{"one moved", append(slices.Clone(a[:2]), table(t, LinkEthernet, "4 v2 ::ffff:10.0.0.1")...), 2},
		{"all lost", nil, 3},
	} {
		if got := CountChanges(a, c.after); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// Entries that are not listed are empty; that most of them are passed over shows nowhere.
func TestEmptyEntries(t *testing.T) {
	addresses := []string{"fe80::1", "::ffff:10.0.0.1", "::ffff:10.9.0.1", "fd00::1", "::"}
	for seed := range 5 * 5 * 5 * 5 * 5 * 5 {
		var listed, all []string
		for i, rest := 0, seed; i < 6; i, rest = i+1, rest/5 {
			line := strconv.Itoa(2*i) + " v2 " + addresses[rest%5]
			if rest%5 != 4 {
				listed = append(listed, line)
			}
			all = append(all, line, strconv.Itoa(2*i+1)+" ? ::")
		}
		for _, c := range [][]string{nil, {"NCCL_IB_ADDR_FAMILY=AF_INET6"}, {"NCCL_IB_ADDR_RANGE=10.9.0.0/16"}} {
			got, _ := SelectGID(NodeCA, LinkEthernet, 12, table(t, LinkEthernet, listed...), conf(c...))
			want, _ := SelectGID(NodeCA, LinkEthernet, 12, table(t, LinkEthernet, all...), conf(c...))
			if got.Index != want.Index || got.Rule != want.Rule {
				t.Fatalf("%v, %v: entry %d by %s, want %d by %s", listed, c, got.Index, got.Rule, want.Index, want.Rule)
			}
		}
	}
}
