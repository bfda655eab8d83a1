// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"

	"gpufabric_exporter/internal/verdict"
)

// mostRails is how many columns of rails are in order: EFA has the most, 32.
const mostRails = 32

// rails name each NIC by its number, which it keeps while another is gone.
const rails = `on (cluster, job, instance, device) group_left (rail) max by (cluster, job, instance, device, rail) (device:gpufabric_hca_info:rail{rail!="other",@node})`

// nearest are the GPUs with their nearest NIC and its rail: the exporter's own number counts the NICs that are there,
// and is shown only where no rule has recorded one.
func nearest(of string) string {
	nics := `gpufabric_gpu_nic_distance{` + of + `}`
	return `(` + nics + ` * ` + rails + ` or on (cluster, job, instance, pci_address, device) ` + nics + `)`
}

// goneDevice are RDMA devices that a node should have and lacks, since when.
const goneDevice = `device:gpufabric_hca_info:gone_since_timestamp_seconds{@port}`

// States of a port, the worst last.
const (
	portRight     = "0"
	portStateless = "1" // the driver reports no state
	portSpare     = "2" // down, and the node has as many as it needs
	portUnknown   = "3" // or not active and never seen active: perhaps it has no cable
	portSlow      = "4" // or a warning
	portBroken    = "5" // or a critical finding
)

// railColumns are the titles of columns with devices.
const railColumns = "^([0-9]+|Other)$"

