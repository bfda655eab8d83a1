// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

var at = time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)

// alone asks one check of a node and returns its verdict, which has to be the only one; the zero Verdict for none.
func alone(t *testing.T, n *fabric.Node, id string) verdict.Verdict {
	t.Helper()
	list := Run(n, []*verdict.Check{Find(id)})
	switch len(list) {
	case 0:
		return verdict.Verdict{}
	case 1:
		return list[0]
	}
	t.Fatalf("got %v", list)
	return verdict.Verdict{}
}

func TestMemlock(t *testing.T) {
	limit := func(soft, hard uint64) fabric.Fact[fabric.Memlock] {
		return fabric.Known(fabric.Memlock{Soft: soft, Hard: hard}, "limits", at)
	}
	hidden := fabric.UnknownFact[fabric.Memlock](fabric.ReasonPrivilege, "limits", at)
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
		n.Host.Daemons = fabric.Known(test.daemons, "comm", at)
		if v := alone(t, n, "memlock"); v.Status != test.want || !strings.Contains(v.Evidence, test.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	n := &fabric.Node{Policy: &fabric.Policy{}}
	n.Host.Daemons = fabric.UnknownFact[[]fabric.Daemon](fabric.ReasonPrivilege, "1/comm", at)
	if v := alone(t, n, "memlock"); v.Status != verdict.Unknown || v.Reason != fabric.ReasonPrivilege {
		t.Errorf("hidden processes: %+v", v)
	}
	for n, want := range map[uint64]string{0: "0 bytes", 1000: "1000 bytes", 65536: "64 KiB", 1 << 23: "8 MiB", 1 << 62: "4194304 TiB", fabric.NoLimit: "any amount"} {
		if got := verdict.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %s", n, got)
		}
	}
}

func TestSocketInterface(t *testing.T) {
	interfaces := func(states ...string) (list []fabric.Interface) {
		for _, s := range append(states, "lo unknown") {
			name, state, _ := strings.Cut(s, " ")
			f := fabric.Known(state, "operstate", at)
			if state == "?" {
				f = fabric.UnknownFact[string](fabric.ReasonIO, "operstate", at)
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
		n := &fabric.Node{Policy: &fabric.Policy{}, Interfaces: fabric.Known(test.all, "class/net", at)}
		n.NCCL.Variables = []fabric.NCCLVariable{{Name: "NCCL_SOCKET_IFNAME", Value: test.value, Source: "/etc/nccl.conf:2"}}
		if v := alone(t, n, "nccl_socket_interface"); v.Status != test.want || !strings.Contains(v.What, test.says) {
			t.Errorf("%q: %+v", test.value, v)
		}
		n.Interfaces = fabric.UnknownFact[[]fabric.Interface](fabric.ReasonPrivilege, "class/net", at)
		if v := alone(t, n, "nccl_socket_interface"); v.Status == verdict.OK || v.Status == verdict.Failed {
			t.Errorf("%q: %s without interfaces", test.value, v.Status)
		}
		n.Interfaces = fabric.Known(test.all, "class/net", at)
		n.NetDevs = []fabric.NetDev{{Name: "enp24s0np0"}}
		if v := alone(t, n, "nccl_socket_interface"); v.Status == verdict.OK || v.Status == verdict.Failed {
			t.Errorf("%q: %s in a container with a network of its own", test.value, v.Status)
		}
	}
}

func TestDividedGPUs(t *testing.T) {
	node := func(mig string) *fabric.Node { // a letter a GPU: on, off, none, unknown, a for another model
		n := &fabric.Node{Policy: &fabric.Policy{}}
		n.GPUDriver.Loaded = fabric.Known(true, "", at)
		for i, c := range mig {
			g := fabric.GPU{Index: i, UUID: "GPU-" + string(rune('a'+i)), Name: fabric.Known("NVIDIA A100", "", at), MIG: fabric.Known(c == '+', "", at), Lost: fabric.Known(false, "", at)}
			switch c {
			case '0':
				g.MIG = fabric.AbsentFact[bool]("", at)
			case '?':
				g.MIG = fabric.UnknownFact[bool](fabric.ReasonIO, "", at)
			case 'a':
				g.Name.Value = "NVIDIA H100"
			}
			n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, g)
		}
		return n
	}
	for mig, want := range map[string]verdict.Status{
		"+-------": verdict.Failed, "+++-----": verdict.Failed, "++++----": verdict.OK, "+++++---": verdict.OK, "++++++++": verdict.OK, "+": verdict.OK, "--------": verdict.OK,
		"+0000000": verdict.OK, "+aaaaaaa": verdict.OK, "+aaaaaa-": verdict.OK, "+aaaaa--": verdict.Failed,
		"+-?": verdict.Unknown, "+---?": verdict.Failed, "+?": verdict.OK, "++-?": verdict.OK, "++--?": verdict.Unknown, "?-------": verdict.Unknown,
	} {
		var first verdict.Status
		for _, v := range Run(node(mig), []*verdict.Check{Find("gpu_divided")}) {
			if v.Subject.GPU == "GPU-a" {
				first = v.Status
			}
		}
		if first != want {
			t.Errorf("%s: %q, want %q", mig, first, want)
		}
	}
	if list := Run(node("0000"), []*verdict.Check{Find("gpu_divided")}); len(list) > 0 {
		t.Errorf("GPUs that cannot be divided: %v", list)
	}
}
