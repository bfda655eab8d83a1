// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

func ping() board {
	return board{
		name: "ping", title: "GPU fabric: ping",
		description: "RDMA messages between nodes: which leaf, path, node or rail loses them, and how long they take.",
		lines:       []line{pingNow(), {accused()}, {leafMatrix(), worstRails()}, {roundTrips()}, pingOverTime(), seenByNICs()},
		leads: map[string]place{
			"Rails that ping": {pingURL, "Worst rails"}, "Most lost": {pingURL, "Lost by rail"}, "Rails at fault": {pingURL, "Worst rails"},
			"Losing elsewhere": {pingURL, "Leaf to leaf"}, "Losing at home": {pingURL, "Worst rails"},
			"Not pinged": {pingURL, "Rails that are not pinged from"},
		},
		rows: []row{
			{"Not covered", []line{{uncoveredRails()}}},
			{"How to read this", []line{{pingHelp()}}},
		},
	}
}

const (
	pingLoss = `port:gpufabric_ping_lost:ratio5m{@port}`
	pingsOn  = `gpufabric_ping_info{@port}`
)

func pingNow() line {
	const none, on = "RDMA ping is off", `gpufabric_ping_targets{@node}`
	idle := words{"-4": {"no rail pings", unknown}}
	known := func(expr string) string { return expr + "\nor count(" + on + ") * 0 - 4" }
	fault := func(of string) string {
		return known(orZero(`count(gpufabric_ping_fault{fault="`+of+`",@port} == 1)`, pingsOn))
	}
	return line{
		number(about{"Rails that ping", "Rails that take part: they answer others and ask them.", none, 4, 3}, "none",
			orZero(`count(`+pingsOn+`)`, on), []step{{0, warning}, {1, plainly}}, nil),
		number(about{"Most lost", "Share of messages that the worst rail lost, over five minutes.", none, 4, 3}, "percentunit",
			known(`max(`+pingLoss+`)`), []step{{0, good}, {0.0003, warning}, {0.01, bad}}, idle),
		number(about{"Rails at fault", "Rails that lose messages to all their peers, and not to themselves.", none, 4, 3}, "none",
			fault("rail"), zero(bad), idle),
		number(about{
			"Losing elsewhere", "Rails that lose messages to some of their peers: the matrix says whether it is a leaf or a path.", none, 4, 3,
		}, "none", fault("elsewhere"), zero(warning), idle),
		number(about{
			"Losing at home", "Rails of nodes that lose messages to themselves: what they report says nothing of the fabric.", none, 4, 3,
		}, "none", fault("host"), zero(warning), idle),
		number(about{"Not pinged", "Rails that are not pinged from, of nodes where RDMA ping is on.", none, 4, 3}, "none",
			orZero(`count(gpufabric_ping_uncovered{@port})`, on), zero(warning), nil),
	}
}

// accused is what alerts of RDMA ping name. Those of leaves have no node: a reader who has chosen nodes sees them, too.
func accused() panel {
	const alerts = `{alertname=~"GpuFabricPing.*",@cluster,instance=~"$instance|"`
	return grid(about{
		"At fault", "What alerts of RDMA ping name: a leaf, the path between two, a node or a rail. Each name leads to its runbook.",
		"no alert of RDMA ping fires, or the rules are not loaded", 24, 4,
	}, []string{
		`time() - max by (cluster, alertname, leaf, peer_leaf, instance, device) (ALERTS_FOR_STATE` + alerts + `} and ignoring (alertstate) ALERTS` + alerts + `,alertstate="firing"})`,
	}, "-For",
		column{field: "alertname", title: "Alert", link: toRunbook(), width: 240},
		column{field: "leaf", title: "Leaf"},
		column{field: "peer_leaf", title: "To leaf"},
		column{field: "instance", title: "Node", link: toNode()},
		column{field: "device", title: "Device", link: toPortOf("Node")},
		column{field: "A", title: "For", unit: "s", width: 110},
		column{field: "cluster", title: "Cluster", width: 110})
}