// railGrid has a line for each node, in the order of findings, and a cell for each rail.
func railGrid() panel {
	const header, findings, other = `row\rail`, "node", "other"
	// The first part that has a node decides about it.
	cell := func(expr, text string) string {
		return `label_replace(label_replace(group by (cluster, instance) (` + expr + `), "rail", "` + findings +
			`", "", ""), "cell", "` + text + `", "", "")`
	}
	const next = "\nor on (cluster, instance, rail)\n"
	status := cell(open(of(verdict.Critical)), "critical") + next +
		cell(silence, "silent") + next + cell(open(of(verdict.Warning)), "warning") +
		next + cell(`gpufabric_check_failed{@node}`, "ok") + next + cell(`gpufabric_node_info{@node}`, "not checked")
	// Rows begin in the order of the cells of this column: nodes with the most severe finding, the oldest first,
	// then those without a finding, by name.
	const known = `max by (cluster, instance) (gpufabric_node_info{@node} or ` + silence + `)`
	expr := `label_join((` + status +
		`) * on (cluster, instance) group_left (worst) count_values by (cluster, instance) ("worst", ` + worst(open("")) +
		` or 9e10 + 0 * ` + known + `), "` + order + `", " ", "worst", "instance", "cluster")` + next +
		`label_replace(label_join(` +
		shortened(`count_values by (cluster, instance, rail, device) ("state", `+portStates()+`)`) +
		`, "cell", "&", "instance", "cluster", "device", "short", "state"), "cell", "&var-instance=$1&var-cluster=$2&var-device=$3", "cell", "(.*?)&(.*?)&(.*)")`
	expr = `label_join(label_join((` + expr +
		`) * on (instance) group_left (twice) count_values by (instance) ("twice", count by (instance) (` + known + `)), "row", "&var-cluster=", "instance", "cluster"), "row", "&", "row", "twice")`

	p := base("table", about{
		"Rails",
		"Each node and the state of the NIC of each of its rails. A column has a number of a training NIC, counted on each node in the order of their names; a NIC that is gone keeps its own for a week. Red: not active, gone, or a critical finding. Orange: slower than expected, a warning, or a critical finding of a probe that all rails of the node have: then look at the node. Blue: no finding, and the driver reports no state (EFA). Grey: unknown, or not active and never was as far as is known (perhaps without a cable). Violet: spare, that is down and not needed. Nodes with the most severe finding come first, of these the one whose finding is oldest, then nodes without a finding: scroll for the rest. Other is the worst NIC that is no GPU's nearest. A cell leads to its port; with more than ten rails it has the end of the name. Where several clusters have a node of that name, it has its cluster beside it.", "the exporter is silent, no port is known, or the recording rules are not loaded", width, 11,
	}).Unit("none").
		Custom(common.TableFieldOptions{
			Align:       common.FieldTextAlignmentAuto,
			DisplayMode: new(common.TableCellDisplayModeColorBackgroundSolid), Filterable: new(false), MinWidth: new(46.0),
		}).
		Thresholds(thresholdsBuilder(thresholds("transparent", nil))).
		Mappings(append(deviceStates(), words{
			"critical": {"critical", bad}, "warning": {"warning", warning}, "ok": {"ok", good}, "silent": {"silent", unknown},
			"not checked": {"not checked", unknown},
		}.mappings()...)).
		Targets(targets(query("A", expr, "").Instant().Format("table"))).MaxDataPoints(now).
		OverrideByName("Node", []dashboard.DynamicConfigValue{
			{Id: "custom.displayMode", Value: "auto"},
			{
				Id:    "links",
				Value: []map[string]any{link("Node", nodeURL+keepSource+"&var-instance=${__value.raw}&${__url_time_range}")},
			},
			{Id: "mappings", Value: []dashboard.ValueMapping{
				matching("^(.*)&var-cluster=.*&1$", "$1", ""), matching("^(.*)&var-cluster=(.*)&.*$", "$1 ($2)", ""),
			}},
			{Id: "custom.minWidth", Value: 145},
		}).
		OverrideByName("Findings", []dashboard.DynamicConfigValue{{Id: "custom.width", Value: 116}}).
		OverrideByRegexp(railColumns, []dashboard.DynamicConfigValue{
			{Id: "noValue", Value: " "},
			{Id: "links", Value: []map[string]any{link("Port",
				portURL+keepSource+"${__value.raw}&${__url_time_range}")}},
		})
	place, names := map[string]int{header: 0, findings: 1, other: mostRails + 2},
		map[string]string{header: "Node", findings: "Findings", other: "Other"}
	for i := range mostRails {
		rail := strconv.Itoa(i)
		place[rail], names[rail] = i+2, rail
	}
	return p.WithTransformation(dashboard.DataTransformerConfig{Id: "sortBy", Options: map[string]any{
		"fields": map[string]any{}, "sort": []map[string]any{{"field": order, "desc": false}},
	}}).WithTransformation(dashboard.DataTransformerConfig{Id: "groupingToMatrix", Options: map[string]any{
		"columnField": "rail", "rowField": "row", "valueField": "cell",
	}}).WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": map[string]bool{}, "indexByName": place, "renameByName": names,
	}}).Options(table.Options{ShowHeader: true})
}

// railLegend says what the colours of the grid mean.
func railLegend() panel {
	var all strings.Builder
	for _, c := range []struct{ color, means string }{
		// good, warning, bad
		{"#73bf69", "active, no finding"},
		{"#ff9830", "slow, a warning, or probes are bad on all rails"},
		{"#f2495c", "not active, gone, or a critical finding"},
		{"#5794f2", "no finding, the driver reports no state (EFA)"},
		{unknown, "unknown, or the exporter is silent"},
		{unneeded, "spare: down and not needed"},
	} {
		fmt.Fprintf(&all, `<span style="color:%s">&#9632;</span> %s &emsp; `, c.color, c.means)
	}
	return prose("Colours of the rails", width, 2, strings.TrimSpace(all.String()))
}

// onAllRails are alerts about probes that fire for each of several rails of a node: the node is wrong, and
// not its NICs.
const onAllRails = `label_replace(
  count by (cluster, instance, alertname) (count by (cluster, instance, alertname, device) (ALERTS{alertname=~"GpuFabricProbe.*",alertstate="firing",device!="",@node}))
  == on (cluster, instance) group_left () count by (cluster, instance) (count by (cluster, instance, device) (device:gpufabric_hca_info:rail{rail!="other",@node})) > 1,
  "problem", "$1", "alertname", "(.*)")`

