// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestNCCLDevices(t *testing.T) {
	down := func(n *fabric.Node) {
		for i := range n.HCAs {
			n.HCAs[i].Ports[0].State.Value = fabric.PortDown
		}
	}
	for _, test := range []struct {
		name, filter string
		edit         func(n *fabric.Node)
		want         verdict.Status
		says         string
	}{
		{"prefix", "mlx5", nil, verdict.OK, ""},
		{"unset", "", nil, "", ""},
		{"another vendor", "bnxt", nil, verdict.Failed, "matches no active RDMA port"},
		{"one is missing", "=mlx5_0,mlx5_7", nil, verdict.Failed, "names missing devices"},
		{"one is excluded by flags", "=mlx5_0,mlx5_7", func(n *fabric.Node) { n.Excluded = []string{"mlx5_7"} }, verdict.OK, ""},
		{"another port", "mlx5_0:2", nil, verdict.Failed, "matches no active RDMA port"},
		{"excluded that is not there", "^mlx5_7", nil, verdict.OK, ""},
		{"all excluded", "^", nil, verdict.Failed, "matches no active RDMA port"},
		{"all down", "mlx5", down, verdict.Failed, "matches no active RDMA port"},
		{"one down, one hidden", "mlx5", func(n *fabric.Node) {
			down(n)
			n.HCAs[1].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonIO, "state", n.At)
		}, verdict.Unknown, ""},
		{"devices hidden", "mlx5", func(n *fabric.Node) {
			n.HCAs, n.ClassPresent = nil, fabric.UnknownFact[bool](fabric.ReasonPrivilege, "class/infiniband", n.At)
		}, verdict.Unknown, ""},
		{"EFA, which always says active", "mlx5_0", func(n *fabric.Node) {
			n.HCAs[0].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonDriverConstant, "state", n.At)
		}, verdict.OK, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := diagnosetest.WithDevices(test.filter)
			if test.edit != nil {
				test.edit(n)
			}
			list := diagnosetest.Ask(n, "nccl_devices")
			if test.want == "" {
				if len(list) > 0 {
					t.Errorf("got %v", list)
				}
				return
			}
			if len(list) != 1 || list[0].Status != test.want || !strings.Contains(list[0].What, test.says) || list[0].Subject.File != "/etc/nccl.conf:2" {
				t.Errorf("got %+v", list)
			}
		})
	}
}

// mlx5_1 also takes mlx5_10 to mlx5_19: docs.nvidia.com, NCCL_IB_HCA.
func TestNCCLDevicesPrefix(t *testing.T) {
	for filter, want := range map[string]verdict.Status{
		"": "", "mlx5": "", "=mlx5_1": "", "bnxt": "", "mlx5_0": verdict.OK,
		"mlx5_1": verdict.Failed, "^mlx5_1": verdict.Failed, "mlx5_1:1": verdict.Failed, "mlx5_1,mlx5_10": verdict.OK,
	} {
		n := diagnosetest.WithDevices(filter)
		more := n.HCAs[1]
		more.Name = "mlx5_10"
		n.HCAs = append(n.HCAs, more)
		list := diagnosetest.Ask(n, "nccl_devices_prefix")
		switch {
		case want == "" && len(list) == 0:
		case len(list) != 1 || list[0].Status != want:
			t.Errorf("%q: %+v, want %q", filter, list, want)
		case want == verdict.Failed && !strings.Contains(list[0].Evidence, "mlx5_1 is a prefix, and also matches mlx5_10."):
			t.Errorf("%q: %s", filter, list[0].Evidence)
		}
	}
}

func TestPinnedGIDs(t *testing.T) {
	n := diagnosetest.WithDevices("")
	n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "3", Number: 3, IsNumber: true, Source: "/etc/nccl.conf:1"}}
	for i := range n.HCAs {
		p := &n.HCAs[i].Ports[0]
		p.Role = fabric.Known(fabric.RoleCompute, "", n.At)
		p.GIDChoice = fabric.Known(fabric.GIDChoice{Index: 3, Rule: fabric.GIDByConfiguration, GID: &fabric.GID{Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv4}}, "", n.At)
	}
	status := func() verdict.Status {
		t.Helper()
		list := diagnosetest.Ask(n, "gid_pinned_uniform")
		if len(list) != 1 {
			t.Fatalf("got %v", list)
		}
		return list[0].Status
	}
	if got := status(); got != verdict.OK {
		t.Errorf("one kind: %s", got)
	}
	kept := n.HCAs[1].Ports[0].GIDChoice
	n.HCAs[1].Ports[0].GIDChoice.Value.GID = &fabric.GID{Type: fabric.GIDRoCEv2, Family: fabric.FamilyIPv6}
	if got := status(); got != verdict.Failed {
		t.Errorf("two kinds: %s", got)
	}
	n.HCAs[1].Ports[0].GIDChoice = fabric.UnknownFact[fabric.GIDChoice](fabric.ReasonIO, "", n.At)
	if got := status(); got != verdict.Unknown {
		t.Errorf("one hidden: %s", got)
	}
	n.HCAs[1].Ports[0].GIDChoice = kept
	if list := diagnosetest.Ask(n, "nccl_gid_index"); len(list) != 1 || list[0].Status != verdict.Failed || list[0].Check.Severity != verdict.Info {
		t.Errorf("got %v", list)
	}
}

