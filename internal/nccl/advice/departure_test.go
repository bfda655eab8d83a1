// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// A job departs from the advice where a variable is missing, has a value of another meaning or one that is
// not read, or is set although NCCL's default is better. The same meaning in other words is no departure.
func TestDepartures(t *testing.T) {
	a := For(observed(t, "healthy"), Workload{NCCL: release(t, "2.27.7")})
	value := func(name string) string {
		i := slices.IndexFunc(a.Settings, func(s Setting) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("the advice has no %s: %+v", name, a.Settings)
		}
		return a.Settings[i].Value
	}
	job := func(edit ...string) (list []fabric.NCCLVariable) {
		has := map[string]string{}
		for _, s := range a.Settings {
			has[s.Name] = s.Value
		}
		for _, e := range edit {
			name, v, _ := strings.Cut(e, "=")
			has[name] = v
		}
		for name, v := range has {
			if v != "" {
				list = append(list, fabric.NCCLVariable{Name: name, Value: v, Masked: v == "set"})
			}
		}
		return list
	}
	for name, tt := range map[string]struct {
		job  []fabric.NCCLVariable
		want string
	}{
		"as advised":         {job(), ""},
		"same meaning":       {job("NCCL_NET=ib", "NCCL_IB_TC=104"), ""},
		"other DSCP":         {job("NCCL_IB_TC=0"), "NCCL_IB_TC 0 -> " + value("NCCL_IB_TC")},
		"not set":            {job("NCCL_NET="), "NCCL_NET - -> IB"},
		"not read":           {job("NCCL_IB_HCA=set"), "NCCL_IB_HCA ? -> " + value("NCCL_IB_HCA")},
		"default is better":  {job("NCCL_PROTO=LL"), "NCCL_PROTO LL -> -"},
		"others are ignored": {job("NCCL_NEW_VARIABLE=1"), ""},
		"its own interfaces": {job("NCCL_SOCKET_IFNAME="), ""},
	} {
		var got []string
		for _, d := range a.Departures(tt.job) {
			show := func(s *string) string {
				if s == nil {
					return "-"
				}
				return *s
			}
			present := show(d.Present)
			if d.Hidden {
				present = "?"
			}
			if d.Reason == "" {
				t.Errorf("%s: no reason: %+v", name, d)
			}
			got = append(got, fmt.Sprintf("%s %s -> %s", d.Name, present, show(d.Advised)))
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	one := For(observed(t, "healthy"), Workload{Nodes: 1, NCCL: release(t, "2.27.7")})
	for _, l := range one.Leave {
		if l.names("NCCL_IB_TC") && !l.names("NCCL_ALGO") && l.names("NCCL_NET") && !l.names("NCCL_NET_PLUGIN") {
			return
		}
	}
	t.Errorf("of one node, no variable of the network is left to NCCL: %+v", one.Leave)
}
