// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"gpufabric_exporter/internal/verdict"
)

// Addresses of the dashboards. Grafana puts its own path before them.
const (
	fleetURL   = "/d/gpufabric-fleet/gpu-fabric-fleet"
	nodeURL    = "/d/gpufabric-node/gpu-fabric-node"
	portURL    = "/d/gpufabric-port/gpu-fabric-port"
	roceURL    = "/d/gpufabric-roce/gpu-fabric-roce-congestion"
	probesURL  = "/d/gpufabric-probes/gpu-fabric-nccl-probes"
	pingURL    = "/d/gpufabric-ping/gpu-fabric-ping"
	jobsURL    = "/d/gpufabric-jobs/gpu-fabric-jobs"
	keepSource = "?var-datasource=${datasource}"
	keep       = "?var-datasource=${datasource}&${cluster:queryparam}"
	keepOne    = "?var-datasource=${datasource}&var-cluster=${site}"                       // on dashboards of one node
	keepRow    = "?var-datasource=${datasource}&var-cluster=${__data.fields." + site + "}" // in tables of many nodes
)

// variables are the same on all dashboards, so that links keep them. A site without the label cluster has no
// clusters to choose from, and "All" (.*) matches its series. Where one node is shown, what is known of it is that of
// site, the cluster of that node: another cluster can have a node of that name, and All would mix them.
func (b board) variables() []cog.Builder[dashboard.VariableModel] {
	all := dashboard.VariableOption{
		Selected: new(true),
		Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	query := func(name, label, description, values string, one bool) cog.Builder[dashboard.VariableModel] {
		v := dashboard.NewQueryVariableBuilder(name).Label(label).Description(description).Datasource(source()).
			Query(dashboard.StringOrMap{Map: map[string]any{
				"query": values,
				"refId": "StandardVariableQuery",
			}}).Definition(values).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
			Multi(!one).IncludeAll(!one)
		if name == "device" && one { // its name says that, and the links fit beside it
			v.Hide(dashboard.VariableHideHideLabel)
		}
		if !one {
			v.AllValue(".*").Current(all)
		}
		return v
	}
	list := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Source").Hide(dashboard.VariableHideHideLabel).Type("prometheus").
			Description("The Prometheus that scrapes the exporters and has their rules."),
		query("cluster", "Cluster", "Label cluster of the targets; there is nothing to choose where the site sets none.",
			`label_values(gpufabric_node_info, cluster)`, false),
		query("instance", "Node", "Exporter of a node, as Prometheus calls it.",
			`label_values(gpufabric_node_info{cluster=~"$cluster"}, instance)`, b.oneNode),
	}
	devices := `label_values(gpufabric_hca_info{cluster=~"$cluster",instance=~"$instance"}, device)`
	if b.oneNode {
		devices = ofSite(devices)
		list = append(list, query("site", "of", "The cluster of the node: of several with a node of that name, one.",
			`label_values(gpufabric_node_info{cluster=~"$cluster",instance=~"$instance"}, cluster)`, true))
	}
	list = append(list, query("device", "Device", "RDMA device (NIC); for panels about ports.", devices, b.oneDevice))
	if b.ofJobs {
		list = append(list, query("training_job", "Job", "Job, by scheduler and id.",
			`label_values(gpufabric_job_info{cluster=~"$cluster",instance=~"$instance"}, training_job)`, false))
	}
	return list
}

// ofSite makes a query of the chosen clusters one of the cluster of the node.
func ofSite(expr string) string {
	return strings.ReplaceAll(expr, `cluster=~"$cluster"`, `cluster=~"$site"`)
}

