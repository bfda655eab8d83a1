// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"net/netip"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What the files say is what NCCL's GID selection sees: its known pitfalls, from the file to the entry.
func TestGIDSelectionFromFiles(t *testing.T) {
	gid := func(index int, addr string, typ fabric.GIDType) fabric.GID {
		return fabric.GID{Index: index, Addr: netip.MustParseAddr(addr), Type: typ}
	}
	linkLocal := []fabric.GID{gid(0, "fe80::1", fabric.GIDRoCEv1), gid(1, "fe80::1", fabric.GIDRoCEv2)}
	ipv4 := append(linkLocal[:2:2], gid(2, "::ffff:10.0.0.1", fabric.GIDRoCEv1), gid(3, "::ffff:10.0.0.1", fabric.GIDRoCEv2))
	vlans := append(ipv4[:4:4], gid(4, "::ffff:10.1.0.1", fabric.GIDRoCEv1), gid(5, "::ffff:10.1.0.1", fabric.GIDRoCEv2))
	ipv6 := append(linkLocal[:2:2], gid(2, "2001:db8::1", fabric.GIDRoCEv1), gid(3, "2001:db8::1", fabric.GIDRoCEv2))
	v1Only := append(linkLocal[:1:1], gid(1, "::ffff:10.0.0.1", fabric.GIDRoCEv1))

	tests := []struct {
		name    string
		conf    string
		entries []fabric.GID
		index   int
		rule    fabric.GIDRule
	}{
		{"automatic", "", ipv4, 3, fabric.GIDByMatch},
		{"several IPv4 addresses: the first", "", vlans, 3, fabric.GIDByMatch},
		{"several IPv4 addresses: the one in range", "NCCL_IB_ADDR_RANGE=10.1.0.0/16\n", vlans, 5, fabric.GIDByMatch},
		{"a quoted range matches everything", "NCCL_IB_ADDR_RANGE=\"10.1.0.0/16\"\n", vlans, 3, fabric.GIDByMatch},
		{"a blank before the range too", "NCCL_IB_ADDR_RANGE= 10.1.0.0/16\n", vlans, 3, fabric.GIDByMatch},
		{"a comment behind the range does no harm", "NCCL_IB_ADDR_RANGE=10.1.0.0/16 # rail 1\n", vlans, 5, fabric.GIDByMatch},
		{"IPv6 only with the default family", "", ipv6, 0, fabric.GIDByFallback},
		{"IPv6 only", "NCCL_IB_ADDR_FAMILY=AF_INET6\n", ipv6, 3, fabric.GIDByMatch},
		{"the family is exact", "NCCL_IB_ADDR_FAMILY=AF_INET6 \n", ipv6, 0, fabric.GIDByFallback},
		{"and its name is not trimmed", "NCCL_IB_ADDR_FAMILY =AF_INET6\n", ipv6, 0, fabric.GIDByFallback},
		{"only RoCE v1", "", v1Only, 1, fabric.GIDByFallback},
		{"a fixed index is not checked", "NCCL_IB_GID_INDEX=3\n", v1Only, 3, fabric.GIDByConfiguration},
		{"as a number", "NCCL_IB_GID_INDEX=0x3 # old advice\n", ipv4, 3, fabric.GIDByConfiguration},
		{"a word is index 0", "NCCL_IB_GID_INDEX=auto\n", ipv4, 0, fabric.GIDByConfiguration},
		{"a negative one is automatic", "NCCL_IB_GID_INDEX=-1\n", ipv4, 3, fabric.GIDByMatch},
		{"an empty one is automatic", "NCCL_IB_GID_INDEX=\n", ipv4, 3, fabric.GIDByMatch},
		{"too large a one is the default", "NCCL_IB_GID_INDEX=9223372036854775808\n", ipv4, 3, fabric.GIDByMatch},
		{"export hides it", "export NCCL_IB_GID_INDEX=1\n", ipv4, 3, fabric.GIDByMatch},
		{"RoCE v1 is wanted", "NCCL_IB_ROCE_VERSION_NUM=1\n", ipv4, 2, fabric.GIDByMatch},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := New(tree(t, map[string]string{systemFile: test.conf}), "", "").Read(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			choice, ok := fabric.SelectGID(fabric.NodeCA, fabric.LinkEthernet, 16, test.entries, &c)
			if !ok || choice.Index != test.index || choice.Rule != test.rule {
				t.Errorf("got %v, %+v, want entry %d, %s", ok, choice, test.index, test.rule)
			}
		})
	}
}
