// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"fmt"
	"regexp"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/simulator"
)

const (
	used = 3  // the priority of RoCE on all platforms
	dscp = 26 // that leads there
)

// protected reports whether the RoCE class of a device is lossless, and which one that is is known: NCCL_IB_TC, or the
// service level in a VLAN tag, leads to the priority that has PFC.
func protected(m machine, h *simulator.HCA) bool {
	all := physical(m.Node, h.Name)
	return ethernet(m, h) && len(all) > 0 && all[0].QoS.PFC.Has(used) && traffic.MatchString(m.Files[ncclConf])
}

var traffic = regexp.MustCompile(`NCCL_IB_(TC=10[46]|TC=41|SL=3)\n`)

// trusting reports whether moreover a DSCP leads there, and the site says that it should.
func trusting(m machine, h *simulator.HCA) bool {
	return protected(m, h) && physical(m.Node, h.Name)[0].QoS.Trust() == fabric.TrustDSCP && m.wants("dscp: 26")
}

func mlx5(m machine, h *simulator.HCA) bool { return driver(m.Node, h) == "mlx5_core" }

// both is a condition that holds where two do.
func both(a, b func(machine, *simulator.HCA) bool) func(machine, *simulator.HCA) bool {
	return func(m machine, h *simulator.HCA) bool { return a(m, h) && b(m, h) }
}

// wish is a condition that holds where the site says so.
func wish(what string) func(machine, *simulator.HCA) bool {
	return func(m machine, _ *simulator.HCA) bool { return m.wants(what) }
}

// controlled reports whether the driver shows congestion control.
func controlled(m machine, h *simulator.HCA) bool {
	return physical(m.Node, h.Name)[0].QoS.OFED.Files != simulator.NoOFED
}

// set changes how the first wire of a device treats classes: of a bond one member.
func set(change func(*simulator.QoS)) func(*simulator.Node, place) {
	return func(n *simulator.Node, at place) { change(&physical(n, at.device)[0].QoS) }
}

func classMutations() []mutation {
	return []mutation{
		{
			name: "pfc-off", what: "pfc_off_on_used_priority", touches: []string{"pfc"}, hides: ofLossless,
			places: on(both(protected, func(m machine, h *simulator.HCA) bool { return m.wants("lossless: true") || alike(m, h) > 4 })), edit: set(func(q *simulator.QoS) { q.SetPFC(0) }),
		},
		{
			name: "pfc-elsewhere", what: "pfc_off_on_used_priority", touches: []string{"pfc"}, hides: ofLossless,
			places: on(protected), edit: set(func(q *simulator.QoS) { q.SetPFC(1 << 4) }),
		},
		{
			name: "pfc-on-lossy", what: "pfc_off_on_used_priority", touches: []string{"pfc"},
			places: on(both(ethernet, wish("lossless: false"))), edit: set(func(q *simulator.QoS) { q.SetPFC(1 << used) }),
		},
		{
			name: "global-pause", what: "global_pause_on", touches: []string{"pfc"}, hides: ofLossless,
			places: on(both(protected, wish("lossless: true"))),
			edit: set(func(q *simulator.QoS) {
				q.SetPFC(0)
				q.Pause.Receive, q.Pause.Transmit = true, true
			}),
		},
		{
			name: "trust-pcp", what: "trust_not_dscp", touches: []string{"map"}, hides: ofClass,
			places: on(both(trusting, mlx5)),
			edit: func(n *simulator.Node, at place) {
				for _, d := range physical(n, at.device) {
					d.QoS.TrustPCP()
				}
				n.Carry(at.device, 0)
			},
		},
		{
			name: "dscp-map", what: "dscp_maps_to_other_priority", touches: []string{"map"}, hides: ofClass,
			places: on(both(trusting, mlx5)),
			edit: func(n *simulator.Node, at place) {
				for _, d := range physical(n, at.device) {
					d.QoS.MapDSCP(dscp, 2)
				}
				n.Carry(at.device, 2)
			},
		},
		{
			name: "dscp-map-bnxt", what: "dscp_maps_to_other_priority", touches: []string{"map"}, hides: ofClass,
			places: on(both(trusting, func(m machine, h *simulator.HCA) bool { return !mlx5(m, h) })), edit: set(func(q *simulator.QoS) { q.MapDSCP(dscp, 2) }),
		},
		{
			name: "no-notifications", what: "ecn_off_on_used_priority", touches: []string{"ecn"}, hides: []string{"notifications_with_data", "marked_without_cnp"},
			places: on(both(both(ethernet, wish("ecn: true")), controlled)), edit: set(func(q *simulator.QoS) { q.OFED.NP &^= 1 << used }),
		},
		{
			name: "no-reaction", what: "ecn_off_on_used_priority", touches: []string{"ecn"},
			places: on(both(both(ethernet, wish("ecn: true")), controlled)), edit: set(func(q *simulator.QoS) { q.OFED.RP &^= 1 << used }),
		},
		{
			name: "shared-buffer", what: "lossless_buffer_missing", touches: []string{"buffers"},
			places: on(both(protected, func(m machine, h *simulator.HCA) bool { return physical(m.Node, h.Name)[0].QoS.Buffers.Total > 0 })),
			edit: set(func(q *simulator.QoS) {
				q.Buffers = fabric.Buffers{Bytes: [fabric.NumPriorities]int{q.Buffers.Total}, Total: q.Buffers.Total}
			}),
		},
		{
			name: "no-share", what: "no_bandwidth_share", touches: []string{"ets"}, places: on(protected),
			edit: set(func(q *simulator.QoS) {
				for c := range q.ETS.Algorithm {
					q.ETS.Algorithm[c], q.ETS.Bandwidth[c] = fabric.TSAETS, 0
				}
				q.ETS.Bandwidth[q.ETS.PriorityClass[0]] = 100
			}),
		},
		{
			name: "cnp-with-data", what: "notifications_with_data", touches: []string{"cnp"}, places: on(both(trusting, controlled)),
			edit: set(func(q *simulator.QoS) { q.OFED.CNPDSCP, q.OFED.CNPPriority = dscp, used }),
		},
		{
			name: "traffic-class-5", what: "traffic_class_wrong", everywhere: true, touches: []string{"nccl-tc"}, hides: ofClass,
			places: node(func(m machine) bool {
				return m.wants("dscp: 26") && regexp.MustCompile(`NCCL_IB_TC=10[46]\n`).MatchString(m.Files[ncclConf])
			}),
			edit: func(n *simulator.Node, _ place) {
				n.Files[ncclConf] = regexp.MustCompile(`NCCL_IB_TC=\d+`).ReplaceAllString(n.Files[ncclConf], "NCCL_IB_TC=5")
			},
		},
	}
}