// Rails of Oracle's GB300 have IPv6 addresses only: without NCCL_IB_GID_INDEX, and without another address
// family, NCCL finds none.
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
		n := diagnosetest.WithDevices("")
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_IB_GID_INDEX", Value: "3", Number: 3, IsNumber: true, Source: "/etc/nccl.conf:1"}}
		if test.family != "" {
			n.NCCL.Variables = append([]fabric.NCCLVariable{{Name: "NCCL_IB_ADDR_FAMILY", Value: test.family, Source: "/etc/nccl.conf:2"}}, n.NCCL.Variables...)
		}
		p := &n.HCAs[0].Ports[0]
		p.Role, p.GIDs.Entries = fabric.Known(fabric.RoleCompute, "", diagnosetest.At), fabric.Known(test.gids, "gids", diagnosetest.At)
		list := diagnosetest.Ask(n, "nccl_gid_index")
		if len(list) != 1 || strings.Contains(list[0].Remedy, "=AF_INET6") != test.want {
			t.Errorf("%s: %+v", test.name, list)
		}
	}
}

// TestFindingsBySeverity: what NCCL reads as it is meant is reported and fails nothing, what stops NCCL is critical.
func TestFindingsBySeverity(t *testing.T) {
	n := trainer(0, "NCCL_ALGO=Rings", "NCCL_PROTO=Simple", "NCCL_MIN_NCHANNELS=4", "NCCL_IB_TC=300")
	for i, harm := range map[int]fabric.NCCLHarm{1: fabric.NCCLFatal, 3: fabric.NCCLNote, 4: fabric.NCCLMisread} {
		n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Harm: harm, Name: "NCCL_X", Source: fmt.Sprintf("/etc/nccl.conf:%d", i), Text: "so it is"})
	}
	for id, want := range map[string]struct {
		severity verdict.Severity
		line     string
	}{"nccl_refused": {verdict.Critical, "1"}, "nccl_configuration": {verdict.Warning, "4"}, "nccl_notes": {verdict.Info, "3"}} {
		failed := verdict.Failures(diagnosetest.Ask(n, id))
		if len(failed) != 1 || failed[0].Check.Severity != want.severity || failed[0].Subject.File != "/etc/nccl.conf:"+want.line {
			t.Errorf("%s: %+v", id, failed)
		}
	}
	if ok := slices.DeleteFunc(diagnosetest.Ask(n, "nccl_refused"), func(v verdict.Verdict) bool { return v.Status != verdict.OK }); len(ok) != 1 || ok[0].Subject.File != "/etc/nccl.conf:2" {
		t.Errorf("what NCCL takes: %+v", ok)
	}

	n.NCCL.Findings = []fabric.NCCLFinding{{Harm: fabric.NCCLFatal, Name: "NCCL_BUFFSIZE", Source: "/etc/nccl.conf:4", Text: "NCCL reads 4"}}
	if list := verdict.Failures(diagnosetest.Ask(n, "nccl_refused")); len(list) != 1 || !strings.Contains(list[0].Consequence, "first collective") || strings.Contains(list[0].Consequence, "2.24") {
		t.Errorf("a number that ends jobs: %+v", list)
	}

	n.NCCL.Findings = n.NCCL.Findings[:0]
	n.NCCL.Findings = append(n.NCCL.Findings, fabric.NCCLFinding{Harm: fabric.NCCLNote, Name: "NCCL_MIN_NCHANNELS", Source: "/etc/nccl.conf:3", Text: "so it is"})
	if list := diagnosetest.Ask(n, "nccl_configuration"); len(list) != 1 || list[0].Status != verdict.OK {
		t.Errorf("a file with a note: %+v", list)
	}
}
