// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestMemlock(t *testing.T) {
	limit := func(soft, hard uint64) fabric.Fact[fabric.Memlock] {
		return fabric.Known(fabric.Memlock{Soft: soft, Hard: hard}, "limits", diagnosetest.At)
	}
	hidden := fabric.UnknownFact[fabric.Memlock](fabric.ReasonPrivilege, "limits", diagnosetest.At)
	low, none := limit(65536, 65536), limit(fabric.NoLimit, fabric.NoLimit)
	for name, test := range map[string]struct {
		daemons []fabric.Daemon
		want    verdict.Status
		says    string
	}{
		"no daemon starts jobs":      {nil, "", ""},
		"unlimited":                  {[]fabric.Daemon{{Name: "slurmd", Memlock: none}}, verdict.OK, ""},
		"a GiB":                      {[]fabric.Daemon{{Name: "slurmd", Memlock: limit(1<<30, 1<<30)}}, verdict.OK, ""},
		"soft limit of the daemon":   {[]fabric.Daemon{{Name: "slurmd", Memlock: limit(65536, fabric.NoLimit)}}, verdict.OK, ""},
		"low":                        {[]fabric.Daemon{{Name: "slurmd", PID: 41, Memlock: low}}, verdict.Failed, "slurmd (process 41) may lock 64 KiB and can raise this limit to at most 64 KiB"},
		"one of two":                 {[]fabric.Daemon{{Name: "pbs_mom", Memlock: low}, {Name: "slurmd", Memlock: none}}, verdict.Failed, "pbs_mom"},
		"hidden":                     {[]fabric.Daemon{{Name: "slurmd", Memlock: hidden}}, verdict.Unknown, "The memory lock limit of slurmd"},
		"low and hidden":             {[]fabric.Daemon{{Name: "pbs_mom", Memlock: hidden}, {Name: "slurmd", Memlock: low}}, verdict.Failed, "slurmd"},
		"unlimited and hidden":       {[]fabric.Daemon{{Name: "pbs_mom", Memlock: none}, {Name: "slurmd", Memlock: hidden}}, verdict.Unknown, ""},
		"containers lock as allowed": {[]fabric.Daemon{{Name: "containerd", Memlock: low}}, "", ""},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{}}
		n.Host.Daemons = fabric.Known(test.daemons, "comm", diagnosetest.At)
		if v := diagnosetest.Alone(t, n, "memlock"); v.Status != test.want || !strings.Contains(v.Evidence, test.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	n := &fabric.Node{Policy: &fabric.Policy{}}
	n.Host.Daemons = fabric.UnknownFact[[]fabric.Daemon](fabric.ReasonPrivilege, "1/comm", diagnosetest.At)
	if v := diagnosetest.Alone(t, n, "memlock"); v.Status != verdict.Unknown || v.Reason != fabric.ReasonPrivilege {
		t.Errorf("hidden processes: %+v", v)
	}
	for n, want := range map[uint64]string{0: "0 bytes", 1000: "1000 bytes", 65536: "64 KiB", 1 << 23: "8 MiB", 1 << 62: "4194304 TiB", fabric.NoLimit: "any amount"} {
		if got := verdict.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s", n, got)
		}
	}
}
