// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/diagnose"
	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/fabric/fabrictest"
)

func TestObservedTroubles(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(n *fabric.Node)
		grown map[string]uint64
		want  []string // none: nothing
	}{
		{"as set up", nil, map[string]uint64{"rdma": 1e9, "tx_prio3_bytes": 1e9}, nil},
		{"another priority", nil, map[string]uint64{"rdma": 1e9, "tx_prio0_bytes": 1e9}, []string{
			"mlx5_1: RDMA traffic is sent with the wrong priority. In the last 15 s RDMA sent 1 GB, none of it with priority 3; 100 % of all that was sent had priority 0.", "packets of other priorities are dropped",
		}},
		{"another priority of a lossy fabric", func(n *fabric.Node) {
			for i := range n.NetDevs {
				n.NetDevs[i].QoS.PFC.Value.Enabled = 0
			}
			n.Policy.RoCE.Lossless = new(false)
		}, map[string]uint64{"rdma": 1e9, "tx_prio0_bytes": 1e9}, []string{"The network does not protect this priority"}},
		{"another priority, as the settings say", func(n *fabric.Node) { n.NetDevs[1].QoS.DSCPPriority.Value[26] = 0 }, map[string]uint64{"rdma": 1e9, "tx_prio3_bytes": 1e9}, []string{
			"mlx5_1: RoCE packets do not have the priority that the site expects.",
		}},
		{"storm", nil, map[string]uint64{"tx_prio3_pause_duration": 12e6}, []string{"mlx5_1: PFC storm", "for 80.0 % of the time"}},
		{"paused", nil, map[string]uint64{"rx_prio3_pause_duration": 3e6}, []string{"mlx5_1: The network pauses this host.", "for 20.0 % of the time"}},
		{"loss", nil, map[string]uint64{"rx_prio3_discards": 1}, []string{"mlx5_1: The lossless priority drops packets. In the last 15 s this host dropped 1 packet of the lossless priority 3."}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := fabrictest.Lossless()
			if test.edit != nil {
				test.edit(n)
			}
			fabrictest.Counted(n, test.grown)
			n.Derive()
			got := diagnosetest.Describe(diagnose.Run(n, nil))
			diagnosetest.Contains(t, got, test.want...)
			if (got == "") != (test.want == nil) || strings.Count(got, "\n") > 1 {
				t.Errorf("got %q", got)
			}
		})
	}
}

// RDMA counters are the port's: what they show is reported once, however many members a bond has.
func TestCongestionOfABondIsReportedOnce(t *testing.T) {
	n := fabrictest.Lossless()
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
	got := diagnosetest.Describe(diagnose.Run(n, nil))
	diagnosetest.Contains(t, got, "mlx5_0: Congestion control does not react to congestion. In the last 6.0 s 9000 packets came with congestion marks, and 0 notifications went out. Senders")
	if strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	n.Policy.RoCE.ECN = new(false) // by design
	n.Derive()
	if got := diagnosetest.Describe(diagnose.Run(n, nil)); strings.Contains(got, "Congestion control does not react to congestion") {
		t.Errorf("without ECN by design: %q", got)
	}
}
