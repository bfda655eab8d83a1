// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestSocketInterface(t *testing.T) {
	interfaces := func(states ...string) (list []fabric.Interface) {
		for _, s := range append(states, "lo unknown") {
			name, state, _ := strings.Cut(s, " ")
			f := fabric.Known(state, "operstate", diagnosetest.At)
			if state == "?" {
				f = fabric.UnknownFact[string](fabric.ReasonIO, "operstate", diagnosetest.At)
			}
			list = append(list, fabric.Interface{Name: name, OperState: f})
		}
		return list
	}
	usual := interfaces("bond0 up", "docker0 down", "eno1 up", "eno2 down", "tun0 unknown")
	for _, test := range []struct {
		value string
		all   []fabric.Interface
		want  verdict.Status
		says  string
	}{
		{"eno1", usual, verdict.OK, ""},
		{"en", usual, verdict.OK, ""},
		{"=eno", usual, verdict.Failed, "matches no interface"},
		{"=eno1", usual, verdict.OK, ""},
		{"eth0,bond", usual, verdict.OK, ""},
		{"eth0", usual, verdict.Failed, "matches no interface"},
		{"eno1 ", usual, verdict.Failed, "matches no interface"}, // NCCL does not trim
		{"eno2", usual, verdict.Failed, "matches no interface that is up"},
		{"eth0,eno2,docker", usual, verdict.Failed, "matches no interface that is up"},
		{"tun0", usual, verdict.OK, ""}, // without carrier the kernel does not know, and NCCL takes it
		{"^docker0,lo", usual, verdict.OK, ""},
		{"^e,bond,tun,docker", usual, verdict.Failed, "but loopback"}, // lo does not lead to other nodes
		{"lo", usual, verdict.OK, ""},
		{"", usual, "", ""},
		{"e", usual, "", ""},                                             // too short: NCCL ignores it
		{"eth0", interfaces("eth0 down", "eth0.100 up"), verdict.OK, ""}, // by prefix
		{"=eth0", interfaces("eth0 down", "eth0.100 up"), verdict.Failed, "matches no interface that is up"},
		{"^eth0", interfaces("eth0 up", "eth0.100 up"), verdict.Failed, "matches no interface"},
		{"^=eth0", interfaces("eth0 up", "eth0.100 up"), verdict.OK, ""},
		{"^=eno1,bond0,tun0", usual, verdict.Failed, "but loopback"},
		{"eno3", interfaces("eno3 ?"), verdict.Unknown, ""},
		{"eno", interfaces("eno2 down", "eno3 ?"), verdict.Unknown, ""},
		{"eno", interfaces("eno1 up", "eno3 ?"), verdict.OK, ""},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}, Interfaces: fabric.Known(test.all, "class/net", diagnosetest.At)}
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_SOCKET_IFNAME", Value: test.value, Source: "/etc/nccl.conf:2"}}
		if v := diagnosetest.Alone(t, n, "nccl_socket_interface"); v.Status != test.want || !strings.Contains(v.What, test.says) {
			t.Errorf("%q: %+v", test.value, v)
		}
		n.Interfaces = fabric.UnknownFact[[]fabric.Interface](fabric.ReasonPrivilege, "class/net", diagnosetest.At)
		if v := diagnosetest.Alone(t, n, "nccl_socket_interface"); v.Status == verdict.OK || v.Status == verdict.Failed {
			t.Errorf("%q: %s without interfaces", test.value, v.Status)
		}
		n.Interfaces = fabric.Known(test.all, "class/net", diagnosetest.At)
		n.NetDevs = []fabric.NetDev{{Name: "enp24s0np0"}}
		if v := diagnosetest.Alone(t, n, "nccl_socket_interface"); v.Status == verdict.OK || v.Status == verdict.Failed {
			t.Errorf("%q: %s in a container with a network of its own", test.value, v.Status)
		}
	}
}
