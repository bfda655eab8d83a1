// SPDX-License-Identifier: Apache-2.0

package simulator

import "gpufabric_exporter/internal/fabric"

// classScenarios are about what the class of RoCE is given: room, bandwidth, and a way for notifications around it.
func classScenarios() []Scenario {
	return []Scenario{
		{
			Name: "buffer-shared", Platform: h100, policy: losslessPolicy,
			Summary: "the lossless priority of one compute port shares a receive buffer with all others",
			Truth: "PFC is on for priority 3 of mlx5_6, but a script put all priorities back into receive buffer 0, as the firmware has them " +
				"without PFC. Lossy traffic fills what the lossless one needs while its sender stops.",
			Expect: []Finding{{"mlx5_6", 1, "lossless_buffer_missing"}},
			edit: func(n *Node) {
				b := &n.qos("mlx5_6").Buffers
				*b = fabric.Buffers{Bytes: [fabric.NumPriorities]int{b.Total}, Total: b.Total}
			},
		},
		{
			Name: "ets-starved", Platform: h100, policy: losslessPolicy,
			Summary: "the class of RoCE has no share of the bandwidth of one compute port",
			Truth: "On mlx5_1 classes share bandwidth by ETS, and all of it is given to class 1, that of priority 0. The class of priority 3 has " +
				"none and gets what others leave.",
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
			Summary: "the congestion notifications of one compute port wait behind its data",
			Truth: "The notifications that mlx5_4 sends carry DSCP 26, that of the data, instead of 48: they have priority 3 and stop with it " +
				"whenever the network pauses. Senders hear of congestion when it is over.",
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
			Summary: "one Broadcom port has no PFC on a lossless fabric",
			Truth: "The site wants priority 3 lossless. PFC is off on bnxt_re3 for all priorities, while DSCP 26 still leads to priority 3; its " +
				"seven peers have it on. What it does not take in congestion is lost.",
			Expect: []Finding{{"bnxt_re3", 1, "pfc_off_on_used_priority"}},
			edit:   func(n *Node) { n.qos("bnxt_re3").SetPFC(0) },
		},
	}
}