// portStates are how training ports are, by device and rail. Those that are no GPU's nearest NIC share one rail, which
// shows the worst of them.
func portStates() string {
	spares := strings.ReplaceAll(spare, "@port", "@node")
	known := `max by (cluster, instance, device) (
  ` + portSpare + ` + 0 * ` + spares + `
  or ` + portUnknown + ` * (gpufabric_hca_port_state{state="active",@node} == bool 0) ` + compute + ` unless on (cluster, job, instance, device, port) ` + spares + `
  or ` + portBroken + ` + 0 * port:gpufabric_hca_port_state:down_since_timestamp_seconds{@node}
  or ` + portBroken + ` + 0 * device:gpufabric_hca_info:gone_since_timestamp_seconds{@node}
  or ` + portStateless + ` * gpufabric_hca_port_info{role="compute",link_layer="unspecified",@node} unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{state="active",@node}
  or ` + portUnknown + ` * gpufabric_hca_port_info{role="compute",link_layer!="unspecified",@node} unless on (cluster, job, instance, device, port) gpufabric_hca_port_state{state="active",@node}` + `
  or ` + portSlow + ` * (gpufabric_hca_port_rate_bytes_per_second{@node} < bool gpufabric_hca_port_expected_rate_bytes_per_second{@node}) ` + compute + `
  or ` + portBroken + ` + 0 * max by (cluster, instance, device) (` + open(of(verdict.Critical)+`device!="",`) + ` unless on (cluster, instance, problem) ` + onAllRails + `)
  or ` + portSlow + ` + 0 * max by (cluster, instance, device) (` + open(of(verdict.Critical)+`device!="",`) + ` and on (cluster, instance, problem) ` + onAllRails + `)
  or ` + portSlow + ` + 0 * max by (cluster, instance, device) (` + open(of(verdict.Warning)+`device!="",`) + `)` + `
)`
	return `topk by (cluster, instance, rail) (1, ` + known +
		` * on (cluster, instance, device) group_left (rail) max by (cluster, instance, device, rail) (device:gpufabric_hca_info:rail{@node}))`
}

// shortened gives devices the label short: their name, or the end of it that differs where there are too many
// rails for names on a screen of 1280 pixels: 7 for mlx5_7, 113s0 for rdmap113s0.
func shortened(devices string) string {
	expr := `label_join(` + devices +
		` * on () group_left (rails) count_values("rails", count(count by (rail) (device:gpufabric_hca_info:rail{@node}))), "short", " ", "rails", "device")`
	return `label_replace(label_replace(label_replace(` + expr +
		`, "short", "$1$2", "short", "(?:[0-9]|10) (.+)|1[12] (.{1,7})"), "short", "$1", "short", "[0-9]+ .*_([^_]+)"), "short", "$1", "short", "[0-9]+ [a-z]*(.+)")`
}

// deviceStates show the short name of a device in the colour of its state. A cell begins with the parameter
// of its link: in the address, what follows the name are parameters that no dashboard has. An empty cell
// leads to the first port of the node.
func deviceStates() []dashboard.ValueMapping {
	var all []dashboard.ValueMapping
	for _, s := range []struct{ state, color string }{
		{portRight, good},
		{portStateless, note},
		{portSpare, unneeded},
		{portUnknown, unknown},
		{portSlow, warning},
		{portBroken, bad},
	} {
		all = append(all, matching("^&.*&(.*)&"+s.state+"$", "$1", s.color))
	}
	return all
}

// matching is a text for the values of a pattern. Without a colour they keep theirs.
func matching(pattern, text, color string) dashboard.ValueMapping {
	to := dashboard.ValueMappingResult{Text: new(text)}
	if color != "" {
		to.Color = new(color)
	}
	return dashboard.ValueMapping{RegexMap: &dashboard.RegexMap{
		Type:    dashboard.MappingTypeRegexToText,
		Options: dashboard.DashboardRegexMapOptions{Pattern: pattern, Result: to},
	}}
}
