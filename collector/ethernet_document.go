// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"strings"

	"gpufabric_exporter/internal/counters"
)

// writeStats writes the section on Ethernet statistics of the page docs/COUNTERS.md.
func writeStats(b *strings.Builder) {
	b.WriteString("\n# Statistics of Ethernet interfaces\n\n")
	b.WriteString("Which metric shows which statistic of the interface of an RDMA port (`ethtool -S`). `<n>` is the priority, 0 to 7. Other names are not read; `" +
		ethernetStatisticTotal.FullName() + "` has those that `--collector.netdev.stats-include` asks for.\n\n")
	b.WriteString("A priority has a series where PFC is on for it or where the statistic is not 0; its discards also where it carries anything. An interface has at most 60 series: beyond them " +
		"rows of priorities are left out, those without PFC first and otherwise from the end of this list, and `" + ethernetStatisticsDropped.FullName() + "` says how many.\n\n")
	for _, row := range ethernetRows() {
		if row.meaning.PerPriority() {
			fmt.Fprintf(b, "1. `%s`\n", statFamilies[row.meaning].FullName())
		}
	}
	for _, t := range counters.StatTables() {
		fmt.Fprintf(b, "\n## %s: statistics\n\nDriver `%s`. Names from `%s`.\n\n%s\n", t.Name, strings.Join(t.Drivers, "`, `"), t.Source, t.Note)
		first := true
		for name, spec := range t.Rows() {
			if first {
				b.WriteString("\n| kernel name | metric | unit | bits | at the end |\n|---|---|---|---|---|\n")
				first = false
			}
			metric := "none"
			if f := statFamilies[spec.Meaning]; f != nil {
				metric = "`" + f.FullName() + "`"
			}
			if spec.Parts > 1 {
				metric += fmt.Sprintf(", one of %d", spec.Parts)
			}
			if spec.Older {
				metric += ", of former drivers"
			}
			unit := string(spec.Meaning.Unit())
			if spec.Scale != 1 {
				unit = fmt.Sprintf("%g %s", spec.Scale, unit)
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", name, metric, unit, documentBits(spec.Spec), documentEnd(spec.Spec))
		}
	}
}
