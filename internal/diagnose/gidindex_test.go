// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"net/netip"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Rails of Oracle's GB300 have IPv6 addresses only: without NCCL_IB_GID_INDEX, and without another address family, NCCL finds none.
func TestRemedyOfPinnedGIDKeepsIPv6(t *testing.T) {
	v4 := fabric.GID{Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}
	v6 := fabric.GID{Addr: netip.MustParseAddr("fdcd:1::3"), Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6}
	for _, test := range []struct {
		name   string
		gids   []fabric.GID
		family string
		want   bool // the remedy sets the family
	}{
		{"IPv6 only", []fabric.GID{v6}, "", true},
		{"IPv6 only, and the family is set", []fabric.GID{v6}, "AF_INET6", false},
		{"both", []fabric.GID{v6, v4}, "", false},
		{"IPv4", []fabric.GID{v4}, "", false},
		{"none", nil, "", false},
	} {
		n := withDevices("")
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "3", Number: 3, IsNumber: true, Source: "/etc/nccl.conf:1"}}
		if test.family != "" {
			n.NCCL.Variables = append([]fabric.NCCLVariable{{Name: "NCCL_IB_ADDR_FAMILY", Value: test.family, Source: "/etc/nccl.conf:2"}}, n.NCCL.Variables...)
		}
		p := &n.HCAs[0].Ports[0]
		p.Role, p.GIDs.Entries = fabric.Known(fabric.RoleCompute, "", at), fabric.Known(test.gids, "gids", at)
		list := Run(n, []*verdict.Check{Find("nccl_gid_index")})
		if len(list) != 1 || strings.Contains(list[0].Remedy, "=AF_INET6") != test.want {
			t.Errorf("%s: %+v", test.name, list)
		}
	}
}
