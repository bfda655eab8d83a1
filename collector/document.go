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
	b.WriteString("# Metrics\n\nGenerated from the metric catalogue (`make docs`); do not edit.\n\n")
	b.WriteString("Unknown facts have no series; to see what is unknown, use `" + Prefix + "exporter_facts_unknown` and `" + Prefix + "exporter_source_up`.\n")
	b.WriteString("Cadence is how often a fact is read: **fast** for each scrape, shared for 5 s; **medium** at most every 10 s; **slow** at most once a minute; **rare** once an hour and when a device appears or disappears; **probe** with each probe (see its timestamps); **config** and **self** come from the configuration and the exporter.\n")
	b.WriteString("Units are base units; `stateset` has a series for each state, 1 for the current one; `info` is constant 1.\n")
	writeConventions(&b)
	group := "-"
	for _, f := range Catalogue() {
		if f.Collector != group {
			group = f.Collector
			title := "Always on"
			if group != "" {
				title = "Collector `" + group + "`"
			}
			fmt.Fprintf(&b, "\n## %s\n", title)
			for _, c := range collectors() {
				if c.Name == group {
					how := "Disable with `--no-collector."
					if !c.Default {
						how = "Disabled by default; enable with `--collector."
					}
					fmt.Fprintf(&b, "\n%s %s%s`.\n", c.Help, how, c.Name)
				}
			}
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n", f.FullName(), f.Help)
		privilege := f.Privilege
		if privilege == "" {
			privilege = "none"
		}
		labels := "none"
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| type | labels | source | cadence | privilege | stability |\n|---|---|---|---|---|---|\n")
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", f.Type, labels, strings.ReplaceAll(f.Source, "|", "\\|"), f.Cadence, privilege, f.Stability)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeConventions writes what names, labels and stability mean.
func writeConventions(b *strings.Builder) {
	b.WriteString("\n## Stability\n\n")
	for _, s := range []Stability{Stable, Experimental} {
		fmt.Fprintf(b, "- **%s**: %s\n", s, s.Promise())
	}
	b.WriteString("\n## Names\n\nThe word after `" + Prefix + "` says what a metric is about.\n\n| name | about |\n|---|---|\n")
	for _, s := range Subsystems() {
		fmt.Fprintf(b, "| `%s%s_` | %s |\n", Prefix, s.Name, s.Help)
	}
	b.WriteString("\n## Identity labels\n\n| label | identifies |\n|---|---|\n")
	for _, i := range Identities() {
		fmt.Fprintf(b, "| `%s` | %s |\n", i.Label, i.Help)
	}
}
