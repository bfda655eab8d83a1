// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"fmt"
	"io"

	"gpufabric_exporter/probes"
)

// comparison compares bus bandwidths of runs of the same sizes with those of the first one.
type comparison struct {
	what   string
	labels []string
	rows   []comparedSize
	note   string // why it says nothing, or less than it seems
}

type comparedSize struct {
	op    probes.Op
	dtype probes.DType
	bytes uint64    // as the first run measured it
	busBW []float64 // bytes per second, of each run
}

// compare compares the runs of a report. Sizes that not all of them have measured, right to the last element,
// are left out.
func compare(r *report) comparison {
	c := comparison{what: r.what}
	for _, run := range r.runs {
		if run.result == nil || run.result.Outcome != probes.OK {
			c.note = run.label + " was not measured completely"
			return c
		}
		c.labels = append(c.labels, run.label)
	}
	if len(r.runs) == 0 {
		return c
	}
	for _, m := range r.runs[0].result.Measurements {
		row := comparedSize{op: m.Op, dtype: m.Type, bytes: m.Bytes}
		for _, run := range r.runs {
			if other, ok := measured(run.result, m); ok {
				row.busBW = append(row.busBW, other.BusBW)
			}
		}
		if len(row.busBW) == len(r.runs) && row.busBW[0] > 0 {
			c.rows = append(c.rows, row)
		}
	}
	c.note = c.doubt(r.runs)
	return c
}

// measured finds the measurement of a size. Over another number of ranks a size is rounded in another way.
func measured(r *probes.Result, like probes.Measurement) (probes.Measurement, bool) {
	for _, m := range r.Measurements {
		const rounding = 4096
		near := m.Bytes == like.Bytes || max(m.Bytes, like.Bytes)-min(m.Bytes, like.Bytes) < rounding && m.Bytes > 1<<20
		if m.Op == like.Op && m.Type == like.Type && near {
			return m, true
		}
	}
	return probes.Measurement{}, false
}

// doubt says if the runs did not differ in what they were to differ in.
func (c *comparison) doubt(runs []oneRun) string {
	first, known := runs[0].result.Path.Get()
	last, knownToo := runs[len(runs)-1].result.Path.Get()
	switch {
	case len(c.rows) == 0:
		return "the runs have no size in common: --bytes sets it"
	case c.what == probeScaling:
		return ""
	case !known || !knownToo:
		return "NCCL's log does not show which path the runs used"
	case first == last:
		return fmt.Sprintf("both runs used %s", first)
	case c.what == probeTCP && first != probes.PathSocket:
		return fmt.Sprintf("the run over sockets used %s", first)
	}
	return ""
}

// title is the first line of a comparison, and ratio the head of the columns behind the first.
func (c *comparison) title() (title, ratio string) {
	switch c.what {
	case probeScaling:
		return "bus bandwidth, absolute and relative to the smallest run", "efficiency"
	case probeNVLink:
		return "bus bandwidth without and with direct paths between GPUs (NVLink or PCIe)", "speed-up"
	}
	return "bus bandwidth over sockets and without them", "speed-up"
}

// ratio is a bandwidth over that of the first run.
func (c *comparison) ratio(row comparedSize, run int) string {
	v := row.busBW[run] / row.busBW[0]
	if c.what == probeScaling {
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return fmt.Sprintf("%.2f x", v)
}

// writeComparison prints a row for each size.
func writeComparison(w io.Writer, c comparison) error {
	if len(c.labels) == 0 && c.note == "" {
		return nil
	}
	var b bytes.Buffer
	title, ratio := c.title()
	fmt.Fprintf(&b, "# %s: %s\n", c.what, title)
	if len(c.rows) > 0 {
		fmt.Fprintf(&b, "#%11s", "size (B)")
		for i, label := range c.labels {
			fmt.Fprintf(&b, " %20s", label+" GB/s")
			if i > 0 {
				fmt.Fprintf(&b, " %10s", ratio)
			}
		}
		b.WriteByte('\n')
	}
	for _, row := range c.rows {
		fmt.Fprintf(&b, " %11d", row.bytes)
		for i, v := range row.busBW {
			fmt.Fprintf(&b, " %20.2f", v/1e9)
			if i > 0 {
				fmt.Fprintf(&b, " %10s", c.ratio(row, i))
			}
		}
		b.WriteByte('\n')
	}
	if c.note != "" {
		fmt.Fprintf(&b, "# %s\n", c.note)
	}
	_, err := w.Write(b.Bytes())
	return err
}
