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
	b.WriteString("The statistic of the RDMA port's interface (`ethtool -S`) behind each metric. `<n>` is the priority, 0 to 7. Other names are not read, except those that match `--collector.netdev.stats-include`: they are exported as `" +
		ethernetStatisticTotal.FullName() + "`.\n\n")
	b.WriteString("A priority has a series if PFC is on for it or the statistic is not 0; its discards also if it carries traffic. An interface has at most 60 series: beyond that, " +
		"statistics of priorities are omitted, those without PFC first and otherwise from the end of this list, and `" + ethernetStatisticsDropped.FullName() + "` is their number.\n\n")
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
