// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// uncovered is a node where RDMA ping is on, and whose rails are all uncovered.
var uncovered = []string{
	`gpufabric_node_info{cluster="c",job="e",instance="n"} 1`, `gpufabric_ping_targets{cluster="c",job="e",instance="n"} 16`,
	`gpufabric_ping_uncovered{cluster="c",job="e",instance="n",device="mlx5_1",port="1",reason="worker"} 1`,
}

// twoLeaves are messages between leaves of the same names in clusters, lost in the last of them.
func twoLeaves(clusters ...string) (all []string) {
	for i, cluster := range clusters {
		lost := "0x40"
		if i == len(clusters)-1 {
			lost = "0+3x40"
		}
		all = append(all, `gpufabric_ping_info{cluster="`+cluster+`",job="e",instance="n",device="mlx5_1",port="1",leaf="l1"} 1`)
		for _, metric := range []string{"messages", "lost"} {
			values := lost
			if metric == "messages" {
				values = "0+30x40"
			}
			all = append(all, `gpufabric_ping_`+metric+`_total{cluster="`+cluster+`",job="e",instance="n",device="mlx5_1",port="1",peers="fabric",leaf="l1",peer_leaf="l2"} `+values,
				`gpufabric_ping_`+metric+`_total{cluster="`+cluster+`",job="e",instance="m",device="mlx5_1",port="1",peers="fabric",leaf="l2",peer_leaf="l1"} `+values)
		}
	}
	return all
}

// quietRails are rails of which one loses messages, one did before and is at fault, and one is well.
var quietRails = []string{
	`port:gpufabric_ping_lost:ratio5m{cluster="c",job="e",instance="n1",device="mlx5_1",port="1"} 0.25`,
	`port:gpufabric_ping_lost:ratio5m{cluster="c",job="e",instance="n2",device="mlx5_1",port="1"} 0`,
	`port:gpufabric_ping_lost:ratio5m{cluster="c",job="e",instance="n3",device="mlx5_1",port="1"} 0`,
	`port:gpufabric_ping_lost:ratio5m{cluster="c",job="e",instance="n4",device="mlx5_1",port="1"} 0`,
	`gpufabric_ping_fault{cluster="c",job="e",instance="n1",device="mlx5_1",port="1",fault="elsewhere"} 1`,
	`gpufabric_ping_fault{cluster="c",job="e",instance="n2",device="mlx5_1",port="1",fault="rail"} 1`,
	`gpufabric_ping_fault{cluster="c",job="e",instance="n3",device="mlx5_1",port="1",fault="rail"} 0`,
	`gpufabric_ping_fault{cluster="c",job="e",instance="n4",device="mlx5_1",port="1",fault="elsewhere"} 1`,
	`port:gpufabric_ping_rtt_seconds:median5m{cluster="c",job="e",instance="n1",device="mlx5_1",port="1",peers="fabric"} 0.5`,
	`port:gpufabric_ping_rtt_seconds:median5m{cluster="c",job="e",instance="n3",device="mlx5_1",port="1",peers="fabric"} 0.5`,
	`port:gpufabric_ping_rtt_seconds:median5m{cluster="c",job="e",instance="n1",device="mlx5_1",port="1",peers="loopback"} 0.25`,
	`port:gpufabric_ping_rtt_seconds:median5m{cluster="c",job="e",instance="n3",device="mlx5_1",port="1",peers="loopback"} 0.25`,
}

// pingShows are what the board of RDMA ping shows.
var pingShows = []showing{
	{name: "RDMA ping is on and no rail pings", panel: "ping/Rails that ping", ref: "A", series: uncovered, want: "{} 0"},
	{name: "what rails lose that do not ping is not known", panel: "ping/Most lost", ref: "A", series: uncovered, want: "{} -4"},
	{name: "faults of rails that do not ping are not known", panel: "ping/Rails at fault", ref: "A", series: uncovered, want: "{} -4"},
	{name: "losses elsewhere of rails that do not ping are not known", panel: "ping/Losing elsewhere", ref: "A", series: uncovered, want: "{} -4"},
	{name: "losses at home of rails that do not ping are not known", panel: "ping/Losing at home", ref: "A", series: uncovered, want: "{} -4"},
	{name: "RDMA ping is off", panel: "ping/Most lost", ref: "A", series: uncovered[:1]},
	{
		name: "leaves of one cluster have their names", panel: "ping/Leaf to leaf", ref: "A", by: "from, to", series: twoLeaves("c"),
		want: `{from="l1", to="l2"} 0.1 | {from="l2", to="l1"} 0.1`,
	},
	{
		name: "leaves of one name in two clusters are not added up", panel: "ping/Leaf to leaf", ref: "A", by: "from, to", series: twoLeaves("b", "c"),
		want: `{from="l1 (b)", to="l2 (b)"} 0 | {from="l2 (b)", to="l1 (b)"} 0 | {from="l1 (c)", to="l2 (c)"} 0.1 | {from="l2 (c)", to="l1 (c)"} 0.1`,
	},
	{
		name: "leaves of a site without clusters have their names", panel: "ping/Leaf to leaf", ref: "A", by: "from, to", series: without(`cluster="c",`, twoLeaves("c")),
		want: `{from="l1", to="l2"} 0.1 | {from="l2", to="l1"} 0.1`,
	},
	{
		name: "rails that lose messages, or are at fault, are the worst", panel: "ping/Worst rails", ref: "A", by: "instance", series: quietRails,
		want: `{instance="n1"} 0.25 | {instance="n2"} 0`,
	},
	{name: "the faults of these", panel: "ping/Worst rails", ref: "B", by: "instance, fault", series: quietRails, want: `{instance="n1", fault="elsewhere"} 1 | {instance="n2", fault="rail"} 1`},
	{name: "the times of these to other leaves", panel: "ping/Worst rails", ref: "C", by: "instance", series: quietRails, want: `{instance="n1"} 0.5`},
	{name: "the times of these by loopback", panel: "ping/Worst rails", ref: "D", by: "instance", series: quietRails, want: `{instance="n1"} 0.25`},
}

// without are series that lack a label.
func without(label string, series []string) (all []string) {
	for _, s := range series {
		all = append(all, strings.Replace(s, label, "", 1))
	}
	return all
}
