// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"io"
	"strings"
)

// WriteDocument writes the catalogue as the Markdown page docs/METRICS.md.
func WriteDocument(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the metric catalogue (`make docs`); do not edit. [COUNTERS.md](COUNTERS.md) has the counter of the kernel behind each metric, [NEIGHBOURS.md](NEIGHBOURS.md#names-of-metrics) the names of other exporters.\n\n")
	b.WriteString("Unknown facts have no series; to see what is unknown, use `" + Prefix + "exporter_facts_unknown` and `" + Prefix + "exporter_source_up`.\n")
	writeContents(&b)
	writeConventions(&b)
	group := "-"
	for _, f := range Catalogue() {
		if f.Collector != group {
			group = f.Collector
			writeHead(&b, group)
		}
		writeFamily(&b, f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// always is the heading of what no collector switches off.
const always = "Always on"

// sections returns the collectors of the document, what is always on first.
func sections() []About {
	list := []About{{Help: "The exporter itself and the node.", Default: true}}
	for _, c := range collectors() {
		list = append(list, c.About)
	}
	return list
}

func writeContents(b *strings.Builder) {
	b.WriteString("\n## Contents\n\n| collector | shows | metrics | default |\n|---|---|---|---|\n")
	number := map[string]int{}
	for _, f := range Catalogue() {
		number[f.Collector]++
	}
	for _, s := range sections() {
		link, state := fmt.Sprintf("[`%s`](#collector-%s)", s.Name, s.Name), "off"
		if s.Name == "" {
			link = "[always on](#always-on)"
		}
		if s.Default {
			state = "on"
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s |\n", link, s.Help, number[s.Name], state)
	}
	b.WriteString("\nConventions: [columns](#columns), [stability](#stability), [names](#names), [identity labels](#identity-labels).\n")
}

// writeConventions writes what columns, names, labels and stability mean.
func writeConventions(b *strings.Builder) {
	b.WriteString("\n## Columns\n\n")
	b.WriteString("- **type**: `stateset` has a series for each state, 1 for the current one; `info` is constant 1. Units are base units.\n")
	b.WriteString("- **source**: what is read, and how often. **fast**: for each scrape, shared for 5 s; **medium**: at most every 10 s; **slow**: at most once a minute; **rare**: once an hour, when a device appears or disappears, and after a slow probe; **probe**: with each probe (see its timestamps); **config** and **self**: from the configuration and the exporter.\n")
	b.WriteString("- **privilege**: what the exporter needs to read it; empty: none. [SECURITY.md](SECURITY.md#privileges) has the tiers.\n")
	b.WriteString("\n## Stability\n\nA metric is stable unless its type says experimental.\n\n")
	for _, s := range []Stability{Stable, Experimental} {
		fmt.Fprintf(b, "- **%s**: %s\n", s, s.Promise())
	}
	b.WriteString("\n## Names\n\nThe word after `" + Prefix + "` says what a metric is about.\n\n| name | about |\n|---|---|\n")
	for _, s := range Subsystems() {
		fmt.Fprintf(b, "| `%s%s_` | %s |\n", Prefix, s.Name, s.Help)
	}
	b.WriteString("\n## Identity labels\n\n| label | identifies |\n|---|---|\n")
	for _, row := range [][2]string{
		{"device", "RDMA device, such as `mlx5_0`; never another kind of device"},
		{"port", "port of the RDMA device, from 1; empty for the whole device"},
		{"netdev", "network interface"},
		{"uuid", "GPU, by the UUID that its driver reports"},
		{"pci_address", "PCI function, as in sysfs; in metrics of a GPU and a `device` it is the GPU"},
		{"probed_node", "node of a run of `probe cluster`, as the scheduler calls it; `node` is a label that many sites give to targets"},
		{trainingJob, "training job; omitted if no job is known. Prometheus reserves the label `job`"},
	} {
		fmt.Fprintf(b, "| `%s` | %s |\n", row[0], row[1])
	}
}

// writeHead begins the table of a collector.
func writeHead(b *strings.Builder, name string) {
	for _, s := range sections() {
		if s.Name != name {
			continue
		}
		switch {
		case name == "":
			fmt.Fprintf(b, "\n## %s\n\n%s\n", always, s.Help)
		case s.Default:
			fmt.Fprintf(b, "\n## Collector `%s`\n\n%s Disable with `--no-collector.%s`.\n", name, s.Help, name)
		default:
			fmt.Fprintf(b, "\n## Collector `%s`\n\n%s Disabled by default; enable with `--collector.%s`.\n", name, s.Help, name)
		}
	}
	b.WriteString("\n```promql\n")
	for i, q := range queries()[name] {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "# %s\n%s\n", q.answers, q.expr)
	}
	b.WriteString("```\n\n| metric | type | labels | meaning | source | privilege |\n|---|---|---|---|---|---|\n")
}

func writeFamily(b *strings.Builder, f *Family) {
	kind, labels, privilege := string(f.Type), "", f.Privilege
	if f.Stability == Experimental {
		kind += ", experimental"
	}
	if len(f.Labels) > 0 {
		labels = "`" + strings.Join(f.Labels, "`, `") + "`"
	}
	if privilege == "none" {
		privilege = ""
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s (%s) | %s |\n", f.FullName(), kind, labels, cell(f.Help), cell(f.Source), f.Cadence, cell(privilege))
}

// cell escapes what Markdown would read as the end of a cell, as HTML or as emphasis.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(s)
}