func trafficMutations() []mutation {
	plain := both(protected, both(mlx5, func(m machine, h *simulator.HCA) bool {
		return len(physical(m.Node, h.Name)) == 1
	}))
	grow := func(n *simulator.Node, at place, by map[string]uint64) {
		d := physical(n, at.device)[0]
		for name, step := range by {
			s := d.Statistic(name)
			s.PerStep, s.Every = step, 0
		}
	}
	prio := func(name string) string { return fmt.Sprintf(name, used) }
	return []mutation{
		{
			name: "traffic-elsewhere", what: "traffic_on_wrong_priority", touches: []string{"bytes", "map"}, places: on(plain),
			edit: func(n *simulator.Node, at place) { n.Carry(at.device, 0) },
		},
		{
			name: "pfc-storm", what: "pfc_storm", touches: []string{"sent"}, places: on(plain),
			edit: func(n *simulator.Node, at place) {
				grow(n, at, map[string]uint64{prio("tx_prio%d_pause"): 12_000, prio("tx_prio%d_pause_duration"): 900_000})
			},
		},
		{
			name: "paused", what: "paused_by_network", touches: []string{"received"}, places: on(plain),
			edit: func(n *simulator.Node, at place) {
				grow(n, at, map[string]uint64{prio("rx_prio%d_pause"): 41_000, prio("rx_prio%d_pause_duration"): 350_000})
			},
		},
		{
			name: "drops", what: "lossless_priority_drops", touches: []string{"discards"}, places: on(plain),
			edit: func(n *simulator.Node, at place) { grow(n, at, map[string]uint64{prio("rx_prio%d_discards"): 310}) },
		},
		{
			name: "marks-unanswered", what: "marked_without_cnp", touches: []string{"ecn"},
			places: on(func(_ machine, h *simulator.HCA) bool {
				return h.Ports[0].Statistic("np_ecn_marked_roce_packets") != nil
			}),
			edit: func(n *simulator.Node, at place) {
				p := &n.HCA(at.device).Ports[0]
				marks, sent := p.Statistic("np_ecn_marked_roce_packets"), p.Statistic("np_cnp_sent")
				marks.PerStep, marks.Every, sent.PerStep = 21_400, 0, 0
			},
		},
	}
}
