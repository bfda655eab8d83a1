// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/fabric"
)

// counted gives the interface of the second port two readings of its statistics, 15 s apart.
func counted(n *fabric.Node, grown map[string]uint64) {
	reading := func(at time.Time, times uint64) fabric.Fact[[]fabric.Counter] {
		var list []fabric.Counter
		for p := range fabric.NumPriorities {
			for _, name := range []string{"tx_prio%d_bytes", "tx_prio%d_pause_duration", "rx_prio%d_pause_duration", "rx_prio%d_discards"} {
				name = fmt.Sprintf(name, p)
				list = append(list, fabric.Counter{Name: name, Value: fabric.Known(times*grown[name], "statistics", at)})
			}
		}
		list = append(list, fabric.Counter{Name: "tx_vport_rdma_unicast_bytes", Value: fabric.Known(times*grown["rdma"], "statistics", at)})
		return fabric.Known(list, "statistics", at)
	}
	q := &n.NetDevs[1].QoS
	q.Before, q.Counters = reading(n.At.Add(-15*time.Second), 1), reading(n.At, 2)
}

func TestObservedTroubles(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(n *fabric.Node)
		grown map[string]uint64
		want  []string // none: nothing
	}{
		{"as set up", nil, map[string]uint64{"rdma": 1e9, "tx_prio3_bytes": 1e9}, nil},
		{"another priority", nil, map[string]uint64{"rdma": 1e9, "tx_prio0_bytes": 1e9}, []string{
			"mlx5_1: RDMA traffic leaves with another priority than it should. In the last 15 s RDMA sent 1 GB, none of it with priority 3; 100 % of all that was sent had priority 0.", "elsewhere they are dropped",
		}},
		{"another priority of a lossy fabric", func(n *fabric.Node) {
			for i := range n.NetDevs {
				n.NetDevs[i].QoS.PFC.Value.Enabled = 0
			}
			n.Policy.RoCE.Lossless = new(false)
		}, map[string]uint64{"rdma": 1e9, "tx_prio0_bytes": 1e9}, []string{"The network does not protect it there"}},
		{"another priority, as the settings say", func(n *fabric.Node) { n.NetDevs[1].QoS.DSCPPriority.Value[26] = 0 }, map[string]uint64{"rdma": 1e9, "tx_prio3_bytes": 1e9}, []string{
			"mlx5_1: RoCE packets do not get the priority that the site expects.",
		}},
		{"storm", nil, map[string]uint64{"tx_prio3_pause_duration": 12e6}, []string{"mlx5_1: A PFC storm", "for 80.0 % of the time"}},
		{"paused", nil, map[string]uint64{"rx_prio3_pause_duration": 3e6}, []string{"mlx5_1: The network keeps this host from sending.", "for 20.0 % of the time"}},
		{"loss", nil, map[string]uint64{"rx_prio3_discards": 1}, []string{"mlx5_1: The lossless priority loses packets. In the last 15 s this host dropped 1 packet of the lossless priority 3."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := lossless()
			if test.edit != nil {
				test.edit(n)
			}
			counted(n, test.grown)
			n.Derive()
			got := tell(diagnose.Run(n, nil))
			contains(t, got, test.want...)
			if (got == "") != (test.want == nil) || strings.Count(got, "\n") > 1 {
				t.Errorf("got %q", got)
			}
		})
	}
}

// RDMA counters are the port's: what they show is told once, however many members a bond has.
func TestCongestionOfABondIsToldOnce(t *testing.T) {
	n := lossless()
	n.NetDevs = append(n.NetDevs, fabric.NetDev{Name: "bond0", Bond: fabric.Known(true, "bonding", n.At), Lower: fabric.Known([]string{"eth0", "eth1"}, "lower_*", n.At)})
	n.HCAs = n.HCAs[:1]
	p := &n.HCAs[0].Ports[0]
	p.NetDev.Value = "bond0"
	for i := range p.GIDs.Entries.Value {
		p.GIDs.Entries.Value[i].NetDev = "bond0"
	}
	reading := func(at time.Time, marked uint64) fabric.Fact[[]fabric.Counter] {
		return fabric.Known([]fabric.Counter{
			{Name: "np_ecn_marked_roce_packets", Value: fabric.Known(marked, "", at)}, {Name: "np_cnp_sent", Value: fabric.Known[uint64](4, "", at)},
		}, "hw_counters", at)
	}
	p.Counters.BeforeHW, p.Counters.HW = reading(n.At.Add(-6*time.Second), 0), reading(n.At, 9000)
	n.Derive()
	got := tell(diagnose.Run(n, nil))
	contains(t, got, "mlx5_0: Congestion is not answered. In the last 6.0 s 9000 packets came with congestion marks, and 0 notifications went out. Senders")
	if strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	n.Policy.RoCE.ECN = new(false) // by design
	n.Derive()
	lacks(t, tell(diagnose.Run(n, nil)), "Congestion is not answered")
}

func TestLandingShowsTheChain(t *testing.T) {
	page := func(edit func(n *fabric.Node)) string {
		n := lossless()
		edit(n)
		n.Derive()
		p := start(t, &fakeObserver{node: func() *fabric.Node { c := *n; return &c }})
		_, body, _ := p.get("/")
		return body
	}
	fine := page(func(n *fabric.Node) { counted(n, nil) })
	contains(t, fine, "<strong>mlx5_0</strong>", "traffic class 106 → DSCP 26 → priority 3", "PFC and ECN", `class="good">consistent<`,
		"Priority 3 has receive buffer 1 of 156096 bytes.", "In the last 15 s this host dropped 0 packets of the lossless priority 3.")
	lacks(t, fine, `http-equiv="refresh"`)

	once := page(func(n *fabric.Node) { counted(n, nil); n.NetDevs[1].QoS.Before = fabric.Fact[[]fabric.Counter]{} })
	contains(t, once, `<meta http-equiv="refresh" content="11">`, "this page looks again in 11 s", `<section class="verdict unsure">`,
		"<h2>Nothing looks wrong so far; traffic has not been judged yet</h2>")
	lacks(t, once, `<section class="verdict good">`)
	contains(t, fine, `<section class="verdict good">`)
	lacks(t, fine, "has not been judged")

	contains(t, page(func(n *fabric.Node) { n.NetDevs[1].QoS.PFC.Value.Enabled = 0 }), `class="bad">broken at PFC<`, "ECN, no PFC")
	contains(t, page(func(n *fabric.Node) { counted(n, map[string]uint64{"tx_prio3_pause_duration": 15e6}) }), `class="bad">trouble in its traffic: pauses sent<`)
	contains(t, page(func(n *fabric.Node) { n.NCCL.Variables = nil }), "traffic class ? → DSCP ? → priority ?", `class="unsure">unknown at traffic class<small>jobs choose it<`)

	evil := page(func(n *fabric.Node) {
		n.NCCL.Variables[0].Value, n.NCCL.Variables[0].Source = "<script>", "<script>"
	})
	lacks(t, evil, "<script")
	contains(t, evil, "NCCL_IB_TC=&lt;script&gt;")
}