// leafMatrix has a row for each leaf that asks, and a column for each that is asked; of many leaves the eight that lose most, because more
// columns do not fit. Where there are several clusters, leaves have theirs beside their names. A cell without a value has no colour: nothing is known of it.
func leafMatrix() panel {
	p := base("table", about{
		"Leaf to leaf",
		"Share of messages that got lost over five minutes, from the leaf of the row to that of the column: of the eight leaves that lose most. A bad leaf is a row and a column, a bad path two cells. Empty: no rail asks, because each rail asks a few others.",
		"no rail pings, or no leaves are known", 11, 10,
	}).Unit("percentunit").Decimals(1).Thresholds(thresholdsBuilder(thresholds("transparent", []step{{0, good}, {0.0003, warning}, {0.01, bad}}))).
		Custom(common.TableFieldOptions{
			Align: common.FieldTextAlignmentAuto, Filterable: new(false), MinWidth: new(50.0),
			DisplayMode: new(common.TableCellDisplayModeColorBackgroundSolid),
		})
	rate := func(of, by string) string {
		return `sum by (cluster, ` + by + `) (rate(gpufabric_ping_` + of + `_total{leaf!="",@port}[5m]))`
	}
	const clusters = `group by (cluster) (gpufabric_ping_info{leaf!="",@port})`
	worst := `topk(8, ` + rate("lost", "leaf") + `)`
	q := query("A", `label_join(label_join((`+rate("lost", "leaf, peer_leaf")+` / `+rate("messages", "leaf, peer_leaf")+`
and on (cluster, leaf) `+worst+`
and on (cluster, peer_leaf) label_replace(`+worst+`, "peer_leaf", "$1", "leaf", "(.*)"))
* on (cluster) group_left (of) max by (cluster, of) (label_replace(`+clusters+` and on () count(`+clusters+`) > 1, "of", " ($1)", "cluster", "(.*)") or on (cluster) `+clusters+`),
"from", "", "leaf", "of"), "to", "", "peer_leaf", "of")`, "").Instant().Format(prometheus.PromQueryFormatTable)
	p.OverrideByRegexp(".*", []dashboard.DynamicConfigValue{{Id: "noValue", Value: "-"}})
	p.OverrideByName(`from\to`, []dashboard.DynamicConfigValue{
		{Id: "displayName", Value: "from / to"}, {Id: "custom.displayMode", Value: "auto"}, {Id: "custom.width", Value: 100},
	})
	return p.Targets(targets(q)).MaxDataPoints(now).Transformations([]dashboard.DataTransformerConfig{
		{Id: "groupingToMatrix", Options: map[string]any{"rowField": "from", "columnField": "to", "valueField": "Value"}},
	})
}

// worstRails has only rows of its first query: Grafana merges rows that agree in labels, and shows all others, too.
func worstRails() panel {
	const by = "cluster, instance, device"
	rows := `topk(20, max by (` + by + `) (` + pingLoss + ` > 0 or ` + pingLoss +
		` and on (cluster, job, instance, device, port) gpufabric_ping_fault{fault!="elsewhere",@port} == 1))`
	ofRows := func(expr string) string { return expr + "\nand on (" + by + ") " + rows }
	rtt := func(peers string) string {
		return ofRows(`max by (` + by + `) (port:gpufabric_ping_rtt_seconds:median5m{peers="` + peers + `",@port})`)
	}
	return grid(about{
		"Worst rails",
		"The twenty rails that lost most over five minutes, or are at fault or of a host that is, where the node finds the fault, and the medians of its round-trip times: to other leaves, and to itself. A time that loopback shares is of the host.",
		"nothing is lost, or RDMA ping is off", 13, 10,
	}, []string{
		rows,
		ofRows(`max by (` + by + `, fault) (gpufabric_ping_fault{@port} == 1)`),
		rtt("fabric"), rtt("loopback"),
	}, "-Lost",
		column{field: "instance", title: "Node", link: toNode(), width: 112},
		column{field: "device", title: "Device", link: toPortOf("Node"), width: 112},
		column{field: "A", title: "Lost", unit: "percentunit", steps: []step{{0, plainly}, {0.00001, warning}, {0.01, bad}}, width: 80},
		column{field: "fault", title: "Fault", none: "none", width: 88},
		column{field: "C", title: "Round trip", unit: "s", none: "-", width: 88},
		column{field: "D", title: "Loopback", unit: "s", none: "-", width: 88},
		column{field: "cluster", title: "Cluster", width: 72})
}