// links lead to the other dashboards and keep what was chosen, where that can be chosen there: a dashboard
// about one node takes a node only from another one, and otherwise begins with the first.
func (b board) links() []cog.Builder[dashboard.DashboardLink] {
	const thisNode, theseDevices = "&${instance:queryparam}", "&${device:queryparam}"
	single, kept := "", keep
	chosen, all := thisNode+theseDevices, thisNode+theseDevices
	if b.oneNode {
		single, kept, all = thisNode, keepOne, ""
	}
	var out []cog.Builder[dashboard.DashboardLink]
	for _, to := range []struct{ title, tip, url, kept string }{
		{"Fleet", "All nodes: what is wrong, and where", fleetURL, all},
		{"Node", "One node in all details", nodeURL, single},
		{"Port", "One port in all details", portURL, single},
		{"RoCE", "Pauses, marks and losses", roceURL, chosen},
		{"Jobs", "RDMA or TCP, job by job", jobsURL, chosen},
		{"Probes", "Measured transport and bandwidth", probesURL, chosen},
		{"Ping", "Messages lost between nodes", pingURL, chosen},
	} {
		if strings.HasPrefix(to.url, "/d/"+b.uid()+"/") {
			continue
		}
		out = append(out, dashboard.NewDashboardLinkBuilder(to.title).Type(dashboard.DashboardLinkTypeLink).
			Tooltip(to.tip).Icon("").Url(to.url+kept+to.kept).KeepTime(true))
	}
	return out
}

// link is a data link of a column or a series.
func link(title, url string) map[string]any {
	return map[string]any{"title": title, "url": url}
}

// toNode leads from a cell with the name of a node to its dashboard: another cluster may have a node of that name.
func toNode() map[string]any {
	return link("Node", nodeURL+keepRow+"&var-instance=${__value.raw}&${__url_time_range}")
}

// toJob leads from a cell with the name of a job to its nodes.
func toJob() map[string]any {
	return link("Job", jobsURL+keepRow+"&var-training_job=${__value.raw:percentencode}&${__url_time_range}")
}

// toPort leads from a cell with the name of an RDMA device to its dashboard, in a table that shows one node.
func toPort() map[string]any {
	return link("Port", portURL+keepOne+"&${instance:queryparam}&var-device=${__value.raw}&${__url_time_range}")
}

// toPortOf does the same in a table of many nodes, which are in the column of that title.
func toPortOf(column string) map[string]any {
	return link("Port",
		portURL+keepRow+"&var-instance=${__data.fields."+column+"}&var-device=${__value.raw}&${__url_time_range}")
}

// marks are what happened: when findings were detected, as in the column of that name (those of warnings only if the
// reader chooses them), and changes of versions on dashboards that show what follows from these. Findings of many nodes
// that begin one after the other have a mark each: at any time the reader looks at the newest.
func (b board) marks() []cog.Builder[dashboard.AnnotationQuery] {
	mark := func(name, color string, s verdict.Severity, enabled bool) cog.Builder[dashboard.AnnotationQuery] {
		return dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(source()).Enable(enabled).Hide(enabled).IconColor(color).
			Expr(fill("1000 * max by (cluster, instance, problem) (" + open(of(s)) + ")")).Step("60s").UseValueForTime(true).
			TitleFormat(string(s) + " finding detected").TextFormat("{{cluster}} {{instance}}: {{problem}}").TagKeys("problem")
	}
	all := []cog.Builder[dashboard.AnnotationQuery]{
		mark("Critical", bad, verdict.Critical, true), mark("Warnings", warning, verdict.Warning, false),
	}
	if b.annotations {
		all = append(all, versionChanges()...)
	}
	return all
}

// versionChanges mark for ten minutes what was not there ten minutes before, on nodes that were.
func versionChanges() []cog.Builder[dashboard.AnnotationQuery] {
	mark := func(name, color, metric, label, title string) cog.Builder[dashboard.AnnotationQuery] {
		by := "count by (cluster, instance, " + label + ") "
		expr := fill(by + `(` + metric + `{` + label + `!="",@node}) unless ` + by + `(` + metric + `{@node} offset 10m)
and on (cluster, instance) count by (cluster, instance) (` + metric + `{@node} offset 10m)`)
		return dashboard.NewAnnotationQueryBuilder().Name(name).Datasource(source()).Enable(true).Hide(true).IconColor(color).
			Expr(expr).Step("60s").TitleFormat(title).TextFormat("{{cluster}} {{instance}}: {{" + label + "}}").TagKeys(label)
	}
	return []cog.Builder[dashboard.AnnotationQuery]{
		mark("Firmware changes", note, "gpufabric_hca_info", "firmware_version", "NIC firmware changed"),
		mark("GPU driver changes", note, "gpufabric_gpu_driver_info", "version", "GPU driver changed"),
		mark("NCCL changes", note, "gpufabric_probe_info", "nccl_version", "NCCL changed"),
	}
}
