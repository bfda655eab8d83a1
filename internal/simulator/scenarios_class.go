// SPDX-License-Identifier: Apache-2.0

package simulator

import "gpufabric_exporter/internal/fabric"

// classScenarios are about what the class of RoCE is given: room, bandwidth, and a way for notifications around it.
func classScenarios() []Scenario {
	return []Scenario{
		{
			Name: "buffer-shared", Platform: h100, policy: losslessPolicy,
			Summary: "on one compute port, the lossless priority shares a receive buffer with all others",
			Truth: "PFC is on for priority 3 of mlx5_6, but a script mapped all priorities to receive buffer 0, which is the firmware's " +
				"default without PFC. Lossy traffic fills the buffer that the lossless traffic needs while its sender is paused.",
			Expect: []Finding{{"mlx5_6", 1, "lossless_buffer_missing"}},
			edit: func(n *Node) {
				b := &n.qos("mlx5_6").Buffers
				*b = fabric.Buffers{Bytes: [fabric.NumPriorities]int{b.Total}, Total: b.Total}
			},
		},
		{
			Name: "ets-starved", Platform: h100, policy: losslessPolicy,
			Summary: "the traffic class of RoCE has no bandwidth share on one compute port",
			Truth: "On mlx5_1 traffic classes share bandwidth by ETS, and class 1, that of priority 0, has all of it. The class of priority 3 " +
				"has no share and gets only unused bandwidth.",
			Expect: []Finding{{"mlx5_1", 1, "no_bandwidth_share"}},
			edit: func(n *Node) {
				e := &n.qos("mlx5_1").ETS
				for c := range e.Algorithm {
					e.Algorithm[c], e.Bandwidth[c] = fabric.TSAETS, 0
				}
				e.Bandwidth[e.PriorityClass[0]] = 100
			},
		},
		{
			Name: "cnp-with-data", Platform: h100, policy: losslessPolicy,
			Summary: "the congestion notifications of one compute port queue behind its data",
			Truth: "The notifications that mlx5_4 sends carry DSCP 26, like the data, instead of 48. They have priority 3 and are paused " +
				"together with the data, so senders learn of the congestion after it is over.",
			Expect: []Finding{{"mlx5_4", 1, "notifications_with_data"}},
			edit: func(n *Node) {
				q := n.qos("mlx5_4")
				q.OFED.CNPDSCP, q.OFED.CNPPriority = losslessDSCP, losslessPriority
				for _, d := range n.members("mlx5_4") {
					for _, name := range []string{"bytes", "packets"} {
						from, to := d.Statistic("tx_prio6_"+name), d.Statistic("tx_prio3_"+name)
						to.Counter, from.Counter = to.plus(from.Counter), Counter{}
					}
				}
			},
		},
		{
			Name: "bnxt-pfc-off", Platform: "bnxt-roce", policy: losslessUnread,
			Summary: "PFC is off on one Broadcom port of a lossless fabric",
			Truth: "The site expects priority 3 to be lossless. PFC is off on bnxt_re3 for all priorities, while DSCP 26 still maps to " +
				"priority 3; PFC is on for its seven peers. In congestion, this port loses packets.",
			Expect: []Finding{{"bnxt_re3", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("bnxt_re3").SetPFC(0) },
		},
	}
}