// roundTrips is a heat map of the times of all rails.
func roundTrips() panel {
	p := base("heatmap", about{
		"Round-trip times to other leaves",
		"How many messages a second took how long, of all rails that are chosen, without the time in the other host. A second band is a slow path or a busy host.",
		"no rail pings, or RDMA ping is off", 24, 8,
	}).Unit("none")
	expr := `sum by (le) (rate(gpufabric_ping_rtt_seconds_bucket{peers="fabric",@port}[$__rate_interval]))`
	return p.Targets(targets(query("A", expr, "{{le}}").Range().Format(prometheus.PromQueryFormatHeatmap))).Options(heatmap.Options{
		Calculate: new(false),
		Color: heatmap.HeatmapColorOptions{
			Mode: new(heatmap.HeatmapColorModeScheme), Scheme: "Blues", Steps: 32, Exponent: 0.5, Fill: "dark-blue",
		},
		YAxis:   heatmap.YAxisConfig{Unit: new("s"), AxisPlacement: new(common.AxisPlacementLeft)},
		Tooltip: heatmap.HeatmapTooltip{Mode: common.TooltipDisplayModeSingle, YHistogram: new(false)},
		Legend:  heatmap.HeatmapLegend{Show: true},
	})
}

func pingOverTime() line {
	return line{
		over(about{
			"Lost by rail", "Share of messages to other rails that got lost. The ten rails that lost most in the time shown.", "no rail pings, or RDMA ping is off", 12, 9,
		}, "percentunit", []step{{0.01, bad}}, extreme("topk", "cluster, instance, device", pingLoss,
			"{{cluster}} {{instance}} {{device}}")...),
		over(about{
			"Large messages lost", "Share of messages of the full path MTU that got lost although small ones arrived: something has a smaller MTU.", "none was lost, or RDMA ping is off", 12, 9,
		}, "percentunit", nil, curve{
			`sum by (cluster, instance, device) (rate(gpufabric_ping_large_lost_total{@port}[$__rate_interval])) / sum by (cluster, instance, device) (rate(gpufabric_ping_large_messages_total{@port}[$__rate_interval])) > 0`,
			"{{cluster}} {{instance}} {{device}}",
		}),
	}
}

// seenByNICs is what the counters of the NICs say of the same rails: of all their traffic, not of pings.
func seenByNICs() line {
	return line{
		rates(about{
			"Out of sequence, by the NIC", "Packets of jobs that came after later ones: packets before them got lost, or took another path. The ten rails with most.",
			"no NIC counts them", 12, 9,
		}, events, `port:gpufabric_hca_out_of_sequence:rate2m`),
		rates(about{
			"Congestion notifications, by the NIC", "CNPs that the NIC obeyed: switches marked its packets. Slow pings beside many are of congestion. The ten rails with most.",
			"no NIC counts them", 12, 9,
		}, packets, `port:gpufabric_hca_cnp_handled:rate2m`),
	}
}

func uncoveredRails() panel {
	return grid(about{
		"Rails that are not pinged from", "Rails of nodes where RDMA ping is on, and why nothing is known of them.", "all rails are covered, or RDMA ping is off", 24, 8,
	}, []string{`max by (cluster, instance, device, reason) (gpufabric_ping_uncovered{@port})`}, "Node",
		column{field: "instance", title: "Node", link: toNode(), width: 200},
		column{field: "device", title: "Device", link: toPortOf("Node"), width: 160},
		column{field: "reason", title: "Reason"},
		column{field: "cluster", title: "Cluster"})
}

func pingHelp() panel {
	return prose("What a ping is", 24, 6, `Each rail sends a message of 64 bytes to eight rails of other nodes once a second, and one to itself. It disturbs no job.

* **Loopback** is the rail itself. What it loses or delays is of the host, and is not held against the fabric.
* **Lost** counts only messages whose fate is known: a restart of an exporter loses none.
* A bad leaf is a row and a column of the matrix. If all leaves are bad at once, look at the spines.
* Without the label leaf in the targets of RDMA ping, there are no leaves, and only rails and nodes can be named.`)
}
