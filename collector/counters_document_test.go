// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/counters"
)

// WriteCounters writes the counter tables of all drivers as the Markdown page docs/COUNTERS.md.
func WriteCounters(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Counters\n\nGenerated from the counter tables (`make docs`); do not edit.\n\n")
	b.WriteString("The kernel counter behind each metric. Counters of different drivers with the same meaning share a metric; all others, including names that are not listed, are exported with the kernel's name in the label `counter` of `" +
		hwCountersTotal.FullName() + "`.\n\n")
	b.WriteString("A metric with several names is their sum, and is absent while any of them is unknown. Files are below `/sys/class/infiniband/<device>`.\n\n")
	b.WriteString("At its maximum a counter **wraps** (restarts at 0; the exporter extends it to 64 bits) or **sticks** (keeps its maximum until it is cleared; `" +
		counterSaturated.FullName() + "` is 1 until then); counters without an entry never reach it. Bits `?`: only the firmware knows the width.\n")
	for _, t := range counters.Tables() {
		fmt.Fprintf(&b, "\n## %s: `%s`\n\n%s. Names from `%s`.\n\n", t.Name, t.Place, documentDrivers(&t), t.Source)
		if t.Note != "" {
			b.WriteString(t.Note + "\n\n")
		}
		b.WriteString("| kernel name | metric | unit | bits | at the end |\n|---|---|---|---|---|\n")
		for name, spec := range t.Counters() {
			metric, unit := documentMetric(t.Place, spec)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, metric, unit, documentBits(spec), documentEnd(spec))
		}
	}
	writeStats(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func documentDrivers(t *counters.Table) string {
	switch t.Drivers[0] {
	case counters.AnyDriver:
		return "All drivers without their own table below"
	case "":
		return "Software devices"
	default:
		return "PCI driver `" + strings.Join(t.Drivers, "`, `") + "`"
	}
}

func documentMetric(place counters.Place, s counters.Spec) (metric, unit string) {
	f := countFamilies[s.Meaning]
	switch {
	case f != nil:
		metric, unit = "`"+f.FullName()+"`", string(s.Meaning.Unit())
	case place == counters.PlacePMA:
		return "none", ""
	case s.Gauge:
		return "`" + hwCountersValue.FullName() + "`", ""
	default:
		return "`" + hwCountersTotal.FullName() + "`", ""
	}
	if s.Parts > 1 {
		metric += fmt.Sprintf(", one of %d", s.Parts)
	}
	if s.Scale != 1 {
		unit = fmt.Sprintf("%g %s", s.Scale, unit)
	}
	return metric, unit
}

func documentBits(s counters.Spec) string {
	if s.Bits == 0 {
		return "?"
	}
	return strconv.Itoa(s.Bits)
}

func documentEnd(s counters.Spec) string {
	switch {
	case s.Wraps:
		return "wraps"
	case s.Saturates:
		return "sticks"
	case s.Gauge:
		return "gauge"
	default:
		return ""
	}
}
